package recrawlsim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"

	"shoal/internal/sim"
	"shoal/recrawl"
)

// World are the flags that the commands share.
type World struct {
	Case     string  `enum:"rec,ruc,ruc-literal,shock" default:"ruc" help:"Experiment: rec (too few crawlers), ruc (enough, intervals doubled as the paper's numbers demand), ruc-literal (as its text says), shock (ruc with an outage)."`
	Rates    string  `enum:"known,learnt" default:"known" help:"Change rates: known, or learnt from visits."`
	Seed     uint64  `default:"1" help:"Seed of hosts, churn and changes."`
	Latency  string  `type:"path" placeholder:"FILE" help:"Latency embedding, lines 'id x y' in ms (such as the King data set's). Default: synthetic, from the seed."`
	Changes  string  `type:"path" placeholder:"FILE" help:"Real change histories to replay as channels, TSV or gzip of it, as Open Terms Archive publishes. Default: Poisson processes."`
	Weights  string  `enum:"equal,rank,pages" default:"equal" help:"What a channel counts for the strategy: equal, rank (16, 8, 4, 2, 1 by group), pages."`
	Cap      float64 `default:"0" help:"Upper limit of the recrawl rate, times the change rate; 0: none, as in the paper."`
	Out      int     `default:"0" help:"Tasks that a channel may have out; 0: any number in mode paper, 1 in mode shoal."`
	Delta    float64 `default:"0" help:"Encouragement of iir and icr; 0: the published one in mode paper, the product's in mode shoal."`
	IIR      string  `name:"iir" enum:"pooled,channel" default:"pooled" help:"Reading of iir: gaps pooled over a group, or the mean of its channels' means."`
	Steps    int     `default:"0" help:"Minutes to simulate; 0: the case's own (100,000; shock 60,000)."`
	Channels int     `default:"0" help:"Channels, in the case's proportions; 0: the case's own number."`
	Crawlers int     `default:"0" help:"Crawlers; 0: the case's own number."`
	Managers int     `default:"1" help:"Managers that share the channels by host and hand out to the same crawlers; mode shoal only."`
	Quotas   bool    `default:"true" negatable:"" help:"Several managers move quotas between them by what the next crawl is worth to each."`
	Apart    bool    `help:"Give a channel's tasks in turn to different crawlers where another one is about as near, as a manager does; mode shoal only. The table says what that costs."`
	JSON     bool    `name:"json" xor:"form" help:"Print one JSON array, a row for each run."`
	CSV      bool    `name:"csv" xor:"form" help:"Print CSV, a figure a line: mean and standard deviation over the seeds."`
	Plot     string  `type:"path" placeholder:"DIR" help:"Write figures there, SVG and PNG."`

	CostKnee   float64 `default:"0" help:"price: how dear for its weight, in means, a channel is half way between the cheap, all of whose cost counts, and the dear, --cost-share of it; 0: default."`
	CostShare  float64 `default:"0" help:"price: the share of what a dear channel costs that counts; 0: default."`
	CostBase   float64 `default:"0" help:"price: minutes added to a task's cost; 0: default."`
	TargetWait float64 `default:"0" help:"price and kin: minutes that a task should wait on average; 0: default."`
	NoCost     bool    `help:"price: ignore what a task costs (ablation)."`
	NoSurvival bool    `help:"price: ignore that peers vanish (ablation)."`
	NoCorners  bool    `help:"price: ignore that some channels' tasks wait longer than others' (ablation)."`
	PlanEvery  float64 `default:"0" help:"optimal: minutes between plans; cycle: minutes of a period. 0: 1440 and 60."`
	Rule       string  `enum:"nutch,stormcrawler" default:"nutch" help:"Rule of strategy adaptive."`
}

// Command is "shoal-sim recrawl".
type Command struct {
	World    `embed:""`
	Strategy string `default:"all" help:"Strategy, several with commas between, or all."`
	Mode     string `enum:"paper,shoal" default:"paper" help:"Crawlers: the paper's fire-and-forget ones, or Shoal's with refusal, leases and checkpoints."`
	Seeds    int    `default:"1" help:"Run so many seeds from --seed on; tables show mean and standard deviation."`
}

// ErrFlags says that the flags do not fit together.
var ErrFlags = errors.New("sim: bad flags")

// MaxSeeds bounds --seeds.
const MaxSeeds = 1000

func (w World) config() (Config, error) {
	c := Config{Case: w.Case, Rates: w.Rates, Seed: w.Seed, Weights: w.Weights, Cap: w.Cap, Out: w.Out, Steps: w.Steps, Channels: w.Channels, Crawlers: w.Crawlers, Managers: w.Managers, Quotas: w.Quotas, Apart: w.Apart,
		Params: recrawl.Params{Delta: w.Delta, IIR: w.IIR, CostKnee: w.CostKnee, CostShare: w.CostShare, CostBase: w.CostBase, TargetWait: w.TargetWait,
			NoCost: w.NoCost, NoSurvival: w.NoSurvival, NoCorners: w.NoCorners, Rule: w.Rule, PlanEvery: w.PlanEvery}}
	var err error
	if w.Latency != "" {
		if c.Points, err = sim.LoadEmbedding(w.Latency); err != nil {
			return c, err
		}
	}
	if w.Changes != "" {
		if c.Changes, err = LoadHistories(w.Changes); err != nil {
			return c, err
		}
	}
	return c, nil
}

