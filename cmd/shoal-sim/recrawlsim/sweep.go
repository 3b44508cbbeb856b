package recrawlsim

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"text/tabwriter"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"

	"shoal/cmd/shoal-sim/figure"
	"shoal/cmd/shoal-sim/tidy"
	"shoal/internal/sim"
)

// Sweep is "shoal-sim sweep": one thing is varied, every strategy runs in both modes.
type Sweep struct {
	World    `embed:""`
	Vary     string    `enum:"load,crawlers,life,channels" default:"load" help:"What to vary: load (work that change rates ask for over what the crawlers can do), crawlers, life (mean minutes), channels."`
	Values   []float64 `placeholder:"V,..." help:"Values; default: load .3 to 4, crawlers 200 to 20,000, life 100 to 10,000, channels 1,000 to 1,000,000."`
	Strategy string    `default:"all" help:"Strategy, several with commas between, or all."`
	Mode     string    `enum:"paper,shoal,both" default:"both" help:"Crawlers: paper, shoal or both."`
}

// SweepRow is a row of a sweep's --json.
type SweepRow struct {
	Vary  string  `json:"vary"`
	Value float64 `json:"value"`
	Load  float64 `json:"load"`    // work asked for over capacity
	Good  float64 `json:"goodput"` // pages of updates a minute
	Row
}

var sweepValues = map[string][]float64{
	"load":     {.3, .5, .75, 1, 1.5, 2, 3, 4},
	"crawlers": {200, 500, 1000, 2000, 5000, 10_000, 20_000},
	"life":     {100, 200, 500, 1000, 2000, 5000, 10_000},
	"channels": {1000, 3000, 10_000, 30_000, 100_000, 300_000, 1_000_000},
}

// sweepSteps is the default length of a sweep's runs.
const sweepSteps = 10_000

// MaxValues bounds --values.
const MaxValues = 100

// Run runs the sweep.
func (s *Sweep) Run(ctx context.Context, out, errw io.Writer) error {
	base, err := s.config()
	if err != nil {
		return err
	}
	if base.Steps == 0 {
		base.Steps = sweepSteps
	}
	values := s.Values
	if len(values) == 0 {
		values = sweepValues[s.Vary]
	}
	if len(values) > MaxValues {
		return fmt.Errorf("%w: %d values: want at most %d", ErrFlags, len(values), MaxValues)
	}
	modes := []string{s.Mode}
	if s.Mode == "both" {
		modes = []string{"paper", "shoal"}
	}
	names, err := strategies(s.Strategy)
	if err != nil {
		return err
	}
	if err := s.check(base, values, modes, names); err != nil {
		return err
	}
	rows, err := s.runs(ctx, base, values, modes, names, errw)
	if err != nil {
		return err
	}
	if s.Plot != "" {
		if err := s.plot(modes, names, rows); err != nil {
			return err
		}
	}
	if s.CSV {
		return tidy.Write(out, rows, "value")
	}
	if s.JSON {
		return writeJSON(out, rows)
	}
	return s.table(out, modes, names, rows)
}

// check refuses values that cannot be run, before the first has run.
func (s *Sweep) check(base Config, values []float64, modes, names []string) error {
	for i, v := range values {
		if slices.Contains(values[:i], v) {
			return fmt.Errorf("%w: --values: %v is there twice", ErrFlags, v)
		}
		cfg, err := vary(base, s.Vary, v, false)
		if err != nil {
			return err
		}
		for _, mode := range modes {
			for _, n := range names {
				if err := s.each(cfg, n, mode).Validate(); err != nil {
					return err
				}
			}
		}
	}
	return figure.CanWrite(s.Plot)
}

// runs runs every strategy in every mode for every value.
func (s *Sweep) runs(ctx context.Context, base Config, values []float64, modes, names []string, errw io.Writer) ([]SweepRow, error) {
	bar := newBar(errw, len(values)*len(modes)*len(names))
	var rows []SweepRow
	for _, v := range values {
		cfg, err := vary(base, s.Vary, v, true)
		if err != nil {
			return nil, err
		}
		if err := s.each(cfg, names[0], modes[0]).Validate(); err != nil { // the load is known now
			return nil, err
		}
		w := newWorld(cfg)
		for _, mode := range modes {
			for _, n := range names {
				c := s.each(cfg, n, mode)
				bar.name(fmt.Sprintf("%s %g, %s, %s", s.Vary, v, mode, n))
				begun := time.Now()
				row, err := Run(ctx, c, w, bar.part(w.steps))
				if err != nil {
					return nil, err
				}
				row.Seconds = math.Round(time.Since(begun).Seconds()*1000) / 1000
				rows = append(rows, SweepRow{Vary: s.Vary, Value: v, Load: w.asked(), Good: row.PagesPerMin * row.PagesUseful, Row: row})
				bar.next()
			}
		}
	}
	bar.done()
	return rows, nil
}

