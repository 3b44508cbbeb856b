package ordersim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"shoal/channel/order"
)

// Earlier is what an earlier crawl of a Web has left: the PageRank that its pages had then.
type Earlier struct {
	Rank   []float64 // by page; NaN: the page was not there
	Ranks  []float32 // those that were
	Absent float64   // share of the pages that were not there
	Held   float64   // share of today's PageRank that those hold
	Weeks  float64   // of links created since; 0: unknown
}

// DeriveConfig says how an earlier crawl is made up from a later one. The defaults are the paper's: 45% of the pages absent, which hold
// 28% of the PageRank (section 5.2), and a quarter of the links new every week (Ntoulas, Cho, Olston, WWW 2004).
type DeriveConfig struct {
	Absent float64 // share of the pages that were not there; 0: .45
	Held   float64 // share of the PageRank that those hold; 0: .28
	Weekly float64 // share of the links created within a week; 0: .25
	Weeks  float64 // between the crawls; 0: 17, from May to September
}

// Derive makes up an earlier crawl of a Web: pages are taken away, unimportant ones rather than important ones, and the links that have
// been created since led elsewhere, to where links of that kind lead.
func Derive(w Web, rank []float64, c DeriveConfig, seed uint64) (Earlier, error) {
	fill(&c.Absent, .45)
	fill(&c.Held, .28)
	fill(&c.Weekly, .25)
	fill(&c.Weeks, 17)
	switch {
	case !(c.Absent > 0 && c.Absent < 1):
		return Earlier{}, fmt.Errorf("%w: earlier crawl: --absent %v: want a share above 0 and below 1, or 0 for 0.45", ErrInput, c.Absent)
	case !(c.Held > 0 && c.Held <= c.Absent):
		return Earlier{}, fmt.Errorf("%w: earlier crawl: --held %v with --absent %v: want --held above 0, at most --absent, or 0 for 0.28", ErrInput, c.Held, c.Absent)
	case !(c.Weekly > 0 && c.Weekly < 1):
		return Earlier{}, fmt.Errorf("%w: earlier crawl: --weekly %v: want a share above 0 and below 1, or 0 for 0.25", ErrInput, c.Weekly)
	case !(c.Weeks > 0):
		return Earlier{}, fmt.Errorf("%w: earlier crawl: --weeks %v: want more than 0, or 0 for 17", ErrInput, c.Weeks)
	}
	rng := rand.New(rand.NewPCG(seed, 0x01d))
	there := absentees(rng, rank, c.Absent, c.Held)
	fresh := 1 - math.Pow(1-c.Weekly, c.Weeks)
	old := rewire(w, rng, fresh).induced(func(p int) bool { return there[p] })
	then, _ := order.PageRank(old.Graph, order.Options{})
	e := Earlier{Rank: make([]float64, len(rank)), Weeks: c.Weeks}
	i := 0
	for p := range rank {
		if there[p] {
			e.Rank[p] = then[i]
			i++
		} else {
			e.Rank[p] = math.NaN()
		}
	}
	e.account(rank)
	return e, nil
}

// Match takes the PageRank of an earlier crawl by URL, or by the number in the file where neither crawl has URLs.
func Match(w Web, rank []float64, before Web) Earlier {
	then, _ := order.PageRank(before.Graph, order.Options{})
	e := Earlier{Rank: make([]float64, len(rank))}
	byURL := map[string]int{}
	for i, u := range before.URLs {
		byURL[u] = i
	}
	there := linked(before.Graph)
	for p := range rank {
		e.Rank[p] = math.NaN()
		if w.URLs != nil && before.URLs != nil {
			if i, ok := byURL[w.URLs[p]]; ok {
				e.Rank[p] = then[i]
			}
		} else if i := int(w.number(p)); w.URLs == nil && before.URLs == nil && i < len(then) && there[i] {
			e.Rank[p] = then[i]
		}
	}
	e.account(rank)
	return e
}

// knows reports whether the crawl had a page of w. A page of a file of numbers must have links in it: others, from which a crawl may begin, are
// pages for their number alone, and files of different numbers would share them.
func (e *Earlier) knows(w Web) bool {
	there := linked(w.Graph)
	for p, r := range e.Rank {
		if !math.IsNaN(r) && (w.URLs != nil || there[p]) {
			return true
		}
	}
	return false
}

