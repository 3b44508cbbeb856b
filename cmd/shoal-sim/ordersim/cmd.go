package ordersim

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"shoal/channel/order"
)

// Cmd is `shoal-sim ordering`.
type Cmd struct {
	Graph     []string `help:"Graph to crawl, besides the synthetic one or instead of it: lines of two page numbers or two URLs, or Kleinberg's form; gzip is fine. May be repeated." placeholder:"FILE" type:"existingfile"`
	Synthetic int      `help:"Pages of the synthetic Web; default: 100,000 when no graph is given, else none." placeholder:"N"`
	Sites     int      `help:"Sites of the synthetic Web; default: one for 60 pages." placeholder:"N"`
	Links     float64  `help:"Mean links of a synthetic page that has any." default:"30"`
	SitePages int      `help:"Mean pages of a site in graphs without URLs, whose sites are runs of numbers." default:"100"`
	Seeds     float64  `help:"Share of the sites whose home page is a seed." default:"0.1"`

	Ordering  []string `help:"Orderings to compare; default: all." placeholder:"NAME"`
	Batch     int      `help:"Pages between two PageRanks of the batch orderings; default: a 35th of the pages, as often as in the paper (there 100,000)." placeholder:"K"`
	Depth     int      `help:"Largest depth of static pages; 0: none. The product's is 15." default:"0"`
	DynDepth  int      `help:"Largest depth of dynamic pages; 0: none. The product's is 5." default:"0"`
	SiteLimit int      `help:"Pages fetched of a site at most; 0: all. The product's is 25,000." default:"0"`

	Previous string  `help:"Graph of an earlier crawl, for the historical orderings; default: derived from the graph." placeholder:"FILE" type:"existingfile"`
	Absent   float64 `help:"Derived earlier crawl: share of the pages that were not there." default:"0.45"`
	Held     float64 `help:"Derived earlier crawl: share of the PageRank that those hold." default:"0.28"`
	Weekly   float64 `help:"Derived earlier crawl: share of the links created within a week." default:"0.25"`
	Weeks    float64 `help:"Derived earlier crawl: weeks since." default:"17"`

	Robots    int           `help:"Sites visited at a time. Above 1, time counts too." default:"1"`
	Wait      time.Duration `help:"Between two visits of a site, when time counts." default:"15s"`
	WaitSmall time.Duration `help:"The same for sites of fewer than 100 pages; 0: as --wait. The paper's validation has --wait 5s --wait-small 15s." default:"0s"`
	Bandwidth float64       `help:"The crawler's link in KiB/s, when time counts; 0: unlimited." default:"0"`

	Sample int    `help:"Pages over which Kendall's tau is taken." default:"5000"`
	Seed   uint64 `help:"Seed." default:"1"`
	JSON   bool   `name:"json" help:"Print one array of rows and nothing else."`
	Plot   string `help:"Folder for the figures, as SVG and PNG." placeholder:"DIR"`
}

// Row is one ordering on one graph.
type Row struct {
	Ordering    string   `json:"ordering"`
	Graph       string   `json:"graph"`
	Pages       int      `json:"pages"` // fetched
	Arcs        int      `json:"arcs"`  // of the graph
	Sites       int      `json:"sites"` // with pages
	Average     float64  `json:"avg_pagerank"`
	Tau         float64  `json:"tau"`
	Seconds     float64  `json:"seconds"` // that the ordering took to compute
	Robots      int      `json:"robots"`
	TimeAverage *float64 `json:"avg_pagerank_time,omitempty"` // over time, until the slowest ordering is done
	Half        *float64 `json:"half_s,omitempty"`            // crawl seconds to half of the PageRank
	End         *float64 `json:"end_s,omitempty"`             // crawl seconds to the last page

	curve []float64
	crawl Crawl
}

// curvePoints is how finely curves are kept.
const curvePoints = 200

// upperBound is the row that no crawl can beat: all pages by PageRank (figure 3).
const upperBound = "upper bound"

