package dispatch

import (
	"math"
	"time"

	"shoal/channel"
	"shoal/channel/lease"
	"shoal/recrawl"
)

// Due says which channels are wanted, and learns what became of their tasks. In the manager it is a *recrawl.Scheduler.
type Due interface {
	// Next takes the channels that are due, best first, and returns how many. admit is called for each: it takes the channel, or says when
	// to ask again, recrawl.Enough to end. admit must not call methods that change the Due.
	Next(now recrawl.Tick, load recrawl.Load, admit func(recrawl.Slot) (again recrawl.Tick, ok bool)) int
	// Take takes a channel that Next has offered and that admit has put off, if admit takes it now.
	Take(now recrawl.Tick, s recrawl.Slot, admit func(recrawl.Slot) (again recrawl.Tick, ok bool)) bool
	// Observe takes in what became of a task: Accepted, Refused, Lapsed or Failed. The owner tells of reports.
	Observe(now recrawl.Tick, s recrawl.Slot, e recrawl.Event)
	// Edit is called with a change that counts a task out which Next did not take.
	Edit(s recrawl.Slot, change func(*recrawl.Facts))
	Facts(s recrawl.Slot) recrawl.Facts
	// Intervals are the recrawl intervals by group; a task may wait as long for its start. None: groups have no interval.
	Intervals() []recrawl.Tick
}

// Sparer is a Due that also names what threads may take that would stand idle: see recrawl.Scheduler.Spare.
type Sparer interface {
	Spare(now recrawl.Tick, n int, may func(recrawl.Slot) bool, admit func(recrawl.Slot) (again recrawl.Tick, ok bool)) int
	// Lacking says whether Spare had some lately that admit refused, and that were not taken since and may be crawled.
	Lacking(may func(recrawl.Slot) bool) bool
}

// Channels is what the Machine looks up about a channel when it needs it.
type Channels interface {
	// Host is the channel's host; zero: no other channel has it.
	Host(s recrawl.Slot) channel.HostKey
	// Issue is the channel's issue as it was kept last. The Machine asks for channels that have no flight.
	Issue(s recrawl.Slot) (lease.Issue, error)
	// Expect is how long a task of the channel takes at most, as far as can be told.
	Expect(s recrawl.Slot) time.Duration
}

// Config of a Machine.
type Config struct {
	Clock recrawl.Clock // of Due
	Terms lease.Terms
	// MaxOut bounds the tasks out at once. Zero: what Judge.Capacity says; negative: no bound.
	MaxOut int
	// Batch bounds the orders of one Tick, and Queue those whose outcome is not known yet. Zero: no bound.
	Batch, Queue int
	// MinPeers is how many peers must be known before the first task is handed out, unless MinPeersWait has passed since New.
	MinPeers     int
	MinPeersWait time.Duration
	// A task may wait for its start as long as its group's interval, but at least MinWait and at most MaxWait. Zero: no bound.
	MinWait, MaxWait time.Duration
	// NewShare is the share of room that channels never crawled get while others wait too. Zero: what the strategy says.
	NewShare float64
	// Party is a number of who may stand behind a peer, so that a channel is not given up for what one party did with it. Nil: not known, and each peer
	// that is not known is another one.
	Party func(Peer) uint64
	// Members is how many peers there are, by which lease.Parties says how many parties must fail. Nil: not known.
	Members func() int
	// Beside is the first slot of tasks that are no channel's own, such as audits: they are counted apart. Zero: there is none.
	Beside recrawl.Slot
	// Coming says of which hosts not all is known yet that is out: nothing is handed out there until it is. Nil: of none.
	Coming func(channel.HostKey) bool
	// Heard is up to when the archive's feed has been heard. A claim wait that is over by now may be answered by a claim that stands in the feed: it ends when all
	// was heard up to its end. Nil: the feed is heard at once.
	Heard func() time.Time
	// Until, if set, is when all ends: nothing is handed out that would not end before.
	Until time.Time
}

// Order is one handing-out. The owner makes Issue durable, then offers the task, and tells what came of it by exactly one of Placed,
// Refused, Unsure, Unsent and Outran.
type Order struct {
	Slot   recrawl.Slot
	Gen    channel.Gen
	Issue  lease.Issue
	Issued time.Time
	Latest time.Time // the task starts until then, or not at all
	Peer   Peer      // who has room for it; empty: the overlay chooses

	serial uint64 // of the flight
}

