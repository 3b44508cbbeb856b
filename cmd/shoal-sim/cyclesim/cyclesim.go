// Package cyclesim runs the three experiments of Edwards, McCurley, Tomlin, "An Adaptive Model for Optimizing Performance of an Incremental Web
// Crawler" (WWW 2001) on recrawl/cycle: `shoal-sim cycle`, tables 3 and 4 and figures 3 to 6. The paper does not give its change rates, costs and
// capacity; two fits of them are in recrawl/cycle and both are run.
package cyclesim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"shoal/cmd/shoal-sim/figure"
	"shoal/cmd/shoal-sim/tidy"
	"shoal/recrawl/cycle"
)

// ErrFlags says that the flags cannot be used.
var ErrFlags = errors.New("cyclesim: unusable flags")

// Cmd is `shoal-sim cycle`.
type Cmd struct {
	Strategy []int   `help:"Strategies: 1 all periods alike, 2 the last alone, 3 the last with most of the weight." default:"1,2,3"`
	Version  []int   `help:"Versions of the instance: 1 equal buckets, 2 large fast and slow ones, 3 half the change rates." default:"1,2"`
	Periods  int     `help:"Periods of the cycle, in days." default:"14"`
	Rates    string  `help:"Which fit to what the paper leaves open: power, lifetimes or both." default:"power" enum:"power,lifetimes,both"`
	Stale    float64 `help:"Share of every bucket that is obsolete at the beginning; the paper's is not given." default:"0"`
	Long     bool    `help:"Also experiment 3: strategy 1, versions 1 and 3, 14 and 28 periods (with --plot it is implied)."`
	Seed     uint64  `help:"Taken for likeness with the other experiments; nothing here is random." default:"1"`
	JSON     bool    `name:"json" xor:"form" help:"Print one array of rows and nothing else."`
	CSV      bool    `name:"csv" xor:"form" help:"Print CSV, a figure a line: mean and standard deviation over the seeds."`
	Plot     string  `help:"Folder for the figures, as SVG and PNG." placeholder:"DIR" type:"path"`
}

// Row is one solved instance.
type Row struct {
	Strategy  int     `json:"strategy"`
	Version   int     `json:"version"`
	Periods   int     `json:"periods"`
	Objective float64 `json:"objective"`
	Bound     float64 `json:"bound"`
	Gap       float64 `json:"gap"` // (objective-bound)/objective
	Total     float64 `json:"total_end"`
	Obsolete  float64 `json:"obsolete_end"` // known pages only
	Seconds   float64 `json:"seconds"`
	Rates     string  `json:"rates"`
	Never     float64 `json:"never_crawled"` // share of buckets with less than a twentieth of a crawl
	Often     float64 `json:"more_than_once"`
	Half      float64 `json:"obsolete_mid"` // at the end of the middle period

	plan  *cycle.Plan
	model *cycle.Model
}

// paper is what the paper gives for 14 periods: objective, total and obsolete pages at the end, by strategy and version.
var paper = map[[2]int][3]float64{{1, 1}: {32.592e7, 5.224e8, 3.086e7}, {2, 1}: {1.722e7, 5.184e8, 1.609e7}, {3, 1}: {2.138e7, 5.224e8, 1.702e7},
	{1, 2}: {37.744e7, 5.214e8, 3.534e7}, {3, 2}: {2.5e7, 5.193e8, 1.972e7}}

// Run does the experiments.
func (c *Cmd) Run(ctx context.Context, out, errw io.Writer) error {
	if !(c.Stale >= 0 && c.Stale <= 1) {
		return fmt.Errorf("%w: --stale %g: want a share from 0 to 1", ErrFlags, c.Stale)
	}
	if c.Periods < 1 || c.Periods > cycle.MaxPeriods {
		return fmt.Errorf("%w: %d periods; want 1 to %d", ErrFlags, c.Periods, cycle.MaxPeriods)
	}
	if err := once("strategy", c.Strategy); err != nil {
		return err
	}
	if err := once("version", c.Version); err != nil {
		return err
	}
	if err := figure.CanWrite(c.Plot); err != nil {
		return err
	}
	fits := map[string][]cycle.PaperRates{"power": {cycle.Power}, "lifetimes": {cycle.Lifetimes}, "both": {cycle.Power, cycle.Lifetimes}}[c.Rates]
	var rows []Row
	for _, fit := range fits {
		name := map[cycle.PaperRates]string{cycle.Power: "power", cycle.Lifetimes: "lifetimes"}[fit]
		var part []Row
		add := func(strategy, version, periods int) error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if strategy < 1 || strategy > 3 || version < 1 || version > 3 {
				return fmt.Errorf("%w: strategy %d, version %d; want 1 to 3", ErrFlags, strategy, version)
			}
			r, err := solve(strategy, version, periods, fit, c.Stale)
			r.Rates = name
			part = append(part, r)
			return err
		}
		for _, v := range c.Version {
			for _, s := range c.Strategy {
				if err := add(s, v, c.Periods); err != nil {
					return err
				}
			}
		}
		if c.Long || c.Plot != "" {
			for _, k := range [][2]int{{1, 28}, {3, 14}, {3, 28}} {
				if err := add(1, k[0], k[1]); err != nil {
					return err
				}
			}
		}
		if c.Plot != "" {
			if err := draw(part, c.Plot, name); err != nil {
				return err
			}
			fmt.Fprintf(errw, "figures of fit %s written to %s\n", name, c.Plot)
		}
		rows = append(rows, part...)
	}
	if c.CSV {
		return tidy.Write(out, rows, "strategy", "version", "periods")
	}
	if c.JSON {
		e := json.NewEncoder(out)
		e.SetIndent("", " ")
		return e.Encode(rows)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "rates\tversion\tstrategy\tperiods\tobjective\tbound\tgap\ttotal at end\tobsolete at end\tpaper's objective\ttotal\tobsolete\tnever\toften\tseconds\t")
	for _, r := range rows {
		p := "\t\t"
		if v, ok := paper[[2]int{r.Strategy, r.Version}]; ok && r.Periods == 14 {
			p = fmt.Sprintf("%.4g\t%.4g\t%.4g", v[0], v[1], v[2])
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%.5g\t%.5g\t%.2f%%\t%.4g\t%.4g\t%s\t%.0f%%\t%.0f%%\t%.2f\t\n", r.Rates, r.Version, r.Strategy, r.Periods, r.Objective, r.Bound,
			100*r.Gap, r.Total, r.Obsolete, p, 100*r.Never, 100*r.Often, r.Seconds)
	}
	return w.Flush()
}

