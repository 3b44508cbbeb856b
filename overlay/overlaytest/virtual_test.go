package overlaytest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"shoal/channel"
	"shoal/channel/lease"
	"shoal/coords"
	"shoal/internal/sim"
	"shoal/overlay"
)

func TestVirtualTime(t *testing.T) { Run(t, openVirtual) }

// virtual carries messages by the simulator's event queue, in virtual time. As every runner does it hands a node only tasks whose
// signatures it has checked.
type virtual struct {
	t       *testing.T
	setup   Setup
	began   time.Time
	now     int64
	queue   sim.Queue[letter]
	nodes   []*node // the manager first
	index   map[overlay.ID]int
	done    map[uint64]overlay.Event
	nextReq uint64
}

type node struct {
	*overlay.Node
	gone    bool
	tick    int64
	refused int64 // tasks, by the runner
}

// letter is a message under way; nil: a tick.
type letter struct {
	from, to int
	msg      overlay.Msg
}

func openVirtual(t *testing.T, s Setup) Swarm {
	v := &virtual{t: t, setup: s, began: time.Now(), index: map[overlay.ID]int{}, done: map[uint64]overlay.Event{}}
	rng := sim.Rand(1, t.Name())
	for i := range len(s.Queues) + 1 {
		own := rand.New(rand.NewPCG(rng.Uint64(), rng.Uint64()))
		place, err := coords.NewNode(coords.Default(), own)
		if err != nil {
			t.Fatal(err)
		}
		cfg := overlay.Default(overlay.ID(fmt.Sprint("p", i)))
		cfg.Places = i == 0
		var q overlay.Queue
		if i > 0 {
			q = s.Queues[i-1]
		}
		n, err := overlay.New(v.Now(), cfg, place, q, own)
		if err != nil {
			t.Fatal(err)
		}
		v.nodes = append(v.nodes, &node{Node: n, tick: -1})
		v.index[cfg.ID] = i
	}
	for i, n := range v.nodes[1:] {
		v.send(i+1, n.Greet(v.Now(), "p0", nil))
	}
	v.send(0, nil)
	return v
}

func (v *virtual) Now() time.Time { return v.began.Add(time.Duration(v.now)) }

func (v *virtual) send(from int, out []overlay.Send) {
	for _, s := range out {
		if to, ok := v.index[s.To]; ok {
			v.queue.Push(v.now+int64(time.Duration(5+7*((from+to)%5))*time.Millisecond), letter{from, to, s.Msg})
		}
	}
	n := v.nodes[from]
	for _, e := range n.Events() {
		v.done[e.Req] = e
	}
	if at := int64(n.Deadline().Sub(v.began)); n.tick < 0 || at < n.tick {
		n.tick = at
		v.queue.Push(at, letter{to: from})
	}
}

// step handles the next event.
func (v *virtual) step() {
	if v.queue.Len() == 0 {
		v.t.Fatal("nothing happens any more")
	}
	at, l := v.queue.Pop()
	v.now = max(at, v.now)
	n := v.nodes[l.to]
	switch {
	case n.gone:
	case l.msg == nil:
		if at == n.tick {
			n.tick = -1
			v.send(l.to, n.Tick(v.Now()))
		}
	default:
		v.take(l)
	}
}

// take is what a runner does with a message.
func (v *virtual) take(l letter) {
	n := v.nodes[l.to]
	m, err := v.check(n, l.msg)
	from := overlay.ID(fmt.Sprint("p", l.from))
	if err != nil {
		if o, ok := l.msg.(overlay.Offer); ok && o.Req != 0 { // its refusal is an answer too
			v.send(l.from, v.nodes[l.from].Failed(v.Now(), o.Req, true))
		}
		return
	}
	v.send(l.to, n.Step(v.Now(), from, m))
}

func (v *virtual) check(n *node, m overlay.Msg) (overlay.Msg, error) {
	good := func(s channel.Signed) bool {
		_, err := v.setup.Verifier.VerifyTask(v.Now(), s)
		if err != nil {
			n.refused++
		}
		return err == nil
	}
	switch m := m.(type) {
	case overlay.Offer:
		if !good(m.Signed) {
			return nil, errors.New("a bad task")
		}
	case overlay.Handoff:
		if len(m.Tasks) > overlay.MaxHandoff {
			break // the node's to refuse
		}
		var rest []overlay.Task
		for _, t := range m.Tasks {
			if good(t.Signed) {
				rest = append(rest, t)
			}
		}
		m.Tasks = rest
		return m, nil
	}
	return m, nil
}

