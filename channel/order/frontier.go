package order

import (
	"fmt"
	"math"
	"slices"
)

// Frontier holds the pages found and not yet fetched. It is owned by one goroutine.
type Frontier struct {
	cfg     Config
	larger  bool // sites by pending pages, not by their best page
	batch   bool // keeps the graph and ranks it now and then
	partial bool

	// By page.
	state []state
	depth []uint8
	site  []Site
	key   []float64 // priority; kept when the page is out, then also cash or rank
	seq   []uint32  // how many were found before it
	pos   []uint32  // in its site's heap

	sites   []siteState
	heap    []Site // of sites that are ready and have pages
	found   uint32
	pending int
	fetched int
	out     int // links of the page being worked on

	known knownGraph
}

type state uint8

const (
	unseen  state = iota
	waiting       // in a heap
	quiet         // in a heap, found only through near-duplicates: does not count for its site
	out           // handed out
	done
)

// ranked marks a page that the last PageRank knew.
const ranked state = 1 << 7

type siteState struct {
	pages   []Page // heap
	pos     int32  // in the heap of sites; -1: not there
	counted uint32 // pages waiting, without the quiet ones
	fetched uint32
	busy    bool
}

// New makes an empty frontier.
func New(cfg Config) (*Frontier, error) {
	if err := cfg.rule(); err != nil {
		return nil, err
	}
	if cfg.Batch < 0 || cfg.Pages < 0 || cfg.Limits.DynamicDepth < 0 || cfg.Limits.StaticDepth < 0 || cfg.Limits.SitePages < 0 {
		return nil, fmt.Errorf("%w: a negative number", ErrConfig)
	}
	if cfg.Batch == 0 {
		cfg.Batch = DefaultBatch
	}
	f := &Frontier{cfg: cfg, larger: cfg.Order == LargerSitesFirst, partial: cfg.Order == PartialPageRank}
	f.batch = f.partial || cfg.Order == BatchPageRank
	f.reserve(min(cfg.Pages, MaxPages))
	return f, nil
}

// reserve makes room for pages below n.
func (f *Frontier) reserve(n int) {
	if more := n - len(f.state); more > 0 {
		f.state = append(f.state, make([]state, more)...)
		f.depth = append(f.depth, make([]uint8, more)...)
		f.site = append(f.site, make([]Site, more)...)
		f.key = append(f.key, make([]float64, more)...)
		f.seq = append(f.seq, make([]uint32, more)...)
		f.pos = append(f.pos, make([]uint32, more)...)
	}
}

// Add puts a seed in, at depth 0. A page that is known already, or whose number is not below MaxPages, is left alone.
func (f *Frontier) Add(p Page) { f.AddAt(p, 0) }

// AddAt puts a page in at a depth, for a crawl that goes on.
func (f *Frontier) AddAt(p Page, depth int) {
	if p < MaxPages {
		f.reserve(int(p) + 1)
		if f.state[p]&^ranked == unseen {
			f.find(p, None, min(depth, math.MaxUint8), false)
		}
	}
}

// Next hands out the page to fetch now; its site has no other page out until Fetched. None of the sites that are ready has a page
// when ok is false.
func (f *Frontier) Next() (p Page, s Site, ok bool) {
	for len(f.heap) > 0 {
		s = f.heap[0]
		st := &f.sites[s]
		if limit := f.cfg.Limits.SitePages; limit > 0 && int(st.fetched) >= limit {
			f.drop(s)
			continue
		}
		p = f.popPage(s)
		f.removeSite(s)
		st.busy = true
		if f.state[p]&^ranked == waiting {
			st.counted--
		}
		f.pending--
		f.setState(p, out)
		return p, s, true
	}
	return None, 0, false
}

// drop forgets the pages of a site that has given all it may.
func (f *Frontier) drop(s Site) {
	st := &f.sites[s]
	for _, p := range st.pages {
		f.setState(p, done)
	}
	f.pending -= len(st.pages)
	st.pages, st.counted = nil, 0
	f.removeSite(s)
}

// Fetched reports the links of a page that Next returned, each once; none if the fetch failed. A near-duplicate of
// another page is followed like any page, but its links do not make the site larger, because the site may be an
// artificial loop.
func (f *Frontier) Fetched(p Page, links []Page, duplicate bool) {
	if int(p) >= len(f.state) || f.state[p]&^ranked != out {
		return
	}
	f.setState(p, done)
	f.fetched++
	s := f.site[p]
	f.sites[s].fetched++
	f.out = len(links)
	share := 0.
	if len(links) > 0 {
		share = f.cfg.share(f, p, len(links))
	}
	depth := min(int(f.depth[p])+1, math.MaxUint8)
	for _, q := range links {
		if q >= MaxPages {
			continue
		}
		if int(q) >= len(f.state) {
			f.reserve(max(int(q)+1, min(2*len(f.state), MaxPages)))
		}
		f.link(q, p, depth, share, duplicate)
	}
	if f.batch {
		f.known.add(f, p, links)
		if f.fetched%f.cfg.Batch == 0 {
			f.rerank()
		}
	}
	if !f.cfg.Waits {
		f.Ready(s)
	}
}

