package ordersim

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"shoal/channel/order"
	"shoal/cmd/shoal-sim/tidy"
)

// published are the averages of table 2.
var published = map[string][2]float64{order.Backlink: {.50, .0157}, order.PartialPageRank: {.52, .0236}, order.BreadthFirst: {.64, .1293},
	order.BatchPageRank: {.63, .1961}, order.OPIC: {.67, .2229}, order.LargerSitesFirst: {.67, .2498}, order.HistoricalZero: {.68, .3573},
	order.HistoricalRandom: {.70, .3689}, order.HistoricalParent: {.70, .3520}, order.HistoricalOmniscient: {.77, .6385}, order.Omniscient: {.74, .6504}}

func report(out io.Writer, res Result) {
	tw := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(out, "\n%s: %d pages, %d links, %d seeds\n", res.Web.Name, res.Web.Graph.Pages(), len(res.Web.Graph.Arcs), len(res.Web.Seeds))
	timed := len(res.Rows) > 0 && res.Rows[0].TimeAverage != nil
	fmt.Fprint(tw, "ordering\tavg PageRank\tpaper\ttau\tpaper\tat 10%\tat 30%\tat 50%\tat 90%\tseconds")
	if timed {
		fmt.Fprint(tw, "\tavg over time\thalf, h\tend, h")
	}
	fmt.Fprintln(tw)
	for _, r := range append(slices.Clone(res.Rows), res.Bound) {
		was, wasTau := "-", "-"
		if p, ok := published[r.Ordering]; ok {
			was, wasTau = fmt.Sprintf("%.2f", p[0]), fmt.Sprintf("%.4f", p[1])
		}
		fmt.Fprintf(tw, "%s\t%.3f\t%s\t%.4f\t%s\t%.3f\t%.3f\t%.3f\t%.3f\t%.2f", r.Ordering, r.Average, was, r.Tau, wasTau,
			r.at(.1), r.at(.3), r.at(.5), r.at(.9), r.Seconds)
		if timed && r.TimeAverage != nil {
			half := "-"
			if r.Half != nil {
				half = fmt.Sprintf("%.2f", *r.Half/3600)
			}
			fmt.Fprintf(tw, "\t%.3f\t%s\t%.2f", *r.TimeAverage, half, *r.End/3600)
		}
		fmt.Fprintln(tw)
	}
	tw.Flush()
	for _, cl := range Claims(res) {
		fmt.Fprintln(out, cl)
	}
}

// at is the PageRank gathered after a share of the pages.
func (r Row) at(share float64) float64 { return r.curve[int(math.Round(share*curvePoints))] }

// Claim is a sentence of the paper, tested.
type Claim struct {
	Says  string
	Holds bool
	Shown string
}

func (c Claim) String() string {
	verdict := "does not hold"
	if c.Holds {
		verdict = "holds"
	}
	return fmt.Sprintf("  %s: %s (%s)", c.Says, verdict, c.Shown)
}