// linked tells which pages have links, to or from them. A file of numbers makes a page of each number up to its largest, and was crawled are those that it names.
func linked(g order.Graph) []bool {
	out := make([]bool, g.Pages())
	for p := range out {
		from, to := g.Offsets[p], g.Offsets[p+1]
		out[p] = out[p] || from < to
		for _, q := range g.Arcs[from:to] {
			out[q] = true
		}
	}
	return out
}

func (e *Earlier) account(rank []float64) {
	absent := 0
	for p, r := range e.Rank {
		if math.IsNaN(r) {
			absent++
			e.Held += rank[p]
		} else {
			e.Ranks = append(e.Ranks, float32(r))
		}
	}
	e.Absent = float64(absent) / float64(len(rank))
}

// absentees draws which pages were there: with u the share of pages that are less important, a page is absent with probability
// min(1, a (1-u)^g); a and g are such that the absent pages are as many, and hold as much, as they should.
func absentees(rng *rand.Rand, rank []float64, absent, held float64) (there []bool) {
	n := len(rank)
	by := make([]int, n)
	for i := range by {
		by[i] = i
	}
	slices.SortFunc(by, func(a, b int) int {
		if rank[a] != rank[b] {
			if rank[a] < rank[b] {
				return -1
			}
			return 1
		}
		return a - b
	})
	// In steps of u, since a search over single pages would take long.
	steps := min(n, 2000)
	mass, count := make([]float64, steps), make([]float64, steps)
	for i, p := range by {
		mass[i*steps/n] += rank[p]
		count[i*steps/n]++
	}
	chance := func(k int, a, g float64) float64 { return min(1, a*math.Pow(1-(float64(k)+.5)/float64(steps), g)) }
	total := func(of []float64, a, g float64) (sum float64) {
		for k, x := range of {
			sum += x * chance(k, a, g)
		}
		return sum
	}
	scale := func(g float64) float64 {
		return math.Exp(bisect(-20, 60, func(x float64) bool { return total(count, math.Exp(x), g) < absent*float64(n) }))
	}
	g := bisect(0, 20, func(g float64) bool { return total(mass, scale(g), g) > held })
	a := scale(g)
	// Chances are added up along the ranking and a page is absent each time that the sum passes a whole number: as random as drawing
	// each page, but a handful of very important pages does not decide over the outcome.
	there = make([]bool, n)
	sum := rng.Float64()
	for i, p := range by {
		before := math.Floor(sum)
		sum += chance(i*steps/n, a, g)
		there[p] = math.Floor(sum) == before
	}
	if !slices.Contains(there, true) {
		there[by[n-1]] = true
	}
	return there
}

// bisect finds where more stops holding between lo and hi.
func bisect(lo, hi float64, more func(x float64) bool) float64 {
	for range 40 {
		if mid := (lo + hi) / 2; more(mid) {
			lo = mid
		} else {
			hi = mid
		}
	}
	return hi
}

// rewire gives a share of the links another target: that of a random link that stays on its site as this one does, or leaves it as this
// one does. So popular pages stay popular, while the links are others.
func rewire(w Web, rng *rand.Rand, share float64) Web {
	n := w.Graph.Pages()
	var leaving []uint32 // targets of the links between sites
	within := make([][2]uint64, w.Sites)
	inside := make([]uint32, 0, len(w.Graph.Arcs)) // targets of links within sites, site by site
	pages := make([][]uint32, w.Sites)
	for p := range n {
		pages[w.Site[p]] = append(pages[w.Site[p]], uint32(p))
	}
	for s, list := range pages {
		within[s][0] = uint64(len(inside))
		for _, p := range list {
			for _, q := range w.Graph.Links(order.Page(p)) {
				if w.Site[q] == order.Site(s) {
					inside = append(inside, q)
				} else {
					leaving = append(leaving, q)
				}
			}
		}
		within[s][1] = uint64(len(inside))
	}
	var from, to []uint32
	for p := range n {
		for _, q := range w.Graph.Links(order.Page(p)) {
			if rng.Float64() < share {
				if s := w.Site[p]; w.Site[q] == s {
					q = inside[within[s][0]+rng.Uint64N(within[s][1]-within[s][0])]
				} else {
					q = leaving[rng.IntN(len(leaving))]
				}
			}
			from, to = append(from, uint32(p)), append(to, q)
		}
	}
	w.Graph = simple(n, from, to)
	return w
}
