package pages

import (
	"context"
	"fmt"
	"slices"

	pb "shoal/manager/archive/archivepb"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/schema"
	"shoal/manager/trust"
)

// Filter says which captures and changes are wanted. The zero Filter wants all.
type Filter struct {
	// Deliverer names a peer, an account, or the number by which captures name a peer: only what they delivered is wanted. Of the page feed that is also each event that
	// says that a page is withdrawn: whose version that was it does not say. Empty: whoever delivered.
	Deliverer string
	// Verified wants only what another account in another network saw alike. Of the page feed that is the events that say so, and those that say that a page is gone
	// or withdrawn.
	Verified bool
	// All wants what was withdrawn too, and, of the page feed, the events that say that a version is verified.
	All bool
	// WithoutVisitors leaves out pages that show the address of a peer that fetched them.
	WithoutVisitors bool
}

// chosen is a Filter with the numbers of its deliverers.
type chosen struct {
	from            []uint64 // nil: whoever delivered
	withoutVisitors bool
	verified, all   bool
}

// choose finds the deliverers that a filter names.
func (p *Pages) choose(ctx context.Context, f Filter) (chosen, error) {
	c := chosen{withoutVisitors: f.WithoutVisitors, verified: f.Verified, all: f.All && !f.Verified}
	if f.Deliverer == "" {
		return c, nil
	}
	who, err := p.ledger.Deliverers(ctx, f.Deliverer)
	if err != nil {
		return c, err
	}
	if len(who) == 1 && who[0].Peer == "" && who[0].Account == "" { // a number of which no name is known: an archive that was rebuilt has them, and so has a misspelling
		known, err := p.delivered(ctx, who[0].Number)
		if err != nil {
			return c, err
		}
		if !known {
			who = nil
		}
	}
	if len(who) == 0 {
		return c, fmt.Errorf("%w: nothing in this archive was delivered by %.80q; shoal peer list names members, channel show who delivered", ErrDeliverer, f.Deliverer)
	}
	for _, d := range who {
		c.from = append(c.from, d.Number)
	}
	return c, nil
}

// delivered reports whether any capture is by a deliverer.
func (p *Pages) delivered(ctx context.Context, number uint64) (found bool, err error) {
	err = p.ledger.View(func(snap ledger.Snapshot) error {
		return snap.Scan([]byte{schema.Capture}, nil, true, func(_, value []byte) (bool, error) {
			m := new(pb.Capture)
			if err := schema.Decode(value, m); err != nil {
				return false, err
			}
			found = m.Deliverer == number
			return !found, ctx.Err()
		})
	})
	return found, err
}

func (c *chosen) wants(deliverer uint64, showsVisitor bool) bool {
	return (c.from == nil || slices.Contains(c.from, deliverer)) && !(c.withoutVisitors && showsVisitor)
}

func (c *chosen) change(e *pb.PageEvent) bool {
	switch Event(e.GetEvent()) {
	case Verified:
		if !c.verified && !c.all {
			return false
		}
	case Created, Changed:
		if c.verified {
			return false // told again when it is verified
		}
	case Gone:
		return c.wants(e.GetDeliverer(), false) // there is nothing of it that could show anything
	case Unverified:
		return c.verified || c.all
	case Withdrawn:
		return true // whoever has what was told before must know; what the page shows instead is another matter
	}
	return c.wants(e.GetDeliverer(), e.GetShowsVisitor())
}

// state tells whether a version of this state is wanted.
func (c *chosen) state(s trust.State) bool {
	return c.all || s != trust.Withdrawn && (!c.verified || s == trust.Verified)
}

// delivererOf names who delivered; empty: it is not known.
func delivererOf(number uint64) string { return ledger.DelivererName(number) }
