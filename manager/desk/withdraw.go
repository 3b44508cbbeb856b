package desk

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"shoal/channel"
	"shoal/manager"
)

// crawledFirst bounds the channels that are crawled at once after a purge; the others come when they are due, and fetch everything in full.
const crawledFirst = 10_000

// PurgedPeer tells what the purge of a peer has taken back, or would.
type PurgedPeer struct {
	Name string `json:"name"`
	manager.Withdrawn
	Asked int `json:"asked"` // channels that are crawled as soon as there is room
	// Standing says whether more may come from where that came from.
	Standing Standing `json:"standing"`
	// Ban is the name under which Desk.Ban refuses them; empty: it is not known any more.
	Ban string `json:"ban,omitempty"`
	// More says that there is more than could be counted in the time that there was.
	More bool `json:"more,omitempty"`
}

// Standing says whether deliverers are banned.
type Standing string

// The standings.
const (
	AllBanned Standing = "banned"
	NotBanned Standing = "not_banned" // not all of them
	NotKnown  Standing = "not_known"  // the manager is stopped, or the archive was rebuilt and does not know who they were
)

// Purger is an archive that counts what a purge would take back, and can do one by itself.
type Purger interface {
	WouldWithdraw(ctx context.Context, name string) (manager.Withdrawn, error)
	StartWithdraw(ctx context.Context, name string) (deliverers int, err error)
	Withdrawing() *manager.Withdrawing
}

// PurgePeer takes back all that a peer, or the peers of an account, have delivered, and has the channels crawled that it was of. It does not refuse the peer: Ban does.
func (d *Desk) PurgePeer(ctx context.Context, name string) (PurgedPeer, error) {
	out := PurgedPeer{Name: name}
	if err := d.canPurge(name); err != nil {
		return out, err
	}
	var err error
	if out.Withdrawn, err = d.files.Withdraw(ctx, name); err != nil {
		return out, err
	}
	if out.Deliverers == 0 {
		return out, neverDelivered(name)
	}
	d.standing(&out)
	out.Asked = d.crawlFirst(ctx, out.Channels)
	return out, nil
}

// PurgeCount tells what PurgePeer would take back. If ctx ends first, it tells what it has counted, and that there is more.
func (d *Desk) PurgeCount(ctx context.Context, name string) (PurgedPeer, error) {
	out := PurgedPeer{Name: name}
	a, err := d.purger(name)
	if err != nil {
		return out, err
	}
	out.Withdrawn, err = a.WouldWithdraw(ctx, name)
	if errors.Is(err, context.DeadlineExceeded) && out.Deliverers > 0 {
		out.More, err = true, nil
	}
	if err == nil && out.Deliverers == 0 {
		err = neverDelivered(name)
	}
	d.standing(&out)
	return out, err
}

// standing notes whether the deliverers are banned, and how to ban them.
func (d *Desk) standing(p *PurgedPeer) {
	p.Standing = NotKnown
	if len(p.Members) == 0 || p.Members[0][0] == "" {
		return
	}
	if p.Ban = p.Name; p.Name != p.Members[0][1] { // it is a peer, or a deliverer's number
		p.Ban = p.Members[0][0]
	}
	if d.cfg.Members == nil {
		return
	}
	p.Standing = AllBanned
	banned := d.cfg.Members.Banned()
	for _, m := range p.Members {
		if !slices.Contains(banned, m[0]) && !slices.Contains(banned, m[1]) {
			p.Standing = NotBanned
		}
	}
}

// StartPurge has the archive do what PurgePeer does, and does not wait. A restart goes on with it.
func (d *Desk) StartPurge(ctx context.Context, name string) error {
	if err := d.Live(); err != nil {
		return err
	}
	a, err := d.purger(name)
	if err != nil {
		return err
	}
	n, err := a.StartWithdraw(ctx, name)
	if err == nil && n == 0 {
		err = neverDelivered(name)
	}
	return err
}

// Purging tells how far the purge is that is under way; nil: none is.
func (d *Desk) Purging() *manager.Withdrawing {
	if a, ok := d.files.(Purger); ok {
		return a.Withdrawing()
	}
	return nil
}

func (d *Desk) canPurge(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: no peer or account is named", ErrAsk)
	case d.files == nil:
		return fmt.Errorf("purge %s: no archive at hand: %w", name, ErrStopped)
	}
	return nil
}

func (d *Desk) purger(name string) (Purger, error) {
	if err := d.canPurge(name); err != nil {
		return nil, err
	}
	a, ok := d.files.(Purger)
	if !ok {
		return nil, fmt.Errorf("purge %s: no archive at hand: %w", name, ErrStopped)
	}
	return a, nil
}

func neverDelivered(name string) error {
	return fmt.Errorf("%w: %s has delivered nothing to this archive; shoal peer list names the members that are known now", ErrAsk, name)
}

// crawlFirst has channels crawled as soon as there is room, and returns how many. A channel that is being crawled, paused or gone is left as it is.
func (d *Desk) crawlFirst(ctx context.Context, ids []channel.ID) (asked int) {
	if d.m == nil {
		return 0
	}
	for _, id := range ids[:min(len(ids), crawledFirst)] {
		if ch, err := d.store.Channel(ctx, id); err != nil || ch.State != channel.Active {
			continue
		}
		if err := d.m.CrawlNow(ctx, id); err == nil {
			asked++
		} else if errors.Is(err, context.Canceled) {
			break
		}
	}
	return asked
}
