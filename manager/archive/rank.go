package archive

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/dgraph-io/badger/v4"

	"shoal/channel"
	"shoal/channel/order"
	"shoal/manager/archive/importance"
)

// Limits of the links that are kept for PageRank; the others are in the WARC files only.
const (
	maxRankLinks     = 1000    // of a page
	maxRankLinkBytes = 1 << 20 // of a chunk
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
func (a *Archive) Rank(ctx context.Context) (Ranked, error) {
	began := time.Now()
	r, err := a.rank(ctx)
	if err != nil {
		return Ranked{}, fmt.Errorf("rank pages: %w", err)
	}
	r.Took = time.Since(began)
	return r, nil
}

func (a *Archive) rank(ctx context.Context) (r Ranked, err error) {
	g := importance.New()
	err = a.db.View(func(txn *badger.Txn) error {
		var links []uint64
		err := scan(txn, []byte{keyLinks}, nil, true, func(key []byte, item *badger.Item) (bool, error) {
			err := item.Value(func(v []byte) (err error) {
				links, err = unpackLinks(links[:0], v)
				return err
			})
			if err != nil {
				return false, err
			}
			return true, firstOf(ctx.Err(), g.Put(binary.BigEndian.Uint64(key[9:]), links))
		})
		if err != nil {
			return err
		}
		return scan(txn, []byte{keyRank}, nil, true, func(key []byte, item *badger.Item) (bool, error) {
			return true, item.Value(func(v []byte) error {
				rank, err := unpackRank(v)
				g.Prior(binary.BigEndian.Uint64(key[9:]), rank)
				return firstOf(ctx.Err(), err)
			})
		})
	})
	if err != nil {
		return r, err
	}
	r.Pages, r.Links = g.Pages(), g.Links()
	r.Sweeps = g.Rank(order.Options{Tolerance: rankTolerance})
	err = a.db.use(func() (err error) {
		r.Written, err = a.writeRanks(ctx, g)
		return err
	})
	return r, err
}

// writeRanks stores the ranks that have changed, and forgets those of pages that are no more.
func (a *Archive) writeRanks(ctx context.Context, g *importance.Graph) (written int, err error) {
	wb := a.db.NewWriteBatch()
	wb.SetMaxPendingTxns(1) // see package tables
	defer wb.Cancel()
	err = a.db.View(func(txn *badger.Txn) error {
		err := scan(txn, []byte{keyLinks}, nil, false, func(key []byte, _ *badger.Item) (bool, error) {
			now := g.Of(binary.BigEndian.Uint64(key[9:]))
			if now == 0 {
				return true, ctx.Err() // stored since
			}
			k := append([]byte{keyRank}, key[1:]...)
			if was, err := rankAt(txn, k); err != nil || math.Abs(float64(now-was)) <= rankStep*float64(was) {
				return true, firstOf(ctx.Err(), err)
			}
			written++
			return true, firstOf(ctx.Err(), wb.Set(k, packRank(now)))
		})
		if err != nil {
			return err
		}
		return scan(txn, []byte{keyRank}, nil, false, func(key []byte, _ *badger.Item) (bool, error) {
			_, err := txn.Get(append([]byte{keyLinks}, key[1:]...))
			if errors.Is(err, badger.ErrKeyNotFound) {
				written++
				err = wb.Delete(append([]byte(nil), key...))
			}
			return true, firstOf(ctx.Err(), err)
		})
	})
	if err != nil {
		return 0, err
	}
	return written, wb.Flush()
}

// keepRanking computes PageRank now and then until ctx ends.
func (a *Archive) keepRanking(ctx context.Context) {
	if a.cfg.RankEvery < 0 {
		return
	}
	t := time.NewTicker(a.cfg.RankEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		switch r, err := a.Rank(ctx); {
		case ctx.Err() != nil:
			return
		case err != nil:
			a.log.Error("PageRank failed, will try again", "err", err)
		default:
			a.log.Info("PageRank computed", "pages", r.Pages, "links", r.Links, "sweeps", r.Sweeps, "written", r.Written, "took", r.Took)
		}
	}
}

// keepLinks has a page's links stored, or forgotten when it is no more.
func (b *builder) keepLinks(d *draft, p *channel.Page, here bool) {
	k := key2(keyLinks, uint64(b.id), d.url)
	if !here {
		b.links = append(b.links, kv{k, nil})
		return
	}
	v := []byte{valueV1}
	for _, l := range p.Links[:min(len(p.Links), maxRankLinks)] {
		v = binary.BigEndian.AppendUint64(v, channel.URLHash(l))
	}
	if b.linkBytes += len(v); b.linkBytes <= maxRankLinkBytes {
		b.links = append(b.links, kv{k, v})
	}
}

func unpackLinks(out []uint64, v []byte) ([]uint64, error) {
	if len(v)%8 != 1 || v[0] != valueV1 {
		return out, fmt.Errorf("%w: links of %d bytes", errValue, len(v))
	}
	for v = v[1:]; len(v) > 0; v = v[8:] {
		out = append(out, binary.BigEndian.Uint64(v))
	}
	return out, nil
}

func packRank(r float32) []byte {
	return binary.BigEndian.AppendUint32([]byte{valueV1}, math.Float32bits(r))
}

func unpackRank(v []byte) (float32, error) {
	if len(v) != 5 || v[0] != valueV1 {
		return 0, fmt.Errorf("%w: rank of %d bytes", errValue, len(v))
	}
	r := math.Float32frombits(binary.BigEndian.Uint32(v[1:]))
	if !(r > 0 && r <= 1) {
		return 0, fmt.Errorf("%w: rank %v", errValue, r)
	}
	return r, nil
}

// rankAt reads a rank; 0: there is none.
func rankAt(txn *badger.Txn, key []byte) (r float32, err error) {
	item, err := txn.Get(key)
	if errors.Is(err, badger.ErrKeyNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	err = item.Value(func(v []byte) error {
		r, err = unpackRank(v)
		return err
	})
	return r, err
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
