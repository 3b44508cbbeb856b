package pages

import (
	"context"
	"time"

	"shoal/channel"
	pb "shoal/manager/archive/archivepb"
	"shoal/manager/archive/schema"
	"shoal/manager/archive/segment"
)

// Change tells an indexer what happened to a page.
type Change struct {
	Cursor   string // just after this change
	When     time.Time
	Channel  channel.ID
	URL      string
	Event    Event
	Fetched  time.Time
	Status   int
	Digest   uint64
	Near     bool // changed, but hardly
	Mime     string
	at       segment.Location // the record of the visit
	original segment.Location // the record that holds the payload, if another
}

// Changes gives an indexer up to limit changes of pages after cursor, in order per URL, and the cursor for the next call.
func (p *Pages) Changes(ctx context.Context, cursor string, limit int) (changes []Change, next string, err error) {
	next, err = p.ledger.ReadFeed(ctx, schema.Changes, cursor, limit, func(seq uint64, m *pb.Entry) error {
		e := m.Page
		changes = append(changes, Change{
			Cursor: p.ledger.Cursor(schema.Changes, seq), When: schema.Time(m.WhenUs), Channel: channel.ID(m.Channel), URL: e.GetUrl(),
			Event: Event(e.GetEvent()), Fetched: schema.Time(e.GetFetchedUs()), Status: int(e.GetStatus()), Digest: e.GetDigest(),
			Near: e.GetNear(), Mime: e.GetMime(), at: schema.Location(e.GetAt()), original: schema.Location(e.GetOriginal()),
		})
		return nil
	})
	return changes, next, err
}