func (s *Sweep) table(out io.Writer, modes, names []string, rows []SweepRow) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "mode\tstrategy\t%s\tload\tgoodput pages/min\tupdates/min\tupdates/accepted\tupdates/submitted\tfreshness\tby pages\tseconds\t\n", s.Vary)
	for _, mode := range modes {
		for _, n := range names {
			for _, r := range rows {
				if r.Mode == mode && r.Strategy == n {
					fmt.Fprintf(t, "%s\t%s\t%g\t%.2f\t%.0f\t%.1f\t%.3f\t%.3f\t%.3f\t%.3f\t%.1f\t\n", mode, n, r.Value, r.Load, r.Good, float64(r.Updates)/float64(r.Steps),
						r.SuccessAccepted(), r.SuccessSubmitted(), r.Freshness, r.FreshnessPages, r.Seconds)
				}
			}
		}
	}
	return t.Flush()
}

// each is the Config of one run. Where both modes run, --out is for mode paper: in mode shoal a channel has one task out.
func (s *Sweep) each(c Config, strategy, mode string) Config {
	if mode == "shoal" && s.Mode == "both" {
		c.Out = 0
	}
	return c.with(strategy, mode)
}

// vary puts a value into a Config; load only if it may make a world to see what that is.
func vary(c Config, what string, v float64, world bool) (Config, error) {
	whole := what == "crawlers" || what == "channels"
	switch {
	case !(v > 0) || math.IsInf(v, 0):
		return c, fmt.Errorf("%w: --values: %s %v: want a positive number", ErrFlags, what, v)
	case whole && (v != math.Trunc(v) || v > MaxChannels):
		return c, fmt.Errorf("%w: --values: %v %s: want a whole number of at most %d", ErrFlags, v, what, MaxChannels)
	}
	switch what {
	case "load":
		if world {
			c.Load = v / newWorld(c).asked()
		}
	case "crawlers":
		c.Crawlers = int(v)
	case "channels":
		c.Channels = int(v)
	case "life":
		c.Churn = sim.PaperChurn()
		c.Churn.Life, c.Churn.LifeSpread = v, v/5
	}
	return c, nil
}

// asked is the work that one task per change of every channel asks for, over what the crawlers that are there can do.
func (w *world) asked() float64 {
	var perPage, work float64
	for _, v := range w.perPage {
		perPage += float64(v) / 60 / float64(len(w.perPage))
	}
	for c, tau := range w.tau {
		work += float64(w.pages[c]) * perPage / tau
	}
	there := w.churn.Life / (w.churn.Life + w.churn.Gap)
	return work / (float64(len(w.perPage)) * threads * there)
}

func (s *Sweep) plot(modes, names []string, rows []SweepRow) error {
	x := map[string]string{"load": "offered load: work asked for over what crawlers can do", "crawlers": "crawlers", "life": "mean life of a crawler (minutes)", "channels": "channels"}[s.Vary]
	for _, mode := range modes {
		for _, f := range []struct {
			file, title, y string
			of             func(SweepRow) float64
		}{
			{"goodput", "Goodput", "pages of updates a minute (thousand)", func(r SweepRow) float64 { return r.Good / 1000 }},
			{"success", "Success", "updates / accepted tasks", func(r SweepRow) float64 { return r.SuccessAccepted() }},
			{"freshness", "Freshness", "share of copies up to date", func(r SweepRow) float64 { return r.Freshness }},
		} {
			p, legend := newPlot(fmt.Sprintf("%s, mode %s", f.title, mode), x, f.y), beside()
			if s.Vary != "load" {
				p.X.Tick.Marker = plot.TickerFunc(decades)
			}
			for i, n := range names {
				var points plotter.XYs
				for _, r := range rows {
					if r.Mode == mode && r.Strategy == n {
						v := r.Value
						if s.Vary != "load" {
							v = math.Log10(v)
						}
						points = append(points, plotter.XY{X: v, Y: f.of(r)})
					}
				}
				slices.SortFunc(points, func(a, b plotter.XY) int { return cmp.Compare(a.X, b.X) })
				if err := addLine(p, legend, i, n, points, true); err != nil {
					return err
				}
			}
			if f.file == "success" {
				p.Y.Max = 1
			}
			if err := save(p, legend, s.World.Plot, "sweep-"+s.Vary+"-"+mode+"-"+f.file, .02); err != nil {
				return err
			}
		}
	}
	return nil
}
