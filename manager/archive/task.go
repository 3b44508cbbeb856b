package archive

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/dgraph-io/badger/v4"

	"shoal/channel"
	"shoal/channel/lease"
	"shoal/internal/wire/uplink"
	pb "shoal/manager/archive/archivepb"
)

// lock takes a channel, read from the database if it is not in memory.
func (a *Archive) lock(id channel.ID) (*held[slot], error) {
	s := a.slots.lock(id)
	if err := s.v.load(a.db, id); err != nil {
		a.slots.unlock(id, s, false)
		return nil, fmt.Errorf("%w: channel %d: %w", ErrStorage, id, err)
	}
	return s, nil
}

// unlock gives it back; what has a lease stays in memory.
func (a *Archive) unlock(id channel.ID, s *held[slot]) {
	a.slots.unlock(id, s, s.v.fence.Running())
}

// watch has the end of a lease noticed.
func (a *Archive) watch(id channel.ID, s *slot) {
	if at := s.fence.Deadline(); !at.IsZero() && !s.timed {
		s.timed = true
		a.timers.set(id, at)
	}
}

// take makes a step durable and, only then, the channel's state. n is the channel after the step; j says what else is to be durable.
func (a *Archive) take(id channel.ID, s *slot, n slot, step lease.Step, j *job) error {
	if !step.Persist {
		return nil
	}
	v, err := n.value()
	if err != nil {
		return err
	}
	also := j.changes
	was, is := s.fence.Running(), n.fence.Running()
	j.changes = func(file uint32, base uint64) ([]kv, error) {
		out := []kv{{key1(keyChannel, uint64(id)), v}}
		if is && !was {
			out = append(out, kv{key1(keyLease, uint64(id)), []byte{}})
		} else if was && !is {
			out = append(out, kv{key1(keyLease, uint64(id)), nil})
		}
		if also == nil {
			return out, nil
		}
		more, err := also(file, base)
		return append(out, more...), err
	}
	if e := step.Event; e.Kind != 0 {
		j.entries = append(j.entries, &pb.Entry{
			Kind: uint32(e.Kind), Channel: uint64(id), Gen: uint64(e.Gen), WhenUs: micros(a.cfg.Clock()), Peer: n.peer,
			Progress: e.Progress, UntilUs: micros(e.Until), Report: j.report,
		})
	}
	if err := a.commit(j); err != nil {
		return err
	}
	*s = n
	a.watch(id, s)
	return nil
}

// Deposit leaves a task's body to be claimed, before the task is offered. It may be repeated. A generation that the archive has seen
// already is answered by a FencedError.
func (a *Archive) Deposit(ctx context.Context, signed channel.Signed, body []byte) error {
	h, err := a.cfg.Verify(a.cfg.Clock(), signed)
	if err != nil {
		return fmt.Errorf("deposit: %w", err)
	}
	if len(body) > channel.MaxBody || len(body) != h.BodyBytes || sha256.Sum256(body) != h.BodySHA256 {
		return fmt.Errorf("%w: channel %d, generation %d: body of %d bytes is not the one of the header", ErrBadTask, h.Channel, h.Gen, len(body))
	}
	s, err := a.lock(h.Channel)
	if err != nil {
		return err
	}
	defer a.unlock(h.Channel, s)
	n := s.v
	step := n.fence.Deposit(h.Gen)
	if step.Reply.Status == lease.Fenced {
		if d, err := a.deposit(h.Channel, h.Gen); err == nil && bytes.Equal(d.raw, signed.Raw) && h.Gen > s.v.fence.Gen {
			return nil
		}
		return &FencedError{Channel: h.Channel, Gen: h.Gen, Highest: step.Reply.Highest}
	}
	v, err := encode(&pb.Deposit{Signed: signed.Marshal(), Body: body})
	if err != nil {
		return err
	}
	return a.take(h.Channel, &s.v, n, step, &job{grows: true, changes: func(uint32, uint64) ([]kv, error) {
		return []kv{{key2(keyDeposit, uint64(h.Channel), uint64(h.Gen)), v}}, nil
	}})
}