// link follows one link of a fetched page.
func (f *Frontier) link(q, parent Page, depth int, share float64, duplicate bool) {
	switch f.state[q] &^ ranked {
	case unseen:
		if !f.find(q, parent, depth, duplicate) {
			return
		}
	case quiet:
		if !duplicate {
			f.setState(q, waiting)
			f.sites[f.site[q]].counted++
			f.fixSite(f.site[q])
		}
	case waiting:
	case out: // it passes on what it gets until it is there
		if f.state[q]&ranked == 0 {
			f.key[q] += share
		}
		return
	default:
		return
	}
	if share != 0 && f.state[q]&ranked == 0 {
		f.key[q] += share
		f.raisePage(q)
	}
}

// find takes a page in that was not known, unless it lies too deep.
func (f *Frontier) find(p, parent Page, depth int, duplicate bool) bool {
	var s Site
	var dynamic bool
	if f.cfg.Site != nil {
		s, dynamic = f.cfg.Site(p)
	}
	limit := f.cfg.Limits.StaticDepth
	if dynamic {
		limit = f.cfg.Limits.DynamicDepth
	}
	if limit > 0 && depth > limit {
		return false
	}
	for int(s) >= len(f.sites) {
		f.sites = append(f.sites, siteState{pos: -1})
	}
	f.site[p], f.depth[p] = s, uint8(depth)
	f.seq[p] = f.found
	f.found++
	f.key[p] = f.cfg.start(f, p, parent)
	if math.IsNaN(f.key[p]) {
		f.key[p] = 0
	}
	f.pending++
	st := &f.sites[s]
	if duplicate {
		f.state[p] = quiet
	} else {
		f.state[p] = waiting
		st.counted++
	}
	f.pushPage(p)
	return true
}

// Ready lets a site be visited again, where Config.Waits asks for it.
func (f *Frontier) Ready(s Site) {
	if int(s) < len(f.sites) {
		f.sites[s].busy = false
		f.fixSite(s)
	}
}

// Len is the number of pages found and not handed out.
func (f *Frontier) Len() int { return f.pending }

// Found is the number of pages ever found.
func (f *Frontier) Found() int { return int(f.found) }

// Depth of a page that was found.
func (f *Frontier) Depth(p Page) int { return int(f.depth[p]) }

// Pending lists the pages found and not handed out, in the order in which they were found.
func (f *Frontier) Pending() []Page {
	out := make([]Page, 0, f.pending)
	for i := range f.sites {
		out = append(out, f.sites[i].pages...)
	}
	slices.SortFunc(out, func(a, b Page) int { return int(f.seq[a]) - int(f.seq[b]) })
	return out
}

// setState keeps the mark of the last PageRank.
func (f *Frontier) setState(p Page, s state) { f.state[p] = f.state[p]&ranked | s }

// knownGraph holds the links of the fetched pages in the order in which they were found. The batch orderings use it.
type knownGraph struct {
	from []uint32
	ends []uint64
	arcs []uint32
	rank []float64 // of the last batch
}

func (g *knownGraph) add(f *Frontier, p Page, links []Page) {
	g.from = append(g.from, f.seq[p])
	for _, q := range links {
		if q < MaxPages && f.state[q]&^ranked != unseen {
			g.arcs = append(g.arcs, f.seq[q])
		}
	}
	g.ends = append(g.ends, uint64(len(g.arcs)))
}

// batchTolerance is how exact a PageRank between batches is; it only has to put pages in order.
const batchTolerance = 1e-8

// rerank gives every page known the PageRank of the graph known.
func (f *Frontier) rerank() {
	g := &f.known
	n := int(f.found)
	degree := make([]uint32, n)
	var first uint64
	for i, from := range g.from {
		degree[from] = uint32(g.ends[i] - first)
		first = g.ends[i]
	}
	in := transpose(n, g.from, g.ends, g.arcs)
	g.rank, _ = in.solve(degree, Options{Tolerance: batchTolerance, Start: g.rank})
	for p, s := range f.state {
		if s&^ranked != unseen {
			f.key[p] = g.rank[f.seq[p]]
			f.state[p] |= ranked
		}
	}
	f.rebuild()
}
