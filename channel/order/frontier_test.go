package order

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// web is a small Web with an earlier crawl.
type web struct {
	g     Graph
	sites []Site
	dyn   []bool
	last  map[Page]float64
	true_ []float64
}

func drawWeb(rt *rapid.T) web {
	w := web{g: randomGraph(rt), last: map[Page]float64{}}
	n := w.g.Pages()
	// Each link once.
	var from, to []uint32
	for i := range n {
		links := slices.Clone(w.g.Links(Page(i)))
		slices.Sort(links)
		for _, j := range slices.Compact(links) {
			from, to = append(from, uint32(i)), append(to, j)
		}
	}
	w.g, _ = NewGraph(n, from, to)
	hosts := rapid.IntRange(1, 8).Draw(rt, "sites")
	for i := range n {
		w.sites = append(w.sites, Site(rapid.IntRange(0, hosts-1).Draw(rt, "site")))
		w.dyn = append(w.dyn, rapid.Bool().Draw(rt, "dynamic"))
		if rapid.Bool().Draw(rt, "old") {
			w.last[Page(i)] = float64(rapid.IntRange(0, 5).Draw(rt, "rank"))
		}
		w.true_ = append(w.true_, float64(rapid.IntRange(0, 5).Draw(rt, "true")))
	}
	return w
}

func (w web) config(name string) Config {
	return Config{Order: name, Batch: 5, Waits: true, Rand: rand.New(rand.NewPCG(1, 1)), Ranks: []float32{1, 2, 4},
		Site:   func(p Page) (Site, bool) { return w.sites[p], w.dyn[p] },
		Last:   func(p Page) (float64, bool) { r, ok := w.last[p]; return r, ok },
		Oracle: func(p Page) float64 { return w.true_[p] }}
}

func (w web) links(p Page) []Page {
	var out []Page
	for _, q := range w.g.Links(p) {
		out = append(out, Page(q))
	}
	return out
}

// twin is a frontier that remembers everything and computes each priority from the ordering's definition, whenever asked.
type twin struct {
	cfg     Config
	limits  Limits
	found   []Page // in order
	parent  map[Page]Page
	depth   map[Page]int
	quiet   map[Page]bool
	drawn   map[Page]float64 // values that a random source returned
	taken   map[Page]bool
	fetched []Page
	links   map[Page][]Page
	dup     map[Page]bool
	busy    map[Site]bool
	batch   map[Page]float64 // ranks of the last batch
	rng     *rand.Rand
}

func newTwin(cfg Config) *twin {
	return &twin{cfg: cfg, limits: cfg.Limits, parent: map[Page]Page{}, depth: map[Page]int{}, quiet: map[Page]bool{}, drawn: map[Page]float64{},
		taken: map[Page]bool{}, links: map[Page][]Page{}, dup: map[Page]bool{}, busy: map[Site]bool{}, batch: map[Page]float64{},
		rng: rand.New(rand.NewPCG(1, 1))}
}

func (t *twin) find(p, parent Page, depth int, dup bool) {
	if slices.Contains(t.found, p) {
		if !dup {
			t.quiet[p] = false
		}
		return
	}
	_, dynamic := t.cfg.Site(p)
	limit := t.limits.StaticDepth
	if dynamic {
		limit = t.limits.DynamicDepth
	}
	if limit > 0 && depth > limit {
		return
	}
	t.found = append(t.found, p)
	t.parent[p], t.depth[p], t.quiet[p] = parent, depth, dup
	_, old := t.cfg.Last(p)
	switch {
	case t.cfg.Order == Random:
		t.drawn[p] = t.rng.Float64()
	case t.cfg.Order == HistoricalRandom && !old:
		t.drawn[p] = float64(t.cfg.Ranks[t.rng.IntN(len(t.cfg.Ranks))])
	}
}

