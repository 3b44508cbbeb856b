package overlay

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"shoal/channel"
	"shoal/coords"
	"shoal/internal/sim"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// bin is a queue with room for some tasks, each of which lasts a minute.
type bin struct{ room, taken int }

func (b *bin) Quote(now time.Time, h channel.Header) (time.Time, bool) {
	start := now.Add(time.Duration(b.taken) * time.Minute)
	return start, b.taken < b.room && !start.After(h.Latest)
}

func (b *bin) Take(now time.Time, _ channel.Signed, h channel.Header) error {
	if _, ok := b.Quote(now, h); !ok {
		return errors.New("full")
	}
	b.taken++
	return nil
}

func (b *bin) Load(time.Time) Load {
	return Load{Threads: 1, Slots: uint8(min(b.room, 255)), Backlog: time.Duration(b.taken) * time.Minute}
}

type host struct {
	node *Node
	at   coords.Coord // where it really is
	bin  *bin
	cut  bool
	next time.Time // tick that is scheduled
}

type letter struct {
	from, to ID
	msg      Msg // nil: a tick
	sent     time.Time
}

// world is a network in memory and in virtual time.
type world struct {
	t     testing.TB
	now   time.Time
	rng   *rand.Rand
	queue sim.Queue[letter]
	hosts map[ID]*host
	ids   []ID
	loss  float64
	log   func(string)
	done  map[ID][]Event
	sent  map[ID]int // messages, while it is there
}

func plane(rng *rand.Rand) coords.Coord {
	c := coords.Coord{Height: 1 + 4*rng.Float64(), Err: .2}
	c.Vec[0], c.Vec[1], c.Vec[2] = 150*rng.Float64(), 80*rng.Float64(), 30*rng.Float64()
	return c
}

// grow makes a manager m and peers, which know only m, and lets time pass.
func grow(t testing.TB, seed uint64, peers int, settle time.Duration) *world {
	w := &world{t: t, now: epoch, rng: rand.New(rand.NewPCG(seed, 7)), hosts: map[ID]*host{}, done: map[ID][]Event{}}
	for i := range peers + 1 {
		id := ID(fmt.Sprintf("p%d", i))
		if i == 0 {
			id = "m"
		}
		w.add(id)
	}
	w.run(settle)
	return w
}

func (w *world) add(id ID) {
	rng := rand.New(rand.NewPCG(w.rng.Uint64(), 1))
	v, err := coords.NewNode(coords.Default(), rng)
	if err != nil {
		w.t.Fatal(err)
	}
	cfg := Default(id)
	cfg.Places = id == "m"
	h := &host{at: plane(w.rng), bin: &bin{room: 10}}
	if h.node, err = New(w.now, cfg, v, h.bin, rng); err != nil {
		w.t.Fatal(err)
	}
	w.hosts[id] = h
	w.ids = append(w.ids, id)
	w.send(id, h.node.Greet(w.now, "m", nil))
}

func (w *world) rtt(a, b ID) time.Duration { return coords.Predict(w.hosts[a].at, w.hosts[b].at) }

func (w *world) send(from ID, out []Send) {
	h := w.hosts[from]
	for _, s := range out {
		if w.sent != nil {
			w.sent[from]++
		}
		if to := w.hosts[s.To]; to != nil && !to.cut && !h.cut && w.rng.Float64() >= w.loss {
			w.queue.Push(w.now.Add(w.rtt(from, s.To)/2).UnixNano(), letter{from, s.To, s.Msg, w.now})
		}
	}
	w.done[from] = append(w.done[from], h.node.Events()...)
	if at := h.node.Deadline(); h.next.IsZero() || at.Before(h.next) || !h.next.After(w.now) {
		h.next = at
		w.queue.Push(at.UnixNano(), letter{to: from})
	}
	if n := len(h.node.table.entries); n > MaxTable && from != "m" || n > MaxKnown {
		w.t.Fatalf("%s: table of %d", from, n)
	}
	if len(h.node.table.gone) > maxGone || len(h.node.places) > MaxLookups {
		w.t.Fatalf("%s: unbounded lists", from)
	}
}

