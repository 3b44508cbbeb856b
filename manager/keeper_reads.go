package manager

import (
	"context"
	"fmt"
	"slices"
	"time"

	"shoal/channel"
	"shoal/channel/lease"
	"shoal/recrawl"
)

// What a keeper reads of channels and hosts, with what is not written yet.

// issue is an idle channel's issue: as it is to be written, or from the database. What was read is held for a while.
func (k *keeper) issue(s recrawl.Slot) (lease.Issue, error) {
	if i, ok := k.issues[s]; ok {
		return i, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), saveTimeout)
	defer cancel()
	id := k.table.ID(s)
	raw, err := k.cfg.Store.Lease(ctx, id)
	if err != nil {
		return lease.Issue{}, fmt.Errorf("read the lease of channel %d: %w", id, err)
	}
	i, _, err := parseIssue(raw)
	if err != nil {
		return i, fmt.Errorf("channel %d: %w", id, err)
	}
	k.issues[s] = i
	return i, nil
}

// channels are channels as the database has them, by their ids, but for those that are not there. Issues that were not held are held for a while.
func (k *keeper) channels(ctx context.Context, ids []channel.ID) (map[channel.ID]*channel.Entire, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, saveTimeout)
	defer cancel()
	all, err := k.cfg.Store.Entire(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("read the channels of which crawls tell: %w", err)
	}
	of := make(map[channel.ID]*channel.Entire, len(all))
	for i := range all {
		of[all[i].ID] = &all[i]
	}
	for _, id := range ids {
		s, ok := k.table.Find(id)
		if !ok || k.holds(s) {
			continue
		}
		var raw []byte
		if ch := of[id]; ch != nil {
			raw = ch.Lease
		}
		if k.issues[s], _, err = parseIssue(raw); err != nil {
			delete(k.issues, s)
			return nil, fmt.Errorf("channel %d: %w", id, err)
		}
	}
	return of, nil
}

// parseIssue reads a channel's issue, and until when the channel is left alone.
func parseIssue(raw []byte) (i lease.Issue, until time.Time, err error) {
	if len(raw) == 0 {
		return i, until, nil
	}
	i, err = lease.ParseIssue(raw)
	until = i.Wake()
	i.Restore()
	return i, until, err
}

// held is a channel's issue if it is in memory.
func (k *keeper) held(s recrawl.Slot) (lease.Issue, bool) {
	if i, ok := k.machine.Issue(s); ok {
		return i, true
	}
	i, ok := k.issues[s]
	return i, ok
}

// holds tells whether a channel's issue is in memory.
func (k *keeper) holds(s recrawl.Slot) bool {
	_, ok := k.held(s)
	return ok
}

// gen is the generation of a channel whose issue is held; else 0.
func (k *keeper) gen(s recrawl.Slot) channel.Gen {
	i, _ := k.held(s)
	return i.Gen
}

// tidy lets go of what is in the database and needed no more.
func (k *keeper) tidy() {
	for s := range k.issues {
		if _, ok := k.dirty[s]; ok {
			continue
		}
		if k.pending != nil {
			if _, ok := k.pending.slots[s]; ok {
				continue
			}
		}
		delete(k.issues, s)
	}
}

// hostRecord is a host's stored record, to be changed and written with the next commit.
func (k *keeper) hostRecord(name string) (*channel.Host, error) {
	key := channel.KeyOf(name)
	h, ok := k.records[key]
	if !ok {
		got, err := k.readHost(name)
		if err != nil {
			return nil, err
		}
		h = &got
		k.records[key] = h
	}
	return h, nil
}

// hostRecords reads the stored records of hosts, as hostRecord does.
func (k *keeper) hostRecords(ctx context.Context, names []string) error {
	names = slices.DeleteFunc(slices.Compact(slices.Sorted(slices.Values(names))), func(name string) bool { return k.records[channel.KeyOf(name)] != nil })
	if len(names) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, saveTimeout)
	defer cancel()
	all, err := k.cfg.Store.Hosts(ctx, names)
	if err != nil {
		return fmt.Errorf("read the hosts of which crawls tell: %w", err)
	}
	for i := range all {
		k.records[channel.KeyOf(names[i])] = &all[i]
	}
	return nil
}

// insist has a host's record be what an operator wanted, who has written that into the database: the loop may have read the record before that, and written it after.
// change tells whether it has changed anything.
func (k *keeper) insist(now time.Time, name string, change func(*channel.Host) bool) error {
	key := channel.KeyOf(name)
	h, known := k.records[key]
	if !known {
		got, err := k.readHost(name)
		if err != nil {
			return err
		}
		h = &got
	}
	if !change(h) {
		return nil
	}
	k.records[key] = h
	k.savedAt = time.Time{}
	k.save(now, false)
	return nil
}

// readHost reads a host's record, with what is not written yet.
func (k *keeper) readHost(name string) (channel.Host, error) {
	if h, ok := k.records[channel.KeyOf(name)]; ok {
		return *h, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), saveTimeout)
	defer cancel()
	h, err := k.cfg.Store.Host(ctx, name)
	if err != nil {
		return h, fmt.Errorf("read host %s: %w", name, err)
	}
	return h, nil
}

// stateOf is the state of a channel that was read from the database, where what is not written yet comes before what is.
func (k *keeper) stateOf(s recrawl.Slot, ch *channel.Channel) channel.State {
	if st, ok := k.states[s]; ok {
		return st.state
	}
	return ch.State
}

// forget lets go of a channel that is removed.
func (k *keeper) forget(s recrawl.Slot) {
	if k.pending != nil {
		delete(k.pending.slots, s)
		delete(k.pending.crawled, s)
		delete(k.pending.read, s)
	}
	delete(k.dirty, s)
	delete(k.states, s)
	delete(k.issues, s)
}
