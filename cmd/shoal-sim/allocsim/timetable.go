package allocsim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"shoal/cmd/shoal-sim/figure"
	"shoal/cmd/shoal-sim/tidy"
	"shoal/recrawl/allocate"
)

// Timetable is `shoal-sim timetable`.
type Timetable struct {
	Tasks    string  `help:"Read the crawls from a CSV instead: id, ideal, kind (stochastic or quasi)." placeholder:"FILE" type:"path"`
	Count    int     `help:"Crawls to schedule." default:"10000000"`
	Crawlers int     `help:"Crawlers with equally many slots." default:"10"`
	Slots    string  `help:"Slots of every crawler, comma-separated, instead of --crawlers." placeholder:"N,N,.."`
	Idle     float64 `help:"Slots beyond the crawls, as a share of the crawls." default:"0"`
	Quasi    float64 `help:"Share of crawls that must not begin early." default:"0.2"`
	Ideal    string  `help:"Generated ideal times: phases (pages crawled at even distances, each from a time of its own), even (the same by the paper's i/(x+1), so that all pages begin together) or random (all independent)." default:"phases" enum:"phases,even,random"`
	Span     float64 `help:"Length of the scheduling interval; with --tasks." default:"1"`
	Bars     string  `help:"Restrictions as CSV: task id, crawler (from 0; any), from, to." placeholder:"FILE" type:"path"`
	Schedule string  `help:"Write the schedule as CSV: id, crawler, slot, time." placeholder:"FILE" type:"path"`
	Seed     uint64  `help:"Seed." default:"1"`
	JSON     bool    `name:"json" xor:"form" help:"Print one array of rows and nothing else."`
	CSV      bool    `name:"csv" xor:"form" help:"Print CSV, a figure a line: mean and standard deviation over the seeds."`
	Plot     string  `help:"Folder for figure 10, as SVG and PNG." placeholder:"DIR" type:"path"`
}

// TimetableRow is one schedule.
type TimetableRow struct {
	Tasks    int     `json:"tasks"`
	Crawlers int     `json:"crawlers"`
	Cost     float64 `json:"cost"`     // sum of |slot - ideal|, in units of the interval
	Within20 float64 `json:"within20"` // share of crawls within 20 slots of their ideal time
	Early    int     `json:"early"`    // crawls before their release
	Seconds  float64 `json:"seconds"`
	Slots    int     `json:"slots"`
	Mean     float64 `json:"mean_slots"` // mean distance in slots of a crawler
	Worst    float64 `json:"worst_slots"`
	Exact    bool    `json:"exact"`
	Bound    float64 `json:"bound"`
	Twin     float64 `json:"twin_seconds_1000,omitempty"` // a general assignment solver on the first 1000 crawls
	Ratio    float64 `json:"ratio_1000,omitempty"`        // its time over ours on the same
}

// Run does the experiment.
func (c *Timetable) Run(ctx context.Context, out, errw io.Writer) error {
	if err := figure.CanWrite(c.Plot); err != nil {
		return err
	}
	if err := canCreate("schedule", c.Schedule); err != nil {
		return err
	}
	ids, p, err := c.problem()
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	fmt.Fprintf(errw, "%d crawls, %d crawlers\n", len(p.Ideal), len(p.Slots))
	start := time.Now()
	s, err := allocate.Timetable(p)
	if err != nil {
		return c.advised(err)
	}
	row, hist := c.measure(p, s)
	row.Seconds = time.Since(start).Seconds() - row.Seconds
	if c.Tasks == "" {
		if row.Twin, row.Ratio, err = twin(p); err != nil {
			return err
		}
	}
	if c.Schedule != "" {
		if err := writeSchedule(c.Schedule, ids, p, s); err != nil {
			return err
		}
	}
	if c.Plot != "" {
		if err := hist.draw(c.Plot); err != nil {
			return err
		}
	}
	rows := []TimetableRow{row}
	if c.CSV {
		return tidy.Write(out, rows, "tasks", "crawlers", "slots")
	}
	if c.JSON {
		e := json.NewEncoder(out)
		e.SetIndent("", " ")
		return e.Encode(rows)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "tasks\tcrawlers\tslots\tcost\twithin 20\tearly\tmean slots\tworst\tseconds\tratio at 1000\t")
	fmt.Fprintf(w, "%d\t%d\t%d\t%.9g\t%.6f\t%d\t%.3f\t%.1f\t%.3f\t%.0f\t\n", row.Tasks, row.Crawlers, row.Slots, row.Cost, row.Within20, row.Early, row.Mean, row.Worst, row.Seconds, row.Ratio)
	return w.Flush()
}

// maxIdle bounds the slots beyond the crawls, as a multiple of these.
const maxIdle = 100

