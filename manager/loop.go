package manager

import (
	"container/heap"
	"context"
	"time"

	"shoal/channel"
	"shoal/channel/lease"
	"shoal/coords"
	"shoal/internal/plain"
	"shoal/manager/dispatch"
	"shoal/overlay"
	"shoal/recrawl"
)

// flight is a channel that is not idle: a task of it is out, or it waits before it is handed out again. Its issue is held. Owned by the loop.
type flight struct {
	again   bool // the same task is to be handed out again once the issue is idle
	due     time.Time
	issued  time.Time
	started time.Time // claimed
	peer    string
	took    bool // the peer said so, and has not claimed it
}

// timer wakes a flight up. A flight may have stale ones; they do nothing.
type timer struct {
	at time.Time
	s  recrawl.Slot
}

type timers []timer

func (t timers) Len() int           { return len(t) }
func (t timers) Less(i, j int) bool { return t[i].at.Before(t[j].at) }
func (t timers) Swap(i, j int)      { t[i], t[j] = t[j], t[i] }
func (t *timers) Push(x any)        { *t = append(*t, x.(timer)) }
func (t *timers) Pop() any {
	old := *t
	x := old[len(old)-1]
	*t = old[:len(old)-1]
	return x
}

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
			f(m.cfg.Now())
			m.drainInbox()
		case <-notify:
			continue
		case <-beat.C:
		}
		if ctx.Err() != nil {
			break
		}
		now := m.cfg.Now()
		m.wake(now)
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
			f(m.cfg.Now())
		default:
			return
		}
	}
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

// wake handles flights whose time has come: a claim that never came, a pause that is over.
func (m *Manager) wake(now time.Time) {
	for len(m.timers) > 0 && !m.timers[0].at.After(now) {
		s := heap.Pop(&m.timers).(timer).s
		f, ok := m.flights[s]
		if !ok {
			continue
		}
		swallowed, peer, issued := f.took && m.issues[s].Phase == lease.Awaited, f.peer, f.issued
		e := m.issues[s].Tick(now, m.cfg.Terms)
		if swallowed && e != 0 {
			m.cfg.Swarm.Swallowed(overlay.ID(peer), issued)
		}
		m.follow(now, s, f, e)
	}
}

// follow does what an effect of the lease asks for, apart from the report itself.
func (m *Manager) follow(now time.Time, s recrawl.Slot, f *flight, e lease.Effect) {
	if e&lease.Persist != 0 {
		m.dirty[s] = struct{}{}
	}
	if e&lease.GaveUp != 0 {
		m.giveUp(now, s, m.issues[s].Reason())
		return
	}
	if !m.issues[s].Out() {
		m.freeHost(s)
		m.carried(f, "")
	}
	if e&lease.HandOut != 0 {
		if !f.again { // else it is only that a pause is over
			m.lapsed++
			m.event(s, now, m.issues[s].Gen, "came to nothing", "", "to be handed out again")
			m.sched.Observe(m.clock.At(now), s, recrawl.Event{Kind: recrawl.Lapsed})
		}
		m.retry(s, f, m.issues[s].Deadline())
	}
	m.arm(s, f)
}

// retry has the same task handed out again from some time on.
func (m *Manager) retry(s recrawl.Slot, f *flight, from time.Time) {
	f.due = from
	m.carried(f, "")
	if !f.again {
		f.again = true
		m.again = append(m.again, s)
	}
}

// arm sets the timer of a flight.
func (m *Manager) arm(s recrawl.Slot, f *flight) {
	if at := m.issues[s].Deadline(); !at.IsZero() {
		heap.Push(&m.timers, timer{at, s})
	}
}

// land ends a flight: the channel is idle.
func (m *Manager) land(s recrawl.Slot) {
	m.freeHost(s)
	if f, ok := m.flights[s]; ok {
		m.carried(f, "")
	}
	delete(m.flights, s)
}

// carried notes which peer has a task; empty: none any more.
func (m *Manager) carried(f *flight, peer string) {
	if f.peer == peer {
		return
	}
	m.holds(f.peer, -1)
	m.holds(peer, 1)
	f.peer, f.took = peer, false
}

