package dispatch

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"shoal/channel"
	"shoal/channel/lease"
	"shoal/recrawl"
)

// crawl is a task at a peer.
type crawl struct {
	slot    recrawl.Slot
	gen     channel.Gen
	latest  time.Time
	peer    *member
	running bool
}

// news is an event of the archive on its way to the Machine.
type news struct {
	slot recrawl.Slot
	e    lease.Event
	peer Peer
}

// chaos is a world in which anything may happen.
type chaos struct {
	*world
	t      *testing.T
	rng    *rand.Rand
	terms  lease.Terms
	placed []Order // on their way to a peer
	crawls []*crawl
	feed   []news
	seq    uint64
	idle   map[recrawl.Slot]time.Time // since when a near peer could have taken a channel that is wanted
	done   map[recrawl.Slot]int       // reports
	visits map[channel.HostKey]bool   // of the owner
}

// TestRandomWorlds lets anything happen to peers, tasks and the manager, looks at what must always hold after each step, and then lets the
// world calm down: every channel must be crawled again.
func TestRandomWorlds(t *testing.T) {
	for seed := range uint64(150) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			c := newChaos(t, seed)
			for range 600 {
				c.step()
				c.check()
			}
			c.calm()
		})
	}
}

func newChaos(t *testing.T, seed uint64) *chaos {
	rng := rand.New(rand.NewPCG(seed, 1))
	cfg := Config{Terms: terms()}
	cfg.Terms.Handouts = 200 // nothing is given up
	if rng.IntN(3) == 0 {
		cfg.Batch, cfg.Queue = 1+rng.IntN(4), 1+rng.IntN(8)
	}
	c := &chaos{world: newWorld(cfg), t: t, rng: rng, terms: cfg.Terms, idle: map[recrawl.Slot]time.Time{}, done: map[recrawl.Slot]int{}, visits: map[channel.HostKey]bool{}}
	for i := range 2 + rng.IntN(6) {
		p := c.peer(Peer(fmt.Sprintf("peer-%d", i)))
		p.at, p.holds, p.gone = rng.IntN(1000), 1+rng.IntN(4), rng.IntN(4) == 0
	}
	for range 4 + rng.IntN(16) {
		host := channel.HostKey(1 + rng.IntN(10))
		c.hosts[host] = int(host) * 100
		c.add(host)
	}
	return c
}

func (c *chaos) step() {
	now := c.now
	switch c.rng.IntN(20) {
	case 0, 1, 2, 3, 4:
		c.now = now.Add(time.Duration(c.rng.IntN(90)) * time.Second)
		c.look()
	case 5, 6, 7:
		c.resolve(c.rng.IntN(12))
	case 8, 9, 10, 11:
		c.work()
	case 12, 13, 14:
		c.deliver(c.rng.IntN(4))
	case 15:
		p := c.peers[c.rng.IntN(len(c.peers))]
		if p.gone = !p.gone; p.gone {
			c.vanish(p)
		}
	case 16:
		for s, site := range c.chans {
			if site.facts.Out == 0 && c.rng.IntN(2) == 0 {
				c.chans[s].wanted = true
			}
		}
	case 17:
		s := recrawl.Slot(c.rng.IntN(len(c.chans)))
		switch c.rng.IntN(7) {
		case 6:
			c.pause(s, c.chans[s].facts.Flags&recrawl.Paused == 0)
		case 5:
			if _, err := c.m.Reserve(s, 0); err != nil && !c.m.IsOut(s) {
				c.t.Fatal(err)
			}
		case 4:
			c.visit(c.chans[s].host)
		case 0:
			c.m.Block(c.chans[s].host, []string{"", "asked to"}[c.rng.IntN(2)])
		case 1:
			c.m.Leave(c.chans[s].host, now.Add(time.Duration(c.rng.IntN(10))*time.Minute))
		case 2:
			c.m.NotBefore(s, now.Add(time.Duration(c.rng.IntN(10))*time.Minute))
		case 3:
			if c.m.CrawlNow(now, s) != nil { // it is out
				if gen := Anew(c.m, s); gen != 0 && c.rng.IntN(4) > 0 { // else the archive does not hear of it
					c.tell(s, c.chans[s].fence.TakeBack(now, gen).Event, "")
				}
			}
		}
	case 18:
		c.blind = c.rng.IntN(4) == 0
	case 19:
		if c.rng.IntN(10) == 0 {
			c.placed, c.told = nil, nil // what was on its way may be at a peer, or not
			clear(c.visits)
			c.restart()
		}
	}
	c.acts()
}

// pause pauses a channel, or goes on with it.
func (c *chaos) pause(s recrawl.Slot, paused bool) {
	c.Edit(s, func(f *recrawl.Facts) {
		f.Flags &^= recrawl.Paused
		if paused {
			f.Flags |= recrawl.Paused
		}
	})
	if paused {
		Rest(c.m, s)
	}
}

