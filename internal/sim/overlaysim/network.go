package overlaysim

import (
	"fmt"
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

// manager is everybody's first contact. Members follow.
const manager = 0

// member is one node of the network and the computer that it runs on.
type member struct {
	node *overlay.Node
	id   overlay.ID
	up   bool
	lies bool
	tick int64 // that is scheduled
	life int   // tells the ticks and answers of an earlier life
}

// letter is what is under way: a message, a tick (nil) or a change of life.
type letter struct {
	from, to  int32
	life      int32
	msg       overlay.Msg
	sent      int64
	lifeEvent bool
}

// network carries the messages of overlay nodes in virtual time over a ground.
type network struct {
	ground  *ground
	rng     *rand.Rand
	tasks   *rand.Rand // draws hosts and placers, the same ones whatever the overlay does
	churn   *sim.Churn // nil: nobody comes or goes
	now     int64      // ns since epoch
	queue   sim.Queue[letter]
	members []member
	index   map[overlay.ID]int
	gossips int64           // messages of gossip
	offerAt map[int32]int64 // when the last offer of a member arrived
	done    map[int]overlay.Event
}

// idle takes every task and forgets it: what is measured is where tasks land.
type idle struct{}

func (idle) Quote(now time.Time, h channel.Header) (time.Time, bool) { return now, true }
func (idle) Take(time.Time, channel.Signed, channel.Header) error    { return nil }
func (idle) Load(time.Time) overlay.Load                             { return overlay.Load{Threads: 1, Slots: 1} }

func newNetwork(g *ground, peers int, churn *sim.Churn, liars float64, seed uint64) (*network, error) {
	n := &network{ground: g, rng: sim.Rand(seed, "network"), tasks: sim.Rand(seed, "tasks"), churn: churn, members: make([]member, peers+1), index: map[overlay.ID]int{},
		offerAt: map[int32]int64{}, done: map[int]overlay.Event{}}
	for i := range n.members {
		m := &n.members[i]
		m.id = overlay.ID(fmt.Sprintf("p%d", i))
		m.lies = i != manager && n.rng.Float64() < liars
		n.index[m.id] = i
		if err := n.start(i); err != nil {
			return nil, err
		}
		if i != manager && churn != nil {
			n.queue.Push(int64(n.rng.Float64()*churn.Lives(n.rng)*float64(time.Minute)), letter{to: int32(i), lifeEvent: true})
		}
	}
	return n, nil
}

func (n *network) time() time.Time { return epoch.Add(time.Duration(n.now)) }

// start gives a member a new node.
func (n *network) start(i int) error {
	m := &n.members[i]
	rng := rand.New(rand.NewPCG(n.rng.Uint64(), n.rng.Uint64()))
	v, err := coords.NewNode(coords.Default(), rng)
	if err != nil {
		return err
	}
	cfg := overlay.Default(m.id)
	cfg.Places = i == manager
	if m.node, err = overlay.New(n.time(), cfg, v, idle{}, rng); err != nil {
		return err
	}
	m.up, m.life, m.tick = true, m.life+1, -1
	n.send(i, m.node.Greet(n.time(), n.members[manager].id, nil))
	return nil
}

func (n *network) oneWay(a, b int) int64 { return int64(n.ground.rtt(a, b) / 2 * 1e6) }

func (n *network) send(from int, out []overlay.Send) {
	m := &n.members[from]
	for _, s := range out {
		to, ok := n.index[s.To]
		if !ok {
			continue
		}
		if g, is := s.Msg.(overlay.Gossip); is {
			n.gossips++
			if m.lies {
				g.Self.Coord = lie(n.rng)
				s.Msg = g
			}
		}
		n.queue.Push(n.now+n.oneWay(from, to), letter{from: int32(from), to: int32(to), life: int32(n.members[to].life), msg: s.Msg, sent: n.now})
	}
	for _, e := range m.node.Events() {
		n.done[from] = e
	}
	if at := int64(m.node.Deadline().Sub(epoch)); m.tick < 0 || at < m.tick {
		m.tick = at
		n.queue.Push(at, letter{to: int32(from), life: int32(m.life)})
	}
}

// lie is a coordinate far off that claims to be sure.
func lie(rng *rand.Rand) coords.Coord {
	c := coords.Coord{Err: coords.MinErr}
	for i := range c.Vec {
		c.Vec[i] = 350 * rng.NormFloat64()
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
	m := &n.members[l.to]
	switch {
	case l.lifeEvent:
		n.turn(int(l.to))
	case !m.up || int(l.life) != m.life:
	case l.msg == nil:
		if at == m.tick {
			m.tick = -1
			n.send(int(l.to), m.node.Tick(n.time()))
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
			n.queue.Push(at+took+n.oneWay(int(l.to), int(l.from)), letter{from: l.to, to: l.from, life: int32(n.members[l.from].life),
				msg: overlay.Probed{Req: g.Req, RTT: time.Duration(ms * 1e6), At: m.node.Coord()}})
			return true
		}
		n.send(int(l.to), m.node.Step(n.time(), n.members[l.from].id, l.msg))
	}
	return true
}

// turn ends a life or begins one.
func (n *network) turn(i int) {
	m := &n.members[i]
	span := 0.
	if m.up {
		m.up = false
		span = n.churn.Stays(n.rng)
	} else {
		if err := n.start(i); err != nil {
			panic(err) // the same configuration has worked before
		}
		span = n.churn.Lives(n.rng)
	}
	n.queue.Push(n.now+int64(span*float64(time.Minute)), letter{to: int32(i), lifeEvent: true})
}

func (n *network) run(d time.Duration) {
	for until := n.now + int64(d); n.step(until); {
	}
}

// await runs until a member's placing has ended.
func (n *network) await(i int) (overlay.Event, bool) {
	for until := n.now + int64(5*time.Minute); ; {
		if e, ok := n.done[i]; ok {
			delete(n.done, i)
			return e, true
		}
		if !n.step(until) {
			return overlay.Event{}, false
		}
	}
}

// hostOf names the Web host at a place, as placeOf reads it.
func hostOf(place int) string { return "http://h" + strconv.Itoa(place) }

func placeOf(host string) int {
	i, _ := strconv.Atoi(strings.TrimPrefix(host, "http://h"))
	return i
}

// someone is a random member that is up.
func (n *network) someone() int {
	for {
		if i := 1 + n.rng.IntN(len(n.members)-1); n.members[i].up {
			return i
		}
	}
}

// records are what a manager that knows everyone knows.
func (n *network) records() []overlay.PeerRecord {
	var out []overlay.PeerRecord
	for i := range n.members {
		if m := &n.members[i]; i != manager && m.up {
			r := overlay.PeerRecord{ID: m.id, Coord: m.node.Coord(), Load: overlay.Load{Threads: 1}}
			if m.lies {
				r.Coord = lie(n.rng)
			}
			out = append(out, r)
		}
	}
	return out
}

// survey measures a host as the product does: from random peers, then in rounds from near ones while these get nearer.
func (n *network) survey(place int, known []overlay.PeerRecord) coords.HostRecord {
	var r coords.HostRecord
	least := 0.
	for round := range 1 + overlay.NearRounds {
		count := overlay.NearProbes
		if round == 0 {
			count = 16
		}
		before := least
		for _, p := range overlay.NearVantages(&r, known, count, n.rng) {
			ms := n.ground.rtt(n.index[p.ID], place)
			r.Add(coords.Sample{Vantage: string(p.ID), At: p.Coord, RTT: time.Duration(ms * 1e6), When: n.time().Unix()})
			if least == 0 || ms < least {
				least = ms
			}
		}
		if round > 1 && least > overlay.NearGain*before {
			break
		}
	}
	return r
}
