// Package ordersim measures page orderings: it crawls a Web graph, real or synthetic, under each of them and tells how early the
// important pages come, as sections 4 and 5 of Baeza-Yates, Castillo, Marín, Rodríguez, "Crawling a Country" (WWW 2005) do. It is
// `shoal-sim ordering`.
//
// The orderings themselves are those of the product, package channel/order; nothing is implemented twice. It is not for fetching
// anything. Only Cmd.Run touches files and the wall clock (to report how long an ordering took); the rest is pure, and the same seed
// gives the same numbers.
package ordersim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"shoal/channel/order"
)

// Web is a graph with its sites.
type Web struct {
	Name    string
	Graph   order.Graph
	Site    []order.Site
	Dynamic []bool // nil: none
	Seeds   []order.Page
	URLs    []string // nil: unknown
	Numbers []uint32 // of the pages in the file; nil: as they stand
	Sites   int
}

// SynthConfig describes a synthetic Web.
type SynthConfig struct {
	Pages int     // 0: 100,000
	Sites int     // 0: a site for 60 pages
	Links float64 // mean links of a page that has any; 0: 30
	Seeds float64 // share of the sites whose home page is a seed; 0: .1
	Max   int     // pages of the largest site; 0: 5,000, or more where the pages need it
}

// Synthetic builds a Web whose site sizes, numbers of links in and numbers of links out have heavy tails, whose sites are trees of
// pages under their home page with a navigation bar, and a part of whose links lead to other sites, mostly to home pages.
func Synthetic(c SynthConfig, seed uint64) (Web, error) {
	fill(&c.Pages, 100_000)
	fill(&c.Sites, max(c.Pages/60, 1))
	fill(&c.Links, 30)
	fill(&c.Seeds, .1)
	fill(&c.Max, max(5000, 2*(c.Pages/c.Sites)))
	if c.Pages < 1 || c.Sites < 1 || c.Sites > c.Pages || c.Pages > order.MaxPages || !(c.Links >= 1 && c.Links <= 1000) || !(c.Seeds > 0 && c.Seeds <= 1) {
		return Web{}, fmt.Errorf("%w: a synthetic Web of %d pages, %d sites, %v links a page, seeds %v: want --synthetic of at most %d, --sites from 1 to as many as pages, --links from 1 to 1000 and --seeds above 0, at most 1",
			ErrInput, c.Pages, c.Sites, c.Links, c.Seeds, order.MaxPages)
	}
	rng := rand.New(rand.NewPCG(seed, 0x5eb))
	sizes := siteSizes(rng, c.Pages, c.Sites, c.Max)
	w := Web{Name: "synthetic", Site: make([]order.Site, c.Pages), Sites: len(sizes)}
	first := make([]int, len(sizes)+1)
	for s, n := range sizes {
		first[s+1] = first[s] + n
		for p := first[s]; p < first[s+1]; p++ {
			w.Site[p] = order.Site(s)
		}
	}
	popular := newPicker(rng, sizes)
	w.Graph.Offsets = append(make([]uint64, 0, c.Pages+1), 0)
	for s, n := range sizes {
		site := newLayout(rng, first[s], n)
		for i := range n {
			w.Graph.Arcs = site.appendLinks(w.Graph.Arcs, rng, i, c.Links, func() int {
				t := popular.pick(rng)
				if rng.Float64() < homeLinks {
					return first[t]
				}
				return first[t] + scattered(skewed(rng, sizes[t]), sizes[t])
			})
			w.Graph.Offsets = append(w.Graph.Offsets, uint64(len(w.Graph.Arcs)))
		}
	}
	w.seed(rng, first[:len(sizes)], c.Seeds)
	return w, nil
}

func fill[T int | float64](v *T, d T) {
	if *v == 0 {
		*v = d
	}
}

// What a synthetic page links to.
const (
	outside   = .2  // share of the links that leave the site
	homeLinks = .5  // share of these that lead to a home page
	bare      = .25 // share of the pages that introduce no other and have no links at all: documents
	recent    = 100 // a page is introduced by one of so many before it, or by any
)

// layout is the tree by which the pages of a site introduce each other.
type layout struct {
	first, size int
	begin       []int // of the children of page i in kids
	kids        []int
}

func newLayout(rng *rand.Rand, first, size int) layout {
	l := layout{first: first, size: size, begin: make([]int, size+1), kids: make([]int, size)}
	parent := make([]int, size)
	for i := 1; i < size; i++ {
		from := 0
		if rng.Float64() < .5 {
			from = max(i-recent, 0)
		}
		parent[i] = from + rng.IntN(i-from)
		l.begin[parent[i]+1]++
	}
	for i := range size {
		l.begin[i+1] += l.begin[i]
	}
	next := slices.Clone(l.begin)
	for i := 1; i < size; i++ {
		l.kids[next[parent[i]]] = i
		next[parent[i]]++
	}
	return l
}

// appendLinks draws the links of page i of the site: to the pages that it introduces, its navigation bar, others of its site, others
// elsewhere. What is popular within a site is not what lies near its home page, but for the navigation bar.
func (l layout) appendLinks(arcs []uint32, rng *rand.Rand, i int, mean float64, elsewhere func() int) []uint32 {
	begin := len(arcs)
	kids := l.kids[l.begin[i]:l.begin[i+1]]
	if len(kids) == 0 && rng.Float64() < bare {
		return arcs
	}
	for _, k := range kids {
		arcs = append(arcs, uint32(l.first+k))
	}
	for nav := range min(4, l.size) {
		arcs = append(arcs, uint32(l.first+nav))
	}
	// Pareto of shape 2, so that the mean is as wanted.
	n := min(int(mean/2/math.Sqrt(1-rng.Float64())), 20*int(mean))
	for range n {
		if rng.Float64() < outside || l.size == 1 {
			arcs = append(arcs, uint32(elsewhere()))
		} else {
			arcs = append(arcs, uint32(l.first+scattered(skewed(rng, l.size), l.size)))
		}
	}
	row := arcs[begin:]
	slices.Sort(row)
	row = slices.DeleteFunc(slices.Compact(row), func(q uint32) bool { return int(q) == l.first+i })
	return arcs[:begin+len(row)]
}