func (c *Timetable) problem() (ids []string, p allocate.TimetableProblem, err error) {
	p.Span = 1
	n := c.Count
	if c.Tasks != "" {
		if p.Span = c.Span; !(c.Span > 0 && c.Span <= math.MaxFloat64) {
			return nil, p, fmt.Errorf("%w: --span %g: want a number above 0", ErrFlags, c.Span)
		}
		err = open(c.Tasks, func(r io.Reader) (err error) {
			ids, p.Ideal, p.Release, err = allocate.ReadTasks(r, c.Tasks, c.Span)
			return err
		})
		if err != nil {
			return nil, p, err
		}
		n = len(p.Ideal)
	} else if c.Count < 1 || c.Count > allocate.MaxTasks || !(c.Quasi >= 0 && c.Quasi <= 1) {
		return nil, p, fmt.Errorf("%w: --count %d, --quasi %g: want 1 to %d crawls, and a share from 0 to 1", ErrFlags, c.Count, c.Quasi, allocate.MaxTasks)
	} else if c.Span != 1 {
		return nil, p, fmt.Errorf("%w: --span %g is for the crawls of a file, which --tasks names; drawn crawls have an interval of length 1", ErrFlags, c.Span)
	}
	if p.Slots, err = c.slots(n); err != nil {
		return nil, p, err
	}
	if c.Tasks == "" {
		if p.Ideal, p.Release, err = c.draw(slices.Max(p.Slots)); err != nil {
			return nil, p, err
		}
	}
	if c.Bars != "" {
		p.Barred, err = c.readBars(ids, n, len(p.Slots))
	}
	return ids, p, err
}

// slots are those of every crawler, for n crawls.
func (c *Timetable) slots(n int) (all []int, err error) {
	if c.Slots != "" {
		for _, w := range strings.Split(c.Slots, ",") {
			n, err := strconv.Atoi(strings.TrimSpace(w))
			if err != nil || n < 0 {
				return nil, fmt.Errorf("%w: --slots %q: want whole numbers separated by commas", ErrFlags, c.Slots)
			}
			all = append(all, n)
		}
		return all, nil
	}
	if c.Crawlers < 1 || c.Crawlers > allocate.MaxCrawlers || !(c.Idle >= 0 && c.Idle <= maxIdle) {
		return nil, fmt.Errorf("%w: --crawlers %d, --idle %g: want 1 to %d crawlers, and idle slots of 0 to %d times the crawls", ErrFlags, c.Crawlers, c.Idle, allocate.MaxCrawlers, maxIdle)
	}
	each := int(math.Ceil(float64(n) * (1 + c.Idle) / float64(c.Crawlers)))
	return slices.Repeat([]int{each}, c.Crawlers), nil
}

// advised says what to do where the slots do not do for the crawls.
func (c *Timetable) advised(err error) error {
	if !errors.Is(err, allocate.ErrInfeasible) {
		return err
	}
	more := fmt.Sprintf("give more slots with --idle, of 0 to %d times the crawls", maxIdle)
	if c.Slots != "" {
		more = "give more slots with --slots"
	}
	if c.Bars != "" {
		more += ", or bar less with --bars"
	}
	return fmt.Errorf("%w: %s", err, more)
}

func (c *Timetable) readBars(ids []string, n, crawlers int) (bars []allocate.Bar, err error) {
	index := map[string][]int{}
	for i, id := range ids {
		index[id] = append(index[id], i)
	}
	err = open(c.Bars, func(r io.Reader) error {
		bars, err = allocate.ReadBars(r, c.Bars, crawlers, func(id string) []int {
			if ids != nil {
				return index[id]
			}
			if i, err := strconv.Atoi(id); err == nil && i >= 0 && i < n {
				return []int{i}
			}
			return nil
		})
		return err
	})
	return bars, err
}

// Crawls of a page in a generated day.
const (
	ordinaryCrawls = 10
	quasiCrawls    = 24 // hourly
)

