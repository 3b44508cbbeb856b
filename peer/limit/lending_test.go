package limit

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A day of 2400 bytes in 24 steps.
var begins = time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)

func at(hour float64) time.Time { return begins.Add(time.Duration(hour * float64(time.Hour))) }

func TestWaits(t *testing.T) {
	for _, c := range []struct {
		why     string
		hour    float64
		weights []int
		used    []int64
		want    []float64 // hours; 0: may go on
	}{
		{"nothing is used", 12, []int{1, 1}, []int64{0, 0}, []float64{0, 0}},
		{"one has used its share, and the other had no time yet", 0.5, []int{1, 1}, []int64{1200, 0}, []float64{1, 0}},
		{"after an hour of rest it may have the other's hour", 1, []int{1, 1}, []int64{1200, 0}, []float64{0, 0}},
		{"and no more than that", 1.5, []int{1, 1}, []int64{1250, 0}, []float64{2, 0}},
		{"in the last hour it has had all but that hour's", 23.5, []int{1, 1}, []int64{2350, 0}, []float64{24, 0}},
		{"the other keeps up with its time", 6, []int{1, 1}, []int64{1200, 700}, []float64{15, 0}},
		{"both have used theirs up", 12, []int{1, 1}, []int64{1200, 1200}, []float64{24, 24}},
		{"by weight", 2, []int{1, 2}, []int64{800, 200}, []float64{4, 0}},
		{"by weight, the larger one lends", 3, []int{1, 2}, []int64{800, 100}, []float64{0, 0}},
		{"of two that want more, what one took the other cannot", 12, []int{1, 1, 1}, []int64{1200, 800, 0}, []float64{13, 13, 0}},
		{"more than everything, as after a restart", 12, []int{1, 1}, []int64{2500, 0}, []float64{13, 0}},
		{"a clock that was set back", -5, []int{1, 1}, []int64{1200, 0}, []float64{1, 0}},
		{"alone", 1, []int{1}, []int64{2400}, []float64{24}},
	} {
		var l Lending
		b := Budget{Whole: 2400, Begins: begins, Ends: at(24), Steps: 24}
		for i, got := range l.Waits(b, at(c.hour), []string{"a", "b", "c"}[:len(c.weights)], c.weights, c.used) {
			var want time.Time
			if c.want[i] != 0 {
				want = at(c.want[i])
			}
			if !got.Equal(want) {
				t.Errorf("%s: %d waits until %v, want %v", c.why, i, got, want)
			}
		}
	}
}

// TestLending lets networks use a budget as chance has it, a byte at a time and never more than the whole together. One that begins late finds the part of its
// share for the time that remains, whatever the others took before.
func TestLending(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := Budget{Whole: rapid.Int64Range(0, 3000).Draw(t, "whole"), Begins: begins, Ends: at(24), Steps: 24}
		weights := rapid.SliceOfN(rapid.IntRange(1, 5), 2, 5).Draw(t, "weights")
		used, who, sum, left := make([]int64, len(weights)), make([]string, len(weights)), 0, b.Whole
		var l Lending
		for _, w := range weights {
			sum += w
		}
		late := rapid.IntRange(0, 23).Draw(t, "the last one begins at")
		for hour := range 24 {
			for i := range weights {
				want := rapid.Int64Range(0, b.Whole+1).Draw(t, "wants")
				switch last := i == len(weights)-1; {
				case last && hour < late:
					want = 0
				case last || hour == 23:
					want = b.Whole + 1 // all it can get
				}
				for ; want > 0 && left > 0 && l.Waits(b, at(float64(hour)), who, weights, used)[i].IsZero(); want-- {
					used[i]++
					left--
				}
			}
		}
		last := len(weights) - 1
		share := b.Whole * int64(weights[last]) / int64(sum)
		if least := share * int64(24-late) / 24; used[last] < least {
			t.Fatalf("who began at %d with a share of %d had %d, and %d was its own: %v by %v", late, share, used[last], least, used, weights)
		}
	})
}

// TestLendingAfterARestart: what one network has used beyond its share is taken from what others can lend, once, however large the budget is, and leaves each its share
// for the time that remains.
func TestLendingAfterARestart(t *testing.T) {
	b := Budget{Whole: 12 << 40, Begins: begins, Ends: at(24), Steps: 24}
	var l Lending
	l.Waits(b, at(12), []string{"a", "b"}, []int{1, 1}, []int64{9 << 40, 0})
	if want := int64(3 << 40); l.allowed[1] != want {
		t.Errorf("of its 6 TiB the second one lent 3: it may have %d, want %d", l.allowed[1], want)
	}
	rapid.Check(t, func(t *rapid.T) {
		const most = 1 << 51 // as many bytes as a setting can allow
		b := Budget{Whole: rapid.Int64Range(0, most).Draw(t, "whole"), Begins: begins, Ends: at(24), Steps: 24}
		weights := rapid.SliceOfN(rapid.IntRange(1, 1000), 2, 8).Draw(t, "weights")
		used, left := make([]int64, len(weights)), b.Whole
		for i := range used {
			used[i] = rapid.Int64Range(0, left).Draw(t, "used")
			left -= used[i]
		}
		step := rapid.IntRange(0, 23).Draw(t, "hour")
		fresh := Lending{budget: b, weights: weights, allowed: make([]int64, len(weights))}
		over, sum := int64(0), int64(0)
		for i := range weights {
			fresh.allowed[i] = max(fresh.share(i), used[i])
			over += max(used[i]-fresh.share(i), 0)
		}
		spare, pool := fresh.spare(step, used)
		var l Lending
		l.begin(b, step, make([]string, len(weights)), weights, used)
		for i, a := range l.allowed {
			if less := fresh.allowed[i] - a; less < 0 || less > spare[i] {
				t.Fatalf("%d may have %d after it had %d, of which it could lend %d", i, a, fresh.allowed[i], spare[i])
			}
			sum += a
		}
		if pool >= over && sum > b.Whole {
			t.Fatalf("together they may have %d of %d", sum, b.Whole)
		}
	})
}
