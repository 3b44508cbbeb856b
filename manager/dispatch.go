package manager

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"shoal/channel"
	"shoal/channel/lease"
	"shoal/internal/plain"
	"shoal/manager/archive"
	"shoal/manager/dispatch"
	"shoal/overlay"
	"shoal/recrawl"
)

// job is one handing-out on its way from the loop to a peer.
type job struct {
	slot   recrawl.Slot
	id     channel.ID
	gen    channel.Gen
	issue  lease.Issue // to be durable before the offer leaves
	issued time.Time
	latest time.Time
	host   *channel.Host    // its record, where it is not written yet; nil: read it
	ch     *channel.Channel // if it was read just now; nil: read it
}

const (
	maxBatch  = 256             // generations made durable in one write
	jobQueue  = 4 * maxBatch    // issued and waiting for a placer
	minLatest = 2 * time.Second // a shorter wait limit would be over before an offer is answered
)

// dispatch hands out what is due, as far as the swarm has room: first what was asked for now or came back, then what the strategy wants, new and old mixed by the
// share in force (see Sequencers).
func (m *Manager) dispatch(now time.Time) {
	if now.Before(m.holdUntil) || m.stopped || m.notices[noticeStore] != "" || m.notices[noticeDisk] != "" || m.notices[noticeFeed] != "" || !m.swarmReady(now) {
		return
	}
	room := m.room()
	batch := m.retake(now, room)
	m.taken.now += int64(len(batch))
	load := recrawl.Load{Room: room - len(batch), Out: len(m.flights), New: m.choice.NewShare}
	tick := m.clock.At(now)
	if load.Room >= 0 {
		m.sched.Next(tick, load, func(s recrawl.Slot) (recrawl.Tick, bool) {
			again, ok := m.admit(now, s)
			switch {
			case ok:
			case again.IsZero():
				return recrawl.Enough, false
			default:
				return max(m.clock.At(again), tick+1), false
			}
			j, err := m.issue(now, s)
			if err != nil {
				return tick + 60, false
			}
			f := &flight{issued: now}
			m.flights[s] = f
			m.carried(f, string(m.pick))
			m.submitted++
			if m.sched.Facts(s).Updated == 0 {
				m.taken.fresh++
			} else {
				m.taken.old++
			}
			batch = append(batch, j)
			return 0, true
		})
	}
	m.read = nil
	m.near.Looked(now)
	m.due = m.sched.Ready() + len(m.asked)
	for _, j := range batch {
		m.arm(j.slot, m.flights[j.slot])
		m.jobs <- j // room keeps it below the queue's length
	}
	m.placing += len(batch)
}

// swarmReady holds the first tasks back until some peers are known, so that they do not all go to whoever came first; not for long.
func (m *Manager) swarmReady(now time.Time) bool {
	if !m.ready {
		m.ready = m.near.Capacity(now).Peers >= m.cfg.MinPeers || now.Sub(m.since) >= m.cfg.MinPeersWait
	}
	return m.ready
}

// room is how many tasks may be submitted now: what the peers' threads and a fifth of their queues hold, beside what is out. Full queues
// would leave no choice of where a task goes. What a peer had that is there no more takes no room of the others, though it stays out until
// its lease lapses or its latest start has passed.
func (m *Manager) room() int {
	room := m.cfg.MaxOut
	if room == 0 {
		c := m.near.Capacity(m.cfg.Now())
		room = c.Holds + m.carries - c.Held
	}
	return max(min(room-m.out(), jobQueue-m.placing, maxBatch), 0)
}

// out counts the tasks that a peer has or may have.
func (m *Manager) out() int { return len(m.flights) - len(m.again) }

// retake hands out again what came to nothing and may go now.
func (m *Manager) retake(now time.Time, room int) []job {
	var batch []job
	keep := m.again[:0]
	for _, s := range m.again {
		f, ok := m.flights[s]
		if !ok || !f.again {
			continue
		}
		if len(batch) < room && !now.Before(f.due) {
			if _, ok := m.admit(now, s); ok {
				if j, err := m.issue(now, s); err == nil {
					f.again, f.issued, f.started = false, now, time.Time{}
					m.carried(f, string(m.pick))
					batch = append(batch, j)
					continue
				}
			}
		}
		keep = append(keep, s)
	}
	m.again = keep
	return batch
}

// admit keeps politeness: one channel of a host at a time, none that is blocked, none before the host's next visit; and near the end
// of a manager with a deadline nothing that would outlive it. If not ok, a zero time means that enough was looked at for now.
func (m *Manager) admit(now time.Time, s recrawl.Slot) (again time.Time, ok bool) {
	h := m.hostNow(m.table.Host(s))
	switch {
	case h.blocked != "":
		return now.Add(blockedAgain), false
	case now.Before(m.failing[s]):
		return m.failing[s], false
	case h.out != 0:
		return now.Add(m.cfg.Tick), false
	case now.Before(h.next):
		return h.next, false
	case !m.cfg.Until.IsZero() && now.Add(m.expect(s)).After(m.cfg.Until):
		return m.cfg.Until.Add(time.Hour), false
	}
	switch m.mayGo(now, s) {
	case dispatch.Go:
		return time.Time{}, true
	case dispatch.Enough:
		return time.Time{}, false
	}
	return now.Add(m.cfg.Tick), false
}

