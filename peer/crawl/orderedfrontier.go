package crawl

import (
	"fmt"
	"math/rand/v2"

	"shoal/channel"
	"shoal/channel/order"
)

// ordered is a to-do list in one of the orderings of package order, which numbers pages. All URLs are in memory; MaxOrdered bounds them.
type ordered struct {
	frontier *order.Frontier
	items    []item // by page
	pages    map[uint64]order.Page
	fresh    []order.Page // pages that the frontier does not know yet: it needs to know first what led to them
}

// MaxOrdered bounds the URLs of a crawl in any order but breadth-first.
const MaxOrdered = 500_000

func newOrdered(cfg *Config) (*ordered, error) {
	o := &ordered{pages: map[uint64]order.Page{}}
	last := make(map[uint64]float64, len(cfg.Body.Importance))
	ranks := make([]float32, 0, len(cfg.Body.Importance))
	for _, i := range cfg.Body.Importance {
		last[i.URL] = float64(i.Rank)
		ranks = append(ranks, i.Rank)
	}
	f, err := order.New(order.Config{
		Order: cfg.Body.Settings.Order, Pages: min(cfg.Header.Pages, MaxOrdered), Ranks: ranks,
		Last: func(p order.Page) (float64, bool) { r, ok := last[o.items[p].hash]; return r, ok },
		Rand: rand.New(rand.NewPCG(uint64(cfg.Header.Channel), uint64(cfg.Header.Gen))),
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	o.frontier = f
	return o, nil
}

func (o *ordered) add(it item) error {
	p, ok := o.pages[it.hash]
	if ok {
		o.items[p] = it
		return nil
	}
	if len(o.items) >= MaxOrdered {
		return errSpillFull
	}
	p = order.Page(len(o.items))
	o.pages[it.hash] = p
	o.items = append(o.items, it)
	o.fresh = append(o.fresh, p)
	return nil
}

// settle adds pages to which no page led: seeds, entries of sitemaps, what an interrupted crawl left.
func (o *ordered) settle() {
	for _, p := range o.fresh {
		o.frontier.AddAt(p, o.items[p].depth)
	}
	o.fresh = o.fresh[:0]
}

func (o *ordered) next() (item, bool, error) {
	o.settle()
	p, _, ok := o.frontier.Next()
	if !ok {
		return item{}, false, nil
	}
	return o.items[p], true, nil
}

func (o *ordered) done(it item, links []uint64, duplicate bool) {
	p, ok := o.pages[it.hash]
	if !ok {
		return
	}
	out := make([]order.Page, 0, len(links))
	for _, h := range links {
		if q, ok := o.pages[h]; ok {
			out = append(out, q)
		}
	}
	o.frontier.Fetched(p, out, duplicate)
	o.settle()
}

func (o *ordered) len() int { return o.frontier.Len() + len(o.fresh) }
func (o *ordered) close()   {}

func urlHash(u string) uint64 { return channel.URLHash(u) }