// visit begins a visit of the owner, or ends it.
func (c *chaos) visit(key channel.HostKey) {
	if c.visits[key] {
		c.m.Left(key, c.now.Add(time.Duration(c.rng.IntN(10))*time.Minute))
		delete(c.visits, key)
		return
	}
	before := c.m.hosts[key]
	if c.visits[key] = c.m.Visit(c.now, key); c.visits[key] && (before.out > 0 || before.blocked != "" || c.now.Before(before.next())) {
		c.t.Fatalf("a visit of host %d begins while %+v", key, before)
	}
}

// look has the Machine tick, and notes what it hands out. Nothing may be out twice.
func (c *chaos) look() {
	c.archive()
	orders, _ := c.tick()
	if k := c.Capacity(c.now); len(orders) > 0 && c.m.Out() > k.Holds+c.m.carried-k.Held {
		c.t.Fatalf("%d tasks are out, %d of them at peers that are gone; the others hold %d", c.m.Out(), c.m.carried-k.Held, k.Holds)
	}
	if most := c.m.cfg.Batch; most > 0 && (len(orders) > most || c.m.placing > c.m.cfg.Queue) {
		c.t.Fatalf("%d orders, %d without an outcome: want at most %d, %d", len(orders), c.m.placing, most, c.m.cfg.Queue)
	}
	for _, o := range orders {
		if c.chans[o.Slot].facts.Flags&recrawl.Paused != 0 && !c.m.flights.find(o.Slot).asked {
			c.t.Fatalf("channel %d is handed out although it is paused", o.Slot)
		}
		if key := c.chans[o.Slot].host; c.m.hosts[key].out > 1 {
			c.t.Fatalf("channel %d is handed out although another one of host %d is out", o.Slot, key)
		}
	}
	c.placed = append(c.placed, orders...)
	if c.m.cfg.Batch == 0 { // else there is another reason to wait
		c.checkIdle()
	}
}

// archive ends the leases whose time is over.
func (c *chaos) archive() {
	for s, site := range c.chans {
		if e := site.fence.Tick(c.now).Event; e.Kind != 0 {
			c.tell(recrawl.Slot(s), e, "")
		}
	}
}

func (c *chaos) tell(s recrawl.Slot, e lease.Event, p Peer) {
	if e.Kind == 0 {
		return
	}
	c.seq++
	e.Seq = c.seq
	c.feed = append(c.feed, news{s, e, p})
}

// resolve tells what came of an order.
func (c *chaos) resolve(how int) {
	if len(c.placed) == 0 {
		return
	}
	k := c.rng.IntN(len(c.placed))
	o := c.placed[k]
	c.placed = append(c.placed[:k], c.placed[k+1:]...)
	p := c.peers[c.rng.IntN(len(c.peers))]
	if o.Peer != "" && c.rng.IntN(4) > 0 {
		p = c.peer(o.Peer)
	}
	take := func() { c.crawls = append(c.crawls, &crawl{o.Slot, o.Gen, o.Latest, p, false}) }
	switch {
	case how < 8 && !p.gone:
		take()
		if c.rng.IntN(8) > 0 { // else the claim may be quicker than the answer
			c.m.Placed(c.now, o, p.name, c.now)
		} else {
			c.m.Unsure(c.now, o)
		}
	case how < 10:
		c.m.Refused(c.now, o)
	case how == 10:
		c.m.Unsent(c.now, o, 10*time.Second)
	default:
		c.m.Unsure(c.now, o)
	}
}

// work has a peer do something with a task.
func (c *chaos) work() {
	if len(c.crawls) == 0 {
		return
	}
	k := c.rng.IntN(len(c.crawls))
	w := c.crawls[k]
	f, id := &c.chans[w.slot].fence, lease.PeerOf(string(w.peer.name))
	drop := func() { c.crawls = append(c.crawls[:k], c.crawls[k+1:]...) }
	if !w.running {
		step := f.Claim(c.now, id, w.gen, w.latest, c.terms)
		c.tell(w.slot, step.Event, w.peer.name)
		if w.running = step.Reply.Status == lease.Granted; !w.running {
			drop()
		}
		return
	}
	switch c.rng.IntN(5) {
	case 0:
		c.tell(w.slot, f.Release(c.now, id, w.gen).Event, w.peer.name)
	default:
		chunk := lease.Chunk{Gen: w.gen, Seq: f.Seq + 1, Prev: f.Head, Final: true}
		chunk.Hash[0] = byte(f.Seq + 1)
		c.tell(w.slot, f.Put(c.now, id, chunk, c.terms).Event, w.peer.name)
	}
	drop()
}

// vanish loses what a peer had.
func (c *chaos) vanish(p *member) {
	kept := c.crawls[:0]
	for _, w := range c.crawls {
		if w.peer != p {
			kept = append(kept, w)
		}
	}
	c.crawls = kept
}