func (w *world) one() {
	at, l := w.queue.Pop()
	w.now = time.Unix(0, at).UTC()
	h := w.hosts[l.to]
	if l.msg == nil {
		if w.now.Equal(h.next) {
			w.send(l.to, h.node.Tick(w.now))
		}
		return
	}
	if w.log != nil {
		w.log(fmt.Sprintf("%d %s %s %T", at, l.from, l.to, l.msg))
	}
	if g, ok := l.msg.(Gossip); ok && g.Answer {
		h.node.Sample(l.from, g.Self.Coord, 2*w.now.Sub(l.sent))
	}
	w.send(l.to, h.node.Step(w.now, l.from, l.msg))
}

func (w *world) run(d time.Duration) {
	end := w.now.Add(d)
	for at, ok := w.queue.Next(); ok && at <= end.UnixNano(); at, ok = w.queue.Next() {
		w.one()
	}
	w.now = end
}

func (w *world) await(id ID) Event {
	w.t.Helper()
	for end := w.now.Add(5 * time.Minute); w.now.Before(end) && w.queue.Len() > 0; w.one() {
		if e := w.done[id]; len(e) > 0 {
			w.done[id] = e[1:]
			return e[0]
		}
	}
	w.t.Fatal("nothing came of it within five minutes")
	return Event{}
}

func (w *world) task(within time.Duration) Task {
	return Task{Header: channel.Header{Channel: 1, Gen: 1, Host: "http://s", Pages: 20, Gap: time.Second, Issued: w.now, Latest: w.now.Add(within)}}
}

func (w *world) place(t Task, r coords.HostRecord) Event {
	w.t.Helper()
	w.send("m", w.hosts["m"].node.Place(w.now, 1, t, r))
	return w.await("m")
}

// measured is what n random peers and the peers near to them found out about a host.
func (w *world) measured(at coords.Coord, n int) (r coords.HostRecord) {
	for range n {
		id := w.ids[1+w.rng.IntN(len(w.ids)-1)]
		r.Add(coords.Sample{Vantage: string(id), At: w.hosts[id].node.Coord(), RTT: coords.Predict(w.hosts[id].at, at), When: w.now.Unix()})
	}
	return r
}

func TestLookupFindsTheNearest(t *testing.T) {
	const peers, lookups = 250, 100
	w := grow(t, 1, peers, 30*time.Minute)
	hit, hops, queries := 0, 0, 0
	for i := range lookups {
		target := w.hosts[w.ids[1+w.rng.IntN(peers)]].node.Coord()
		target.Vec[0] += 5 * w.rng.Float64()
		from := w.ids[1+w.rng.IntN(peers)]
		w.send(from, w.hosts[from].node.Lookup(w.now, 1, target))
		e := w.await(from)
		if len(e.Found) == 0 {
			t.Fatalf("lookup %d found nobody", i)
		}
		best := slices.MinFunc(w.ids[1:], func(a, b ID) int {
			ca, cb := w.hosts[a].node.Coord(), w.hosts[b].node.Coord()
			da, db := coords.Distance(&ca, &target), coords.Distance(&cb, &target)
			return int(math.Copysign(1, da-db))
		})
		if from == best || slices.ContainsFunc(e.Found[:min(len(e.Found), 3)], func(r PeerRecord) bool { return r.ID == best }) {
			hit++
		}
		hops, queries = hops+e.Placed.Hops, queries+e.Placed.Queries
	}
	if hit < 90 {
		t.Errorf("the nearest was among the first three of %d lookups in %d", hit, lookups)
	}
	if hops > 4*lookups || queries > 12*lookups {
		t.Errorf("%.2f hops, %.2f queries a lookup", float64(hops)/lookups, float64(queries)/lookups)
	}
}

func TestPlacesNear(t *testing.T) {
	w := grow(t, 2, 80, 25*time.Minute)
	var got, nearest, random float64
	for range 40 {
		at := plane(w.rng)
		for _, h := range w.hosts {
			h.bin.taken = 0
		}
		w.run(10 * time.Minute)
		e := w.place(w.task(time.Hour), w.measured(at, 16))
		if e.Err != nil {
			t.Fatal(e.Err)
		}
		rtt := func(id ID) float64 { return coords.Predict(w.hosts[id].at, at).Seconds() * 1e3 }
		got += rtt(e.Placed.Peer)
		nearest += rtt(slices.MinFunc(w.ids[1:], func(a, b ID) int { return int(math.Copysign(1, rtt(a)-rtt(b))) }))
		random += rtt(w.ids[1+w.rng.IntN(80)])
	}
	if got > 2*nearest || got > .6*random {
		t.Errorf("mean time to the host %.1f ms; nearest %.1f, random %.1f", got/40, nearest/40, random/40)
	}
}

