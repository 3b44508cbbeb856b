package livesim

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"text/tabwriter"
)

// column is one of a table.
type column struct {
	name string
	of   func(*Row) string
}

// columns are those of a table for a scene: a run's own are left out of a forecast alone.
func columns(scene string, measured, alike bool) (all []column) {
	num := func(digits int, of func(*Row) float64) func(*Row) string {
		return func(r *Row) string { return strconv.FormatFloat(of(r), 'f', digits, 64) }
	}
	at := func(of func(*Row) float64) func(*Row) string { return func(r *Row) string { return whenever(of(r)) } }
	own := func(name string, of func(*Row) string) {
		if measured {
			all = append(all, column{name, of})
		}
	}
	told := func(name string, of func(*Row) string) {
		if measured {
			name = "sim " + name
		}
		all = append(all, column{name, of})
	}
	both := func(name string, of func(*Row) string) { all = append(all, column{name, of}) }

	both("load", func(r *Row) string { return fmt.Sprint(r.Load) })
	both("churn", func(r *Row) string { return yes(r.Churn) })
	both("seed", func(r *Row) string { return fmt.Sprint(r.Seed) })
	both("strategy", func(r *Row) string { return r.Strategy })
	own("fresh", num(3, func(r *Row) float64 { return r.FreshTrue }))
	own("pages", num(3, func(r *Row) float64 { return r.FreshTruePages }))
	own("weight", num(3, func(r *Row) float64 { return r.FreshTrueWeight }))
	own("thought", num(3, func(r *Row) float64 { return r.FreshEstimate }))
	told("fresh", num(3, func(r *Row) float64 { return r.SimFresh }))
	if alike {
		told("fresh from", num(3, func(r *Row) float64 { return r.SimFreshLeast }))
		told("to", num(3, func(r *Row) float64 { return r.SimFreshMost }))
	}
	if scene == "weights" {
		told("weight", num(3, func(r *Row) float64 { return r.SimFreshWeight }))
	}
	if !measured {
		told("by size", num(3, func(r *Row) float64 { return r.SimFreshBySize }))
	}
	own("steady", num(3, func(r *Row) float64 { return r.FreshSteady }))
	if !measured || scene == "burst" {
		told("steady", num(3, func(r *Row) float64 { return r.SimFreshSteady }))
	}
	own("90% s", at(func(r *Row) float64 { return r.Steady90S }))
	own("pass s", at(func(r *Row) float64 { return r.FirstPassS }))
	if !measured {
		told("90% s", at(func(r *Row) float64 { return r.SimSteady90S }))
		told("pass s", at(func(r *Row) float64 { return r.SimFirstPassS }))
	}
	both("least s", num(0, func(r *Row) float64 { return r.FirstPassLeastS }))
	if scene == "burst" {
		own("new s", at(func(r *Row) float64 { return *r.PassS }))
		both("least s", num(0, func(r *Row) float64 { return r.PassLeastS }))
		told("new s", at(func(r *Row) float64 { return r.SimPassS }))
	}
	own("updates/min", num(0, func(r *Row) float64 { return r.UpdatesPerMin }))
	told("updates/min", num(0, func(r *Row) float64 { return r.SimUpdatesPerMin }))
	if alike {
		told("upd. from", num(0, func(r *Row) float64 { return r.SimUpdatesLeast }))
		told("to", num(0, func(r *Row) float64 { return r.SimUpdatesMost }))
	}
	own("pages/min", num(0, func(r *Row) float64 { return r.PagesPerMin }))
	own("wasted", func(r *Row) string { return fmt.Sprint(r.PagesWasted) })
	own("idle", num(3, func(r *Row) float64 { return r.IdleShare }))
	own("first pass", num(3, func(r *Row) float64 { return r.IdleFirst }))
	own("all", num(3, func(r *Row) float64 { return r.IdleAll }))
	own("RTT", num(1, func(r *Row) float64 { return r.RTTChosenMS }))
	own("nearest", num(1, func(r *Row) float64 { return r.RTTNearestMS }))
	own("bound", bound(func(r *Row) float64 { return r.RTTBoundMS }))
	if !measured {
		told("idle", num(3, func(r *Row) float64 { return r.SimIdleShare }))
		told("RTT", num(1, func(r *Row) float64 { return r.SimRTTChosenMS }))
		told("bound", bound(func(r *Row) float64 { return r.SimRTTBoundMS }))
	}
	return all
}

