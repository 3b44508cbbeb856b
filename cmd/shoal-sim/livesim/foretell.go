package livesim

import (
	"context"
	"fmt"
	"math"
	"time"

	"shoal/cmd/shoal-sim/recrawlsim"
	"shoal/internal/lab/pond"
	"shoal/internal/sim"
	"shoal/peer/queue"
	"shoal/recrawl"
)

// places is how many tasks wait at a peer; the peers are told.
const places = 5

// steps are how many steps of the simulator a time is: one is a tick of the pond's manager.
func steps(d time.Duration) float64 { return d.Seconds() / pond.Tick.Seconds() }

// foretell asks the recrawl simulator for the same world: the same sizes, change rates, waits, distances, threads, comings and goings.
// It is told what a page and a task cost, since a busy machine makes both slower.
//
// Other forecasts differ from that one by less than a run measures. What they foretell differs by more where a few large crawls decide, and whether a peer goes before their ends.
func (c *cell) foretell(ctx context.Context, world *pond.World, ports []int, measured costs, begun time.Time, moves []recrawlsim.Move, row *Row) error {
	if err := c.foretellOne(ctx, world, ports, measured, begun, moves, row); err != nil || c.Alike == 0 {
		return err
	}
	r := Range{row.SimFresh, row.SimFresh, row.SimUpdatesPerMin, row.SimUpdatesPerMin}
	for i := range c.Alike {
		other, costs := *row, measured
		costs.page += unnoticed.Seconds() * (2*(float64(i)+.5)/float64(c.Alike) - 1)
		if err := c.foretellOne(ctx, world, ports, costs, begun, moves, &other); err != nil {
			return err
		}
		r.SimFreshLeast, r.SimFreshMost = min(r.SimFreshLeast, other.SimFresh), max(r.SimFreshMost, other.SimFresh)
		r.SimUpdatesLeast, r.SimUpdatesMost = min(r.SimUpdatesLeast, other.SimUpdatesPerMin), max(r.SimUpdatesMost, other.SimUpdatesPerMin)
	}
	row.Range = &r
	return nil
}

// unnoticed is by how much more or less what a page takes is in forecasts that are alike.
const unnoticed = 500 * time.Microsecond

func (c *cell) foretellOne(ctx context.Context, world *pond.World, ports []int, costs costs, begun time.Time, moves []recrawlsim.Move, row *Row) error {
	length := int(c.Minutes * 60)
	cfg := recrawlsim.Config{Case: "rec", Strategy: c.Strategy, Rates: "learnt", Mode: "shoal", Weights: c.Weights, Seed: c.Seed, Steps: length, Cap: c.Cap,
		Crawlers: c.Peers, Scale: c.scale(world, ports, costs), Churn: sim.Churn{Life: 1e8, Gap: 1, Polite: 1}}
	cfg.Scale.Shows = func(site, page int, step float64) uint64 {
		return world.Version(site, page, begun.Add(time.Duration(step*float64(time.Second)))).Text
	}
	cfg.Scale.Moves, cfg.Scale.Keeps = moves, true
	if row.Burst != nil {
		cfg.Scale.Late, cfg.Scale.Burst = c.late(len(world.Hosts())), int(math.Round(row.AtS))
	}
	if len(moves) > 0 {
		cfg.Scale.Come = moves[0].Step
	}
	if c.Strategy == "optimal" || c.Strategy == "cycle" {
		cfg.Params.PlanEvery = pond.PlanEvery
	}
	told, err := recrawlsim.Run(ctx, cfg, nil, nil)
	if err != nil {
		return fmt.Errorf("the simulator: %w", err)
	}
	l := told.Landing
	row.SimFresh, row.SimUpdatesPerMin = round(told.Freshness, 4), round(float64(told.Updates)/c.Minutes, 1)
	row.SimFreshSteady, row.SimSteady90S, row.SimFirstPassS, row.SimIdleShare = round(l.Steady, 4), l.Steady90, l.FirstPass, round(l.Missed, 4)
	row.SimFreshWeight, row.SimFreshBySize = round(l.Weight, 4), round(told.FreshnessPages, 4)
	if row.Burst != nil {
		row.SimPassS = l.LatePass
	}
	for i, k := range l.Looks {
		row.foretold = append(row.foretold, sample{at: float64(i + 1), fresh: k.Fresh, freshWeight: k.Weight, threads: k.Offered.Seconds(), missed: k.Missed.Seconds()})
	}
	row.SimPagesPerMin = round(60*told.PagesPerMin, 1)
	row.SimRTTChosenMS, row.SimRTTBoundMS = round(1000*l.RTT, 1), round(1000*l.RTTBound, 1)
	return nil
}

