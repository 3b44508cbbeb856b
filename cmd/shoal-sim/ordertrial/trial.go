// Package ordertrial crawls a pond with the product's own crawls, real requests over real sockets, under two orders of sites, and shows
// how PageRank and documents come in against time: figure 6 of Baeza-Yates, Castillo, Marín, Rodríguez, "Crawling a Country" (WWW 2005).
// It is `shoal-sim ordering-pond`.
//
// A site is visited for a few pages at a time, each visit a task with a page budget that resumes where the one before ended, as the
// manager's tasks do. It is not for comparing orderings of pages, which package ordersim does without a network.
package ordertrial

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"sync"
	"time"

	"shoal/channel"
	"shoal/channel/order"
	"shoal/internal/lab/pond"
	"shoal/peer/crawl"
)

// ErrConfig says what a trial cannot be run with.
var ErrConfig = errors.New("ordertrial: bad config")

// Config of a trial.
type Config struct {
	World  *pond.World // that is being served
	Order  string      // of sites: order.BreadthFirst or order.LargerSitesFirst
	Robots int         // sites visited at a time
	Visit  int         // pages of a visit at most
	Gap    time.Duration
	Seeds  int // hosts known at first, the first ones of the World
	Spool  string
}

// Result of a trial.
type Result struct {
	Pages  []pond.Target // in the order of visits' ends
	At     []float64     // seconds at which each was there
	Visits int
	Errors map[string]int
}

// site is what is known of a host.
type site struct {
	host     int
	busy     bool
	pending  []pendingURL // in the order of finding
	done     []uint64
	fetched  map[string]bool
	known    map[string]bool
	failures int
}

type pendingURL struct {
	url   string
	depth int
	seq   int
}

// maxFailures is how many visits of a site may bring nothing.
const maxFailures = 3

// trial is owned by the goroutine of Run.
type trial struct {
	cfg   Config
	sites []*site
	seq   int
	began time.Time
	out   Result
}

// visit is what one task brought.
type visit struct {
	s        *site
	report   channel.Report
	frontier []channel.Frontier
	pages    []string // fetched, by URL
	at       []time.Time
	err      error
}