// mayGo asks whether a task should be placed now: a peer near its host has room, or it has waited long enough. This is delay scheduling
// (Zaharia and others, "Delay Scheduling", EuroSys 2010): a task waits while all peers near its host are full, rather than go at once to a
// far one that happens to have room; that one is left to the tasks near it.
func (m *Manager) mayGo(now time.Time, s recrawl.Slot) (v dispatch.Verdict) {
	since, asked := m.asked[s]
	if !asked {
		since = now
	}
	// The longer it has waited, the farther it may go: a quarter of the peers, half of them, all.
	share := dispatch.NearShare
	for waited := now.Sub(since); waited >= patience*m.cfg.Tick && share < 1; waited -= patience * m.cfg.Tick {
		share *= 2
	}
	m.pick, v = m.near.Room(now, dispatch.Ask{Slot: s, Host: m.table.Host(s), Share: share})
	switch {
	case v == dispatch.Go:
		delete(m.asked, s)
	case v == dispatch.Wait && (asked || len(m.asked) < maxAsked):
		m.asked[s] = since
	}
	return v
}

const (
	patience = 2       // ticks that a task waits for a near peer, and as many again for the nearer half
	maxAsked = 1 << 16 // tasks whose wait is counted
)

const blockedAgain = time.Hour // how often a blocked host is looked at again

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

const (
	firstPage    = 100 * time.Millisecond // guessed time of a fetch beside the gap
	budgetGrowth = 4                      // of the page budget after a crawl that it ended
)

// issue takes the next generation of a channel and its host.
func (m *Manager) issue(now time.Time, s recrawl.Slot) (job, error) {
	latest := now.Add(m.waitLimit(s))
	i, err := m.issueOf(s)
	if err != nil {
		m.log.Error("not handed out", "err", err)
		m.countError("store")
		return job{}, err
	}
	i.Unmark() // the scheduler asks for it, so an operator has made it active again
	gen, err := i.Next(now, latest, m.cfg.Terms)
	if err != nil {
		return job{}, err
	}
	j := job{slot: s, id: m.table.ID(s), gen: gen, issue: *i, issued: now, latest: latest}
	if m.read != nil && m.read.ID == j.id {
		j.ch = m.read
	}
	m.read = nil
	key := m.table.Host(s)
	if r, ok := m.records[key]; ok {
		h := *r
		h.Record.Samples, h.Record.Best = slices.Clone(r.Record.Samples), slices.Clone(r.Record.Best)
		j.host = &h
	}
	m.host(key).out = j.id
	delete(m.dirty, s)
	return j, nil
}

// waitLimit is how long a task may wait for its start: its group's interval, within bounds.
func (m *Manager) waitLimit(s recrawl.Slot) time.Duration {
	d := 120 * m.cfg.Tick
	f := m.sched.Facts(s)
	if iv := m.sched.Intervals(); int(f.Group) < len(iv) {
		d = time.Duration(iv[f.Group]) * m.cfg.Tick
	}
	return min(max(d, minLatest), maxLatest)
}

const maxLatest = 24 * time.Hour

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
				m.holdUntil = now.Add(storeRetry)
				for _, j := range batch {
					m.placing--
					m.unsent(now, j)
				}
			})
			continue
		}
		for _, r := range refusals {
			j := batch[r.N]
			batch[r.N].gen = 0
			m.log.Error("generation refused", "channel", r.ID, "gen", j.gen, "err", r.Err)
			m.post(ctx, func(now time.Time) { m.placing--; m.countError("store"); m.unsent(now, j) })
		}
		for _, j := range batch {
			if j.gen == 0 {
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
	tell := func(f func(now time.Time)) { m.post(ctx, func(now time.Time) { m.placing--; f(now) }) }
	t, err := m.build(ctx, j)
	if err != nil {
		m.log.Error("task not built", "channel", j.id, "gen", j.gen, "err", err)
		tell(func(now time.Time) { m.countError("building"); m.unsent(now, j) })
		return
	}
	err = m.cfg.Archive.Deposit(ctx, t.signed, t.body)
	var fenced *archive.FencedError
	switch {
	case errors.As(err, &fenced):
		tell(func(now time.Time) { m.outran(now, j, fenced.Highest) })
		return
	case err != nil:
		m.log.Warn("task not deposited", "channel", j.id, "gen", j.gen, "err", err)
		tell(func(now time.Time) {
			m.setNotice("archive", "The archive takes no new tasks: "+plain.Error(err))
			m.countError("archive")
			m.unsent(now, j)
		})
		return
	}
	p, err := m.cfg.Swarm.Place(ctx, t.signed, t.header, t.record)
	switch {
	case err == nil:
		if m.cfg.OnPlaced != nil {
			m.cfg.OnPlaced(t.header.Host, p)
		}
		tell(func(now time.Time) {
			m.placed(now, j, p)
			m.measured(t.header.Host, p.Samples)
		})
	case errors.Is(err, overlay.ErrRefused):
		tell(func(now time.Time) { m.refusedTask(now, j, err.Error()) })
	default:
		tell(func(now time.Time) { m.unsure(now, j, fmt.Errorf("place: %w", err)) })
	}
}

// unsent handles a handing-out that never left: as good as refused, but no sign of overload. Called on the loop.
func (m *Manager) unsent(now time.Time, j job) {
	f, ok := m.flights[j.slot]
	if !ok || !m.isOf(j) || m.issues[j.slot].Refused(j.gen) == 0 {
		return
	}
	m.dirty[j.slot] = struct{}{}
	m.freeHost(j.slot)
	m.retry(j.slot, f, now.Add(storeRetry))
}

// post hands f to the loop without waiting for it to run.
func (m *Manager) post(ctx context.Context, f func(now time.Time)) {
	select {
	case m.inbox <- f:
	case <-ctx.Done():
	}
}