// Claims tests what the paper says of its graphs on this one, as far as the orderings that it is about were run.
func Claims(res Result) []Claim {
	by := map[string]Row{}
	for _, r := range res.Rows {
		by[r.Ordering] = r
	}
	var out []Claim
	add := func(says string, holds func() (bool, string), needs ...string) {
		for _, n := range needs {
			if _, ok := by[n]; !ok {
				return
			}
		}
		ok, shown := holds()
		out = append(out, Claim{says, ok, shown})
	}
	beats := func(a, b string, value func(Row) float64) func() (bool, string) {
		return func() (bool, string) {
			x, y := value(by[a]), value(by[b])
			return x > y, fmt.Sprintf("%.3f against %.3f", x, y)
		}
	}
	average := func(r Row) float64 { return r.Average }
	early := func(r Row) float64 { return r.at(.1) }
	for _, a := range []string{order.OPIC, order.LargerSitesFirst} {
		add(a+" beats breadth-first", beats(a, order.BreadthFirst, average), a, order.BreadthFirst)
	}
	for _, h := range []string{order.HistoricalZero, order.HistoricalRandom, order.HistoricalParent} {
		for _, b := range []string{order.OPIC, order.LargerSitesFirst} {
			add(h+" beats "+b+" early, at 10% of the pages", beats(h, b, early), h, b)
		}
	}
	for _, a := range []string{order.PartialPageRank, order.Backlink} {
		add(a+" loses even to random", beats(order.Random, a, average), a, order.Random)
	}
	add("omniscient fades: another ordering has more at 90% of the pages", func() (bool, string) {
		best, name := 0., ""
		for _, r := range res.Rows {
			if !strings.Contains(r.Ordering, order.Omniscient) && r.at(.9) > best {
				best, name = r.at(.9), r.Ordering
			}
		}
		x := by[order.Omniscient].at(.9)
		return best > x, fmt.Sprintf("%s %.3f against %.3f", name, best, x)
	}, order.Omniscient)
	timeAverage := func(r Row) float64 {
		if r.TimeAverage == nil {
			return math.NaN()
		}
		return *r.TimeAverage
	}
	if r, ok := by[order.LargerSitesFirst]; ok && r.TimeAverage != nil {
		add("larger-sites-first gathers PageRank faster than breadth-first, over time", beats(order.LargerSitesFirst, order.BreadthFirst, timeAverage), order.BreadthFirst)
		add("larger-sites-first is done sooner than breadth-first", func() (bool, string) {
			x, y := *r.End, *by[order.BreadthFirst].End
			return x < y, fmt.Sprintf("%.2f h against %.2f h", x/3600, y/3600)
		}, order.BreadthFirst)
	}
	return out
}

// claimRow is a claim on one graph in one run.
type claimRow struct {
	Graph string  `json:"graph"`
	Claim string  `json:"claim"`
	Holds float64 `json:"holds"` // 1 if it does
}

func claimRows(res Result) (out []claimRow) {
	for _, c := range Claims(res) {
		says, _, _ := strings.Cut(c.Says, ":")
		r := claimRow{Graph: res.Web.Name, Claim: says}
		if c.Holds {
			r.Holds = 1
		}
		out = append(out, r)
	}
	return out
}

// reportRuns prints the means and standard deviations over runs of one graph, and in how many of them each claim holds.
func reportRuns(out io.Writer, runs []Result) {
	first := runs[0]
	fmt.Fprintf(out, "\n%s: %d pages, %d links, %d seeds (the first of %d runs); mean and standard deviation over the runs\n",
		first.Web.Name, first.Web.Graph.Pages(), len(first.Web.Graph.Arcs), len(first.Web.Seeds), len(runs))
	tw := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "ordering\tavg PageRank\tpaper\ttau\tpaper\tat 10%\tat 50%\tat 90%")
	for i, r := range first.Rows {
		of := func(value func(Row) float64) string {
			var v []float64
			for _, res := range runs {
				v = append(v, value(res.Rows[i]))
			}
			mean, sd := tidy.Spread(v)
			return fmt.Sprintf("%.3f ± %.3f", mean, sd)
		}
		was, wasTau := "-", "-"
		if p, ok := published[r.Ordering]; ok {
			was, wasTau = fmt.Sprintf("%.2f", p[0]), fmt.Sprintf("%.4f", p[1])
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.Ordering, of(func(r Row) float64 { return r.Average }), was,
			of(func(r Row) float64 { return r.Tau }), wasTau, of(func(r Row) float64 { return r.at(.1) }), of(func(r Row) float64 { return r.at(.5) }),
			of(func(r Row) float64 { return r.at(.9) }))
	}
	tw.Flush()
	holds := map[string]float64{}
	for _, res := range runs {
		for _, c := range claimRows(res) {
			holds[c.Claim] += c.Holds
		}
	}
	for _, c := range claimRows(first) {
		fmt.Fprintf(out, "  %s: holds in %.0f of %d\n", c.Claim, holds[c.Claim], len(runs))
	}
}
