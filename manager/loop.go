package manager

import (
	"context"
	"time"

	"shoal/channel"
	"shoal/coords"
	"shoal/internal/plain"
)

// Run runs the manager until ctx ends, and returns after all that it started has ended.
func (m *Manager) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	m.life = ctx
	defer m.wg.Wait()
	done := m.startPlacers(ctx)
	defer func() { cancel(); <-done }()
	m.wg.Go(func() { m.keepAcked(ctx) })

	beat := time.NewTicker(m.beat())
	defer beat.Stop()
	m.before.Lock()
	m.running.Store(true)
	m.before.Unlock()
	m.recall()
	for {
		notify := m.cfg.Archive.Notify()
		more, err := m.feedback(ctx)
		if err != nil {
			if ctx.Err() != nil {
				break
			}
			m.setNotice(noticeFeed, "What peers have crawled cannot be taken in: "+plain.Error(err))
			m.log.Error("feedback", "err", err)
		} else {
			m.setNotice(noticeFeed, "")
		}
		if more {
			continue
		}
		select {
		case <-ctx.Done():
		case f := <-m.inbox:
			m.run(f)
			m.drainInbox()
		case <-notify:
			continue
		case <-beat.C:
		}
		if ctx.Err() != nil {
			break
		}
		now := m.cfg.Now()
		m.plan(now)
		m.lookAtDisk(now)
		m.dispatch(now)
		m.admitFound(now)
		m.keepState(now, false)
		m.publish(now)
	}
	m.keepState(m.cfg.Now(), true)
	return context.Cause(ctx)
}

const diskEvery = 2 * time.Second

// lookAtDisk stops handing tasks out while there is no room for what they would bring.
func (m *Manager) lookAtDisk(now time.Time) {
	if m.cfg.Disk == nil || now.Sub(m.diskAt) < diskEvery {
		return
	}
	m.diskAt = now
	if err := m.cfg.Disk(); err != nil {
		if m.notices[noticeDisk] == "" {
			m.log.Error("nothing new is handed out", "err", err)
		}
		m.setNotice(noticeDisk, "Nothing new is handed out: "+plain.Error(err))
		return
	}
	m.setNotice(noticeDisk, "")
}

// beat is how often the loop looks at the calendar without other cause.
func (m *Manager) beat() time.Duration { return min(m.cfg.Tick/4, time.Second) }

const inboxBurst = 256 // requests of placers and operators taken before the calendar is looked at again

func (m *Manager) drainInbox() {
	for range inboxBurst {
		select {
		case f := <-m.inbox:
			m.run(f)
		default:
			return
		}
	}
}

// run runs f, and what follows from it for what is handed out. Called on the loop.
func (m *Manager) run(f func(now time.Time)) {
	now := m.cfg.Now()
	f(now)
	m.carryOut(now)
}

// do runs f on the loop and waits for it.
func (m *Manager) do(ctx context.Context, f func(now time.Time)) error {
	done := make(chan struct{})
	select {
	case m.inbox <- func(now time.Time) { f(now); close(done) }:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// measured keeps with a host what candidates for its task measured: the next task's choice is better for it.
// Called on the loop.
func (m *Manager) measured(name string, samples []coords.Sample) {
	if len(samples) == 0 {
		return
	}
	h, err := m.hostRecord(name)
	if err != nil {
		m.log.Debug("host not read", "host", name, "err", err)
		return
	}
	m.near.learn(channel.KeyOf(name))
	for _, s := range samples {
		h.Record.Add(s)
	}
}
