package pages

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"shoal/channel"
	pb "shoal/manager/archive/archivepb"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/schema"
	"shoal/manager/trust"
)

// Also is what a step makes durable in the write that it is done with, made of what the step has read. Unless still is as it was, nothing is done: see ledger.Job.
type Also func(ledger.Snapshot, Revised) (changes []ledger.Change, still ledger.Change, err error)

// Revised is what came of a step of a suspension or a pardon.
type Revised struct {
	Pages int  // whose record is another
	Again bool // some of them should be crawled again first
}

// Withhold withdraws what a deliverer said of some pages of a channel, as trust.Page.Withdraw does. What each record was before is kept, for GiveBack. also
// is made durable in the same write. Pages that say nothing of the deliverer stay as they are, so that it may be repeated.
func (p *Pages) Withhold(ctx context.Context, id channel.ID, hashes []uint64, by trust.Peer, also Also) error {
	return p.revise(ctx, id, hashes, also, func(v *verdicts, hash uint64, out *Revised) error {
		return v.page(hash, nil, func(old *pb.Trust, was trust.Page) (trust.Page, bool, error) {
			g := was
			again := g.Withdraw(by)
			out.Again = out.Again || again
			if g == was {
				return g, false, v.resettle(hash, by)
			}
			out.Pages++
			if err := v.take(hash, by, old); err != nil {
				return g, false, err
			}
			return g, true, v.withhold(&g, hash, old)
		})
	})
}

// withhold withdraws from a record what suspended deliverers alone have said, those who vouch for one another together: so a verdict that was on its way when one of
// them was suspended does not bring it back, and a version falls with the last of them. old is the record as it is stored.
func (v *verdicts) withhold(g *trust.Page, hash uint64, old *pb.Trust) error {
	changed, err := v.disown(g)
	for _, by := range changed {
		if err == nil {
			err = v.take(hash, by, old)
		}
	}
	return err
}

// disown takes out of a record what suspended deliverers have said, and tells who they are whose word was in it. Those who vouch come before those who delivered: what
// is left of a version then is what others say.
func (v *verdicts) disown(g *trust.Page) (changed []trust.Peer, err error) {
	for _, by := range slices.Concat(g.Cur.Also[:], g.Prev.Also[:], []trust.Peer{g.Cur.By, g.Prev.By}) {
		suspended, err := v.standings.isSuspended(uint64(by))
		if err != nil {
			return nil, err
		}
		if was := *g; suspended && (g.Withdraw(by) || *g != was) {
			changed = append(changed, by)
		}
	}
	return changed, nil
}

// take keeps what a record was before a deliverer's versions were withdrawn, unless that is kept already.
func (v *verdicts) take(hash uint64, by trust.Peer, old *pb.Trust) error {
	key := schema.Key3(schema.Taken, uint64(by), uint64(v.id), hash)
	known, err := v.snap.Get(key, func([]byte) error { return nil })
	if err == nil && !known {
		v.changes, err = ledger.Put(v.changes, key, old)
	}
	return err
}

// resettle has a page of which no version of its record is shown show something else than what a deliverer delivered.
func (v *verdicts) resettle(hash uint64, by trust.Peer) error {
	m := new(pb.Page)
	key := schema.Key2(schema.Page, uint64(v.id), hash)
	ok, err := ledger.Get(v.snap, key, m)
	if err != nil || !ok || m.Deliverer != uint64(by) || m.Withdrawn {
		return err
	}
	t, found, err := trustOf(v.snap, uint64(v.id), hash)
	if err != nil || !found || shownOf(t) != nil {
		return err
	}
	return v.settle(m, t, nil)
}

// GiveBack gives back what Withhold has taken of some pages of a channel: a record that has not changed since becomes what it was, another one as trust.Page.Restore
// makes it.
func (p *Pages) GiveBack(ctx context.Context, id channel.ID, hashes []uint64, by trust.Peer, also Also) error {
	return p.revise(ctx, id, hashes, also, func(v *verdicts, hash uint64, out *Revised) error {
		key := schema.Key3(schema.Taken, uint64(by), uint64(id), hash)
		taken := new(pb.Trust)
		if ok, err := ledger.Get(v.snap, key, taken); err != nil || !ok {
			return err
		}
		v.changes = append(v.changes, ledger.Change{Key: key})
		return v.page(hash, nil, func(now *pb.Trust, _ trust.Page) (trust.Page, bool, error) {
			g, was := recordOf(now), recordOf(taken)
			was.LastBy, was.LastAt, was.Same = g.LastBy, g.LastAt, g.Same // who came last is not undone
			after := was
			after.Withdraw(by)
			if _, err := v.disown(&after); err != nil {
				return g, false, err
			}
			if g == after {
				g = was
			} else {
				g.Restore(by)
			}
			out.Pages++
			return g, true, v.withhold(&g, hash, now)
		})
	})
}

// revise changes the records of some pages of a channel in one write. do tells of each what came of it.
func (p *Pages) revise(ctx context.Context, id channel.ID, hashes []uint64, also Also, do func(v *verdicts, hash uint64, out *Revised) error) error {
	err := p.decide(ctx, id, nil, func(v *verdicts) (more []ledger.Change, err error) {
		var out Revised
		for _, hash := range hashes {
			if err := do(v, hash, &out); err != nil {
				return nil, err
			}
		}
		more, v.still, err = also(v.snap, out)
		return more, err
	})
	if err != nil {
		return fmt.Errorf("revise channel %d: %w", id, err)
	}
	return nil
}

// lastGood finds the newest capture of a page that may be shown where no version of its record may; nil: there is none.
func (v *verdicts) lastGood(m *pb.Page, t *pb.Trust) (key []byte, c *pb.Capture, err error) {
	s := standings{snap: v.snap, url: m.Url, record: t}
	last := CaptureKey(m.Url, v.now)
	err = v.snap.ScanBack(last[:len(last)-9], append(bytes.Clone(last[:len(last)-9]), bytes.Repeat([]byte{0xff}, 10)...), func(k, value []byte) (bool, error) {
		if len(k) != len(last) || k[len(k)-1] != last[len(last)-1] {
			return true, nil
		}
		n := new(pb.Capture)
		if err := schema.Decode(value, n); err != nil {
			return false, err
		}
		state, err := s.capture(k, n)
		if err != nil {
			return false, err
		}
		if state.Shown() && !n.Said {
			key, c = bytes.Clone(k), proto.Clone(n).(*pb.Capture)
		}
		return c == nil, nil
	})
	return key, c, err
}
