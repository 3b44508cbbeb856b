package homing

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// event is a peer whose time has come. found is set for the end of an attempt, and says what it met.
type event struct {
	at    time.Duration
	peer  int
	ends  bool
	found Outcome
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].peer < e[j].peer
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// outage is a server that is away from 0 to long.
type outage struct {
	long    time.Duration
	silent  bool          // packets to it vanish: an attempt lasts as long as it may; else the port refuses at once
	notices time.Duration // within which a peer notices the loss: a connection that was cut tells nothing until its keep-alive fails
	room    int           // peers that it lets in within a second; 0: all
}

// met is what the peers met.
type met struct {
	back   []time.Duration       // of each peer
	lost   []time.Duration       // when it noticed
	second map[time.Duration]int // attempts that began, by second
	tried  []int                 // failed attempts of each peer
}

const (
	peers   = 1000
	refused = 50 * time.Millisecond
	joins   = 300 * time.Millisecond
)

// live plays an outage for 1,000 peers.
func live(t *testing.T, o outage, seed uint64) met {
	t.Helper()
	rng, zero, times := rand.New(rand.NewPCG(seed, 1)), time.Unix(0, 0), Default()
	m := met{back: make([]time.Duration, peers), lost: make([]time.Duration, peers), second: map[time.Duration]int{}, tried: make([]int, peers)}
	ways, q, in := make([]*Way, peers), &events{}, map[time.Duration]int{}
	for i := range ways {
		ways[i] = New(zero.Add(-time.Hour), times, rng)
		ways[i].Done(zero.Add(-time.Hour), Arrived)
		m.lost[i] = time.Duration(rng.Float64() * float64(o.notices))
		ways[i].Lost(zero.Add(m.lost[i]), 0)
		heap.Push(q, event{at: ways[i].Deadline().Sub(zero), peer: i})
	}
	for q.Len() > 0 {
		e := heap.Pop(q).(event)
		w := ways[e.peer]
		if e.ends {
			w.Done(zero.Add(e.at), e.found)
			if w.Home() {
				m.back[e.peer] = e.at
				continue
			}
			m.tried[e.peer] = w.Tries()
			heap.Push(q, event{at: w.Deadline().Sub(zero), peer: e.peer})
			continue
		}
		second := e.at.Truncate(time.Second)
		m.second[second]++
		end := event{at: e.at + joins, peer: e.peer, ends: true}
		switch {
		case e.at < o.long && o.silent:
			end.at, end.found = e.at+times.Try, Unanswered
		case e.at < o.long:
			end.at, end.found = e.at+refused, Unanswered
		default:
			if in[second]++; o.room > 0 && in[second] > o.room {
				end.found = TurnedAway
			}
		}
		heap.Push(q, end)
	}
	return m
}

var outages = []time.Duration{0, 10 * time.Second, 30 * time.Second, time.Minute, 3 * time.Minute, 10 * time.Minute, time.Hour, 6 * time.Hour}

// TestThousandPeersAreBackInTime: whatever the outage, each of 1,000 peers is back within 30 s of the server's return, or of noticing the
// loss where that is later.
func TestThousandPeersAreBackInTime(t *testing.T) {
	if b := Default().Back(); b > 30*time.Second {
		t.Errorf("a peer may be back %v after its server", b)
	}
	for seed := range uint64(3) {
		for _, long := range outages {
			if seed > 0 && long > time.Hour {
				continue // its hours are alike
			}
			for _, o := range []outage{{long: long}, {long: long, silent: true}, {long: long, silent: true, notices: 40 * time.Second}} {
				m := live(t, o, seed)
				var worst time.Duration
				for i, at := range m.back {
					worst = max(worst, at-max(o.long, m.lost[i]))
				}
				if worst > 30*time.Second {
					t.Errorf("seed %d, %+v: the last peer is back after %v", seed, o, worst)
				}
				t.Logf("seed %d, %+v: the last peer is back after %v", seed, o, worst.Round(100*time.Millisecond))
			}
		}
	}
}

// TestReturnIsNoStorm: in no second more than 150 of 1,000 peers try, at the loss, during the outage or at the return.
func TestReturnIsNoStorm(t *testing.T) {
	for seed := range uint64(3) {
		for _, long := range outages {
			if seed > 0 && long > time.Hour {
				continue
			}
			for _, silent := range []bool{false, true} {
				m, most := live(t, outage{long: long, silent: silent}, seed), 0
				for _, n := range m.second {
					most = max(most, n)
				}
				if most > 150 {
					t.Errorf("seed %d, an outage of %v: %d attempts in a second", seed, long, most)
				}
				t.Logf("seed %d, an outage of %v, silent %v: at most %d attempts in a second", seed, long, silent, most)
			}
		}
	}
}