// Act is something for the owner to do, or to tell people.
type Act struct {
	Kind  ActKind
	Slot  recrawl.Slot
	Issue lease.Issue // as it is now
	Peer  Peer        // Swallowed
	Since time.Time   // Swallowed: when the task was issued
	Note  string      // GaveUp: why
	Err   error       // Unread
}

// ActKind is what an Act asks for.
type ActKind uint8

// The acts.
const (
	Persist   ActKind = iota + 1 // keep Issue; a crash before that does no harm
	Nothing                      // the task came to nothing, and will be handed out again
	GaveUp                       // the channel was handed out too often: it is marked, for an operator to look at
	Swallowed                    // Peer took the task and never claimed it
	Unread                       // the channel's issue could not be read, so that nothing was handed out
)

// Counts are sums since the Machine was made.
type Counts struct {
	Submitted int64 // handings-out of tasks, again those of tasks that had come to nothing or were refused
	Accepted  int64 // offers that a peer accepted
	Refused   int64 // offers that no peer accepted
	Lapsed    int64 // handings-out that came to nothing
	// Orders, by the sequencer that they were taken from.
	Now, New, Old int64
}

// Machine is the state of all that is handed out. Owned by one goroutine.
type Machine struct {
	// Share is the part of the swarm that is this machine's, where several share it; 0: all of it. It has so much out, or fills so much of what stands
	// idle: what peers tell of their load comes late, and two machines that see the same room would both send tasks there.
	Share float64

	cfg      Config
	due      Due
	channels Channels
	judge    Judge

	flights   flights
	serial    uint64
	touched   uint64         // sum of what was read ahead, so that it is read
	waiting   int            // flights that are not out
	immediate []recrawl.Slot // flights that may go now, in their order
	timers    timers
	hosts     map[channel.HostKey]host // those with which something is up
	tidied    time.Time
	notBefore map[recrawl.Slot]time.Time // until when channels wait whose last crawl failed
	asked     map[recrawl.Slot]time.Time // since when tasks wait for a near peer
	far       far
	held      map[Peer]int // tasks that each peer has, or that are on their way to it
	carried   int          // their number

	began      time.Time
	started    bool // enough peers were known once
	closed     bool
	holdUntil  time.Time
	pushedBack time.Duration
	placing    int // orders whose outcome is not known yet
	intervals  []recrawl.Tick
	orders     []Order
	acts       []Act
	counts     Counts
	beside     Counts
	usage      usage
}

// New makes a Machine in which nothing is out.
func New(now time.Time, cfg Config, due Due, channels Channels, judge Judge) *Machine {
	m := &Machine{
		cfg: cfg, due: due, channels: channels, judge: judge, began: now, tidied: now,
		hosts: map[channel.HostKey]host{}, notBefore: map[recrawl.Slot]time.Time{}, asked: map[recrawl.Slot]time.Time{}, held: map[Peer]int{},
	}
	m.timers.stale = m.stale
	return m
}

// Tick does what is due: it ends waits that are over, and hands out what may go now. First comes what was asked for now or came to
// nothing, then what Due wants. The orders are valid until the next call.
func (m *Machine) Tick(now time.Time) []Order {
	m.orders = m.orders[:0]
	m.usage.pass(now)
	m.wake(now)
	m.tidy(now)
	if m.closed || m.Held(now) || !m.enoughPeers(now) {
		return nil
	}
	m.holdUntil = time.Time{}
	m.intervals = m.due.Intervals()
	room := m.Room(now)
	tick := m.cfg.Clock.At(now)
	m.far.begin(tick)
	m.handImmediate(now, room)
	m.counts.Now += int64(len(m.orders))
	if room > 0 {
		room -= len(m.orders)
	}
	before := len(m.orders)
	still := func() int { return left(room, len(m.orders)-before) }
	heldBack := handDue(m, now, tick, still, true)
	m.handFar(now, tick, still(), true)
	if heldBack && still() != 0 { // what presses cannot take it
		handDue(m, now, tick, still, false)
	}
	m.handSpare(now, tick, still())
	m.handFar(now, tick, still(), false)
	m.look(now)
	m.judge.Looked(now)
	return m.orders
}