func (t *twin) fetch(p Page, links []Page, dup bool) {
	t.fetched = append(t.fetched, p)
	t.links[p], t.dup[p] = links, dup
	for _, q := range links {
		t.find(q, p, t.depth[p]+1, dup)
	}
	if len(t.fetched)%t.cfg.Batch == 0 {
		at := map[Page]uint32{}
		for i, q := range t.found {
			at[q] = uint32(i)
		}
		var from, to []uint32
		for _, q := range t.fetched {
			for _, r := range t.links[q] {
				if j, ok := at[r]; ok {
					from, to = append(from, at[q]), append(to, j)
				}
			}
		}
		g, _ := NewGraph(len(t.found), from, to)
		rank := slowPageRank(g, .15)
		for i, q := range t.found {
			t.batch[q] = rank[i]
		}
	}
}

// priority of a page by the words of section 4.
func (t *twin) priority(p Page) float64 {
	sum := func(part func(parent Page) float64) (x float64) {
		for _, q := range t.fetched {
			if slices.Contains(t.links[q], p) {
				x += part(q)
			}
			if q == p { // links found after its own turn do not count
				break
			}
		}
		return x
	}
	last, old := t.cfg.Last(p)
	switch t.cfg.Order {
	case Backlink:
		return sum(func(Page) float64 { return 1 })
	case BatchPageRank:
		return t.batch[p]
	case OPIC:
		return sum(func(q Page) float64 { return (1 + t.cash(q)) / float64(len(t.links[q])) })
	case PartialPageRank:
		if r, ok := t.batch[p]; ok {
			return r
		}
		return t.fresh(p)
	case Omniscient:
		return t.cfg.Oracle(p)
	case Random:
		return t.drawn[p]
	case HistoricalOmniscient, HistoricalRandom, HistoricalZero, HistoricalParent:
		if old {
			return last
		}
		switch t.cfg.Order {
		case HistoricalOmniscient:
			return t.cfg.Oracle(p)
		case HistoricalRandom:
			return t.drawn[p]
		case HistoricalParent:
			if q := t.parent[p]; q != None {
				return t.priority(q) / float64(len(t.links[q]))
			}
		}
	}
	return 0
}

// cash of a page at the moment of its fetch: from the pages fetched before it.
func (t *twin) cash(p Page) (x float64) {
	for _, q := range t.fetched {
		if q == p {
			return x
		}
		if slices.Contains(t.links[q], p) {
			x += (1 + t.cash(q)) / float64(len(t.links[q]))
		}
	}
	return x
}

// fresh is the temporary rank of a page that the last batch did not know.
func (t *twin) fresh(p Page) (x float64) {
	for _, q := range t.fetched[len(t.fetched)/t.cfg.Batch*t.cfg.Batch:] {
		if q == p {
			return x
		}
		if slices.Contains(t.links[q], p) {
			r, ok := t.batch[q]
			if !ok {
				r = t.fresh(q)
			}
			x += r / float64(len(t.links[q]))
		}
	}
	return x
}

// check returns why p must not be handed out now, to within eps of priority. For no page at all, p is None.
func (t *twin) check(p Page, eps float64) error {
	type choice struct {
		size, rank float64
		seq        int
	}
	var got *choice
	size := map[Site]float64{}
	count := map[Site]int{}
	for _, q := range t.found {
		s, _ := t.cfg.Site(q)
		if !t.taken[q] && !t.quiet[q] {
			size[s]++
		}
		if slices.Contains(t.fetched, q) {
			count[s]++
		}
	}
	var all []choice
	for i, q := range t.found {
		s, _ := t.cfg.Site(q)
		if t.taken[q] || t.busy[s] || t.limits.SitePages > 0 && count[s] >= t.limits.SitePages {
			continue
		}
		c := choice{0, t.priority(q), i}
		if t.cfg.Order == LargerSitesFirst {
			c.size = size[s]
		}
		all = append(all, c)
		if q == p {
			got = &c
		}
	}
	if p == None {
		if len(all) > 0 {
			return fmt.Errorf("nothing to fetch, though %d pages are", len(all))
		}
		return nil
	}
	if got == nil {
		return fmt.Errorf("page %d may not be fetched now", p)
	}
	for _, c := range all {
		better := c.size > got.size || c.size == got.size && (c.rank > got.rank+eps || eps == 0 && c.rank == got.rank && c.seq < got.seq)
		if better {
			return fmt.Errorf("page %d %+v before page %d %+v", p, *got, t.found[c.seq], c)
		}
	}
	return nil
}

