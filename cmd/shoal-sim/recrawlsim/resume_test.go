package recrawlsim

import (
	"context"
	"testing"
)

// TestPeerGoesOn has the only peer killed in the midst of the only site, and there again 10 steps later, or after its lease has lapsed. It goes on behind the last page that it fetched if peers keep what
// they have; else the site waits for the lapse, and what was fetched since the last chunk is fetched again.
func TestPeerGoesOn(t *testing.T) {
	const pages, killed = 60, 36
	pass := func(keeps bool, back int) float64 {
		t.Helper()
		c := pool(1)
		c.Steps, c.Crawlers = 300, 1
		s := c.Scale
		s.Sites[0].Pages, s.RTT[0], s.Keeps, s.Checkpoint, s.Term = pages, []float32{.01}, keeps, 20, 60
		s.Moves = []Move{{0, 0, false}, {killed, 0, false}, {back, 0, false}}
		row, err := Run(context.Background(), c, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		return row.Landing.FirstPass
	}
	for _, tt := range []struct {
		keeps    bool
		back     int
		from, to float64
	}{
		{true, killed + 10, pages + 10, pages + 10 + 5},                 // its lease runs
		{false, killed + 10, 20 + 60 + pages - 20, 20 + 60 + pages},     // the lease ends a term after the chunk of step 20
		{true, killed + 80, killed + 80 + 20, killed + 80 + pages - 30}, // it has lapsed: the peer brings what it had, and goes on with a new one
		{false, killed + 80, killed + 80 + pages - 21, killed + 80 + pages - 10},
	} {
		if got := pass(tt.keeps, tt.back); got < tt.from || got > tt.to {
			t.Errorf("keeps %v, back at %d: crawled after %v, want %v to %v", tt.keeps, tt.back, got, tt.from, tt.to)
		}
	}
}
