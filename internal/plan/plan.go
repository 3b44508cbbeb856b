// Package plan is `shoal plan`: what a crawling capacity buys in freshness, what a wanted freshness needs, and the timetable that would be run; for
// channels of a database, by the planner that strategy optimal runs, or for pages of a CSV file with any update models, by package allocate. It decides
// nothing: the strategy does, from the same functions.
package plan

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// ErrFlags says that flags cannot be used.
var ErrFlags = errors.New("plan: unusable flags")

// ErrNone is returned where there is nothing to plan.
var ErrNone = errors.New("plan: there are no channels to plan for; shoal channel add adds some")

// Command holds the flags that both sources share.
type Command struct {
	Capacity  float64 `help:"Capacity to plan with: busy threads, or with --pages crawls in the interval. Default: what the database shows of the last day, or of the one before the newest update; with --pages one crawl a page. So it is with 0." placeholder:"X"`
	Freshness float64 `help:"Also say what this freshness, from 0 to 1, would need." placeholder:"F"`
	Threads   int     `help:"Threads of a crawler, to tell how many of them a freshness needs." default:"5" placeholder:"N"`
	Rows      int     `help:"Lines of the timetable to print." default:"10"`
	Schedule  string  `help:"Write the whole timetable as CSV." placeholder:"FILE" type:"path"`
	Thorough  bool    `help:"Look at every channel, however long it takes. By default, of more than 20,000 channels every n-th counts for the table, and of odd histories 1,000 are fitted."`
	Plot      string  `help:"Folder for figures of what capacities buy, how often channels are crawled, and the timetable, as SVG." placeholder:"DIR" type:"path"`

	JSON     bool                            `kong:"-"` // one JSON object and nothing else
	Progress func(what string, done, of int) `kong:"-"` // nil: not shown
}

// tell shows how far the plan is.
func (c *Command) tell(what string, done, of int) {
	if c.Progress != nil {
		c.Progress(what, done, of)
	}
}

// sample asks a part of a source's channels, and speaks of all.
type sample struct {
	Source
	share float64
}

func sampled(src Source) sample {
	few, share := src.Sampled()
	return sample{few, share}
}

// Buys implements Source.
func (s sample) Buys(ctx context.Context, capacity float64) (Point, error) {
	p, err := s.Source.Buys(ctx, capacity*s.share)
	p.Capacity, p.Crawls, p.Pages = capacity, p.Crawls/s.share, p.Pages/s.share
	return p, err
}

// Point is what one capacity buys.
type Point struct {
	Capacity     float64 `json:"capacity"`  // in the source's unit
	Crawls       float64 `json:"crawls"`    // in a day, or in the file's interval
	Pages        float64 `json:"pages"`     // fetched in a day; 0: not known
	Freshness    float64 `json:"freshness"` // by weight
	Uniform      float64 `json:"uniform"`   // the same, if all are crawled equally often
	Proportional float64 `json:"proportional,omitempty"`
}

// Entry is one line of the timetable.
type Entry struct {
	ID      string  `json:"id"`
	Time    float64 `json:"time"` // from now: minutes, or the file's unit
	Crawler int     `json:"crawler"`
	Slot    int     `json:"slot"`
}

// Report is the answer.
type Report struct {
	Unit     string         `json:"unit"` // of capacity
	Time     string         `json:"time_unit"`
	TickS    float64        `json:"tick_s,omitempty"` // seconds of this unit; 0: the file's unit is not known
	Interval string         `json:"-"`                // of crawls and changes, in words
	Seconds  float64        `json:"interval_s,omitempty"`
	Channels int            `json:"channels"`
	Models   map[string]int `json:"models"` // channels by update model: a clearly likelier one than Poisson's by their own histories
	Unfitted int            `json:"models_not_looked_for,omitempty"`
	Now      Point          `json:"now"`
	Points   []Point        `json:"points"`
	Needed   *Point         `json:"needed,omitempty"`
	Advice   string         `json:"advice,omitempty"`
	Moved    float64        `json:"timetable_moves"` // mean distance of a crawl from its ideal time
	Entries  []Entry        `json:"timetable"`
}

