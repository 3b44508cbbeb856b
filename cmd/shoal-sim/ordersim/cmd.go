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
	"time"

	"shoal/channel/order"
	"shoal/cmd/shoal-sim/figure"
	"shoal/cmd/shoal-sim/tidy"
)

// Cmd is `shoal-sim ordering`.
type Cmd struct {
	Graph     []string `help:"Graph to crawl, besides the synthetic one or instead of it: lines of two page numbers or two URLs, or Kleinberg's form; gzip is fine. May be repeated." placeholder:"FILE" type:"existingfile"`
	Synthetic int      `help:"Pages of the synthetic Web; 0: 100,000 when no graph is given, else none." placeholder:"N"`
	Sites     int      `help:"Sites of the synthetic Web; 0: one for 60 pages." placeholder:"N"`
	Links     float64  `help:"Mean links of a synthetic page that has any, 1 to 1000; 0: 30." default:"30"`
	SitePages int      `help:"Mean pages of a site in graphs without URLs, whose sites are runs of numbers; 0: 100." default:"100"`
	Seeds     float64  `help:"Share of the sites whose home page is a seed; 0: 0.1." default:"0.1"`

	Ordering  []string `help:"Orderings to compare; default: all." placeholder:"NAME"`
	Batch     int      `help:"Pages between two PageRanks of the batch orderings; 0: a 35th of the pages, as often as in the paper (there 100,000)." placeholder:"K"`
	Depth     int      `help:"Largest depth of static pages; 0: none. The product's is 15." default:"0"`
	DynDepth  int      `help:"Largest depth of dynamic pages; 0: none. The product's is 5." default:"0"`
	SiteLimit int      `help:"Pages fetched of a site at most; 0: all. The product's is 25,000." default:"0"`

	Previous string  `help:"Graph of an earlier crawl, for the historical orderings; default: derived from the graph." placeholder:"FILE" type:"existingfile"`
	Absent   float64 `help:"Derived earlier crawl: share of the pages that were not there; 0: 0.45." default:"0.45"`
	Held     float64 `help:"Derived earlier crawl: share of the PageRank that those hold; 0: 0.28." default:"0.28"`
	Weekly   float64 `help:"Derived earlier crawl: share of the links created within a week; 0: 0.25." default:"0.25"`
	Weeks    float64 `help:"Derived earlier crawl: weeks since; 0: 17." default:"17"`

	Robots    int           `help:"Sites visited at a time. Above 1, time counts too." default:"1"`
	Wait      time.Duration `help:"Between two visits of a site, when time counts." default:"15s"`
	WaitSmall time.Duration `help:"The same for sites of fewer than 100 pages; 0: as --wait. The paper's validation has --wait 5s --wait-small 15s." default:"0s"`
	Bandwidth float64       `help:"The crawler's link in KiB/s, when time counts; 0: unlimited." default:"0"`

	Sample int    `help:"Pages over which Kendall's tau is taken." default:"5000"`
	Seed   uint64 `help:"Seed." default:"1"`
	Runs   int    `help:"Run so many seeds from --seed on; tables show mean and standard deviation, and in how many of the runs a claim holds." default:"1"`
	JSON   bool   `name:"json" xor:"form" help:"Print one array of rows and nothing else."`
	CSV    bool   `name:"csv" xor:"form" help:"Print CSV, a figure a line: mean and standard deviation over the seeds."`
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
	if c.Runs < 1 || c.Robots < 1 || c.Sample < 2 || c.Wait < 0 || c.WaitSmall < 0 || !(c.Bandwidth >= 0) || c.Depth < 0 || c.DynDepth < 0 || c.SiteLimit < 0 || c.Batch < 0 || c.Synthetic < 0 {
		return fmt.Errorf("%w: --runs and --robots must be at least 1, --sample at least 2, and no number negative", ErrInput)
	}
	if err := figure.CanWrite(c.Plot); err != nil {
		return err
	}
	var runs [][]Result // by graph and seed
	for i := range c.Runs {
		one := *c
		one.Seed += uint64(i)
		all, err := one.run(ctx, names, errw)
		if err != nil {
			return err
		}
		if runs == nil {
			runs = make([][]Result, len(all))
		}
		for k, res := range all {
			runs[k] = append(runs[k], res)
		}
	}
	if c.Plot != "" {
		for _, r := range runs {
			files, err := Plots(c.Plot, r[0])
			if err != nil {
				return err
			}
			fmt.Fprintf(errw, "figures: %s\n", strings.Join(files, " "))
		}
	}
	return c.print(out, runs)
}

// run compares the orderings on every graph, with one seed.
func (c *Cmd) run(ctx context.Context, names []string, errw io.Writer) (all []Result, err error) {
	webs, err := c.webs()
	if err != nil {
		return nil, err
	}
	var before *Web
	if c.Previous != "" {
		w, err := c.load(c.Previous)
		if err != nil {
			return nil, err
		}
		before = &w
	}
	for _, w := range webs {
		res, err := c.compare(ctx, w, before, names, errw)
		if err != nil {
			return nil, err
		}
		all = append(all, res)
	}
	return all, nil
}

// print prints the runs by graph and seed.
func (c *Cmd) print(out io.Writer, runs [][]Result) error {
	var rows []Row
	var claims []claimRow
	for _, r := range runs {
		for _, res := range r {
			rows = append(rows, res.Rows...)
			claims = append(claims, claimRows(res)...)
		}
	}
	switch {
	case c.CSV:
		all := make([]any, 0, len(rows)+len(claims))
		for _, r := range rows {
			all = append(all, r)
		}
		for _, r := range claims {
			all = append(all, r)
		}
		return tidy.Write(out, all)
	case c.JSON:
		b, err := json.MarshalIndent(rows, "", "  ")
		if err != nil {
			return fmt.Errorf("ordersim: rows: %w", err)
		}
		_, err = fmt.Fprintf(out, "%s\n", b)
		return err
	}
	for _, r := range runs {
		if c.Runs == 1 {
			report(out, r[0])
		} else {
			reportRuns(out, r)
		}
	}
	return nil
}

func (c *Cmd) orderings() ([]string, error) {
	if len(c.Ordering) == 0 {
		return order.Names(), nil
	}
	for i, n := range c.Ordering {
		if !slices.Contains(order.Names(), n) {
			return nil, fmt.Errorf("%w: unknown ordering %q; known: %s", ErrInput, n, strings.Join(order.Names(), " "))
		}
		if slices.Contains(c.Ordering[:i], n) {
			return nil, fmt.Errorf("%w: --ordering: %s is named twice", ErrInput, n)
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
	if w.Graph.Pages() < 2 || len(w.Graph.Arcs) == 0 {
		return Result{}, fmt.Errorf("%w: graph %s: of %d pages the %d seeds reach %d, with %d links, which is nothing to order: give more seeds (--seeds 1), or a graph with links", ErrInput, w.Name, all, len(w.Seeds), w.Graph.Pages(), len(w.Graph.Arcs))
	}
	res := Result{Web: w}
	began := time.Now()
	res.Rank, res.Sweeps = order.PageRank(w.Graph, order.Options{})
	res.RankS = time.Since(began).Seconds()
	if before != nil {
		res.Earlier = Match(w, res.Rank, *before)
		historical := slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, order.Historical) })
		if historical && !res.Earlier.knows(w) {
			return Result{}, fmt.Errorf("%w: --previous %s shares no page with %s, as far as its seeds reach: want an earlier crawl of the same pages, by URL or by number", ErrInput, before.Name, w.Name)
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
