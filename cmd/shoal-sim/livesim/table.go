package livesim

import (
	"fmt"
	"io"
	"math"
	"text/tabwriter"

	"shoal/cmd/shoal-sim/figure"
)

// writeTable prints a line for each run, and what the ratios say that are asked for most.
func writeTable(out io.Writer, rows []Row) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "load\tchurn\tseed\tstrategy\tfresh\tpages\tweight\tthought\tsim\tsteady\t90% s\tpass s\tleast s\tupdates/min\tsim\tpages/min\twasted\tidle\tfirst pass\tall\tRTT\tnearest\tbound\t")
	for i := range rows {
		r := &rows[i]
		fmt.Fprintf(t, "%v\t%s\t%d\t%s\t%.3f\t%.3f\t%.3f\t%.3f\t%.3f\t%.3f\t%s\t%s\t%.0f\t%.0f\t%.0f\t%.0f\t%d\t%.3f\t%.3f\t%.3f\t%.1f\t%.1f\t%.1f\t\n", r.Load, yes(r.Churn), r.Seed, r.Strategy, r.FreshTrue, r.FreshTruePages,
			r.FreshTrueWeight, r.FreshEstimate, r.SimFresh, r.FreshSteady, whenever(r.Steady90S), whenever(r.FirstPassS), r.FirstPassLeastS, r.UpdatesPerMin, r.SimUpdatesPerMin, r.PagesPerMin, r.PagesWasted,
			r.IdleShare, r.IdleFirst, r.IdleAll, r.RTTChosenMS, r.RTTNearestMS, r.RTTBoundMS)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(out, `
fresh, pages, weight: share of channels, of pages, of channels by importance, that was current in truth, over the whole run; thought: what the manager
took for fresh; sim: what the recrawl simulator foretells of the same world. steady: fresh in the second half; 90% s: when nine tenths of that were reached.
pass s: when every channel had been crawled once; least s: the time that the threads need for that. wasted: pages of crawls that never reached the archive.
idle: thread time without a task while something was missing or stale; first pass: the same until then; all: for whatever reason. RTT: of a task's
peer to its host, ms; nearest: of the nearest peer; bound: the least with which the peers could do as much.`)
	return writeLeads(out, rows)
}

// writeForecast prints what the simulator says alone.
func writeForecast(out io.Writer, rows []Row) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "load\tchurn\tseed\tstrategy\tfresh\tsteady\t90% s\tpass s\tleast s\tupdates/min\tidle\tRTT\tbound\t")
	for i := range rows {
		r := &rows[i]
		fmt.Fprintf(t, "%v\t%s\t%d\t%s\t%.3f\t%.3f\t%s\t%s\t%.0f\t%.0f\t%.3f\t%.1f\t%.1f\t\n", r.Load, yes(r.Churn), r.Seed, r.Strategy, r.SimFresh, r.SimFreshSteady, whenever(r.SimSteady90S),
			whenever(r.SimFirstPassS), r.FirstPassLeastS, r.SimUpdatesPerMin, r.SimIdleShare, r.SimRTTChosenMS, r.SimRTTBoundMS)
	}
	return t.Flush()
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

// writeLeads prints price over the best of its rivals in each cell.
func writeLeads(out io.Writer, rows []Row) error {
	best, price := map[string]float64{}, map[string]float64{}
	var order []string
	for _, r := range rows {
		key := fmt.Sprintf("load %v, churn %v, seed %d", r.Load, r.Churn, r.Seed)
		switch r.Strategy {
		case "price":
			price[key] = r.FreshTrue
			order = append(order, key)
		case "fixed", "iir", "icr":
			best[key] = math.Max(best[key], r.FreshTrue)
		}
	}
	for _, key := range order {
		if best[key] > 0 {
			if _, err := fmt.Fprintf(out, "\nprice over the best of fixed, iir and icr, %s: %.3f", key, price[key]/best[key]); err != nil {
				return err
			}
		}
	}
	_, err := fmt.Fprintln(out)
	return err
}

// plotRows draws freshness and idle time over time, two figures for each world.
func plotRows(dir string, rows []Row) error {
	type world struct {
		load  float64
		churn bool
		seed  uint64
	}
	done := map[world]bool{}
	for i := range rows {
		w := world{rows[i].Load, rows[i].Churn, rows[i].Seed}
		if done[w] {
			continue
		}
		done[w] = true
		name := fmt.Sprintf("live-load%v-seed%d", w.load, w.seed)
		if w.churn {
			name += "-churn"
		}
		fresh, idle := figure.New("Channels that are fresh in truth", "minutes", "share"), figure.New("Thread time without a task while something is stale", "minutes", "share")
		for k := i; k < len(rows); k++ {
			if r := &rows[k]; (world{r.Load, r.Churn, r.Seed}) == w {
				if err := r.draw(fresh, idle); err != nil {
					return err
				}
			}
		}
		if _, err := fresh.Save(dir, name+"-fresh"); err != nil {
			return err
		}
		if _, err := idle.Save(dir, name+"-idle"); err != nil {
			return err
		}
	}
	return nil
}

const idleOver = 10 // seconds that a point of idle time is of

func (r *Row) draw(fresh, idle *figure.Figure) error {
	var at, share, from, part []float64
	for i, s := range r.series {
		at, share = append(at, s.at/60), append(share, s.fresh)
		if i >= idleOver {
			b := r.series[i-idleOver]
			from, part = append(from, s.at/60), append(part, (s.missed-b.missed)/math.Max(s.threads-b.threads, 1))
		}
	}
	if err := fresh.Line(r.Strategy, at, share); err != nil {
		return err
	}
	return idle.Line(r.Strategy, from, part)
}
