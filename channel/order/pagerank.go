package order

import (
	"fmt"
	"math"
)

// Graph is the links of a set of pages: those of page i are Arcs[Offsets[i]:Offsets[i+1]].
type Graph struct {
	Offsets []uint64
	Arcs    []uint32
}

// NewGraph builds a graph of n pages from links in any order. A link to or from a page that is not there is an error.
func NewGraph(n int, from, to []uint32) (Graph, error) {
	if len(from) != len(to) {
		return Graph{}, fmt.Errorf("%w: %d sources and %d targets", ErrConfig, len(from), len(to))
	}
	g := Graph{Offsets: make([]uint64, n+1), Arcs: make([]uint32, len(to))}
	for i, u := range from {
		if int(u) >= n || int(to[i]) >= n {
			return Graph{}, fmt.Errorf("%w: link %d -> %d in a graph of %d pages", ErrConfig, u, to[i], n)
		}
		g.Offsets[u+1]++
	}
	for i := range n {
		g.Offsets[i+1] += g.Offsets[i]
	}
	next := make([]uint64, n)
	copy(next, g.Offsets)
	for i, u := range from {
		g.Arcs[next[u]] = to[i]
		next[u]++
	}
	return g, nil
}

// Pages is the number of pages.
func (g Graph) Pages() int { return max(len(g.Offsets)-1, 0) }

// Links of a page.
func (g Graph) Links(p Page) []uint32 { return g.Arcs[g.Offsets[p]:g.Offsets[p+1]] }

// Options of PageRank. Zero fields mean their defaults.
type Options struct {
	Jump      float64   // epsilon of eq. (1): probability of a random jump, above 0 and below 1; 0: .15
	Tolerance float64   // sum of the absolute errors of the result, bounded; 0: 1e-10
	Start     []float64 // ranks to begin from, such as yesterday's; where shorter than the graph the rest begins anew
	MaxSweeps int       // bound of the sweeps over the graph; 0: 1,000
}

// PageRank computes the rank of every page by eq. (1). The ranks add up to 1, and a page without links jumps to a
// random page. PageRank also returns the number of sweeps over the links.
//
// With uniform jumps PageRank is, up to its scale, the solution of x = 1 + (1-e) A x, where a page without links
// passes nothing on (Del Corso, Gullí, Romani, "Fast PageRank computation via a sparse linear system", 2005).
// Gauss-Seidel sweeps over the pages that have links solve it; the others are computed once, at the end.
func PageRank(g Graph, o Options) (rank []float64, sweeps int) {
	n := g.Pages()
	degree := make([]uint32, n)
	for i := range n {
		degree[i] = uint32(g.Offsets[i+1] - g.Offsets[i])
	}
	from := make([]uint32, n)
	for i := range from {
		from[i] = uint32(i)
	}
	ends := g.Offsets
	if n > 0 {
		ends = g.Offsets[1:]
	}
	return transpose(n, from, ends, g.Arcs).solve(degree, o)
}

// incoming is a transposed graph.
type incoming struct {
	offsets []uint64
	arcs    []uint32
}

// transpose turns rows of links around: row i is of page from[i] and ends at ends[i].
func transpose(n int, from []uint32, ends []uint64, arcs []uint32) incoming {
	in := incoming{make([]uint64, n+1), make([]uint32, len(arcs))}
	for _, v := range arcs {
		in.offsets[v+1]++
	}
	for i := range n {
		in.offsets[i+1] += in.offsets[i]
	}
	next := make([]uint64, n)
	copy(next, in.offsets)
	var first uint64
	for i, u := range from {
		for _, v := range arcs[first:ends[i]] {
			in.arcs[next[v]] = u
			next[v]++
		}
		first = ends[i]
	}
	return in
}

func (in incoming) solve(degree []uint32, o Options) (rank []float64, sweeps int) {
	n := len(degree)
	if n == 0 {
		return nil, 0
	}
	follow := .85
	if o.Jump > 0 && o.Jump < 1 {
		follow = 1 - o.Jump
	}
	if !(o.Tolerance > 0) {
		o.Tolerance = 1e-10
	}
	if o.MaxSweeps <= 0 {
		o.MaxSweeps = 1000
	}
	active := make([]uint32, 0, n) // pages with links
	give := make([]float64, n)     // follow * x / degree
	share := make([]float64, n)    // follow / degree
	begin := starts(o.Start, float64(n)/(1-follow))
	for i, d := range degree {
		if d > 0 {
			active = append(active, uint32(i))
			share[i] = follow / float64(d)
			give[i] = share[i] * begin(i)
		}
	}
	rank = make([]float64, n)
	for check := 1.; ; check /= 10 {
		for sweeps < o.MaxSweeps {
			moved, total := in.sweep(active, give, share)
			sweeps++
			if moved <= check*o.Tolerance*(1-follow)*total {
				break
			}
		}
		// One step of Jacobi's method fills in every page. Its residual r bounds the remaining error: |x' - x*| <=
		// follow/(1-follow) |r| in the sum norm. Normalising at most doubles it; the small extra term is for
		// rounding.
		sum, residual := in.fill(rank, give, share)
		sweeps++
		if 2.1*follow/(1-follow)*residual <= o.Tolerance*sum || sweeps >= o.MaxSweeps {
			for i := range rank {
				rank[i] /= sum
			}
			return rank, sweeps
		}
	}
}

// starts gives each page's first guess, on the scale on which the least page has 1; none can have more than most.
func starts(start []float64, most float64) func(i int) float64 {
	least := math.Inf(1)
	for _, r := range start {
		if r > 0 {
			least = min(least, r)
		}
	}
	return func(i int) float64 {
		if i < len(start) && start[i] > 0 && start[i] < 1e300 && least > 1e-300 {
			return min(start[i]/least, most)
		}
		return 1
	}
}

// sweep is one Gauss-Seidel sweep. It returns how much x moved, and its sum.
func (in incoming) sweep(active []uint32, give, share []float64) (moved, total float64) {
	for _, i := range active {
		x := 1.
		for _, j := range in.arcs[in.offsets[i]:in.offsets[i+1]] {
			x += give[j]
		}
		g := x * share[i]
		moved += math.Abs(g-give[i]) / share[i]
		total += x
		give[i] = g
	}
	return moved, total
}

func (in incoming) fill(x, give, share []float64) (sum, residual float64) {
	for i := range x {
		v := 1.
		for _, j := range in.arcs[in.offsets[i]:in.offsets[i+1]] {
			v += give[j]
		}
		x[i] = v
		sum += v
		if share[i] > 0 {
			residual += math.Abs(v - give[i]/share[i])
		}
	}
	return sum, residual
}
