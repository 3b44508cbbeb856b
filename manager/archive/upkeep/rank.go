package upkeep

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"time"

	"shoal/channel/order"
	"shoal/manager/archive/importance"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/pages"
	"shoal/manager/archive/schema"
)

// rankTolerance is how exact a daily PageRank is; it only puts pages in order.
const rankTolerance = 1e-8

// rankStep is by how much a rank must differ from the stored one, relative to it, to be written again.
const rankStep = .02

// DefaultRankEvery is how often PageRank is computed.
const DefaultRankEvery = 24 * time.Hour

// Ranked tells what a PageRank took.
type Ranked struct {
	Pages   int
	Links   int // of these pages, wherever they lead
	Sweeps  int
	Written int // ranks that differ from the last ones
	Took    time.Duration
}

// Rank computes the PageRank of all stored pages, from the last one on, for Known to ship with tasks. It may run beside everything else;
// one at a time is enough. It holds the graph in memory: about 30 bytes a page and 4 a link.
func (u *Upkeep) Rank(ctx context.Context) (Ranked, error) {
	began := time.Now()
	r, err := u.rank(ctx)
	if err != nil {
		return Ranked{}, fmt.Errorf("rank pages: %w", err)
	}
	r.Took = time.Since(began)
	return r, nil
}

func (u *Upkeep) rank(ctx context.Context) (r Ranked, err error) {
	g := importance.New()
	err = u.ledger.View(func(snap ledger.Snapshot) error {
		var links []uint64
		err := snap.Scan([]byte{schema.Links}, nil, true, func(key, value []byte) (_ bool, err error) {
			if links, err = schema.DecodeLinks(links[:0], value); err != nil {
				return false, err
			}
			return true, firstOf(ctx.Err(), g.Put(schema.Number(key, 1), links))
		})
		if err != nil {
			return err
		}
		return snap.Scan([]byte{schema.Rank}, nil, true, func(key, value []byte) (bool, error) {
			rank, err := schema.DecodeRank(value)
			g.Prior(schema.Number(key, 1), rank)
			return true, firstOf(ctx.Err(), err)
		})
	})
	if err != nil {
		return r, err
	}
	r.Pages, r.Links = g.Pages(), g.Links()
	r.Sweeps = g.Rank(order.Options{Tolerance: rankTolerance})
	r.Written, err = u.writeRanks(ctx, g)
	return r, err
}

// writeRanks stores the ranks that have changed, and forgets those of pages that are no more.
func (u *Upkeep) writeRanks(ctx context.Context, g *importance.Graph) (written int, err error) {
	b := u.ledger.Batch()
	write := func(c ledger.Change) error {
		written++
		b.Add(c)
		return b.FlushFull()
	}
	err = u.ledger.View(func(snap ledger.Snapshot) error {
		err := snap.Scan([]byte{schema.Links}, nil, false, func(key, _ []byte) (bool, error) {
			now := g.Of(schema.Number(key, 1))
			if now == 0 {
				return true, ctx.Err() // stored since
			}
			k := append([]byte{schema.Rank}, key[1:]...)
			if was, err := pages.RankAt(snap, k); err != nil || math.Abs(float64(now-was)) <= rankStep*float64(was) {
				return true, firstOf(ctx.Err(), err)
			}
			return true, firstOf(ctx.Err(), write(ledger.Change{Key: k, Value: schema.EncodeRank(now)}))
		})
		if err != nil {
			return err
		}
		return snap.Scan([]byte{schema.Rank}, nil, false, func(key, _ []byte) (bool, error) {
			linked, err := snap.Get(append([]byte{schema.Links}, key[1:]...), func([]byte) error { return nil })
			if err == nil && !linked {
				err = write(ledger.Change{Key: bytes.Clone(key)})
			}
			return true, firstOf(ctx.Err(), err)
		})
	})
	if err != nil {
		return 0, err
	}
	return written, b.Flush()
}

// keepRanking computes PageRank now and then until ctx ends.
func (u *Upkeep) keepRanking(ctx context.Context) {
	if u.cfg.RankEvery < 0 {
		return
	}
	t := time.NewTicker(u.cfg.RankEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		switch r, err := u.Rank(ctx); {
		case ctx.Err() != nil:
			return
		case err != nil:
			u.cfg.Log.Error("PageRank failed, will try again", "err", err)
		default:
			u.cfg.Log.Info("PageRank computed", "pages", r.Pages, "links", r.Links, "sweeps", r.Sweeps, "written", r.Written, "took", r.Took)
		}
	}
}
