package manager

import "testing"

func TestSequenceShares(t *testing.T) {
	run := func(q *sequence, room, fresh, old int) (n, o int) {
		q.begin(room)
		for range fresh {
			if n+o < room && q.may(true) {
				q.took(true)
				n++
			}
		}
		for range old {
			if n+o < room && q.may(false) {
				q.took(false)
				o++
			}
		}
		q.end(room)
		return n, o
	}
	for _, x := range []struct {
		share            float64
		room, fresh, old int
		wantNew, wantOld int // of the second round, when it is known who waits
	}{
		{0, 10, 20, 20, 10, 0}, // the strategy's order: here new ones first
		{.3, 10, 20, 20, 3, 7},
		{.3, 10, 0, 20, 0, 10},
		{.3, 10, 20, 0, 10, 0},
		{.01, 10, 20, 20, 1, 9},
		{.5, 0, 20, 20, 0, 0},
	} {
		q := &sequence{share: x.share}
		run(q, x.room, x.fresh, x.old)
		n, o := run(q, x.room, x.fresh, x.old)
		if n != x.wantNew || o != x.wantOld {
			t.Errorf("share %g, room %d, %d new and %d old wait: took %d and %d, want %d and %d", x.share, x.room, x.fresh, x.old, n, o, x.wantNew, x.wantOld)
		}
	}
}
