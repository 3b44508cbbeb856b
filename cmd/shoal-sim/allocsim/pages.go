// Package allocsim runs the experiments of Wolf, Squillante, Yu, Sethuraman, Ozsen, "Optimal Crawling Strategies for Web Search Engines" (WWW 2002)
// on recrawl/allocate: `shoal-sim allocate` (section 5, figures 3, 4 and 6 to 9) and `shoal-sim timetable` (figure 10). It also measures the product's code
// on cases from files. It generates pages and tasks from a seed and computes nothing by itself.
package allocsim

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"shoal/recrawl/allocate"
)

// Mix says which share of the pages follows which update model.
type Mix struct {
	Poisson, Pareto, Quasi, Weibull float64
}

// String names the mix as the JSON rows do.
func (m Mix) String() string {
	return fmt.Sprintf("%g/%g/%g/%g", m.Poisson*100, m.Pareto*100, m.Quasi*100, m.Weibull*100)
}

// World is what section 5 of the paper draws its pages from. The scheduling interval has length 1.
type World struct {
	N        int
	Theta    float64 // Zipf-like skew of the update rates: 0 true Zipf, 1 uniform
	Mean     float64 // updates per page and interval
	Mix      Mix
	Shape    float64 // Pareto a
	Ref      float64 // Pareto a at which a page's b gives it its mean; 0: Shape itself, so that the mean holds for any shape
	Weighted bool    // embarrassment weights instead of 1
	Aligned  bool    // the pages that change most are also those with the largest weights
}

// PaperMix is the mixture of the paper's experiments.
var PaperMix = Mix{Poisson: .6, Pareto: .3, Quasi: .1}

// NewPages draws the pages. Rates are dealt to pages at random, so that models and rates are independent.
func NewPages(rng *rand.Rand, w World) ([]allocate.Page, error) {
	pages := make([]allocate.Page, w.N)
	rates := ZipfRates(w.N, w.Theta, w.Mean)
	rng.Shuffle(w.N, func(i, j int) { rates[i], rates[j] = rates[j], rates[i] })
	clicks := PaperClicks()
	for i := range pages {
		m, err := w.model(rng, rates[i])
		if err != nil {
			return nil, fmt.Errorf("page %d: %w", i, err)
		}
		pages[i] = allocate.Page{Model: m, Weight: 1}
		if w.Weighted {
			pages[i].Weight = rng.Float64() * clicks.Exposure(allocate.TruncatedNormal(50, rng.Float64()*50, 5))
		}
	}
	if w.Aligned {
		align(pages)
	}
	return pages, nil
}

// align deals the weights again, the largest to the page that changes most.
func align(pages []allocate.Page) {
	order := make([]int, len(pages))
	weights := make([]float64, len(pages))
	rates := make([]float64, len(pages))
	for i := range pages {
		order[i], weights[i], rates[i] = i, pages[i].Weight, pages[i].Model.Rate(1)
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(rates[b], rates[a]) })
	slices.SortFunc(weights, func(a, b float64) int { return cmp.Compare(b, a) })
	for k, i := range order {
		pages[i].Weight = weights[k]
	}
}

func (w World) model(rng *rand.Rand, rate float64) (allocate.Model, error) {
	switch u := rng.Float64(); {
	case u < w.Mix.Poisson:
		return allocate.Poisson(rate)
	case u < w.Mix.Poisson+w.Mix.Pareto:
		ref := w.Shape
		if w.Ref > 0 {
			ref = w.Ref
		}
		return allocate.Pareto(w.Shape, (ref-1)/rate)
	case u < w.Mix.Poisson+w.Mix.Pareto+w.Mix.Quasi:
		return quasi(rng, rate)
	default: // the long-tailed ones of section 4: shape between .4 and 1, mean 1/rate
		a := .4 + .6*rng.Float64()
		return allocate.Weibull(math.Pow(rate*math.Gamma(1+1/a), a), a)
	}
}

// quasi has on average twice as many potential updates as updates.
func quasi(rng *rand.Rand, rate float64) (allocate.Model, error) {
	q := int(min(math.Ceil(2*rate), allocate.MaxInstants)) // a large rate is no int
	u, k := make([]float64, q), make([]float64, q)
	for j := range u {
		u[j] = rng.Float64()
		k[j] = min(1, rng.Float64()*2*rate/float64(q))
	}
	slices.Sort(u)
	for j := 1; j < q; j++ {
		if u[j] <= u[j-1] {
			u[j] = math.Nextafter(u[j-1], 2)
		}
	}
	return allocate.NewQuasi(1, u, k, 0)
}

// ZipfRates gives n rates with the given mean, the i-th proportional to i^-(1-theta).
func ZipfRates(n int, theta, mean float64) []float64 {
	r := make([]float64, n)
	sum := 0.
	for i := range r {
		r[i] = math.Pow(float64(i+1), theta-1)
		sum += r[i]
	}
	for i := range r {
		r[i] *= mean * float64(n) / sum
	}
	return r
}

// PaperClicks is the click curve of the paper's figure 3: 5 result pages of 10 positions, true Zipf over the 50 positions, and .8 to go on to
// the next page.
func PaperClicks() allocate.Clicks { return allocate.ZipfClicks(5, 10, 0, .8) }