// deposit is a task as the manager left it.
type deposit struct {
	raw    []byte // header, as it was signed
	header channel.Header
	body   []byte
}

// errNoDeposit says that there is no such task.
var errNoDeposit = errors.New("archive: task was not deposited")

// deposit reads what was deposited for a generation.
func (a *Archive) deposit(id channel.ID, gen channel.Gen) (d deposit, err error) {
	var m pb.Deposit
	err = a.db.View(func(txn *badger.Txn) error {
		ok, err := get(txn, key2(keyDeposit, uint64(id), uint64(gen)), &m)
		if err == nil && !ok {
			err = errNoDeposit
		}
		return err
	})
	if err != nil {
		return d, err
	}
	signed, err := channel.ParseSigned(m.Signed)
	if err != nil {
		return d, err
	}
	h, err := channel.ParseHeader(signed.Raw)
	return deposit{signed.Raw, h, m.Body}, err
}

// shown finds the deposit of a task that a peer shows. The manager's signature need not be checked: a header is genuine if it is the
// one that was deposited. ok is false where nothing was.
func (a *Archive) shown(signed channel.Signed) (h channel.Header, d deposit, ok bool, err error) {
	if h, err = channel.ParseHeader(signed.Raw); err != nil {
		return h, d, false, fmt.Errorf("%w: %w", ErrBadTask, err)
	}
	d, err = a.deposit(h.Channel, h.Gen)
	switch {
	case errors.Is(err, errNoDeposit):
		return h, d, false, nil
	case err != nil:
		return h, d, false, fmt.Errorf("%w: %w", ErrStorage, err)
	case !bytes.Equal(d.raw, signed.Raw):
		return h, d, false, fmt.Errorf("%w: channel %d, generation %d: not the header that was deposited", ErrBadTask, h.Channel, h.Gen)
	}
	return h, d, true, nil
}

// Claim binds a task to the first peer that asks for it, and brings its body and the state from which to go on.
func (a *Archive) Claim(ctx context.Context, peer string, signed channel.Signed) (uplink.Claimed, error) {
	h, d, ok, err := a.shown(signed)
	if err != nil {
		return uplink.Claimed{}, fmt.Errorf("claim: %w", err)
	}
	s, err := a.lock(h.Channel)
	if err != nil {
		return uplink.Claimed{}, err
	}
	defer a.unlock(h.Channel, s)
	now := a.cfg.Clock()
	if !ok && h.Gen > s.v.fence.Gen {
		return uplink.Claimed{Reply: lease.Reply{Status: lease.Unclaimed, Seq: s.v.fence.Seq, Head: s.v.fence.Head}}, nil
	}
	n := s.v
	step := n.fence.Claim(now, lease.PeerOf(peer), h.Gen, h.Latest, a.cfg.Terms)
	j := &job{grows: true}
	if step.Persist {
		n.peer, n.host, n.latest, n.scope = peer, h.Host, h.Latest, nil
		n.soFar.claimed(now)
		old, err := a.older(h.Channel, h.Gen)
		if err != nil {
			return uplink.Claimed{}, err
		}
		j.changes = func(uint32, uint64) ([]kv, error) { return old, nil }
	}
	if err := a.take(h.Channel, &s.v, n, step, j); err != nil {
		return uplink.Claimed{}, err
	}
	out := uplink.Claimed{Reply: step.Reply}
	if step.Reply.Status == lease.Granted {
		out.Body = d.body
		if out.Resume, err = a.resume(h.Channel, s.v.crawl, step.Reply); err != nil {
			return uplink.Claimed{}, err
		}
	}
	return out, nil
}

// older deletes the deposits of generations below gen: they can never be claimed.
func (a *Archive) older(id channel.ID, gen channel.Gen) (out []kv, err error) {
	err = a.db.View(func(txn *badger.Txn) error {
		return scan(txn, key1(keyDeposit, uint64(id)), nil, false, func(key []byte, _ *badger.Item) (bool, error) {
			if channel.Gen(binary.BigEndian.Uint64(key[9:])) < gen {
				out = append(out, kv{append([]byte(nil), key...), nil})
			}
			return true, nil
		})
	})
	return out, err
}

