package trustsim

import (
	"math"
	"math/rand/v2"

	"shoal/internal/sim"
	"shoal/manager/trust"
	"shoal/manager/trust/compare"
)

// page is one page as it really is, and what is kept of it.
type page struct {
	rec      trust.Page
	next     int64   // second of its next change
	since    int64   // of its last one
	rate     float32 // changes in a second
	version  uint32
	before   uint32    // the version before; some changes go back to it
	credited [2]uint64 // digests of versions that were credited
	settled  int64     // up to when its kept time is counted
	kind     kind
	dated    bool // shows when it changed
	stale    bool // a lazy peer said "unchanged" of it after a change, and nobody has looked since
}

// kind is how a page differs between two fetches.
type kind uint8

const (
	still   kind = iota // only when it changes
	dynamic             // each fetch differs a little
	wild                // each fetch differs altogether
)

// site is one channel.
type site struct {
	first, pages int
	gap          float64 // mean seconds between crawls
	domain       uint64
	near         []int32 // peers near it
	last         int32   // who crawled it last; -1: nobody
	geo          bool    // shows each region something else
	cached       bool    // may show an old copy for an hour
	host         compare.Host
	soon         bool // a crawl out of turn waits
	target       bool
	turn         int // crawls so far, so that an outdated event is known
}

// world is the Web, without the peers.
type world struct {
	rng   *rand.Rand
	sites []site
	pages []page
}

// Shares of the simulated Web. Change rates are spread as in crawls of the real one: most pages rest for months, a few change many times a day.
const (
	shareGeo     = .005
	shareCached  = .03
	shareDynamic = .07
	shareWild    = .01
	shareDated   = .6
	backAgain    = .02 // of changes that go back to the version before
	regions      = 3
	nearPeers    = 20
)

var changes = []struct{ share, days float64 }{{.45, 365}, {.30, 60}, {.17, 10}, {.07, 2}, {.01, .25}}

func newWorld(seed uint64, sites, pages int) *world {
	rng := sim.Rand(seed, "trust world")
	w := &world{rng: rng, sites: make([]site, sites), pages: make([]page, 0, pages)}
	weights, total := make([]float64, sites), 0.
	for i := range weights { // sizes of a power law
		weights[i] = math.Pow(1-rng.Float64(), -1/1.6)
		weights[i] = min(weights[i], 60)
		total += weights[i]
	}
	for i := range w.sites {
		s := &w.sites[i]
		n := max(int(weights[i]/total*float64(pages)), 8)
		s.first, s.pages, s.last = len(w.pages), n, -1
		s.gap = 86400 * []float64{.5, 1, 2}[pick(rng, .25, .5)]
		s.domain = rng.Uint64()
		s.geo, s.cached = rng.Float64() < shareGeo, rng.Float64() < shareCached
		rich := .2 + 1.6*rng.Float64() // some sites have more dynamic pages than others
		for range n {
			w.pages = append(w.pages, newPage(rng, rich))
		}
	}
	return w
}

func newPage(rng *rand.Rand, rich float64) page {
	p := page{kind: still, dated: rng.Float64() < shareDated}
	x := rng.Float64()
	for _, c := range changes {
		if x -= c.share; x < 0 || c.share == .01 {
			p.rate = float32(1 / (c.days * 86400))
			break
		}
	}
	switch u := rng.Float64(); {
	case u < shareWild*rich:
		p.kind, p.dated = wild, false
	case u < (shareWild+shareDynamic)*rich:
		p.kind, p.dated = dynamic, false
	}
	p.next = int64(rng.ExpFloat64() / float64(p.rate))
	p.since = -int64(rng.ExpFloat64() / float64(p.rate))
	return p
}

func pick(rng *rand.Rand, shares ...float64) int {
	x := rng.Float64()
	for i, s := range shares {
		if x -= s; x < 0 {
			return i
		}
	}
	return len(shares)
}

// at brings a page to a moment, which is never before the last one.
func (w *world) at(p *page, now int64) {
	for p.next <= now {
		p.since = p.next
		if p.before != p.version && w.rng.Float64() < backAgain {
			p.version, p.before = p.before, p.version
		} else {
			p.before = p.version
			p.version = max(p.version, p.before) + 1
		}
		p.next += 1 + int64(w.rng.ExpFloat64()/float64(p.rate))
	}
}
