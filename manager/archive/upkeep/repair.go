package upkeep

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	pb "shoal/manager/archive/archivepb"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/pages"
	"shoal/manager/archive/schema"
	"shoal/manager/archive/segment"
)

// Repaired tells what a repair did.
type Repaired struct {
	Verified
	Captures int // that are gone from the index
	Pages    int // that the next crawl fetches in full
	Cut      int // files that were cut at their last whole record
}

// Repair makes the index say only what the segments hold: captures whose records are damaged are forgotten, and their pages are fetched in
// full by the next crawl. Segments that end too early are sealed where they end. Everything else is left as it is.
func (u *Upkeep) Repair(ctx context.Context) (out Repaired, err error) {
	release, err := u.turns.turn(ctx, repairing)
	if err != nil {
		return out, err
	}
	defer release()
	if err := u.ledger.Seal(); err != nil {
		return out, err
	}
	if out.Verified, err = u.verify(ctx, nil); err != nil {
		return out, err
	}
	b := u.ledger.Batch()
	err = u.ledger.View(func(snap ledger.Snapshot) error {
		r := repair{u: u, snap: snap, out: &out, batch: b}
		for _, step := range []func(context.Context) error{r.captures, r.contents, r.pages} {
			if err := step(ctx); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return out, fmt.Errorf("repair: %w", err)
	}
	gone, err := u.cut(ctx, &out, b)
	if err == nil {
		err = b.Flush()
	}
	if err != nil {
		return out, fmt.Errorf("repair: %w", err)
	}
	for _, s := range gone { // the ledger has forgotten them
		if err := u.segments.Remove(s); err != nil {
			return out, fmt.Errorf("repair: %w", err)
		}
	}
	return out, nil
}

// cut ends the segments that end too early where they end. Nothing is left of those that it returns.
func (u *Upkeep) cut(ctx context.Context, out *Repaired, b *ledger.Batch) (gone []segment.Info, err error) {
	all, err := u.ledger.Segments(ctx)
	if err != nil {
		return nil, err
	}
	for _, s := range all {
		end, short := out.short[s.ID]
		if !short {
			continue
		}
		out.Cut++
		key := schema.SegmentKey(schema.Segment, s.ID)
		what, left := u.segments.Cut(s, end)
		if !left {
			b.Add(ledger.Change{Key: key})
			gone = append(gone, s)
			continue
		}
		v, err := schema.EncodeSegment(what)
		if err != nil {
			return nil, err
		}
		b.Add(ledger.Change{Key: key, Value: v})
	}
	return gone, nil
}

// repair is what one repair does to the index.
type repair struct {
	u     *Upkeep
	snap  ledger.Snapshot
	out   *Repaired
	batch *ledger.Batch
}

// captures forgets the captures whose records are damaged.
func (r *repair) captures(ctx context.Context) error {
	m := new(pb.Capture)
	return r.snap.Scan([]byte{schema.Capture}, nil, true, func(key, value []byte) (bool, error) {
		m.Reset()
		if err := schema.Decode(value, m); err != nil {
			return false, err
		}
		what, err := r.u.lost(r.snap, m, &r.out.Verified)
		if err != nil || what == "" {
			return true, firstOf(err, ctx.Err())
		}
		r.out.Captures++
		return true, r.batch.Delete(bytes.Clone(key))
	})
}

// contents forgets the payloads whose records are damaged.
func (r *repair) contents(ctx context.Context) error {
	c := new(pb.Content)
	return r.snap.Scan([]byte{schema.Content}, nil, true, func(key, value []byte) (bool, error) {
		c.Reset()
		if err := schema.Decode(value, c); err != nil {
			return false, err
		}
		damaged, err := r.damaged(c.At)
		if err != nil || !damaged {
			return true, firstOf(err, ctx.Err())
		}
		return true, r.batch.Delete(bytes.Clone(key))
	})
}

// pages has the next crawl fetch the pages whose records are damaged.
func (r *repair) pages(ctx context.Context) error {
	return r.snap.Scan([]byte{schema.Page}, nil, true, func(key, value []byte) (bool, error) {
		p := new(pb.Page)
		if err := schema.Decode(value, p); err != nil {
			return false, err
		}
		if p.Content == nil {
			return true, ctx.Err()
		}
		damaged, err := r.damaged(p.Content.At)
		if err != nil || !damaged {
			return true, firstOf(err, ctx.Err())
		}
		r.out.Pages++
		p.Content, p.Digest, p.Raw, p.Sha256, p.Etag, p.LastModified = nil, 0, 0, nil, nil, nil
		v, err := schema.Encode(p)
		if err != nil {
			return false, err
		}
		r.batch.Add(ledger.Change{Key: bytes.Clone(key), Value: v})
		return true, r.batch.FlushFull()
	})
}

func (r *repair) damaged(stored *pb.Location) (bool, error) {
	at, err := r.u.pages.Locate(r.snap, schema.Location(stored))
	if errors.Is(err, pages.ErrNotFound) {
		return true, nil
	}
	return !r.out.whole.has(at), err
}
