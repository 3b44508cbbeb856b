package ledger

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"shoal/manager/archive/schema"
	"shoal/manager/archive/segment"
)

// Where pages are objects, a program that dies or is cut off between writing an object and committing it leaves an object that the ledger does not know.
// Whoever removes it must be sure that it is not committed afterwards, by a program that was only slow. So segments can be closed: Closed has a record of
// each to which nothing is added any more, every commit to a segment is made on the condition that there is none, and it is never removed.

// Strays is a segment store whose objects may be left over.
type Strays interface {
	// Strays lists what is there and in none of these segments.
	Strays(ctx context.Context, committed []segment.Info) ([]segment.Stray, error)
	// Discard removes one. It is no error if it is gone.
	Discard(ctx context.Context, s segment.Stray) error
}

// Strays gives the segment store as one with objects; false: it has none.
func (l *Ledger) Strays() (Strays, bool) {
	s, ok := l.segments.(Strays)
	return s, ok
}

// open is the condition that a segment is not closed; none where segments are no objects.
func (l *Ledger) open(id uint32) Change {
	if !l.objects {
		return Change{}
	}
	return Change{Key: schema.SegmentKey(schema.Closed, id)}
}

// Close what others write: nothing is added to these segments any more, whether the ledger knows them or not.
func (l *Ledger) CloseSegments(ids []uint32) error {
	b := l.Batch()
	for _, id := range ids {
		b.Add(Change{schema.SegmentKey(schema.Closed, id), []byte{}})
	}
	return b.Flush()
}

// Forgotten are the changes by which the ledger forgets a segment for good.
func (l *Ledger) Forgotten(id uint32) []Change {
	gone := []Change{{Key: schema.SegmentKey(schema.Segment, id)}, {Key: schema.SegmentKey(schema.Purged, id)}}
	if l.objects {
		gone = append(gone, Change{schema.SegmentKey(schema.Closed, id), []byte{}})
	}
	return gone
}

// SealAll ends the segments that this program writes, and of those of other programs, which go on in new ones, and of programs that are gone, the ones that
// too chooses. It lists all segments.
func (l *Ledger) SealAll(ctx context.Context, too func(segment.Info) bool) ([]segment.Info, error) {
	all, err := l.Segments(ctx) // what is begun after this is left alone
	if err == nil {
		err = l.Seal()
	}
	if err != nil {
		return nil, err
	}
	if !l.objects {
		return l.Segments(ctx)
	}
	for n := range all {
		for !all[n].Sealed && too(all[n]) {
			if all[n], err = l.sealOther(ctx, all[n].ID); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// sealOther seals a segment as it is. What its writer adds meanwhile is looked at the next time.
func (l *Ledger) sealOther(ctx context.Context, id uint32) (info segment.Info, err error) {
	key := schema.SegmentKey(schema.Segment, id)
	var was []byte
	err = l.store.View(func(s Snapshot) error {
		_, err := s.Get(key, func(v []byte) error {
			was = bytes.Clone(v)
			return nil
		})
		return err
	})
	if err != nil {
		return info, err
	}
	if was == nil {
		return info, fmt.Errorf("%w: segment %d is gone", ErrConflict, id)
	}
	if info, err = schema.DecodeSegment(key, was); err != nil || info.Sealed {
		return info, err
	}
	sealed := info
	sealed.Sealed = true
	v, err := schema.EncodeSegment(sealed)
	if err != nil {
		return info, err
	}
	err = l.ChangeIf(Change{key, was}, Change{key, v}, Change{schema.SegmentKey(schema.Closed, id), []byte{}})
	if errors.Is(err, ErrConflict) { // its writer was quicker
		return info, errors.Join(l.Others.sync(ctx), ctx.Err())
	}
	return sealed, err
}