// left is what some room is after so many orders; negative: any number.
func left(room, orders int) int {
	if room < 0 {
		return room
	}
	return max(room-orders, 0)
}

// sparer is Due, if it names spare tasks.
func (m *Machine) sparer() Sparer {
	due, _ := m.due.(Sparer)
	return due
}

// handSpare gives threads that would stand idle what Due does not want yet.
func (m *Machine) handSpare(now time.Time, tick recrawl.Tick, room int) {
	due := m.sparer()
	if due == nil {
		return
	}
	idle := m.judge.Capacity(now).Idle
	for i := range m.orders {
		if m.orders[i].Peer == "" { // the judge does not know yet who gets it
			idle--
		}
	}
	if idle = bounded(room, idle); idle > 0 {
		due.Spare(tick, idle, may(m, now), func(s recrawl.Slot) (recrawl.Tick, bool) { return m.take(now, tick, s, way{spare: true}) })
	}
}

// may says of channels whether they may be crawled now, if a peer has room.
func may(m *Machine, now time.Time) func(recrawl.Slot) bool {
	return func(s recrawl.Slot) bool { return HoldupOf(m, now, s) == Nobody }
}

// take hands out a channel that is due, or says when to ask again.
func (m *Machine) take(now time.Time, tick recrawl.Tick, s recrawl.Slot, how way) (again recrawl.Tick, ok bool) {
	if m.flights.find(s) != nil { // an older generation has reported, so that Due knows of none that is out
		return tick + 1, false
	}
	at, peer, ok := m.admit(now, s, how)
	switch {
	case ok:
	case at.IsZero():
		return recrawl.Enough, false
	default:
		return max(m.cfg.Clock.At(at), tick+1), false
	}
	issue, err := m.channels.Issue(s)
	if err != nil {
		m.acts = append(m.acts, Act{Kind: Unread, Slot: s, Err: err})
		return tick + unreadTicks, false
	}
	f := m.takeOff(now, s, issue)
	if err := m.order(now, f, peer); err != nil {
		m.drop(f)
		return tick + unreadTicks, false
	}
	if m.due.Facts(s).Updated == 0 {
		m.counts.New++
	} else {
		m.counts.Old++
	}
	return 0, true
}

const unreadTicks = 60 // until a channel is asked about again whose issue could not be read

// handImmediate hands out what goes before everything else.
func (m *Machine) handImmediate(now time.Time, room int) {
	for k, s := range m.immediate {
		if room >= 0 && len(m.orders) >= room {
			m.immediate = append(m.immediate[:0], m.immediate[k:]...)
			return
		}
		f := m.flights.find(s)
		if f == nil || !f.queued {
			continue
		}
		at, peer, ok := m.admit(now, s, way{first: true})
		if !ok && at.IsZero() {
			m.immediate = append(m.immediate[:0], m.immediate[k:]...)
			return
		}
		f.queued = false
		if ok {
			if m.order(now, f, peer) == nil {
				continue
			}
			at = now.Add(m.cfg.Clock.Step)
		}
		f.due = nanos(at)
		m.arm(f)
	}
	m.immediate = m.immediate[:0]
}

// order issues the next generation of a flight and its host.
func (m *Machine) order(now time.Time, f *flight, peer Peer) error {
	f.issue.Unmark() // it is asked for, so an operator has made it active again
	latest := now.Add(m.WaitLimit(f.slot))
	gen, err := f.issue.Next(now, latest, m.terms())
	if err != nil {
		return err
	}
	if f.waiting {
		f.waiting = false
		m.waiting--
	}
	f.issued = now
	m.carry(f, peer)
	m.occupy(f)
	m.placing++
	m.sums(f.slot).Submitted++
	m.orders = append(m.orders, Order{Slot: f.slot, Gen: gen, Issue: f.issue, Issued: now, Latest: latest, Peer: peer, serial: f.serial})
	m.arm(f)
	return nil
}

// WaitLimit is how long a task may wait for its start.
func (m *Machine) WaitLimit(s recrawl.Slot) time.Duration {
	d := waitTicks * m.cfg.Clock.Step
	if g := int(m.due.Facts(s).Group); g < len(m.intervals) {
		d = time.Duration(m.intervals[g]) * m.cfg.Clock.Step
	}
	if d = max(d, m.cfg.MinWait); m.cfg.MaxWait > 0 {
		d = min(d, m.cfg.MaxWait)
	}
	return d
}