func TestOrderingsAgainstTheirTwins(t *testing.T) {
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			eps := 0.
			if name == BatchPageRank || name == PartialPageRank {
				eps = 1e-7
			}
			rapid.Check(t, func(rt *rapid.T) {
				w := drawWeb(rt)
				cfg := w.config(name)
				if rapid.Bool().Draw(rt, "limits") {
					cfg.Limits = Limits{DynamicDepth: 2, StaticDepth: 4, SitePages: 6}
				}
				f, err := New(cfg)
				if err != nil {
					rt.Fatal(err)
				}
				tw := newTwin(cfg)
				for _, p := range rapid.SliceOfN(rapid.IntRange(0, w.g.Pages()-1), 1, 5).Draw(rt, "seeds") {
					f.Add(Page(p))
					tw.find(Page(p), None, 0, false)
				}
				var out []Page
				for step := 0; ; step++ {
					if len(out) > 0 && rapid.IntRange(0, 2).Draw(rt, "end") == 0 {
						p := out[0]
						out = out[1:]
						dup := rapid.IntRange(0, 3).Draw(rt, "dup") == 0
						f.Fetched(p, w.links(p), dup)
						tw.fetch(p, w.links(p), dup)
						f.Ready(w.sites[p])
						tw.busy[w.sites[p]] = false
					}
					p, s, ok := f.Next()
					if !ok {
						p = None
					}
					if err := tw.check(p, eps); err != nil {
						rt.Fatalf("step %d: %v", step, err)
					}
					if !ok {
						if len(out) == 0 {
							break
						}
						continue
					}
					if s != w.sites[p] {
						rt.Fatalf("page %d of site %d handed out for site %d", p, w.sites[p], s)
					}
					out = append(out, p)
					tw.taken[p], tw.busy[s] = true, true
				}
				if cfg.Limits.SitePages == 0 && f.Len() != 0 {
					rt.Fatalf("%d pages left", f.Len())
				}
			})
		})
	}
}

func TestNamesAndErrors(t *testing.T) {
	for _, c := range []Config{{Order: "alphabetical"}, {Order: Omniscient}, {Order: Random}, {Order: HistoricalZero}, {Batch: -1}, {Pages: -1},
		{Limits: Limits{SitePages: -1}}, {Order: HistoricalRandom, Last: func(Page) (float64, bool) { return 0, false }}} {
		if _, err := New(c); !errors.Is(err, ErrConfig) {
			t.Errorf("%q: %v", c.Order, err)
		}
	}
	for _, n := range append(Live(), "") {
		if err := Known(n); err != nil {
			t.Error(err)
		}
	}
	if err := Known(Omniscient); err == nil {
		t.Error("a crawl may ask an oracle")
	}
}

// A crawl that goes on: pages come back at their depths and in their order.
func TestPendingAndResume(t *testing.T) {
	f, err := New(Config{Limits: Limits{StaticDepth: 3}})
	if err != nil {
		t.Fatal(err)
	}
	f.Add(0)
	f.Next()
	f.Fetched(0, []Page{5, 3, 9}, false)
	if got := f.Pending(); !slices.Equal(got, []Page{5, 3, 9}) || f.Depth(3) != 1 || f.Len() != 3 || f.Found() != 4 {
		t.Fatalf("pending %v", got)
	}
	g, _ := New(Config{Limits: Limits{StaticDepth: 3}})
	for _, p := range f.Pending() {
		g.AddAt(p, 3)
	}
	g.AddAt(77, 4) // too deep
	p, _, _ := g.Next()
	g.Fetched(p, []Page{100}, false)
	if p != 5 || !slices.Equal(g.Pending(), []Page{3, 9}) {
		t.Errorf("first %d, then %v", p, g.Pending())
	}
	g.Fetched(3, []Page{4}, false) // was not handed out
	g.Fetched(1<<30, nil, false)
	g.Add(None)
	if !slices.Equal(g.Pending(), []Page{3, 9}) {
		t.Errorf("pending %v", g.Pending())
	}
}

