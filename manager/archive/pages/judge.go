package pages

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"shoal/channel"
	pb "shoal/manager/archive/archivepb"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/schema"
	"shoal/manager/trust"
)

// Judged is the record of one page as the manager's trust.Machine has left it.
type Judged struct {
	Hash uint64 // channel.URLHash
	Page trust.Page
	// Was is the record as it was read: then a page of which nothing new is said costs nothing. The zero Page: not known.
	Was trust.Page
	// Worth is what there is to be credited for, if the version becomes verified by this; nil: all of it.
	Worth *Worth
}

// Worth is how much a version is credited for that was seen alike, and not with the same bytes. What nobody sees could be of any size, and differ each time.
type Worth struct {
	Bytes   int  // at most so many: of the smaller of the two
	Nothing bool // the version before was alike too
}

// judgeBatch is how many pages are judged in one write, and with one hold of their host.
const judgeBatch = 300

// Judge stores what a trust.Machine made of pages of a channel. of is the Delivery that it took in; nil: none, it ruled on something else.
//
// Pages whose shown version is another now change with it, and the page feed tells so: Withdrawn where a version is not shown any more, with the version
// that is shown instead; Changed where a version that was held back is shown after all; Verified where one is corroborated. All that is said of one page is
// one durable write, of judgeBatch pages at most. It may be repeated: a page that was judged of the same Delivery is left as it is, and a ruling that is
// stored already changes nothing. When all of a Delivery is stored, it is forgotten. So the manager calls Judge before it commits the feed's cursor, and
// after a kill reads the Delivery again, which then has the rest.
//
// Judge is the only writer of these records. Of one channel one call runs at a time.
func (p *Pages) Judge(ctx context.Context, id channel.ID, of *Delivery, all []Judged) error {
	all = slices.DeleteFunc(slices.Clone(all), func(j Judged) bool { return j.Was.Cur.State != trust.None && skippable(&j.Was, &j.Page) })
	slices.SortFunc(all, func(x, y Judged) int { return cmp.Compare(x.Hash, y.Hash) })
	var chunks []ledger.Change // that are forgotten
	if of != nil {
		chunks = of.chunks
	}
	all, err := p.withoutIdle(id, all, of)
	if err != nil {
		return fmt.Errorf("judge channel %d: %w", id, err)
	}
	for len(all) > 0 {
		part := all[:min(len(all), judgeBatch)]
		all = all[len(part):]
		var last []ledger.Change
		if len(all) == 0 {
			last, chunks = chunks, nil
		}
		if err := p.judge(ctx, id, of, part, last); err != nil {
			return fmt.Errorf("judge channel %d: %w", id, err)
		}
	}
	if len(chunks) == 0 {
		return nil
	}
	if err := p.ledger.Change(chunks...); err != nil {
		return fmt.Errorf("forget what was taken in of channel %d: %w", id, err)
	}
	return nil
}

// withoutIdle leaves out the pages of which a delivery says nothing new. Of those whose record was known it is known already.
func (p *Pages) withoutIdle(id channel.ID, all []Judged, of *Delivery) ([]Judged, error) {
	unknown := func(j Judged) bool {
		return j.Was.Cur.State == trust.None && of.fact(j.Hash).GetBefore() != nil
	}
	if !slices.ContainsFunc(all, unknown) {
		return all, nil
	}
	err := p.ledger.View(func(snap ledger.Snapshot) error {
		kept := all[:0]
		for _, j := range all {
			t, found, err := trustOf(snap, uint64(id), j.Hash)
			if err != nil {
				return err
			}
			if v := of.fact(j.Hash); found && v != nil {
				was := recordOf(t)
				if lastSeen(&was, v.LastBy, v.LastAt); skippable(&was, &j.Page) {
					continue
				}
			}
			kept = append(kept, j)
		}
		all = kept
		return nil
	})
	return all, err
}

// judge stores one batch, with what else changes.
func (p *Pages) judge(ctx context.Context, id channel.ID, of *Delivery, part []Judged, more []ledger.Change) error {
	return p.decide(ctx, id, of, func(v *verdicts) ([]ledger.Change, error) {
		for i := range part {
			j := &part[i]
			v.worth = j.Worth
			err := v.page(j.Hash, of.fact(j.Hash), func(old *pb.Trust, _ trust.Page) (trust.Page, bool, error) {
				g := j.Page
				err := v.withhold(&g, j.Hash, old)
				return g, err == nil, err
			})
			if err != nil {
				return nil, err
			}
		}
		if len(v.changes) > 0 {
			p.judged.Store(true)
		}
		return more, nil
	})
}

// decide stores in one write what do says of pages of a channel, with what else changes. do is called again if another manager was quicker.
func (p *Pages) decide(ctx context.Context, id channel.ID, of *Delivery, do func(v *verdicts) (more []ledger.Change, err error)) error {
	return ledger.Revised(func() error {
		r, release, err := p.hold(id)
		if err != nil {
			return err
		}
		defer release()
		v := verdicts{p: p, id: id, now: p.cfg.Clock()}
		if of == nil {
			defer p.revised.Add(1) // before the host is given back
		} else if v.gen = of.Gen; of.revised == p.revised.Load() && !p.ledger.Others.Shared() {
			v.known = of.records
		}
		var more []ledger.Change
		err = p.ledger.View(func(snap ledger.Snapshot) (err error) {
			v.snap, v.standings.snap = snap, snap
			more, err = do(&v)
			return firstOf(err, ctx.Err())
		})
		if err != nil || len(v.changes)+len(more) == 0 {
			return err
		}
		return v.commit(r, more)
	})
}