const waitTicks = 120 // that a task of a strategy without intervals may wait for its start

// Deadline is when Tick has something to do that time brings; zero: nothing. What Due and Ready have may go at once, unless Held.
func (m *Machine) Deadline() time.Time {
	var at time.Time
	if ns := m.timers.first(); ns != 0 {
		at = time.Unix(0, ns)
	}
	if !m.holdUntil.IsZero() && (at.IsZero() || m.holdUntil.Before(at)) {
		at = m.holdUntil
	}
	return at
}

// Acts are what is to be done since the last call; valid until the next call of any method.
func (m *Machine) Acts() []Act {
	acts := m.acts
	m.acts = m.acts[:0]
	return acts
}

// Room is how many tasks may be handed out now; negative: any number. What a peer had that is known no more takes no room of the others,
// though it stays out until its lease lapses or its latest start has passed.
func (m *Machine) Room(now time.Time) int {
	room := -1
	switch {
	case m.cfg.MaxOut > 0:
		room = max(m.cfg.MaxOut-m.Out(), 0)
	case m.cfg.MaxOut == 0:
		c := m.judge.Capacity(now)
		room = max(c.Holds+m.carried-c.Held-m.Out(), 0)
	}
	if s := m.Share; s > 0 && s < 1 {
		c := m.judge.Capacity(now)
		part := func(of int) int { return int(math.Ceil(s * float64(of))) }
		room = bounded(room, max(part(max(c.Holds, c.Threads))-m.Out(), part(c.Idle)))
	}
	if m.cfg.Batch > 0 {
		room = bounded(room, m.cfg.Batch)
	}
	if m.cfg.Queue > 0 {
		room = bounded(room, max(m.cfg.Queue-m.placing, 0))
	}
	return room
}

func bounded(room, most int) int {
	if room < 0 {
		return most
	}
	return min(room, most)
}

// enoughPeers holds the first tasks back until some peers are known, so that they do not all go to the peer that came first; not for long.
func (m *Machine) enoughPeers(now time.Time) bool {
	if !m.started {
		m.started = m.cfg.MinPeers == 0 || now.Sub(m.began) >= m.cfg.MinPeersWait || m.judge.Capacity(now).Peers >= m.cfg.MinPeers
	}
	return m.started
}

// Out is how many tasks a peer has or may have; Flights counts beside them what waits to be handed out again.
func (m *Machine) Out() int { return m.flights.n - m.waiting }

// Flights is how many channels are not idle.
func (m *Machine) Flights() int { return m.flights.n }

// Immediate is how many tasks go before everything else: those asked for now, and those to be handed out again, once their pause is over.
func (m *Machine) Immediate() int { return m.waiting }

// Ready is how many of them may go as soon as there is room.
func (m *Machine) Ready() int { return len(m.immediate) }

// Near is how many tasks wait for a near peer.
func (m *Machine) Near() int { return len(m.asked) }

// Hosts is how many Web hosts have a task out: the active list.
func (m *Machine) Hosts() (active int) {
	for _, h := range m.hosts {
		if h.out != 0 {
			active++
		}
	}
	return active
}

// Counts are sums since the Machine was made. Tasks beside the channels are not among them.
func (m *Machine) Counts() Counts { return m.counts }

// Beside are the sums of tasks beside the channels.
func (m *Machine) Beside() Counts { return m.beside }

// sums are those that a slot's tasks count for.
func (m *Machine) sums(s recrawl.Slot) *Counts {
	if m.cfg.Beside != 0 && s >= m.cfg.Beside {
		return &m.beside
	}
	return &m.counts
}

// SetNewShare changes Config.NewShare.
func (m *Machine) SetNewShare(v float64) { m.cfg.NewShare = v }

// Close has nothing more handed out, until it is called with false.
func (m *Machine) Close(closed bool) { m.closed = closed }

// Hold has nothing handed out before a time, or before a report comes.
func (m *Machine) Hold(until time.Time) { m.holdUntil = until }

// Held reports whether Hold, or refusals, keep everything back at now.
func (m *Machine) Held(now time.Time) bool { return now.Before(m.holdUntil) }
