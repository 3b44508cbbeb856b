package overlay

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"shoal/coords"
)

// asking is a node whose questions are answered after a time of each peer's own; zero: never.
type asking struct {
	t     *testing.T
	n     *Node
	now   time.Time
	known []PeerRecord
	after func(PeerRecord, Msg) time.Duration
	mail  []due
	asked map[ID]int
	offer map[ID]int
	outs  int // offers not answered yet
}

type due struct {
	at   time.Time
	from ID
	msg  Msg
}

func (a *asking) send(out []Send) {
	for _, s := range out {
		i := slices.IndexFunc(a.known, func(p PeerRecord) bool { return p.ID == s.To })
		if i < 0 {
			continue // a peer found on the way
		}
		var answer Msg
		switch m := s.Msg.(type) {
		case FindNear:
			a.asked[s.To]++
			self := a.known[i]
			self.Seq, self.Issued = 2, a.now
			answer = Near{Req: m.Req, Records: []*PeerRecord{&self}}
		case Offer:
			if a.offer[s.To]++; a.outs > 0 {
				a.t.Errorf("an offer to %s while another one is out", s.To)
			}
			a.outs++
			answer = Answer{Req: m.Req, Accept: true, Start: a.now}
		default:
			continue
		}
		if d := a.after(a.known[i], s.Msg); d > 0 {
			a.mail = append(a.mail, due{a.now.Add(d), s.To, answer})
		}
	}
}

// run lets time pass until something came of it.
func (a *asking) run() Event {
	a.t.Helper()
	for end := a.now.Add(time.Minute); a.now.Before(end); {
		if e := a.n.Events(); len(e) > 0 {
			return e[0]
		}
		next := a.n.Deadline()
		k := -1
		for i, d := range a.mail {
			if !d.at.After(next) {
				next, k = d.at, i
			}
		}
		if a.now = next; k < 0 {
			a.send(a.n.Tick(a.now))
			continue
		}
		d := a.mail[k]
		a.mail = slices.Delete(a.mail, k, k+1)
		if _, is := d.msg.(Answer); is {
			a.outs--
		}
		a.send(a.n.Step(a.now, d.from, d.msg))
	}
	a.t.Fatal("nothing came of it within a minute")
	return Event{}
}

func ask(t *testing.T, seed uint64, known []PeerRecord, after func(PeerRecord, Msg) time.Duration) *asking {
	a := &asking{t: t, now: time.Unix(1_700_000_000, 0), known: known, after: after, asked: map[ID]int{}, offer: map[ID]int{}}
	a.n = knowing(t, a.now, seed, known)
	return a
}

// TestOverdueIsNotNearest checks a peer that does not answer in the time that its record promises. It is not where
// its record says, or gone. Others are asked at once, and the peer is neither offered the task first nor reported as
// the nearest, unless it answers yet.
func TestOverdueIsNotNearest(t *testing.T) {
	known := town(0, 40, 0, rand.New(rand.NewPCG(9, 9)))
	stale := &known[0] // says that it is at the host itself
	stale.Coord = coords.Coord{Err: .1}
	stale.Coord.Vec[0] = 40
	for _, c := range []struct {
		name         string
		stale, other time.Duration
		first        bool
		most         time.Duration // that the lookup may take
	}{
		{"it answers in time", 45 * time.Millisecond, 45 * time.Millisecond, true, 200 * time.Millisecond},
		{"it is late, and the others are later", 300 * time.Millisecond, 400 * time.Millisecond, true, 2 * time.Second},
		{"it is late", time.Second, 45 * time.Millisecond, false, 300 * time.Millisecond},
		{"it is gone", 0, 45 * time.Millisecond, false, 300 * time.Millisecond},
	} {
		a := ask(t, 1, known, func(p PeerRecord, _ Msg) time.Duration {
			if p.ID == stale.ID {
				return c.stale
			}
			return c.other
		})
		begun := a.now
		a.send(a.n.Lookup(a.now, 1, stale.Coord))
		e := a.run()
		if first := e.Found[0].ID == stale.ID; first != c.first {
			t.Errorf("%s: it is the nearest: %v", c.name, first)
		}
		if took := a.now.Sub(begun); took > c.most {
			t.Errorf("%s: the lookup took %v, want at most %v", c.name, took, c.most)
		}
		if !slices.ContainsFunc(e.Found, func(p PeerRecord) bool { return p.ID == stale.ID }) {
			t.Errorf("%s: it is not found at all", c.name)
		}
	}
}

// TestNobodyWaitsForTheGone lets half of the peers near the host be gone. The others are asked without waiting for
// them, and one of the others gets the only offer. If an offer is not answered, no other peer gets one before that is
// certain.
func TestNobodyWaitsForTheGone(t *testing.T) {
	known := town(0, 40, 0, rand.New(rand.NewPCG(9, 9)))
	gone := map[ID]bool{}
	for _, p := range known[:5] {
		gone[p.ID] = true
	}
	for run := range uint64(100) {
		silent := run%2 == 1 // the first offer is not answered
		first := ID("")
		a := ask(t, run/2, known, func(p PeerRecord, m Msg) time.Duration {
			if _, is := m.(Offer); is && first == "" {
				if first = p.ID; silent {
					return 0
				}
			}
			if gone[p.ID] && !silent {
				return 0
			}
			return 50 * time.Millisecond
		})
		begun := a.now
		task := hostTask()
		task.Header.Host = "" // nothing to measure
		r := coords.HostRecord{}
		for i, p := range known {
			r.Add(coords.Sample{Vantage: "v" + string(p.ID), At: p.Coord, RTT: time.Duration(i+15) * time.Millisecond, When: 1})
		}
		if silent {
			a.outs = -1 // it is lost before the second
		}
		a.send(a.n.Place(a.now, 1, task, r))
		e := a.run()
		if e.Err != nil || !silent && gone[first] {
			t.Fatalf("run %d: placed with %q, first offered to %q, which is gone, or to nobody: %v", run, e.Placed.Peer, first, e.Err)
		}
		took := a.now.Sub(begun)
		if most := time.Second; !silent && (took > most || len(a.offer) != 1) {
			t.Errorf("it took %v, want at most %v, and %d offers, want 1", took, most, len(a.offer))
		}
		if silent && took < Default("").Timeout {
			t.Errorf("a second offer after %v, while the first one's answer might have come", took)
		}
	}
}

// A node among peers that all take long learns to wait, and one among prompt ones to go on soon.
func TestPaceLearns(t *testing.T) {
	p := newPace()
	const wants = 100 * time.Millisecond
	if got := p.patience(wants); got != 150*time.Millisecond {
		t.Errorf("a new node waits %v, want half as much again as predicted", got)
	}
	for range 50 {
		p.learn(&request{kind: finding, wants: wants}, 4*wants)
	}
	if got := p.patience(wants); got < 4*wants || got > 5*wants {
		t.Errorf("where answers take four times as long it waits %v", got)
	}
	for range 50 {
		p.learn(&request{kind: finding, wants: wants}, time.Hour)
	}
	if got := p.patience(wants); got > paceMost*wants {
		t.Errorf("it waits %v", got)
	}
	for range 100 {
		p.learn(&request{kind: finding, wants: wants}, wants)
	}
	if got := p.patience(wants); got != 150*time.Millisecond {
		t.Errorf("where answers come as predicted again it waits %v", got)
	}
	before := p
	p.learn(&request{wants: wants}, time.Hour)  // a measurement, which takes the host's time too
	p.learn(&request{kind: finding}, time.Hour) // a peer of which only the id is known
	if p != before {
		t.Error("it learnt from what says nothing")
	}
}
