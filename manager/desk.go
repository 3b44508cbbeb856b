package manager

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"shoal/channel"
	"shoal/manager/web"
	"shoal/recrawl"
)

// ErrStopped is returned for what only a running manager can do.
var ErrStopped = errors.New("manager: not running")

// Desk is where an operator changes channels and hosts, at a running manager or at a stopped one's database: what is written is the same,
// and a running one is told. Its methods may be called by several goroutines.
type Desk struct {
	store Store
	epoch channel.Epoch
	now   func() time.Time
	m     *Manager // nil: stopped
	files Takedown // nil: no archive at hand
}

// OpenDesk works on the database of a stopped manager. files may be nil: then nothing can be purged.
func OpenDesk(ctx context.Context, store Store, files Takedown) (*Desk, error) {
	e, err := store.Take(ctx)
	if err != nil {
		return nil, fmt.Errorf("take the channels over: %w", err)
	}
	return &Desk{store: store, epoch: e, now: time.Now, files: files}, nil
}

// Desk is the operator's desk at this manager.
func (m *Manager) Desk() *Desk {
	files, _ := m.cfg.Archive.(Takedown)
	return &Desk{store: m.cfg.Store, epoch: m.epoch, now: m.cfg.Now, m: m, files: files}
}

// Running tells whether a manager is behind the desk.
func (d *Desk) Running() bool { return d.m != nil }

// onLoop runs f where the loop's state may be touched.
func (m *Manager) onLoop(ctx context.Context, f func(now time.Time)) error {
	if !m.running.Load() {
		m.before.Lock()
		defer m.before.Unlock()
		if !m.running.Load() { // nor has it begun meanwhile: it waits for the lock
			f(m.cfg.Now())
			return nil
		}
	}
	return m.do(ctx, f)
}

const adoptBatch = 2000 // channels that the loop takes in between two looks at the calendar

// Import adds any number of channels, all or none.
func (d *Desk) Import(ctx context.Context, lines iter.Seq[channel.Line]) (out channel.Imported, err error) {
	var ports originSet
	if d.m != nil {
		d.m.imports.under.Add(1)
		defer d.m.imports.under.Add(-1)
		var own atomic.Int64
		lines = d.m.imports.count(lines, &own)
		defer func() {
			if err != nil {
				d.m.imports.read.Add(-own.Load())
			}
		}()
	}
	out, err = d.store.Import(ctx, d.epoch, ports.of(lines))
	if err != nil || out.Added == 0 {
		return out, err
	}
	if err := d.inheritBlocks(ctx, ports); err != nil || d.m == nil {
		return out, err
	}
	d.m.imports.written.Add(int64(out.Added))
	out.Blocked, err = d.m.adopt(ctx, out.First, out.Last)
	return out, err
}

// imports counts what imports that are under way have done, for people to see.
type imports struct{ under, read, written, taken atomic.Int64 }

// count counts lines as they are read.
func (i *imports) count(lines iter.Seq[channel.Line], own *atomic.Int64) iter.Seq[channel.Line] {
	return func(yield func(channel.Line) bool) {
		for l := range lines {
			i.read.Add(1)
			own.Add(1)
			if !yield(l) {
				return
			}
		}
	}
}

// words say how far the imports are; empty: there is none. When the last one has ended the counts begin anew. Called on the loop.
func (i *imports) words() string {
	if i.under.Load() == 0 {
		i.read.Store(0)
		i.written.Store(0)
		i.taken.Store(0)
		return ""
	}
	if n := i.written.Load(); n > 0 {
		return fmt.Sprintf("An import is under way: %d channels are written, %d of them taken in.", n, i.taken.Load())
	}
	return fmt.Sprintf("An import is under way: %d lines read. All of them are added, or none.", i.read.Load())
}