// scattered is a fixed permutation of the numbers below n.
func scattered(i, n int) int {
	step := int(.6180339887*float64(n)) | 1
	for gcd(step, n) != 1 {
		step += 2
	}
	return int(uint64(i) * uint64(step) % uint64(n))
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// skewed is a number below n, the small ones far more often.
func skewed(rng *rand.Rand, n int) int {
	u := rng.Float64()
	return min(int(u*u*u*float64(n)), n-1)
}

// siteSizes draws from a power law of exponent 1.8 and corrects the sum.
func siteSizes(rng *rand.Rand, pages, sites, most int) []int {
	sizes := make([]int, sites)
	sum := 0
	for i := range sizes {
		sizes[i] = min(int(math.Pow(1-rng.Float64(), -1/.8)), most)
		sum += sizes[i]
	}
	scale := float64(pages) / float64(sum)
	sum = 0
	for i, s := range sizes {
		sizes[i] = min(max(int(float64(s)*scale), 1), most)
		sum += sizes[i]
	}
	for i := 0; sum != pages; i = (i + 1) % sites {
		switch {
		case sum < pages:
			d := min(pages-sum, max(1, sizes[i]/10))
			sizes[i] += d
			sum += d
		case sizes[i] > 1:
			d := min(sum-pages, max(1, sizes[i]/10), sizes[i]-1)
			sizes[i] -= d
			sum -= d
		}
	}
	return sizes
}

// picker picks sites by a popularity that has a heavy tail and has something to do with their size.
type picker struct{ cum []float64 }

func newPicker(rng *rand.Rand, sizes []int) picker {
	p := picker{make([]float64, len(sizes))}
	sum := 0.
	for i, s := range sizes {
		sum += math.Pow(1-rng.Float64(), -1/1.1) * math.Sqrt(float64(s))
		p.cum[i] = sum
	}
	return p
}

func (p picker) pick(rng *rand.Rand) int {
	x := rng.Float64() * p.cum[len(p.cum)-1]
	i, _ := slices.BinarySearch(p.cum, x)
	return min(i, len(p.cum)-1)
}

// seed takes a share of the home pages as seeds, one at least.
func (w *Web) seed(rng *rand.Rand, homes []int, share float64) {
	n := max(int(math.Round(share*float64(len(homes)))), 1)
	pick := rng.Perm(len(homes))[:n]
	slices.Sort(pick)
	w.Seeds = w.Seeds[:0]
	for _, i := range pick {
		w.Seeds = append(w.Seeds, order.Page(homes[i]))
	}
}

// Crawlable is the part of the Web that can be reached from its seeds: what a whole crawl would have brought home, as the graphs of the
// paper were.
func (w Web) Crawlable() Web {
	n := w.Graph.Pages()
	number := make([]uint32, n)
	for i := range number {
		number[i] = math.MaxUint32
	}
	var queue []order.Page
	visit := func(p order.Page) {
		if number[p] == math.MaxUint32 {
			number[p] = 0
			queue = append(queue, p)
		}
	}
	for _, p := range w.Seeds {
		visit(p)
	}
	for i := 0; i < len(queue); i++ {
		for _, q := range w.Graph.Links(queue[i]) {
			visit(order.Page(q))
		}
	}
	if len(queue) == n {
		return w
	}
	return w.induced(func(p int) bool { return number[p] == 0 })
}

// number is the number of a page in the file.
func (w Web) number(p int) uint32 {
	if w.Numbers == nil {
		return uint32(p)
	}
	return w.Numbers[p]
}

// induced is the Web of some of the pages, renumbered in the same order. Sites keep their numbers.
func (w Web) induced(keep func(p int) bool) Web {
	n := w.Graph.Pages()
	number := make([]uint32, n)
	kept := 0
	for p := range n {
		if keep(p) {
			number[p] = uint32(kept)
			kept++
		} else {
			number[p] = math.MaxUint32
		}
	}
	out := Web{Name: w.Name, Sites: w.Sites, Site: make([]order.Site, 0, kept)}
	out.Graph.Offsets = append(make([]uint64, 0, kept+1), 0)
	for p := range n {
		if number[p] == math.MaxUint32 {
			continue
		}
		for _, q := range w.Graph.Links(order.Page(p)) {
			if number[q] != math.MaxUint32 {
				out.Graph.Arcs = append(out.Graph.Arcs, number[q])
			}
		}
		out.Graph.Offsets = append(out.Graph.Offsets, uint64(len(out.Graph.Arcs)))
		out.Site = append(out.Site, w.Site[p])
		if w.Dynamic != nil {
			out.Dynamic = append(out.Dynamic, w.Dynamic[p])
		}
		if w.URLs != nil {
			out.URLs = append(out.URLs, w.URLs[p])
		}
		out.Numbers = append(out.Numbers, w.number(p))
	}
	for _, p := range w.Seeds {
		if number[p] != math.MaxUint32 {
			out.Seeds = append(out.Seeds, order.Page(number[p]))
		}
	}
	return out
}
