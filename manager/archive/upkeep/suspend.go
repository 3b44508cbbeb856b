package upkeep

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"shoal/channel"
	pb "shoal/manager/archive/archivepb"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/pages"
	"shoal/manager/archive/schema"
	"shoal/manager/trust"
)

// Suspension tells how far the withdrawal of a suspended deliverer's versions is, or what a pardon gives back.
type Suspension struct {
	Deliverer string    `json:"deliverer"` // its number
	Pardon    bool      `json:"pardon,omitempty"`
	Begun     time.Time `json:"begun"`
	Done      bool      `json:"done"`
	Pages     int       `json:"pages"` // withdrawn, or given back, so far
}

// Suspend withdraws everything of a deliverer that is not independently corroborated: its captures are withdrawn from now on, and Run goes through the pages
// whose versions rest on its word. Earlier versions return as current, the page feed tells so, and Config.OnWithdrawn is told which channels should be crawled
// first. Nothing is deleted: what was withdrawn is evidence until PurgePeer. It is durable, and may be repeated.
func (u *Upkeep) Suspend(_ context.Context, by trust.Peer) error { return u.suspend(by, false) }

// Pardon gives a deliverer back what Suspend has withdrawn. What has been crawled since stays as it is.
func (u *Upkeep) Pardon(_ context.Context, by trust.Peer) error { return u.suspend(by, true) }

// suspend makes durable what was asked for.
func (u *Upkeep) suspend(by trust.Peer, pardon bool) error {
	u.suspending.Lock()
	defer u.suspending.Unlock()
	isNew := false
	err := ledger.Revised(func() error {
		var s *pb.Suspension
		var was ledger.Change
		err := u.ledger.View(func(snap ledger.Snapshot) (err error) {
			s, was, err = suspension(snap, uint64(by))
			return err
		})
		running := was.Value != nil
		if isNew = !(!running && pardon || running && s.Pardon == pardon); err != nil || !isNew {
			return err // it is not suspended, or that is so already
		}
		return putSuspension(u.ledger, was, &pb.Suspension{Pardon: pardon, BegunUs: schema.Micros(u.cfg.Clock())})
	})
	if err != nil {
		return fmt.Errorf("suspend %s: %w", ledger.DelivererName(uint64(by)), err)
	}
	if !isNew {
		return nil
	}
	select {
	case u.suspended <- struct{}{}:
	default: // it has been told
	}
	return nil
}

// suspension reads one, and the condition that it is still so.
func suspension(snap ledger.Snapshot, by uint64) (s *pb.Suspension, was ledger.Change, err error) {
	s = new(pb.Suspension)
	was, err = ledger.As(snap, schema.Key(schema.Suspension, by))
	if err == nil && was.Value != nil {
		err = schema.Decode(was.Value, s)
	}
	return s, was, err
}

// putSuspension stores what becomes of a suspension; nil: it is over. ledger.ErrConflict says that another manager has written it since it was read.
func putSuspension(l *ledger.Ledger, was ledger.Change, s *pb.Suspension) (err error) {
	changes := []ledger.Change{{Key: was.Key}}
	if s != nil {
		if changes, err = ledger.Put(nil, was.Key, s); err != nil {
			return err
		}
	}
	return l.Commit(&ledger.Job{Changes: ledger.Fixed(changes), Still: [2]ledger.Change{was}})
}

