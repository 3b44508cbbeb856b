package allocate

import (
	"fmt"
	"math"
)

// MaxInstants bounds the potential update instants of a quasi-deterministic page: one a minute for a day.
const MaxInstants = 1440

// smallQuasi is the number of instants up to which all of A is tabulated; beyond it A is searched by its multiplier.
const smallQuasi = 40

// blockTail is the product of (1-k) at which a new block of prefix sums begins, so that no difference of sums loses more than three digits.
const blockTail = 1e-3

// quasi is the model of section 2.3.3. Nodes are 0..Q: node 0 is the beginning of the interval with the probability k0 that the copy is stale
// there, nodes 1..Q are the potential updates, node Q+1 is the end. A crawl at node i and the next at node j keep the page fresh for
//
//	f(i,j) = sum over m = i..j-1 of (u_{m+1}-u_m) * product over l = i+1..m of (1-k_l),
//
// which is equation 18 with the factor (u_{j+1}-u_j)/T that the paper leaves out. f has the inverse Monge property
// f(a,c)+f(b,d) >= f(a,d)+f(b,c), so the best freshness of x crawls is concave in x and best predecessors are monotone.
type quasi struct {
	span  float64
	u, k  []float64 // by node; u has one more, the end
	w     []float64 // w[m]: within its block, sum of (u_{l+1}-u_l)*p[l] over l < m
	p     []float64 // product of (1-k) within the block, 1 at its first node
	block []int32   // last node of the node's block
}

// NewQuasi is a page that may change only at the instants u within 0..span, each with its probability k. k0 is the probability that the copy
// is stale when the interval begins.
func NewQuasi(span float64, u, k []float64, k0 float64) (Model, error) {
	if !(span > 0) || math.IsInf(span, 0) {
		return Model{}, fmt.Errorf("%w: interval of length %g", ErrModel, span)
	}
	if len(u) > MaxInstants || len(u) != len(k) {
		return Model{}, fmt.Errorf("%w: %d update instants with %d probabilities; at most %d, one probability each", ErrModel, len(u), len(k), MaxInstants)
	}
	if !(k0 >= 0 && k0 <= 1) {
		return Model{}, fmt.Errorf("%w: probability %g of a stale copy at the beginning", ErrModel, k0)
	}
	n := len(u) + 1
	buf := make([]float64, 4*n+2)
	q := &quasi{span: span, u: buf[: n+1 : n+1], k: buf[n+1 : 2*n+1 : 2*n+1], w: buf[2*n+1 : 3*n+2 : 3*n+2], p: buf[3*n+2:], block: make([]int32, n)}
	q.k[0], q.u[n] = k0, span
	last := 0.
	for i, t := range u {
		if !(t >= last && t <= span) || (i > 0 && t == last) {
			return Model{}, fmt.Errorf("%w: update instant %g: instants must ascend within 0..%g", ErrModel, t, span)
		}
		if !(k[i] >= 0 && k[i] <= 1) {
			return Model{}, fmt.Errorf("%w: update probability %g", ErrModel, k[i])
		}
		q.u[i+1], q.k[i+1], last = t, k[i], t
	}
	q.index()
	return Model{kind: QuasiKind, q: q}, nil
}

func (q *quasi) index() {
	n := len(q.k)
	first, p, w := 0, 1., 0.
	for m := range n {
		if m > first {
			p *= 1 - q.k[m]
			if p < blockTail {
				for l := first; l < m; l++ {
					q.block[l] = int32(m - 1)
				}
				first, p = m, 1
			}
		}
		q.p[m], q.w[m] = p, w
		w += (q.u[m+1] - q.u[m]) * p
		q.w[m+1] = w
	}
	for l := first; l < n; l++ {
		q.block[l] = int32(n - 1)
	}
}

func (q *quasi) instants() int { return len(q.k) - 1 }

func (q *quasi) expected() float64 {
	s := 0.
	for _, k := range q.k[1:] {
		s += k
	}
	return s
}

// fresh is f(i,j); i = -1 is the state before any crawl.
func (q *quasi) fresh(i, j int) float64 {
	factor, sum := 1., 0.
	if i < 0 {
		i, factor = 0, 1-q.k[0]
	}
	for i < j && factor > 1e-18 {
		end := int(q.block[i]) + 1
		stop := min(end, j)
		sum += factor * (q.w[stop] - q.w[i]) / q.p[i]
		if end >= len(q.k) {
			break
		}
		factor *= q.p[end-1] / q.p[i] * (1 - q.k[end])
		i = stop
	}
	return sum
}

