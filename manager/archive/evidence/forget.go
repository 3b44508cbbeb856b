package evidence

import (
	"bytes"
	"context"
	"fmt"

	"shoal/manager/archive/ledger"
	"shoal/manager/archive/schema"
	"shoal/manager/trust"

	pb "shoal/manager/archive/archivepb"
)

// Forget drops what is older than it is kept, and tells how many cases and answers that were.
func (r *Room) Forget(ctx context.Context) (dropped int, err error) {
	r.one.Lock()
	defer r.one.Unlock()
	now := r.cfg.Clock()
	var old []uint64
	err = r.each(ctx, func(number uint64, m *pb.Case) error {
		if m.ClosedUs != 0 && now.Sub(schema.Time(m.ClosedUs)) >= r.cfg.Keep {
			old = append(old, number)
		}
		return nil
	})
	b := r.ledger.Batch()
	for _, number := range old {
		drop(b, number)
	}
	dropped = len(old)
	if err == nil {
		err = r.ledger.View(func(snap ledger.Snapshot) error {
			m := new(pb.Fetch)
			return snap.Scan([]byte{schema.Answer}, nil, true, func(key, value []byte) (bool, error) {
				m.Reset()
				if err := schema.Decode(value, m); err != nil {
					return false, err
				}
				if now.Sub(schema.Time(m.StoredUs)) >= r.cfg.Answers {
					b.Add(ledger.Change{Key: bytes.Clone(key)})
					dropped++
				}
				return true, ctx.Err()
			})
		})
	}
	r.counted = false
	if err = firstOf(err, b.Flush()); err != nil {
		return 0, fmt.Errorf("forget old evidence: %w", err)
	}
	return dropped, nil
}

// drop deletes a case.
func drop(b *ledger.Batch, number uint64) {
	b.Add(ledger.Change{Key: caseKey(number)})
	for s := Side(1); s < sides; s++ {
		b.Add(ledger.Change{Key: sideKey(number, s)})
	}
}

// Purge drops all evidence of a peer: the cases in which it is accused, or that it has lost, and what it fetched as a checker. Of a case that another peer has lost the
// rest stays: it is what the operator decides by, and where that peer objects.
func (r *Room) Purge(ctx context.Context, peer trust.Peer) error {
	r.one.Lock()
	defer r.one.Unlock()
	b := r.ledger.Batch()
	var others []uint64
	err := r.each(ctx, func(number uint64, m *pb.Case) error {
		if m.Accused == uint64(peer) || m.Loser == uint64(peer) {
			drop(b, number)
		} else if m.Accuser == uint64(peer) || m.Sides>>Second != 0 {
			others = append(others, number)
		}
		return nil
	})
	for _, number := range others {
		if err == nil {
			err = r.dropSides(b, number, uint64(peer))
		}
	}
	if err == nil {
		err = r.ledger.View(func(snap ledger.Snapshot) error {
			m := new(pb.Fetch)
			return snap.Scan([]byte{schema.Answer}, nil, true, func(key, value []byte) (bool, error) {
				m.Reset()
				if err := schema.Decode(value, m); err != nil {
					return false, err
				}
				if m.By == uint64(peer) {
					b.Add(ledger.Change{Key: bytes.Clone(key)})
				}
				return true, ctx.Err()
			})
		})
	}
	r.counted = false
	if err = firstOf(err, b.Flush()); err != nil {
		return fmt.Errorf("purge the evidence of %s: %w", ledger.DelivererName(uint64(peer)), err)
	}
	return nil
}

// dropSides deletes what a peer fetched for a case.
func (r *Room) dropSides(b *ledger.Batch, number, peer uint64) error {
	return r.ledger.View(func(snap ledger.Snapshot) error {
		for s := Checked; s < sides; s++ {
			f := new(pb.Fetch)
			ok, err := ledger.Get(snap, sideKey(number, s), f)
			if err != nil {
				return err
			}
			if ok && f.By == peer {
				b.Add(ledger.Change{Key: sideKey(number, s)})
			}
		}
		return nil
	})
}

// PurgeAll is Purge of several deliverers.
func (r *Room) PurgeAll(ctx context.Context, deliverers []uint64) error {
	for _, number := range deliverers {
		if err := r.Purge(ctx, trust.Peer(number)); err != nil {
			return err
		}
	}
	return nil
}
