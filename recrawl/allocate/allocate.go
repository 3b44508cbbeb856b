// Package allocate answers two questions of Wolf, Squillante, Yu, Sethuraman, Ozsen, "Optimal Crawling Strategies for Web Search Engines"
// (WWW 2002): how often each page should be crawled in a scheduling interval (Solve), and which crawler should do which crawl when
// (Timetable). Formula numbers in comments are the paper's. It also chooses a page's update model from its history (Fit).
//
// Solve minimises the sum of w_i A_i(x_i) subject to the sum of x_i = R and m_i <= x_i <= M_i, where A_i(x) is the time-average staleness of
// page i crawled x times at the best instants. Every A_i is convex, so the R largest gains w_i (A_i(x)-A_i(x+1)) are the optimum. They are
// found without sorting them all: a sample brackets the R-th largest gain (the price), one parallel pass counts each page's gains above
// the bracket and collects those inside, and a selection among these gives the price itself.
//
// Invariants: the result is the same to the last bit for any number of cores; memory is proportional to the number of pages, not to R; the
// price decides, and gains equal to it are taken in page order. The package is pure apart from its workers. It is not for pages whose
// parameters are unknown (Fit needs a history) and does not measure capacity: R is an argument.
package allocate

import (
	"fmt"
	"math"
	"runtime"
)

// MaxCrawls bounds the crawls of one page in one interval.
const MaxCrawls = 1 << 30

// Never as a page's Max means that it must not be crawled at all.
const Never = -1

// Page is one page, or one channel, of a problem.
type Page struct {
	Model  Model
	Weight float64 // w_i, from 0 up; importance, or the embarrassment weight
	Min    int32   // m_i: crawls that the page gets in any case
	Max    int32   // M_i; 0: no bound but MaxCrawls; Never: none
}

func (p *Page) limit() int {
	switch {
	case p.Max > 0:
		return int(p.Max)
	case p.Max == Never:
		return 0
	}
	return MaxCrawls
}

// natural is limit; for a quasi-deterministic page it is at most one crawl for each instant and one for the beginning, since more find nothing.
func (p *Page) natural() int {
	l := p.limit()
	if p.Model.kind == QuasiKind {
		l = max(min(l, p.Model.q.instants()+1), int(p.Min))
	}
	return l
}

// Problem is what Solve takes.
type Problem struct {
	Pages []Page
	Span  float64 // T, the scheduling interval, in the models' unit of time
	R     int64   // crawls to give out
	Cores int     // workers; 0: GOMAXPROCS
}

// Result is an optimal allocation.
type Result struct {
	X         []int32 // crawls per page
	Objective float64 // sum of w_i A_i(x_i)
	Price     float64 // the least gain that was bought; one more crawl is worth at most this
	Idle      int64   // crawls of R that no page can use: every page is at its bound or has been crawled at all its update instants
}

// Validate checks the problem and changes nothing. It names the page at fault by its index.
func (p *Problem) Validate() error {
	if !(p.Span > 0) || math.IsInf(p.Span, 0) {
		return fmt.Errorf("%w: interval of length %g; it must be a finite number above 0", ErrProblem, p.Span)
	}
	if p.R < 0 {
		return fmt.Errorf("%w: %d crawls to give out", ErrProblem, p.R)
	}
	if len(p.Pages) > math.MaxInt32 {
		return fmt.Errorf("%w: %d pages; at most %d", ErrProblem, len(p.Pages), math.MaxInt32)
	}
	var least, most int64
	bounded := len(p.Pages) > 0
	for i := range p.Pages {
		g := &p.Pages[i]
		if g.Model.kind == 0 {
			return fmt.Errorf("%w: page %d has no update model", ErrProblem, i)
		}
		if g.Model.kind == QuasiKind && g.Model.q.span != p.Span {
			return fmt.Errorf("%w: page %d has its update instants in an interval of length %g, the problem's is %g", ErrProblem, i, g.Model.q.span, p.Span)
		}
		if !(g.Weight >= 0) || math.IsInf(g.Weight, 0) {
			return fmt.Errorf("%w: page %d has weight %g; it must be a finite number from 0 up", ErrProblem, i, g.Weight)
		}
		if g.Min < 0 || g.Max < Never || g.Max > MaxCrawls || int(g.Min) > g.limit() {
			return fmt.Errorf("%w: page %d wants at least %d and at most %d crawls", ErrInfeasible, i, g.Min, max(g.Max, 0))
		}
		least += int64(g.Min)
		most += int64(g.limit())
		bounded = bounded && g.Max != 0
	}
	if least > p.R {
		return fmt.Errorf("%w: the pages' minima add up to %d crawls, more than the %d there are", ErrInfeasible, least, p.R)
	}
	if bounded && most < p.R {
		return fmt.Errorf("%w: the pages' maxima add up to %d crawls, fewer than the %d to give out", ErrInfeasible, most, p.R)
	}
	return nil
}

// Solve finds an optimal allocation. Crawls that would gain nothing (a page that never changes) are given out last, evenly in page order.
func Solve(p Problem) (Result, error) {
	if err := p.Validate(); err != nil {
		return Result{}, err
	}
	if p.Cores <= 0 {
		p.Cores = runtime.GOMAXPROCS(0)
	}
	s := newSolver(&p)
	res := Result{X: s.x}
	res.Price = s.run()
	res.Idle = s.fillIdle()
	res.Objective = s.objective(res.Price)
	return res, nil
}

// Objective is the sum of w_i A_i(x_i) of any allocation, added up in page order.
func Objective(pages []Page, span float64, x []int32) float64 {
	sum := 0.
	for i := range pages {
		if pages[i].Weight > 0 {
			sum += pages[i].Weight * pages[i].Model.Staleness(int(x[i]), span)
		}
	}
	return sum
}
