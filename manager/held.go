package manager

import (
	"context"
	"fmt"
	"time"

	"shoal/channel"
	"shoal/channel/lease"
	"shoal/recrawl"
)

// What the loop holds of a channel or host only while it needs it. The rest is in the database.

// book is what the machine looks up of channels.
type book struct{ m *Manager }

// Host implements dispatch.Channels.
func (b book) Host(s recrawl.Slot) channel.HostKey { return b.m.table.Host(s) }

// Issue implements dispatch.Channels. An issue that was read is held for a while.
func (b book) Issue(s recrawl.Slot) (lease.Issue, error) {
	m := b.m
	if i, ok := m.issues[s]; ok {
		return i, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), saveTimeout)
	defer cancel()
	id := m.table.ID(s)
	raw, err := m.cfg.Store.Lease(ctx, id)
	if err != nil {
		return lease.Issue{}, fmt.Errorf("read the lease of channel %d: %w", id, err)
	}
	i, err := parseIssue(raw)
	if err != nil {
		return i, fmt.Errorf("channel %d: %w", id, err)
	}
	m.issues[s] = i
	return i, nil
}

// Expect implements dispatch.Channels.
func (b book) Expect(s recrawl.Slot) time.Duration { return b.m.expect(s) }

func parseIssue(raw []byte) (lease.Issue, error) {
	if len(raw) == 0 {
		return lease.Issue{}, nil
	}
	i, err := lease.ParseIssue(raw)
	i.Restore()
	return i, err
}

// held is a channel's issue if it is in memory.
func (m *Manager) held(s recrawl.Slot) (lease.Issue, bool) {
	if i, ok := m.machine.Issue(s); ok {
		return i, true
	}
	i, ok := m.issues[s]
	return i, ok
}

// gen is the generation of a channel whose issue is held; else 0.
func (m *Manager) gen(s recrawl.Slot) channel.Gen {
	i, _ := m.held(s)
	return i.Gen
}

// tidy lets go of what is in the database and needed no more.
func (m *Manager) tidy() {
	for s := range m.issues {
		if _, ok := m.dirty[s]; ok {
			continue
		}
		if m.pending != nil {
			if _, ok := m.pending.slots[s]; ok {
				continue
			}
		}
		delete(m.issues, s)
	}
}

// hostRecord is a host's stored record, to be changed and written with the next commit.
func (m *Manager) hostRecord(name string) (*channel.Host, error) {
	key := channel.KeyOf(name)
	h, ok := m.records[key]
	if !ok {
		got, err := m.readHost(name)
		if err != nil {
			return nil, err
		}
		h = &got
		m.records[key] = h
	}
	return h, nil
}

// readHost reads a host's record, with what is not written yet.
func (m *Manager) readHost(name string) (channel.Host, error) {
	if h, ok := m.records[channel.KeyOf(name)]; ok {
		return *h, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), saveTimeout)
	defer cancel()
	h, err := m.cfg.Store.Host(ctx, name)
	if err != nil {
		return h, fmt.Errorf("read host %s: %w", name, err)
	}
	return h, nil
}
