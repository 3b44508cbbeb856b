package overlay

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"shoal/coords"
)

// Where threads are busy, a task does not take a place in a queue far from its host: the fuller the queue, the nearer it must be.
func TestFullQueuesTakeNearTasks(t *testing.T) {
	const limit = 2 * time.Hour
	for _, c := range []struct {
		name    string
		farther float64 // ms, than the nearest, which is full
		backlog time.Duration
		taken   bool
	}{
		{"a free thread takes from anywhere", 300, 0, true},
		{"a thread that is free soon takes from not so far", 40, time.Minute, true},
		{"but not from far", 60, time.Minute, false},
		{"a long queue takes what is near", 4, 110 * time.Minute, true},
		{"and nothing else", 40, time.Hour, false},
	} {
		now := time.Unix(1_700_000_000, 0)
		near := town(0, 0, 0, rand.New(rand.NewPCG(9, 9)))[0]
		far := near
		near.Load.Backlog = limit
		far.ID, far.Load.Backlog = "far", c.backlog
		far.Coord.Vec[0] += c.farther
		n := knowing(t, now, 1, []PeerRecord{near, far})
		task := hostTask()
		task.Header.Host, task.Header.Latest = "", now.Add(limit)
		var r coords.HostRecord
		r.Add(coords.Sample{Vantage: "v", At: near.Coord, RTT: 5 * time.Millisecond, When: now.Unix()})
		out := n.Place(now, 1, task, r)
		for len(out) > 0 {
			s := out[0]
			out = out[1:]
			self := near
			if s.To == far.ID {
				self = far
			}
			switch m := s.Msg.(type) {
			case FindNear:
				self.Seq, self.Issued = 2, now
				out = append(out, n.Step(now, s.To, Near{Req: m.Req, Records: []*PeerRecord{&self}})...)
			case Offer:
				out = append(out, n.Step(now, s.To, Answer{Req: m.Req, Accept: s.To == far.ID, Start: now.Add(self.Load.Backlog)})...)
			}
		}
		e := n.Events()
		if len(e) != 1 {
			t.Fatalf("%s: %d events", c.name, len(e))
		}
		if taken := e[0].Err == nil; taken != c.taken || !taken && !errors.Is(e[0].Err, ErrRefused) {
			t.Errorf("%s: placed with %q: %v", c.name, e[0].Placed.Peer, e[0].Err)
		}
	}
}
