package crawl

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"shoal/channel"
	"shoal/channel/order"
	"shoal/internal/lab/pond"
)

// A crawl fetches in exactly the order in which a frontier that knows the host's graph would, whatever the ordering: what the simulator
// shows of an ordering is what a crawl does.
func TestOrderings(t *testing.T) {
	noLeaks(t)
	w, _, g := serve(t, pond.Config{Seed: 5, Hosts: 2, Pages: 600, MaxHost: 500, Static: true, Plain: true})
	host := 0
	for i, h := range w.Hosts() {
		if h.Pages > w.Hosts()[host].Pages {
			host = i
		}
	}
	pages := w.Hosts()[host].Pages
	links := make([][]order.Page, pages)
	var from, to []uint32
	for p := range pages {
		for _, l := range w.Links(host, p) {
			if l.Host == host {
				links[p] = append(links[p], order.Page(l.Page))
				from, to = append(from, uint32(p)), append(to, uint32(l.Page))
			}
		}
	}
	graph, err := order.NewGraph(pages, from, to)
	if err != nil {
		t.Fatal(err)
	}
	rank, _ := order.PageRank(graph, order.Options{})
	var old []channel.Importance // of two thirds of the pages
	for p := range pages {
		if p%3 > 0 {
			old = append(old, channel.Importance{URL: channel.URLHash(w.URL(host, p)), Rank: float32(rank[p])})
		}
	}
	for _, name := range order.Live() {
		t.Run(name, func(t *testing.T) {
			cfg, s := pondTask(t, w, g, host)
			cfg.Body.Settings.Order = name
			cfg.Body.Importance = old
			cfg.Body.Scope.MaxDepth = 100 // else it depends on the way to a dynamic page whether it is followed
			if r := run(t, cfg); r.Pages != pages || r.Outcome != channel.Updated {
				t.Fatalf("%d pages of %d, %v %s", r.Pages, pages, r.Outcome, r.Reason)
			}
			if want := expected(t, name, w, host, links, old); !slices.Equal(s.order(), want) {
				for i := range want {
					if got := s.order()[i]; got != want[i] {
						t.Fatalf("page %d of the crawl is %s, want %s", i, got, want[i])
					}
				}
			}
		})
	}
	cfg, _ := pondTask(t, w, g, host)
	cfg.Body.Settings.Order = order.Omniscient
	if err := cfg.Validate(); !errors.Is(err, ErrConfig) {
		t.Errorf("an ordering that needs an oracle: %v", err)
	}
}

// expected is what a bare frontier does.
func expected(t *testing.T, name string, w *pond.World, host int, links [][]order.Page, old []channel.Importance) (urls []string) {
	t.Helper()
	last := map[uint64]float64{}
	var ranks []float32
	for _, i := range old {
		last[i.URL] = float64(i.Rank)
		ranks = append(ranks, i.Rank)
	}
	f, err := order.New(order.Config{
		Order: name, Rand: rand.New(rand.NewPCG(1, 1)), Ranks: ranks,
		Last: func(p order.Page) (float64, bool) {
			r, ok := last[channel.URLHash(w.URL(host, int(p)))]
			return r, ok
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	f.Add(0)
	for {
		p, _, ok := f.Next()
		if !ok {
			return urls
		}
		urls = append(urls, w.URL(host, int(p)))
		f.Fetched(p, links[p], false)
	}
}

// With a page budget the ordering decides what is got: breadth-first gets the pages near the front page, history those that were
// important, which on the pond are much the same, and a random order neither.
func TestBudgetGoesToImportantPages(t *testing.T) {
	w, _, g := serve(t, pond.Config{Seed: 5, Hosts: 1, Pages: 800, Static: true, Plain: true})
	var from, to []uint32
	for p := range 800 {
		for _, l := range w.Links(0, p) {
			from, to = append(from, uint32(p)), append(to, uint32(l.Page))
		}
	}
	graph, err := order.NewGraph(800, from, to)
	if err != nil {
		t.Fatal(err)
	}
	rank, _ := order.PageRank(graph, order.Options{})
	byURL := map[string]float64{}
	var known []channel.Importance
	for p := range 800 {
		byURL[w.URL(0, p)] = rank[p]
		known = append(known, channel.Importance{URL: channel.URLHash(w.URL(0, p)), Rank: float32(rank[p])})
	}
	got := map[string]float64{}
	for _, name := range []string{order.BreadthFirst, order.Historical, order.Random} {
		cfg, s := pondTask(t, w, g, 0)
		cfg.Header.Budget, cfg.Body.Settings.Order, cfg.Body.Importance = 100, name, known
		run(t, cfg)
		for _, u := range s.order() {
			got[name] += byURL[u]
		}
	}
	if !(got[order.Historical] > got[order.BreadthFirst] && got[order.BreadthFirst] > 1.5*got[order.Random]) {
		t.Errorf("PageRank of a hundred pages: %v", got)
	}
}

// Pages that are made on demand are followed a third as deep as others.
func TestDynamicDepth(t *testing.T) {
	for _, tt := range []struct{ depth, want int }{{0, 5}, {15, 5}, {30, 10}, {3, 3}, {1, 1}} {
		c := Config{Body: channel.Body{Scope: channel.Scope{MaxDepth: tt.depth}}}
		if got := c.dynamicDepth(); got != tt.want {
			t.Errorf("depth %d: dynamic pages to %d, want %d", tt.depth, got, tt.want)
		}
	}
	for u, want := range map[string]bool{"http://a/b?c": true, "http://a/b.PHP": true, "http://a/b.php#x?": true, "http://a/b.php/c": false,
		"http://a.php/": false, "http://a/b.html": false} {
		if got := order.Dynamic(u); got != want {
			t.Errorf("%s: dynamic %v", u, got)
		}
	}
}

// order is the URLs in the order in which they were fetched.
func (s *sink) order() (all []string) {
	for _, p := range s.pages() {
		all = append(all, p.URL)
	}
	return all
}
