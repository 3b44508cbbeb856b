package overlaysim

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"shoal/channel"
	"shoal/coords"
	"shoal/internal/sim"
	"shoal/overlay"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// manager is the first contact of all members, which follow it.
const manager = 0

// member is one node of the network and the computer that it runs on.
type member struct {
	node     *overlay.Node
	id       overlay.ID
	up       bool
	lies     bool
	swallows bool
	tick     int64        // that is scheduled; -1: none
	life     int32        // tells the ticks and answers of an earlier life
	last     coords.Coord // where it was when it left
	claims   coords.Coord // a liar's: where it began to drift from
}

// letter is what is under way: a message, a tick (neither msg nor do), a change of life, or anything else that is to be done then.
type letter struct {
	from, to  int32
	life      int32
	lifeEvent bool
	msg       overlay.Msg
	do        func()
}

// network carries the messages of overlay nodes in virtual time over a ground.
type network struct {
	ground  *ground
	rng     *rand.Rand
	tasks   *rand.Rand // draws hosts and placers, the same ones whatever the overlay does
	turns   *rand.Rand // draws lives
	churn   *sim.Churn // nil: members neither come nor go
	places  coords.Config
	how     string  // liars lie: Command.Lie
	drift   float64 // ms a minute that they drift together
	now     int64   // ns since epoch
	queue   sim.Queue[letter]
	members []member
	gossips int64           // messages of gossip
	sent    int64           // messages of the manager's other than gossip
	offerAt map[int32]int64 // when the last offer of a member arrived
	done    map[int]overlay.Event

	wake    func(i int)                            // makes the node of a member that has none yet; nil: all have theirs
	queueOf func(i int) overlay.Queue              // of a member that starts; nil: idle
	event   func(i int, e overlay.Event) bool      // takes what a placing came to; false or nil: it is kept for await
	joined  []func(i int)                          // are told
	left    []func(i int, polite bool)             // are told, while the member is still there
	deaf    func(from, to int, m overlay.Msg) bool // messages that are lost; nil: none
}

// idle takes every task and forgets it: what is measured is where tasks land.
type idle struct{}

func (idle) Quote(now time.Time, h channel.Header) (time.Time, bool) { return now, true }
func (idle) Take(time.Time, channel.Signed, channel.Header) error    { return nil }
func (idle) Load(time.Time) overlay.Load                             { return overlay.Load{Threads: 1, Slots: 1} }

// swallower takes every task and does nothing with it.
type swallower struct{ idle }

func (swallower) Load(time.Time) overlay.Load { return overlay.Load{Threads: threads, Slots: slots} }

// crowd is who the members are.
type crowd struct {
	peers      int
	churn      *sim.Churn
	liars      float64
	lie        string
	drift      float64
	swallowers float64
	seed       uint64
	places     coords.Config
	queueOf    func(i int) overlay.Queue
}

func newNetwork(g *ground, c crowd) (*network, error) {
	n := &network{ground: g, rng: sim.Rand(c.seed, "network"), tasks: sim.Rand(c.seed, "tasks"), turns: sim.Rand(c.seed, "churn"), churn: c.churn, places: c.places, how: c.lie, drift: c.drift,
		members: make([]member, c.peers+1), offerAt: map[int32]int64{}, done: map[int]overlay.Event{}, queueOf: c.queueOf}
	bad := sim.Rand(c.seed, "bad")
	for i := range n.members {
		m := &n.members[i]
		m.id = overlay.ID("p" + strconv.Itoa(i))
		lies, swallows := bad.Float64() < c.liars, bad.Float64() < c.swallowers
		m.lies, m.swallows = i != manager && lies, i != manager && swallows
		if err := n.fresh(i); err != nil {
			return nil, err
		}
	}
	for i := range n.members {
		m := &n.members[i]
		m.up = true
		if i != manager && c.churn != nil { // as if that had been going on for long
			span := c.churn.Lives
			if m.up = n.turns.Float64() < c.churn.Life/(c.churn.Life+c.churn.Gap); !m.up {
				span = c.churn.Stays
			}
			n.queue.Push(int64(n.turns.Float64()*span(n.turns)*float64(time.Minute)), letter{to: int32(i), lifeEvent: true})
		}
	}
	for i := range n.members {
		if n.members[i].up {
			n.greet(i)
		}
	}
	return n, nil
}

// who is the number of the member with an id, as newNetwork gave it.
func (n *network) who(id overlay.ID) int {
	i := 0
	for k := 1; k < len(id); k++ {
		i = 10*i + int(id[k]-'0')
	}
	return i
}

func (n *network) time() time.Time { return epoch.Add(time.Duration(n.now)) }

// greet is a new node's first message.
func (n *network) greet(i int) {
	n.send(i, n.members[i].node.Greet(n.time(), n.members[manager].id, nil))
}

