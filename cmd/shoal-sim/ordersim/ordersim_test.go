package ordersim

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"shoal/channel/order"
)

func synthetic(t testing.TB, pages int) (Web, []float64) {
	t.Helper()
	w, err := Synthetic(SynthConfig{Pages: pages}, 1)
	if err != nil {
		t.Fatal(err)
	}
	w = w.Crawlable()
	rank, _ := order.PageRank(w.Graph, order.Options{})
	return w, rank
}

// The synthetic Web: sites as wanted with heavy tails, every page reached from the home pages, no loops, no doubles, seeded.
func TestSynthetic(t *testing.T) {
	w, err := Synthetic(SynthConfig{Pages: 20_000}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if n := w.Graph.Pages(); n != 20_000 || w.Sites != 333 || len(w.Seeds) != 33 {
		t.Fatalf("%d pages, %d sites, %d seeds", n, w.Sites, len(w.Seeds))
	}
	size := make([]int, w.Sites)
	in := make([]int, 20_000)
	for p := range 20_000 {
		size[w.Site[p]]++
		links := w.Graph.Links(order.Page(p))
		for i, q := range links {
			in[q]++
			if int(q) == p || i > 0 && q <= links[i-1] {
				t.Fatalf("links of page %d: %v", p, links)
			}
		}
	}
	if mean := float64(len(w.Graph.Arcs)) / 20_000; mean < 20 || mean > 35 {
		t.Errorf("%.1f links a page", mean)
	}
	slices.Sort(size)
	slices.Sort(in)
	if size[0] < 1 || size[w.Sites/2] > 40 || size[w.Sites-1] < 1000 || in[19_999] < 50*in[10_000] {
		t.Errorf("sites from %d by %d to %d pages, links in to %d", size[0], size[w.Sites/2], size[w.Sites-1], in[19_999])
	}
	all := w
	all.Seeds = nil
	for p := range 20_000 {
		if p == 0 || w.Site[p] != w.Site[p-1] {
			all.Seeds = append(all.Seeds, order.Page(p))
		}
	}
	if n := all.Crawlable().Graph.Pages(); n != 20_000 {
		t.Errorf("%d pages are reached from all home pages", n)
	}
	again, _ := Synthetic(SynthConfig{Pages: 20_000}, 1)
	other, _ := Synthetic(SynthConfig{Pages: 20_000}, 2)
	if !reflect.DeepEqual(w, again) || reflect.DeepEqual(w.Graph, other.Graph) {
		t.Error("the seed does not decide")
	}
	for _, c := range []SynthConfig{{Pages: -1}, {Pages: 10, Sites: 20}, {Links: -1}, {Links: math.NaN()}, {Seeds: 2}} {
		if _, err := Synthetic(c, 1); !errors.Is(err, ErrInput) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestLoad(t *testing.T) {
	var zipped bytes.Buffer
	zw := gzip.NewWriter(&zipped)
	zw.Write([]byte("0 1\n1 0\n"))
	zw.Close()
	for _, tt := range []struct {
		name, text  string
		pages, arcs int
		sites       int
	}{
		{"numbers", "# a graph\n0\t1\n1 2\n\n0 1\n2 2\n4 0\n", 5, 3, 1},
		{"urls", "http://a.test/ http://a.test/x?y\nhttp://a.test/ http://B.test/\nhttp://b.test http://a.test/\n", 4, 3, 2},
		{"kleinberg", "n 0 http://a.test/\nn 1 http://b.test/z.php\ne 0 1\n", 2, 1, 2},
		{"gzip", zipped.String(), 2, 2, 1},
	} {
		w, err := Load(tt.name, strings.NewReader(tt.text), LoadConfig{})
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if w.Graph.Pages() != tt.pages || len(w.Graph.Arcs) != tt.arcs || w.Sites != tt.sites || len(w.Site) != tt.pages || len(w.Seeds) < 1 {
			t.Errorf("%s: %d pages, %d links, %d sites, %d seeds", tt.name, w.Graph.Pages(), len(w.Graph.Arcs), w.Sites, len(w.Seeds))
		}
		if w.URLs != nil && !slices.Contains(w.Dynamic, true) {
			t.Errorf("%s: no dynamic page", tt.name)
		}
	}
	for text, part := range map[string]string{"": "no pages", "0": "line 1", "0 1\n2 x\n": "line 2", "0 1 2\n": "fields", "0 99999999999\n": "99999999999",
		"0 -1": "-1", "\x1f\x8bnot gzip": "gzip", strings.Repeat("1", MaxLine+1): "too long"} {
		if _, err := Load("bad", strings.NewReader(text), LoadConfig{}); !errors.Is(err, ErrInput) || !strings.Contains(err.Error(), part) {
			t.Errorf("%.20q: %v, want something about %q", text, err, part)
		}
	}
}

func FuzzLoad(f *testing.F) {
	f.Add([]byte("0 1\n1 2\n"))
	f.Add([]byte("n 0 http://a/\nn 1 http://b/?x\ne 0 1"))
	f.Add([]byte("http://a/ http://b/"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, field := range bytes.Fields(b) {
			if len(field) > 5 && !bytes.Contains(field, []byte("://")) {
				return // huge numbers make huge graphs, lawfully
			}
		}
		w, err := Load("fuzz", bytes.NewReader(b), LoadConfig{})
		if err != nil {
			return
		}
		c := w.Crawlable()
		if _, err := Run(context.Background(), c, nil, CrawlConfig{Order: order.LargerSitesFirst}); err != nil {
			t.Fatal(err)
		}
	})
}

// Every ordering fetches every page once, whatever the time; the averages are what the curves show.
func TestEveryOrderingCrawlsItAll(t *testing.T) {
	w, rank := synthetic(t, 3000)
	e, err := Derive(w, rank, DeriveConfig{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range order.Names() {
		for _, c := range []CrawlConfig{{Order: name, Earlier: &e}, {Order: name, Earlier: &e, Robots: 10, Wait: 5 * time.Second, WaitSmall: 15 * time.Second, Bandwidth: 500}} {
			got, err := Run(context.Background(), w, rank, c)
			if err != nil {
				t.Fatal(err)
			}
			pages := slices.Clone(got.Pages)
			slices.Sort(pages)
			if len(slices.Compact(pages)) != w.Graph.Pages() {
				t.Errorf("%s: %d of %d pages", name, len(pages), w.Graph.Pages())
			}
			curve := Curve(got.Pages, rank, 1000)
			mean := 0.
			for _, y := range curve[1:] {
				mean += y / 1000
			}
			if avg := Average(got.Pages, rank); math.Abs(avg-mean) > 2e-3 || math.Abs(curve[1000]-1) > 1e-9 {
				t.Errorf("%s: average %.4f, mean of the curve %.4f, its end %.4f", name, avg, mean, curve[1000])
			}
			again, _ := Run(context.Background(), w, rank, c)
			if !reflect.DeepEqual(got, again) {
				t.Errorf("%s: not the same twice", name)
			}
			if c.Timed() {
				checkPolite(t, w, got, c)
			}
		}
	}
}

// checkPolite sees that no site was visited again before its rest was over. The end of a fetch is what is known, and a fetch takes time.
func checkPolite(t *testing.T, w Web, c Crawl, cfg CrawlConfig) {
	t.Helper()
	size := make([]int, w.Sites)
	for _, s := range w.Site {
		size[s]++
	}
	last := map[order.Site]float64{}
	for i, p := range c.Pages {
		if i > 0 && c.At[i] < c.At[i-1] {
			t.Fatalf("time runs back from %v to %v", c.At[i-1], c.At[i])
		}
		s := w.Site[p]
		rest := cfg.Wait.Seconds()
		if size[s] < smallSite {
			rest = cfg.WaitSmall.Seconds()
		}
		if before, ok := last[s]; ok && c.At[i] < before+rest {
			t.Fatalf("site %d ended fetches at %v and %v", s, before, c.At[i])
		}
		last[s] = c.At[i]
	}
}

func TestRunStopsWhenTold(t *testing.T) {
	w, rank := synthetic(t, 6000)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, c := range []CrawlConfig{{}, {Robots: 5, Wait: time.Second}} {
		if got, err := Run(ctx, w, rank, c); !errors.Is(err, context.Canceled) || len(got.Pages) > 5000 {
			t.Errorf("%d pages, %v", len(got.Pages), err)
		}
	}
}

// slowTau compares every pair.
func slowTau(v []float64) float64 {
	var agree, differ, tied, pairs float64
	for i := range v {
		for j := range i {
			pairs++
			switch {
			case v[j] < v[i]:
				agree++
			case v[j] > v[i]:
				differ++
			default:
				tied++
			}
		}
	}
	if tied == pairs {
		return 0
	}
	return (agree - differ) / math.Sqrt(pairs*(pairs-tied))
}

func TestKendall(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		v := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) float64 { return float64(rapid.IntRange(-9, 9).Draw(rt, "x")) }), 0, 60).Draw(rt, "v")
		if got, want := kendall(v), slowTau(v); math.Abs(got-want) > 1e-12 {
			rt.Fatalf("tau %v, pair by pair %v", got, want)
		}
	})
	pages := []order.Page{2, 0, 1}
	if tau := Tau(pages, []float64{.3, .2, .5}, 5000, 1); tau != 1 {
		t.Errorf("the right order has tau %v", tau)
	}
	slices.Reverse(pages)
	if tau := Tau(pages, []float64{.3, .2, .5}, 5000, 1); tau != -1 {
		t.Errorf("the reverse has tau %v", tau)
	}
}

