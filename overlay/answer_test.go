package overlay

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"shoal/channel"
	"shoal/coords"
)

// placer is a manager's node that knows two peers, and a judge beside it.
func placer(t testing.TB) (*Node, *Judge) {
	rng := rand.New(rand.NewPCG(1, 1))
	v, err := coords.NewNode(coords.Default(), rng)
	if err != nil {
		t.Fatal(err)
	}
	cfg := Default("m")
	cfg.Places = true
	n, err := New(epoch, cfg, v, nil, rng)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []ID{"p1", "p2"} {
		if err := n.Meet(epoch, PeerRecord{ID: id, Seq: 1, Issued: epoch, Coord: coords.Coord{Err: 1}, Load: Load{Threads: 1, Slots: 10}}); err != nil {
			t.Fatal(err)
		}
		n.Trust(epoch, id)
	}
	j, err := NewJudge(JudgeConfig{}, rng)
	if err != nil {
		t.Fatal(err)
	}
	return n, j
}

// answered places a task, has each offer of it answered alike, and tells what came of it.
func answered(t testing.TB, n *Node, now time.Time, accept bool, start time.Time) Event {
	h := channel.Header{Channel: 1, Gen: 1, Host: "http://s", Pages: 20, Gap: time.Second, Issued: now, Latest: now.Add(time.Hour)}
	out := n.Place(now, 1, Task{Header: h}, coords.HostRecord{})
	for steps := 0; len(out) > 0; steps++ {
		if steps > 1000 {
			t.Fatal("the placing does not end")
		}
		s := out[0]
		out = out[1:]
		switch m := s.Msg.(type) {
		case FindNear:
			out = append(out, n.Step(now, s.To, Near{Req: m.Req})...)
		case Offer:
			out = append(out, n.Step(now, s.To, Answer{Req: m.Req, Accept: accept, Start: start})...)
		}
	}
	events := n.Events()
	if len(events) != 1 {
		t.Fatalf("%d events", len(events))
	}
	return events[0]
}

// A peer may answer an offer with any time. The start that comes of it is one that there can be, and the node goes on to place tasks.
func TestStartsThatNobodyCanMeanAreCut(t *testing.T) {
	for _, ms := range []int64{math.MaxInt64, math.MinInt64, 0, epoch.AddDate(10, 0, 0).UnixMilli(), epoch.AddDate(-10, 0, 0).UnixMilli()} {
		start := time.UnixMilli(ms)
		for _, accept := range []bool{true, false} {
			n, j := placer(t)
			for i := range 4 {
				now := epoch.Add(time.Duration(i) * time.Second)
				e := answered(t, n, now, accept, start)
				if e.Err == nil && (e.Placed.Start.Before(now) || e.Placed.Start.After(now.Add(time.Hour))) {
					t.Errorf("start %v, accepted: it would start at %v", start, e.Placed.Start)
				}
				if accept == (e.Err != nil) {
					t.Errorf("start %v, accept %v: %v", start, accept, e.Err)
				}
				for _, p := range n.Known() {
					if err := p.Check(); err != nil {
						t.Errorf("start %v: %v", start, err)
					}
				}
				j.See(n.View(now))
				j.Locate(now, 1, "s", coords.HostRecord{Samples: []coords.Sample{{Vantage: "p1", At: coords.Coord{Err: 1}, RTT: time.Millisecond, When: now.Unix()}}})
				j.Near(now, Ask{Host: 1, Pages: 20, Gap: time.Second})
			}
		}
	}
}

// A peer that does not want a host says so by a time that lies a day ahead when it answers; the answer takes a while, and clocks differ.
func TestUnwantedHostIsNoQueue(t *testing.T) {
	n, _ := placer(t)
	answered(t, n, epoch, false, epoch.Add(MaxBacklog-time.Second))
	for i := range n.table.entries {
		e := &n.table.entries[i]
		if s := n.standing(epoch, e); s != usual || e.rec.Load.Backlog != 0 {
			t.Errorf("%s stands %d, with a backlog of %v, since it does not want a host", e.id, s, e.rec.Load.Backlog)
		}
	}
}

// A peer that says of every host that it does not want it is named for no task for a while, as any that refuses. One host that it does not want, however often
// it is asked, is none of that.
func TestWhoWantsNoHostIsNotNamed(t *testing.T) {
	e := entry{rec: &PeerRecord{}}
	never, now := epoch.AddDate(1, 0, 0), epoch
	for range 10 {
		e.refused(now, never, "http://a")
	}
	if !e.known().full.IsZero() {
		t.Error("one host that it does not want keeps the tasks of all others from a peer")
	}
	e.refused(now, never, "http://b")
	e.refused(now, never, "http://c")
	if e.known().full.Before(now.Add(fullMost)) {
		t.Error("a peer that wants no host goes on being named")
	}
	now = now.Add(fullMost)
	e.refused(now, never, "http://c")
	if e.known().full.Before(now.Add(fullMost)) {
		t.Error("it is named again at once")
	}
}

// FuzzAnswer answers offers with any time; the node goes on to the next placing.
func FuzzAnswer(f *testing.F) {
	f.Add(true, int64(math.MaxInt64), int64(20))
	f.Add(false, int64(math.MinInt64), int64(1))
	f.Add(true, epoch.Add(time.Minute).UnixMilli(), int64(math.MaxInt64))
	f.Fuzz(func(t *testing.T, accept bool, ms, next int64) {
		n, _ := placer(t)
		answered(t, n, epoch, accept, time.UnixMilli(ms))
		answered(t, n, epoch.Add(time.Second), !accept, time.UnixMilli(next))
		answered(t, n, epoch.Add(2*time.Second), true, epoch)
	})
}
