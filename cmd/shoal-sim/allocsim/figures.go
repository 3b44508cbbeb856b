package allocsim

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"shoal/cmd/shoal-sim/figure"
	"shoal/internal/datafile"
	"shoal/recrawl/allocate"
)

// ratios are the values of R/N in figures 7 and 8.
var ratios = []float64{1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5}

// experiment is one panel: pages by an x value, all schemes.
type experiment struct {
	name, title, label string
	xs                 []float64
	weighted           bool
	world              func(x float64) World
	r                  func(x float64) int64
}

func (c *Allocate) experiments() []experiment {
	n := float64(c.N)
	byR := func(x float64) int64 { return int64(x * n) }
	half := func(float64) int64 { return int64(2.5 * n) }
	mixed := func(m Mix, weighted bool) func(float64) World {
		return func(float64) World {
			return World{N: c.N, Mean: c.Mean, Mix: m, Shape: c.Shape, Weighted: weighted}
		}
	}
	shapes := []float64{4, 3.5, 3, 2.5, 2, 1.75, 1.5, 1.3, 1.2, 1.1, 1.05}
	thetas := []float64{0, .2, .4, .6, .8, 1}
	return []experiment{
		{"7a", "Embarrassment, 60/30/10, theta 0", "R/N", ratios, true, mixed(PaperMix, true), byR},
		{"7b", "Embarrassment, 60/30/10, R/N 2.5", "Zipf-like theta", thetas, true, func(x float64) World {
			return World{N: c.N, Mean: c.Mean, Theta: x, Mix: PaperMix, Shape: c.Shape, Weighted: true}
		}, half},
		{"7c", "Embarrassment, 60/30/10, theta 0, weights aligned with rates", "R/N", ratios, true, func(float64) World {
			return World{N: c.N, Mean: c.Mean, Mix: PaperMix, Shape: c.Shape, Weighted: true, Aligned: true}
		}, byR},
		{"8a", "Staleness, mixed 60/30/10", "R/N", ratios, false, mixed(PaperMix, false), byR},
		{"8b", "Staleness, Poisson", "R/N", ratios, false, mixed(Mix{Poisson: 1}, false), byR},
		{"8c", "Staleness, Pareto", "R/N", ratios, false, mixed(Mix{Pareto: 1}, false), byR},
		{"8d", "Staleness, quasi-deterministic", "R/N", ratios, false, mixed(Mix{Quasi: 1}, false), byR},
		{"9a", "Staleness, Pareto, mean held", "Pareto shape a", shapes, false, func(x float64) World {
			return World{N: c.N, Mean: c.Mean, Mix: Mix{Pareto: 1}, Shape: x}
		}, half},
		{"9b", "Staleness, Pareto, scale b held (that of a = 2)", "Pareto shape a", shapes, false, func(x float64) World {
			return World{N: c.N, Mean: c.Mean, Mix: Mix{Pareto: 1}, Shape: x, Ref: 2}
		}, half},
	}
}

// figures runs figures 7 to 9 and draws those and 3, 4 and 6.
func (c *Allocate) figures(ctx context.Context, errw io.Writer) ([]Row, error) {
	var all []Row
	for _, e := range c.experiments() {
		rows, err := c.experiment(ctx, e, errw)
		if err != nil {
			return all, err
		}
		all = append(all, rows...)
	}
	if c.Plot == "" {
		return all, nil
	}
	if err := c.figure3(); err != nil {
		return all, err
	}
	if err := c.figure4(); err != nil {
		return all, err
	}
	if c.Changes == "" {
		fmt.Fprintln(errw, "figure 6 needs real page changes: give --changes FILE")
		return all, nil
	}
	return all, c.figure6(errw)
}