// deliver hands the Machine the next events of the feed, in their order.
func (c *chaos) deliver(n int) {
	for range min(n, len(c.feed)) {
		it := c.feed[0]
		c.feed = c.feed[1:]
		if err := c.hear(it.slot, it.e, it.peer); err != nil {
			c.t.Fatal(err)
		}
		if c.acts(); it.e.Kind == lease.Reported && c.chans[it.slot].facts.Out == 0 {
			c.done[it.slot]++
		}
	}
}

// check looks at what must always hold.
func (c *chaos) check() {
	t := c.t
	held, out, carried := map[Peer]int{}, map[channel.HostKey]int{}, 0
	waiting := 0
	for f := range c.m.flights.all() {
		s := f.slot
		if c.m.flights.find(s) != f {
			t.Fatalf("channel %d has a flight that is not found", s)
		}
		if f.waiting {
			waiting++
			if f.issue.Out() || f.peer != "" {
				t.Fatalf("channel %d waits and is out at %q, %v", s, f.peer, f.issue.Phase)
			}
			if !f.queued && f.wake == 0 {
				t.Fatalf("channel %d waits for ever", s)
			}
			continue
		}
		if !f.issue.Out() {
			t.Fatalf("channel %d is neither out nor waits: %v", s, f.issue.Phase)
		}
		if at := f.issue.Deadline(); !at.IsZero() && (f.wake == 0 || f.wake > at.UnixNano()) {
			t.Fatalf("channel %d is not looked at when its claim must have come", s)
		}
		if !f.occupies {
			t.Fatalf("channel %d is out, and its host is free", s)
		}
		out[c.chans[s].host]++
		if f.peer != "" {
			held[f.peer]++
			carried++
		}
	}
	if waiting != c.m.waiting || carried != c.m.carried {
		t.Fatalf("%d wait and %d are at peers, counted were %d and %d", waiting, carried, c.m.waiting, c.m.carried)
	}
	if n := c.m.Counts(); n.Accepted+n.Refused > n.Submitted {
		t.Fatalf("%d tasks are accepted and %d refused of %d that were handed out", n.Accepted, n.Refused, n.Submitted)
	}
	for _, p := range c.peers {
		if held[p.name] != p.held {
			t.Fatalf("%s has %d tasks, the judge was told %d", p.name, held[p.name], p.held)
		}
	}
	for key, h := range c.m.hosts {
		here := out[key]
		if c.visits[key] {
			here++
		}
		if h.out != here {
			t.Fatalf("host %d has %d tasks out and visits, counted were %d", key, here, h.out)
		}
	}
}

// checkIdle finds channels that wait although the peer nearest to their host has room, and nothing stands in the way. It is called after each
// tick of the Machine: a channel is looked at once in a tick of Due's, and the clock moves by a tick and a half at most.
func (c *chaos) checkIdle() {
	held := c.m.Held(c.now)
	room := c.m.Room(c.now)
	for i, site := range c.chans {
		s := recrawl.Slot(i)
		near := c.near(site.host)
		h := c.m.hosts[site.host]
		free := h.out == 0 && h.blocked == "" && !c.now.Before(h.next())
		f := c.m.flights.find(s)
		wants := site.wanted && site.facts.Flags&recrawl.Paused == 0 && f == nil && site.facts.Out == 0 && site.again <= c.clock.At(c.now)+1 || f != nil && f.waiting && f.due <= c.now.UnixNano() && !f.issue.Deadline().After(c.now)
		if !wants || !free || held || room == 0 || c.blind || len(near) == 0 || near[0].held >= near[0].holds || c.now.Before(c.m.notBefore[s]) {
			delete(c.idle, s)
			continue
		}
		since, known := c.idle[s]
		if !known {
			c.idle[s] = c.now
		} else if c.now.Sub(since) > 3*tick {
			c.t.Fatalf("at %v: %s: %s stands idle since %v", c.now.Sub(epoch), c.state(s), near[0].name, c.now.Sub(since))
		}
	}
}

// calm lets the world be kind: every channel is wanted, and must be reported soon.
func (c *chaos) calm() {
	c.blind = false
	for _, p := range c.peers {
		p.gone = false
	}
	for _, site := range c.chans {
		c.m.Block(site.host, "")
		if c.visits[site.host] {
			c.visit(site.host)
		}
	}
	for s := range c.chans {
		c.pause(recrawl.Slot(s), false)
	}
	clear(c.done)
	for range 60 * 12 {
		c.now = c.now.Add(time.Minute)
		for i, site := range c.chans {
			if site.facts.Out == 0 && c.done[recrawl.Slot(i)] == 0 && !site.wanted {
				site.wanted, site.again = true, 0
			}
		}
		c.look()
		for len(c.placed) > 0 {
			c.resolve(0)
		}
		for range len(c.crawls) {
			c.work()
		}
		c.deliver(len(c.feed))
		c.check()
		if len(c.done) == len(c.chans) {
			return
		}
	}
	for i := range c.chans {
		if c.done[recrawl.Slot(i)] == 0 {
			c.t.Errorf("starved: %s", c.state(recrawl.Slot(i)))
		}
	}
}