// once refuses a number that stands twice in a list.
func once(flag string, numbers []int) error {
	for i, n := range numbers {
		if slices.Contains(numbers[:i], n) {
			return fmt.Errorf("%w: --%s: %d is named twice", ErrFlags, flag, n)
		}
	}
	return nil
}

func solve(strategy, version, periods int, fit cycle.PaperRates, stale float64) (Row, error) {
	m := cycle.Paper(strategy, version, periods, fit)
	for i := range m.Buckets {
		m.Buckets[i].Obsolete = stale * m.Buckets[i].Pages
	}
	start := time.Now()
	p, err := cycle.Solve(m)
	if err != nil {
		return Row{}, err
	}
	r := Row{Strategy: strategy, Version: version, Periods: periods, Objective: p.Objective, Bound: p.Bound, Gap: p.Gap, Total: p.Total(periods - 1),
		Obsolete: p.Obsolete(periods - 1), Seconds: time.Since(start).Seconds(), Half: p.Obsolete(periods / 2), plan: p, model: m}
	for i := range m.Buckets {
		switch n := p.Crawls(m, i); {
		case n < .05:
			r.Never++
		case n > 1.05:
			r.Often++
		}
	}
	r.Never /= float64(len(m.Buckets))
	r.Often /= float64(len(m.Buckets))
	return r, nil
}

// draw makes figures 3 to 6 of one fit from whatever rows they need and find.
func draw(rows []Row, dir, fit string) error {
	find := func(strategy, version, periods int) *Row {
		for i := range rows {
			if r := &rows[i]; r.Strategy == strategy && r.Version == version && r.Periods == periods {
				return r
			}
		}
		return nil
	}
	type curve struct {
		name string
		row  *Row
	}
	obsolete := func(file, title string, curves ...curve) error {
		f := figure.New(title, "period", "obsolete pages, millions")
		f.Y.Min = 0
		for _, k := range curves {
			if k.row == nil {
				continue
			}
			x, y := make([]float64, k.row.Periods), make([]float64, k.row.Periods)
			for t := range x {
				x[t], y[t] = float64(t+1), k.row.plan.Obsolete(t)/1e6
			}
			if err := f.Marked(k.name, x, y); err != nil {
				return err
			}
		}
		f.Y.Max *= 1.25
		_, err := f.Save(dir, "cycle-figure-"+file+"-"+fit)
		return err
	}
	f := figure.New("Crawls per cycle by change rate", "bucket, fastest change first", "crawls")
	for s := 1; s <= 3; s++ {
		r := find(s, 1, 14)
		if r == nil {
			continue
		}
		x, y := make([]float64, len(r.model.Buckets)), make([]float64, len(r.model.Buckets))
		for i := range x {
			x[i], y[i] = float64(i), r.plan.Crawls(r.model, i)
		}
		if err := f.Steps(fmt.Sprintf("strategy %d", s), x, y); err != nil {
			return err
		}
	}
	if _, err := f.Save(dir, "cycle-figure-3-"+fit); err != nil {
		return err
	}
	if err := obsolete("4", "Obsolete pages by strategy", curve{"strategy 1", find(1, 1, 14)}, curve{"strategy 2", find(2, 1, 14)}, curve{"strategy 3", find(3, 1, 14)}); err != nil {
		return err
	}
	if err := obsolete("5", "Obsolete pages by distribution of change rates", curve{"strategy 1, version 1", find(1, 1, 14)}, curve{"strategy 1, version 2", find(1, 2, 14)},
		curve{"strategy 3, version 1", find(3, 1, 14)}, curve{"strategy 3, version 2", find(3, 2, 14)}); err != nil {
		return err
	}
	return obsolete("6", "Stabilisation, strategy 1", curve{"version 1, 14 periods", find(1, 1, 14)}, curve{"version 1, 28 periods", find(1, 1, 28)},
		curve{"half the change rates, 14 periods", find(1, 3, 14)}, curve{"half the change rates, 28 periods", find(1, 3, 28)})
}
