package manager

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"shoal/channel"
	"shoal/internal/plain"
	"shoal/manager/archive"
	"shoal/manager/dispatch"
	"shoal/overlay"
	"shoal/recrawl"
)

// job is one handing-out on its way from the loop to a peer.
type job struct {
	dispatch.Order
	id   channel.ID
	near overlay.Named    // the peer that it is offered to first
	host *channel.Host    // its record, where it is not written yet; nil: read it
	ch   *channel.Channel // if it was read just now; nil: read it
}

const (
	maxBatch  = 256             // generations made durable in one write
	jobQueue  = 4 * maxBatch    // issued and waiting for a placer
	minLatest = 2 * time.Second // a shorter wait limit would be over before an offer is answered
	maxLatest = 24 * time.Hour
)

// dispatch hands out what is due, as far as the swarm has room.
func (m *Manager) dispatch(now time.Time) {
	m.machine.Close(m.stopped || m.notices[noticeStore] != "" || m.notices[noticeDisk] != "" || m.notices[noticeFeed] != "")
	for _, o := range m.machine.Tick(now) {
		m.jobs <- m.job(o) // the machine keeps it below the queue's length
	}
	m.near.clear()
	m.carryOut(now)
	m.due = m.sched.Ready() + m.machine.Near()
}

// job adds to an order what the loop knows and the database does not yet.
func (m *Manager) job(o dispatch.Order) job {
	delete(m.dirty, o.Slot)
	delete(m.issues, o.Slot)
	j := job{Order: o, id: m.table.ID(o.Slot), ch: m.near.read[o.Slot], host: m.near.hosts[o.Slot], near: m.near.named[o.Slot]}
	if r, ok := m.records[m.table.Host(o.Slot)]; ok {
		h := *r
		h.Record.Samples, h.Record.Best = slices.Clone(r.Record.Samples), slices.Clone(r.Record.Best)
		j.host = &h
	}
	return j
}

// carryOut does what the machine asks for. Called on the loop after whatever the machine was told.
func (m *Manager) carryOut(now time.Time) {
	for _, a := range m.machine.Acts() {
		switch a.Kind {
		case dispatch.Persist:
			m.issues[a.Slot] = a.Issue
			m.dirty[a.Slot] = struct{}{}
		case dispatch.Nothing:
			m.event(a.Slot, now, a.Issue.Gen, "came to nothing", "", "to be handed out again")
		case dispatch.GaveUp:
			m.mark(now, a.Slot, a.Note)
		case dispatch.Swallowed:
			m.cfg.Swarm.Swallowed(overlay.ID(a.Peer), a.Since)
		case dispatch.Unread:
			m.log.Error("not handed out", "err", a.Err)
			m.countError("store")
		}
	}
}

// expect is how long a task of a channel will take at most, by what was learnt: its last one, more of it where that left URLs for want of
// budget; a channel's first task by its page budget and what a page takes nowadays.
func (m *Manager) expect(s recrawl.Slot) time.Duration {
	d := time.Duration(m.cfg.FirstBudget) * max(m.perPage, m.cfg.Gap+firstPage)
	if service := m.sched.Facts(s).Service.Float(); service > 0 {
		d = time.Duration(float64(service) * float64(m.cfg.Tick))
		if m.table.Grows(s) {
			d *= budgetGrowth
		}
	}
	return d*3/2 + 2*m.cfg.Tick
}

// expectPages is about how many pages a channel's next task has, by how long the last one took.
func (m *Manager) expectPages(s recrawl.Slot) int {
	if service := m.sched.Facts(s).Service.Float(); service > 0 {
		return int(float64(service) * float64(m.cfg.Tick) / float64(max(m.perPage, m.cfg.Gap+firstPage)))
	}
	return m.cfg.FirstBudget
}

const (
	firstPage    = 100 * time.Millisecond // guessed time of a fetch beside the gap
	budgetGrowth = 4                      // of the page budget after a crawl that it ended
)

