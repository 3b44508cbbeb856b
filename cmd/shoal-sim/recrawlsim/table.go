package recrawlsim

import (
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
)

// spread is the mean and standard deviation of a value over the seeds.
type spread struct{ mean, sd float64 }

func over[T any](rows []T, of func(T) float64) spread {
	var s spread
	for _, r := range rows {
		s.mean += of(r) / float64(len(rows))
	}
	for _, r := range rows {
		d := of(r) - s.mean
		s.sd += d * d
	}
	if len(rows) > 1 {
		s.sd = math.Sqrt(s.sd / float64(len(rows)-1))
	} else {
		s.sd = 0
	}
	return s
}

func (s spread) text(digits int) string {
	if s.sd == 0 {
		return fmt.Sprintf("%.*f", digits, s.mean)
	}
	return fmt.Sprintf("%.*f±%.*f", digits, s.mean, digits, s.sd)
}

func byStrategy(rows []Row, name string) []Row {
	var out []Row
	for _, r := range rows {
		if r.Strategy == name {
			out = append(out, r)
		}
	}
	return out
}

// lit prints a published figure, a dash where there is none.
func lit(v float64, digits int) string {
	if v == 0 {
		return "-"
	}
	return fmt.Sprintf("%.*f", digits, v)
}

// writeTables prints the paper's tables with our figures beside the published ones, and what the paper does not show.
func writeTables(out io.Writer, name, mode string, names []string, rows []Row) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	first := rows[0]
	fmt.Fprintf(out, "%s, mode %s, %s rates, %s weights, cap %s, %d minutes, %d seed(s) from %d\n\n", name, mode, first.Rates, first.Weights,
		capText(first.Cap), first.Steps, len(byStrategy(rows, first.Strategy)), first.Seed)
	numbers := map[string][2]string{"rec": {"1", "2"}, "ruc": {"3", "4"}}[name]
	title := func(no, what string) {
		if no != "" {
			what = "Table " + no + ". " + what
		}
		fmt.Fprintln(out, what)
	}
	title(numbers[0], "Recrawl tasks (million) and mean intervals (minutes, by tasks), fastest group first. P: published, R: reconstructed from the paper's text.")
	fmt.Fprintln(t, "strategy\ttasks\tP\tR\tintervals\tP\tR\t")
	for _, n := range names {
		r, l := byStrategy(rows, n), literature[name][n]
		var iv []string
		for g := range first.IntervalsMin {
			iv = append(iv, over(r, func(r Row) float64 { return r.IntervalsMin[g] }).text(0))
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", n, over(r, func(r Row) float64 { return float64(r.Submitted) / 1e6 }).text(3), lit(l.tasks, 3),
			lit(l.tasksR, 2), strings.Join(iv, " "), floats(l.intervals), floats(l.intervalsR))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(out)
	title(numbers[1], "Update quality, with weights 16, 8, 4, 2, 1 (Qw) and without (Q).")
	fmt.Fprintln(t, "strategy\tQw\tP\tR\tQ\tP\tR\t")
	for _, n := range names {
		r, l := byStrategy(rows, n), literature[name][n]
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", n, over(r, func(r Row) float64 { return r.Qw }).text(2), lit(l.qw, 2), lit(l.qwR, 2),
			over(r, func(r Row) float64 { return r.Q }).text(3), lit(l.q, 3), lit(l.qR, 3))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	r := byStrategy(rows, names[0])
	fmt.Fprintf(out, "No schedule can exceed Qw %s, Q %s, freshness %s: threads never idle, hosts at no distance, nothing lost, the cap and the number out kept.\n",
		over(r, func(r Row) float64 { return r.QwBound }).text(2), over(r, func(r Row) float64 { return r.QBound }).text(3),
		over(r, func(r Row) float64 { return r.FreshnessBound }).text(3))
	if first.SettledBound > 0 {
		if err := writeSettled(out, t, names, rows); err != nil {
			return err
		}
	}
	if err := writeBeyond(out, t, names, rows); err != nil {
		return err
	}
	writeRatios(out, rows)
	return nil
}

// writeSettled prints how near the strategies come to what any schedule reaches in the long run.
func writeSettled(out io.Writer, t *tabwriter.Writer, names []string, rows []Row) error {
	fmt.Fprintf(out, "\nFreshness after the first quarter, and what no schedule exceeds in the long run with peers where they are: any schedule %s,\n",
		over(byStrategy(rows, names[0]), func(r Row) float64 { return r.SettledBound }).text(3))
	fmt.Fprintln(out, "and one that leaves the largest quartile of channels as fresh as the strategy does.")
	head := "strategy\tfreshness\tof any\tlargest quartile\tas fresh there\tof that\t"
	promise := rows[0].KeptBound > 0
	if promise {
		fmt.Fprintf(out, "One that leaves each quartile at least as fresh as fixed does: at most %s.\n", over(byStrategy(rows, names[0]), func(r Row) float64 { return r.KeptBound }).text(3))
		head += "least quartile / fixed\tof as fresh as fixed\t"
	}
	fmt.Fprintln(t, head)
	for _, n := range names {
		r := byStrategy(rows, n)
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t", n, over(r, func(r Row) float64 { return r.FreshnessSettled }).text(3),
			over(r, func(r Row) float64 { return ratio(r.FreshnessSettled, r.SettledBound) }).text(3), over(r, func(r Row) float64 { return r.SettledQuartile[largest] }).text(3),
			over(r, func(r Row) float64 { return r.LargeBound }).text(3), over(r, func(r Row) float64 { return ratio(r.FreshnessSettled, r.LargeBound) }).text(3))
		if promise {
			fmt.Fprintf(t, "%s\t%s\t", over(r, func(r Row) float64 { return r.Keeps }).text(3), over(r, func(r Row) float64 { return ratio(r.FreshnessSettled, r.KeptBound) }).text(3))
		}
		fmt.Fprintln(t)
	}
	return t.Flush()
}