// fresh gives a member a new node.
func (n *network) fresh(i int) error {
	m := &n.members[i]
	rng := rand.New(rand.NewPCG(n.rng.Uint64(), n.rng.Uint64()))
	v, err := coords.NewNode(n.places, rng)
	if err != nil {
		return err
	}
	cfg := overlay.Default(m.id)
	cfg.Places = i == manager
	var q overlay.Queue = idle{}
	switch {
	case m.swallows:
		q = swallower{}
	case n.queueOf != nil && i != manager:
		q = n.queueOf(i)
	}
	if m.node, err = overlay.New(n.time(), cfg, v, q, rng); err != nil {
		return err
	}
	m.life, m.tick = m.life+1, -1
	return nil
}

func (n *network) oneWay(a, b int) int64 { return int64(n.ground.rtt(a, b) / 2 * 1e6) }

func (n *network) send(from int, out []overlay.Send) {
	m := &n.members[from]
	for _, s := range out {
		to := n.who(s.To)
		g, gossip := s.Msg.(overlay.Gossip)
		switch {
		case gossip:
			n.gossips++
		case from == manager:
			n.sent++
		}
		if m.lies {
			switch {
			case gossip:
				g.Self.Coord = n.lie(from)
				s.Msg = g
			default:
				if a, is := s.Msg.(overlay.Near); is && len(a.Records) > 0 { // the last one is its own
					own := *a.Records[len(a.Records)-1]
					own.Coord = n.lie(from)
					a.Records[len(a.Records)-1] = &own
				}
			}
		}
		if n.deaf != nil && n.deaf(from, to, s.Msg) {
			continue
		}
		if req := requestOf(s.Msg); req != 0 && !n.members[to].up { // there is no such member to connect to
			life := m.life
			n.after(dialTimeout, func() {
				if m.up && m.life == life {
					n.send(from, m.node.Failed(n.time(), req, true))
				}
			})
			continue
		}
		n.queue.Push(n.now+n.oneWay(from, to), letter{from: int32(from), to: int32(to), life: n.members[to].life, msg: s.Msg})
	}
	for _, e := range m.node.Events() {
		if n.event == nil || !n.event(from, e) {
			n.done[from] = e
		}
	}
	if at := int64(m.node.Deadline().Sub(epoch)); m.tick < 0 || at < m.tick {
		m.tick = at
		n.queue.Push(at, letter{to: int32(from), life: m.life})
	}
}

// dialTimeout is after how long a runner knows that it could not connect, so that a message never left. What is sent to a peer that goes meanwhile
// is lost without a word.
var dialTimeout = overlay.Default("").Timeout * 9 / 10

// requestOf is the number under which the sender waits for an answer; 0: for none.
func requestOf(m overlay.Msg) uint64 {
	switch m := m.(type) {
	case overlay.Gossip:
		if !m.Answer {
			return m.Req
		}
	case overlay.FindNear:
		return m.Req
	case overlay.Offer:
		return m.Req
	case overlay.ProbeHost:
		return m.Req
	}
	return 0
}

// after has something done later.
func (n *network) after(d time.Duration, do func()) { n.queue.Push(n.now+int64(d), letter{do: do}) }

// driftFrom is when liars begin to drift: by then coordinates have settled.
const driftFrom = 20 * time.Minute

// lie is what a liar says that its coordinate is, and that it is sure of it: far off and another place each time; in the middle, where all nodes begin; there and
// high above; or where it is, and from there away, slowly and all in one direction ("frog-boiling": Chan-Tin and others, "The Frog-Boiling Attack", SecureComm 2009).
func (n *network) lie(who int) coords.Coord {
	switch n.how {
	case "middle":
		return coords.Coord{Err: coords.MinErr}
	case "high":
		return coords.Coord{Err: coords.MinErr, Height: 300 * n.rng.Float64()}
	case "drift":
		m := &n.members[who]
		if n.now < int64(driftFrom) || m.claims.Err == 0 {
			m.claims = m.node.Coord()
		}
		c := m.claims
		if n.now > int64(driftFrom) {
			c.Vec[0] += n.drift * float64(n.now-int64(driftFrom)) / float64(time.Minute)
			c.Err = coords.MinErr
		}
		if !c.Valid() {
			c = m.claims // it has drifted out of what is believed
		}
		return c
	}
	c := coords.Coord{Err: coords.MinErr}
	for i := range c.Vec {
		c.Vec[i] = 350 * n.rng.NormFloat64()
	}
	return c
}

