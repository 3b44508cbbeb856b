package dispatch

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"shoal/recrawl"
)

// TestTimersRingInOrder compares timers with a sorted list, with waits from nothing to two days and leaps of the clock.
func TestTimersRingInOrder(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		stale := map[timer]bool{}
		h := timers{stale: func(t timer) bool { return stale[t] }}
		var want []timer
		now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano()
		for range 3000 {
			switch k := rng.IntN(20); {
			case k < 12:
				wait := time.Duration(rng.Int64N(int64(48*time.Hour) >> rng.IntN(20))).Truncate(time.Second) // so that some ring together
				tm := timer{now + int64(wait), recrawl.Slot(rng.IntN(50))}
				if !slices.Contains(want, tm) && !stale[tm] {
					h.push(tm)
					want = append(want, tm)
				}
			case k < 13 && len(want) > 0:
				i := rng.IntN(len(want))
				stale[want[i]] = true
				want = slices.Delete(want, i, i+1)
			case k < 14:
				h.tidy()
				if h.n != len(want) {
					t.Fatalf("seed %d: %d timers after tidying, want %d", seed, h.n, len(want))
				}
			default:
				now += rng.Int64N(int64(12*time.Hour) >> rng.IntN(16))
				if at := h.first(); len(want) > 0 && (at == 0 || at > slices.MinFunc(want, inOrder).at) {
					t.Fatalf("seed %d: the first rings at %d, after %v", seed, at, slices.MinFunc(want, inOrder))
				}
				slices.SortFunc(want, inOrder)
				for tm, ok := h.pop(now); ok; tm, ok = h.pop(now) {
					if stale[tm] {
						continue
					}
					if len(want) == 0 || want[0] != tm {
						t.Fatalf("seed %d: %v rang before %v", seed, tm, want)
					}
					want = want[1:]
				}
				if len(want) > 0 && want[0].at <= now {
					t.Fatalf("seed %d: %v did not ring by %d", seed, want[0], now)
				}
			}
		}
	}
}

func inOrder(a, b timer) int {
	switch {
	case a.before(b):
		return -1
	case b.before(a):
		return 1
	}
	return 0
}