// table fills v with the best total freshness (in time) of 0..Q+1 crawls. Exact, O(Q^3); scratch is reused.
func (q *quasi) table(s *scratch) []float64 {
	n := len(q.k) // nodes 0..n-1 and the end n
	f := grow(&s.f, (n+1)*(n+1))
	for i := range n {
		for j := i + 1; j <= n; j++ {
			f[i*(n+1)+j] = q.fresh(i, j)
		}
	}
	cur, next, v := grow(&s.cur, n+1), grow(&s.next, n+1), grow(&s.v, n+1)
	for j := 0; j <= n; j++ {
		cur[j] = (1 - q.k[0]) * f[j]
	}
	cur[0] = 0
	v[0] = cur[n]
	for x := 1; x <= n; x++ {
		for j := 0; j < x; j++ {
			next[j] = math.Inf(-1)
		}
		for j := x; j <= n; j++ {
			best := math.Inf(-1)
			for i := x - 1; i < j; i++ {
				if c := cur[i] + f[i*(n+1)+j]; c > best {
					best = c
				}
			}
			next[j] = best
		}
		v[x] = math.Max(next[n], v[x-1])
		cur, next = next, cur
	}
	return v
}

// atPrice maximises freshness minus price times crawls. It returns the freshness and the least number of crawls that reaches the maximum.
func (q *quasi) atPrice(price float64, s *scratch) (value float64, crawls int) {
	n := len(q.k)
	v, cnt := grow(&s.v, n+1), growInt(&s.cnt, n+1)
	cand, from := growInt(&s.cand, n+1), growInt(&s.from, n+2)
	// cand[head..] are predecessors; cand[l] is best for ends from[l]..from[l+1]-1. A later one, once better, stays better.
	head, tail := 0, 1
	cand[0], from[0] = -1, 0
	val := func(i, j int) float64 {
		if i < 0 {
			return q.fresh(-1, j)
		}
		return v[i] - price + q.fresh(i, j)
	}
	for j := 0; j <= n; j++ {
		for head+1 < tail && from[head+1] <= j {
			head++
		}
		i := cand[head]
		v[j], cnt[j] = val(i, j), 0
		if i >= 0 {
			cnt[j] = cnt[i] + 1
		}
		if j == n {
			break
		}
		for tail > head {
			at := max(from[tail-1], j+1)
			if val(j, at) > val(cand[tail-1], at) {
				tail--
				continue
			}
			break
		}
		if tail == head {
			cand[tail], from[tail] = j, j+1
			tail++
			continue
		}
		lo, hi := max(from[tail-1], j+1), n+1 // val(j,lo) is not better; find the first end where it is
		for lo+1 < hi {
			mid := (lo + hi) / 2
			if val(j, mid) > val(cand[tail-1], mid) {
				hi = mid
			} else {
				lo = mid
			}
		}
		if hi <= n {
			cand[tail], from[tail] = j, hi
			tail++
		}
	}
	return v[n] + price*float64(cnt[n]), cnt[n]
}

// gains returns how many gains lie above hi, and the gains in time of the next crawls that lie in (lo, hi]. It finds them by multipliers, for
// pages with many instants. The recursion splits at the slope between two known points of A, until no point lies below the chord; all gains
// between are that slope then.
func (q *quasi) gains(hi, lo float64, s *scratch) (above int, g []float64) {
	vh, above := q.atPrice(hi, s)
	vl, below := q.atPrice(math.Max(lo, 0), s)
	s.gains = s.gains[:0]
	if below > above {
		q.chord(above, vh, below, vl, s, 0)
	}
	return above, s.gains
}

func (q *quasi) chord(x1 int, v1 float64, x2 int, v2 float64, s *scratch, depth int) {
	slope := (v2 - v1) / float64(x2-x1)
	if x2-x1 > 1 && depth < 64 {
		v, x := q.atPrice(slope, s)
		if x > x1 && x < x2 && v-v1-slope*float64(x-x1) > 1e-12*q.span {
			q.chord(x1, v1, x, v, s, depth+1)
			q.chord(x, v, x2, v2, s, depth+1)
			return
		}
	}
	for range x2 - x1 {
		s.gains = append(s.gains, slope)
	}
}