// commit makes the verdicts durable, with what else changes. The host is held, so that nothing else is decided about its pages meanwhile.
func (v *verdicts) commit(r *ledger.Revision, more []ledger.Change) error {
	if len(v.earned) > 0 { // credits are sums, which one batch at a time may add to
		v.p.judging.Lock()
		defer v.p.judging.Unlock()
		err := v.p.ledger.View(func(snap ledger.Snapshot) error {
			v.snap = snap
			return v.credit()
		})
		if err != nil {
			return err
		}
	}
	return r.Commit(&ledger.Job{Changes: ledger.Fixed(append(v.changes, more...)), Entries: v.entries, Still: [2]ledger.Change{1: v.still}})
}

// hold has nothing decided about the pages of a channel's host until release is called.
func (p *Pages) hold(id channel.ID) (r *ledger.Revision, release func(), err error) {
	if r, err = p.ledger.Revise(id); err != nil {
		return nil, nil, err
	}
	if release, err = p.holdHostOf(id, r); err != nil {
		return nil, nil, err
	}
	return r, release, nil
}

// holdHostOf has nothing decided about the pages of the host of a channel until release is called, which releases a revision, too. After an error that is done.
func (p *Pages) holdHostOf(id channel.ID, r *ledger.Revision) (release func(), err error) {
	var c pb.Channel
	err = p.ledger.View(func(snap ledger.Snapshot) error {
		_, err := ledger.Get(snap, schema.Key(schema.Channel, uint64(id)), &c)
		return err
	})
	if err != nil {
		r.Release()
		return nil, err
	}
	h := p.hosts.Lock(c.Host)
	return func() { p.hosts.Unlock(c.Host, h, false); r.Release() }, nil
}

// verdicts gathers what is to be stored of one batch.
type verdicts struct {
	p    *Pages
	id   channel.ID
	gen  channel.Gen // of a delivery
	now  time.Time
	snap ledger.Snapshot

	known map[uint64]*pb.Trust // the records of its pages that there are, where they are known; nil: they are read

	still     ledger.Change // see ledger.Job
	standings standings     // of deliverers
	changes   []ledger.Change
	entries   []*pb.Entry
	earned    []earned
	worth     *Worth        // of the page in hand
	left      []*pb.Version // of the page in hand, that its record has no room for any more
}

// page stores what a page's record becomes. A record without a version says nothing: the Machine does not know who delivered.
func (v *verdicts) page(hash uint64, fact *pb.Visited, become func(old *pb.Trust, was trust.Page) (g trust.Page, ok bool, err error)) error {
	key := schema.Key2(schema.Trust, uint64(v.id), hash)
	old, found, err := v.recordOf(hash)
	if err != nil || found && v.gen != 0 && old.Gen >= uint64(v.gen) {
		return err
	}
	m := new(pb.Page)
	if ok, err := ledger.Get(v.snap, schema.Key2(schema.Page, uint64(v.id), hash), m); err != nil || !ok {
		return err // removed meanwhile
	}
	if !found && fact != nil {
		old = without(fact.Before)
	} else if !found {
		old = without(storedBefore(m))
	}
	was := recordOf(old)
	if fact != nil {
		lastSeen(&was, fact.LastBy, fact.LastAt)
	} else {
		lastSeen(&was, m.LastBy, m.LastAt)
	}
	g, ok, err := become(old, was)
	if err != nil || !ok || g.Cur.State == trust.None {
		return err
	}
	if found && fact != nil && idle(&was, &g) {
		return v.settled(m, &g)
	}
	t := v.record(&g, old, fact)
	if err := v.follow(m, old, t, fact, g.LastBy != was.LastBy || g.LastAt != was.LastAt); err != nil {
		return err
	}
	if err := v.settled(m, &g); err != nil {
		return err
	}
	if found && fact == nil && proto.Equal(old, t) {
		return nil // of a delivery it has the generation
	}
	v.changes, err = ledger.Put(v.changes, key, t)
	return err
}

// recordOf is the record of a page as it is stored; false: there is none.
func (v *verdicts) recordOf(hash uint64) (*pb.Trust, bool, error) {
	if v.known == nil {
		return trustOf(v.snap, uint64(v.id), hash)
	}
	if t := v.known[hash]; t != nil {
		return t, true, nil
	}
	return &pb.Trust{}, false, nil
}

// settled has a page say whether its record is settled: then storing the next visit that sees the same tells so, and its record is not looked at.
func (v *verdicts) settled(m *pb.Page, g *trust.Page) (err error) {
	if is := settled(g, m); m.Settled != is {
		m.Settled = is
		v.changes, err = ledger.Put(v.changes, schema.Key2(schema.Page, uint64(v.id), channel.URLHash(m.Url)), m)
	}
	return err
}

// record is the stored form of a record, with what the archive knew of its versions.
func (v *verdicts) record(g *trust.Page, old *pb.Trust, fact *pb.Visited) *pb.Trust {
	t := &pb.Trust{
		LastBy: uint64(g.LastBy), LastAt: g.LastAt, Same: g.Same, Dynamic: uint32(g.Dynamic), Flaps: uint32(g.Flaps), Blind: uint32(g.Blind),
		Gen: max(old.Gen, uint64(v.gen)), Shows: old.Shows,
		Cur: storedVersion(&g.Cur, version(old, &g.Cur)), Prev: storedVersion(&g.Prev, version(old, &g.Prev)),
	}
	for _, n := range []*pb.Version{t.Cur, t.Prev} {
		if n != nil && fact != nil && n.FetchedUs == 0 && n.By == uint64(g.LastBy) && n.At == g.LastAt && n.Digest == fact.Digest {
			n.FetchedUs = fact.FetchedUs
		}
	}
	return t
}
