package recrawlsim

import (
	"context"
	"math/rand/v2"

	"shoal/internal/sim"
	"shoal/recrawl"
)

// begin is the tick of minute 0, so that channels can have been submitted before it.
const begin = recrawl.Tick(1 << 20)

// swarm is a model of the crawlers: the paper's or Shoal's.
type swarm interface {
	join(minute int, crawler int32)
	leave(minute int, crawler int32, polite bool)
	// step ends what ends in this minute.
	step(minute int)
	// submit hands out the tasks of a minute.
	submit(minute int)
	// waiting counts tasks in queues; load is running and waiting tasks of a crawler.
	waiting() int
	load(crawler int32) int
	// open counts the tasks that may still come to something.
	open() int
}

// run is one strategy on one world.
type run struct {
	cfg   Config
	w     *world
	s     *recrawl.Scheduler // of the first manager; of all channels, unless there are more
	parts []*part            // of all managers
	owner []uint8            // which of them has each channel; nil: the first has all
	slot  []recrawl.Slot     // and by what slot; likewise
	swarm swarm
	m     *metrics
	rng   *rand.Rand // changes

	presence
	intervals []float32
	due       []int32
	limits    bool // waiting limits are the groups' intervals
	out       int
	life      float32
	sizes     sizesSeen
	there     int   // channels so far
	links     []int // by site: URLs of it that crawled sites link to
	touched   int   // sum of what was read ahead, so that it is read
	planErr   error
	predicted float64 // sum over plans
	plans     int
}

// sizesSeen is what the sites of a world of known sites that were crawled have in pages, as a manager knows it: their mean is what weights are told in.
type sizesSeen struct{ pages, n float32 }

// waitLimit is how long a task of a strategy without intervals may wait in mode paper, in minutes.
const waitLimit = 120

// Run runs one Config over a world made for it (nil: it makes one).
func Run(ctx context.Context, cfg Config, w *world, progress func(minute int)) (Row, error) {
	if err := cfg.Validate(); err != nil {
		return Row{}, err
	}
	if w == nil {
		w = newWorld(cfg)
	}
	r, err := newRun(cfg, w)
	if err != nil {
		return Row{}, err
	}
	for minute := range w.steps {
		if minute&1023 == 0 {
			if err := ctx.Err(); err != nil {
				return Row{}, err
			}
			if progress != nil {
				progress(minute)
			}
		}
		if minute == w.steps/4 {
			r.m.settle(minute)
		}
		if r.step(minute); r.planErr != nil {
			return Row{}, r.planErr
		}
	}
	row := r.m.row(r)
	if r.plans > 0 {
		row.Predicted = r.predicted / float64(r.plans)
	}
	return row, nil
}

func newRun(cfg Config, w *world) (*run, error) {
	r := &run{cfg: cfg, w: w, rng: sim.Rand(cfg.Seed, "changes"), presence: newPresence(w)}
	opt := recrawl.Options{Cap: cfg.Cap, MaxOut: cfg.Out, Groups: len(w.groups), Relearn: 1440, Prior: recrawl.DefaultOptions().Prior}
	if cfg.Rates == "known" {
		opt.Initial = w.groupTau
	}
	if cfg.Mode == "shoal" {
		opt.MaxOut = 1
	}
	if cfg.unknown() {
		opt.Initial, opt.Relearn, opt.Prior, opt.MinTicks = w.groupTau, 0, cfg.Scale.Prior, recrawl.Tick(cfg.Scale.MinTicks)
	}
	if err := r.split(opt); err != nil {
		return nil, err
	}
	r.limits = r.s.Strategy().Intervals() != nil
	r.intervals = make([]float32, len(w.groups))
	r.m = newMetrics(w)
	r.enter(len(w.group) - w.late())
	if w.churn.Polite < 1 && cfg.Mode == "paper" { // with leases hardly anything is lost with a peer
		r.life = float32(w.churn.Life / (1 - w.churn.Polite))
	}
	if cfg.Mode == "shoal" {
		r.swarm = newShoal(r)
	} else {
		r.swarm = newPaper(r)
	}
	r.begin(w, func(c int32) { r.swarm.join(0, c) })
	return r, nil
}

// enter takes in the channels up to a number that are not there yet.
func (r *run) enter(upTo int) {
	phase := sim.Rand(r.cfg.Seed, "phase")
	for ; r.there < upTo; r.there++ {
		i := r.there
		tau := r.w.tau[i]
		f := recrawl.Facts{Weight: r.firstWeight(i)}
		if r.cfg.Mode == "paper" { // whose first submissions come at a uniform phase; the product begins with channels never crawled
			f.Submitted = begin - recrawl.Tick(tau*phase.Float64())
		}
		switch {
		case r.cfg.unknown():
			if r.cfg.Scale.Sites == nil {
				f.Group, f.Flags = r.w.group[i], recrawl.Pinned
			}
		case r.cfg.Rates == "known":
			f.Est, f.Group, f.Flags = recrawl.Exactly(tau), r.w.group[i], recrawl.Known|recrawl.Pinned
		}
		r.add(int32(i), f)
	}
}