// line is a peer's to the archive, which is a call away.
type line struct {
	*Ledger
	peer string
}

func (v *virtual) Archive(who int) Uplink { return line{v.setup.Ledger, fmt.Sprint("p", who+1)} }

func (l line) Claim(task channel.Signed) (lease.Reply, error) { return l.Ledger.Claim(l.peer, task) }

func (l line) Put(c channel.Chunk) (lease.Reply, error) { return l.Ledger.Put(l.peer, c) }

func (l line) Release(id channel.ID, gen channel.Gen) (lease.Reply, error) {
	return l.Ledger.Release(l.peer, id, gen)
}

func (v *virtual) Until(what string, holds func() bool) {
	v.t.Helper()
	for end := v.now + int64(time.Hour); !holds(); v.step() {
		if v.now > end {
			v.t.Fatalf("never: %s", what)
		}
	}
}

func (v *virtual) Known(who int) []overlay.PeerRecord { return v.nodes[who+1].Known() }

func (v *virtual) PlaceAt(t overlay.Task, r coords.HostRecord, named overlay.Named) (overlay.Placed, error) {
	v.nextReq++
	req := v.nextReq
	v.send(0, v.nodes[0].PlaceAt(v.Now(), req, t, r, named))
	v.Until("a placing ends", func() bool { _, ok := v.done[req]; return ok })
	e := v.done[req]
	return e.Placed, e.Err
}

// Handoff asks one after the other, as the runner does.
func (v *virtual) Handoff(from int, tasks []overlay.Task) (taken int) {
	me := v.nodes[from+1]
	for _, p := range me.Known() {
		to, ok := v.index[p.ID]
		if !ok || p.Load.Threads == 0 || v.nodes[to].gone || len(tasks) == 0 {
			continue
		}
		var left []overlay.Task
		for _, t := range tasks {
			m, err := v.check(v.nodes[to], overlay.Handoff{Tasks: []overlay.Task{t}})
			got := false
			if err == nil {
				for _, s := range v.nodes[to].Step(v.Now(), overlay.ID(fmt.Sprint("p", from+1)), m) {
					a, is := s.Msg.(overlay.HandoffAnswer)
					got = got || is && len(a.Taken) == 1 && a.Taken[0]
				}
			}
			if got {
				taken++
			} else {
				left = append(left, t)
			}
		}
		tasks = left
	}
	return taken
}

func (v *virtual) Deliver(from, to int, m overlay.Msg) error {
	before := v.Refused(to)
	v.take(letter{from + 1, to + 1, m})
	if v.Refused(to) > before {
		return errors.New("refused")
	}
	return nil
}

func (v *virtual) Introduce(from, to int, ghosts []Ghost) error {
	g := overlay.Gossip{Self: v.nodes[from+1].Self(v.Now())}
	for _, h := range ghosts {
		g.Records = append(g.Records, &overlay.PeerRecord{ID: overlay.ID(fmt.Sprint("ghost", h.N)), Seq: h.Seq, Coord: h.At, Issued: v.Now(), Account: h.Account})
	}
	return v.Deliver(from, to, g)
}

func (v *virtual) Near(from, to int, at coords.Coord) (ghosts []int, err error) {
	for _, s := range v.nodes[to+1].Step(v.Now(), overlay.ID(fmt.Sprint("p", from+1)), overlay.FindNear{Req: 1, At: at, N: overlay.MaxNear}) {
		if m, ok := s.Msg.(overlay.Near); ok {
			for _, r := range m.Records {
				var n int
				if _, err := fmt.Sscanf(string(r.ID), "ghost%d", &n); err == nil {
					ghosts = append(ghosts, n)
				}
			}
			return ghosts, nil
		}
	}
	return nil, errors.New("no answer")
}

func (v *virtual) Refused(who int) (n int64) {
	n = v.nodes[who+1].refused
	for what, k := range v.nodes[who+1].Counts() {
		if strings.HasPrefix(what, "refused") {
			n += k
		}
	}
	return n
}

func (v *virtual) Vanish(who int) { v.nodes[who+1].gone = true }
