package recrawlsim

import (
	"math"
	"time"

	"shoal/internal/sim"
)

// world is what all strategies of a seed share: hosts, crawlers, sizes. It is read only.
type world struct {
	experiment
	seed     uint64
	churn    sim.Churn
	hosts    []sim.Point
	crawlers []sim.Point
	index    *sim.Nearest // over crawlers
	near     []int32      // nearCount nearest crawlers of each host, nearest first
	perPage  []float32    // of each crawler: seconds of wait and transfer for a page, latency apart
	group    []uint8
	tau      []float64 // change interval of each channel, minutes
	groupTau []float64
	pages    []float32
	quartile []uint8  // of size, smallest first
	replays  []replay // real changes; nil: Poisson
	scale    *Scale
}

const (
	nearCount = 128 // near crawlers that a task may go to
	manyHosts = 200_000
	pageKiB   = 16
	pageWait  = sim.PageWait
	threads   = sim.Threads
)

func newWorld(c Config) *world {
	w := &world{experiment: c.scaled(), seed: c.Seed, churn: c.Churn, scale: c.Scale}
	if w.churn == (sim.Churn{}) {
		w.churn = sim.PaperChurn()
	}
	w.groupTau = w.experiment.tau
	w.places(c.Points)
	w.channels(c.Pages)
	if c.Changes != nil {
		rng := sim.Rand(c.Seed, "histories")
		for _, tau := range w.tau {
			w.replays = append(w.replays, newReplay(&c.Changes[rng.IntN(len(c.Changes))], tau, rng))
		}
	}
	rng := sim.Rand(c.Seed, "bandwidth")
	w.perPage = make([]float32, w.experiment.crawlers)
	for i := range w.perPage {
		w.perPage[i] = float32(sim.PageTime(rng))
		if w.scale != nil {
			w.perPage[i] = float32((w.scale.Gap + w.scale.Page) * 60)
		}
	}
	return w
}

// places puts hosts around 92% of the embedding's points and crawlers around the rest, as the paper's 1600 and 140 of 1740.
func (w *world) places(points []sim.Point) {
	rng := sim.Rand(w.seed, "places")
	if points == nil {
		points = sim.Synthetic(1740, rng)
	}
	order := rng.Perm(len(points))
	n := max(len(points)*140/1740, 1)
	var host, crawler []sim.Point
	for i, at := range order {
		if i < n {
			crawler = append(crawler, points[at])
		} else {
			host = append(host, points[at])
		}
	}
	total := 0
	for _, g := range w.groups {
		total += g
	}
	spread := func(around []sim.Point, n int) []sim.Point {
		all := sim.Replicate(around, points, (n+len(around)-1)/len(around), rng)
		rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		return all[:n]
	}
	w.hosts = spread(host, total)
	w.crawlers = spread(crawler, w.experiment.crawlers)
	w.index = sim.NewNearest(w.crawlers)
	k := w.nearest()
	w.near = make([]int32, 0, k*total)
	for _, h := range w.hosts {
		w.near = w.index.Find(h, k, nil, w.near)
	}
}

// nearOf are the crawlers nearest to a channel's host.
func (w *world) nearOf(channel int32) []int32 {
	k := w.nearest()
	return w.near[int(channel)*k : (int(channel)+1)*k]
}

// nearest is how many near crawlers are kept for a host: fewer where there are very many hosts.
func (w *world) nearest() int {
	k := nearCount
	if len(w.hosts) > manyHosts {
		k = nearCount / 4
	}
	return min(k, len(w.crawlers))
}

// channels gives each host a group and a size. Groups are dealt at random.
func (w *world) channels(mean float64) {
	if mean == 0 {
		mean = meanPages
	}
	rng := sim.Rand(w.seed, "channels")
	for g, n := range w.groups {
		for range n {
			w.group = append(w.group, uint8(g))
		}
	}
	rng.Shuffle(len(w.group), func(i, j int) { w.group[i], w.group[j] = w.group[j], w.group[i] })
	n := len(w.group)
	w.tau, w.pages, w.quartile = make([]float64, n), make([]float32, n), make([]uint8, n)
	for i := range w.group {
		w.tau[i] = w.groupTau[w.group[i]]
		w.pages[i] = float32(sim.Pages(mean, rng))
		if w.scale != nil {
			w.pages[i] = float32(w.scale.Pages)
		}
		// The quartiles of a lognormal of sigma 1, so that they do not depend on the others.
		z := math.Log(float64(w.pages[i])/mean) + .5
		for _, q := range []float64{-.6745, 0, .6745} {
			if z > q {
				w.quartile[i]++
			}
		}
	}
}

// rate is the task minutes that a page costs between a channel's host and a crawler.
func (w *world) minutesPerPage(channel, crawler int32) float64 {
	if w.scale != nil {
		return float64(w.perPage[crawler]) / 60
	}
	h, c := w.hosts[channel], w.crawlers[crawler]
	dx, dy := h.X-c.X, h.Y-c.Y
	return (float64(w.perPage[crawler]) + 2*math.Sqrt(dx*dx+dy*dy)/1000) / 60
}

// rtt is what the overlay predicts between a channel's host and a crawler.
func (w *world) rtt(channel, crawler int32) time.Duration {
	h, c := w.hosts[channel], w.crawlers[crawler]
	dx, dy := h.X-c.X, h.Y-c.Y
	return time.Duration(math.Sqrt(dx*dx+dy*dy) * float64(time.Millisecond))
}
