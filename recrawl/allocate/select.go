package allocate

import (
	"math"
	"sync"
	"sync/atomic"
)

const (
	chunkPages  = 8192   // pages that a worker takes at once
	chunkCands  = 32_768 // gains that a chunk collects at most; with more, the bracket is narrowed first
	samplePages = 8192
	tiniest     = 1e-300 // gains up to this count as none
	maxPasses   = 200    // two or three are usual
)

// cand is a gain inside the bracket.
type cand struct {
	gain float64
	page int32
}

// solver finds the price. Its passes run over fixed chunks of pages and join their results in chunk order, so the number of workers changes
// nothing.
type solver struct {
	*Problem
	x     []int32
	need  int64 // crawls to give out above the minima
	cands [][]cand
	count []int64   // per chunk: gains above hi
	below []int64   // per chunk: gains above lo
	sums  []float64 // per chunk: objective
	work  []scratch // per worker
}

func newSolver(p *Problem) *solver {
	n := (len(p.Pages) + chunkPages - 1) / chunkPages
	s := &solver{Problem: p, x: make([]int32, len(p.Pages)), need: p.R, cands: make([][]cand, n), count: make([]int64, n), below: make([]int64, n),
		sums: make([]float64, n), work: make([]scratch, p.Cores)}
	for i := range p.Pages {
		s.need -= int64(p.Pages[i].Min)
	}
	return s
}

// each runs f over all chunks of pages on all workers.
func (s *solver) each(f func(chunk, from, to int, w *scratch)) {
	s.share(len(s.cands), func(c int, w *scratch) { f(c, c*chunkPages, min((c+1)*chunkPages, len(s.Pages)), w) })
}