// unknown says that nothing is known of the channels' rates at first.
func (c *Config) unknown() bool { return c.Scale != nil && c.Scale.Prior != recrawl.Estimate{} }

func (r *run) weight(channel int) float32 {
	mean := float32(meanPages)
	if r.sizes.n > 0 {
		mean = r.sizes.pages / r.sizes.n
	}
	return r.importance(channel) * recrawl.Weights(r.cfg.Weights).Of(r.w.pages[channel], mean, int(r.w.group[channel]), len(r.w.groups))
}

// importance is what an operator says of a channel.
func (r *run) importance(channel int) float32 {
	if r.w.scale == nil || r.w.scale.Sites == nil {
		return 1
	}
	return float32(r.w.scale.Sites[channel].importance())
}

// learnsWeights says that how many pages a channel has, and so what it counts, is not known before its first crawl. Mode paper knows it at once.
func (r *run) learnsWeights() bool { return r.cfg.Mode == "shoal" && r.cfg.Weights == "pages" }

func (r *run) firstWeight(channel int) float32 {
	if r.learnsWeights() {
		return r.importance(channel)
	}
	return r.weight(channel)
}

// step is one minute: who comes and goes, what ends, what is submitted.
func (r *run) step(minute int) {
	r.presence.step(minute, r.w, func(c int32) { r.swarm.join(minute, c) }, func(c int32, polite bool) { r.swarm.leave(minute, c, polite) })
	r.swarm.step(minute)
	if r.there < len(r.w.group) && minute >= r.w.scale.Burst {
		r.enter(len(r.w.group))
	}
	r.meanIntervals()
	for _, p := range r.parts {
		r.plan(minute, p.s)
	}
	r.share(minute)
	r.swarm.submit(minute)
	r.m.minute(minute, r)
}

// plan has a strategy that plans do so, within the minute.
func (r *run) plan(minute int, s *recrawl.Scheduler) {
	now := begin + recrawl.Tick(minute)
	strategy := s.Strategy()
	plan := strategy.Plan(now)
	if plan == nil {
		return
	}
	adopt, err := plan(context.Background(), s.Snapshot())
	if err != nil {
		r.planErr = err
		return
	}
	adopt()
	s.Rerank()
	if p := strategy.Report(); p.Plain > 0 && minute >= r.w.steps/4 { // the first quarter is settling in
		r.predicted += p.Plain
		r.plans++
	}
}

// updated is called when a task's channel is up to date. Minutes of wait and service are the crawler's own.
func (r *run) updated(minute int, channel int32, wait, service float32) {
	r.out--
	known := r.cfg.Scale != nil && r.cfg.Scale.Sites != nil
	if first := r.m.of[channel].updates == 0; known && first {
		r.sizes.pages, r.sizes.n = r.sizes.pages+r.w.pages[channel], r.sizes.n+1
		r.found(channel)
	}
	if r.learnsWeights() && (known || r.m.of[channel].updates == 0) {
		s, at := r.of(channel)
		s.Weigh(at, r.weight(int(channel)))
	}
	changed := r.m.update(minute, channel, service, r.rng)
	s, at := r.of(channel)
	s.Observe(begin+recrawl.Tick(minute), at,
		recrawl.Event{Kind: recrawl.Updated, Changed: changed, Wait: wait, Service: service})
}

// found takes in where the pages of a site link to that was crawled for the first time.
func (r *run) found(channel int32) {
	links := r.cfg.Scale.Links
	if links == nil {
		return
	}
	if r.links == nil {
		r.links = make([]int, len(links))
	}
	for _, to := range links[channel] {
		if int(to) >= r.there { // no channel yet: its URLs are not kept
			continue
		}
		r.links[to]++
		s, at := r.of(to)
		s.Found(at)
	}
}

// linked is how many pages a site is known to have that was never crawled.
func (r *run) linked(channel int32) int {
	switch {
	case r.cfg.Scale.Links == nil:
		return r.cfg.Scale.Sites[channel].Pages
	case r.links == nil:
		return 0
	}
	return r.links[channel]
}

// over is called when a task has ended otherwise and the manager knows.
func (r *run) over(minute int, channel int32, kind recrawl.Kind) {
	r.out--
	s, at := r.of(channel)
	s.Observe(begin+recrawl.Tick(minute), at, recrawl.Event{Kind: kind})
}