func (c *Allocate) experiment(ctx context.Context, e experiment, errw io.Writer) ([]Row, error) {
	fmt.Fprintf(errw, "figure %s\n", e.name)
	var rows []Row
	ys := map[string][]float64{}
	var order []string
	for _, x := range e.xs {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		w := e.world(x)
		pages, err := NewPages(rand.New(rand.NewPCG(c.Seed, 7)), w)
		if err != nil {
			return nil, fmt.Errorf("figure %s: %w", e.name, err)
		}
		weight := 0.
		for i := range pages {
			weight += pages[i].Weight
		}
		p := allocate.Problem{Pages: pages, Span: 1, R: e.r(x), Cores: c.Cores}
		optimal := scheme{"optimal", func(p allocate.Problem) ([]int32, error) { r, err := allocate.Solve(p); return r.X, err }}
		for _, s := range append([]scheme{optimal}, schemes(e.weighted)...) {
			start := time.Now()
			alloc, err := s.x(p)
			if err != nil {
				return nil, fmt.Errorf("figure %s: %w", e.name, err)
			}
			secs := time.Since(start).Seconds()
			r := Row{Scheme: s.name, N: w.N, R: p.R, Mix: w.Mix.String(), Theta: w.Theta, Shape: w.Shape, Figure: e.name, Weighted: e.weighted, Seconds: secs}
			r.Objective = allocate.Objective(pages, 1, alloc)
			r.PerPage = r.Objective / weight
			rows = append(rows, r)
			if _, ok := ys[s.name]; !ok {
				order = append(order, s.name)
			}
			ys[s.name] = append(ys[s.name], r.PerPage)
		}
	}
	if c.Plot == "" {
		return rows, nil
	}
	y := "average staleness"
	if e.weighted {
		y = "average embarrassment (per unit of weight)"
	}
	f := figure.New(e.title, e.label, y)
	f.Y.Min = 0
	for _, s := range order {
		if err := f.Marked(s, e.xs, ys[s]); err != nil {
			return nil, err
		}
	}
	f.Y.Max *= 1.25 // room for the legend
	_, err := f.Save(c.Plot, "allocate-figure-"+e.name)
	return rows, err
}

// figure3 is the click curve.
func (c *Allocate) figure3() error {
	var x, y []float64
	for k, page := range PaperClicks() {
		for j, v := range page {
			x, y = append(x, float64(k*len(page)+j+1)), append(y, v)
		}
	}
	f := figure.New("Probability of clicking", "position over all result pages", "probability")
	f.Y.Min = 0
	if err := f.Marked("Zipf over 50 positions, .8 to go on to the next page", x, y); err != nil {
		return err
	}
	_, err := f.Save(c.Plot, "allocate-figure-3")
	return err
}

// figure4 is the freshness of a quasi-deterministic page over time, crawled at its best four instants of ten.
func (c *Allocate) figure4() error {
	rng := rand.New(rand.NewPCG(c.Seed, 4))
	const q = 10
	u, k := make([]float64, q), make([]float64, q)
	for i := range u {
		u[i], k[i] = rng.Float64(), .2+.7*rng.Float64()
	}
	slices.Sort(u)
	m, err := allocate.NewQuasi(1, u, k, 0)
	if err != nil {
		return err
	}
	crawls := m.Instants(4, 1)
	x, y := []float64{0}, []float64{1}
	fresh := 1.
	var crawled, left []float64
	for i, t := range u {
		if slices.Contains(crawls, t) {
			fresh = 1
			crawled = append(crawled, t)
		} else {
			fresh *= 1 - k[i]
			left = append(left, t)
		}
		x, y = append(x, t), append(y, fresh)
	}
	x, y = append(x, 1), append(y, fresh)
	f := figure.New("Freshness of a quasi-deterministic page, its four best crawls", "time", "probability of being fresh")
	f.Y.Min, f.Y.Max = 0, 1.35
	if err := f.Steps("freshness", x, y); err != nil {
		return err
	}
	if err := f.Points("update instant, crawled", crawled, make([]float64, len(crawled)), true); err != nil {
		return err
	}
	if err := f.Points("update instant, not crawled", left, make([]float64, len(left)), false); err != nil {
		return err
	}
	_, err = f.Save(c.Plot, "allocate-figure-4")
	return err
}

// Subjects that are no change of the page itself, in the Open Terms Archive's version histories.
var notChanges = []string{"Apply technical", "Refilter", "Start tracking", "First record"}

