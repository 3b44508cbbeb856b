package ordersim

import (
	"fmt"
	"strings"

	"shoal/channel/order"
	"shoal/cmd/shoal-sim/figure"
)

// Plots draws the figures that a result has the rows for: 3, the distribution of PageRank; 4, the orderings without history; 5, those
// with; 6, against time.
func Plots(dir string, res Result) (files []string, err error) {
	var plain, historical, timed []Row
	for _, r := range res.Rows {
		past := strings.HasPrefix(r.Ordering, "historical")
		if !past {
			plain = append(plain, r)
		}
		if past || r.Ordering == order.OPIC || r.Ordering == order.Omniscient {
			historical = append(historical, r)
		}
		if r.crawl.At != nil && (r.Ordering == order.BreadthFirst || r.Ordering == order.LargerSitesFirst) {
			timed = append(timed, r)
		}
	}
	x := make([]float64, curvePoints+1)
	for k := range x {
		x[k] = float64(k) / curvePoints
	}
	for _, f := range []struct {
		number int
		title  string
		rows   []Row
	}{{3, "upper bound: pages by descending PageRank", []Row{res.Bound}}, {4, "orderings without history", plain}, {5, "historical orderings", historical}} {
		if len(f.rows) == 0 {
			continue
		}
		fig := gathered(res.Web.Name+": "+f.title, "fraction of pages")
		for _, r := range f.rows {
			if err := fig.Line(r.Ordering, x, r.curve); err != nil {
				return files, err
			}
		}
		names, err := fig.Save(dir, fileName(res.Web.Name, f.number))
		files = append(files, names...)
		if err != nil {
			return files, err
		}
	}
	if len(timed) > 0 {
		var names []string
		var crawls []Crawl
		for _, r := range timed {
			names, crawls = append(names, r.Ordering), append(crawls, r.crawl)
		}
		drawn, err := PlotTimes(dir, res.Web.Name, res.Rank, names, crawls)
		files = append(files, drawn...)
		if err != nil {
			return files, err
		}
	}
	return files, nil
}

// PlotTimes draws figure 6: PageRank and documents against time.
func PlotTimes(dir, name string, rank []float64, orderings []string, crawls []Crawl) (files []string, err error) {
	scale, unit := 3600., "hours"
	if c := crawls[0]; len(c.At) > 0 && c.At[len(c.At)-1] < 2*3600 {
		scale, unit = 1, "seconds"
	}
	fig := gathered(name+": against time", unit+" of crawling")
	for i, c := range crawls {
		var x, pr, docs []float64
		sum := 0.
		every := max(len(c.Pages)/curvePoints, 1)
		for k, page := range c.Pages {
			sum += rank[page]
			if k%every == 0 || k == len(c.Pages)-1 {
				x, pr, docs = append(x, c.At[k]/scale), append(pr, sum), append(docs, float64(k+1)/float64(len(rank)))
			}
		}
		if err := fig.Line("PageRank, "+orderings[i], x, pr); err != nil {
			return nil, err
		}
		if err := fig.Line("documents, "+orderings[i], x, docs); err != nil {
			return nil, err
		}
	}
	return fig.Save(dir, fileName(name, 6))
}

// gathered is an empty figure of what share is there.
func gathered(title, x string) *figure.Figure {
	f := figure.New(title, x, "fraction gathered")
	f.Y.Min, f.Y.Max = 0, 1
	f.Legend.Top = false // the curves are there
	f.Legend.YOffs = -f.Legend.YOffs
	return f
}

func fileName(graph string, number int) string {
	return fmt.Sprintf("ordering-%s-figure-%d", graph, number)
}
