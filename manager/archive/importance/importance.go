// Package importance computes the PageRank of the pages that an archive has stored, which goes with a task to crawls in a historical
// order (section 4.2 of Baeza-Yates, Castillo, Marín, Rodríguez, "Crawling a Country", WWW 2005).
//
// It is pure: pages and their links come in, yesterday's ranks if there are any, and today's ranks go out. It is not for storing
// either, and knows URLs by their hashes only. The rank itself is computed by order.PageRank.
//
// Invariants: a link counts if both its pages are stored, in whatever order they came; the ranks of the stored pages add up to 1; the
// same pages give the same ranks, to the tolerance, whatever yesterday's were.
package importance

import (
	"errors"
	"fmt"
	"slices"

	"shoal/channel/order"
)

// Limits of a graph.
const (
	MaxPages = order.MaxPages // URLs known, stored or only linked to
	MaxLinks = 1 << 30
)

// ErrFull says that a graph has reached a limit.
var ErrFull = errors.New("importance: graph is full")

// Graph is the links between stored pages. It is owned by one goroutine.
type Graph struct {
	id     map[uint64]uint32 // of a URL hash
	urls   []uint64
	rows   [][]uint32 // links by page; nil: not stored
	rank   []float32  // 0: unknown
	links  int
	stored int
}

// New makes an empty graph.
func New() *Graph { return &Graph{id: map[uint64]uint32{}} }

// Put stores a page's links by URL hash, in place of those it had. Doubles and links to itself do not count.
func (g *Graph) Put(url uint64, links []uint64) error {
	p, err := g.number(url)
	if err != nil {
		return err
	}
	row := make([]uint32, 0, len(links))
	for _, l := range links {
		q, err := g.number(l)
		if err != nil {
			return err
		}
		if q != p {
			row = append(row, q)
		}
	}
	slices.Sort(row)
	row = slices.Compact(row)
	if g.links += len(row) - len(g.rows[p]); g.links > MaxLinks {
		return fmt.Errorf("%w: more than %d links", ErrFull, MaxLinks)
	}
	if g.rows[p] == nil {
		g.stored++
	}
	g.rows[p] = row
	return nil
}

// Prior says what a page's rank was, to begin from. A page that is not stored is left alone.
func (g *Graph) Prior(url uint64, rank float32) {
	if p, ok := g.id[url]; ok && g.rows[p] != nil {
		g.rank[p] = rank
	}
}

func (g *Graph) number(url uint64) (uint32, error) {
	if p, ok := g.id[url]; ok {
		return p, nil
	}
	if len(g.urls) >= MaxPages {
		return 0, fmt.Errorf("%w: more than %d URLs", ErrFull, MaxPages)
	}
	p := uint32(len(g.urls))
	g.id[url] = p
	g.urls = append(g.urls, url)
	g.rows = append(g.rows, nil)
	g.rank = append(g.rank, 0)
	return p, nil
}

// Pages is the number of stored pages.
func (g *Graph) Pages() int { return g.stored }

// Links is the number of links of the stored pages, wherever they lead.
func (g *Graph) Links() int { return g.links }

// Rank computes the PageRank of the stored pages, beginning from the ranks known, and tells how many sweeps over the links it took.
func (g *Graph) Rank(o order.Options) (sweeps int) {
	dense := make([]uint32, len(g.rows))
	n := uint32(0)
	for p, row := range g.rows {
		if row != nil {
			dense[p] = n
			n++
		}
	}
	web := order.Graph{Offsets: append(make([]uint64, 0, n+1), 0)}
	o.Start = make([]float64, 0, n)
	for p, row := range g.rows {
		if row == nil {
			continue
		}
		for _, q := range row {
			if g.rows[q] != nil {
				web.Arcs = append(web.Arcs, dense[q])
			}
		}
		web.Offsets = append(web.Offsets, uint64(len(web.Arcs)))
		o.Start = append(o.Start, float64(g.rank[p]))
	}
	rank, sweeps := order.PageRank(web, o)
	for p, row := range g.rows {
		if row != nil {
			g.rank[p] = float32(rank[dense[p]])
		}
	}
	return sweeps
}

// Of is the rank of a page; 0 if it is not stored or not ranked.
func (g *Graph) Of(url uint64) float32 {
	if p, ok := g.id[url]; ok {
		return g.rank[p]
	}
	return 0
}
