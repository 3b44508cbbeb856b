package recrawlsim

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"text/tabwriter"
	"time"

	"gonum.org/v1/plot/plotter"

	"shoal/internal/sim"
)

// Sweep is "shoal sim sweep": one thing is varied, every strategy runs in both modes.
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
	names := strategies(s.Strategy)
	bar := newBar(errw, len(values)*len(modes)*len(names))
	var rows []SweepRow
	for _, v := range values {
		cfg, err := vary(base, s.Vary, v)
		if err != nil {
			return err
		}
		for _, n := range names {
			if err := cfg.with(n, modes[0]).Validate(); err != nil {
				return err
			}
		}
		w := newWorld(cfg)
		for _, mode := range modes {
			for _, n := range names {
				c := cfg.with(n, mode)
				if mode == "shoal" {
					c.Out = 0
				}
				bar.name(fmt.Sprintf("%s %g, %s, %s", s.Vary, v, mode, n))
				begun := time.Now()
				row, err := Run(ctx, c, w, bar.part(w.steps))
				if err != nil {
					return err
				}
				row.Seconds = math.Round(time.Since(begun).Seconds()*1000) / 1000
				rows = append(rows, SweepRow{Vary: s.Vary, Value: v, Load: w.asked(), Good: row.PagesPerMin * row.PagesUseful, Row: row})
				bar.next()
			}
		}
	}
	bar.done()
	if s.Plot != "" {
		if err := s.plot(modes, names, rows); err != nil {
			return err
		}
	}
	if s.JSON {
		return writeJSON(out, rows)
	}
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

// vary puts a value into a Config.
func vary(c Config, what string, v float64) (Config, error) {
	if !(v > 0) || math.IsInf(v, 0) {
		return c, fmt.Errorf("%w: %s %v: want a positive number", ErrFlags, what, v)
	}
	switch what {
	case "load":
		c.Load = v / newWorld(c).asked()
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
	if err := os.MkdirAll(s.World.Plot, 0o755); err != nil {
		return fmt.Errorf("make folder for figures: %w", err)
	}
	for _, mode := range modes {
		for _, f := range []struct {
			file, y string
			of      func(SweepRow) float64
		}{
			{"goodput", "pages of updates a minute (thousand)", func(r SweepRow) float64 { return r.Good / 1000 }},
			{"success", "updates / accepted", func(r SweepRow) float64 { return r.SuccessAccepted() }},
			{"freshness", "share of copies up to date", func(r SweepRow) float64 { return r.Freshness }},
		} {
			x := map[string]string{"load": "offered load", "crawlers": "log10 of crawlers", "life": "log10 of mean life, minutes", "channels": "log10 of channels"}[s.Vary]
			p := newPlot(fmt.Sprintf("%s over %s, mode %s", f.file, s.Vary, mode), x, f.y)
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
				if err := addLine(p, i, n, points); err != nil {
					return err
				}
			}
			if err := save(p, s.World.Plot, "sweep-"+s.Vary+"-"+mode+"-"+f.file, .3); err != nil {
				return err
			}
		}
	}
	return nil
}
