package upkeep

import (
	"bytes"
	"context"
	"errors"

	pb "shoal/manager/archive/archivepb"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/pages"
	"shoal/manager/archive/schema"
	"shoal/manager/archive/segment"
)

// What compaction leaves in the ledger must not grow with the compactions: a move for every record that ever moved, and a chain of them for one that moved
// often. References are not rewritten, so a move is needed while something refers to the place that it leads away from. It then leads
// straight to where the record is now.

// settleMoves has each move that something refers to lead to where its record is now, and forgets those to which nothing has referred at this compaction
// and the one before: a chunk or a reader that began before this one may still be about to. live is what was referred to when the compaction began.
func (u *Upkeep) settleMoves(ctx context.Context, live records) error {
	if err := u.ledger.Others.WaitForAll(ctx); err != nil {
		return err
	}
	b, unused := u.ledger.Batch(), records{}
	err := u.ledger.View(func(snap ledger.Snapshot) error {
		needed, err := u.movedFrom(ctx, snap)
		if err != nil {
			return err
		}
		to := new(pb.Location)
		return snap.Scan([]byte{schema.Moved}, nil, true, func(key, value []byte) (bool, error) {
			to.Reset()
			if err := schema.Decode(value, to); err != nil {
				return false, err
			}
			from := segment.Location{Segment: schema.SegmentOf(key), Offset: schema.OffsetOf(key)}
			if !needed.has(from) && !live.has(from) {
				if unused.add(from); u.unused.has(from) {
					return true, firstOf(b.Delete(bytes.Clone(key)), ctx.Err())
				}
				return true, ctx.Err()
			}
			now, err := u.pages.Locate(snap, schema.Location(to))
			if errors.Is(err, pages.ErrNotFound) || err == nil && now == schema.Location(to) {
				return true, ctx.Err()
			}
			if err != nil {
				return false, err
			}
			v, err := schema.Encode(schema.StoredLocation(now))
			if err != nil {
				return false, err
			}
			b.Add(ledger.Change{Key: bytes.Clone(key), Value: v})
			return true, firstOf(b.FlushFull(), ctx.Err())
		})
	})
	if err = firstOf(err, b.Flush()); err == nil {
		u.unused = unused
	}
	return err
}

// movedFrom finds the places in segments that are gone to which something refers.
func (u *Upkeep) movedFrom(ctx context.Context, snap ledger.Snapshot) (records, error) {
	out := records{}
	note := func(stored ...*pb.Location) error {
		for _, at := range stored {
			if at != nil && !u.segments.Has(at.File) {
				out.add(schema.Location(at))
			}
		}
		return ctx.Err()
	}
	capture, page, content, entry := new(pb.Capture), new(pb.Page), new(pb.Content), new(pb.Entry)
	for _, t := range []struct {
		table byte
		read  func(value []byte) error
	}{
		{schema.Capture, func(v []byte) error {
			capture.Reset()
			return firstOf(schema.Decode(v, capture), note(capture.At, capture.Original))
		}},
		{schema.Page, func(v []byte) error {
			page.Reset()
			return firstOf(schema.Decode(v, page), note(page.GetContent().GetAt()))
		}},
		{schema.Content, func(v []byte) error {
			content.Reset()
			return firstOf(schema.Decode(v, content), note(content.At))
		}},
		{schema.Changes, func(v []byte) error {
			entry.Reset()
			return firstOf(schema.Decode(v, entry), note(entry.GetPage().GetAt(), entry.GetPage().GetOriginal()))
		}},
	} {
		if err := snap.Scan([]byte{t.table}, nil, true, func(_, value []byte) (bool, error) { return true, t.read(value) }); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// sweepTexts forgets texts whose payload was forgotten: an older version of this program left them. It looks for them once.
func (u *Upkeep) sweepTexts(ctx context.Context) error {
	if u.swept {
		return nil
	}
	b := u.ledger.Batch()
	err := u.ledger.View(func(snap ledger.Snapshot) error {
		return snap.Scan([]byte{schema.Text}, nil, false, func(key, _ []byte) (bool, error) {
			found, err := snap.Get(schema.PayloadKey(schema.Content, key[1:]), func([]byte) error { return nil })
			if err != nil || found {
				return true, firstOf(err, ctx.Err())
			}
			return true, firstOf(b.Delete(bytes.Clone(key)), ctx.Err())
		})
	})
	if err = firstOf(err, b.Flush()); err == nil {
		u.swept = true
	}
	return err
}
