package recrawl

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestCalendarAgainstList compares the calendar with a list of what was added, latest first.
func TestCalendarAgainstList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var cells table
		w := newCalendar(&cells)
		var list []Slot // in the calendar, in the order of adding
		for range rapid.IntRange(1, 200).Draw(t, "slots") {
			cells.grow()
		}
		drop := func(s Slot) { list = slices.DeleteFunc(list, func(o Slot) bool { return o == s }) }
		wait := rapid.OneOf(rapid.IntRange(0, 3), rapid.IntRange(wheelSize-2, wheelSize+2), rapid.IntRange(0, 3*wheelSize))
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			default:
				s := Slot(rapid.IntRange(0, cells.n-1).Draw(t, "slot"))
				c := cells.at(s)
				if c.Flags&inWheel != 0 {
					w.remove(c)
					drop(s)
				}
				w.add(s, c, w.at+Tick(wait.Draw(t, "due")))
				list = append(list, s)
			case 0:
				if s := Slot(rapid.IntRange(0, cells.n-1).Draw(t, "slot")); cells.at(s).Flags&inWheel != 0 {
					w.remove(cells.at(s))
					drop(s)
				}
			case 1:
				w.compact()
				if w.entries != w.live {
					t.Fatalf("%d entries of %d slots are left", w.entries, w.live)
				}
			case 2:
				now := w.at + Tick(wait.Draw(t, "now"))
				var want, got []Slot
				for at := max(w.at, now-wheelSize) + 1; at <= now; at++ {
					for _, s := range slices.Backward(list) {
						if c := cells.at(s); c.due <= now && (c.due-at)%wheelSize == 0 {
							want = append(want, s)
						}
					}
				}
				if now > w.at {
					w.advance(now, func(s Slot, _ *cell) { got = append(got, s) })
				}
				if !slices.Equal(got, want) {
					t.Fatalf("up to %d came %v, want %v", now, got, want)
				}
				for _, s := range got {
					drop(s)
				}
			}
			if w.live != len(list) {
				t.Fatalf("%d slots in the calendar, want %d", w.live, len(list))
			}
		}
	})
}

// TestCalendarDropsStale: slots that move on and on do not fill memory.
func TestCalendarDropsStale(t *testing.T) {
	var cells table
	w := newCalendar(&cells)
	const n = 1000
	for range n {
		cells.grow()
	}
	for i := range 300 * n {
		s := Slot(i % n)
		c := cells.at(s)
		if c.Flags&inWheel != 0 {
			w.remove(c)
		}
		w.add(s, c, w.at+5000+Tick(i%777))
		if s == n-1 {
			w.advance(w.at+1, func(Slot, *cell) { t.Error("came too soon") })
		}
	}
	if most := 3*n + wheelSize; w.entries > most {
		t.Fatalf("%d entries of %d slots, want at most %d", w.entries, n, most)
	}
}

func TestReadyItemOrder(t *testing.T) {
	values := []float32{float32(math.Inf(1)), math.MaxFloat32, 2, 1, 1e-40, 0, -1e-40, -1, -2, -math.MaxFloat32}
	for i, v := range values {
		a, b := newReadyItem(v, 7), newReadyItem(v, 8)
		if a.value() != v || a.slot() != 7 || a >= b {
			t.Errorf("%v of slot 7: %v of slot %d, %t before slot 8", v, a.value(), a.slot(), a < b)
		}
		if i > 0 && newReadyItem(values[i-1], 9) >= a {
			t.Errorf("%v does not come before %v", values[i-1], v)
		}
	}
	if newReadyItem(float32(math.Copysign(0, -1)), 7) != newReadyItem(0, 7) {
		t.Error("minus zero is not zero")
	}
}

// TestHistBinAgainstLogarithm: no digit decides otherwise, even beside an edge.
func TestHistBinAgainstLogarithm(t *testing.T) {
	slow := func(interval float64) int {
		return min(max(int(math.Floor(math.Log2(interval)*histScale))+histShift, 0), histBins-1)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	for range 100_000 {
		if x := math.Exp(50*rng.Float64() - 15); histBin(x) != slow(x) {
			t.Fatalf("bin of %v is %d, want %d", x, histBin(x), slow(x))
		}
	}
	for k := -20 * histScale; k < 40*histScale; k++ {
		x := math.Exp2(float64(k) / histScale)
		for _, x := range []float64{x, math.Nextafter(x, 0), math.Nextafter(x, math.Inf(1)), x * (1 - 1e-15), x * (1 + 1e-15), x * (1 - 2e-12), x * (1 + 2e-12)} {
			if histBin(x) != slow(x) {
				t.Fatalf("bin of %v is %d, want %d", x, histBin(x), slow(x))
			}
		}
	}
}

// TestAgeIsNoLaterThanLeast: what is spared where least holds anyway changes no tick.
func TestAgeIsNoLaterThanLeast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := Facts{Est: Exactly(math.Exp(rapid.Float64Range(1, 12).Draw(t, "interval")))}
		least := Tick(rapid.IntRange(-5, 100_000).Draw(t, "least"))
		value := rapid.Float64Range(0, 1.1).Draw(t, "share") / f.Est.Rate()
		exact := wholeTicks(freshIndex{}.age(&f, value, 0))
		if got := wholeTicks(freshIndex{}.age(&f, value, float64(least))); max(got, least) != max(exact, least) {
			t.Fatalf("value %v at least %d: %d, want %d", value, least, got, exact)
		}
	})
}
