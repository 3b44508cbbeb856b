package ordersim

import (
	"container/heap"
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"shoal/channel/order"
)

// CrawlConfig is one simulated crawl.
type CrawlConfig struct {
	Order   string
	Batch   int // pages between two PageRanks; 0: a 35th of the pages, as often as in the paper
	Limits  order.Limits
	Seed    uint64
	Earlier *Earlier // for historical orderings

	// Time. With Robots 0 or 1 and no Wait only the order counts.
	Robots    int           // sites visited at a time
	Wait      time.Duration // between two visits of a site
	WaitSmall time.Duration // the same for sites of fewer than 100 pages; 0: Wait
	Bandwidth float64       // KiB/s of the crawler's link; 0: unlimited
}

// smallSite is below how many pages a site is small (section 5.3).
const smallSite = 100

// Crawl is what one simulated crawl did.
type Crawl struct {
	Pages []order.Page // in the order of fetching
	At    []float64    // seconds at which each was there; nil where time does not count
}

// Timed reports whether time counts.
func (c CrawlConfig) Timed() bool { return c.Robots > 1 || c.Wait > 0 }

// Run crawls a Web to its end, or until ctx is done.
func Run(ctx context.Context, w Web, rank []float64, c CrawlConfig) (Crawl, error) {
	n := w.Graph.Pages()
	fill(&c.Batch, max(n/35, 1))
	cfg := order.Config{Order: c.Order, Pages: n, Batch: c.Batch, Limits: c.Limits, Waits: c.Timed(),
		Rand: rand.New(rand.NewPCG(c.Seed, 0x0de)),
		Site: func(p order.Page) (order.Site, bool) { return w.Site[p], w.Dynamic != nil && w.Dynamic[p] }}
	if rank != nil {
		cfg.Oracle = func(p order.Page) float64 { return rank[p] }
	}
	if c.Earlier != nil {
		cfg.Ranks = c.Earlier.Ranks
		cfg.Last = func(p order.Page) (float64, bool) { r := c.Earlier.Rank[p]; return r, !math.IsNaN(r) }
	}
	f, err := order.New(cfg)
	if err != nil {
		return Crawl{}, err
	}
	for _, p := range w.Seeds {
		f.Add(p)
	}
	s := crawlState{w: w, f: f, out: Crawl{Pages: make([]order.Page, 0, n)}}
	if c.Timed() {
		return s.timed(ctx, c)
	}
	for {
		p, _, ok := f.Next()
		if !ok {
			return s.out, nil
		}
		s.fetched(p)
		if len(s.out.Pages)%4096 == 0 && ctx.Err() != nil {
			return s.out, ctx.Err()
		}
	}
}

type crawlState struct {
	w     Web
	f     *order.Frontier
	links []order.Page
	out   Crawl
}

func (s *crawlState) fetched(p order.Page) {
	s.links = s.links[:0]
	for _, q := range s.w.Graph.Links(p) {
		s.links = append(s.links, order.Page(q))
	}
	s.f.Fetched(p, s.links, false)
	s.out.Pages = append(s.out.Pages, p)
}

// event is the end of a fetch, or of a site's rest.
type event struct {
	at    float64
	seq   int
	site  order.Site
	page  order.Page
	fetch bool
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].seq < e[j].seq
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	old := *e
	x := old[len(old)-1]
	*e = old[:len(old)-1]
	return x
}