// with fills in a strategy and what follows from it.
func (c Config) with(strategy, mode string) Config {
	c.Strategy, c.Mode = strategy, mode
	if c.Params.Delta == 0 && mode == "paper" {
		c.Params.Delta = publishedDelta(c.Case, strategy)
	}
	if c.Params.PlanEvery == 0 && strategy == "cycle" {
		c.Params.PlanEvery = cyclePeriod
	}
	return c
}

// cyclePeriod is the cycle model's period here: channels that change faster than a period are served by price, and with the product's days that would be all.
const cyclePeriod = 60

func strategies(name string) ([]string, error) {
	if name != "all" {
		names := strings.Split(name, ",")
		for i, n := range names {
			if n == "" {
				return nil, fmt.Errorf("%w: --strategy %s: a name between its commas is empty: want all, or some of %s", ErrFlags, name, strings.Join(recrawl.Names(), ", "))
			}
			if slices.Contains(names[:i], n) {
				return nil, fmt.Errorf("%w: --strategy: %s is named twice", ErrFlags, n)
			}
		}
		return names, nil
	}
	all := []string{"fixed", "iir", "icr", "price"}
	for _, n := range recrawl.Names() {
		if !slices.Contains(all, n) {
			all = append(all, n)
		}
	}
	return all, nil
}

// Run runs the experiment and prints its tables to out; progress goes to errw if that is a terminal.
func (c *Command) Run(ctx context.Context, out, errw io.Writer) error {
	if c.Seeds < 1 || c.Seeds > MaxSeeds {
		return fmt.Errorf("%w: %d seeds: want 1 to %d", ErrFlags, c.Seeds, MaxSeeds)
	}
	base, err := c.config()
	if err != nil {
		return err
	}
	names, err := strategies(c.Strategy)
	if err != nil {
		return err
	}
	for _, n := range names {
		if err := base.with(n, c.Mode).Validate(); err != nil {
			return err
		}
	}
	if c.Plot != "" {
		if err := canPlot(c.Plot, base.scaled().steps); err != nil {
			return err
		}
	}
	bar := newBar(errw, c.Seeds*len(names))
	var rows []Row
	var worlds []*world
	for s := range c.Seeds {
		cfg := base
		cfg.Seed += uint64(s)
		w := newWorld(cfg)
		if s == 0 {
			worlds = append(worlds, w)
		}
		limit := w.bound(cfg.with(names[0], c.Mode))
		var near *dual
		settled := 0.
		if c.Mode == "shoal" { // tasks of the other may go to crawlers that are not near
			near = newDual(w, w.mostOften(cfg.with(names[0], c.Mode)))
			settled = near.bound(quartiles{})
		}
		for _, n := range names {
			bar.name(fmt.Sprintf("%s %s seed %d", c.Case, n, cfg.Seed))
			begun := time.Now()
			row, err := Run(ctx, cfg.with(n, c.Mode), w, bar.part(w.steps))
			if err != nil {
				return err
			}
			row.Seconds = math.Round(time.Since(begun).Seconds()*1000) / 1000
			row.QBound, row.QwBound, row.FreshnessBound = limit.q, limit.qw, limit.fresh
			if near != nil {
				row.SettledBound, row.LargeBound = settled, near.bound(quartiles{largest: row.SettledQuartile[largest]})
			}
			rows = append(rows, row)
			bar.next()
		}
		if near != nil {
			near.promise(rows[len(rows)-len(names):])
		}
	}
	bar.done()
	if c.Plot != "" {
		if err := plotRecrawl(c.Plot, c.Case, worlds[0], rows[:len(names)]); err != nil {
			return err
		}
	}
	if c.CSV {
		return writeCSV(out, rows)
	}
	if c.JSON {
		return writeJSON(out, rows)
	}
	return writeTables(out, c.Case, c.Mode, names, rows)
}

func writeJSON(out io.Writer, rows any) error {
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	if err := enc.Encode(rows); err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	return nil
}

// bar is a progress bar over runs; on anything but a terminal it is silent.
type bar struct {
	b    *progressbar.ProgressBar
	runs int
	at   int
}

const barParts = 100 // of a run

func newBar(w io.Writer, runs int) *bar {
	f, ok := w.(*os.File)
	if !ok {
		return &bar{}
	}
	if info, err := f.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return &bar{}
	}
	return &bar{b: progressbar.NewOptions(runs*barParts, progressbar.OptionSetWriter(f), progressbar.OptionShowElapsedTimeOnFinish(),
		progressbar.OptionSetWidth(30), progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish()), runs: runs}
}

func (b *bar) name(s string) {
	if b.b != nil {
		b.b.Describe(s)
	}
}

func (b *bar) part(steps int) func(int) {
	if b.b == nil {
		return nil
	}
	return func(minute int) { _ = b.b.Set(b.at*barParts + minute*barParts/max(steps, 1)) }
}

func (b *bar) next() {
	b.at++
	if b.b != nil {
		_ = b.b.Set(b.at * barParts)
	}
}

func (b *bar) done() {
	if b.b != nil {
		_ = b.b.Finish()
	}
}