// Source is where channels come from.
type Source interface {
	Unit() (capacity, time string)
	Interval() string // in which crawls are counted
	Len() int
	Default() float64 // capacity when none is given
	// Sampled is a source of fewer channels that stands for this one, and the share of its channels that it has.
	Sampled() (few Source, share float64)
	// Unfitted is how many channels' own update models were not looked for.
	Unfitted() int
	// Models says how many channels follow which update model.
	Models() map[string]int
	// Frequencies are every channel's changes and its planned crawls, both in a day or in the file's interval.
	Frequencies(ctx context.Context, capacity float64) (changes, crawls []float64, err error)
	Buys(ctx context.Context, capacity float64) (Point, error)
	Timetable(ctx context.Context, capacity float64) (entries []Entry, moved float64, err error)
}

// factors are the capacities, in units of the present one, that the table shows.
var factors = []float64{.25, .5, .75, 1, 1.5, 2, 3, 4}

// Run plans.
func (c *Command) Run(ctx context.Context, src Source, out, errw io.Writer) error {
	if c.Freshness < 0 || c.Freshness >= 1 || math.IsNaN(c.Freshness) || c.Capacity < 0 || math.IsNaN(c.Capacity) || math.IsInf(c.Capacity, 0) {
		return fmt.Errorf("%w: freshness %g, capacity %g; want a freshness of 0 to less than 1, and a capacity above 0, or 0 for what is usual", ErrFlags, c.Freshness, c.Capacity)
	}
	if c.Rows < 0 || c.Threads < 0 {
		return fmt.Errorf("%w: --rows %d, --threads %d: want 0 or more", ErrFlags, c.Rows, c.Threads)
	}
	if src.Len() == 0 {
		return ErrNone
	}
	if c.Capacity == 0 {
		c.Capacity = src.Default()
	}
	if !(c.Capacity > 0) {
		return fmt.Errorf("%w: nothing was crawled yet, so there is no capacity to plan with; give --capacity, or ask again after the first updates", ErrFlags)
	}
	r := Report{Channels: src.Len(), Models: src.Models()}
	r.Unit, r.Time = src.Unit()
	r.Interval = src.Interval()
	if c, ok := src.(*Channels); ok {
		r.TickS, r.Seconds = c.TickS, float64(c.every())*c.TickS
	}
	r.Unfitted = src.Unfitted()
	few := sampled(src)
	var err error
	for i, f := range factors {
		from := Source(few)
		if f == 1 {
			from = src
		}
		p, err := from.Buys(ctx, f*c.Capacity)
		if err != nil {
			return err
		}
		if f == 1 {
			r.Now = p
		}
		r.Points = append(r.Points, p)
		c.tell("capacities", i+1, len(factors))
	}
	if c.Freshness > 0 {
		if r.Needed, r.Advice, err = c.need(ctx, few, r.Now); err != nil {
			return err
		}
	}
	c.tell("timetable", 0, 1)
	entries, moved, err := src.Timetable(ctx, c.Capacity)
	if err != nil {
		return err
	}
	c.tell("timetable", 1, 1)
	r.Moved = moved
	if c.Schedule != "" {
		if err := write(c.Schedule, entries); err != nil {
			return err
		}
		fmt.Fprintf(errw, "%d crawls written to %s\n", len(entries), c.Schedule)
	}
	r.Entries = entries[:min(len(entries), c.Rows)]
	if c.Plot != "" {
		changes, crawls, err := src.Frequencies(ctx, c.Capacity)
		if err != nil {
			return err
		}
		if err := errors.Join(drawCapacities(c.Plot, r), drawFrequencies(c.Plot, r, changes, crawls), drawTimetable(c.Plot, r, entries)); err != nil {
			return err
		}
	}
	if c.JSON {
		e := json.NewEncoder(out)
		e.SetIndent("", " ")
		return e.Encode(r)
	}
	return text(out, r, len(entries))
}