func TestRefuses(t *testing.T) {
	w := grow(t, 3, 40, 5*time.Minute)
	for _, h := range w.hosts {
		h.bin.room = 0
	}
	e := w.place(w.task(time.Hour), coords.HostRecord{})
	if !errors.Is(e.Err, ErrRefused) || e.Placed.Offers < firstOffers || e.Placed.Offers > widestOffers {
		t.Errorf("full swarm: %v after %d offers", e.Err, e.Placed.Offers)
	}
	w.hosts["p5"].cut = true
	for _, h := range w.hosts {
		h.bin.room = 5
	}
	for range 40 { // a peer that does not answer may have the task; the fence allows for that, and the task goes to another one
		if e := w.place(w.task(time.Hour), coords.HostRecord{}); e.Err != nil || e.Placed.Peer == "p5" {
			t.Fatal(e.Placed.Peer, e.Err)
		}
	}
	for _, h := range w.hosts {
		h.bin.room = 0
	}
	unsure := 0
	for range 40 {
		if e := w.place(w.task(time.Hour), coords.HostRecord{}); errors.Is(e.Err, ErrUnsure) {
			unsure++
		} else if !errors.Is(e.Err, ErrRefused) {
			t.Fatal(e.Err)
		}
	}
	t.Logf("%d of 40 placings in a full swarm met the silent peer", unsure)
}

func TestManagerTakesNothing(t *testing.T) {
	w := grow(t, 5, 10, 3*time.Minute)
	out := w.hosts["m"].node.Step(w.now, "p1", Offer{Req: 9, Header: w.task(time.Hour).Header})
	if a := out[0].Msg.(Answer); a.Accept || a.Req != 9 {
		t.Errorf("manager answered %+v", a)
	}
}

func TestGonePeersAreDropped(t *testing.T) {
	w := grow(t, 6, 60, 10*time.Minute)
	cut := map[ID]bool{}
	for i := 1; i <= 20; i++ {
		id := ID(fmt.Sprintf("p%d", i))
		w.hosts[id].cut, cut[id] = true, true
	}
	w.run(5 * time.Hour)
	for id, h := range w.hosts {
		if cut[id] {
			continue
		}
		for _, r := range h.node.Known() {
			if cut[r.ID] {
				t.Fatalf("%s lists %s five hours after it went", id, r.ID)
			}
		}
	}
}

