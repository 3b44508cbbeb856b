package recrawlsim

import (
	"math"
	"testing"

	"shoal/internal/sim"
)

// TestNothingExceedsTheBounds: neither under a cap and with one out, nor without.
func TestNothingExceedsTheBounds(t *testing.T) {
	for _, capRate := range []float64{0, 2} {
		for _, mode := range []string{"paper", "shoal"} {
			for _, name := range []string{"fixed", "icr", "price"} {
				c := small(name, mode)
				c.Cap, c.Out = capRate, 1
				w := newWorld(c)
				b, r := w.bound(c), mustRun(t, c)
				const border = 1 + 1e-9 // rounding
				if !(r.Qw <= border*b.qw && r.Q <= border*b.q && r.Freshness <= border*b.fresh) {
					t.Errorf("cap %v, mode %s, %s: Qw %.2f, Q %.3f, freshness %.3f beyond the bounds %+v", capRate, mode, name, r.Qw, r.Q, r.Freshness, b)
				}
				if mode != "shoal" {
					continue
				}
				d := newDual(w, w.mostOften(c))
				settled := d.bound(quartiles{})
				d.free = 2 / (float64(w.steps) * 3 / 4) // from before
				if large := d.bound(quartiles{largest: r.SettledQuartile[largest]}); !(r.FreshnessSettled <= border*large && settled <= 1.001*b.fresh) {
					t.Errorf("cap %v, %s: freshness %.4f after the first quarter, at most %.4f with the largest quartile as fresh; any schedule %.4f in the long run, %.4f at no distance",
						capRate, name, r.FreshnessSettled, large, settled, b.fresh)
				}
			}
		}
	}
}

// TestDualByHand: one peer of a thread near two hosts at no distance, where the dual must be what freshest finds; and as much less as it must be if the larger
// channel is to be as fresh as the smaller.
func TestDualByHand(t *testing.T) {
	w := &world{experiment: experiment{groups: []int{2}, steps: 1000, crawlers: 1}, group: []uint8{0, 0}, tau: []float64{100, 100}, pages: []float32{1000, 2000},
		quartile: []uint8{0, largest}, perPage: []float32{3}, hosts: make([]sim.Point, 2), crawlers: make([]sim.Point, 1),
		near: nearby{each: 1, narrow: []uint16{0, 0}}, churn: sim.Churn{Life: 1e9, Gap: 1}, scale: &Scale{Threads: 1}}
	most := []float64{1. / 100, 1. / 100}
	pages := 20. // a minute, of a thread
	d := newDual(w, most)
	if got, want := d.bound(quartiles{}), w.freshest(most, pages); math.Abs(got-want) > 1e-3 {
		t.Errorf("bound %v, want %v", got, want)
	}
	rate := pages / 3000 * 100 // of both, a change interval
	want := rate * -math.Expm1(-1/rate)
	if got := d.bound(quartiles{largest: want}); got < want || got > want+5e-3 {
		t.Errorf("bound %v with both as fresh, want %v or hardly more", got, want)
	}
}

// TestDualByTrying: two peers, and three channels between them of random sizes, change intervals and places. All ways to share out the peers' minutes are
// tried, in steps. The dual must be at least the best of them, and hardly more; also if the largest channel must be fresher than it is then.
func TestDualByTrying(t *testing.T) {
	const parts = 24 // steps of a peer's minutes
	rng := sim.Rand(1, "duals")
	for range 4 {
		w := &world{experiment: experiment{groups: []int{3}, steps: 1000, crawlers: 2}, group: []uint8{0, 0, 0}, quartile: []uint8{0, 2, largest}, perPage: []float32{3, 4},
			crawlers: []sim.Point{{X: 0}, {X: 1000}}, near: nearby{each: 2, narrow: []uint16{0, 1, 0, 1, 0, 1}}, churn: sim.Churn{Life: 1e9, Gap: 1}, scale: nil}
		most := []float64{1, 1, 1}
		for range 3 {
			w.hosts = append(w.hosts, sim.Point{X: 1000 * rng.Float64()})
			w.tau = append(w.tau, 20+40*rng.Float64())
			w.pages = append(w.pages, 1000+float32(len(w.pages))*2000*rng.Float32())
		}
		w.meanPages = 2000
		best := func(atLeast float64) (f, large float64) {
			var rate [2][3]float64 // updates a minute if a peer gives a channel all its minutes
			for p := range rate {
				for c := range rate[p] {
					rate[p][c] = threads / w.minutesPerPage(int32(c), int32(p)) / float64(w.pages[c])
				}
			}
			ways := [][3]float64{}
			for a := range parts + 1 {
				for b := range parts + 1 - a {
					ways = append(ways, [3]float64{float64(a) / parts, float64(b) / parts, float64(parts-a-b) / parts})
				}
			}
			for _, u := range ways {
				for _, v := range ways {
					sum, last := 0., 0.
					for c := range 3 {
						last = 0
						if r := (u[c]*rate[0][c] + v[c]*rate[1][c]) * w.tau[c]; r > 0 {
							last = r * -math.Expm1(-1/r)
						}
						sum += last
					}
					if sum > f && last >= atLeast {
						f, large = sum, last
					}
				}
			}
			return f / 3, large
		}
		const near = .004 // the steps, and that the dual spreads pages over peers that cost about the same, ever fewer of them
		d := newDual(w, most)
		free, large := best(0)
		if got := d.bound(quartiles{}); got < free || got > free+near {
			t.Errorf("any schedule: bound %.4f, by trying %.4f", got, free)
		}
		more := large + .06
		kept, _ := best(more)
		if got := d.bound(quartiles{largest: more}); got < kept || got > kept+near {
			t.Errorf("largest at least %.3f instead of %.3f: bound %.4f, by trying %.4f (%.4f without that)", more, large, got, kept, free)
		}
	}
}

// TestBoundsByHand: two channels of the same interval, the larger of twice the pages, and pages for one and a half of the smaller a change interval.
func TestBoundsByHand(t *testing.T) {
	w := &world{experiment: experiment{groups: []int{2}}, group: []uint8{0, 0}, tau: []float64{100, 100}, pages: []float32{1000, 2000}}
	most := []float64{1. / 100, 1. / 100}
	if q := w.fill(most, 20, func(int) float64 { return 1 }); math.Abs(q-.75) > 1e-9 { // all of the smaller, half of the larger
		t.Errorf("Q %v, want .75", q)
	}
	if f, want := w.freshest(most, 1e9), 1-math.Exp(-1); math.Abs(f-want) > 1e-3 { // crawled once a change interval
		t.Errorf("freshness %v, want %v", f, want)
	}
	f := w.freshest(most, 20)
	best := 0.
	for x := .01; x < 1; x += .001 { // the smaller one's rate, by trying
		y := min((2-x)/2, 1) // the larger one's, from the pages that are left
		best = max(best, (x*-math.Expm1(-1/x)+y*-math.Expm1(-1/y))/2)
	}
	if math.Abs(f-best) > 1e-3 {
		t.Errorf("freshness %v, want %v", f, best)
	}
}