// step handles the next event; false: it is later than until.
func (n *network) step(until int64) bool {
	at, ok := n.queue.Next()
	if !ok || at > until {
		n.now = until
		return false
	}
	_, l := n.queue.Pop()
	n.now = at
	if l.do != nil {
		l.do()
		return true
	}
	m := &n.members[l.to]
	if n.wake != nil && m.node == nil && l.life == m.life {
		n.wake(int(l.to))
	}
	switch {
	case l.lifeEvent:
		n.turn(int(l.to))
	case !m.up || l.life != m.life:
	case l.msg == nil:
		if at == m.tick {
			m.tick = -1
			var out []overlay.Send
			if !m.node.Deadline().After(n.time()) { // else what it waited for has come
				out = m.node.Tick(n.time())
			}
			n.send(int(l.to), out)
		}
	default:
		switch g := l.msg.(type) {
		case overlay.Gossip:
			if g.Answer { // a jitter of a twentieth on what was measured
				rtt := n.ground.rtt(int(l.from), int(l.to)) * (1 + .05*n.rng.ExpFloat64())
				m.node.Sample(n.members[l.from].id, g.Self.Coord, time.Duration(rtt*1e6))
			}
		case overlay.Offer:
			n.offerAt[l.from] = at
		case overlay.ProbeHost: // three connects, one after the other
			ms := n.ground.rtt(int(l.to), placeOf(g.Host))
			took := int64(3 * ms * 1e6)
			n.queue.Push(at+took+n.oneWay(int(l.to), int(l.from)), letter{from: l.to, to: l.from, life: n.members[l.from].life,
				msg: overlay.Probed{Req: g.Req, RTT: time.Duration(ms * 1e6), At: m.node.Coord()}})
			return true
		}
		n.send(int(l.to), m.node.Step(n.time(), n.members[l.from].id, l.msg))
	}
	return true
}

// turn ends a life or begins one.
func (n *network) turn(i int) {
	span := 0.
	if n.members[i].up {
		n.leave(i, n.churn.Leaves(n.turns))
		span = n.churn.Stays(n.turns)
	} else {
		n.join(i)
		span = n.churn.Lives(n.turns)
	}
	n.queue.Push(n.now+int64(span*float64(time.Minute)), letter{to: int32(i), lifeEvent: true})
}

func (n *network) leave(i int, polite bool) {
	m := &n.members[i]
	if at := m.node.Coord(); at.Err < sure {
		m.last = at
	}
	for _, f := range n.left {
		f(i, polite)
	}
	m.up = false
}

// sure is a coordinate's error from which on it tells where its node is.
const sure = .5

func (n *network) join(i int) {
	if err := n.fresh(i); err != nil {
		panic(err) // the same configuration has worked before
	}
	n.members[i].up = true
	n.greet(i)
	for _, f := range n.joined {
		f(i)
	}
}

func (n *network) run(d time.Duration) {
	for until := n.now + int64(d); n.step(until); {
	}
}

// await runs until a member's placing has ended.
func (n *network) await(i int) (overlay.Event, bool) {
	life := n.members[i].life
	for until := n.now + int64(5*time.Minute); n.members[i].up && n.members[i].life == life; {
		if e, ok := n.done[i]; ok {
			delete(n.done, i)
			return e, true
		}
		if !n.step(until) {
			break
		}
	}
	return overlay.Event{}, false
}

// hostOf names the Web host at a place, as placeOf reads it.
func hostOf(place int) string { return "http://h" + strconv.Itoa(place) }

func placeOf(host string) int {
	i, _ := strconv.Atoi(strings.TrimPrefix(host, "http://h"))
	return i
}

// someone is a random member that is up.
func (n *network) someone(rng *rand.Rand) int {
	for {
		if i := 1 + rng.IntN(len(n.members)-1); n.members[i].up {
			return i
		}
	}
}

// records are what a manager that knows everyone knows.
func (n *network) records() []overlay.PeerRecord {
	out := make([]overlay.PeerRecord, 0, len(n.members))
	for i := range n.members {
		if m := &n.members[i]; i != manager && m.up {
			r := overlay.PeerRecord{ID: m.id, Coord: m.node.Coord(), Load: overlay.Load{Threads: 1}}
			if m.lies {
				r.Coord = n.lie(i)
			}
			out = append(out, r)
		}
	}
	return out
}

// survey measures a host as the product does: from random peers, then in rounds from those that are probably near.
func (n *network) survey(place int, known []overlay.PeerRecord) coords.HostRecord {
	var r coords.HostRecord
	least := 0.
	for round := range 1 + overlay.NearRounds {
		count := overlay.NearProbes
		if round == 0 {
			count = 16
		}
		for _, p := range overlay.NearVantages(&r, known, count, n.rng) {
			ms := n.ground.rtt(n.who(p.ID), place)
			r.Add(coords.Sample{Vantage: string(p.ID), At: p.Coord, RTT: time.Duration(ms * 1e6), When: n.time().Unix()})
			if least == 0 || ms < least {
				least = ms
			}
		}
		if time.Duration(least*1e6) <= overlay.NearEnough {
			break
		}
	}
	return r
}