// A derived earlier crawl is as the paper's was, and an identical one matches wholly.
func TestEarlier(t *testing.T) {
	w, rank := synthetic(t, 20_000)
	for _, want := range []DeriveConfig{{}, {Absent: .3, Held: .3}, {Absent: .5, Held: .25}} {
		e, err := Derive(w, rank, want, 1)
		if err != nil {
			t.Fatal(err)
		}
		fill(&want.Absent, .45)
		fill(&want.Held, .28)
		if math.Abs(e.Absent-want.Absent) > .01 || math.Abs(e.Held-want.Held) > .03 {
			t.Errorf("%.3f of the pages with %.3f of the PageRank are absent, want %+v", e.Absent, e.Held, want)
		}
		sum := 0.
		for _, r := range e.Rank {
			if !math.IsNaN(r) {
				sum += r
			}
		}
		if math.Abs(sum-1) > 1e-9 || len(e.Ranks) != int(math.Round((1-e.Absent)*20_000)) {
			t.Errorf("%d old ranks add up to %v", len(e.Ranks), sum)
		}
	}
	for _, c := range []DeriveConfig{{Absent: 1.5}, {Held: .9}, {Weekly: -1}, {Weeks: math.NaN()}} {
		if _, err := Derive(w, rank, c, 1); !errors.Is(err, ErrInput) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if e := Match(w, rank, w); e.Absent != 0 || !reflect.DeepEqual(e.Rank, rank) {
		t.Errorf("the same crawl lacks %v of itself", e.Absent)
	}
	now, _ := Load("now", strings.NewReader("http://a/ http://b/\nhttp://b/ http://c/\n"), LoadConfig{Seeds: 1})
	then, _ := Load("then", strings.NewReader("http://c/ http://a/\n"), LoadConfig{})
	r, _ := order.PageRank(now.Graph, order.Options{})
	if e := Match(now, r, then); math.IsNaN(e.Rank[0]) || !math.IsNaN(e.Rank[1]) || math.IsNaN(e.Rank[2]) || !(e.Rank[0] > e.Rank[2]) {
		t.Errorf("matched by URL: %v", e.Rank)
	}
}

// Links stay as many, on the site or off it as they were.
func TestRewire(t *testing.T) {
	w, _ := synthetic(t, 3000)
	same := rewire(w, rand.New(rand.NewPCG(1, 1)), 0)
	if !reflect.DeepEqual(same.Graph, w.Graph) {
		t.Error("rewiring nothing changes the graph")
	}
	inside := func(w Web) (n int) {
		for p := range w.Graph.Pages() {
			for _, q := range w.Graph.Links(order.Page(p)) {
				if w.Site[q] == w.Site[p] {
					n++
				}
			}
		}
		return n
	}
	other := rewire(w, rand.New(rand.NewPCG(1, 1)), .9)
	if a, b := float64(inside(w)), float64(inside(other)); b < .6*a || b > a {
		t.Errorf("%v links within sites, %v afterwards", a, b)
	}
}

func run(t *testing.T, c Cmd) (string, error) {
	t.Helper()
	var out, errw bytes.Buffer
	err := c.Run(context.Background(), &out, &errw)
	return out.String(), err
}

// flags is what the command line gives when nothing is said.
func flags() Cmd {
	return Cmd{Links: 30, SitePages: 100, Seeds: .1, Absent: .45, Held: .28, Weekly: .25, Weeks: 17, Robots: 1, Wait: 15 * time.Second, Sample: 5000, Seed: 1, Runs: 1}
}

func TestCmd(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "tiny.edges.tsv")
	var edges strings.Builder
	rng := rand.New(rand.NewPCG(1, 1))
	for range 3000 {
		edges.WriteString(strings.Join([]string{num(rng), num(rng)}, "\t") + "\n")
	}
	if err := os.WriteFile(file, []byte(edges.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	c := flags()
	c.Graph, c.Synthetic, c.JSON, c.Plot, c.Robots, c.Previous = []string{file}, 2000, true, filepath.Join(dir, "plots"), 5, file
	out, err := run(t, c)
	if err != nil {
		t.Fatal(err)
	}
	var rows []map[string]any
	if err := json.Unmarshal([]byte(out), &rows); err != nil {
		t.Fatal(err)
	}
	if len(rows) != 2*len(order.Names()) {
		t.Errorf("%d rows", len(rows))
	}
	for _, r := range rows {
		for _, key := range []string{"ordering", "graph", "pages", "avg_pagerank", "tau", "seconds", "avg_pagerank_time", "half_s", "end_s"} {
			if _, ok := r[key]; !ok {
				t.Errorf("%v lacks %s", r["ordering"], key)
			}
		}
	}
	for _, name := range []string{"tiny", "synthetic"} {
		for _, n := range []string{"3", "4", "5", "6"} {
			if b, err := os.ReadFile(filepath.Join(dir, "plots", "ordering-"+name+"-figure-"+n+".svg")); err != nil || !bytes.Contains(b, []byte("<svg")) {
				t.Errorf("figure %s of %s: %v", n, name, err)
			}
		}
	}
	c = flags()
	c.Synthetic = 2000
	if out, err := run(t, c); err != nil || !strings.Contains(out, "upper bound") || !strings.Contains(out, "opic beats breadth-first: ") {
		t.Errorf("%v\n%s", err, out)
	}
	c.Runs = 3
	if out, err := run(t, c); err != nil || !strings.Contains(out, " ± ") || !strings.Contains(out, "opic beats breadth-first: holds in ") || !strings.Contains(out, " of 3\n") {
		t.Errorf("%v\n%s", err, out)
	}
	c.CSV = true
	if out, err := run(t, c); err != nil || !strings.HasPrefix(out, "what,figure,value,sd,n\nbreadth-first synthetic,pages,2000,0,3\n") ||
		!strings.Contains(out, "synthetic opic beats breadth-first,holds,") {
		t.Errorf("%v\n%s", err, out)
	}
	bad := func(change func(*Cmd), part string) {
		c := flags()
		c.Synthetic = 1000
		change(&c)
		if _, err := run(t, c); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v, want something about %q", err, part)
		}
	}
	bad(func(c *Cmd) { c.Ordering = []string{"alphabetical"} }, "known: breadth-first")
	bad(func(c *Cmd) { c.Robots = 0 }, "--robots")
	bad(func(c *Cmd) { c.Runs = 0 }, "--runs")
	bad(func(c *Cmd) { c.Graph = []string{filepath.Join(dir, "nowhere")} }, "nowhere")
	bad(func(c *Cmd) { c.Held = .9 }, "earlier crawl")
	bad(func(c *Cmd) { c.Synthetic = -5 }, "negative")
}

// Graphs of which nothing can be ordered, and earlier crawls that say nothing of the graph, are errors that name the cause.
func TestUselessGraphs(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	ring := "0 1\n1 2\n2 3\n3 0\n"
	for name, c := range map[string]struct{ graph, previous, want string }{
		"one page is reached":      {graph: "0 0\n1 2\n2 1\n", want: "reach 1"},
		"shares no number":         {graph: "n 7 http://a/x\n" + "0 1\n1 0\n", previous: "n 0 http://b/\nn 1 http://c/\ne 0 1\n", want: "shares no page"},
		"shares no number named":   {graph: ring, previous: "100 101\n101 100\n", want: "shares no page"},
		"shares no URL":            {graph: "http://a/ http://a/1\nhttp://a/1 http://a/\n", previous: "http://b/ http://c/\n", want: "shares no page"},
		"numbers against URLs":     {graph: ring, previous: "http://b/ http://c/\nhttp://c/ http://b/\n", want: "shares no page"},
		"one URL at two pages":     {graph: "n 0 http://a/\nn 1 http://a/\ne 0 1\ne 1 0\n", want: "pages 0 and 1 have the same URL http://a/"},
		"empty":                    {graph: "", want: "no pages"},
		"previous has one URL bis": {graph: ring, previous: "n 0 http://a/\nn 1 http://a/\ne 0 1\n", want: "same URL"},
	} {
		c2 := flags()
		c2.Graph, c2.Seeds = []string{file("graph", c.graph)}, .1
		if name != "one page is reached" {
			c2.Seeds = 1
		}
		if c.previous != "" {
			c2.Previous = file("previous", c.previous)
		}
		if out, err := run(t, c2); !errors.Is(err, ErrInput) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want something about %q\n%s", name, err, c.want, out)
		}
	}
	// A URL at two pages that no link touches is harmless; Kleinberg's california has one.
	if _, err := Load("harmless", strings.NewReader("n 0 http://a/\nn 1 http://b/\nn 2 http://c/\nn 3 http://c/\ne 0 1\n"), LoadConfig{}); err != nil {
		t.Error(err)
	}
}