// adopt takes channels of the database in that the loop does not have yet, and tells how many are on blocked hosts.
func (m *Manager) adopt(ctx context.Context, first, last channel.ID) (blocked int, err error) {
	batch := make([]channel.Hot, 0, adoptBatch)
	flush := func() error {
		var failed error
		err := m.onLoop(ctx, func(now time.Time) {
			for _, h := range batch {
				if _, known := m.table.Find(h.ID); known {
					continue
				}
				failed = errors.Join(failed, m.add(now, h))
				m.imports.taken.Add(1)
				if state := m.hosts[h.Host]; state != nil && state.blocked != "" {
					blocked++
				}
			}
		})
		batch = batch[:0]
		return errors.Join(err, failed)
	}
	err = m.cfg.Store.Scan(ctx, first, last, func(h channel.Hot) error {
		h.Lease, h.Facts = slices.Clone(h.Lease), slices.Clone(h.Facts) // theirs only for now
		if batch = append(batch, h); len(batch) < adoptBatch {
			return nil
		}
		return flush()
	})
	return blocked, errors.Join(err, flush())
}

// Channel reads one channel.
func (d *Desk) Channel(ctx context.Context, id channel.ID) (channel.Channel, error) {
	return d.store.Channel(ctx, id)
}

const listBatch = 500 // channels read at a time

// Each calls f for the channels whose host, with or without scheme, holds the query, in the order of their ids, until it returns an error.
func (d *Desk) Each(ctx context.Context, query string, f func(*channel.Channel) error) error {
	after := channel.ID(0)
	for {
		chs, err := d.store.List(ctx, after, listBatch)
		if err != nil || len(chs) == 0 {
			return err
		}
		for i := range chs {
			after = chs[i].ID
			if chs[i].State == channel.Removed || !strings.Contains(chs[i].Scope.Host, query) {
				continue
			}
			if err := f(&chs[i]); err != nil {
				return err
			}
		}
	}
}

// Rows lists channels as Manager.Channels does.
func (d *Desk) Rows(ctx context.Context, query string, from, n int) (rows []web.Row, total int, err error) {
	if d.m != nil && d.m.running.Load() {
		rows, total = d.m.Channels(query, from, n)
		return rows, total, nil
	}
	err = d.Each(ctx, query, func(ch *channel.Channel) error {
		if total >= from && len(rows) < n {
			rows = append(rows, stoppedRow(ch))
		}
		total++
		return nil
	})
	return rows, total, err
}

// stoppedRow is what the database alone tells of a channel.
func stoppedRow(ch *channel.Channel) web.Row {
	l := &ch.Learnt
	r := web.Row{ID: ch.ID, Host: ch.Scope.Host, Scope: scopeWords(ch.Scope), State: stateWord(ch.State), Reason: ch.Reason,
		Pages: l.Pages, Visits: l.Visits, Changes: l.Changes, Updated: l.Updated, Out: l.Out, Error: l.LastError, Failed: l.Failed}
	if l.LastOutcome != 0 {
		r.Last = outcomeWord(l.LastOutcome)
	}
	return r
}

func stateWord(s channel.State) string {
	switch s {
	case channel.Paused:
		return "paused"
	case channel.Marked:
		return "given up"
	case channel.Removed:
		return "removed"
	}
	return "active"
}

// Row is one channel with what happened to it since the manager started.
func (d *Desk) Row(ctx context.Context, id channel.ID) (web.Row, []web.Event, error) {
	if d.m != nil && d.m.running.Load() {
		if r, ev, ok := d.m.Channel(id); ok {
			return r, ev, nil
		}
		return web.Row{}, nil, fmt.Errorf("%w: %d", channel.ErrUnknown, id)
	}
	ch, err := d.store.Channel(ctx, id)
	if err != nil {
		return web.Row{}, nil, err
	}
	r := stoppedRow(&ch)
	var f recrawl.Facts
	if len(ch.Learnt.EstimatorBlob) > 0 && f.Restore(ch.Learnt.EstimatorBlob) == nil { // a damaged record is for who starts the manager
		r.Model = recrawl.DescribeModel(ch.Learnt.History, &f, recrawl.PlanDay)
	}
	return r, nil, nil
}

