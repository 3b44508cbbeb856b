package manager

import (
	"context"
	"errors"
	"time"

	"shoal/channel"
	"shoal/overlay"
	"shoal/recrawl"
)

// Links is how many pages of a channel are known beside its copy.
func (m *Manager) Links(ctx context.Context, id channel.ID) (n int, err error) {
	err = m.onLoop(ctx, func(time.Time) {
		if s, ok := m.table.Find(id); ok {
			n = m.table.Links(s)
		}
	})
	return n, err
}

// FactsOf is what the scheduler knows of a channel.
func (m *Manager) FactsOf(ctx context.Context, id channel.ID) (f recrawl.Facts, err error) {
	err = m.onLoop(ctx, func(time.Time) {
		if s, ok := m.table.Find(id); ok {
			f = m.sched.Facts(s)
		}
	})
	return f, err
}

// WhatFailed is why a crawl brought nothing.
func WhatFailed(r *channel.Report) string { return whatFailed(r) }

// PauseAfter is the wait after n failed crawls in a row.
func PauseAfter(f Failing, n int) time.Duration { return f.pause(n) }

// AddChannels takes new channels in, and says which were refused because their scope is taken. It works before Run and while it runs.
func (m *Manager) AddChannels(ctx context.Context, chs []channel.Channel) (ids []channel.ID, refused []channel.Refusal, err error) {
	for i := range chs {
		if err := chs[i].Scope.Validate(); err != nil {
			return nil, nil, err
		}
	}
	for from := 0; from < len(chs); from += channel.MaxAdd {
		part := chs[from:min(from+channel.MaxAdd, len(chs))]
		got, no, err := m.cfg.Store.Add(ctx, m.epoch, part)
		if err != nil {
			return ids, refused, err
		}
		for i := range no {
			no[i].N += from
		}
		ids, refused = append(ids, got...), append(refused, no...)
	}
	var failed error
	take := func(now time.Time) {
		for i, id := range ids {
			if id == 0 {
				continue
			}
			c := &chs[i]
			h := channel.Hot{ID: id, Host: channel.KeyOf(c.Scope.Host), State: max(c.State, channel.Active), Weight: c.Settings.Weight, Group: c.Settings.Group, Links: len(c.Seeds)}
			if err := m.add(now, h); err != nil {
				failed = errors.Join(failed, err)
			}
		}
	}
	if err := m.onLoop(ctx, take); err != nil {
		return ids, refused, err
	}
	return ids, refused, failed
}

// NewAccused returns no notes of accused hosts.
func NewAccused() accused { return accused{} }

func (a accused) Accuse(now time.Time, host channel.HostKey, account string, alone bool) bool {
	return a.accuse(now, host, party{account: account}, alone)
}

// SameParty reports whether the words of two accounts may be one party's, each of which may have delivered nothing.
func SameParty(a string, aFresh bool, b string, bFresh bool) bool {
	return party{account: a, fresh: aFresh}.same(party{account: b, fresh: bFresh})
}

// NewComplaints returns no complaints.
func NewComplaints() complaints { return complaints{} }

func (c complaints) Failed(s recrawl.Slot, account, prefix string, alone bool) bool {
	return c.failed(time.Unix(1, 0), s, party{account: account, prefix: prefix}, overlay.ID(account), alone, false) != repeated
}