// TestHeardAgainWithAClockSetBack starts a peer anew whose clock was ahead before: others take what it says of itself as soon as the time has come that the
// clock showed, however seldom it speaks.
func TestHeardAgainWithAClockSetBack(t *testing.T) {
	const ahead = 4 * time.Minute
	node := func(id ID, now time.Time) *Node {
		v, err := coords.NewNode(coords.Default(), rand.New(rand.NewPCG(1, 1)))
		if err != nil {
			t.Fatal(err)
		}
		n, err := New(now, Default(id), v, nil, rand.New(rand.NewPCG(2, 2)))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	other := node("other", epoch)
	tell := func(now time.Time, self PeerRecord) time.Time {
		other.Step(now, self.ID, Gossip{Self: self})
		return other.Known()[0].Issued
	}
	tell(epoch, node("peer", epoch.Add(ahead)).Self(epoch.Add(ahead)))
	again := node("peer", epoch)
	for _, at := range []time.Duration{time.Second, time.Minute, ahead + time.Second} {
		now := epoch.Add(at)
		if heard := tell(now, again.Self(now)); heard.Equal(now) != (at > ahead) {
			t.Errorf("%v after the new start others have its record of %v", at, heard.Sub(epoch))
		}
	}
}

func TestSameSeedSameMessages(t *testing.T) {
	run := func() (log []string) {
		w := grow(t, 11, 25, 0)
		w.loss = .2
		w.log = func(s string) { log = append(log, s) }
		w.run(4 * time.Minute)
		return log
	}
	if a, b := run(), run(); len(a) < 1000 || !slices.Equal(a, b) {
		t.Fatalf("two runs of one seed differ, or say little (%d messages)", len(a))
	}
}

// TestMovingAllChangesNothing holds that only distances decide: everything is translated, its axes are permuted and mirrored.
func TestMovingAllChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		shift := rapid.Float64Range(-200, 200).Draw(t, "shift")
		turn := rapid.Permutation([]int{0, 1, 2, 3, 4, 5, 6, 7}).Draw(t, "axes")
		sign := rapid.SampledFrom([]float64{1, -1}).Draw(t, "sign")
		run := func(move func(coords.Coord) coords.Coord) (log []string) {
			rng := rand.New(rand.NewPCG(seed, 0))
			v, err := coords.NewNode(coords.Default(), rand.New(rand.NewPCG(1, 1)))
			if err != nil {
				t.Fatal(err)
			}
			if err := v.Set(move(plane(rng))); err != nil {
				t.Fatal(err)
			}
			n, err := New(epoch, Default("self"), v, nil, rand.New(rand.NewPCG(seed, 1)))
			if err != nil {
				t.Fatal(err)
			}
			for i := range 90 {
				r := PeerRecord{ID: ID(fmt.Sprint(i)), Seq: 1, Issued: epoch, Coord: move(plane(rng)), Load: Load{Threads: 1}}
				if err := n.Meet(epoch, r); err != nil {
					t.Fatal(err)
				}
			}
			out := n.Lookup(epoch, 1, move(plane(rng)))
			for len(out) > 0 {
				s := out[0]
				log = append(log, string(s.To))
				out = append(out[1:], n.Step(epoch, s.To, Near{Req: s.Msg.(FindNear).Req})...)
			}
			for _, e := range n.Events() {
				for _, r := range e.Found {
					log = append(log, string(r.ID))
				}
			}
			return log
		}
		still := run(func(c coords.Coord) coords.Coord { return c })
		moved := run(func(c coords.Coord) coords.Coord {
			out := c
			for i, k := range turn {
				out.Vec[k] = sign*c.Vec[i] + shift
			}
			return out
		})
		if !slices.Equal(still, moved) {
			t.Fatalf("decisions differ:\n%v\n%v", still, moved)
		}
	})
}

// FuzzStep feeds a node messages of every kind with odd content, and holds that it neither falls nor grows.
func FuzzStep(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7}, 1., 2., uint64(1))
	f.Add([]byte{0, 0, 0, 2, 2, 4, 255, 9}, math.NaN(), math.Inf(1), uint64(0))
	f.Fuzz(func(t *testing.T, script []byte, x, y float64, req uint64) {
		rng := rand.New(rand.NewPCG(1, 1))
		v, err := coords.NewNode(coords.Default(), rng)
		if err != nil {
			t.Fatal(err)
		}
		n, err := New(epoch, Default("self"), v, &bin{room: 3}, rng)
		if err != nil {
			t.Fatal(err)
		}
		now := epoch
		pick := func(b byte) ID { return ID([]string{"self", "", "a", "b", string(make([]byte, 300))}[int(b)%5]) }
		for i, b := range script[:min(len(script), 400)] {
			rec := PeerRecord{ID: pick(b >> 3), Seq: uint64(i), Issued: now.Add(time.Duration(y)), Coord: coords.Coord{Err: .5, Height: y}}
			rec.Coord.Vec[b%8] = x
			rec.Load = Load{Threads: b, Backlog: time.Duration(x * 1e9)}
			recs := make([]*PeerRecord, int(b)%40)
			for k := range recs {
				r := rec
				r.ID += ID(fmt.Sprint(k*i, b))
				recs[k] = &r
			}
			h := channel.Header{Pages: int(b) - 5, Latest: now.Add(time.Duration(y))}
			r := n.req + req%3
			var m Msg
			switch b % 9 {
			case 0:
				m = Gossip{Req: r, Answer: b > 128, Self: rec, Records: recs}
			case 1:
				m = FindNear{Req: r, At: rec.Coord, N: int(b) - 3}
			case 2:
				m = Near{Req: r, Records: recs}
			case 3:
				m = Offer{Req: r, Header: h}
			case 4:
				m = Answer{Req: r, Accept: b > 99, Start: now.Add(time.Duration(x))}
			case 5:
				m = Handoff{Req: r, Tasks: make([]Task, b)}
			case 7:
				m = ProbeHost{Req: r, Host: string(script)}
			case 8:
				m = Probed{Req: r, RTT: time.Duration(x), At: rec.Coord}
			case 6:
				m = HandoffAnswer{Req: r, Taken: make([]bool, b)}
			}
			n.Step(now, pick(b), m)
			n.Place(now, uint64(i), Task{Header: h}, coords.HostRecord{Samples: []coords.Sample{{Vantage: "a", At: rec.Coord, RTT: time.Duration(x)}}})
			n.Sample(pick(b), rec.Coord, time.Duration(x))
			now = now.Add(time.Duration(b) * time.Second)
			n.Tick(now)
			if c := n.Coord(); !c.Valid() {
				t.Fatalf("coordinate %+v", c)
			}
			if len(n.table.entries) > MaxTable || len(n.places) > MaxLookups || len(n.pending) > 4*MaxLookups+64 || len(n.counts) > 64 {
				t.Fatalf("grew to %d, %d, %d, %d", len(n.table.entries), len(n.places), len(n.pending), len(n.counts))
			}
		}
	})
}

