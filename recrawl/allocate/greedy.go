package allocate

import "container/heap"

// HeapGreedy is Fox's marginal analysis (the paper's section 2.4), the slow twin of Solve: it buys the largest gain r times. It is kept for
// comparison in tests and experiments. The problem must be feasible; r counts the minima.
func HeapGreedy(pages []Page, span float64, r int64) []int32 {
	x := make([]int32, len(pages))
	h := make(gainHeap, 0, len(pages))
	var s scratch
	tables := map[int32][]float64{}
	gain := func(i int32) (float64, bool) {
		p := &pages[i]
		if int(x[i]) >= p.natural() {
			return 0, false
		}
		if p.Model.kind == QuasiKind {
			t, ok := tables[i]
			if !ok {
				t = p.Model.q.curve(&s)
				tables[i] = t
			}
			return p.Weight * (t[x[i]] - t[x[i]+1]), true
		}
		return p.Weight * (p.Model.Staleness(int(x[i]), span) - p.Model.Staleness(int(x[i])+1, span)), true
	}
	for i := range pages {
		x[i] = pages[i].Min
		r -= int64(x[i])
		if g, ok := gain(int32(i)); ok {
			h = append(h, cand{g, int32(i)})
		}
	}
	heap.Init(&h)
	for ; r > 0 && len(h) > 0; r-- {
		i := h[0].page
		x[i]++
		if g, ok := gain(i); ok {
			h[0].gain = g
			heap.Fix(&h, 0)
		} else {
			heap.Pop(&h)
		}
	}
	return x
}

// curve is A(0..Q+1).
func (q *quasi) curve(s *scratch) []float64 {
	a := make([]float64, len(q.k)+1)
	if q.instants() <= smallQuasi {
		for x, v := range q.table(s)[:len(a)] {
			a[x] = clamp01(1 - v/q.span)
		}
		return a
	}
	cur, next := make([]float64, len(a)), make([]float64, len(a))
	pred := make([]int16, len(a))
	for j := range cur {
		cur[j] = q.fresh(-1, j)
	}
	n := len(q.k)
	a[0] = clamp01(1 - cur[n]/q.span)
	for l := range n {
		for j := 0; j <= l; j++ {
			next[j] = -1e300
		}
		q.layer(cur, next, pred, l, l+1, n, l, n-1)
		cur, next = next, cur
		a[l+1] = min(a[l], clamp01(1-cur[n]/q.span))
	}
	return a
}

type gainHeap []cand

func (h gainHeap) Len() int { return len(h) }
func (h gainHeap) Less(i, j int) bool {
	return h[i].gain > h[j].gain || h[i].gain == h[j].gain && h[i].page < h[j].page
}
func (h gainHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *gainHeap) Push(x any)   { *h = append(*h, x.(cand)) }
func (h *gainHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}
