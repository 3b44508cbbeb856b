package pages

import (
	"context"
	"time"

	"shoal/channel"
	pb "shoal/manager/archive/archivepb"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/schema"
	"shoal/manager/archive/segment"
	"shoal/manager/trust"
)

// Change tells an indexer what happened to a page.
type Change struct {
	Cursor  string // just after this change
	When    time.Time
	Channel channel.ID
	URL     string
	Event   Event
	Fetched time.Time
	Status  int
	Digest  uint64
	Near    bool // changed, but hardly
	Mime    string

	State        string // provisional, verified or withdrawn: how far the version is believed now; empty: the event is about none
	Deliverer    string // number of the peer whose delivery this is; empty: not known
	ShowsVisitor bool   // the page shows the address of a peer that fetched it

	at       segment.Location // the record of the visit
	original segment.Location // the record that holds the payload, if another
}

// Changes gives up to limit changes of pages after cursor, all that were told, in order per URL, and the cursor for the next call. How far their versions are
// believed it does not say.
func (p *Pages) Changes(ctx context.Context, cursor string, limit int) (changes []Change, next string, err error) {
	return p.changes(ctx, cursor, limit, func(*pb.PageEvent) bool { return true }, nil)
}

// ChangesOf gives an indexer changes like Changes, of what a filter wants, with their states. It looks until it has found limit changes or has seen all. Who begins
// when retention has taken entries from the feed is told first of each page that is there, as created, and then of what has changed since it began.
func (p *Pages) ChangesOf(ctx context.Context, cursor string, limit int, f Filter) (changes []Change, next string, err error) {
	c, err := p.choose(ctx, f)
	if err != nil {
		return nil, "", err
	}
	if changes, next, err = p.standing(ctx, cursor, limit, &c); err != nil {
		return nil, "", err
	}
	for len(changes) < limit {
		more, after, err := p.changes(ctx, next, min(max(limit, filterBatch), ledger.MaxFeed), c.change, &c)
		if err != nil {
			return nil, "", err
		}
		changes = append(changes, more...)
		if after == next {
			break
		}
		next = after
	}
	if len(changes) > limit {
		changes = changes[:limit]
		next = changes[limit-1].Cursor
	}
	return changes, next, nil
}

const filterBatch = 1000 // changes that are looked at together when only some are wanted

func (p *Pages) changes(ctx context.Context, cursor string, limit int, wanted func(*pb.PageEvent) bool, c *chosen) (changes []Change, next string, err error) {
	var events []*pb.PageEvent
	next, err = p.ledger.ReadFeed(ctx, schema.Changes, cursor, limit, func(seq uint64, m *pb.Entry) error {
		e := m.Page
		if !wanted(e) {
			return nil
		}
		events = append(events, e)
		changes = append(changes, Change{
			Cursor: p.ledger.Cursor(schema.Changes, seq), When: schema.Time(m.WhenUs), Channel: channel.ID(m.Channel), URL: e.GetUrl(),
			Event: Event(e.GetEvent()), Fetched: schema.Time(e.GetFetchedUs()), Status: int(e.GetStatus()), Digest: e.GetDigest(),
			Near: e.GetNear(), Mime: e.GetMime(), Deliverer: delivererOf(e.GetDeliverer()), ShowsVisitor: e.GetShowsVisitor(),
			at: schema.Location(e.GetAt()), original: schema.Location(e.GetOriginal()),
		})
		return nil
	})
	if c != nil && len(events) > 0 && err == nil {
		changes, err = p.believed(changes, events, c)
	}
	return changes, next, err
}

// believed adds the states of the versions that changes are about, and leaves out those that are not wanted. That a page was withdrawn, or is verified no more, is always
// wanted: what it shows instead is not, if a filter leaves that out.
func (p *Pages) believed(changes []Change, events []*pb.PageEvent, c *chosen) (out []Change, err error) {
	err = p.ledger.View(func(snap ledger.Snapshot) error {
		s := standings{snap: snap}
		for i := range changes {
			state, err := s.change(events[i])
			if err != nil {
				return err
			}
			n := changes[i]
			n.State = StateName(state)
			wanted := state == trust.None || c.state(state)
			tells := n.Event == Withdrawn || n.Event == Unverified // whatever the filter leaves out of it
			if tells {
				wanted = wanted && c.wants(events[i].GetDeliverer(), n.ShowsVisitor)
			}
			switch {
			case wanted:
			case !tells:
				continue
			default:
				n.State, n.Deliverer, n.Status, n.Mime, n.Digest, n.ShowsVisitor = "", "", 0, "", 0, false
				n.at, n.original = segment.Location{}, segment.Location{}
			}
			out = append(out, n)
		}
		return nil
	})
	return out, err
}
