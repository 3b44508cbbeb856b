// Package cycle is the adaptive model of Edwards, McCurley, Tomlin, "An Adaptive Model for Optimizing Performance of an Incremental Web
// Crawler" (WWW 2001). Pages, or channels, stand in buckets of similar change rate, and a crawl cycle has T periods. The model says how many
// known pages of each bucket, and how many pages never crawled, to crawl in each period. It assumes nothing of how pages change but the share
// of a bucket that changes in a period. Constraint numbers in comments are the paper's.
//
// The number of obsolete pages is affine in every period's crawls separately. So for given prices of capacity each bucket is best crawled
// wholly or not at all in each period, which a dynamic programme on the last crawl decides. The sum of these optima is a true lower bound
// (dual.go). Block descent from the prices' solution gives a plan (primal.go, descend.go). Solve reports both, with the gap between them.
//
// Invariants: the plan keeps all constraints; Bound is below every plan's objective; the same model gives the same plan. The package is pure.
// It is not for choosing which page of a bucket to crawl, nor for pages that change faster than a period: these want an index policy.
package cycle

import (
	"errors"
	"fmt"
	"math"
)

// ErrModel says that a model cannot be solved as it stands.
var ErrModel = errors.New("cycle: not a usable model")

// Limits of models.
const (
	MaxPeriods = 64
	MaxBuckets = 256 // one byte per page
)

// Bucket is pages of similar change rate. A slice of one element holds for all periods.
type Bucket struct {
	Pages    float64   // b_i0
	Obsolete float64   // y_i0
	Share    float64   // p_i: share of newly crawled pages that come into this bucket; they add up to 1
	Change   []float64 // a_it: share that changes in a period
	Cost     []float64 // c_it: cost of crawling one
	Weight   []float64 // oldwt_it
	Finds    []float64 // oldnwt_it: new pages found by crawling one
}

// Model is one cycle.
type Model struct {
	Periods   int
	Buckets   []Bucket
	Capacity  []float64 // C_t, in the unit of Cost
	New       float64   // n_0: known pages that were never crawled
	Arrive    float64   // nconst: new pages that come in a period anyway
	NewCost   []float64 // d_t
	NewWeight []float64 // newwt_t
	NewFinds  []float64 // newnwt_t: new pages found by crawling a new one
}

// Plan is a solution.
type Plan struct {
	X         [][]float64 // x_it by bucket and period
	Z         []float64   // z_t
	Y         [][]float64 // y_it at the end of the period
	B         [][]float64 // b_it at the end of the period
	N         []float64   // n_t
	Objective float64
	Bound     float64 // no plan has a smaller objective
	Gap       float64 // (Objective-Bound)/Objective
	Price     []float64
}

// Crawls is how often bucket i is crawled in the cycle: the sum of its shares.
func (p *Plan) Crawls(m *Model, i int) float64 {
	s, b := 0., m.Buckets[i].Pages
	for t, x := range p.X[i] {
		if t > 0 {
			b = p.B[i][t-1]
		}
		if b > 0 {
			s += x / b
		}
	}
	return s
}

// Obsolete is the number of obsolete known pages at the end of period t; pages never crawled are not counted.
func (p *Plan) Obsolete(t int) float64 {
	s := 0.
	for _, y := range p.Y {
		s += y[t]
	}
	return s
}

// Total is the number of known pages at the end of period t.
func (p *Plan) Total(t int) float64 {
	s := 0.
	for _, b := range p.B {
		s += b[t]
	}
	return s
}

// Strategy1 weighs all periods alike. Strategy2 weighs the last period alone. Strategy3 gives the last period the weight last, and the others
// the rest in equal parts (section 5.1).
func Strategy1(periods int) []float64 { return weights(periods, 1, 1) }

// Strategy2 is described with Strategy1.
func Strategy2(periods int) []float64 { return weights(periods, 0, 1) }

