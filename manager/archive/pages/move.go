package pages

import (
	"bytes"
	"context"
	"fmt"

	"shoal/channel"
	pb "shoal/manager/archive/archivepb"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/schema"
)

// Move makes the pages of a scope, which are one channel's, another's: its next task knows them. Captures, texts and feed are by URL, and stay
// as they are. What the other channel has of its own by now is newer, and stays. A chunk of the old channel's running task may take some back; the new one's next
// crawl takes them again.
func (p *Pages) Move(ctx context.Context, from, to channel.ID, scope *channel.Matcher) (pages int, err error) {
	m := move{p: p, from: from, to: to, scope: scope}
	for more := true; more; {
		n := 0
		err := ledger.Revised(func() (err error) {
			n, more, err = m.some(ctx)
			return err
		})
		if err != nil {
			return pages, fmt.Errorf("move pages of channel %d to channel %d: %w", from, to, err)
		}
		pages += n
	}
	return pages, nil
}

// move is one that is under way.
type move struct {
	p        *Pages
	from, to channel.ID
	scope    *channel.Matcher
	after    []byte // up to this key all is done; nil: nothing is

	changes []ledger.Change // of one step
}

// some moves as many pages as go into one write. Both channels are held, so that no chunk of them is stored meanwhile; their host, so that nothing is decided
// about their pages; and what other programs do is a condition.
func (m *move) some(ctx context.Context) (pages int, more bool, err error) {
	r, err := m.p.ledger.ReviseBoth(m.from, m.to)
	if err != nil {
		return 0, false, err
	}
	release, err := m.p.holdHostOf(m.from, r)
	if err != nil {
		return 0, false, err
	}
	defer release()
	defer m.p.revised.Add(1)
	m.changes = nil
	last := m.after
	err = m.p.ledger.View(func(snap ledger.Snapshot) error {
		page := new(pb.Page)
		return snap.Scan(schema.Key(schema.Page, uint64(m.from)), m.after, true, func(key, value []byte) (bool, error) {
			if more = len(m.changes) >= ledger.MaxBatch; more {
				return false, nil
			}
			last = bytes.Clone(key)
			page.Reset()
			if err := schema.Decode(value, page); err != nil {
				return false, err
			}
			if !m.scope.Contains(page.Url) {
				return true, ctx.Err()
			}
			pages++
			return true, firstOf(m.one(snap, page, schema.Number(key, 1)), ctx.Err())
		})
	})
	if err == nil && len(m.changes) > 0 {
		err = r.Commit(&ledger.Job{Changes: ledger.Fixed(m.changes)})
	}
	if err == nil {
		m.after = last
	}
	return pages, more, err
}

// one makes one page the other channel's.
func (m *move) one(snap ledger.Snapshot, page *pb.Page, url uint64) error {
	own, err := snap.Get(schema.Key2(schema.Page, uint64(m.to), url), func([]byte) error { return nil })
	if err != nil {
		return err
	}
	m.changes = append(m.changes, ownerOf(url, m.to))
	page.Channel = uint64(m.to)
	v, err := schema.Encode(page)
	if err != nil {
		return err
	}
	for _, table := range schema.OfPage {
		key := schema.Key2(table, uint64(m.from), url)
		_, err := snap.Get(key, func(old []byte) error {
			var err error
			switch table {
			case schema.Page:
			case schema.Trust:
				v, err = untaken(old)
			default:
				v = bytes.Clone(old)
			}
			m.changes = append(m.changes, ledger.Change{Key: key})
			if !own {
				m.changes = append(m.changes, ledger.Change{Key: schema.Key2(table, uint64(m.to), url), Value: v})
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// untaken is a page's record as another channel gets it. Its deliveries have generations of their own, none of which was taken in.
func untaken(record []byte) ([]byte, error) {
	t := new(pb.Trust)
	if err := schema.Decode(record, t); err != nil {
		return nil, err
	}
	t.Gen = 0
	return schema.Encode(t)
}