// An earlier crawl is matched by the numbers in the files, also where pages that no seed reaches are left out.
func TestPreviousByNumber(t *testing.T) {
	w, err := Load("now", strings.NewReader("0 0\n5 6\n6 5\n6 7\n7 5\n"), LoadConfig{})
	if err != nil {
		t.Fatal(err)
	}
	w.Seeds = []order.Page{5}
	w = w.Crawlable()
	if w.Graph.Pages() != 3 {
		t.Fatalf("%d pages", w.Graph.Pages())
	}
	before, err := Load("then", strings.NewReader("5 6\n6 5\n"), LoadConfig{})
	if err != nil {
		t.Fatal(err)
	}
	rank, _ := order.PageRank(w.Graph, order.Options{})
	then, _ := order.PageRank(before.Graph, order.Options{})
	if e := Match(w, rank, before); e.Rank[0] != then[5] || e.Rank[1] != then[6] || !math.IsNaN(e.Rank[2]) {
		t.Errorf("%v, want the ranks of pages 5 and 6 of %v", e.Rank, then)
	}
}

func num(rng *rand.Rand) string {
	return string('0'+rune(rng.IntN(10))) + string('0'+rune(rng.IntN(10)))
}

// With the public graph cnr-2000: PageRank to 1e-10, checked by the residual of eq. (1) with dangling pages spread over all.
func TestRealGraph(t *testing.T) {
	dir := os.Getenv("SHOAL_DATA")
	if dir == "" {
		t.Skip("SHOAL_DATA does not name a folder with graphs/cnr-2000.edges.tsv.gz")
	}
	f, err := os.Open(filepath.Join(dir, "graphs", "cnr-2000.edges.tsv.gz"))
	if err != nil {
		if os.Getenv("SHOAL_TEST_STRICT") == "1" {
			t.Fatalf("SHOAL_DATA is set, and its folder lacks the graph: %v", err)
		}
		t.Skipf("the folder that SHOAL_DATA names lacks the graph: %v", err)
	}
	defer f.Close()
	w, err := Load("cnr-2000", f, LoadConfig{})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	rank, sweeps := order.PageRank(w.Graph, order.Options{})
	t.Logf("%d pages, %d links: %v, %d sweeps", w.Graph.Pages(), len(w.Graph.Arcs), time.Since(began), sweeps)
	n := float64(len(rank))
	next := make([]float64, len(rank))
	lost := 0.
	for p, r := range rank {
		links := w.Graph.Links(order.Page(p))
		if len(links) == 0 {
			lost += r
		}
		for _, q := range links {
			next[q] += .85 * r / float64(len(links))
		}
	}
	off := 0.
	for p := range next {
		off += math.Abs(next[p] + .15/n + .85*lost/n - rank[p])
	}
	if off > 1e-10*.15 {
		t.Errorf("residual %g", off)
	}
}