// draw makes the ideal times. With phases, pages are crawled at even distances: quasi-deterministic ones hourly at a time of their own, the
// others ten times from where the day before left them, which was a full timetable, so that phases are evenly spread. With even, the times are
// the paper's i/(x+1): all pages of as many crawls want the same times. With random, every time is independent of all others: crawls bunch by
// the square root of their number, and distances grow with it. Most is the number of slots of the crawler that has most.
func (c *Timetable) draw(most int) (ideal []float64, release []bool, err error) {
	rng := rand.New(rand.NewPCG(c.Seed, 10))
	n := c.Count
	ideal, release = make([]float64, 0, n), make([]bool, 0, n)
	held := int(math.Round(c.Quasi * float64(n)))
	// A crawl that must not begin early needs a slot after it: none are asked for in the last slots of the interval.
	last := max(0, min(1-200*math.Sqrt(float64(max(c.Crawlers, 1)))/max(float64(n), 1e4), 1-1/float64(max(most, 1))))
	before := func(t float64) float64 {
		switch {
		case t <= last:
			return t
		case t < 1-last: // where the last slots are more than half of the interval, that far before them is before its beginning
			return t * last
		}
		return t - (1 - last)
	}
	switch c.Ideal {
	case "random":
		for i := range n {
			t := rng.Float64()
			if i < held {
				t = before(t)
			}
			ideal, release = append(ideal, t), append(release, i < held)
		}
	case "phases":
		services := float64((held + quasiCrawls - 1) / quasiCrawls)
		for i := 0; len(ideal) < held; i++ {
			phase := (float64(i) + rng.Float64()) / services
			for k := 0; k < quasiCrawls && len(ideal) < held; k++ {
				t := before((float64(k) + phase) / quasiCrawls)
				ideal, release = append(ideal, t), append(release, true)
			}
		}
		pages := float64((n - held + ordinaryCrawls - 1) / ordinaryCrawls)
		for i := 0; len(ideal) < n; i++ {
			phase := (float64(i) + rng.Float64()) / pages
			for k := 0; k < ordinaryCrawls && len(ideal) < n; k++ {
				ideal, release = append(ideal, min((float64(k)+phase)/ordinaryCrawls, 1)), append(release, false)
			}
		}
	case "even":
		for i := 0; len(ideal) < n; i++ {
			crawls, quasi := ordinaryCrawls, len(ideal) < held
			if quasi {
				crawls = quasiCrawls
			}
			for k := 1; k <= crawls && len(ideal) < n; k++ {
				ideal, release = append(ideal, min(float64(k)/float64(crawls+1), last)), append(release, quasi)
			}
		}
	default:
		return nil, nil, fmt.Errorf("%w: ideal times %q: want phases, even or random", ErrFlags, c.Ideal)
	}
	rng.Shuffle(n, func(i, j int) {
		ideal[i], ideal[j] = ideal[j], ideal[i]
		release[i], release[j] = release[j], release[i]
	})
	return ideal, release, nil
}

// spread is figure 10: crawls by distance from their ideal time, in slots.
type spread struct {
	lo        int
	all, held []float64
}

func (c *Timetable) measure(p allocate.TimetableProblem, s *allocate.Schedule) (TimetableRow, *spread) {
	began := time.Now()
	row := TimetableRow{Tasks: len(p.Ideal), Crawlers: len(p.Slots), Cost: s.Cost, Exact: s.Exact, Bound: s.Bound}
	h := &spread{lo: -40, all: make([]float64, 81), held: make([]float64, 81)}
	for _, n := range p.Slots {
		row.Slots += n
	}
	near := 0
	for i, ideal := range p.Ideal {
		k, _, t := s.At(i)
		d := (t - ideal) / p.Span * float64(p.Slots[k])
		a := math.Abs(d)
		if a <= 20 {
			near++
		}
		row.Mean += a
		row.Worst = max(row.Worst, a)
		held := p.Release != nil && p.Release[i]
		if held && t < ideal {
			row.Early++
		}
		if b := int(math.Round(d)) - h.lo; b >= 0 && b < len(h.all) {
			h.all[b]++
			if held {
				h.held[b]++
			}
		}
	}
	if len(p.Ideal) > 0 {
		row.Mean /= float64(len(p.Ideal))
		row.Within20 = float64(near) / float64(len(p.Ideal))
	}
	row.Seconds = time.Since(began).Seconds() // of measuring; the caller takes it off
	return row, h
}

func (h *spread) draw(dir string) error {
	f := figure.New("Distance of crawls from their ideal time", "slots", "log10 number of crawls")
	var x, all, held []float64
	for b := range h.all {
		x = append(x, float64(b+h.lo))
		all = append(all, math.Log10(max(h.all[b], .5)))
		held = append(held, math.Log10(max(h.held[b], .5)))
	}
	if err := f.Steps("all crawls", x, all); err != nil {
		return err
	}
	if err := f.Steps("quasi-deterministic ones", x, held); err != nil {
		return err
	}
	f.Y.Max += 1.5 // room for the legend
	_, err := f.Save(dir, "timetable-figure-10")
	return err
}

// twin times a general assignment solver and ours on the first thousand crawls.
func twin(p allocate.TimetableProblem) (seconds, ratio float64, err error) {
	n := min(len(p.Ideal), 1000) / 10 * 10
	if n == 0 {
		return 0, 0, nil
	}
	q := allocate.TimetableProblem{Ideal: p.Ideal[:n], Slots: make([]int, 10), Span: 1}
	for k := range q.Slots {
		q.Slots[k] = n / 10
	}
	start := time.Now()
	got := allocate.Assign(n, n, func(i, j int) float64 { return math.Abs(float64(j/10)/float64(n/10) - q.Ideal[i]) })
	seconds = time.Since(start).Seconds()
	start = time.Now()
	s, err := allocate.Timetable(q)
	if err != nil {
		return 0, 0, err
	}
	ours := time.Since(start).Seconds()
	want := 0.
	for i, j := range got {
		want += math.Abs(float64(j/10)/float64(n/10) - q.Ideal[i])
	}
	if math.Abs(want-s.Cost) > 1e-6*(1+want) {
		return 0, 0, fmt.Errorf("allocsim: the timetable costs %g, a general solver's %g", s.Cost, want)
	}
	return seconds, seconds / ours, nil
}
