package evidence

import (
	"bytes"
	"context"
	"fmt"

	"shoal/channel"
	pb "shoal/manager/archive/archivepb"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/schema"
	"shoal/manager/trust"
)

// Take implements ledger.Pages for tasks that were deposited aside: their pages are answers. Where there is no room for a body, the answer says so.
func (r *Room) Take(_ context.Context, set ledger.PageSet) (j *ledger.Job, told ledger.Retold, done func(), err error) {
	r.one.Lock()
	defer r.one.Unlock()
	if err := r.count(); err != nil {
		return nil, told, nil, err
	}
	var changes []ledger.Change
	most := r.cfg.MaxBytes / shares // of one task
	for i := range set.Pages {
		p := &set.Pages[i]
		f := &Fetch{
			URL: p.URL, Final: leads(p.URL, p.Status, p.Header), Status: p.Status, Header: p.Header, Body: p.Body, Fetched: p.Fetched,
			By: trust.Peer(set.Deliverer), Error: p.Error, Short: p.Truncated && p.Error != "", Raw: p.Digest,
		}
		m := r.stored(f, 0)
		more := int64(len(m.Body))
		fits := more <= most
		if fits {
			if fits, err = r.room(more, 0); err != nil {
				return nil, told, nil, err
			}
		}
		if !fits {
			leaveOut(m, "the evidence room is full")
			more = 0
		}
		most -= more
		if changes, err = ledger.Put(changes, schema.Key3(schema.Answer, uint64(set.Channel), uint64(set.Gen), channel.URLHash(p.URL)), m); err != nil {
			return nil, told, nil, err
		}
		r.adds(more)
	}
	return &ledger.Job{Changes: ledger.Fixed(changes)}, told, func() {}, nil
}

// Answers reads what the task of an audit has brought, in no particular order.
func (r *Room) Answers(ctx context.Context, id channel.ID, gen channel.Gen) (out []*Fetch, err error) {
	err = r.ledger.View(func(snap ledger.Snapshot) error {
		return snap.Scan(schema.Key2(schema.Answer, uint64(id), uint64(gen)), nil, true, func(_, value []byte) (bool, error) {
			m := new(pb.Fetch)
			if err := schema.Decode(value, m); err != nil {
				return false, err
			}
			f, err := r.fetchIn(m)
			out = append(out, f)
			return err == nil, firstOf(err, ctx.Err())
		})
	})
	if err != nil {
		return nil, fmt.Errorf("answers of audit %d, generation %d: %w", id, gen, err)
	}
	return out, nil
}

// DropAnswers forgets what the tasks of an audit have brought, up to a generation.
func (r *Room) DropAnswers(ctx context.Context, id channel.ID, gen channel.Gen) error {
	r.one.Lock()
	defer r.one.Unlock()
	b, freed := r.ledger.Batch(), int64(0)
	err := r.ledger.View(func(snap ledger.Snapshot) error {
		m := new(pb.Fetch)
		return snap.Scan(schema.Key(schema.Answer, uint64(id)), nil, true, func(key, value []byte) (bool, error) {
			if channel.Gen(schema.Number(key, 1)) > gen {
				return false, nil
			}
			m.Reset()
			if err := schema.Decode(value, m); err != nil {
				return false, err
			}
			freed += int64(len(m.Body))
			b.Add(ledger.Change{Key: bytes.Clone(key)})
			return true, ctx.Err()
		})
	})
	if err = firstOf(err, b.Flush()); err == nil {
		r.used = max(r.used-freed, 0)
	}
	if err != nil {
		return fmt.Errorf("drop the answers of audit %d: %w", id, err)
	}
	return nil
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
