package pages

import (
	"context"
	"fmt"
	"slices"

	pb "shoal/manager/archive/archivepb"
	"shoal/manager/archive/ledger"
)

// Filter says which captures and changes are wanted. The zero Filter wants all.
type Filter struct {
	// Deliverer names a peer, an account, or the number by which captures name a peer: only what they delivered is wanted. Empty: whoever delivered.
	Deliverer string
	// WithoutVisitors leaves out pages that show the address of a peer that fetched them.
	WithoutVisitors bool
}

// chosen is a Filter with the numbers of its deliverers.
type chosen struct {
	from            []uint64 // nil: whoever delivered
	withoutVisitors bool
}

// choose finds the deliverers that a filter names.
func (p *Pages) choose(ctx context.Context, f Filter) (chosen, error) {
	c := chosen{withoutVisitors: f.WithoutVisitors}
	if f.Deliverer == "" {
		return c, nil
	}
	who, err := p.ledger.Deliverers(ctx, f.Deliverer)
	if err != nil {
		return c, err
	}
	if len(who) == 0 {
		return c, fmt.Errorf("%w: nothing in this archive was delivered by %.80q; shoal peer list names members, channel show who delivered", ErrDeliverer, f.Deliverer)
	}
	for _, d := range who {
		c.from = append(c.from, d.Number)
	}
	return c, nil
}

func (c *chosen) all() bool { return c.from == nil && !c.withoutVisitors }

func (c *chosen) wants(deliverer uint64, showsVisitor bool) bool {
	return (c.from == nil || slices.Contains(c.from, deliverer)) && !(c.withoutVisitors && showsVisitor)
}

func (c *chosen) change(e *pb.PageEvent) bool { return c.wants(e.GetDeliverer(), e.GetShowsVisitor()) }

// delivererOf names who delivered; empty: it is not known.
func delivererOf(number uint64) string { return ledger.DelivererName(number) }
