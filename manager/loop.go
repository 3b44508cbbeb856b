package manager

import (
	"context"
	"errors"
	"fmt"
	"time"

	"shoal/channel"
	"shoal/internal/plain"
)

// Run runs the manager until ctx ends, and returns after all that it started has ended.
func (m *Manager) Run(ctx context.Context) error {
	asked := ctx // ends when this manager is asked to end
	ctx, stop := context.WithCancelCause(ctx)
	defer m.beside.Wait()
	defer stop(nil)
	whole, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	placed := make(chan struct{})
	m.beside.Go(func() {
		defer close(placed)
		m.placers.work(ctx, whole)
	})
	m.beside.Go(func() { m.keepAcked(ctx) })
	m.beside.Go(func() { m.auditor.clerks.work(ctx) })
	if m.cfg.Arbiter != nil {
		m.beside.Go(func() { m.auditor.arbitrate(ctx) })
	}

	beat := time.NewTicker(m.beat())
	defer beat.Stop()
	m.begin()
	m.tuning.recallDue = true
	if m.tenancy != nil {
		m.beside.Go(func() { m.tenancy.listen(ctx) })
		m.beside.Go(func() {
			if err := m.tenancy.work(ctx); err != nil {
				stop(err)
			}
		})
	} else if err := m.auditor.catchUp(ctx); err != nil {
		m.log.Warn("what was delivered before the last end is not judged", "err", err)
	}
	ruleAgain(m.auditor, m.cfg.Now())
	for {
		notify := m.cfg.Archive.Notify()
		m.keep.now()
		more, err := m.learner.feedback(ctx)
		if err != nil {
			if ctx.Err() != nil {
				break
			}
			if errors.Is(err, channel.ErrCursor) {
				stop(fmt.Errorf("%w: %w", ErrElsewhere, err))
				break
			}
			m.tally.notice(noticeFeed, "What peers have crawled cannot be taken in: "+plain.Error(err))
			m.log.Error("feedback", "err", err)
		} else {
			m.tally.notice(noticeFeed, "")
		}
		if more {
			continue
		}
		select {
		case <-ctx.Done():
		case f := <-m.requests:
			m.run(f)
			m.drain()
		case <-notify:
			continue
		case <-beat.C:
		}
		if ctx.Err() != nil {
			break
		}
		now := m.keep.now()
		if m.unbegun(now) {
			stop(ErrSetBack)
			break
		}
		m.round(ctx, now)
	}
	m.settle(placed, cut)
	close(m.ended)
	m.finish(asked)
	return context.Cause(ctx)
}

// settleTime is for how long the end waits for what is being offered to peers. An offer of which nothing is known keeps its channel from being handed out
// until its latest start, which may be a day after the restart.
const settleTime = 3 * time.Second

// settle takes in what comes of the last offers. After a while it cuts them short.
func (m *Manager) settle(placed <-chan struct{}, cut func()) {
	late := time.NewTimer(settleTime)
	defer late.Stop()
	for {
		select {
		case f := <-m.requests:
			m.run(f)
		case <-late.C:
			cut()
		case <-placed:
			m.drain()
			return
		}
	}
}

// finish writes what is not written yet, when the loop has ended. asked ends when the manager is asked to end.
func (m *Manager) finish(asked context.Context) {
	last, done := context.WithTimeout(context.Background(), saveTimeout) // for all together: a database that is away does not hold the end up for each part anew
	defer done()
	m.keep.saveWithin(last, m.cfg.Now(), true)
	m.keep.saveStates(last)
	m.auditor.keepAll(last, m.cfg.Now())
	if err := m.keepWhole(last, m.cfg.Now()); err != nil {
		m.log.Warn("a restart may forget crawls that were asked for, or order some anew that have begun", "err", err)
	}
	if m.tenancy != nil {
		m.tenancy.leave(last, asked)
	}
	m.published = time.Time{} // who looks after the end sees the last of it
	m.publish(m.cfg.Now())
}

// round gives every part its turn.
func (m *Manager) round(ctx context.Context, now time.Time) {
	m.tuning.recall(ctx)
	m.tuning.plan(ctx, now)
	m.disk.look(now)
	m.errands.tick(now)
	m.auditor.visit(now)
	ruleAgain(m.auditor, now)
	deliveries{m.auditor}.judgeLate(now)
	m.tuning.judgeClock(now)
	m.lost.look(ctx, now)
	m.keep.moveRecords(ctx, now)
	m.hand.dispatch(ctx, now)
	m.find.admit(ctx, now)
	m.keep.save(now, false)
	if (m.whole.read || m.asked.read) && !m.tenancy.resting() {
		m.learner.crawlWhole(now)
		m.learner.crawlAsked(now)
	}
	m.keepWholes(ctx, now)
	m.auditor.grant()
	m.auditor.sentences.tick(now)
	m.auditor.vacate(now, m.auditor.trust, m.cfg.Swarm.View())
	m.auditor.keepUp(ctx, now)
	m.publish(now)
}

// beat is how often the loop looks at the calendar without other cause.
func (c *core) beat() time.Duration { return min(c.cfg.Tick/4, time.Second) }

const diskEvery = 2 * time.Second

// diskWatch stops handing tasks out while there is no room for what they would bring. Owned by the loop.
type diskWatch struct {
	*core
	at time.Time // of the last look
}

func (d *diskWatch) look(now time.Time) {
	if d.cfg.Disk == nil || now.Sub(d.at) < diskEvery {
		return
	}
	d.at = now
	if err := d.cfg.Disk(); err != nil {
		if d.tally.notices[noticeDisk] == "" {
			d.log.Error("nothing new is handed out", "err", err)
		}
		d.tally.notice(noticeDisk, "Nothing new is handed out: "+plain.Error(err))
		return
	}
	d.tally.notice(noticeDisk, "")
}
