package allocsim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"shoal/cmd/shoal-sim/figure"
	"shoal/cmd/shoal-sim/tidy"
	"shoal/internal/datafile"
	"shoal/recrawl/allocate"
)

// ErrFlags says that a command's flags cannot be used.
var ErrFlags = errors.New("allocsim: unusable flags")

// Allocate is `shoal-sim allocate`.
type Allocate struct {
	N          int     `help:"Pages." default:"1000000"`
	R          int64   `help:"Crawls to give out." default:"5000000"`
	Mix        string  `help:"Shares of Poisson, Pareto, quasi-deterministic and, optionally, Weibull pages." default:"60/30/10"`
	Theta      float64 `help:"Skew of the update rates: 0 is true Zipf, 1 uniform." default:"0"`
	Mean       float64 `help:"Mean updates of a page in the scheduling interval." default:"1.5"`
	Shape      float64 `help:"Pareto shape a, above 1." default:"1.5"`
	Embarrass  bool    `help:"Embarrassment weights instead of weight 1."`
	Pages      string  `help:"Read the pages from a CSV instead: id, model, parameters, weight, min, max. Models: poisson RATE, pareto A B, weibull L A, quasi U:K.., empirical GAP.." placeholder:"FILE" type:"path"`
	Clicks     string  `help:"With --positions: the click curve as CSV: result page, position, frequency." placeholder:"FILE" type:"path"`
	Positions  string  `help:"Embarrassment weights of --pages as CSV: id, result page, position, probability, d." placeholder:"FILE" type:"path"`
	Span       float64 `help:"Length of the scheduling interval; with --pages." default:"1"`
	Allocation string  `help:"Write the optimal allocation as CSV: id, crawls." placeholder:"FILE" type:"path"`
	Cores      int     `help:"Workers; 0: all cores." default:"1"`
	Twin       bool    `help:"Also run the heap greedy, and two workers, and compare." default:"true" negatable:""`
	Figures    bool    `help:"Run the experiments of the paper's figures 7 to 9 too (with --plot it is implied)."`
	Changes    string  `help:"Real page changes for figure 6: the Open Terms Archive's contrib versions as TSV, gzip is fine." placeholder:"FILE" env:"SHOAL_CHANGES" type:"path"`
	Seed       uint64  `help:"Seed." default:"1"`
	JSON       bool    `name:"json" xor:"form" help:"Print one array of rows and nothing else."`
	CSV        bool    `name:"csv" xor:"form" help:"Print CSV, a figure a line: mean and standard deviation over the seeds."`
	Plot       string  `help:"Folder for the figures, as SVG and PNG." placeholder:"DIR" type:"path"`
}

// Row is one scheme on one set of pages.
type Row struct {
	Scheme    string  `json:"scheme"`
	N         int     `json:"n"`
	R         int64   `json:"r"`
	Mix       string  `json:"mix"`
	Theta     float64 `json:"theta"`
	Objective float64 `json:"objective"` // sum of w_i A_i
	Seconds   float64 `json:"seconds"`
	PerPage   float64 `json:"per_page"` // objective over the sum of weights: average staleness
	Figure    string  `json:"figure,omitempty"`
	Shape     float64 `json:"shape,omitempty"`
	Weighted  bool    `json:"weighted,omitempty"` // objective with embarrassment weights
	Idle      int64   `json:"idle,omitempty"`
	Ratio     float64 `json:"ratio,omitempty"` // of the time of `optimal` on one core to this row's
}

// ParseMix reads shares as percent or fractions, separated by slashes.
func ParseMix(s string) (Mix, error) {
	var v [4]float64
	parts := strings.Split(s, "/")
	sum := 0.
	for i, p := range parts {
		x, err := strconv.ParseFloat(p, 64)
		if err != nil || !(x >= 0) || i >= len(v) {
			return Mix{}, fmt.Errorf("%w: mix %q: want up to four shares such as 60/30/10", ErrFlags, s)
		}
		v[i] = x
		sum += x
	}
	if !(sum > 0) {
		return Mix{}, fmt.Errorf("%w: mix %q has no pages", ErrFlags, s)
	}
	return Mix{Poisson: v[0] / sum, Pareto: v[1] / sum, Quasi: v[2] / sum, Weibull: v[3] / sum}, nil
}

// Run does the experiment.
func (c *Allocate) Run(ctx context.Context, out, errw io.Writer) error {
	if err := c.check(); err != nil {
		return err
	}
	if err := figure.CanWrite(c.Plot); err != nil {
		return err
	}
	if err := canCreate("allocation", c.Allocation); err != nil {
		return err
	}
	rows, err := c.rows(ctx, errw)
	if err != nil {
		return err
	}
	if c.Figures || c.Plot != "" {
		more, err := c.figures(ctx, errw)
		if err != nil {
			return err
		}
		rows = append(rows, more...)
	}
	if c.CSV {
		return tidy.Write(out, rows, "n", "r", "theta", "shape")
	}
	if c.JSON {
		e := json.NewEncoder(out)
		e.SetIndent("", " ")
		return e.Encode(rows)
	}
	return table(out, rows)
}

func table(out io.Writer, rows []Row) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "figure\tscheme\tN\tR\tmix\ttheta\tshape\tobjective\tper page\tseconds\tratio\t")
	for _, r := range rows {
		ratio := ""
		if r.Ratio > 0 {
			ratio = fmt.Sprintf("%.2f", r.Ratio)
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%s\t%g\t%g\t%.9g\t%.4f\t%.3f\t%s\t\n", r.Figure, r.Scheme, r.N, r.R, r.Mix, r.Theta, r.Shape, r.Objective, r.PerPage, r.Seconds, ratio)
	}
	return w.Flush()
}

