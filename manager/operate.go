package manager

import (
	"context"
	"errors"
	"slices"
	"time"

	"shoal/channel"
	"shoal/recrawl"
)

// This file has what an operator's wishes change in the loop's state. Package desk writes them to the database and calls these methods.

// onLoop runs f where the loop's state may be touched.
func (m *Manager) onLoop(ctx context.Context, f func(now time.Time)) error {
	if !m.running.Load() {
		m.before.Lock()
		defer m.before.Unlock()
		if !m.running.Load() { // nor has it begun meanwhile: it waits for the lock
			m.run(f)
			return nil
		}
	}
	return m.do(ctx, f)
}

// Running reports whether Run has begun.
func (m *Manager) Running() bool { return m.running.Load() }

// Epoch is the manager's in its database; writes that go together with its own carry it.
func (m *Manager) Epoch() channel.Epoch { return m.epoch }

const adoptBatch = 2000 // channels that the loop takes in between two looks at the calendar

// Adopt takes in the channels of the database, from first to last, that the loop does not have yet. It calls taken after each, and returns
// how many of them are on blocked hosts.
func (m *Manager) Adopt(ctx context.Context, first, last channel.ID, taken func()) (blocked int, err error) {
	batch := make([]channel.Hot, 0, adoptBatch)
	flush := func() error {
		var failed error
		err := m.onLoop(ctx, func(now time.Time) {
			for _, h := range batch {
				if _, known := m.table.Find(h.ID); known {
					continue
				}
				failed = errors.Join(failed, m.add(now, h))
				taken()
				if m.machine.Blocked(h.Host) != "" {
					blocked++
				}
			}
		})
		batch = batch[:0]
		return errors.Join(err, failed)
	}
	err = m.cfg.Store.Scan(ctx, first, last, func(h channel.Hot) error {
		h.Lease, h.Facts = slices.Clone(h.Lease), slices.Clone(h.Facts) // valid during this call only
		if batch = append(batch, h); len(batch) < adoptBatch {
			return nil
		}
		return flush()
	})
	return blocked, errors.Join(err, flush())
}

// Edited takes in that an operator has changed a channel's settings or state in the database.
func (m *Manager) Edited(ctx context.Context, before, after *channel.Channel) error {
	var failed error
	err := m.onLoop(ctx, func(now time.Time) {
		s, ok := m.table.Find(after.ID)
		if !ok {
			return
		}
		if after.State == channel.Active {
			failed = m.machine.Unmark(s)
		}
		delete(m.states, s) // overtaken
		m.machine.NotBefore(s, time.Time{})
		m.sched.Edit(s, func(f *recrawl.Facts) {
			f.Weight = f.Weighed() * Importance(&after.Settings) / Importance(&before.Settings)
			f.Flags &^= recrawl.Paused | recrawl.Pinned
			if after.State != channel.Active {
				f.Flags |= recrawl.Paused
			}
			if after.Settings.Group > 0 {
				f.Group, f.Flags = uint8(after.Settings.Group-1), f.Flags|recrawl.Pinned
			}
		})
		m.event(s, now, m.gen(s), "edited", "", "by an operator")
	})
	return errors.Join(err, failed)
}

// SetBlocked has nothing handed out on a host any more; an empty reason lifts it.
func (m *Manager) SetBlocked(ctx context.Context, origin, why string) error {
	return m.onLoop(ctx, func(time.Time) {
		key := channel.KeyOf(origin)
		m.machine.Block(key, why)
		if r, ok := m.records[key]; ok {
			r.Blocked = why
		}
		if why == "" {
			m.sched.Rerank() // those that were put off come up again
		}
	})
}

// StandOff leaves a channel's host alone until a task that is out, and is called back, must have ended.
func (m *Manager) StandOff(ctx context.Context, id channel.ID, host string) error {
	var failed error
	err := m.onLoop(ctx, func(now time.Time) { failed = m.standOff(now, id, host) })
	return errors.Join(err, failed)
}

func (m *Manager) standOff(now time.Time, id channel.ID, name string) error {
	s, ok := m.table.Find(id)
	if !ok {
		return nil
	}
	until, ok := m.machine.StandOff(now, s)
	if !ok {
		return nil
	}
	r, err := m.hostRecord(name)
	if err != nil {
		return err
	}
	r.NextVisit = until
	m.machine.Leave(m.table.Host(s), until)
	return nil
}

// Forget takes a channel out of all that the loop holds. What is still out of it comes to nothing.
func (m *Manager) Forget(ctx context.Context, ch *channel.Channel) error {
	var failed error
	err := m.onLoop(ctx, func(now time.Time) {
		failed = m.forget(now, ch.ID, ch.Scope.Host)
		m.sizes.gone(&ch.Learnt)
	})
	return errors.Join(err, failed)
}

func (m *Manager) forget(now time.Time, id channel.ID, name string) error {
	s, ok := m.table.Find(id)
	if !ok {
		return nil
	}
	if err := m.standOff(now, id, name); err != nil {
		return err
	}
	m.machine.Forget(s)
	if m.pending != nil {
		delete(m.pending.slots, s)
		delete(m.pending.crawled, s)
		delete(m.pending.read, s)
	}
	delete(m.dirty, s)
	delete(m.states, s)
	delete(m.issues, s)
	m.events.drop(id)
	if m.sched.Facts(s).Updated > 0 {
		m.visited--
	}
	m.sched.Remove(s)
	m.table.Drop(s)
	return nil
}