// staleness is A(x), exactly.
func (q *quasi) staleness(x int) float64 {
	n := len(q.k)
	x = min(x, n)
	if n <= smallQuasi+1 {
		return clamp01(1 - q.table(&scratch{})[x]/q.span)
	}
	return clamp01(1 - q.value(x, &scratch{})/q.span)
}

// value is the freshness of the x best crawls, found by multipliers. Between two known points of the concave curve it tries their slope, until
// it meets x or finds that nothing lies above the chord.
func (q *quasi) value(x int, s *scratch) float64 {
	n := len(q.k)
	x1, x2, v1, v2 := 0, n, q.fresh(-1, n), q.span
	for x > x1 && x < x2 {
		slope := (v2 - v1) / float64(x2-x1)
		v, c := q.atPrice(slope, s)
		if c <= x1 || c >= x2 || v-v1-slope*float64(c-x1) <= 1e-12*q.span {
			return v1 + slope*float64(x-x1)
		}
		if c <= x {
			x1, v1 = c, v
		} else {
			x2, v2 = c, v
		}
	}
	if x >= x2 {
		return v2
	}
	return v1
}

// best returns the nodes of the x best crawls and their freshness. It goes layer by layer, each by divide and conquer on the monotone
// predecessors.
func (q *quasi) best(x int) (nodes []int, value float64) {
	n := len(q.k)
	x = min(x, n)
	cur, next := make([]float64, n+1), make([]float64, n+1)
	for j := range cur {
		cur[j] = q.fresh(-1, j)
	}
	pred := make([][]int16, x)
	for l := range x {
		for j := range next {
			next[j] = math.Inf(-1)
		}
		pred[l] = make([]int16, n+1)
		q.layer(cur, next, pred[l], l, l+1, n, l, n-1)
		cur, next = next, cur
	}
	nodes = make([]int, x)
	j := n
	for l := x - 1; l >= 0; l-- {
		j = int(pred[l][j])
		nodes[l] = j
	}
	return nodes, cur[n]
}

// layer fills next[lo..hi] from cur, with predecessors within a..b and not below least.
func (q *quasi) layer(cur, next []float64, pred []int16, least, lo, hi, a, b int) {
	if lo > hi {
		return
	}
	mid := (lo + hi) / 2
	best, arg := math.Inf(-1), a
	for i := max(a, least); i <= min(b, mid-1); i++ {
		if c := cur[i] + q.fresh(i, mid); c > best {
			best, arg = c, i
		}
	}
	next[mid], pred[mid] = best, int16(arg)
	q.layer(cur, next, pred, least, lo, mid-1, a, arg)
	q.layer(cur, next, pred, least, mid+1, hi, arg, b)
}

// Instants gives the ideal times of x crawls within 0..span: the ends of equal segments for the stochastic models, for a quasi-deterministic
// page the best x of its update instants (fewer if it has fewer).
func (m Model) Instants(x int, span float64) []float64 {
	if m.kind == QuasiKind {
		nodes, _ := m.q.best(x)
		t := make([]float64, len(nodes))
		for i, n := range nodes {
			t[i] = m.q.u[n]
		}
		return t
	}
	t := make([]float64, x)
	for i := range t {
		t[i] = span * float64(i+1) / float64(x+1)
	}
	return t
}

// scratch is a worker's memory for quasi-deterministic pages, bounded by MaxInstants.
type scratch struct {
	f, cur, next, v, gains []float64
	cnt, cand, from        []int
}

func grow(s *[]float64, n int) []float64 {
	if cap(*s) < n {
		*s = make([]float64, n+16)
	}
	return (*s)[:n]
}

func growInt(s *[]int, n int) []int {
	if cap(*s) < n {
		*s = make([]int, n+16)
	}
	return (*s)[:n]
}

// Repeat is a quasi-deterministic page over several intervals of length span instead of one. They begin at phase shift of the first.
func (m Model) Repeat(span, shift float64, times int) (Model, error) {
	if m.kind != QuasiKind || m.q.span != span || times < 1 || !(shift >= 0 && shift <= span) {
		return Model{}, fmt.Errorf("%w: cannot repeat %v at interval %g, shift %g", ErrModel, m, span, shift)
	}
	var u, k []float64
	for d := range times + 1 {
		for j := 1; j < len(m.q.k); j++ {
			if t := float64(d)*span + m.q.u[j] - shift; t >= 0 && t < float64(times)*span {
				u, k = append(u, t), append(k, m.q.k[j])
			}
		}
	}
	return NewQuasi(span*float64(times), u, k, 0)
}