// problem loads or draws the pages.
func (c *Allocate) problem() (ids []string, p allocate.Problem, mix string, err error) {
	p = allocate.Problem{Span: 1, R: c.R, Cores: c.Cores}
	if c.Pages == "" {
		m, err := ParseMix(c.Mix)
		if err != nil {
			return nil, p, "", err
		}
		p.Pages, err = NewPages(rand.New(rand.NewPCG(c.Seed, 1)), World{N: c.N, Theta: c.Theta, Mean: c.Mean, Mix: m, Shape: c.Shape, Weighted: c.Embarrass})
		return nil, p, m.String(), err
	}
	p.Span = c.Span
	err = open(c.Pages, func(r io.Reader) (err error) {
		ids, p.Pages, err = allocate.ReadDistinctPages(r, c.Pages, c.Span)
		return err
	})
	if err != nil {
		return nil, p, "", err
	}
	if c.Clicks != "" {
		err = weigh(c.Clicks, c.Positions, ids, p.Pages)
	}
	return ids, p, "file", err
}

// weigh replaces weights by embarrassment weights; a page that is never returned gets 0.
func weigh(clicks, positions string, ids []string, pages []allocate.Page) error {
	var curve allocate.Clicks
	if err := open(clicks, func(r io.Reader) (err error) {
		curve, err = allocate.ReadClicks(r, clicks)
		return err
	}); err != nil {
		return err
	}
	return open(positions, func(r io.Reader) error {
		w, err := allocate.ReadPositions(r, positions, curve)
		if err != nil {
			return err
		}
		for i, id := range ids {
			pages[i].Weight = w[id]
		}
		return nil
	})
}

func open(name string, f func(io.Reader) error) error {
	h, err := datafile.Open(name)
	if err != nil {
		return fmt.Errorf("allocsim: %w", err)
	}
	defer h.Close()
	return f(h)
}

// rows compares the schemes on one problem, and optimal with its twin.
func (c *Allocate) rows(ctx context.Context, errw io.Writer) ([]Row, error) {
	ids, p, mix, err := c.problem()
	if err != nil {
		return nil, err
	}
	base := Row{N: len(p.Pages), R: p.R, Mix: mix, Theta: c.Theta, Shape: c.Shape, Weighted: c.Embarrass}
	if mix == "file" {
		base.Theta, base.Shape = 0, 0
	}
	weight := 0.
	for i := range p.Pages {
		weight += p.Pages[i].Weight
	}
	row := func(scheme string, objective, seconds float64) Row {
		r := base
		r.Scheme, r.Objective, r.Seconds = scheme, objective, seconds
		if weight > 0 {
			r.PerPage = objective / weight
		}
		return r
	}
	fmt.Fprintf(errw, "%d pages, %d crawls\n", len(p.Pages), p.R)
	start := time.Now()
	res, err := allocate.Solve(p)
	if err != nil {
		return nil, err
	}
	first := row("optimal", res.Objective, time.Since(start).Seconds())
	first.Idle = res.Idle
	rows := []Row{first}
	if c.Allocation != "" {
		if err := writeAllocation(c.Allocation, ids, res.X); err != nil {
			return nil, err
		}
	}
	if c.Twin && ctx.Err() == nil {
		start = time.Now()
		x := allocate.HeapGreedy(p.Pages, p.Span, p.R)
		s := time.Since(start).Seconds()
		r := row("heap greedy", allocate.Objective(p.Pages, p.Span, x), s)
		r.Ratio = first.Seconds / s
		rows = append(rows, r)
		q := p
		q.Cores = 2
		start = time.Now()
		two, err := allocate.Solve(q)
		if err != nil {
			return nil, err
		}
		r = row("optimal, 2 workers", two.Objective, time.Since(start).Seconds())
		r.Ratio = first.Seconds / r.Seconds
		rows = append(rows, r)
	}
	for _, s := range schemes(c.Embarrass) {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		start = time.Now()
		x, err := s.x(p)
		if err != nil {
			return nil, err
		}
		secs := time.Since(start).Seconds()
		rows = append(rows, row(s.name, allocate.Objective(p.Pages, p.Span, x), secs))
	}
	return rows, nil
}

// scheme is one way to allocate that the optimum is compared with.
type scheme struct {
	name string
	x    func(p allocate.Problem) ([]int32, error)
}

func schemes(weighted bool) []scheme {
	uniform := func(w bool) func(allocate.Problem) ([]int32, error) {
		return func(p allocate.Problem) ([]int32, error) { return allocate.Uniform(p.Pages, p.R, w), nil }
	}
	proportional := func(w bool) func(allocate.Problem) ([]int32, error) {
		return func(p allocate.Problem) ([]int32, error) {
			return allocate.Proportional(p.Pages, p.Span, p.R, w), nil
		}
	}
	s := []scheme{{"uniform", uniform(false)}, {"proportional", proportional(false)}}
	if weighted {
		s = append(s, scheme{"weighted uniform", uniform(true)}, scheme{"weighted proportional", proportional(true)}, scheme{"unweighted optimal", unweighted})
	}
	return s
}

// unweighted optimises without weights; the objective is then told with them.
func unweighted(p allocate.Problem) ([]int32, error) {
	pages := make([]allocate.Page, len(p.Pages))
	for i := range pages {
		pages[i] = p.Pages[i]
		pages[i].Weight = 1
	}
	p.Pages = pages
	r, err := allocate.Solve(p)
	return r.X, err
}