// share runs f over n parts on all workers.
func (s *solver) share(n int, f func(part int, w *scratch)) {
	if s.Cores == 1 || n <= 1 {
		for c := range n {
			f(c, &s.work[0])
		}
		return
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	for w := range min(s.Cores, n) {
		wg.Go(func() {
			for {
				c := int(next.Add(1)) - 1
				if c >= n {
					return
				}
				f(c, &s.work[w])
			}
		})
	}
	wg.Wait()
}

// crawls gives the number of a page's gains above price, within its bounds, and the staleness with that many crawls and with one more.
func (s *solver) crawls(p *Page, price float64, w *scratch) (x int, ax, next float64) {
	limit := int(min(int64(p.natural()), int64(p.Min)+s.need))
	least := int(p.Min)
	m := &p.Model
	if p.Weight == 0 || math.IsInf(price, 1) {
		return least, 0, 0
	}
	c := price / p.Weight
	x = m.above(c, s.Span, least, limit)
	return x, m.stale(s.Span / float64(x+1)), m.stale(s.Span / float64(x+2))
}

// above counts the gains stale(T/(x+1))-stale(T/(x+2)) that exceed c, from least to limit.
func (m *Model) above(c, span float64, least, limit int) int {
	gain := func(x int) float64 { return drop(m.stale(span/float64(x+1)), m.stale(span/float64(x+2))) }
	if least >= limit || !(gain(least) > c) {
		return least
	}
	x := least + 1
	if m.kind != EmpiricalKind && c > 0 {
		x = min(max(m.guess(c, span), least+1), limit)
	}
	// Gains are non-increasing: gain(good) > c >= gain(bad). Step away from the guess, doubling, then halve.
	good, bad := least, limit
	for step := 1; ; step *= 2 {
		if x < bad && gain(x) > c {
			good = x
			if x+step >= bad {
				break
			}
			x += step
			continue
		}
		bad = min(bad, x)
		if x-step <= good {
			break
		}
		x -= step
	}
	for good+1 < bad {
		mid := good + (bad-good)/2
		if gain(mid) > c {
			good = mid
		} else {
			bad = mid
		}
	}
	return good + 1
}

// drop is a-b, or 0 where rounding decides it: such gains need not be monotone.
func drop(a, b float64) float64 {
	if d := a - b; d > 1e-15*a {
		return d
	}
	return 0
}

// guess solves marginal(T/n) = c T by Newton steps on its square root, which is nearly linear at small t.
func (m *Model) guess(c, span float64) int {
	goal := math.Sqrt(c * span)
	mean := 1 / m.Rate(span)
	t := min(goal*math.Sqrt(2*mean), span)
	for range 6 {
		h, dh := m.marginal(t)
		if !(h > 0) || !(dh > 0) {
			break
		}
		z := math.Sqrt(h)
		d := (goal - z) * 2 * z / dh
		last := t
		t = min(max(t+d, t/4), span)
		if math.Abs(t-last) < .02*t*t/span || math.Abs(t-last) < 1e-4*t {
			break
		}
	}
	n := span / t
	if !(n < MaxCrawls) {
		return MaxCrawls
	}
	return int(n - .5)
}

// scan counts the gains of one page above hi and calls emit with those in (lo, hi], in order.
func (s *solver) scan(i int, hi, lo float64, w *scratch, emit func(gain float64)) int {
	p := &s.Pages[i]
	if p.Model.kind == QuasiKind {
		return s.scanQuasi(p, hi, lo, w, emit)
	}
	x, ax, next := s.crawls(p, hi, w)
	if p.Weight == 0 {
		return x
	}
	limit := int(min(int64(p.natural()), int64(p.Min)+s.need))
	for k := x; k < limit && lo < hi; k++ {
		g := p.Weight * drop(ax, next)
		if !(g > lo) {
			break
		}
		emit(min(g, hi))
		ax, next = next, p.Model.stale(s.Span/float64(k+3))
	}
	return x
}

func (s *solver) scanQuasi(p *Page, hi, lo float64, w *scratch, emit func(gain float64)) int {
	q, least, limit := p.Model.q, int(p.Min), int(min(int64(p.natural()), int64(p.Min)+s.need))
	if p.Weight == 0 || least >= limit || math.IsInf(hi, 1) {
		return least
	}
	unit := s.Span / p.Weight // of a price, in time
	if q.instants() <= smallQuasi {
		v := q.table(w)
		x := least
		for ; x < limit && v[x+1]-v[x] > hi*unit; x++ {
		}
		for k := x; lo < hi && k < limit && v[k+1]-v[k] > lo*unit; k++ {
			emit(min((v[k+1]-v[k])/unit, hi))
		}
		return x
	}
	if lo >= hi {
		_, above := q.atPrice(hi*unit, w)
		return min(max(above, least), limit)
	}
	above, g := q.gains(hi*unit, lo*unit, w)
	for k, t := range g {
		if above+k >= least && above+k < limit {
			emit(min(t/unit, hi))
		}
	}
	return min(max(above, least), limit)
}

// pass counts all gains above hi and above lo. With collect it sets x to the counts at hi and keeps the gains between. full says that a
// chunk had no room for all of them.
func (s *solver) pass(hi, lo float64, collect bool) (atHi, atLo int64, full bool) {
	s.each(func(c, from, to int, w *scratch) {
		cs := s.cands[c][:0]
		var n, between int64
		for i := from; i < to; i++ {
			x := s.scan(i, hi, lo, w, func(g float64) {
				between++
				if collect && len(cs) < chunkCands {
					cs = append(cs, cand{g, int32(i)})
				}
			})
			s.x[i] = int32(x)
			n += int64(x - int(s.Pages[i].Min))
		}
		s.cands[c], s.count[c], s.below[c] = cs, n, n+between
	})
	for c := range s.count {
		atHi += s.count[c]
		atLo += s.below[c]
		full = full || s.below[c]-s.count[c] > int64(len(s.cands[c]))
	}
	return atHi, atLo, full
}

// run gives out need crawls and returns the price.
func (s *solver) run() float64 {
	if s.need == 0 || len(s.Pages) == 0 {
		for i := range s.x {
			s.x[i] = s.Pages[i].Min
		}
		return 0
	}
	hi, lo := s.bracket()
	above, beneath := math.Inf(1), 0. // prices known to be too high and too low
	fall := 2.                        // squared at every step down: where the sample misled, or nearly everything is bought
	rise := 4.                        // and at every step up: the sample may lie hundreds of orders of magnitude too low
	for range maxPasses {
		lo = max(lo, tiniest)
		hi = max(hi, lo)
		atHi, atLo, full := s.pass(hi, lo, true)
		switch {
		case atHi > s.need: // hi is too low
			beneath = hi
			lo, hi = hi, min(hi*rise, geo(hi, above))
			rise *= rise
			if hi == lo {
				hi = math.Nextafter(lo, math.Inf(1))
			}
		case atLo < s.need && lo <= tiniest: // all that gains anything is bought
			s.pass(lo, lo, false)
			return 0
		case atLo < s.need:
			above = lo
			fall *= fall
			hi, lo = lo, max(lo/fall, geo(lo, beneath))
			if hi == lo {
				lo = math.Nextafter(hi, 0)
			}
		case full && math.Nextafter(lo, hi) < hi: // narrow to a quarter around where the need should lie
			f := float64(s.need-atHi) / float64(atLo-atHi)
			l, h := math.Log(lo), math.Log(hi)
			mid := h + (l-h)*f
			above, beneath = hi, lo
			nh, nl := math.Exp(mid+(h-l)/8), math.Exp(mid-(h-l)/8)
			hi, lo = min(nh, hi), max(nl, lo)
			if !(hi > lo) {
				hi = math.Nextafter(lo, math.Inf(1))
			}
		default:
			return s.take(s.need-atHi, full)
		}
	}
	// Only gains at the resolution of a float, which rounding keeps from being monotone, separate the bounds; fillIdle shares the rest.
	s.pass(above, above, false)
	return above
}

// geo is the geometric mean, with care for the open ends.
func geo(a, b float64) float64 {
	if b == 0 || math.IsInf(b, 0) {
		if b == 0 {
			return 0
		}
		return math.Inf(1)
	}
	return math.Sqrt(a) * math.Sqrt(b)
}

// take buys k more of the gains in the bracket: all above the k-th largest, and of those equal to it the first in page order. A full bracket
// holds equal gains (two neighbouring floats); take then scans the pages in order instead.
func (s *solver) take(k int64, full bool) (price float64) {
	if full {
		return s.takeEqual(k)
	}
	total := 0
	for _, c := range s.cands {
		total += len(c)
	}
	if k <= 0 || total == 0 {
		return 0
	}
	price = tiniest
	ties := int64(0)
	if int64(total) > k {
		g := make([]float64, 0, total)
		for _, c := range s.cands {
			for _, d := range c {
				g = append(g, d.gain)
			}
		}
		price = kthLargest(g, int(k)-1)
		ties = k
		for _, v := range g {
			if v > price {
				ties--
			}
		}
	}
	least := math.Inf(1)
	for _, c := range s.cands {
		for _, d := range c {
			if d.gain > price {
				s.x[d.page]++
			} else if d.gain == price && ties > 0 {
				s.x[d.page]++
				ties--
			} else {
				continue
			}
			least = min(least, d.gain)
		}
	}
	return least
}

func (s *solver) takeEqual(k int64) (price float64) {
	price = math.Inf(1)
	for i := range s.Pages {
		p := &s.Pages[i]
		if p.Weight == 0 || k == 0 {
			continue
		}
		for limit := p.natural(); int(s.x[i]) < limit && k > 0; k-- {
			g := p.Weight * (p.Model.Staleness(int(s.x[i]), s.Span) - p.Model.Staleness(int(s.x[i])+1, s.Span))
			if !(g > 0) || g < price*(1-1e-12) && !math.IsInf(price, 1) {
				break
			}
			price = min(price, g)
			s.x[i]++
		}
	}
	return price
}

// fillIdle spreads what is left evenly over pages that gain nothing by it, and returns what no page can take.
func (s *solver) fillIdle() int64 {
	left := s.R
	for _, x := range s.x {
		left -= int64(x)
	}
	for left > 0 {
		open := int64(0)
		for i := range s.Pages {
			if int(s.x[i]) < s.Pages[i].natural() {
				open++
			}
		}
		if open == 0 {
			break
		}
		share := max(left/open, 1)
		for i := range s.Pages {
			d := min(share, left, int64(s.Pages[i].natural())-int64(s.x[i]))
			if d > 0 {
				s.x[i] += int32(d)
				left -= d
			}
		}
	}
	return left
}

// objective adds up w_i A_i(x_i). A page with many instants is looked up at the price: it has all gains above the price, and of those equal to
// it the rest.
func (s *solver) objective(price float64) float64 {
	s.each(func(c, from, to int, w *scratch) {
		sum := 0.
		for i := from; i < to; i++ {
			p := &s.Pages[i]
			switch {
			case p.Weight == 0:
			case p.Model.kind == QuasiKind && p.Model.q.instants() <= smallQuasi:
				q := p.Model.q
				sum += p.Weight * clamp01(1-q.table(w)[min(int(s.x[i]), len(q.k))]/q.span)
			case p.Model.kind == QuasiKind && s.x[i] > p.Min && int(s.x[i]) < p.natural() && price > 0:
				q, unit := p.Model.q, s.Span/p.Weight
				v, n := q.atPrice(price*unit, w)
				sum += p.Weight * clamp01(1-(v+float64(int(s.x[i])-n)*price*unit)/q.span)
			default:
				sum += p.Weight * p.Model.Staleness(int(s.x[i]), s.Span)
			}
		}
		s.sums[c] = sum
	})
	sum := 0.
	for _, v := range s.sums {
		sum += v
	}
	return sum
}

// kthLargest partitions g around its k-th largest element (from 0) and returns it.
func kthLargest(g []float64, k int) float64 {
	for len(g) > 1 {
		n := len(g)
		p := median3(g[n/4], g[n/2], g[3*n/4])
		a, b, c := 0, 0, n // g[:a] > p, g[a:b] == p, g[c:] < p
		for b < c {
			switch v := g[b]; {
			case v > p:
				g[a], g[b] = g[b], g[a]
				a++
				b++
			case v < p:
				c--
				g[b], g[c] = g[c], g[b]
			default:
				b++
			}
		}
		switch {
		case k < a:
			g = g[:a]
		case k < b:
			return p
		default:
			g, k = g[b:], k-b
		}
	}
	return g[0]
}

func median3(a, b, c float64) float64 { return max(min(a, b), min(max(a, b), c)) }