// Result is all orderings on one graph.
type Result struct {
	Web     Web
	Rank    []float64
	RankS   float64 // seconds that PageRank took
	Sweeps  int
	Earlier Earlier
	Rows    []Row
	Bound   Row
}

// Run compares the orderings.
func (c *Cmd) Run(ctx context.Context, out, errw io.Writer) error {
	names, err := c.orderings()
	if err != nil {
		return err
	}
	if c.Robots < 1 || c.Sample < 2 || c.Wait < 0 || c.WaitSmall < 0 || !(c.Bandwidth >= 0) || c.Depth < 0 || c.DynDepth < 0 || c.SiteLimit < 0 || c.Batch < 0 || c.Synthetic < 0 {
		return fmt.Errorf("%w: --robots must be at least 1, --sample at least 2, and no number negative", ErrInput)
	}
	webs, err := c.webs()
	if err != nil {
		return err
	}
	var before *Web
	if c.Previous != "" {
		w, err := c.load(c.Previous)
		if err != nil {
			return err
		}
		before = &w
	}
	var rows []Row
	for _, w := range webs {
		res, err := c.compare(ctx, w, before, names, errw)
		if err != nil {
			return err
		}
		rows = append(rows, res.Rows...)
		if !c.JSON {
			report(out, res)
		}
		if c.Plot != "" {
			files, err := Plots(c.Plot, res)
			if err != nil {
				return err
			}
			fmt.Fprintf(errw, "figures: %s\n", strings.Join(files, " "))
		}
	}
	if c.JSON {
		b, err := json.MarshalIndent(rows, "", "  ")
		if err != nil {
			return fmt.Errorf("ordersim: rows: %w", err)
		}
		_, err = fmt.Fprintf(out, "%s\n", b)
		return err
	}
	return nil
}

func (c *Cmd) orderings() ([]string, error) {
	if len(c.Ordering) == 0 {
		return order.Names(), nil
	}
	for _, n := range c.Ordering {
		if !slices.Contains(order.Names(), n) {
			return nil, fmt.Errorf("%w: unknown ordering %q; known: %s", ErrInput, n, strings.Join(order.Names(), " "))
		}
	}
	return c.Ordering, nil
}

func (c *Cmd) webs() ([]Web, error) {
	var webs []Web
	for _, file := range c.Graph {
		w, err := c.load(file)
		if err != nil {
			return nil, err
		}
		webs = append(webs, w)
	}
	if c.Synthetic > 0 || len(webs) == 0 {
		w, err := Synthetic(SynthConfig{Pages: c.Synthetic, Sites: c.Sites, Links: c.Links, Seeds: c.Seeds}, c.Seed)
		if err != nil {
			return nil, err
		}
		webs = append(webs, w)
	}
	return webs, nil
}

func (c *Cmd) load(file string) (Web, error) {
	f, err := os.Open(file)
	if err != nil {
		return Web{}, fmt.Errorf("ordersim: graph: %w", err)
	}
	defer f.Close()
	name, _, _ := strings.Cut(filepath.Base(file), ".")
	return Load(name, f, LoadConfig{SitePages: c.SitePages, Seeds: c.Seeds, Seed: c.Seed})
}

