package recrawlsim

import (
	"cmp"
	"math"
	"slices"
	"time"

	"shoal/internal/sim"
)

// world is what all strategies of a seed share: hosts, crawlers, sizes. It is read only.
type world struct {
	experiment
	seed      uint64
	churn     sim.Churn
	hosts     []sim.Point
	crawlers  []sim.Point
	index     *sim.Nearest // over crawlers
	near      nearby       // nearCount nearest crawlers of each host
	perPage   []float32    // of each crawler: seconds of wait and transfer for a page, latency apart
	group     []uint8
	tau       []float64 // change interval of each channel, minutes
	groupTau  []float64
	pages     []float32
	meanPages float32
	quartile  []uint8  // of size, smallest first
	replays   []replay // real changes; nil: Poisson
	scale     *Scale
	unit      time.Duration // length of a step
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
	if w.unit = time.Minute; w.scale != nil && w.scale.Step > 0 {
		w.unit = w.scale.Step
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
	w.near = nearby{each: w.nearest()}
	if len(w.crawlers) <= math.MaxUint16 {
		w.near.narrow = make([]uint16, 0, w.near.each*total)
	} else {
		w.near.wide = make([]int32, 0, w.near.each*total)
	}
	var found []int32
	if w.scale != nil && w.scale.Sites != nil {
		for _, to := range w.scale.RTT {
			w.near.add(nearestOf(to, w.near.each))
		}
		return
	}
	for _, h := range w.hosts {
		found = w.index.Find(h, w.near.each, nil, found[:0])
		w.near.add(found)
	}
}

// nearby lists the near crawlers of each host, nearest first, each of them as long. Every task reads a list from memory, so that it is kept short.
type nearby struct {
	each   int
	narrow []uint16 // where crawlers' numbers fit
	wide   []int32  // else
}

func (n *nearby) add(list []int32) {
	if n.narrow == nil {
		n.wide = append(n.wide, list...)
		return
	}
	for _, c := range list {
		n.narrow = append(n.narrow, uint16(c))
	}
}

// list appends the near crawlers of a channel's host.
func (n *nearby) list(channel int32, to []int32) []int32 {
	if n.narrow == nil {
		return append(to, of(n.wide, n.each, channel)...)
	}
	for _, c := range of(n.narrow, n.each, channel) {
		to = append(to, int32(c))
	}
	return to
}

// at is the crawler of a rank among those near a channel's host.
func (n *nearby) at(channel int32, rank int) int32 {
	if n.narrow == nil {
		return n.wide[int(channel)*n.each+rank]
	}
	return int32(n.narrow[int(channel)*n.each+rank])
}

// touch reads the part of a channel's list that most tasks need: the next two lines of memory.
func (n *nearby) touch(channel int32) int {
	first := int(channel) * n.each
	if n.narrow != nil {
		return int(n.narrow[first]) + int(n.narrow[first+min(n.each-1, 32)])
	}
	return int(n.wide[first]) + int(n.wide[first+min(n.each-1, 16)])
}

func of[C uint16 | int32 | float64](all []C, each int, channel int32) []C {
	return all[int(channel)*each:][:each]
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
	if w.scale != nil {
		for i, s := range w.scale.Sites {
			w.group[i] = uint8(s.Group)
		}
	}
	n := len(w.group)
	w.tau, w.pages, w.quartile = make([]float64, n), make([]float32, n), make([]uint8, n)
	for i := range w.group {
		w.tau[i] = w.groupTau[w.group[i]]
		w.pages[i] = float32(sim.Pages(mean, rng))
		if w.scale != nil {
			w.pages[i] = float32(w.scale.Pages)
			if w.scale.Sites != nil {
				w.pages[i] = float32(w.scale.Sites[i].Pages)
			}
		}
		// The quartiles of a lognormal of sigma 1, so that they do not depend on the others.
		z := math.Log(float64(w.pages[i])/mean) + .5
		for _, q := range []float64{-.6745, 0, .6745} {
			if z > q {
				w.quartile[i]++
			}
		}
		w.meanPages += w.pages[i] / float32(n)
	}
}

// rate is the task minutes that a page costs between a channel's host and a crawler.
func (w *world) minutesPerPage(channel, crawler int32) float64 {
	if w.scale != nil && w.scale.Sites != nil {
		return w.scale.Sites[channel].Gap + w.scale.Page + float64(w.scale.RTT[channel][crawler])
	}
	if w.scale != nil {
		return float64(w.perPage[crawler]) / 60
	}
	h, c := w.hosts[channel], w.crawlers[crawler]
	dx, dy := h.X-c.X, h.Y-c.Y
	return (float64(w.perPage[crawler]) + 2*math.Sqrt(dx*dx+dy*dy)/1000) / 60
}

// late is how many channels, the last ones, come later.
func (w *world) late() int {
	if w.scale == nil {
		return 0
	}
	return w.scale.Late
}

// startup is the task minutes that a task costs a crawler beside its pages.
func (w *world) startup(crawler int32) float64 {
	switch {
	case w.scale == nil:
		return 0
	case w.scale.Claims == nil:
		return w.scale.Start
	}
	return w.scale.Start + float64(w.scale.Claims[crawler])
}

// nearestOf are the crawlers with the least round-trip times.
func nearestOf(rtt []float32, n int) []int32 {
	all := make([]int32, len(rtt))
	for i := range all {
		all[i] = int32(i)
	}
	slices.SortFunc(all, func(a, b int32) int { return cmp.Or(cmp.Compare(rtt[a], rtt[b]), cmp.Compare(a, b)) })
	return all[:n]
}

// away is the round-trip time between a channel's host and a crawler.
func (w *world) away(channel, crawler int32) time.Duration {
	if w.scale != nil && w.scale.Sites != nil {
		return time.Duration(float64(w.scale.RTT[channel][crawler]) * float64(w.unit))
	}
	return rtt(w.hosts[channel], w.crawlers[crawler])
}

// rtt is what the overlay predicts between a host and a crawler.
func rtt(host, crawler sim.Point) time.Duration {
	dx, dy := host.X-crawler.X, host.Y-crawler.Y
	return time.Duration(math.Sqrt(dx*dx+dy*dy) * float64(time.Millisecond))
}