// Strategy3 is described with Strategy1.
func Strategy3(periods int, last float64) []float64 {
	if periods == 1 {
		return []float64{1}
	}
	return weights(periods, (1-last)/float64(periods-1), last)
}

func weights(periods int, each, last float64) []float64 {
	w := make([]float64, periods)
	for t := range w {
		w[t] = each
	}
	w[periods-1] = last
	return w
}

// at reads a series that may be given by one element.
func at(v []float64, t int) float64 {
	switch len(v) {
	case 0:
		return 0
	case 1:
		return v[0]
	}
	return v[t]
}

// Validate checks the model and changes nothing.
func (m *Model) Validate() error {
	if m.Periods < 1 || m.Periods > MaxPeriods || len(m.Buckets) > MaxBuckets {
		return fmt.Errorf("%w: %d periods and %d buckets; at most %d and %d", ErrModel, m.Periods, len(m.Buckets), MaxPeriods, MaxBuckets)
	}
	series := func(name string, v []float64, least, most float64, needed bool) error {
		if len(v) != 1 && len(v) != m.Periods && (needed || len(v) != 0) {
			return fmt.Errorf("%w: %s has %d values for %d periods; give 1 or all", ErrModel, name, len(v), m.Periods)
		}
		for t, x := range v {
			if !(x >= least && x <= most) {
				return fmt.Errorf("%w: %s is %g in period %d; it must lie in %g..%g", ErrModel, name, x, t+1, least, most)
			}
		}
		return nil
	}
	const huge, tiny = 1e18, 1e-9
	share := 0.
	for i := range m.Buckets {
		b := &m.Buckets[i]
		if !(b.Pages >= 0 && b.Pages <= huge) || !(b.Obsolete >= 0 && b.Obsolete <= b.Pages) || !(b.Share >= 0 && b.Share <= 1) {
			return fmt.Errorf("%w: bucket %d has %g pages, %g of them obsolete, and takes the share %g of new ones", ErrModel, i, b.Pages, b.Obsolete, b.Share)
		}
		share += b.Share
		if err := errors.Join(series(fmt.Sprintf("bucket %d: change", i), b.Change, 0, 1, true), series(fmt.Sprintf("bucket %d: cost", i), b.Cost, tiny, huge, true),
			series(fmt.Sprintf("bucket %d: weight", i), b.Weight, 0, huge, true), series(fmt.Sprintf("bucket %d: finds", i), b.Finds, 0, huge, false)); err != nil {
			return err
		}
	}
	if len(m.Buckets) > 0 && math.Abs(share-1) > 1e-6 {
		return fmt.Errorf("%w: the buckets' shares of new pages add up to %g, not 1", ErrModel, share)
	}
	if !(m.New >= 0 && m.New <= huge) || !(m.Arrive >= 0 && m.Arrive <= huge) {
		return fmt.Errorf("%w: %g new pages and %g more in a period", ErrModel, m.New, m.Arrive)
	}
	return errors.Join(series("capacity", m.Capacity, 0, huge, true), series("cost of a new page", m.NewCost, tiny, huge, true),
		series("weight of new pages", m.NewWeight, 0, huge, true), series("finds of new pages", m.NewFinds, 0, huge, false))
}

// Solve plans a cycle.
func Solve(m *Model) (*Plan, error) {
	if err := m.Validate(); err != nil {
		return nil, err
	}
	d := newDual(m)
	d.ascend()
	pr := newPrimal(m)
	pr.descend(d, 6, 0)
	d.polish(pr.best.obj)
	pr.descend(d, rounds, shakes)
	plan := pr.plan()
	plan.Bound = d.best
	if plan.Bound > plan.Objective && plan.Bound < plan.Objective*(1+1e-9)+1e-9 { // rounding
		plan.Bound = plan.Objective
	}
	plan.Price = append([]float64(nil), d.bestPrice...)
	if plan.Objective > 0 {
		plan.Gap = (plan.Objective - plan.Bound) / plan.Objective
	}
	return plan, nil
}
