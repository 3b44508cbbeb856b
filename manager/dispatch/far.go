package dispatch

import (
	"slices"
	"time"

	"shoal/recrawl"
)

// far is the tasks of Due that have waited long enough to go to any peer, and spare ones that found no thread near their hosts, as far as they were asked about in
// this tick. When all has been looked at, the judge says which of them goes to the room that is left: the one that loses least by it.
//
// Channels that were never crawled press, and so does what goes before everything else: what was asked for, or is handed out again. They take any room, before known
// channels of lower rank do: else the recrawls of one region would go on while others have not been seen once, and a crawl that was broken off would wait for as long as new
// channels take all room. The rest takes threads that not even a spare task near them wants.
type far struct {
	tick  recrawl.Tick
	tasks []Ask
	press int // of them, those that press
}

const maxFar = 128 // tasks that press, and others, that are kept: those that Due ranks highest

// way is how a task may go.
type way struct {
	first bool // it goes before everything else, and to any peer by itself
	spare bool // it is for a thread that would stand idle
	only  Peer // to this peer or not at all; empty: to any
}

// add notes a task.
func (f *far) add(a Ask) {
	n := len(f.tasks) - f.press
	if a.Pressing {
		n = f.press
	}
	if n >= maxFar || slices.ContainsFunc(f.tasks, func(b Ask) bool { return a.Slot == b.Slot }) {
		return
	}
	f.tasks = append(f.tasks, a)
	if a.Pressing {
		f.press++
	}
}

func (f *far) remove(i int) {
	if f.tasks[i].Pressing {
		f.press--
	}
	f.tasks = slices.Delete(f.tasks, i, i+1)
}

// begin forgets the tasks of an earlier tick: Due asks about them again.
func (f *far) begin(tick recrawl.Tick) {
	if tick != f.tick {
		f.tick, f.tasks, f.press = tick, f.tasks[:0], 0
	}
}

// Mixer is a Due that may take new and known channels by shares.
type Mixer interface {
	Share(given float64) (share float64, ok bool)
}

// handDue hands out what Due wants, and reports whether a known channel was held back for channels that press; never, if not asked to.
func handDue(m *Machine, now time.Time, tick recrawl.Tick, room func() int, holds bool) (heldBack bool) {
	c := m.judge.Capacity(now)
	load := recrawl.Load{Room: room(), Out: m.flights.n, New: m.cfg.NewShare, Threads: c.Threads, Idle: c.Idle, Share: m.Share}
	m.due.Next(tick, load, func(s recrawl.Slot) (recrawl.Tick, bool) {
		if holds && m.holdsBack(s, room()) {
			heldBack = true
			return recrawl.Enough, false
		}
		return m.take(now, tick, s, way{})
	})
	return heldBack
}

// holdsBack says whether a known channel leaves the room that there is to channels that press.
func (m *Machine) holdsBack(s recrawl.Slot, room int) bool {
	if m.far.press == 0 || room < 0 || m.far.press < room || m.due.Facts(s).Updated == 0 {
		return false
	}
	due, ok := m.due.(Mixer)
	if !ok {
		return true
	}
	_, mixed := due.Share(m.cfg.NewShare)
	return !mixed
}

// handFar hands out tasks that may go far, while there is room; if pressing, only those that press.
func (m *Machine) handFar(now time.Time, tick recrawl.Tick, room int, pressing bool) {
	for room != 0 && len(m.far.tasks) > 0 && (!pressing || m.far.press > 0) {
		i, peer, ok := m.judge.Farther(now, m.far.tasks)
		if !ok || pressing && !m.far.tasks[i].Pressing {
			return
		}
		s := m.far.tasks[i].Slot
		m.far.remove(i)
		if handWaiting(m, now, s, peer) || m.due.Take(tick, s, func(s recrawl.Slot) (recrawl.Tick, bool) { return m.take(now, tick, s, way{only: peer}) }) {
			room--
		}
	}
}

// handWaiting hands out a flight that waits, to a peer far from its host.
func handWaiting(m *Machine, now time.Time, s recrawl.Slot, peer Peer) bool {
	f := m.flights.find(s)
	if f == nil || !f.waiting || f.queued {
		return false
	}
	if _, _, ok := m.admit(now, s, way{first: true, only: peer}); !ok || m.order(now, f, peer) != nil {
		return false
	}
	m.counts.Now++
	return true
}