// timed visits up to Robots sites at a time, one page a visit, and lets a site rest between two visits. A page takes its site's latency
// and its bytes at its site's speed, or at its share of the crawler's link where that is less.
func (s *crawlState) timed(ctx context.Context, c CrawlConfig) (Crawl, error) {
	small := make([]bool, s.w.Sites)
	size := make([]int, s.w.Sites)
	for _, t := range s.w.Site {
		size[t]++
	}
	latency, speed := make([]float64, s.w.Sites), make([]float64, s.w.Sites)
	rng := rand.New(rand.NewPCG(c.Seed, 0x71e)) // the same for every ordering
	for t := range size {
		small[t] = size[t] < smallSite
		latency[t] = .25 * math.Exp(.8*rng.NormFloat64())
		speed[t] = 60 * math.Exp(rng.NormFloat64())
	}
	kib := make([]float64, len(s.w.Site))
	for p := range kib {
		kib[p] = 12 * math.Exp(rng.NormFloat64()-.5)
	}
	if c.WaitSmall == 0 {
		c.WaitSmall = c.Wait
	}
	var now float64
	var queue events
	busy, seq := 0, 0
	push := func(e event) {
		e.seq = seq
		seq++
		heap.Push(&queue, e)
	}
	for {
		for busy < max(c.Robots, 1) {
			p, t, ok := s.f.Next()
			if !ok {
				break
			}
			busy++
			v := speed[t]
			if c.Bandwidth > 0 {
				v = min(v, c.Bandwidth/float64(busy))
			}
			push(event{at: now + latency[t] + kib[p]/v, site: t, page: p, fetch: true})
		}
		if len(queue) == 0 {
			return s.out, nil
		}
		e := heap.Pop(&queue).(event)
		now = e.at
		if !e.fetch {
			s.f.Ready(e.site)
			continue
		}
		busy--
		s.fetched(e.page)
		s.out.At = append(s.out.At, now)
		rest := c.Wait
		if small[e.site] {
			rest = c.WaitSmall
		}
		push(event{at: now + rest.Seconds(), site: e.site})
		if len(s.out.Pages)%4096 == 0 && ctx.Err() != nil {
			return s.out, ctx.Err()
		}
	}
}

// Curve is cumulative PageRank after each share of the pages, at points+1 places from 0 to 1.
func Curve(pages []order.Page, rank []float64, points int) []float64 {
	out := make([]float64, points+1)
	sum, next := 0., 1
	for i, p := range pages {
		sum += rank[p]
		for next <= points && (i+1)*points >= next*len(rank) {
			out[next] = sum
			next++
		}
	}
	for ; next <= points; next++ {
		out[next] = sum
	}
	return out
}

// Average cumulative PageRank over the crawl: the area under the curve. Pages never fetched leave it as it is.
func Average(pages []order.Page, rank []float64) float64 {
	sum, area := 0., 0.
	for _, p := range pages {
		sum += rank[p]
		area += sum
	}
	area += sum * float64(len(rank)-len(pages))
	return area / float64(len(rank))
}

// AverageOver is the same over time, from 0 to end.
func AverageOver(c Crawl, rank []float64, end float64) float64 {
	area := 0.
	for i, p := range c.Pages {
		area += rank[p] * max(end-c.At[i], 0)
	}
	return area / end
}

// Reach is when a share of the PageRank was there; infinite if it never was.
func Reach(c Crawl, rank []float64, share float64) float64 {
	sum := 0.
	for i, p := range c.Pages {
		if sum += rank[p]; sum >= share {
			return c.At[i]
		}
	}
	return math.Inf(1)
}

// Tau is Kendall's tau-b between the order of fetching and descending PageRank, over a sample of the pages fetched.
func Tau(pages []order.Page, rank []float64, sample int, seed uint64) float64 {
	rng := rand.New(rand.NewPCG(seed, 0x7a0))
	at := rng.Perm(len(pages))
	at = at[:min(sample, len(at))]
	slices.Sort(at)
	value := make([]float64, len(at))
	for i, k := range at {
		value[i] = -rank[pages[k]]
	}
	return kendall(value)
}

// kendall is tau-b between a list and its own positions, which are never tied: swaps of a merge sort are the inversions.
func kendall(v []float64) float64 {
	n := len(v)
	if n < 2 {
		return 0
	}
	sorted := slices.Clone(v)
	inversions := mergeCount(sorted, make([]float64, n))
	tied := 0.
	for i := 0; i < n; {
		j := i
		for j < n && sorted[j] == sorted[i] {
			j++
		}
		tied += float64(j-i) * float64(j-i-1) / 2
		i = j
	}
	pairs := float64(n) * float64(n-1) / 2
	if tied == pairs {
		return 0
	}
	return (pairs - tied - 2*float64(inversions)) / math.Sqrt(pairs*(pairs-tied))
}

func mergeCount(v, buf []float64) (inversions int) {
	if len(v) < 2 {
		return 0
	}
	m := len(v) / 2
	inversions = mergeCount(v[:m], buf[:m]) + mergeCount(v[m:], buf[m:])
	i, j := 0, m
	for k := range buf {
		if j >= len(v) || i < m && v[i] <= v[j] {
			buf[k] = v[i]
			i++
		} else {
			buf[k] = v[j]
			inversions += m - i
			j++
		}
	}
	copy(v, buf)
	return inversions
}
