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
// as they are. A chunk of the old channel's running task may take some back; the new one's next crawl takes them again.
func (p *Pages) Move(ctx context.Context, from, to channel.ID, scope *channel.Matcher) (pages int, err error) {
	release, err := p.ledger.Hold(from, to)
	if err != nil {
		return 0, err
	}
	defer release()
	defer p.revised.Add(1)
	b := p.ledger.Batch()
	err = p.ledger.View(func(snap ledger.Snapshot) error {
		m := new(pb.Page)
		return snap.Scan(schema.Key(schema.Page, uint64(from)), nil, true, func(key, value []byte) (bool, error) {
			m.Reset()
			if err := schema.Decode(value, m); err != nil {
				return false, err
			}
			if !scope.Contains(m.Url) {
				return true, ctx.Err()
			}
			pages++
			if err := moveOne(snap, b, m, schema.Number(key, 1), from, to); err != nil {
				return false, err
			}
			return true, firstOf(b.FlushFull(), ctx.Err())
		})
	})
	if err == nil {
		err = b.Flush()
	}
	if err != nil {
		return pages, fmt.Errorf("move pages of channel %d to channel %d: %w", from, to, err)
	}
	return pages, nil
}

// moveOne makes one page another channel's.
func moveOne(snap ledger.Snapshot, b *ledger.Batch, m *pb.Page, url uint64, from, to channel.ID) error {
	m.Channel = uint64(to)
	v, err := schema.Encode(m)
	if err != nil {
		return err
	}
	b.Add(ownerOf(url, to), ledger.Change{Key: schema.Key2(schema.Page, uint64(to), url), Value: v}, ledger.Change{Key: schema.Key2(schema.Page, uint64(from), url)})
	for _, table := range schema.OfPage[1:] {
		_, err := snap.Get(schema.Key2(table, uint64(from), url), func(v []byte) error {
			b.Add(ledger.Change{Key: schema.Key2(table, uint64(to), url), Value: bytes.Clone(v)}, ledger.Change{Key: schema.Key2(table, uint64(from), url)})
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
