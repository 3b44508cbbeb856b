package pages

import (
	"bytes"
	"context"
	"errors"
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
	return p.revise(ctx, id, len(hashes), also, func(v *verdicts, n int, out *Revised) error {
		hash := hashes[n]
		return v.page(hash, nil, func(old *pb.Trust, was trust.Page) (trust.Page, bool, error) {
			g := was
			again := g.Withdraw(by)
			out.Again = out.Again || again
			if g == was {
				return g, false, v.resettle(hash, by, old, out)
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
	changed, err := v.standings.disown(g)
	for _, by := range changed {
		if err == nil {
			err = v.take(hash, by, old)
		}
	}
	return err
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

// resettle has a page show something else than what a deliverer delivered: where no version of its record is shown, and where it is the deliverer's word that the page is
// gone, of which no record knows. old is the record.
func (v *verdicts) resettle(hash uint64, by trust.Peer, old *pb.Trust, out *Revised) error {
	m := new(pb.Page)
	key := schema.Key2(schema.Page, uint64(v.id), hash)
	ok, err := ledger.Get(v.snap, key, m)
	if err != nil || !ok || m.Deliverer != uint64(by) || m.Withdrawn {
		return err
	}
	t, found, err := trustOf(v.snap, uint64(v.id), hash)
	if err != nil {
		return err
	}
	if m.Gone && (m.Status >= 400 || !found) { // of a redirect a record knows
		out.Pages++
		out.Again = true
		return firstOf(v.take(hash, by, old), v.settleAs(Withdrawn, m, t, shownOf(t)))
	}
	if !found || shownOf(t) != nil {
		return nil
	}
	return v.settle(m, t, nil)
}

// goneAgain has a page be gone if a deliverer's word for that is the last one that is believed.
func (v *verdicts) goneAgain(hash uint64, by trust.Peer) error {
	m := new(pb.Page)
	ok, err := ledger.Get(v.snap, schema.Key2(schema.Page, uint64(v.id), hash), m)
	if err != nil || !ok || m.Gone && !m.Withdrawn {
		return err
	}
	t, _, err := trustOf(v.snap, uint64(v.id), hash)
	if err != nil {
		return err
	}
	_, c, err := v.goneSince(m.Url, t, nil)
	if err != nil || c == nil || c.Deliverer != uint64(by) {
		return err
	}
	return v.settleAs(Gone, m, t, shownOf(t))
}

// Withheld names what Withhold has kept of a page: by the channel whose page it was then.
type Withheld struct {
	Channel channel.ID
	Hash    uint64 // channel.URLHash
}

// ErrMoved says that a page has become another channel's, and that nothing was done.
var ErrMoved = errors.New("archive: a page is another channel's now")

// OwnerOf is whose page it is now of which Withhold has kept something; of one that is there no more, whose it was.
func OwnerOf(snap ledger.Snapshot, w Withheld) (channel.ID, error) {
	id, ok, err := owner(snap, w.Hash)
	if err != nil || !ok {
		id = w.Channel
	}
	return id, err
}

// GiveBack gives back what Withhold has taken of some pages that are a channel's now: a record that has not changed since becomes what it was, another one as
// trust.Page.Restore makes it. One page must not be named twice. ErrMoved says that the pages of another channel are among them.
func (p *Pages) GiveBack(ctx context.Context, id channel.ID, all []Withheld, by trust.Peer, also Also) error {
	return p.revise(ctx, id, len(all), also, func(v *verdicts, n int, out *Revised) error {
		hash := all[n].Hash
		if now, err := OwnerOf(v.snap, all[n]); err != nil || now != id {
			return firstOf(err, ErrMoved)
		}
		key := schema.Key3(schema.Taken, uint64(by), uint64(all[n].Channel), hash)
		taken := new(pb.Trust)
		if ok, err := ledger.Get(v.snap, key, taken); err != nil || !ok {
			return err
		}
		v.changes = append(v.changes, ledger.Change{Key: key})
		if taken.Cur == nil { // the deliverer's word was that the page is gone, and nothing else was known of it
			out.Pages++
			return v.goneAgain(hash, by)
		}
		told := len(v.entries)
		err := v.page(hash, nil, func(now *pb.Trust, _ trust.Page) (trust.Page, bool, error) {
			g, was := recordOf(now), recordOf(taken)
			was.LastBy, was.LastAt, was.Same = g.LastBy, g.LastAt, g.Same // who came last is not undone
			after := was
			after.Withdraw(by)
			if _, err := v.standings.disown(&after); err != nil {
				return g, false, err
			}
			if g == after {
				g = was
			} else {
				giveBack(&g, &was, by)
			}
			out.Pages++
			return g, true, v.withhold(&g, hash, now)
		})
		if err != nil || slices.ContainsFunc(v.entries[told:], func(e *pb.Entry) bool { return Event(e.Page.Event) != Verified && Event(e.Page.Event) != Unverified }) {
			return err // the page shows another version now, and that looked whether the page was found gone since
		}
		return v.goneAgain(hash, by)
	})
}

// giveBack gives back to a peer what a suspension took of a record that others have changed since. was is the record before: what was not shown then, since an arbiter
// saw otherwise or its delivery was in doubt, is not shown now.
func giveBack(g, was *trust.Page, by trust.Peer) {
	before := *g
	g.Restore(by)
	for _, x := range [][2]*trust.Version{{&g.Cur, &before.Cur}, {&g.Prev, &before.Prev}} {
		v := x[0]
		for _, w := range []*trust.Version{&was.Cur, &was.Prev} {
			if x[1].State != trust.Withdrawn || w.Digest != v.Digest || w.By != v.By || w.At != v.At {
				continue
			}
			if w.State == trust.Withdrawn || w.State == trust.Held && v.State == trust.Provisional {
				v.State = w.State
			}
		}
	}
}

// revise changes the records of a number of pages of a channel in one write. do tells of the n-th what came of it.
func (p *Pages) revise(ctx context.Context, id channel.ID, pages int, also Also, do func(v *verdicts, n int, out *Revised) error) error {
	err := p.decide(ctx, id, nil, func(v *verdicts) (more []ledger.Change, err error) {
		var out Revised
		for n := range pages {
			if err := do(v, n, &out); err != nil {
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
	s := standings{snap: v.snap, url: m.Url, record: t, left: v.left}
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