// TestOutageIsCheap: while the server is away a peer tries five times a minute at most, in the sixth hour as in the first.
func TestOutageIsCheap(t *testing.T) {
	for _, o := range []outage{{long: 6 * time.Hour}, {long: 6 * time.Hour, silent: true}} {
		m := live(t, o, 1)
		for i, n := range m.tried {
			if least, most := int(o.long/(30*time.Second)), int(o.long/(12*time.Second))+2; n < least*9/10 || n > 5*360 || n > most*12/10 {
				t.Fatalf("%+v: peer %d tried %d times", o, i, n)
			}
		}
	}
}

// TestFullServerIsSpared: peers that a server has no room for come less and less often, and all get in.
func TestFullServerIsSpared(t *testing.T) {
	m := live(t, outage{long: time.Minute, room: 20}, 1)
	var last time.Duration
	tries := 0
	for i, at := range m.back {
		last, tries = max(last, at), tries+m.tried[i]
	}
	if last > 10*time.Minute || tries > 12*peers {
		t.Errorf("the last of %d peers is back at %v, after %d failed attempts of all", peers, last, tries)
	}
	w, now := New(time.Unix(0, 0), Default(), rand.New(rand.NewPCG(1, 1))), time.Unix(0, 0)
	var waits []time.Duration
	for range 8 {
		w.Done(now, TurnedAway)
		waits = append(waits, w.Deadline().Sub(now))
		now = w.Deadline()
	}
	if d := Default(); waits[0] > d.Again || waits[7] < d.Full/2 || waits[7] > d.Full {
		t.Errorf("waits after being turned away: %v", waits)
	}
	w.Done(now, Unanswered) // it is gone: the return is wanted soon again
	if d := w.Deadline().Sub(now); d > Default().Again {
		t.Errorf("a wait of %v after nothing answered", d)
	}
}

// TestWay goes through the states of one way.
func TestWay(t *testing.T) {
	now, d := time.Unix(1000, 0), Default()
	w := New(now, d, rand.New(rand.NewPCG(1, 1)))
	say := func(want string) {
		t.Helper()
		if got := fmt.Sprintf("home %v since %v, %d tries, next in %v", w.Home(), w.Since().Unix(), w.Tries(), w.Deadline().Sub(now).Round(time.Second)); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	say("home false since 1000, 0 tries, next in 0s")
	w.Lost(now, 0) // it was never home
	say("home false since 1000, 0 tries, next in 0s")
	w.Done(now, Arrived)
	say("home true since 1000, 0 tries, next in 2s")
	now = now.Add(2 * time.Second)
	w.Done(now, Arrived)
	say("home true since 1000, 0 tries, next in 30s")
	now = now.Add(30 * time.Second)
	w.Done(now, Unanswered) // a look that finds nothing is a loss, and no attempt
	if w.Home() || w.Since() != now || w.Tries() != 0 || w.Deadline().Sub(now) > d.Soon {
		t.Error("a look that finds nothing")
		say("")
	}
	lost := now
	now = now.Add(d.Soon)
	w.Done(now, Unanswered)
	w.Lost(now, 0)
	if w.Since() != lost || w.Tries() != 1 || w.Deadline().Sub(now) < d.Again*3/5 || w.Deadline().Sub(now) > d.Again {
		t.Error("a failed attempt")
		say("")
	}
	now = now.Add(d.Again)
	w.Done(now, Arrived)
	say("home true since 1060, 1 tries, next in 2s")
	w.Lost(now, 0)
	if w.Tries() != 0 {
		t.Error("a loss begins a new count")
	}
}

// TestAnotherServer: of 1,000 peers that servers share, those of one that dies are at another one within 15 s, and in no second more than 119 of them
// try at one server. An attempt begins with a peer's own first server, the dead one, and goes on to the second a second later.
func TestAnotherServer(t *testing.T) {
	const next = time.Second
	for _, servers := range []int{2, 3, 4, 16} {
		for _, notices := range []time.Duration{0, 8 * time.Second} { // kill -9 ends connections; a cable that is pulled must be noticed
			for seed := range uint64(3) {
				rng, zero := rand.New(rand.NewPCG(seed, 2)), time.Unix(0, 0)
				second, worst, most := map[[2]int64]int{}, time.Duration(0), 0
				for range peers / servers {
					w := New(zero.Add(-time.Hour), Default(), rng)
					w.Done(zero.Add(-time.Hour), Arrived)
					w.Lost(zero.Add(notices), servers-1) // the worst case for a crowd: all notice at once
					at := w.Deadline().Sub(zero) + next
					worst = max(worst, at+joins)
					slot := [2]int64{int64(1 + rng.IntN(servers-1)), int64(at / time.Second)}
					second[slot]++
					most = max(most, second[slot])
				}
				if worst > 15*time.Second || most > 119 {
					t.Errorf("seed %d, %d servers, noticed after %v: the last is at another one after %v, %d attempts at one in a second", seed, servers, notices, worst, most)
				}
				t.Logf("seed %d, %d servers, noticed after %v: the last is at another one after %v, at most %d attempts at one in a second", seed, servers, notices, worst.Round(100*time.Millisecond), most)
			}
		}
	}
}