func TestWiden(t *testing.T) {
	var sizes []int
	for n := Widen(0); n > 0; n = Widen(n) {
		sizes = append(sizes, n)
	}
	if !slices.Equal(sizes, []int{firstOffers, widestOffers}) {
		t.Errorf("a search widens by %v", sizes)
	}
}

// TestAnswersToOtherQuestionsEndNothing holds that a placing comes to an end whatever kind of answer its questions get.
func TestAnswersToOtherQuestionsEndNothing(t *testing.T) {
	wrong := map[string]func(req uint64) Msg{
		"near":    func(req uint64) Msg { return Near{Req: req} },
		"probed":  func(req uint64) Msg { return Probed{Req: req, RTT: time.Millisecond} },
		"answer":  func(req uint64) Msg { return Answer{Req: req} },
		"gossip":  func(req uint64) Msg { return Gossip{Req: req, Answer: true} },
		"handoff": func(req uint64) Msg { return HandoffAnswer{Req: req} },
	}
	for name, answer := range wrong {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(4, 4))
			v, err := coords.NewNode(coords.Default(), rng)
			if err != nil {
				t.Fatal(err)
			}
			n, err := New(epoch, Default("self"), v, nil, rng)
			if err != nil {
				t.Fatal(err)
			}
			var record coords.HostRecord
			for i := range 12 {
				r := PeerRecord{ID: ID(fmt.Sprint(i)), Seq: 1, Issued: epoch, Coord: plane(rng), Load: Load{Threads: 1}}
				if err := n.Meet(epoch, r); err != nil {
					t.Fatal(err)
				}
				record.Add(coords.Sample{Vantage: "x" + fmt.Sprint(i), At: plane(rng), RTT: 30 * time.Millisecond})
			}
			task := Task{Header: channel.Header{Host: "http://s", Pages: 1, Latest: epoch.Add(time.Hour)}}
			out := n.Place(epoch, 1, task, record)
			for range 200 {
				if len(out) == 0 {
					break
				}
				s := out[0]
				out = out[1:]
				m := answer(reqOf(s.Msg))
				if g, ok := m.(Gossip); ok {
					g.Self = PeerRecord{ID: s.To, Seq: 2, Issued: epoch, Coord: coords.Coord{Err: .5}, Load: Load{Threads: 1}}
					m = g
				}
				out = append(out, n.Step(epoch, s.To, m)...)
			}
			if e := n.Events(); len(e) != 1 || e[0].Err == nil || len(n.places) > 0 {
				t.Errorf("events %+v, %d placings left", e, len(n.places))
			}
		})
	}
}

func reqOf(m Msg) uint64 {
	switch m := m.(type) {
	case FindNear:
		return m.Req
	case ProbeHost:
		return m.Req
	case Offer:
		return m.Req
	}
	return 0
}
