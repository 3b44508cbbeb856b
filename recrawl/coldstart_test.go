package recrawl

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// coldSwarm is a swarm that starts from nothing: channels never crawled whose rates are learnt, and threads that are all there at once.
type coldSwarm struct {
	s       *Scheduler
	rng     *rand.Rand
	tau     []float64
	service []float64
	threads int

	running int
	waiting []Slot
	ends    map[Tick][]Slot
	seen    []Tick // when each channel's copy was made; 0: there is none
	idle    float64
}

// newColdSwarm has so many threads that they can crawl every channel so many times in the mean time between its changes.
func newColdSwarm(t *testing.T, name string, times float64, seed uint64) *coldSwarm {
	t.Helper()
	const channels = 300
	initial := []float64{20, 40, 80, 160, 320}
	c := &coldSwarm{rng: rand.New(rand.NewPCG(seed, 1)), ends: map[Tick][]Slot{}, seen: make([]Tick, channels)}
	c.s = NewScheduler(1, must(t, name, Params{PlanEvery: map[bool]float64{true: 40}[name == "optimal" || name == "cycle"]}),
		Options{Cap: 2, MinTicks: 2, MaxOut: 1, Initial: initial, Prior: Prior(30, .5)})
	need := 0.
	for range channels {
		tau := initial[min(int(math.Abs(c.rng.NormFloat64()+2)+.5), 4)]
		service := 8 * math.Exp(.8*c.rng.NormFloat64())
		c.tau, c.service = append(c.tau, tau), append(c.service, service)
		need += service / tau
		c.s.Add(Facts{Weight: float32(max(service/8, .1))})
	}
	c.threads = max(int(times*need), 1)
	return c
}

// firstPass is how long the threads need for every channel once.
func (c *coldSwarm) firstPass() float64 {
	all := 0.
	for _, v := range c.service {
		all += v
	}
	return max(all/float64(c.threads), slices.Max(c.service))
}

// step is one tick, after which fresh is the expected share of fresh channels.
func (c *coldSwarm) step(t *testing.T, now Tick) (fresh float64) {
	t.Helper()
	for _, at := range c.ends[now] {
		c.running--
		changed := c.seen[at] == 0 || c.rng.Float64() < -math.Expm1(-float64(now-c.seen[at])/c.tau[at])
		c.seen[at] = now
		c.s.Observe(now, at, Event{Kind: Updated, Changed: changed, Wait: -1, Service: float32(c.service[at])})
	}
	delete(c.ends, now)
	c.run(now)
	if plan := c.s.Strategy().Plan(now); plan != nil {
		adopt, err := plan(context.Background(), c.s.Snapshot())
		if err != nil {
			t.Fatal(err)
		}
		adopt()
		c.s.Rerank()
	}
	take := func(at Slot) (Tick, bool) {
		c.waiting = append(c.waiting, at)
		c.s.Observe(now, at, Event{Kind: Accepted, Wait: 1})
		return 0, true
	}
	out := c.running + len(c.waiting)
	c.s.Next(now, Load{Room: c.threads*6/5 + 1 - out, Out: out, Threads: c.threads, Idle: max(c.threads-out, 0)}, take)
	c.s.Spare(now, c.threads-c.running-len(c.waiting), all, take)
	c.run(now)
	if c.running < c.threads && c.wanted(now) {
		c.idle += float64(c.threads - c.running)
	}
	for i, at := range c.seen {
		if at > 0 {
			fresh += math.Exp(-float64(now-at) / c.tau[i])
		}
	}
	return fresh / float64(len(c.seen))
}

// run gives free threads what waits.
func (c *coldSwarm) run(now Tick) {
	for c.running < c.threads && len(c.waiting) > 0 {
		at := c.waiting[0]
		c.waiting = c.waiting[1:]
		c.running++
		end := now + max(Tick(math.Round(c.service[at])), 1)
		c.ends[end] = append(c.ends[end], at)
	}
}

// wanted says whether the limits allow a channel that is missing or probably stale, by a look at all.
func (c *coldSwarm) wanted(now Tick) bool {
	for i := range c.seen {
		f := c.s.Facts(Slot(i))
		allowed := f.Submitted == 0 || float64(now-f.Submitted) >= math.Ceil(max(f.Est.Interval()/2, 2))
		if f.Out == 0 && allowed && (f.Updated == 0 || float64(now-f.Updated)*f.Est.Rate() >= math.Ln2) {
			return true
		}
	}
	return false
}

// Every strategy but fixed is at nine tenths of its steady freshness before the first pass over all channels could be done by a quarter more
// than the time that it needs, and no thread is idle while something is missing or stale.
func TestColdStart(t *testing.T) {
	for _, name := range Names() {
		for _, times := range []float64{.5, 1, 2} {
			t.Run(fmt.Sprintf("%s/%v", name, times), func(t *testing.T) {
				t.Parallel()
				c := newColdSwarm(t, name, times, 1)
				first := c.firstPass()
				ticks := Tick(12 * first)
				fresh := make([]float64, ticks+1)
				steady, idleFirst := 0., 0.
				for now := Tick(1); now <= ticks; now++ {
					fresh[now] = c.step(t, now)
					if now > ticks/2 {
						steady += fresh[now] / float64(ticks-ticks/2)
					}
					if now == Tick(first) {
						idleFirst = c.idle / float64(now) / float64(c.threads)
					}
				}
				reached := slices.IndexFunc(fresh, func(v float64) bool { return v >= .9*steady })
				idle := c.idle / float64(ticks) / float64(c.threads)
				t.Logf("%d threads, first pass %.0f, 90%% of %.3f at %d (%.2f), idle while stale %.3f, in the first pass %.3f", c.threads, first, steady, reached, float64(reached)/first, idle, idleFirst)
				if name == "fixed" {
					return // whose intervals are the operator's word
				}
				if float64(reached) > 1.25*first {
					t.Errorf("90%% of the steady freshness after %.2f first passes, want 1.25", float64(reached)/first)
				}
				if idle > .05 || idleFirst > .05 {
					t.Errorf("threads idle while something is stale: %.3f, in the first pass %.3f, want .05", idle, idleFirst)
				}
			})
		}
	}
}
