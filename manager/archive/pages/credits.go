package pages

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"shoal/channel"
	pb "shoal/manager/archive/archivepb"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/schema"
	"shoal/manager/trust"
)

// Credit says how much of a channel's stored copy one peer has delivered.
type Credit struct {
	Deliverer string    `json:"deliverer"` // number by which captures name it; empty: not known
	Peer      string    `json:"peer,omitempty"`
	Account   string    `json:"account,omitempty"`
	Pages     int       `json:"pages"`                   // whose current version is its own
	Verified  int       `json:"verified"`                // of them, those that another account, in another network, saw alike
	Shows     int       `json:"shows_visitor,omitempty"` // of them, those that show the address of a peer that fetched them
	Last      time.Time `json:"last"`                    // visit of one of them
}

// maxCredited is how many pages of a channel are looked at for credits.
const maxCredited = 50_000

// Credits tells who delivered the pages of a channel as they are now, those with the most pages first, at most n. Of very large channels it looks at a part.
func (p *Pages) Credits(ctx context.Context, id channel.ID, n int) (out []Credit, err error) {
	by := map[uint64]*Credit{}
	err = p.ledger.View(func(snap ledger.Snapshot) error {
		m, left := new(pb.Page), maxCredited
		known, err := verifiedPages(snap, id)
		if err != nil {
			return err
		}
		err = snap.Scan(schema.Key(schema.Page, uint64(id)), nil, true, func(key, value []byte) (bool, error) {
			m.Reset()
			if err := schema.Decode(value, m); err != nil || m.Gone {
				return err == nil, err
			}
			c := by[m.Deliverer]
			if c == nil {
				c = &Credit{Deliverer: delivererOf(m.Deliverer)}
				by[m.Deliverer] = c
			}
			c.Pages++
			if digest, ok := known[schema.Number(key, 1)]; ok && digest == m.Digest {
				c.Verified++
			}
			if m.GetContent().GetShowsVisitor() {
				c.Shows++
			}
			if at := schema.Time(m.FetchedUs); at.After(c.Last) {
				c.Last = at
			}
			left--
			return left > 0, ctx.Err()
		})
		if err != nil {
			return err
		}
		for number, c := range by {
			var d pb.Deliverer
			if _, err := ledger.Get(snap, schema.Key(schema.Deliverer, number), &d); err != nil {
				return err
			}
			c.Peer, c.Account = d.Peer, d.Account
			out = append(out, *c)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("deliverers of channel %d: %w", id, err)
	}
	slices.SortFunc(out, func(x, y Credit) int {
		return cmp.Or(-cmp.Compare(x.Pages, y.Pages), cmp.Compare(x.Deliverer, y.Deliverer))
	})
	return out[:min(len(out), n)], nil
}

// verifiedPages are the pages of a channel that show a verified version, with its digest, of as many records as Credits looks at pages.
func verifiedPages(snap ledger.Snapshot, id channel.ID) (map[uint64]uint64, error) {
	out, t, left := map[uint64]uint64{}, new(pb.Trust), maxCredited
	return out, snap.Scan(schema.Key(schema.Trust, uint64(id)), nil, true, func(key, value []byte) (bool, error) {
		t.Reset()
		if err := schema.Decode(value, t); err != nil {
			return false, err
		}
		g := recordOf(t)
		if v := g.Shown(); v != nil && v.State == trust.Verified {
			out[schema.Number(key, 1)] = v.Digest
		}
		left--
		return left > 0, nil
	})
}
