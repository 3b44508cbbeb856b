package livesim

import (
	"context"
	"fmt"
	"math"

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
func (n *network) foretell(ctx context.Context) (fresh, updatesPerMin float64, err error) {
	steps := int(n.Minutes * 60)
	cfg := recrawlsim.Config{Case: "rec", Strategy: n.Strategy, Rates: "learnt", Mode: "shoal", Weights: "pages", Seed: n.Seed, Steps: steps, Cap: limit,
		Crawlers: n.Peers, Scale: n.scale(), Churn: sim.Churn{Life: 1e8, Gap: 1, Polite: 1}}
	if n.Churn {
		cfg.Churn = churn
	}
	if n.Strategy == "optimal" || n.Strategy == "cycle" {
		cfg.Params.PlanEvery = pondPlan
	}
	row, err := recrawlsim.Run(ctx, cfg, nil, nil)
	if err != nil {
		return 0, 0, fmt.Errorf("the simulator: %w", err)
	}
	return round(row.Freshness, 4), round(float64(row.Updates)/n.Minutes, 1), nil
}

// scale is the world as the simulator takes it.
func (n *network) scale() *recrawlsim.Scale {
	s := &recrawlsim.Scale{Threads: n.Threads, Queue: pondQueue, Gap: pageGap.Seconds(), Page: pageCost.Seconds(), Start: taskStart.Seconds(), Term: pondTerm, Backoff: pondBackoff,
		Checkpoint: checkpoint, Room: true, WaitLimitMin: pondTerm, Prior: recrawl.Prior(30, .5), MinTicks: least, Tau: taus(n.world)}
	mean := 0.
	for i := range n.world.Hosts() {
		mean += service(&n.world.Hosts()[i]).Seconds() / float64(len(n.world.Hosts()))
	}
	s.Ahead = int(math.Ceil(float64(n.Threads) / mean)) // tasks that end in a step
	for i := range n.world.Hosts() {
		h := &n.world.Hosts()[i]
		s.Sites = append(s.Sites, recrawlsim.Site{Group: h.Class, Pages: h.Pages, Gap: max(pageGap, h.CrawlDelay).Seconds()})
		var rtt []float32
		for _, p := range n.ports[1:] {
			rtt = append(rtt, float32(n.world.HostRTT(p, i).Seconds()))
		}
		s.RTT = append(s.RTT, rtt)
	}
	if n.Scene == "half" {
		s.HalfGone = int(n.Minutes * 30)
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
