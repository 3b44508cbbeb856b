package overlay

import (
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"shoal/coords"
)

// TestFindAgreesWithAMap adds and removes entries as a table does and compares every look-up with a map.
func TestFindAgreesWithAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tab := newTable(&coords.Coord{}, time.Hour, 0)
		want := map[ID]int{}
		for range rapid.IntRange(0, 300).Draw(t, "steps") {
			id := ID(strconv.Itoa(rapid.IntRange(0, 90).Draw(t, "id")))
			if i, ok := want[id]; !ok {
				want[id] = len(tab.entries)
				tab.hear(time.Time{}, &PeerRecord{ID: id})
			} else {
				last := len(tab.entries) - 1
				want[tab.entries[last].rec.ID] = i
				delete(want, id)
				tab.remove(i)
			}
			for k := range 91 {
				id := ID(strconv.Itoa(k))
				i, ok := want[id]
				if !ok {
					i = -1
				}
				if got := tab.find(id); got != i {
					t.Fatalf("%s is at %d, want %d", id, got, i)
				}
			}
		}
	})
}