// ReadChanges reads the Open Terms Archive's contrib versions: tab-separated author_epoch, commit_epoch, status, path, blob, size, subject. It gives, for every
// path with at least least changes, the times between them in days.
func ReadChanges(r io.Reader, name string, least int) (map[string][]float64, error) {
	br, err := datafile.Unpacked(r)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	at := map[string][]float64{}
	s := bufio.NewScanner(br)
	s.Buffer(nil, 1<<20)
	for line := 1; s.Scan() && s.Err() == nil; line++ { // before the error there may be a piece of a line
		f := strings.SplitN(s.Text(), "\t", 7)
		if len(f) < 7 {
			return nil, fmt.Errorf("%w: %s:%d: %d fields, want 7", allocate.ErrCSV, name, line, len(f))
		}
		if line == 1 && f[0] == "author_epoch" {
			continue
		}
		t, err := strconv.ParseFloat(f[0], 64)
		if err != nil {
			return nil, fmt.Errorf("%w: %s:%d: author_epoch %q", allocate.ErrCSV, name, line, f[0])
		}
		if slices.ContainsFunc(notChanges, func(p string) bool { return strings.HasPrefix(f[6], p) }) {
			continue
		}
		at[f[3]] = append(at[f[3]], t/86_400)
	}
	if err := s.Err(); err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	gaps := map[string][]float64{}
	for path, ts := range at {
		slices.Sort(ts)
		var g []float64
		for i := 1; i < len(ts); i++ {
			if d := ts[i] - ts[i-1]; d > 0 {
				g = append(g, d)
			}
		}
		if len(g) >= least {
			gaps[path] = g
		}
	}
	return gaps, nil
}

// figure6Least is how many changes a page must have for figure 6.
const figure6Least = 40

// figure6 draws the tails of the times between changes of the 18 most changed real pages, with the three fits to all of them pooled after scaling by each page's
// mean, and tells which model fits each page best.
func (c *Allocate) figure6(errw io.Writer) error {
	var gaps map[string][]float64
	if err := open(c.Changes, func(r io.Reader) (err error) {
		gaps, err = ReadChanges(r, c.Changes, figure6Least)
		return err
	}); err != nil {
		return err
	}
	if len(gaps) == 0 {
		return fmt.Errorf("%w: --changes %s: no page with at least %d changes", allocate.ErrCSV, c.Changes, figure6Least)
	}
	paths := make([]string, 0, len(gaps))
	for p := range gaps {
		paths = append(paths, p)
	}
	sort.Slice(paths, func(i, j int) bool {
		if len(gaps[paths[i]]) != len(gaps[paths[j]]) {
			return len(gaps[paths[i]]) > len(gaps[paths[j]])
		}
		return paths[i] < paths[j]
	})
	best := map[string]int{}
	for _, p := range paths {
		cands, err := allocate.FitGaps(gaps[p])
		if err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
		best[cands[0].Model.Kind().String()]++
	}
	fmt.Fprintf(errw, "%d pages with at least 40 times between changes; best by AIC: exponential %d, Weibull %d, Pareto %d\n", len(paths),
		best["poisson"], best["weibull"], best["pareto"])
	f := figure.New("Times between changes of real pages (in units of their mean)", "log10 t", "log10 P(time between changes > t)")
	var pooled []float64
	for _, p := range paths[:min(len(paths), 18)] {
		g := slices.Clone(gaps[p])
		mean := 0.
		for _, v := range g {
			mean += v / float64(len(g))
		}
		for i := range g {
			g[i] /= mean
		}
		pooled = append(pooled, g...)
		slices.Sort(g)
		var x, y []float64
		for i := 0; i < len(g)-1; i++ {
			x, y = append(x, math.Log10(g[i])), append(y, math.Log10(1-float64(i+1)/float64(len(g))))
		}
		if err := f.Thin(x, y); err != nil {
			return err
		}
	}
	cands, err := allocate.FitGaps(pooled)
	if err != nil {
		return err
	}
	for _, k := range cands {
		var x, y []float64
		for l := -3.; l <= 1.7; l += .05 {
			if t := k.Model.Tail(math.Pow(10, l)); t > 3e-4 {
				x, y = append(x, l), append(y, math.Log10(t))
			}
		}
		name := map[allocate.Kind]string{allocate.PoissonKind: "exponential", allocate.WeibullKind: "Weibull", allocate.ParetoKind: "Pareto"}[k.Model.Kind()]
		fmt.Fprintf(errw, "pooled: %s, AIC %.0f\n", k.Model, k.AIC)
		if err := f.Line(name+" fit", x, y); err != nil {
			return err
		}
	}
	f.X.Min, f.X.Max, f.Y.Min, f.Y.Max = -3, 1.7, -3.5, 0
	f.Legend.Left, f.Legend.Top = true, false
	f.Legend.XOffs, f.Legend.YOffs = 10, 10
	_, err = f.Save(c.Plot, "allocate-figure-6")
	return err
}
