package pages

import (
	"context"
	"time"

	"shoal/channel"
	pb "shoal/manager/archive/archivepb"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/schema"
)

// Page is what the archive knows of one URL.
type Page struct {
	URL          string
	Channel      channel.ID
	First        time.Time // first visit that stored anything
	Fetched      time.Time // last visit
	Changed      time.Time // last visit that found a change which counts
	Visits       int
	Changes      int
	Status       int
	Gone         bool
	Digest       uint64
	Shingle      uint64
	ETag         string
	LastModified string
	Mime         string
	Size         int
	Depth        int
	Importance   float32 // PageRank; 0: not ranked yet
	State        string  // provisional, verified or withdrawn: how far what it shows is believed
	Deliverer    string  // number of the peer that delivered that; empty: not known
	History      []Visit // changes that count, newest first, at most MaxHistory
}

// Visit is one change of a page.
type Visit struct {
	Fetched time.Time
	Digest  uint64
}

// Page reads the state of a URL. ErrNotFound if nothing of it was stored.
func (p *Pages) Page(ctx context.Context, rawURL string) (Page, error) {
	return firstSpelling(rawURL, "state of", func(url string) (out Page, err error) {
		err = p.ledger.View(func(snap ledger.Snapshot) error {
			if out, err = stateOf(snap, url); err != nil {
				return err
			}
			return ctx.Err()
		})
		return out, err
	})
}

// stateOf reads the state of a URL as it is stored.
func stateOf(snap ledger.Snapshot, url string) (Page, error) {
	h := channel.URLHash(url)
	id, ok, err := owner(snap, h)
	if err != nil {
		return Page{}, err
	}
	if !ok {
		return Page{}, ErrNotFound
	}
	var m pb.Page
	var past pb.History
	ok, err = ledger.Get(snap, schema.Key2(schema.Page, uint64(id), h), &m)
	if err != nil {
		return Page{}, err
	}
	if !ok || m.Url != url {
		return Page{}, ErrNotFound
	}
	if _, err := ledger.Get(snap, schema.Key2(schema.History, uint64(id), h), &past); err != nil {
		return Page{}, err
	}
	rank, err := RankAt(snap, schema.Key2(schema.Rank, uint64(id), h))
	if err != nil {
		return Page{}, err
	}
	t, _, err := trustOf(snap, uint64(id), h)
	if err != nil {
		return Page{}, err
	}
	out := Page{
		URL: url, Channel: id, First: schema.Time(m.FirstUs), Fetched: schema.Time(m.FetchedUs), Changed: schema.Time(m.ChangedUs),
		Visits: int(m.Visits), Changes: int(m.Changes), Status: int(m.Status), Gone: m.Gone, Digest: m.Digest, Shingle: m.Shingle,
		ETag: string(m.Etag), LastModified: string(m.LastModified), Mime: m.Mime, Size: int(m.Size), Depth: int(m.Depth), Importance: rank,
		State: StateName(pageState(&m, t)), Deliverer: delivererOf(m.Deliverer),
	}
	for _, v := range past.Visits {
		out.History = append(out.History, Visit{schema.Time(v.FetchedUs), v.Digest})
	}
	return out, nil
}
