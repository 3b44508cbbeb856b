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

// hostState is what the loop knows of a Web host with which something is up.
type hostState struct {
	out     channel.ID // the channel whose task may send requests to it; zero: none
	next    time.Time  // no task may start before
	blocked string
}

// host is what is known of a host, to be changed.
func (m *Manager) host(key channel.HostKey) *hostState {
	h, ok := m.hosts[key]
	if !ok {
		h = &hostState{}
		m.hosts[key] = h
	}
	return h
}

// hostNow is the same, to be read.
func (m *Manager) hostNow(key channel.HostKey) hostState {
	if h, ok := m.hosts[key]; ok {
		return *h
	}
	return hostState{}
}

func (m *Manager) freeHost(s recrawl.Slot) {
	if h, ok := m.hosts[m.table.Host(s)]; ok && h.out == m.table.ID(s) {
		h.out = 0
	}
}

// issueOf is a channel's issue, read from the database unless it is held. It is held while the channel has a flight, or while it is to be written.
func (m *Manager) issueOf(s recrawl.Slot) (*lease.Issue, error) {
	if i, ok := m.issues[s]; ok {
		return i, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), saveTimeout)
	defer cancel()
	id := m.table.ID(s)
	raw, err := m.cfg.Store.Lease(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("read the lease of channel %d: %w", id, err)
	}
	i, err := parseIssue(raw)
	if err != nil {
		return nil, fmt.Errorf("channel %d: %w", id, err)
	}
	m.issues[s] = &i
	return &i, nil
}

func parseIssue(raw []byte) (lease.Issue, error) {
	if len(raw) == 0 {
		return lease.Issue{}, nil
	}
	i, err := lease.ParseIssue(raw)
	i.Restore()
	return i, err
}

// gen is the generation of a channel whose issue is held; else 0.
func (m *Manager) gen(s recrawl.Slot) channel.Gen {
	if i, ok := m.issues[s]; ok {
		return i.Gen
	}
	return 0
}

// isOut tells whether a task of a channel may be with a peer.
func (m *Manager) isOut(s recrawl.Slot) bool {
	i, ok := m.issues[s]
	return ok && i.Out()
}

const tidyHosts = time.Minute // how often hosts whose next visit has come are forgotten

// tidy lets go of what is in the database and needed no more.
func (m *Manager) tidy(now time.Time) {
	for s := range m.issues {
		if _, ok := m.flights[s]; ok {
			continue
		}
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
	if now.Sub(m.tidied) < tidyHosts {
		return
	}
	m.tidied = now
	for key, h := range m.hosts {
		if h.out == 0 && h.blocked == "" && !now.Before(h.next) {
			delete(m.hosts, key)
		}
	}
}

// name is the name of a channel's host.
func (m *Manager) name(s recrawl.Slot) (string, error) {
	if h, ok := m.near.hosts[m.table.Host(s)]; ok && h.name != "" {
		return h.name, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), saveTimeout)
	defer cancel()
	ch, err := m.cfg.Store.Channel(ctx, m.table.ID(s))
	if err != nil {
		return "", fmt.Errorf("read channel %d: %w", m.table.ID(s), err)
	}
	m.read = &ch
	return ch.Scope.Host, nil
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