// compare runs every ordering on one Web.
func (c *Cmd) compare(ctx context.Context, w Web, before *Web, names []string, errw io.Writer) (Result, error) {
	all := w.Graph.Pages()
	w = w.Crawlable()
	if w.Graph.Pages() < 2 {
		return Result{}, fmt.Errorf("%w: graph %s: of %d pages the %d seeds reach %d, which is nothing to order: give more seeds (--seeds 1), or a graph with links", ErrInput, w.Name, all, len(w.Seeds), w.Graph.Pages())
	}
	res := Result{Web: w}
	began := time.Now()
	res.Rank, res.Sweeps = order.PageRank(w.Graph, order.Options{})
	res.RankS = time.Since(began).Seconds()
	if before != nil {
		res.Earlier = Match(w, res.Rank, *before)
		if len(res.Earlier.Ranks) == 0 {
			return Result{}, fmt.Errorf("%w: --previous %s shares no page with %s: want an earlier crawl of the same pages, by URL or by number", ErrInput, before.Name, w.Name)
		}
	} else {
		e, err := Derive(w, res.Rank, DeriveConfig{Absent: c.Absent, Held: c.Held, Weekly: c.Weekly, Weeks: c.Weeks}, c.Seed)
		if err != nil {
			return Result{}, err
		}
		res.Earlier = e
	}
	sites := countSites(w)
	fmt.Fprintf(errw, "%s: %d of %d pages can be reached from %d seeds, %d links, %d sites; PageRank in %.2f s, %d sweeps\n",
		w.Name, w.Graph.Pages(), all, len(w.Seeds), len(w.Graph.Arcs), sites, res.RankS, res.Sweeps)
	fmt.Fprintf(errw, "%s: the earlier crawl lacks %.0f%% of the pages, which hold %.0f%% of the PageRank\n", w.Name, 100*res.Earlier.Absent, 100*res.Earlier.Held)
	end := 0.
	for _, name := range names {
		cfg := CrawlConfig{Order: name, Batch: c.Batch, Seed: c.Seed, Earlier: &res.Earlier,
			Limits: order.Limits{DynamicDepth: c.DynDepth, StaticDepth: c.Depth, SitePages: c.SiteLimit}}
		if c.Robots > 1 {
			cfg.Robots, cfg.Wait, cfg.WaitSmall, cfg.Bandwidth = c.Robots, c.Wait, c.WaitSmall, c.Bandwidth
		}
		began := time.Now()
		crawl, err := Run(ctx, w, res.Rank, cfg)
		if err != nil {
			return Result{}, fmt.Errorf("ordersim: %s on %s: %w", name, w.Name, err)
		}
		row := c.row(name, w, res.Rank, crawl)
		row.Seconds = time.Since(began).Seconds()
		row.Sites = sites
		if len(crawl.At) > 0 {
			end = max(end, crawl.At[len(crawl.At)-1])
		}
		res.Rows = append(res.Rows, row)
		fmt.Fprintf(errw, "%s: %s done in %.2f s\n", w.Name, name, row.Seconds)
	}
	for i := range res.Rows {
		if r := &res.Rows[i]; r.crawl.At != nil && end > 0 {
			avg, last := AverageOver(r.crawl, res.Rank, end), r.crawl.At[len(r.crawl.At)-1]
			r.TimeAverage, r.End = &avg, &last
			if half := Reach(r.crawl, res.Rank, .5); !math.IsInf(half, 0) {
				r.Half = &half
			}
		}
	}
	best := make([]order.Page, w.Graph.Pages())
	for i := range best {
		best[i] = order.Page(i)
	}
	slices.SortStableFunc(best, func(a, b order.Page) int {
		switch {
		case res.Rank[a] > res.Rank[b]:
			return -1
		case res.Rank[a] < res.Rank[b]:
			return 1
		}
		return 0
	})
	res.Bound = c.row(upperBound, w, res.Rank, Crawl{Pages: best})
	return res, nil
}

func (c *Cmd) row(name string, w Web, rank []float64, crawl Crawl) Row {
	return Row{Ordering: name, Graph: w.Name, Pages: len(crawl.Pages), Arcs: len(w.Graph.Arcs), Robots: c.Robots, crawl: crawl,
		Average: Average(crawl.Pages, rank), Tau: Tau(crawl.Pages, rank, c.Sample, c.Seed), curve: Curve(crawl.Pages, rank, curvePoints)}
}

func countSites(w Web) int {
	has := make([]bool, w.Sites)
	n := 0
	for _, s := range w.Site {
		if !has[s] {
			has[s] = true
			n++
		}
	}
	return n
}

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