// costs are what a page and a task take beside waits and round trips, in seconds. That of a task may be a little less than nothing, where the pages took less than the mean says.
type costs struct{ page, task float64 }

var usualCosts = costs{pageCost.Seconds(), taskStart.Seconds()}

// costs are those of a run: of a page by the time between two pages of a crawl, of a task by what is left of the threads' time while their peers were there.
func (n *network) costs(w *watched) costs {
	if len(w.series) == 0 || w.steps == 0 {
		return usualCosts
	}
	last := w.series[len(w.series)-1]
	rtt := last.chosen / max(last.placed, 1)
	page := w.over / float64(w.steps) // with the round trip
	left, tasks := last.threads-last.idle-n.ghosts(w), 0
	for i, v := range w.served {
		left -= float64(v.pages) * (max(pond.Gap, n.world.Hosts()[i].CrawlDelay).Seconds() + page)
		tasks += v.tasks
	}
	claims := 0.
	for _, p := range n.ports[1:] {
		claims += 2 * n.world.NodeRTT(n.ports[0], p).Seconds() / float64(n.Peers)
	}
	c := costs{page: max(page-rtt, 0)}
	c.task = max(left/float64(max(tasks, 1))-claims, -pond.Gap.Seconds()-c.page)
	return c
}

// scale is the world as the simulator takes it.
func (c *cell) scale(world *pond.World, ports []int, costs costs) *recrawlsim.Scale {
	s := &recrawlsim.Scale{Step: pond.Tick, Threads: c.Threads, Queue: places, Gap: steps(pond.Gap), Page: costs.page, Assumed: steps(queue.Default().Service), Start: costs.task,
		Term: steps(pond.Term), Slack: steps(pond.Slack), Backoff: steps(pond.Backoff), MaxBackoff: steps(pond.MaxBackoff),
		Checkpoint: steps(pond.Term) / 3, // as lease.Terms says; a MiB, which is stored at once, no site of the world has
		Room:       true, WaitLimitMin: steps(pond.Term), Prior: recrawl.Prior(pond.PriorTicks, pond.PriorStrength), MinTicks: pond.MinTicks, Tau: taus(world)}
	for _, p := range ports[1:] {
		s.Claims = append(s.Claims, 2*float32(world.NodeRTT(ports[0], p).Seconds()))
	}
	weights := c.weights(len(world.Hosts()))
	for i := range world.Hosts() {
		h := &world.Hosts()[i]
		site := recrawlsim.Site{Group: h.Class, Pages: h.Pages, Gap: max(pond.Gap, h.CrawlDelay).Seconds()}
		if weights != nil {
			site.Weight = weights[i]
		}
		s.Sites = append(s.Sites, site)
		s.Links = append(s.Links, links(world, i))
		var rtt []float32
		for _, p := range ports[1:] {
			rtt = append(rtt, float32(world.HostRTT(p, i).Seconds()))
		}
		s.RTT = append(s.RTT, rtt)
	}
	return s
}

// links are the other hosts that a host's pages link to, one for each URL.
func links(w *pond.World, host int) (to []int32) {
	seen := map[pond.Target]bool{}
	for page := range w.Hosts()[host].Pages {
		for _, t := range w.Links(host, page) {
			if t.Host != host && !seen[t] {
				seen[t] = true
				to = append(to, int32(t.Host))
			}
		}
	}
	return to
}

// taus are the change intervals of the pond's classes up to the slowest that it has, fastest first.
func taus(w *pond.World) []float64 {
	slowest := 0
	for _, h := range w.Hosts() {
		slowest = max(slowest, h.Class)
	}
	return pond.Intervals()[:slowest+1]
}