// startPlacers starts the goroutines between loop and swarm: one that makes generations durable in batches, and those that build, sign,
// deposit and offer. The returned channel closes when all have ended.
func (m *Manager) startPlacers(ctx context.Context) <-chan struct{} {
	durable := make(chan job)
	var wg sync.WaitGroup
	wg.Add(1 + m.cfg.Placers)
	go func() {
		defer wg.Done()
		defer close(durable)
		m.commitIssues(ctx, durable)
	}()
	for range m.cfg.Placers {
		go func() {
			defer wg.Done()
			for j := range durable {
				m.handOut(ctx, j)
			}
		}()
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	return done
}

// commitIssues makes generations durable, as many in one write as are waiting, before they go on.
func (m *Manager) commitIssues(ctx context.Context, out chan<- job) {
	for {
		var batch []job
		select {
		case <-ctx.Done():
			return
		case j := <-m.jobs:
			batch = append(batch, j)
		}
	more:
		for len(batch) < maxBatch {
			select {
			case j := <-m.jobs:
				batch = append(batch, j)
			default:
				break more
			}
		}
		refusals, err := m.saveIssued(ctx, batch)
		if err != nil {
			m.log.Error("generations not durable, nothing is handed out", "err", err)
			m.post(ctx, func(now time.Time) {
				m.setNotice(noticeStore, "Nothing new is handed out: "+plain.Error(err))
				m.machine.Hold(now.Add(storeRetry))
				for _, j := range batch {
					m.machine.Unsent(now, j.Order, storeRetry)
				}
			})
			continue
		}
		for _, r := range refusals {
			j := batch[r.N]
			batch[r.N].id = 0
			m.log.Error("generation refused", "channel", r.ID, "gen", j.Gen, "err", r.Err)
			m.post(ctx, func(now time.Time) { m.countError("store"); m.machine.Unsent(now, j.Order, storeRetry) })
		}
		for _, j := range batch {
			if j.id == 0 {
				continue
			}
			select {
			case out <- j:
			case <-ctx.Done():
				return
			}
		}
	}
}

const storeRetry = 10 * time.Second

// handOut builds, signs, deposits and offers one task, and tells the loop how that went.
func (m *Manager) handOut(ctx context.Context, j job) {
	t, err := m.build(ctx, j)
	if err != nil {
		m.log.Error("task not built", "channel", j.id, "gen", j.Gen, "err", err)
		m.post(ctx, func(now time.Time) { m.countError("building"); m.machine.Unsent(now, j.Order, storeRetry) })
		return
	}
	err = m.cfg.Archive.Deposit(ctx, t.signed, t.body)
	var fenced *archive.FencedError
	switch {
	case errors.As(err, &fenced):
		m.post(ctx, func(now time.Time) { m.outran(now, j, fenced.Highest) })
		return
	case err != nil:
		m.log.Warn("task not deposited", "channel", j.id, "gen", j.Gen, "err", err)
		m.post(ctx, func(now time.Time) {
			m.setNotice("archive", "The archive takes no new tasks: "+plain.Error(err))
			m.countError("archive")
			m.machine.Unsent(now, j.Order, storeRetry)
		})
		return
	}
	p, err := m.cfg.Swarm.Place(ctx, t.signed, t.header, t.record, j.near)
	switch {
	case err == nil:
		if m.cfg.OnPlaced != nil {
			m.cfg.OnPlaced(t.header.Host, p)
		}
		m.post(ctx, func(now time.Time) {
			m.placed(now, j, p)
			m.measured(t.header.Host, p.Samples)
		})
	case errors.Is(err, overlay.ErrRefused):
		m.post(ctx, func(now time.Time) {
			if m.machine.Refused(now, j.Order) {
				m.event(j.Slot, now, j.Gen, "refused", "", err.Error())
			}
		})
	default:
		m.post(ctx, func(now time.Time) {
			m.countError("placing")
			if m.machine.Unsure(now, j.Order) {
				m.event(j.Slot, now, j.Gen, "placing broke off", "", fmt.Sprintf("place: %v", err))
			}
		})
	}
}

// placed takes the answer of the overlay. Called on the loop.
func (m *Manager) placed(now time.Time, j job, p overlay.Placed) {
	m.setNotice("archive", "")
	if m.machine.Placed(now, j.Order, dispatch.Peer(p.Peer), p.Start) {
		m.event(j.Slot, now, j.Gen, "accepted", string(p.Peer), "starts "+p.Start.Format(time.TimeOnly))
		m.rtt(p)
	}
}

// outran handles a deposit that the archive refused: it knows higher generations. Called on the loop.
func (m *Manager) outran(now time.Time, j job, highest channel.Gen) {
	if m.machine.Outran(now, j.Order, highest) {
		m.event(j.Slot, now, j.Gen, "outrun", "", "the archive knows higher generations; this manager's data is older")
	}
}

// post hands f to the loop without waiting for it to run.
func (m *Manager) post(ctx context.Context, f func(now time.Time)) {
	select {
	case m.inbox <- f:
	case <-ctx.Done():
	}
}