// Renew answers what a task has left; it lengthens the wait for an unclaimed one up to its latest start, and nothing else.
func (a *Archive) Renew(ctx context.Context, peer string, signed channel.Signed) (lease.Reply, error) {
	h, _, ok, err := a.shown(signed)
	if err != nil {
		return lease.Reply{}, fmt.Errorf("renew: %w", err)
	}
	s, err := a.lock(h.Channel)
	if err != nil {
		return lease.Reply{}, err
	}
	defer a.unlock(h.Channel, s)
	now := a.cfg.Clock()
	if !ok && h.Gen > s.v.fence.Gen {
		return lease.Reply{Status: lease.Unclaimed, Seq: s.v.fence.Seq, Head: s.v.fence.Head}, nil
	}
	n := s.v
	step := n.fence.Renew(now, lease.PeerOf(peer), h.Gen, h.Latest, a.cfg.Terms)
	return step.Reply, a.take(h.Channel, &s.v, n, step, &job{})
}

// Release gives a claimed task back, so that another peer may go on at once.
func (a *Archive) Release(ctx context.Context, peer string, id channel.ID, gen channel.Gen) (lease.Reply, error) {
	s, err := a.lock(id)
	if err != nil {
		return lease.Reply{}, err
	}
	defer a.unlock(id, s)
	n := s.v
	step := n.fence.Release(lease.PeerOf(peer), gen)
	return step.Reply, a.take(id, &s.v, n, step, &job{})
}

// Expire ends the leases whose time has come. Run calls it.
func (a *Archive) Expire(ctx context.Context) error {
	now := a.cfg.Clock()
	for ctx.Err() == nil {
		id, ok := a.timers.due(now)
		if !ok {
			return nil
		}
		if err := a.expire(id, now); err != nil {
			a.timers.set(id, now)
			return err
		}
	}
	return nil
}

func (a *Archive) expire(id channel.ID, now time.Time) error {
	s, err := a.lock(id)
	if err != nil {
		return err
	}
	defer a.unlock(id, s)
	n := s.v
	step := n.fence.Tick(now)
	if err := a.take(id, &s.v, n, step, &job{}); err != nil {
		return err
	}
	s.v.timed = false
	a.watch(id, &s.v)
	return nil
}

// resume gathers from where a crawl goes on: what its chunks added to the to-do list and what is stored, without what they fetched.
func (a *Archive) resume(id channel.ID, from uint64, r lease.Reply) (channel.Resume, error) {
	out := channel.Resume{Seq: r.Seq, Head: r.Head}
	err := a.db.View(func(txn *badger.Txn) error {
		done := map[uint64]struct{}{}
		var parts []channel.Frontier
		err := scan(txn, key1(keyResume, uint64(id)), key2(keyResume, uint64(id), from), true, func(_ []byte, item *badger.Item) (bool, error) {
			return true, item.Value(func(b []byte) error {
				if len(b) == 0 || b[0] != valueV1 {
					return fmt.Errorf("%w: resume of %d bytes", errValue, len(b))
				}
				part, err := channel.ParseResume(b[1:])
				if err != nil {
					return err
				}
				for _, u := range part.Done {
					if _, ok := done[u]; !ok && len(out.Done) < channel.MaxDone {
						done[u] = struct{}{}
						out.Done = append(out.Done, u)
					}
				}
				parts = append(parts, part.Frontier...)
				return nil
			})
		})
		if err != nil {
			return err
		}
		stored, err := standing(txn, id)
		if err != nil {
			return err
		}
		parts = append(parts, stored...)
		room := channel.MaxResume - 10*len(out.Done) - 1024
		for _, f := range parts {
			u := channel.URLHash(f.URL)
			if _, ok := done[u]; ok {
				continue
			}
			done[u] = struct{}{}
			if room -= len(f.URL) + 16; room < 0 || len(out.Frontier) >= channel.MaxFrontier {
				break // found again by links when the channel is crawled the next time
			}
			out.Frontier = append(out.Frontier, f)
		}
		return nil
	})
	if err != nil {
		return channel.Resume{}, fmt.Errorf("%w: resume of channel %d: %w", ErrStorage, id, err)
	}
	return out, nil
}
