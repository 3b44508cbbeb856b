package desk

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"shoal/channel"
)

// Purged tells what a takedown has removed.
type Purged struct {
	Host     string `json:"host"`
	Channels int    `json:"channels"`
	Pages    int    `json:"pages"`
	Links    int    `json:"links"` // of the host among what other sites' crawls found
}

// Purge takes hosts down: they are blocked, their channels are removed, what peers have of them comes to nothing at their next word with the
// archive, their pages leave the archive, and the feed says that they are gone. It goes on for a while when its asker has hung up; one that broke off is gone on
// with by another.
func (d *Desk) Purge(ctx context.Context, host, why string) (Purged, error) {
	out := Purged{Host: host}
	hosts, err := channel.ParseHosts(host)
	if err != nil {
		return out, err
	}
	if d.files == nil {
		return out, fmt.Errorf("purge %s: no archive at hand: %w", host, ErrStopped)
	}
	if why == "" {
		why = "taken down"
	}
	ctx, done := d.finish(ctx)
	defer done()
	if err := d.Block(ctx, host, why); err != nil {
		return out, err
	}
	var ids []channel.ID
	if err := d.channelsOf(ctx, hosts, func(ch *channel.Channel) { ids = append(ids, ch.ID) }); err != nil {
		return out, err
	}
	for _, id := range ids {
		if err := d.files.Forget(ctx, id); err != nil {
			return out, fmt.Errorf("call back the task of channel %d: %w", id, err)
		}
		if err := d.Remove(ctx, id); err != nil && !errors.Is(err, channel.ErrUnknown) {
			return out, err
		}
		out.Channels++
	}
	if out.Pages, err = d.files.Purge(ctx, hosts); err != nil {
		return out, err
	}
	out.Links, err = d.dropLinks(ctx, hosts)
	return out, err
}

// channelsOf calls f for the channels of hosts.
func (d *Desk) channelsOf(ctx context.Context, hosts channel.Hosts, f func(*channel.Channel)) error {
	after := ""
	for {
		chs, next, err := d.store.Search(ctx, hosts.Name(), after, batch)
		if err != nil {
			return fmt.Errorf("search channels of %s: %w", hosts.Name(), err)
		}
		for i := range chs {
			if hosts.Has(chs[i].Scope.Host) {
				f(&chs[i])
			}
		}
		if next == "" || len(chs) == 0 {
			return nil
		}
		after = next
	}
}

// linksMost is the number of discovered hosts that a takedown drops, those found most often first: one for each port of a host that was found. Another one
// stays noted; it is blocked as soon as it has a channel.
const linksMost = 10_000

// dropLinks forgets hosts that crawls have found.
func (d *Desk) dropLinks(ctx context.Context, hosts channel.Hosts) (dropped int, err error) {
	known, err := d.known(ctx, hosts)
	if err != nil {
		return 0, err
	}
	found, err := d.store.Candidates(ctx, linksMost, hosts.Has)
	if err != nil {
		return 0, err
	}
	for _, c := range found {
		known = append(known, c.Host)
	}
	before, err := d.store.CountCandidates(ctx)
	if err != nil {
		return 0, err
	}
	for part := range slices.Chunk(known, channel.MaxAdd) {
		if err := d.store.DropCandidates(ctx, d.epoch, part); err != nil {
			return 0, err
		}
	}
	after, err := d.store.CountCandidates(ctx)
	return max(before-after, 0), err
}