func capText(v float64) string {
	if v == 0 {
		return "none"
	}
	return fmt.Sprintf("%gx", v)
}

func floats(v []float64) string {
	if v == nil {
		return "-"
	}
	return strings.Trim(fmt.Sprint(v), "[]")
}

// writeBeyond prints what the paper does not show.
func writeBeyond(out io.Writer, t *tabwriter.Writer, names []string, rows []Row) error {
	column := func(head []string, line func(r []Row) []string) error {
		fmt.Fprintln(out)
		fmt.Fprintf(t, "strategy\t%s\t\n", strings.Join(head, "\t"))
		for _, n := range names {
			fmt.Fprintf(t, "%s\t%s\t\n", n, strings.Join(line(byStrategy(rows, n)), "\t"))
		}
		return t.Flush()
	}
	quartiles := func(r []Row, of func(Row) []float64, digits int) string {
		var s []string
		for i := range 4 {
			s = append(s, over(r, func(r Row) float64 { return of(r)[i] }).text(digits))
		}
		return strings.Join(s, " ")
	}
	fmt.Fprintln(out, "\nFreshness: share of time that a copy is up to date; quartiles of channel size, smallest first. Oldest: age in change intervals.")
	if err := column([]string{"freshness", "weighted", "by pages", "by size", "Q by size", "oldest"}, func(r []Row) []string {
		return []string{over(r, func(r Row) float64 { return r.Freshness }).text(3), over(r, func(r Row) float64 { return r.FreshnessW }).text(3),
			over(r, func(r Row) float64 { return r.FreshnessPages }).text(3), quartiles(r, func(r Row) []float64 { return r.FreshnessQuartile }, 3),
			quartiles(r, func(r Row) []float64 { return r.QQuartile }, 2), over(r, func(r Row) float64 { return r.AgeMaxTau }).text(0)}
	}); err != nil {
		return err
	}
	fmt.Fprintln(out, "\nSuccess: updates over accepted tasks, over accepted ones that have ended, and over submitted ones. Useful: pages of updates over pages downloaded. Queue: tasks waiting at a crawler.")
	if err := column([]string{"updates M", "accepted", "ended", "submitted", "refused", "lapsed", "migrated", "queue", "load CV", "pages/min", "KiB/s", "useful", "seconds"}, func(r []Row) []string {
		million := func(of func(Row) int64) string {
			return over(r, func(r Row) float64 { return float64(of(r)) / 1e6 }).text(3)
		}
		return []string{million(func(r Row) int64 { return r.Updates }), over(r, Row.SuccessAccepted).text(3), over(r, Row.SuccessEnded).text(3), over(r, Row.SuccessSubmitted).text(3),
			million(func(r Row) int64 { return r.Refused }), million(func(r Row) int64 { return r.Lapsed }), million(func(r Row) int64 { return r.Migrations }),
			over(r, func(r Row) float64 { return r.QueueMean }).text(2), over(r, func(r Row) float64 { return r.LoadCV }).text(2),
			over(r, func(r Row) float64 { return r.PagesPerMin }).text(0), over(r, func(r Row) float64 { return r.KiBPerS }).text(0),
			over(r, func(r Row) float64 { return r.PagesUseful }).text(3), over(r, func(r Row) float64 { return r.Seconds }).text(1)}
	}); err != nil || rows[0].Mode != "shoal" {
		return err
	}
	fmt.Fprintln(out, "\nMedian round trip between a task's crawler and its host, and the share of a channel's tasks in turn that stay with one crawler (--apart).")
	return column([]string{"rtt ms", "stay"}, func(r []Row) []string {
		return []string{over(r, func(r Row) float64 { return r.RTT50 }).text(1), over(r, func(r Row) float64 { return r.Stayed }).text(3)}
	})
}

// rivals are what price is measured against.
var rivals = []string{"fixed", "iir", "icr"}

// writeRatios prints price over the best of its rivals, chosen anew for each seed and figure, where it runs beside them.
func writeRatios(out io.Writer, rows []Row) {
	all := leads(rows)
	var who []string
	for _, n := range rivals {
		if len(byStrategy(rows, n)) > 0 {
			who = append(who, n)
		}
	}
	if len(all) == 0 {
		return
	}
	fmt.Fprintf(out, "\nprice over the best of %s in each seed: Qw %s, Q %s, freshness %s, by pages %s\n", strings.Join(who, ", "),
		over(all, func(l lead) float64 { return l.Qw }).text(3), over(all, func(l lead) float64 { return l.Q }).text(3),
		over(all, func(l lead) float64 { return l.Freshness }).text(3), over(all, func(l lead) float64 { return l.FreshnessPages }).text(3))
	if who[0] != "fixed" {
		return
	}
	quartiles := func(of func(lead) []float64) string {
		var s []string
		for q := range 4 {
			s = append(s, fmt.Sprintf("%.3f", over(all, func(l lead) float64 { return of(l)[q] }).mean))
		}
		return strings.Join(s, " ")
	}
	fmt.Fprintf(out, "its quartiles of channel size over those of fixed, mean of the seeds: freshness %s, Q %s\n",
		quartiles(func(l lead) []float64 { return l.FreshnessQuartile }), quartiles(func(l lead) []float64 { return l.QQuartile }))
}