func FuzzFrontier(f *testing.F) {
	f.Add(uint8(0), []byte{1, 2, 3, 200, 7, 9, 130, 255})
	f.Add(uint8(4), []byte("a frontier is asked and told in any order"))
	f.Fuzz(func(t *testing.T, which uint8, ops []byte) {
		cfg := Config{Order: names[int(which)%len(names)], Batch: 3, Waits: which&128 != 0, Rand: rand.New(rand.NewPCG(1, 1)),
			Site:   func(p Page) (Site, bool) { return Site(p % 5), p%2 == 0 },
			Last:   func(p Page) (float64, bool) { return math.NaN(), p%3 == 0 },
			Oracle: func(p Page) float64 { return math.Inf(int(p%3) - 1) }}
		fr, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[Page]bool{}
		for i := 0; i+3 < len(ops); i += 4 {
			a, b, c := Page(ops[i+1]), Page(ops[i+2]), Page(ops[i+3])
			switch ops[i] % 4 {
			case 0:
				fr.Add(a)
			case 1:
				fr.Fetched(a, []Page{b, c}, ops[i]&128 != 0)
			case 2:
				fr.Ready(Site(a))
			case 3:
				if p, _, ok := fr.Next(); ok {
					if seen[p] {
						t.Fatalf("page %d twice", p)
					}
					seen[p] = true
					fr.Fetched(p, []Page{a, b, c}, false)
				}
			}
			n := 0
			for i := range fr.sites {
				n += len(fr.sites[i].pages)
			}
			if n != fr.Len() {
				t.Fatalf("%d pages in heaps, %d pending", n, fr.Len())
			}
		}
	})
}

// crawl runs an ordering over a whole graph, one page at a time, and returns how many pages it fetched.
func crawl(tb testing.TB, g Graph, sites []Site, rank []float64, name string) int {
	f, err := New(Config{Order: name, Pages: g.Pages(), Rand: rand.New(rand.NewPCG(1, 1)), Batch: 1 << 30,
		Site:   func(p Page) (Site, bool) { return sites[p], false },
		Last:   func(p Page) (float64, bool) { return rank[p], p%2 == 0 },
		Ranks:  []float32{1e-5, 1e-6},
		Oracle: func(p Page) float64 { return rank[p] }})
	if err != nil {
		tb.Fatal(err)
	}
	for p := 0; p < len(sites); p += 100 {
		f.Add(Page(p))
	}
	n := 0
	var links []Page
	for {
		p, _, ok := f.Next()
		if !ok {
			return n
		}
		n++
		links = links[:0]
		for _, q := range g.Links(p) {
			links = append(links, Page(q))
		}
		f.Fetched(p, links, false)
	}
}

func bigWeb(pages, arcs int) (Graph, []Site, []float64) {
	rng := rand.New(rand.NewPCG(3, 4))
	g := webGraph(rng, pages, arcs)
	sites := make([]Site, pages)
	for i := range sites {
		u := rng.Float64()
		sites[i] = Site(u * u * float64(pages/20))
	}
	rank, _ := PageRank(g, Options{Tolerance: 1e-6})
	return g, sites, rank
}

// Under 100 bytes a page beside the graph, with sites of two pages each.
func TestMemory(t *testing.T) {
	const pages = 200_000
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	f, err := New(Config{Order: OPIC, Site: func(p Page) (Site, bool) { return Site(p / 2), false }})
	if err != nil {
		t.Fatal(err)
	}
	for p := range Page(pages) {
		f.Add(p)
	}
	if b := float64(heap()-before) / pages; b > 100 {
		t.Errorf("%.0f bytes a page", b)
	} else {
		t.Logf("%.0f bytes a page", b)
	}
	runtime.KeepAlive(f)
}

func BenchmarkOrderings(b *testing.B) {
	g, sites, rank := bigWeb(100_000, 3_000_000)
	for _, name := range Names() {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				began := time.Now()
				n := crawl(b, g, sites, rank, name)
				b.ReportMetric(float64(time.Since(began).Nanoseconds())/float64(n), "ns/page")
			}
		})
	}
}