// Run crawls until nothing is left, or ctx is done.
func Run(ctx context.Context, cfg Config) (Result, error) {
	if cfg.Order != order.BreadthFirst && cfg.Order != order.LargerSitesFirst {
		return Result{}, fmt.Errorf("%w: sites in order %q; known: %s %s", ErrConfig, cfg.Order, order.BreadthFirst, order.LargerSitesFirst)
	}
	if cfg.Robots < 1 || cfg.Visit < 1 || cfg.Gap < 0 || cfg.Seeds < 1 || cfg.World == nil {
		return Result{}, fmt.Errorf("%w: robots %d, pages a visit %d, gap %v, seeds %d: want --robots, --visit and --seeds of at least 1, and no --gap below 0", ErrConfig, cfg.Robots, cfg.Visit, cfg.Gap, cfg.Seeds)
	}
	t := &trial{cfg: cfg, began: time.Now(), out: Result{Errors: map[string]int{}}}
	for i := range cfg.World.Hosts() {
		t.sites = append(t.sites, &site{host: i, fetched: map[string]bool{}, known: map[string]bool{}})
	}
	for i := range min(cfg.Seeds, len(t.sites)) {
		t.find(cfg.World.URL(i, 0), 0)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var running sync.WaitGroup
	defer running.Wait()
	ended := make(chan visit)
	for busy := 0; ; {
		for busy < cfg.Robots && ctx.Err() == nil {
			s := t.choose()
			if s == nil {
				break
			}
			s.busy = true
			busy++
			port := 20_000 + busy // where in the world this robot stands
			task := t.task(s)
			running.Go(func() { ended <- t.crawl(ctx, s, task, port) })
		}
		if busy == 0 {
			return t.out, ctx.Err()
		}
		v := <-ended
		busy--
		t.note(v)
	}
}

// choose takes the next site to visit: of those with pages pending, the one with most, or the one whose first page was found first.
func (t *trial) choose() (best *site) {
	for _, s := range t.sites {
		if s.busy || len(s.pending) == 0 || s.failures >= maxFailures {
			continue
		}
		switch {
		case best == nil:
			best = s
		case t.cfg.Order == order.LargerSitesFirst && len(s.pending) != len(best.pending):
			if len(s.pending) > len(best.pending) {
				best = s
			}
		case s.pending[0].seq < best.pending[0].seq:
			best = s
		}
	}
	return best
}

// find takes in a URL of the pond that was not known.
func (t *trial) find(u string, depth int) {
	p, err := url.Parse(u)
	if err != nil {
		return
	}
	i, ok := t.cfg.World.Host(p.Host)
	if !ok {
		return
	}
	s := t.sites[i]
	if !s.known[u] {
		s.known[u] = true
		s.pending = append(s.pending, pendingURL{u, depth, t.seq})
		t.seq++
	}
}

// task is one visit: the site's pages so far are its resume state.
func (t *trial) task(s *site) crawl.Config {
	host := "http://" + t.cfg.World.Hosts()[s.host].Name
	cfg := crawl.Config{
		Header:    channel.Header{Channel: channel.ID(s.host + 1), Gen: 1, Host: host, Pages: len(s.done) + len(s.pending), Budget: len(s.done) + t.cfg.Visit},
		Body:      channel.Body{Scope: channel.Scope{Kind: channel.WholeHost, Host: host}},
		Resume:    channel.Resume{Seq: 1, Done: slices.Clone(s.done)},
		Spool:     t.cfg.Spool,
		UserAgent: "Shoal-trial/1 (+http://pond.test/)",
		MinGap:    t.cfg.Gap,
	}
	for _, p := range s.pending {
		cfg.Resume.Frontier = append(cfg.Resume.Frontier, channel.Frontier{URL: p.url, Depth: p.depth})
	}
	return cfg
}

// crawl runs a task.
func (t *trial) crawl(ctx context.Context, s *site, cfg crawl.Config, port int) visit {
	v := visit{s: s}
	var mu sync.Mutex
	cfg.Dial = t.cfg.World.HTTPDialer(port)
	cfg.Sink = sink(func(b channel.ChunkBody) {
		mu.Lock()
		defer mu.Unlock()
		v.frontier = append(v.frontier, b.Frontier...)
	})
	cfg.OnVisit = func(r crawl.Visit) {
		mu.Lock()
		defer mu.Unlock()
		v.pages = append(v.pages, r.URL)
		v.at = append(v.at, r.At.Add(r.Took))
	}
	v.report, v.err = crawl.Run(ctx, cfg)
	return v
}

type sink func(channel.ChunkBody)

// Put keeps what the next visit needs; the pages are not wanted here.
func (s sink) Put(ctx context.Context, body []byte, _ bool) error {
	b, err := channel.ParseChunkBody(body)
	if err != nil {
		return err
	}
	s(b)
	return ctx.Err()
}

// note takes in what a visit brought.
func (t *trial) note(v visit) {
	s := v.s
	s.busy = false
	t.out.Visits++
	for kind, n := range v.report.Errors {
		t.out.Errors[kind] += n
	}
	if v.err != nil {
		t.out.Errors["visit-failed"]++
	}
	fresh := 0
	for i, u := range v.pages {
		if s.fetched[u] {
			continue
		}
		s.fetched[u] = true
		s.known[u] = true
		s.done = append(s.done, channel.URLHash(u))
		fresh++
		t.fetched(s.host, u, v.at[i])
	}
	if fresh == 0 {
		s.failures++
	} else {
		s.failures = 0
	}
	for _, f := range v.frontier {
		t.find(f.URL, f.Depth)
	}
	for _, u := range v.report.Inter {
		t.find(u, 0)
	}
	s.pending = slices.DeleteFunc(s.pending, func(p pendingURL) bool { return s.fetched[p.url] })
}

func (t *trial) fetched(host int, u string, at time.Time) {
	p, err := url.Parse(u)
	if err != nil {
		return
	}
	if page, ok := t.cfg.World.Lookup(host, p.RequestURI()); ok {
		t.out.Pages = append(t.out.Pages, pond.Target{Host: host, Page: page})
		t.out.At = append(t.out.At, at.Sub(t.began).Seconds())
	}
}

// Web is what a crawl from the home pages of the first hosts can reach: its graph, and the numbers of the pages in it.
func Web(w *pond.World, seeds int) (g order.Graph, number map[pond.Target]order.Page, err error) {
	number = map[pond.Target]order.Page{}
	var queue []pond.Target
	find := func(t pond.Target) uint32 {
		p, ok := number[t]
		if !ok {
			p = order.Page(len(queue))
			number[t] = p
			queue = append(queue, t)
		}
		return uint32(p)
	}
	for i := range min(seeds, len(w.Hosts())) {
		find(pond.Target{Host: i})
	}
	var from, to []uint32
	for i := 0; i < len(queue); i++ {
		for _, l := range w.Links(queue[i].Host, queue[i].Page) {
			from, to = append(from, uint32(i)), append(to, find(l))
		}
	}
	g, err = order.NewGraph(len(queue), from, to)
	return g, number, err
}

// tempSpool makes a folder for the crawls' spill files.
func tempSpool() (dir string, remove func(), err error) {
	dir, err = os.MkdirTemp("", "shoal-trial-")
	if err != nil {
		return "", nil, fmt.Errorf("ordertrial: spool: %w", err)
	}
	return dir, func() { os.RemoveAll(dir) }, nil
}
