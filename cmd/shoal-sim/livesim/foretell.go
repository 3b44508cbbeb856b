package livesim

import (
	"context"
	"fmt"
	"time"

	"shoal/cmd/shoal-sim/recrawlsim"
	"shoal/internal/lab/pond"
	"shoal/internal/sim"
	"shoal/recrawl"
)

// What a manager of a pond works with; see pondSettings in cmd/shoal. A step of the simulator is a second here.
const (
	pondQueue   = 5
	pondTerm    = 20.
	pondBackoff = 2.
	pondPlan    = 40
	checkpoint  = 600. // a peer stores a chunk after ten minutes, or when it has a MiB, which no site of the world has
	least       = 2    // ticks between two tasks of a channel
	limit       = 2.   // times the change rate that a channel is crawled at most
)

// foretell asks the recrawl simulator for the same world: the same sizes, change rates, waits, distances, threads, comings and goings.
func (c *cell) foretell(ctx context.Context, world *pond.World, ports []int, row *Row) error {
	steps := int(c.Minutes * 60)
	cfg := recrawlsim.Config{Case: "rec", Strategy: c.Strategy, Rates: "learnt", Mode: "shoal", Weights: "pages", Seed: c.Seed, Steps: steps, Cap: limit,
		Crawlers: c.Peers, Scale: c.scale(world, ports), Churn: sim.Churn{Life: 1e8, Gap: 1, Polite: 1}}
	if c.Churn {
		cfg.Churn = churn
	}
	if c.Strategy == "optimal" || c.Strategy == "cycle" {
		cfg.Params.PlanEvery = pondPlan
	}
	told, err := recrawlsim.Run(ctx, cfg, nil, nil)
	if err != nil {
		return fmt.Errorf("the simulator: %w", err)
	}
	l := told.Landing
	row.SimFresh, row.SimUpdatesPerMin = round(told.Freshness, 4), round(float64(told.Updates)/c.Minutes, 1)
	row.SimFreshSteady, row.SimSteady90S, row.SimFirstPassS, row.SimIdleShare = round(l.Steady, 4), l.Steady90, l.FirstPass, round(l.Missed, 4)
	row.SimPagesPerMin = round(60*told.PagesPerMin, 1)
	row.SimRTTChosenMS, row.SimRTTBoundMS = round(1000*l.RTT, 1), round(1000*l.RTTBound, 1)
	return nil
}

// scale is the world as the simulator takes it.
func (c *cell) scale(world *pond.World, ports []int) *recrawlsim.Scale {
	s := &recrawlsim.Scale{Step: time.Second, Threads: c.Threads, Queue: pondQueue, Gap: pageGap.Seconds(), Page: pageCost.Seconds(), Start: taskStart.Seconds(), Term: pondTerm, Backoff: pondBackoff,
		Checkpoint: checkpoint, Room: true, WaitLimitMin: pondTerm, Prior: recrawl.Prior(30, .5), MinTicks: least, Tau: taus(world), Come: 2}
	for _, p := range ports[1:] {
		s.Claims = append(s.Claims, 2*float32(world.NodeRTT(ports[0], p).Seconds()))
	}
	for i := range world.Hosts() {
		h := &world.Hosts()[i]
		s.Sites = append(s.Sites, recrawlsim.Site{Group: h.Class, Pages: h.Pages, Gap: max(pageGap, h.CrawlDelay).Seconds()})
		var rtt []float32
		for _, p := range ports[1:] {
			rtt = append(rtt, float32(world.HostRTT(p, i).Seconds()))
		}
		s.RTT = append(s.RTT, rtt)
	}
	if c.Scene == "half" {
		s.HalfGone = int(c.Minutes * 30)
	}
	return s
}

// taus are the change intervals of the pond's classes, fastest first, in seconds.
func taus(w *pond.World) (taus []float64) {
	for _, h := range w.Hosts() {
		for len(taus) <= h.Class {
			taus = append(taus, 20*float64(int(1)<<len(taus)))
		}
	}
	return taus
}
