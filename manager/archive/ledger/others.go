package ledger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"shoal/channel"
	"shoal/channel/lease"
	"shoal/internal/wire/uplink"
	pb "shoal/manager/archive/archivepb"
	"shoal/manager/archive/schema"
)

// Other programs may write to the same store (Follower). Any of them may store any chunk, since each write of a channel is made on the condition that
// the channel's record is still the one that was read. What is in memory of a channel that another program has written is read again; and before a peer
// is told that it does not hold what it says, all that others have stored is read.

// otherClock is how much later this program ends a lease that another one has granted, whose clock may be behind.
const otherClock = 10 * time.Second

// Others is what is known of other programs that write to the same ledger.
type Others struct {
	ledger    *Ledger
	follower  Follower               // nil: no other program writes
	making    atomic.Pointer[func()] // waits until the chunks that are being made are stored; nil: none can be
	answers   sync.WaitGroup         // tasks of answerSoon
	closing   chan struct{}          // closed to end them
	answering sync.Mutex             // held while a wait is read and answered

	hearing sync.Mutex // of what follows; held while something is heard
	opening bool       // the ledger is being opened: what is heard is kept for later
	early   []Write    // what was heard then
	ended   bool

	mu      sync.Mutex
	changed map[channel.ID]struct{} // channels that must be read again
}

// begin begins to hear what other programs write, where the store has such. It comes before all that is read of the ledger, so that no change is missed.
func (o *Others) begin(l *Ledger) {
	o.ledger = l
	f, ok := several(l.store)
	if !ok {
		return
	}
	o.follower, o.changed, o.closing, o.opening = f, map[channel.ID]struct{}{}, make(chan struct{}), true
	f.Hear(o.heard)
}

// listen takes in what was heard while the ledger was opened, and what is heard from now on.
func (o *Others) listen(ctx context.Context) error {
	if !o.Shared() {
		return nil
	}
	o.hearing.Lock()
	o.take(o.early)
	o.early, o.opening = nil, false
	o.hearing.Unlock()
	if err := o.follower.Sync(ctx); err != nil {
		return err
	}
	return o.answer(ctx) // nothing is being made yet
}

// end ends what begin began, but for the store's own part.
func (o *Others) end() {
	if !o.Shared() {
		return
	}
	o.hearing.Lock()
	if !o.ended {
		o.ended = true
		close(o.closing)
		o.follower.End()
	}
	o.hearing.Unlock()
	o.answers.Wait()
}

// several gives the store as one to which other programs write; false: none does.
func several(s Store) (Follower, bool) {
	f, ok := s.(Follower)
	return f, ok && f.Several()
}

// heard is told what another program has written.
func (o *Others) heard(writes []Write) {
	o.hearing.Lock()
	defer o.hearing.Unlock()
	if !o.opening {
		o.take(writes)
		return
	}
	for i := range writes {
		kept := Write{}
		for _, c := range writes[i].Changes {
			switch c.Key[0] {
			case schema.Channel, schema.Segment, schema.State: // take looks at no others
				kept.Changes = append(kept.Changes, Change{bytes.Clone(c.Key), bytes.Clone(c.Value)})
			}
		}
		if len(kept.Changes) > 0 {
			o.early = append(o.early, kept)
		}
	}
}

// take takes in what another program has written.
func (o *Others) take(writes []Write) {
	news := false
	for i := range writes {
		for _, c := range writes[i].Changes {
			switch c.Key[0] {
			case schema.Channel:
				o.heardChannel(channel.ID(schema.Number(c.Key, 0)), c.Value)
			case schema.Segment:
				o.heardSegment(c)
			case schema.State:
				if bytes.Equal(c.Key, waitKey) && !o.ended {
					o.answers.Go(o.answerSoon)
				}
			}
		}
		news = news || len(writes[i].Entries) > 0
	}
	if news {
		o.ledger.bell.ring()
	}
}

func (o *Others) heardChannel(id channel.ID, value []byte) {
	o.mu.Lock()
	o.changed[id] = struct{}{}
	o.mu.Unlock()
	l := o.ledger
	var m pb.Channel
	if value == nil || schema.Decode(value, &m) != nil {
		return // who reads it is told
	}
	l.accounts.note(m.Account)
	if f, err := lease.ParseFence(m.Fence); err == nil && f.Running() {
		l.deadlines.set(id, f.Deadline().Add(otherClock)) // the program that granted the lease ends it, or this one does if that is gone
	}
}

func (o *Others) heardSegment(c Change) {
	s, ok := o.ledger.segments.(Learner)
	if !ok {
		return
	}
	if c.Value == nil {
		s.Unlearn(schema.SegmentOf(c.Key))
	} else if info, err := schema.DecodeSegment(c.Key, c.Value); err == nil {
		s.Learn(info)
	}
}

// fresh drops what is in memory of a channel that another program has written since.
func (o *Others) fresh(id channel.ID, c *channelState) {
	if !o.Shared() {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, changed := o.changed[id]; changed {
		delete(o.changed, id)
		*c = channelState{}
	}
}

// Shared reports whether other programs may write to the same ledger.
func (o *Others) Shared() bool { return o.follower != nil }

// Out says why this program can store nothing more until the ledger is opened anew, such as that others took it for gone. Nil: it can.
func (o *Others) Out() error {
	if !o.Shared() {
		return nil
	}
	if err := o.ledger.commits.Failed(); errors.Is(err, ErrReplaced) {
		return err
	}
	return o.follower.Out()
}

// ShutOut has other programs write nothing more, by their names, and returns when all that they did can be read here.
func (o *Others) ShutOut(ctx context.Context, writers []string) error {
	if !o.Shared() {
		return nil
	}
	return o.follower.ShutOut(ctx, writers)
}

// Earliest is the first of some cursors of the feed for the manager. One that this archive does not know is before all.
func (o *Others) Earliest(cursors ...string) (first string, err error) {
	least := uint64(math.MaxUint64)
	for _, c := range cursors {
		seq, err := o.ledger.Position(schema.Feed, c)
		if err != nil {
			return "", nil
		}
		if seq < least {
			first, least = c, seq
		}
	}
	return first, nil
}

// sync has all known here that others have stored.
func (o *Others) sync(ctx context.Context) error {
	if !o.Shared() {
		return nil
	}
	return o.follower.Sync(ctx)
}

// sure asks again where the first answer was no, or another program was quicker: then all that others have stored is known here.
func sure[T any](ctx context.Context, l *Ledger, no func(T) bool, ask func() (T, error)) (T, error) {
	out, err := ask()
	_, closes := l.Closing.Strays() // then a conflict may say that a segment was closed
	if err != nil && (!errors.Is(err, ErrConflict) || !closes && !l.Others.Shared()) || err == nil && (!l.Others.Shared() || !no(out)) {
		return out, err
	}
	if serr := l.Others.sync(ctx); serr != nil {
		return out, errors.Join(err, fmt.Errorf("%w: %w", ErrStorage, serr))
	}
	return ask()
}

// denied reports whether a reply says that the peer does not hold what it says.
func denied(r lease.Reply) bool {
	switch r.Status {
	case lease.Fenced, lease.Behind, lease.Held, lease.Unclaimed:
		return true
	}
	return false
}

func claimDenied(c uplink.Claimed) bool { return denied(c.Reply) }
