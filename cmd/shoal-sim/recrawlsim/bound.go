package recrawlsim

import (
	"cmp"
	"math"
	"slices"

	"shoal/recrawl"
)

// bounds are what no schedule can exceed in a world under a cap and a number of tasks out: all threads of the crawlers that are there always
// busy, at no distance from their hosts; no task lost, cancelled or refused; a channel's next task submitted the moment that its last has
// ended, and run by the fastest of its near crawlers without waiting. Each bound is met by another schedule.
type bounds struct{ qw, q, fresh float64 }

// bound solves the three problems: Qw and Q are linear in the channels' rates, so that the dearest updates are left out; freshness is concave,
// so that the marginal gain for a page is the same for all channels below their limits.
func (w *world) bound(c Config) bounds {
	most, pages := w.mostOften(c), w.pagesPerMinute()
	b := bounds{fresh: w.freshest(most, pages)}
	b.qw = w.fill(most, pages, func(ch int) float64 { return float64(recrawl.RankWeights.Of(0, 0, int(w.group[ch]), len(w.groups))) })
	b.q = w.fill(most, pages, func(int) float64 { return 1 })
	return b
}

// pagesPerMinute is what the crawlers that are there download when no thread idles.
func (w *world) pagesPerMinute() float64 {
	n := threads
	if w.scale != nil {
		n = w.scale.Threads
	}
	rate := make([]float64, len(w.perPage))
	for i, v := range w.perPage {
		rate[i] = 60 / float64(v) * float64(n)
	}
	var now, sum float64
	here := newPresence(w)
	here.begin(w, func(c int32) { now += rate[c] })
	for minute := range w.steps {
		here.step(minute, w, func(c int32) { now += rate[c] }, func(c int32, _ bool) { now -= rate[c] })
		sum += now
	}
	return sum / float64(max(w.steps, 1))
}

// mostOften is each channel's greatest number of updates a minute: once a minute; the cap, under which so many intervals have room for one task more; and
// the tasks out one after the other.
func (w *world) mostOften(c Config) []float64 {
	out := c.Out
	if c.Mode == "shoal" {
		out = 1
	}
	most := make([]float64, len(w.group))
	var near []int32
	for ch := range most {
		most[ch] = 1
		if c.Cap > 0 {
			most[ch] = min(most[ch], c.Cap/w.tau[ch]+1/float64(w.steps))
		}
		if out > 0 {
			fastest := math.Inf(1)
			near = w.near.list(int32(ch), near[:0])
			for _, p := range near {
				fastest = min(fastest, w.minutesPerPage(int32(ch), p))
			}
			most[ch] = min(most[ch], float64(out)/(fastest*float64(w.pages[ch])))
		}
	}
	return most
}

// fill gives the pages to the updates that are worth most a page, and returns the mean update quality.
func (w *world) fill(most []float64, pages float64, weight func(int) float64) float64 {
	order := make([]int, len(most))
	for i := range order {
		order[i] = i
	}
	worth := func(ch int) float64 { return weight(ch) * w.tau[ch] }
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(worth(b)*float64(w.pages[a]), worth(a)*float64(w.pages[b])), cmp.Compare(a, b))
	})
	var q float64
	for _, ch := range order {
		r := min(most[ch], pages/float64(w.pages[ch]))
		pages -= r * float64(w.pages[ch])
		q += r * worth(ch)
	}
	return q / float64(len(most))
}

// freshest is the greatest mean freshness: the price of a page is found by bisection, each channel's interval likewise.
func (w *world) freshest(most []float64, pages float64) float64 {
	gain := newGains()
	f, _ := w.freshAt(gain, most, w.pagePrice(gain, most, pages))
	return f
}

// pagePrice is what the last page gains that is downloaded; 0: there are pages to spare.
func (w *world) pagePrice(gain gains, most []float64, pages float64) float64 {
	if _, used := w.freshAt(gain, most, 0); used <= pages {
		return 0
	}
	lo, hi := 0., slices.Max(w.tau) // a page costs more than any crawl gains
	for range 45 {
		if mid := (lo + hi) / 2; second(w.freshAt(gain, most, mid)) > pages {
			lo = mid
		} else {
			hi = mid
		}
	}
	return hi
}

// freshAt is the mean freshness if each channel is crawled as often as pays at a price of a page, and the pages that it takes.
func (w *world) freshAt(gain gains, most []float64, price float64) (f, used float64) {
	for ch, r := range most {
		tau, n := w.tau[ch], float64(w.pages[ch])
		x := gain.longest(price * n / tau)
		r = min(r, 1/(x*tau))
		if x = 1 / (r * tau); r > 0 && !math.IsInf(x, 0) {
			f += -math.Expm1(-x) / x
			used += r * n
		}
	}
	return f / float64(len(most)), used
}

func second(_, b float64) float64 { return b }

// gains is 1-e^(-x)(1+x) at steps of longestStep: what a crawl gains after x change intervals, in change intervals.
type gains []float64

const (
	longestStep = 1. / 512
	longestMost = 40 // change intervals, after which it is 1 to the last digit
)

func newGains() gains {
	g := make(gains, longestMost/longestStep)
	for i := range g {
		x := float64(i) * longestStep
		g[i] = 1 - math.Exp(-x)*(1+x)
	}
	return g
}

// longest is the interval, in change intervals, at which a crawl gains y; infinite if none gains that much.
func (g gains) longest(y float64) float64 {
	i, _ := slices.BinarySearch(g, y)
	switch i {
	case 0:
		return 0
	case len(g):
		return math.Inf(1)
	}
	return (float64(i-1) + (y-g[i-1])/(g[i]-g[i-1])) * longestStep
}
