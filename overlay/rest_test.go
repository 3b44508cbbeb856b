package overlay

import (
	"testing"
	"time"
)

// TestRestIsShared checks that at rest no node speaks and answers much more often than others, wherever it is, and
// that every node measures.
func TestRestIsShared(t *testing.T) {
	const minutes = 30
	w := grow(t, 3, 80, time.Hour)
	before := map[ID]int64{}
	for _, id := range w.ids {
		before[id] = w.hosts[id].node.Counts()["gossip"]
	}
	w.sent = map[ID]int{}
	w.run(minutes * time.Minute)
	sum := 0
	for _, id := range w.ids[1:] {
		sum += w.sent[id]
		if r := float64(w.sent[id]) / minutes; r > 2.4 {
			t.Errorf("%s sent %.2f messages a minute", id, r)
		}
		if own := w.hosts[id].node.Counts()["gossip"] - before[id]; own < minutes/longestSilence-1 {
			t.Errorf("%s gossiped %d times in %d minutes", id, own, minutes)
		}
	}
	if mean := float64(sum) / float64(len(w.ids)-1) / minutes; mean < 1.7 || mean > 2 {
		t.Errorf("%.2f messages a minute on average", mean)
	}
}