// Edit changes scope, seeds, settings and state of a channel; an error of change leaves it as it was.
func (d *Desk) Edit(ctx context.Context, id channel.ID, change func(*channel.Channel) error) (channel.Channel, error) {
	var refused error
	var after channel.Channel
	was := float32(1)
	err := d.store.Update(ctx, d.epoch, id, func(ch *channel.Channel) {
		old := *ch
		was = importance(&old.Settings)
		if refused = change(ch); refused == nil && ch.Scope.Host != old.Scope.Host {
			refused = fmt.Errorf("%w: a channel stays with its host: remove channel %d and add one of %s", ErrAsk, id, ch.Scope.Host)
		}
		if refused != nil {
			*ch = old
		}
		after = *ch
	})
	if err = errors.Join(refused, err); err != nil {
		return after, err
	}
	if d.m == nil {
		return after, d.reweigh(ctx, &after, was)
	}
	var failed error
	err = d.m.onLoop(ctx, func(now time.Time) {
		s, ok := d.m.table.Find(id)
		if !ok {
			return
		}
		if after.State == channel.Active {
			failed = d.m.unmark(s)
		}
		delete(d.m.states, s) // overtaken
		delete(d.m.failing, s)
		d.m.sched.Edit(s, func(f *recrawl.Facts) {
			f.Weight = f.Weighed() * importance(&after.Settings) / was
			f.Flags &^= recrawl.Paused | recrawl.Pinned
			if after.State != channel.Active {
				f.Flags |= recrawl.Paused
			}
			if after.Settings.Group > 0 {
				f.Group, f.Flags = uint8(after.Settings.Group-1), f.Flags|recrawl.Pinned
			}
		})
		d.m.event(s, now, d.m.gen(s), "edited", "", "by an operator")
	})
	return after, errors.Join(err, failed)
}

// Pause stops handing a channel out, or goes on with it.
func (d *Desk) Pause(ctx context.Context, id channel.ID, paused bool) error {
	if d.m != nil {
		if err := d.m.Pause(ctx, id, paused); err != nil {
			return err
		}
	}
	return d.store.Update(ctx, d.epoch, id, func(ch *channel.Channel) {
		ch.State, ch.Reason = channel.Active, ""
		if paused {
			ch.State = channel.Paused
		}
	})
}

// CrawlNow has a channel crawled as soon as there is room.
func (d *Desk) CrawlNow(ctx context.Context, id channel.ID) error {
	if d.m == nil {
		return fmt.Errorf("%w: a channel is crawled now only by a running manager; start it with `shoal manager`", ErrStopped)
	}
	return d.m.CrawlNow(ctx, id)
}

// Remove forgets a channel. What is out of it is called back, and comes to nothing; pages stay in the archive. Its host is left alone until the
// task that is out, if any, must have ended.
func (d *Desk) Remove(ctx context.Context, id channel.ID) error {
	ch, err := d.store.Channel(ctx, id)
	if err != nil {
		return err
	}
	if d.m != nil {
		var failed error
		if err := d.m.onLoop(ctx, func(now time.Time) { failed = d.m.forget(now, id, ch.Scope.Host); d.m.sizes.gone(&ch.Learnt) }); err != nil || failed != nil {
			return errors.Join(err, failed)
		}
	}
	if err := d.recall(ctx, id); err != nil {
		return err
	}
	return d.store.Remove(ctx, d.epoch, id)
}

// standOff leaves a channel's host alone until a task that is out, and is called back, must have ended. Called on the loop.
func (m *Manager) standOff(now time.Time, id channel.ID, name string) error {
	s, ok := m.table.Find(id)
	if !ok {
		return nil
	}
	i := m.issues[s]
	if i == nil || !i.Out() {
		return nil
	}
	h := m.host(m.table.Host(s))
	until := now.Add(m.cfg.Terms.Term)
	if at := i.Deadline(); at.After(until) {
		until = at
	}
	if !until.After(h.next) {
		return nil
	}
	r, err := m.hostRecord(name)
	if err != nil {
		return err
	}
	h.next, r.NextVisit = until, until
	return nil
}

// forget takes a channel out of all that the loop holds.
func (m *Manager) forget(now time.Time, id channel.ID, name string) error {
	s, ok := m.table.Find(id)
	if !ok {
		return nil
	}
	if err := m.standOff(now, id, name); err != nil {
		return err
	}
	m.freeHost(s)
	if f, out := m.flights[s]; out {
		m.carried(f, "")
		delete(m.flights, s)
	}
	if m.pending != nil {
		delete(m.pending.slots, s)
		delete(m.pending.crawled, s)
		delete(m.pending.read, s)
	}
	delete(m.asked, s)
	delete(m.failing, s)
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
