package recrawlsim

import (
	"context"
	"math"
	"testing"
	"time"

	"shoal/internal/sim"
	"shoal/recrawl"
)

// pool is a world of known sites that two peers crawl, one page a second: a third of the sites is large.
func pool(sites int) Config {
	s := &Scale{Step: time.Second, Tau: []float64{40, 160}, Threads: 1, Queue: 2, Gap: .9, Page: .1, Start: .1, Term: 20, Backoff: 2, Checkpoint: 600, Room: true,
		WaitLimitMin: 20, Prior: recrawl.Prior(30, .5), MinTicks: 2}
	for i := range sites {
		s.Sites = append(s.Sites, Site{Group: i % 2, Pages: 1 + i%3, Gap: .9})
		s.RTT = append(s.RTT, []float32{.01, .02})
	}
	return Config{Case: "rec", Strategy: "price", Rates: "learnt", Mode: "shoal", Weights: "pages", Seed: 1, Steps: 300, Cap: 2, Crawlers: 2, Scale: s,
		Churn: sim.Churn{Life: 1e8, Gap: 1, Polite: 1}}
}

// TestLateSites has a third of the sites come in the middle, all at once: none of them is crawled before, all are after, and what is fresh is a share of those that are there.
func TestLateSites(t *testing.T) {
	c := pool(30)
	c.Scale.Late, c.Scale.Burst = 10, 150
	r, err := newRun(c, newWorld(c))
	if err != nil {
		t.Fatal(err)
	}
	for step := range c.Steps {
		if step == c.Scale.Burst && r.there != 20 {
			t.Fatalf("%d sites are there before the others come", r.there)
		}
		r.step(step)
		for i := range r.m.of[20:] {
			if of := &r.m.of[20+i]; of.last >= 0 && int(of.last) < c.Scale.Burst {
				t.Fatalf("site %d, which comes at step %d, was crawled at %d", 20+i, c.Scale.Burst, of.last)
			}
		}
	}
	l := r.m.landing
	if l.never > 0 || l.pass < 0 || l.pass >= 150 || l.late < 10 {
		t.Errorf("%d sites never crawled; the first pass took %v steps, that over the late ones %v", l.never, l.pass, l.late)
	}
	before, then := l.looks[149], l.looks[150]
	if want := before.Fresh * 20 / 30; math.Abs(then.Fresh-want) > 3./30 {
		t.Errorf("fresh %v before they come and %v with them, want about %v", before.Fresh, then.Fresh, want)
	}
	for _, bad := range []func(*Scale){func(s *Scale) { s.Late = 30 }, func(s *Scale) { s.Late = -1 }, func(s *Scale) { s.Burst = -1 }, func(s *Scale) { s.Sites[3].Weight = math.Inf(1) }} {
		b := pool(30)
		if bad(b.Scale); b.Validate() == nil {
			t.Errorf("taken: %+v", b.Scale)
		}
	}
}

// TestBoundCountsWhatWasFetched: a task that the end of a run or of its peer finds at work has fetched a part of its pages. If the bound counted all of them, the peers could
// not have done so much in their time, or only farther away than they did.
func TestBoundCountsWhatWasFetched(t *testing.T) {
	for name, moves := range map[string][]Move{
		"the run ends":       {{0, 0, false}, {0, 1, false}},
		"its peer is killed": {{0, 0, false}, {0, 1, false}, {30, 0, false}, {31, 0, false}, {60, 1, false}, {61, 1, false}},
	} {
		c := pool(6)
		c.Steps, c.Scale.Moves = 100, moves
		for i := range c.Scale.Sites {
			c.Scale.Sites[i].Pages = 70
		}
		row, err := Run(context.Background(), c, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if l := row.Landing; !(l.RTTBound > 0 && l.RTTBound <= l.RTT+1e-9) {
			t.Errorf("%s: mean round-trip time %v, and it cannot be below %v", name, l.RTT, l.RTTBound)
		}
	}
}

// TestBoundOfWhatFitsHardly: measured means may say that a little more was done than there was time for. That is no reason to know no bound.
func TestBoundOfWhatFitsHardly(t *testing.T) {
	s := pool(4).Scale
	tasks, pages := []float64{5, 5, 5, 5}, []float64{10, 10, 10, 10}
	full, hardly := s.LeastRTT(tasks, pages, []float64{21, 21.5}), s.LeastRTT(tasks, pages, []float64{19, 19.5})
	if !(hardly > 0 && math.Abs(hardly-full) < .001) {
		t.Errorf("the bound is %v where all fits hardly, and %v where it just does not", full, hardly)
	}
	if got := s.LeastRTT(tasks, pages, []float64{10, 10}); got != 0 {
		t.Errorf("in half of the time: %v", got)
	}
}

// TestImportance gives a third of the sites ten times the weight of others: freshness by weight differs from that of sites only then, and who looks at weights has more of it.
func TestImportance(t *testing.T) {
	run := func(strategy string, heavy float64) *Landing {
		c := pool(120)
		c.Strategy = strategy
		for i := range c.Scale.Sites {
			if i/2%3 == 0 {
				c.Scale.Sites[i].Weight = heavy
			}
		}
		row, err := Run(context.Background(), c, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		return row.Landing
	}
	if even := run("price", 0); math.Abs(even.Fresh-even.Weight) > 1e-9 {
		t.Errorf("fresh %v, and %v by weights that are all 1", even.Fresh, even.Weight)
	}
	price, icr := run("price", 10), run("icr", 10)
	if price.Weight < price.Fresh*1.1 {
		t.Errorf("price: fresh %v, and only %v by weight", price.Fresh, price.Weight)
	}
	if price.Weight/price.Fresh <= icr.Weight/icr.Fresh {
		t.Errorf("by weight over by sites: price %v of %v, icr %v of %v", price.Weight, price.Fresh, icr.Weight, icr.Fresh)
	}
}