// Suspensions lists the deliverers that are suspended, and the pardons that are under way.
func (u *Upkeep) Suspensions(ctx context.Context) (out []Suspension, err error) {
	err = u.eachSuspension(ctx, func(by uint64, s *pb.Suspension) error {
		out = append(out, Suspension{Deliverer: ledger.DelivererName(by), Pardon: s.Pardon, Begun: schema.Time(s.BegunUs), Done: s.DoneUs != 0, Pages: int(s.Pages)})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list suspensions: %w", err)
	}
	return out, nil
}

func (u *Upkeep) eachSuspension(ctx context.Context, do func(by uint64, s *pb.Suspension) error) error {
	return u.ledger.View(func(snap ledger.Snapshot) error {
		return snap.Scan([]byte{schema.Suspension}, nil, true, func(key, value []byte) (bool, error) {
			if len(key) != len(schema.Key(schema.Suspension, 0)) {
				return true, nil
			}
			s := new(pb.Suspension)
			if err := schema.Decode(value, s); err != nil {
				return false, err
			}
			return true, firstOf(do(schema.Number(key, 0), s), ctx.Err())
		})
	})
}

// keepSuspending does what was asked for, and goes on with what broke off, until ctx ends.
func (u *Upkeep) keepSuspending(ctx context.Context) {
	u.goOn(ctx, u.suspended, "what suspended peers delivered is not withdrawn yet, will try again", func(ctx context.Context) error {
		err := u.Settle(ctx)
		if ctx.Err() == nil {
			u.unsettled.Store(&err)
		}
		return err
	})
}

// Unsettled is why the last look at what suspended and pardoned peers have delivered did not come to its end; nil: it did.
func (u *Upkeep) Unsettled() error {
	if err := u.unsettled.Load(); err != nil {
		return *err
	}
	return nil
}

// Settle does all that Suspend and Pardon have asked for. Run calls it. What breaks off is gone on with the next time, also after a kill, and keeps nothing else from being done.
func (u *Upkeep) Settle(ctx context.Context) error {
	var failed []error
	tried := map[uint64]bool{}
	for {
		var by uint64
		err := u.eachSuspension(ctx, func(number uint64, s *pb.Suspension) error {
			if s.DoneUs == 0 && by == 0 && !tried[number] {
				by = number
			}
			return nil
		})
		if err != nil || by == 0 {
			return errors.Join(append(failed, err)...)
		}
		for done := false; !done && err == nil; {
			done, err = u.settleSome(ctx, by)
		}
		if err != nil {
			failed, tried[by] = append(failed, fmt.Errorf("settle the suspension of %s: %w", ledger.DelivererName(by), err)), true
		}
	}
}

// The phases of a suspension. A pardon has the last one alone.
const (
	recordsPhase = iota // records that name the deliverer
	pagesPhase          // pages of which nothing was said, or that fell back to another capture of the deliverer
	phases
)

// settleSome does a bounded part of a suspension, or of a pardon. It holds the lock between two calls of suspend. Another manager may write the same suspension
// meanwhile, as when it pardons: then nothing is done of what this one has read.
func (u *Upkeep) settleSome(ctx context.Context, by uint64) (done bool, err error) {
	u.suspending.Lock()
	defer u.suspending.Unlock()
	var s *pb.Suspension
	var was ledger.Change
	var found settleable
	err = u.ledger.View(func(snap ledger.Snapshot) (err error) {
		if s, was, err = suspension(snap, by); err != nil || was.Value == nil {
			return err
		}
		found, err = u.settleable(ctx, snap, by, s)
		return err
	})
	if err != nil || s.BegunUs == 0 || s.DoneUs != 0 {
		return true, err
	}
	s.After = found.last
	switch {
	case !found.none():
		err = u.settlePages(ctx, by, was, s, &found)
	case found.last != nil:
		err = putSuspension(u.ledger, was, s)
	default:
		done, err = u.nextPhase(by, was, s)
	}
	if errors.Is(err, errWritten) || errors.Is(err, pages.ErrMoved) || errors.Is(err, ledger.ErrConflict) && found.none() {
		return false, nil // of what is there now, the next time
	}
	return done && err == nil, err
}

// errWritten says that another manager has written a suspension.
var errWritten = errors.New("another manager has written it")

// settlePages does what was found, with the progress, unless the suspension is not as it was.
func (u *Upkeep) settlePages(ctx context.Context, by uint64, was ledger.Change, s *pb.Suspension, found *settleable) error {
	also := func(snap ledger.Snapshot, r pages.Revised) (changes []ledger.Change, still ledger.Change, err error) {
		if _, now, err := suspension(snap, by); err != nil || !bytes.Equal(now.Value, was.Value) {
			return nil, was, firstOf(err, errWritten)
		}
		n := proto.CloneOf(s) // it may be asked again
		n.Pages += uint64(r.Pages)
		if r.Again {
			changes = append(changes, ledger.Change{Key: schema.Key2(schema.Suspension, by, uint64(found.channel)), Value: []byte{}})
		}
		changes, err = ledger.Put(changes, was.Key, n)
		return changes, was, err
	}
	if s.Pardon {
		return u.pages.GiveBack(ctx, found.channel, found.withheld, trust.Peer(by), also)
	}
	return u.pages.Withhold(ctx, found.channel, found.hashes, trust.Peer(by), also)
}

// nextPhase goes on with the next table, or ends it.
func (u *Upkeep) nextPhase(by uint64, was ledger.Change, s *pb.Suspension) (done bool, err error) {
	key := was.Key
	if s.Phase++; !s.Pardon && s.Phase < phases {
		return false, putSuspension(u.ledger, was, s)
	}
	s.DoneUs = schema.Micros(u.cfg.Clock())
	var channels []channel.ID
	var changes []ledger.Change
	err = u.ledger.View(func(snap ledger.Snapshot) error {
		return snap.Scan(key, nil, false, func(k, _ []byte) (bool, error) {
			if len(k) > len(key) {
				channels = append(channels, channel.ID(schema.Number(k, 1)))
				changes = append(changes, ledger.Change{Key: bytes.Clone(k)})
			}
			return true, nil
		})
	})
	if err != nil {
		return false, err
	}
	u.cfg.Log.Info("what a peer delivered is settled", "deliverer", ledger.DelivererName(by), "pardon", s.Pardon, "pages", s.Pages, "channels", len(channels))
	if len(channels) > 0 && !s.Pardon && u.cfg.OnWithdrawn != nil {
		u.cfg.OnWithdrawn(channels)
	}
	b := u.ledger.Batch()
	b.Add(changes...)
	if err := b.Flush(); err != nil {
		return false, err
	}
	if s.Pardon {
		s = nil
	}
	return true, putSuspension(u.ledger, was, s)
}

// settleable are pages of one channel.
type settleable struct {
	channel  channel.ID
	hashes   []uint64         // of a suspension
	withheld []pages.Withheld // of a pardon
	last     []byte           // key up to which all is among them; nil: all there is
}

func (s *settleable) none() bool { return len(s.hashes)+len(s.withheld) == 0 }

// settleBatch is how many pages are settled in one write.
const settleBatch = 250

// settleable finds the next pages that a suspension or a pardon is about.
func (u *Upkeep) settleable(ctx context.Context, snap ledger.Snapshot, by uint64, s *pb.Suspension) (out settleable, err error) {
	if s.Pardon {
		return withheld(ctx, snap, by, s.After)
	}
	table, concerns := []byte{schema.Trust}, recordNames(by)
	if s.Phase == pagesPhase {
		table, concerns = []byte{schema.Page}, pageOf(by)
	}
	from := table
	if len(s.After) > 0 {
		from = append(bytes.Clone(s.After), 0)
	}
	looked := 0
	err = snap.Scan(table, from, true, func(key, value []byte) (bool, error) {
		yes, err := concerns(value)
		if err != nil {
			return false, err
		}
		id, hash := channel.ID(schema.Number(key, 0)), schema.Number(key, 1)
		if yes && len(out.hashes) > 0 && id != out.channel {
			return false, nil // another channel's: the next time
		}
		if yes {
			out.channel = id
			out.hashes = append(out.hashes, hash)
		}
		looked++
		out.last = append(out.last[:0], key...)
		return looked < lookBatch && len(out.hashes) < settleBatch, ctx.Err()
	})
	return out, err
}

// withheld finds the next pages that a pardon is about, behind a key. They are of one channel now; those in between that are of others come the next time, when these are
// done and gone.
func withheld(ctx context.Context, snap ledger.Snapshot, by uint64, after []byte) (out settleable, err error) {
	table := schema.Key(schema.Taken, by)
	from := table
	if len(after) > 0 {
		from = append(bytes.Clone(after), 0)
	}
	looked, others := 0, false
	seen := map[uint64]bool{} // a page may be there twice, of two channels
	err = snap.Scan(table, from, false, func(key, _ []byte) (bool, error) {
		w := pages.Withheld{Channel: channel.ID(schema.Number(key, 1)), Hash: schema.Number(key, 2)}
		now, err := pages.OwnerOf(snap, w)
		if err != nil {
			return false, err
		}
		if looked == 0 {
			out.channel = now
		}
		looked++
		if now != out.channel || seen[w.Hash] {
			others = true
			return looked < settleBatch, ctx.Err()
		}
		seen[w.Hash] = true
		out.withheld = append(out.withheld, w)
		if !others {
			out.last = append(out.last[:0], key...)
		}
		return looked < settleBatch, ctx.Err()
	})
	return out, err
}

// recordNames tells whether a page's record names a deliverer.
func recordNames(by uint64) func(value []byte) (bool, error) {
	t := new(pb.Trust)
	return func(value []byte) (bool, error) {
		t.Reset()
		if err := schema.Decode(value, t); err != nil {
			return false, err
		}
		return pages.Names(t, by), nil
	}
}

// pageOf tells whether the state of a page is what a deliverer delivered.
func pageOf(by uint64) func(value []byte) (bool, error) {
	m := new(pb.Page)
	return func(value []byte) (bool, error) {
		m.Reset()
		err := schema.Decode(value, m)
		return m.Deliverer == by && !m.Withdrawn, err
	}
}
