package pages

import (
	"bytes"
	"context"
	"fmt"

	"shoal/channel"
	pb "shoal/manager/archive/archivepb"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/schema"
	"shoal/manager/trust"
)

// Review calls do for the record of each page of a channel of which anything was said, and stores those that do says it has changed, as Judge does: for
// trust.Hold and trust.Accept. It tells how many those were.
func (p *Pages) Review(ctx context.Context, id channel.ID, do func(g *trust.Page) (changed bool)) (changed int, err error) {
	var all []Judged
	err = p.ledger.View(func(snap ledger.Snapshot) error {
		t := new(pb.Trust)
		return snap.Scan(schema.Key(schema.Trust, uint64(id)), nil, true, func(key, value []byte) (bool, error) {
			t.Reset()
			if err := schema.Decode(value, t); err != nil {
				return false, err
			}
			if g := recordOf(t); do(&g) {
				all = append(all, Judged{Hash: schema.Number(key, 1), Page: g})
			}
			return true, ctx.Err()
		})
	})
	if err != nil {
		return 0, fmt.Errorf("review channel %d: %w", id, err)
	}
	return len(all), p.Judge(ctx, id, nil, all)
}

// Older is a page whose current version one peer delivered, and no other has corroborated.
type Older struct {
	Channel channel.ID
	Hash    uint64 // channel.URLHash
	URL     string
	At      int64 // of the delivery, Unix seconds
}

// maxOlder is how many records Older looks at.
const maxOlder = 200_000

// Older finds up to n pages whose current version one peer alone has seen, for trust.LookBack. It looks at maxOlder records at most, from a channel on that
// the caller draws by chance: else what is looked at could be foreseen.
func (p *Pages) Older(ctx context.Context, by trust.Peer, from channel.ID, n int) (out []Older, err error) {
	left := maxOlder
	for _, start := range [][]byte{schema.Key(schema.Trust, uint64(from)), nil} { // then from the beginning on
		if err := p.older(ctx, by, start, n, &left, &out); err != nil {
			return nil, fmt.Errorf("older pages of %s: %w", ledger.DelivererName(uint64(by)), err)
		}
	}
	return out, nil
}

func (p *Pages) older(ctx context.Context, by trust.Peer, start []byte, n int, left *int, out *[]Older) error {
	return p.ledger.View(func(snap ledger.Snapshot) error {
		t, m := new(pb.Trust), new(pb.Page)
		return snap.Scan([]byte{schema.Trust}, start, true, func(key, value []byte) (bool, error) {
			t.Reset()
			if err := schema.Decode(value, t); err != nil {
				return false, err
			}
			*left--
			if s := stateIn(t.GetCur().GetState()); t.GetCur().GetBy() == uint64(by) && (s == trust.Provisional || s == trust.Held) {
				m.Reset()
				if ok, err := ledger.Get(snap, append([]byte{schema.Page}, key[1:]...), m); err != nil {
					return false, err
				} else if ok && !has(*out, key) {
					*out = append(*out, Older{channel.ID(schema.Number(key, 0)), schema.Number(key, 1), m.Url, t.Cur.At})
				}
			}
			return len(*out) < n && *left > 0, ctx.Err()
		})
	})
}

func has(all []Older, key []byte) bool {
	for _, o := range all {
		if bytes.Equal(key, schema.Key2(schema.Trust, uint64(o.Channel), o.Hash)) {
			return true
		}
	}
	return false
}
