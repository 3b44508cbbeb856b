package desk

import (
	"context"
	"errors"
	"fmt"

	"shoal/channel"
	"shoal/manager"
)

// crawledFirst bounds the channels that are crawled at once after a purge; the others come when they are due, and fetch everything in full.
const crawledFirst = 10_000

// PurgedPeer tells what the purge of a peer has taken back.
type PurgedPeer struct {
	Name string `json:"name"`
	manager.Withdrawn
	Asked int `json:"asked"` // channels that are crawled as soon as there is room
}

// PurgePeer takes back all that a peer, or the peers of an account, have delivered, and has the channels crawled that it was of. It does not refuse the peer: Ban does.
func (d *Desk) PurgePeer(ctx context.Context, name string) (PurgedPeer, error) {
	out := PurgedPeer{Name: name}
	switch {
	case name == "":
		return out, fmt.Errorf("%w: no peer or account is named", ErrAsk)
	case d.files == nil:
		return out, fmt.Errorf("purge %s: no archive at hand: %w", name, ErrStopped)
	}
	var err error
	if out.Withdrawn, err = d.files.Withdraw(ctx, name); err != nil {
		return out, err
	}
	if out.Deliverers == 0 {
		return out, fmt.Errorf("%w: %s has delivered nothing to this archive; shoal peer list names the members that are known now", ErrAsk, name)
	}
	out.Asked = d.crawlFirst(ctx, out.Channels)
	return out, nil
}

// crawlFirst has channels crawled as soon as there is room, and returns how many. A channel that is being crawled, paused or gone is left as it is.
func (d *Desk) crawlFirst(ctx context.Context, ids []channel.ID) (asked int) {
	if d.m == nil {
		return 0
	}
	for _, id := range ids[:min(len(ids), crawledFirst)] {
		if err := d.m.CrawlNow(ctx, id); err == nil {
			asked++
		} else if errors.Is(err, context.Canceled) {
			break
		}
	}
	return asked
}