// writeRows prints a line for each run.
func writeRows(out io.Writer, rows []Row, measured bool) error {
	if len(rows) == 0 {
		return nil
	}
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	all := columns(rows[0].Scene, measured, rows[0].Range != nil)
	for _, c := range all {
		fmt.Fprint(t, c.name, "\t")
	}
	fmt.Fprintln(t)
	for i := range rows {
		for _, c := range all {
			fmt.Fprint(t, c.of(&rows[i]), "\t")
		}
		fmt.Fprintln(t)
	}
	err := t.Flush()
	if rows[0].Range != nil {
		_, last := fmt.Fprintln(out, `
from, to: what other forecasts foretell, in which a page takes up to half a millisecond more or less than in the first, which no run measures.`)
		err = errors.Join(err, last)
	}
	return err
}

// writeTable prints the runs, and what the ratios say that are asked for most.
func writeTable(out io.Writer, rows []Row) error {
	if err := writeRows(out, rows, true); err != nil {
		return err
	}
	fmt.Fprintln(out, `
fresh, pages, weight: share of channels, of pages, of channels by importance, that was current in truth, over the whole run; thought: what the manager
took for fresh; sim: what the recrawl simulator foretells of the same world. steady: fresh in the second half; 90% s: when nine tenths of that were reached.
pass s: when every channel had been crawled once; least s: the time that the threads need for that. new s: the same of the channels that came in the middle,
from then on. wasted: pages of crawls that never reached the archive. idle: thread time without a task while something was missing or stale; first pass: the
same until then; all: for whatever reason. RTT: of a task's peer to its host, ms; nearest: of the nearest peer; bound: the least with which the peers could do
as much.`)
	return writeLeads(out, rows)
}

// writeForecast prints what the simulator says alone.
func writeForecast(out io.Writer, rows []Row) error {
	err := writeRows(out, rows, false)
	_, last := fmt.Fprintln(out, `
fresh: share of channels that is current, over the whole run; by size: where each channel counts as many as it has pages, as strategies weigh them unless an
operator says otherwise; steady: fresh in the second half; 90% s: when nine tenths of that are reached. pass s: when every channel has been crawled once;
least s: the time that the threads need for that. idle: thread time without a task while something is missing or stale. RTT: of a task's peer to its host, ms;
bound: the least with which the peers could do as much.`)
	return errors.Join(err, last)
}

// bound is a least time; where none is known a dash.
func bound(of func(*Row) float64) func(*Row) string {
	return func(r *Row) string {
		if of(r) == 0 {
			return "-"
		}
		return strconv.FormatFloat(of(r), 'f', 1, 64)
	}
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func whenever(s float64) string {
	if s < 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f", s)
}

// writeLeads prints price over the best of its rivals in each cell; where channels count differently, by importance too.
func writeLeads(out io.Writer, rows []Row) error {
	lead := func(what string, fresh func(*Row) float64) (err error) {
		best, price := map[string]float64{}, map[string]float64{}
		var order []string
		for i := range rows {
			r := &rows[i]
			key := fmt.Sprintf("load %v, churn %v, seed %d", r.Load, r.Churn, r.Seed)
			switch r.Strategy {
			case "price":
				price[key] = fresh(r)
				order = append(order, key)
			case "fixed", "iir", "icr":
				best[key] = math.Max(best[key], fresh(r))
			}
		}
		for _, key := range order {
			if best[key] > 0 && err == nil {
				_, err = fmt.Fprintf(out, "\nprice over the best of fixed, iir and icr%s, %s: %.3f", what, key, price[key]/best[key])
			}
		}
		return err
	}
	err := lead("", func(r *Row) float64 { return r.FreshTrue })
	if len(rows) > 0 && rows[0].Scene == "weights" {
		err = errors.Join(err, lead(", by importance", func(r *Row) float64 { return r.FreshTrueWeight }))
	}
	_, last := fmt.Fprintln(out)
	return errors.Join(err, last)
}
