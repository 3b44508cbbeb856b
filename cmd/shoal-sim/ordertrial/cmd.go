package ordertrial

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"shoal/channel/order"
	"shoal/cmd/shoal-sim/figure"
	"shoal/cmd/shoal-sim/ordersim"
	"shoal/cmd/shoal-sim/tidy"
	"shoal/internal/lab/pond"
)

// Cmd is `shoal-sim ordering-pond`.
type Cmd struct {
	Hosts  int           `help:"Hosts of the pond." default:"150"`
	Pages  int           `help:"Pages of the pond." default:"6000"`
	Robots int           `help:"Sites visited at a time." default:"24"`
	Visit  int           `help:"Pages of one visit at most." default:"10"`
	Gap    time.Duration `help:"Between two requests to a site." default:"50ms"`
	Seeds  int           `help:"Hosts known at first." default:"15"`
	Max    int           `name:"max-host" help:"Pages of the largest host." default:"600"`
	Places int           `help:"Places around which hosts and robots gather; 1: all are near." default:"6"`
	Seed   uint64        `help:"Seed of the pond." default:"1"`
	JSON   bool          `name:"json" xor:"form" help:"Print one array of rows and nothing else."`
	CSV    bool          `name:"csv" xor:"form" help:"Print CSV, a figure a line: mean and standard deviation over the seeds."`
	Plot   string        `help:"Folder for figure 6, as SVG and PNG." placeholder:"DIR"`
}

// Row is one order of sites.
type Row struct {
	Ordering    string         `json:"ordering"`
	Graph       string         `json:"graph"`
	Pages       int            `json:"pages"`
	Average     float64        `json:"avg_pagerank"`
	Reachable   int            `json:"reachable"` // pages that can be reached from the seeds
	TimeAverage float64        `json:"avg_pagerank_time"`
	Half        float64        `json:"half_s"`      // seconds to half of the PageRank; 0: never
	HalfDocs    float64        `json:"half_docs_s"` // seconds to half of the documents; 0: never
	End         float64        `json:"end_s"`
	Tau         float64        `json:"tau"`
	Visits      int            `json:"visits"`
	Violations  int            `json:"violations"` // that the pond saw
	Errors      map[string]int `json:"errors"`
	Seconds     float64        `json:"seconds"`
}

// Run crawls a pond twice, under either order of sites.
func (c *Cmd) Run(ctx context.Context, out, errw io.Writer) error {
	if err := figure.CanWrite(c.Plot); err != nil {
		return err
	}
	var rows []Row
	var crawls []ordersim.Crawl
	var rank []float64
	for _, name := range []string{order.BreadthFirst, order.LargerSitesFirst} {
		fmt.Fprintf(errw, "%s: crawling %d pages of %d hosts, %d at a time\n", name, c.Pages, c.Hosts, c.Robots)
		row, crawl, r, err := c.once(ctx, name)
		if err != nil {
			return err
		}
		fmt.Fprintf(errw, "%s: %d pages in %.1f s, %d visits, errors %v\n", name, row.Pages, row.Seconds, row.Visits, row.Errors)
		rows, crawls, rank = append(rows, row), append(crawls, crawl), r
	}
	end := 0.
	for _, cr := range crawls {
		end = max(end, cr.At[len(cr.At)-1])
	}
	for i := range rows {
		rows[i].TimeAverage = ordersim.AverageOver(crawls[i], rank, end)
	}
	if c.Plot != "" {
		files, err := ordersim.PlotTimes(c.Plot, "pond", rank, []string{rows[0].Ordering, rows[1].Ordering}, crawls)
		if err != nil {
			return err
		}
		fmt.Fprintf(errw, "figure: %s\n", strings.Join(files, " "))
	}
	if c.CSV {
		return tidy.Write(out, rows)
	}
	if c.JSON {
		b, err := json.MarshalIndent(rows, "", "  ")
		if err != nil {
			return fmt.Errorf("ordertrial: rows: %w", err)
		}
		_, err = fmt.Fprintf(out, "%s\n", b)
		return err
	}
	tw := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "sites in order\tpages\tof\tavg PageRank\tover time\thalf of PageRank, s\thalf of documents, s\tall, s\ttau\tviolations")
	for _, r := range rows {
		fmt.Fprintf(tw, "%s\t%d\t%d\t%.3f\t%.3f\t%.1f\t%.1f\t%.1f\t%.3f\t%d\n", r.Ordering, r.Pages, r.Reachable, r.Average, r.TimeAverage, r.Half, r.HalfDocs, r.End, r.Tau, r.Violations)
	}
	return tw.Flush()
}

// once serves a fresh pond and crawls it.
func (c *Cmd) once(ctx context.Context, name string) (row Row, crawl ordersim.Crawl, rank []float64, err error) {
	w, err := pond.NewWorld(pond.Config{Seed: c.Seed, Hosts: c.Hosts, Pages: c.Pages, MaxHost: c.Max, Clusters: c.Places, Static: true, Plain: true})
	if err != nil {
		return row, crawl, nil, err
	}
	g, number, err := Web(w, c.Seeds)
	if err != nil {
		return row, crawl, nil, err
	}
	rank, _ = order.PageRank(g, order.Options{})
	server, err := pond.NewServer(w, "", nil)
	if err != nil {
		return row, crawl, nil, err
	}
	spool, remove, err := tempSpool()
	if err != nil {
		server.Close()
		return row, crawl, nil, err
	}
	defer remove()
	serving, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	var served error
	running.Go(func() { served = server.Run(serving) })
	began := time.Now()
	res, err := Run(ctx, Config{World: w, Order: name, Robots: c.Robots, Visit: c.Visit, Gap: c.Gap, Seeds: c.Seeds, Spool: spool})
	seconds := time.Since(began).Seconds()
	stop()
	running.Wait()
	if err != nil {
		return row, crawl, nil, err
	}
	if served != nil {
		return row, crawl, nil, served
	}
	if len(res.Pages) == 0 {
		return row, crawl, nil, fmt.Errorf("ordertrial: %s brought no page: %v", name, res.Errors)
	}
	crawl = byTime(res, number)
	half := ordersim.Reach(crawl, rank, .5)
	if math.IsInf(half, 0) {
		half = 0
	}
	row = Row{Ordering: name, Graph: "pond", Pages: len(crawl.Pages), Reachable: len(rank), Half: half,
		Average: ordersim.Average(crawl.Pages, rank), End: crawl.At[len(crawl.At)-1], Tau: ordersim.Tau(crawl.Pages, rank, 5000, c.Seed), Visits: res.Visits,
		Violations: server.Stats().Violated, Errors: res.Errors, Seconds: seconds}
	if k := len(rank) / 2; k < len(crawl.At) {
		row.HalfDocs = crawl.At[k]
	}
	return row, crawl, rank, nil
}

// byTime puts pages in the order in which they came; visits end in another.
func byTime(res Result, number map[pond.Target]order.Page) (out ordersim.Crawl) {
	by := make([]int, len(res.At))
	for i := range by {
		by[i] = i
	}
	slices.SortStableFunc(by, func(a, b int) int { return cmp.Compare(res.At[a], res.At[b]) })
	for _, i := range by {
		out.Pages, out.At = append(out.Pages, number[res.Pages[i]]), append(out.At, res.At[i])
	}
	return out
}
