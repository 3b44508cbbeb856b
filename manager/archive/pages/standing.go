package pages

import (
	"bytes"
	"context"
	"errors"

	pb "shoal/manager/archive/archivepb"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/schema"
	"shoal/manager/trust"
)

// standing gives up to limit changes that tell of the pages that are there, if that is what a cursor asks for, and the cursor behind them. When all are told, that is
// the one from which the feed goes on. Pages come by their URLs' hashes, which stay when a page becomes another channel's. What changes meanwhile is told by the feed, and
// perhaps here before it.
func (p *Pages) standing(ctx context.Context, cursor string, limit int, c *chosen) (changes []Change, next string, err error) {
	at, ok, err := ledger.StandingOf(ctx, p.ledger, cursor)
	if err != nil || !ok {
		return nil, cursor, err
	}
	for more := true; more && len(changes) < limit; {
		err = p.ledger.View(func(snap ledger.Snapshot) (err error) {
			more, err = p.someStanding(ctx, snap, &at, limit, c, &changes)
			return err
		})
		if err != nil {
			return nil, "", err
		}
		if !more {
			return changes, p.ledger.Cursor(schema.Changes, at.Feed), nil
		}
	}
	return changes, at.Cursor(p.ledger), nil
}

// someStanding looks at the next pages, filterBatch at most; false: there are no more.
func (p *Pages) someStanding(ctx context.Context, snap ledger.Snapshot, at *ledger.Standing, limit int, c *chosen, changes *[]Change) (more bool, err error) {
	var start []byte
	if !at.None {
		start = append(schema.Key(schema.Owner, at.Last), 0)
	}
	s, looked := standings{snap: snap}, 0
	err = snap.Scan([]byte{schema.Owner}, start, false, func(key, _ []byte) (bool, error) {
		if more = looked == filterBatch || len(*changes) >= limit; more {
			return false, nil
		}
		looked++
		at.Last, at.None = schema.Number(key, 0), false
		n, err := s.standing(at.Last, c)
		if err == nil && n != nil {
			n.Cursor = at.Cursor(p.ledger)
			*changes = append(*changes, *n)
		}
		return true, firstOf(err, ctx.Err())
	})
	return more, err
}

// standing tells of a page as if it had just been created; nil: it is not there, or not wanted. What it has is its last visit that is wanted, and whose delivery the
// version is.
func (s *standings) standing(url uint64, c *chosen) (*Change, error) {
	id, ok, err := owner(s.snap, url)
	if err != nil || !ok {
		return nil, err
	}
	m := new(pb.Page)
	if ok, err := ledger.Get(s.snap, schema.Key2(schema.Page, uint64(id), url), m); err != nil || !ok || m.Gone || m.Withdrawn {
		return nil, err
	}
	v, when, state, err := s.find(m.Url, always, func(v *pb.Capture, state trust.State) bool {
		return state.Shown() && (state == trust.Verified || !c.verified) && statusOf(v) >= 200 && statusOf(v) < 300
	})
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	by := v.Deliverer
	if m.Deliverer != 0 && bytes.Equal(v.Sha256, m.Sha256) {
		by = m.Deliverer // who saw it first, as the feed says
	}
	if !c.wants(by, v.ShowsVisitor) {
		return nil, nil
	}
	n := &Change{
		When: when, Channel: id, URL: m.Url, Event: Created, Fetched: when, Status: int(statusOf(v)), Digest: v.Digest, Mime: v.Mime,
		State: StateName(state), Deliverer: delivererOf(by), ShowsVisitor: v.ShowsVisitor,
		at: schema.Location(v.At), original: schema.Location(v.Original),
	}
	if c.verified {
		n.Event = Verified // which stands for created and changed there
	}
	return n, nil
}