// holds counts a task in or out at a peer.
func (m *Manager) holds(peer string, more int) {
	if peer == "" {
		return
	}
	p := dispatch.Peer(peer)
	m.carries += more
	if m.held[p] += more; m.held[p] == 0 {
		delete(m.held, p)
	}
	m.near.Held(p, m.held[p])
}

// giveUp marks a channel that was handed out too often, and says why.
func (m *Manager) giveUp(now time.Time, s recrawl.Slot, reason string) {
	m.sched.Observe(m.clock.At(now), s, recrawl.Event{Kind: recrawl.Failed})
	m.mark(now, s, reason)
	m.land(s)
}

// isOf tells whether a channel still has the generation that a job was for.
func (m *Manager) isOf(j job) bool {
	return m.table.Used(j.slot) && m.table.ID(j.slot) == j.id && m.gen(j.slot) == j.gen
}

// placed takes the answer of the overlay. Called on the loop.
func (m *Manager) placed(now time.Time, j job, p overlay.Placed) {
	m.accepted++
	m.setNotice("archive", "")
	f, ok := m.flights[j.slot]
	if !ok || !m.isOf(j) {
		return
	}
	m.carried(f, string(p.Peer))
	f.took = true
	m.follow(now, j.slot, f, m.issues[j.slot].Placed(j.gen))
	wait := float32(p.Start.Sub(now).Seconds() / m.cfg.Tick.Seconds())
	m.sched.Observe(m.clock.At(now), j.slot, recrawl.Event{Kind: recrawl.Accepted, Wait: max(wait, 0)})
	m.event(j.slot, now, j.gen, "accepted", string(p.Peer), "starts "+p.Start.Format(time.TimeOnly))
	m.rtt(p)
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

// refusedTask takes the overlay's word that no peer could start the task in time. Called on the loop.
func (m *Manager) refusedTask(now time.Time, j job, why string) {
	m.refused++
	f, ok := m.flights[j.slot]
	if !ok || !m.isOf(j) {
		return
	}
	if m.issues[j.slot].Refused(j.gen) == 0 {
		return // the claim came first: somebody has it after all
	}
	m.event(j.slot, now, j.gen, "refused", "", why)
	m.pushBack(now)
	m.dirty[j.slot] = struct{}{}
	m.freeHost(j.slot)
	if m.sched.Facts(j.slot).Updated == 0 { // never crawled: it does not wait for another interval, of which nothing is known
		m.retry(j.slot, f, now.Add(firstAgain*m.cfg.Tick))
		return
	}
	m.sched.Observe(m.clock.At(now), j.slot, recrawl.Event{Kind: recrawl.Refused})
	m.land(j.slot)
}

// unsure handles a placing that broke off: an offer may have reached a peer, so the claim is awaited. Called on the loop.
func (m *Manager) unsure(now time.Time, j job, err error) {
	m.countError("placing")
	f, ok := m.flights[j.slot]
	if !ok || !m.isOf(j) {
		return
	}
	m.event(j.slot, now, j.gen, "placing broke off", "", err.Error())
	m.follow(now, j.slot, f, m.issues[j.slot].Placed(j.gen))
}

// outran handles a deposit that the archive refused: it knows higher generations. Called on the loop.
func (m *Manager) outran(now time.Time, j job, highest channel.Gen) {
	f, ok := m.flights[j.slot]
	if !ok || !m.isOf(j) {
		return
	}
	if m.issues[j.slot].Outran(j.gen, highest) == 0 {
		return
	}
	m.event(j.slot, now, j.gen, "outrun", "", "the archive knows higher generations; this manager's data is older")
	m.dirty[j.slot] = struct{}{}
	m.freeHost(j.slot)
	m.retry(j.slot, f, now)
}

// firstAgain is after how many ticks a channel that was never crawled is offered again when it was refused.
const firstAgain = 5

const (
	pushBackFirst = 100 * time.Millisecond
	pushBackMost  = 30 * time.Second
)

// pushBack slows dispatch down after a refusal; placed tasks speed it up again.
func (m *Manager) pushBack(now time.Time) {
	m.pushedBack = min(max(2*m.pushedBack, pushBackFirst), min(pushBackMost, 4*m.cfg.Tick))
	m.holdUntil = now.Add(m.pushedBack)
}