// need finds the capacity for a freshness, by doubling and halving.
func (c *Command) need(ctx context.Context, src Source, from Point) (*Point, string, error) {
	goal := c.Freshness
	lo, hi := 0., from
	for k := 0; hi.Freshness < goal; k++ {
		p, err := src.Buys(ctx, 2*hi.Capacity)
		if err != nil {
			return nil, "", err
		}
		if k == 60 || p.Crawls <= hi.Crawls*(1+1e-9) && p.Freshness <= hi.Freshness+1e-9 {
			return nil, fmt.Sprintf("a freshness of %g cannot be had: however many crawlers there are, it stays below %.4f, since channels are crawled as often as they may be", goal, p.Freshness+5e-5), nil
		}
		lo, hi = hi.Capacity, p
	}
	for range 40 {
		if hi.Capacity-lo < .002*hi.Capacity {
			break
		}
		p, err := src.Buys(ctx, (lo+hi.Capacity)/2)
		if err != nil {
			return nil, "", err
		}
		if p.Freshness >= goal {
			hi = p
		} else {
			lo = p.Capacity
		}
	}
	unit, _ := src.Unit()
	advice := fmt.Sprintf("a freshness of %g needs %.4g %s", goal, hi.Capacity, unit)
	if hi.Pages > 0 {
		advice += fmt.Sprintf(" (%.0f crawlers of %d threads), %.0f pages in %s", math.Ceil(hi.Capacity/float64(max(c.Threads, 1))), max(c.Threads, 1), hi.Pages, src.Interval())
	}
	return &hi, advice + fmt.Sprintf(": %.2f times what there is", hi.Capacity/from.Capacity), nil
}

func text(out io.Writer, r Report, crawls int) error {
	var models []string
	for _, k := range slices.Sorted(maps.Keys(r.Models)) {
		models = append(models, fmt.Sprintf("%d %s", r.Models[k], k))
	}
	fmt.Fprintf(out, "Update models: %s.\n", strings.Join(models, ", "))
	if r.Unfitted > 0 {
		fmt.Fprintf(out, "%d more channels have histories unlike Poisson's and were planned as Poisson; --thorough fits them all.\n", r.Unfitted)
	}
	fmt.Fprintf(out, "%d channels. What a capacity buys (now: %.4g %s):\n\n", r.Channels, r.Now.Capacity, r.Unit)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "%s\tcrawls\tpages\tfreshness\tuniform\tproportional\t\n", r.Unit)
	for _, p := range r.Points {
		fmt.Fprintf(w, "%.4g\t%.0f\t%s\t%.4f\t%.4f\t%s\t\n", p.Capacity, p.Crawls, orDash("%.0f", p.Pages), p.Freshness, p.Uniform, orDash("%.4f", p.Proportional))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if r.Advice != "" {
		fmt.Fprintf(out, "\n%s.\n", r.Advice)
	}
	fmt.Fprintf(out, "\nTimetable of %d crawls, moved by %.3g %s on average from their ideal times; the first %d:\n\n", crawls, r.Moved, r.Time, len(r.Entries))
	fmt.Fprintf(w, "%s from now\tcrawler\tslot\tchannel\t\n", r.Time)
	for _, e := range r.Entries {
		fmt.Fprintf(w, "%.4g\t%d\t%d\t%s\t\n", e.Time, e.Crawler, e.Slot, e.ID)
	}
	return w.Flush()
}

func orDash(format string, v float64) string {
	if v == 0 {
		return "-"
	}
	return fmt.Sprintf(format, v)
}

func write(name string, entries []Entry) (err error) {
	f, err := os.Create(name)
	if err != nil {
		return fmt.Errorf("plan: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := csv.NewWriter(f)
	if err := w.Write([]string{"id", "crawler", "slot", "time"}); err != nil {
		return err
	}
	for _, e := range entries {
		if err := w.Write([]string{e.ID, strconv.Itoa(e.Crawler), strconv.Itoa(e.Slot), strconv.FormatFloat(e.Time, 'g', -1, 64)}); err != nil {
			return err
		}
	}
	w.Flush()
	return w.Error()
}
