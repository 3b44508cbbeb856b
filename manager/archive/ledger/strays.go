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
// each to which nothing is added any more, and every commit to a segment is made on the condition that there is none. The record goes when no program is left
// that could have such a commit under way (Prune).

// Strays is a segment store whose objects may be left over.
type Strays interface {
	// Strays lists what is there and in none of these segments.
	Strays(ctx context.Context, committed []segment.Info) ([]segment.Stray, error)
	// Discard removes one. It is no error if it is gone.
	Discard(ctx context.Context, s segment.Stray) error
}

// Closing closes segments, for all programs.
type Closing struct {
	ledger *Ledger
	strays Strays // nil: segments are no objects
}

// Strays gives the segment store as one with objects; false: it has none.
func (c *Closing) Strays() (Strays, bool) { return c.strays, c.strays != nil }

// open is the condition that a segment is not closed; none where segments are no objects.
func (c *Closing) open(id uint32) Change {
	if c.strays == nil {
		return Change{}
	}
	return Change{Key: schema.SegmentKey(schema.Closed, id)}
}

// Close has nothing added to these segments any more, whether the ledger knows them or not.
func (c *Closing) Close(ids []uint32) error {
	b := c.ledger.Batch()
	for _, id := range ids {
		b.Add(Change{schema.SegmentKey(schema.Closed, id), []byte{}})
	}
	return b.Flush()
}

// Prune forgets that segments were closed to which no program can add anything any more, as each that is there began later: programs never go on with the
// segments of others, and no ID is given twice.
func (c *Closing) Prune(ctx context.Context) error {
	l := c.ledger
	if c.strays == nil || !l.Others.Shared() {
		return nil
	}
	newest, err := l.Others.follower.Newest(ctx)
	if err != nil {
		return err
	}
	b := l.Batch()
	err = l.store.View(func(s Snapshot) error {
		return s.Scan([]byte{schema.Closed}, nil, false, func(key, _ []byte) (bool, error) {
			if schema.SegmentOf(key) > newest {
				return false, nil
			}
			b.Add(Change{Key: bytes.Clone(key)})
			return true, ctx.Err()
		})
	})
	return errors.Join(err, b.Flush())
}

// Forgotten are the changes by which the ledger forgets a segment for good.
func (c *Closing) Forgotten(id uint32) []Change {
	gone := []Change{{Key: schema.SegmentKey(schema.Segment, id)}, {Key: schema.SegmentKey(schema.Purged, id)}}
	if c.strays != nil {
		gone = append(gone, Change{schema.SegmentKey(schema.Closed, id), []byte{}})
	}
	return gone
}

// SealAll ends the segments that this program writes, and of those of other programs, which go on in new ones, and of programs that are gone, the ones that
// too chooses. It lists all segments.
func (c *Closing) SealAll(ctx context.Context, too func(segment.Info) bool) ([]segment.Info, error) {
	l := c.ledger
	all, err := l.Segments(ctx) // what is begun after this is left alone
	if err == nil {
		err = l.Seal()
	}
	if err != nil {
		return nil, err
	}
	if c.strays == nil {
		return l.Segments(ctx)
	}
	for n := range all {
		for !all[n].Sealed && too(all[n]) {
			if all[n], err = c.sealOther(ctx, all[n].ID); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// sealOther seals a segment as it is. What its writer adds meanwhile is looked at the next time.
func (c *Closing) sealOther(ctx context.Context, id uint32) (info segment.Info, err error) {
	l := c.ledger
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
	err = changeIf(l, Change{key, was}, Change{key, v}, Change{schema.SegmentKey(schema.Closed, id), []byte{}})
	if errors.Is(err, ErrConflict) { // its writer was quicker
		return info, errors.Join(l.Others.sync(ctx), ctx.Err())
	}
	return sealed, err
}

// writes note what segments have become, each on the condition that it was not closed.
func (c *Closing) writes(changed []segment.Info) (out []Write, err error) {
	for _, s := range changed {
		v, err := schema.EncodeSegment(s)
		if err != nil {
			return nil, err
		}
		out = append(out, Write{If: c.open(s.ID), Changes: []Change{{schema.SegmentKey(schema.Segment, s.ID), v}}, Segment: s.ID})
	}
	return out, nil
}

// changeIf makes changes durable on a condition. If that does not hold, the error is ErrConflict.
func changeIf(l *Ledger, condition Change, changes ...Change) error {
	return l.Commit(&Job{Changes: Fixed(changes), condition: condition})
}
