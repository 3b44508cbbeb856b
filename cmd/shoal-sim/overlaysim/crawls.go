package overlaysim

import (
	"encoding/binary"
	"math"
	"slices"
	"time"

	"shoal/channel"
	"shoal/channel/lease"
	"shoal/coords"
	"shoal/overlay"
	"shoal/peer/queue"
)

// start claims a task and runs it.
func (s *swarm) start(w *crawler, t *task, gen channel.Gen) {
	now := s.n.time()
	step := t.fence.Claim(now, lease.Peer(w.who+1), gen, t.latest, s.terms)
	s.hear(t, w.who, step.Event)
	if step.Reply.Status != lease.Granted || t.over {
		w.q.Done(now, uint64(t.id), 0)
		w.at(s.n.now)
		return
	}
	if !t.started && t.counted {
		s.waits = append(s.waits, float64(s.n.now-t.born)/float64(time.Minute))
	}
	t.started = true
	r := &run{peer: w.who, started: s.n.now, pages: t.left, perPage: 1e9*s.pageTime[w.who] + 2e6*s.n.ground.rtt(w.who, t.place)}
	t.run = r
	s.n.after(time.Duration(r.pages*r.perPage), func() {
		if !r.cut {
			s.finish(w, t, r)
		}
	})
}

func (s *swarm) finish(w *crawler, t *task, r *run) {
	now := s.n.time()
	t.run = nil
	step := t.put(now, r, true)
	w.q.Done(now, uint64(t.id), int(math.Ceil(r.pages)))
	s.fetch(r.peer, r.pages)
	if s.hear(t, r.peer, step.Event).Effect&lease.Apply != 0 {
		s.n.members[manager].node.Trust(now, s.n.members[r.peer].id)
		s.end(t, true)
	}
	w.at(s.n.now)
}

func (s *swarm) fetch(who int, pages float64) {
	if s.counted {
		s.fetched[who] += pages
	}
}

// put stores a chunk on the channel's head.
func (t *task) put(now time.Time, r *run, final bool) lease.Step {
	f := &t.fence
	c := lease.Chunk{Gen: f.Gen, Seq: f.Seq + 1, Prev: f.Head, Final: final}
	binary.LittleEndian.PutUint64(c.Hash[:], c.Seq)
	return f.Put(now, lease.Peer(r.peer+1), c, t.s.terms)
}

// leave ends a peer's life.
func (s *swarm) leave(i int, polite bool) {
	w := s.crawlers[i]
	if w == nil { // a swallower
		return
	}
	w.gone = true
	var running []queue.Item[channel.Gen]
	w.q.Each(func(it queue.Item[channel.Gen], started time.Time) {
		if !started.IsZero() {
			running = append(running, it)
		}
	})
	waiting := w.q.Handover(nil)
	for _, it := range running {
		s.cut(s.tasks[it.Key-1], polite)
	}
	if polite {
		s.handOver(i, waiting)
	}
}

// cut ends a run whose peer leaves: politely, with a last chunk and a release; or without a word, and the lease lapses.
func (s *swarm) cut(t *task, polite bool) {
	r := t.run
	if r == nil {
		return
	}
	r.cut, t.run = true, nil
	now := s.n.time()
	ran := s.n.now - r.started
	stored := ran
	if !polite {
		stored -= ran % int64(checkpoint)
	}
	t.left = max(r.pages-float64(stored)/r.perPage, 1)
	s.fetch(r.peer, float64(ran)/r.perPage)
	if s.counted {
		s.use.lost += float64(ran-stored) / r.perPage
	}
	if stored > 0 {
		t.put(epoch.Add(time.Duration(r.started+stored)), r, false)
	}
	if polite {
		s.hear(t, r.peer, t.fence.Release(now, lease.Peer(r.peer+1), t.fence.Gen).Event)
		return
	}
	s.n.after(t.fence.Deadline().Sub(now), func() {
		s.hear(t, r.peer, t.fence.Tick(s.n.time()).Event)
	})
}

// handOver offers what a leaver has not claimed to those that it knows, in random order, as the product's runner does.
func (s *swarm) handOver(from int, items []queue.Item[channel.Gen]) {
	known := s.n.members[from].node.Known()
	s.n.rng.Shuffle(len(known), func(i, j int) { known[i], known[j] = known[j], known[i] })
	for _, p := range known {
		to := s.n.who(p.ID)
		if len(items) == 0 || p.Load.Threads == 0 || !s.n.members[to].up || to == from {
			continue
		}
		var rest []queue.Item[channel.Gen]
		for _, it := range items {
			if s.give(from, to, it) {
				s.moved++
			} else {
				rest = append(rest, it)
			}
		}
		items = rest
	}
}

// give hands one waiting task to another peer by the overlay's message.
func (s *swarm) give(from, to int, it queue.Item[channel.Gen]) bool {
	t := s.tasks[it.Key-1]
	h := channel.Header{Channel: t.id, Gen: it.Value, Host: hostOf(t.place), Pages: it.Pages, Latest: t.latest, Gap: it.Gap}
	for _, out := range s.n.members[to].node.Step(s.n.time(), s.n.members[from].id, overlay.Handoff{Tasks: []overlay.Task{{Header: h}}}) {
		if a, is := out.Msg.(overlay.HandoffAnswer); is && len(a.Taken) == 1 && a.Taken[0] {
			return true
		}
	}
	return false
}

// stealFrom is how many of the nearest known peers an idle one asks, and stealAgain how long it waits when they had nothing.
const (
	stealFrom  = 8
	stealAgain = time.Minute
)

// steal asks the nearest known peers for a task that they have not begun, and takes the last one of the first that has any.
func (s *swarm) steal(w *crawler) {
	node := s.n.members[w.who].node
	own := node.Coord()
	known := node.Known()
	slices.SortStableFunc(known, func(a, b overlay.PeerRecord) int {
		return int(math.Copysign(1, coords.Distance(&a.Coord, &own)-coords.Distance(&b.Coord, &own)))
	})
	asked := 0
	for _, p := range known {
		from := s.n.who(p.ID)
		if p.Load.Threads == 0 || !s.n.members[from].up || s.crawlers[from] == nil || from == w.who {
			continue
		}
		if asked++; asked > stealFrom {
			break
		}
		var last uint64
		s.crawlers[from].q.Each(func(it queue.Item[channel.Gen], started time.Time) {
			if started.IsZero() {
				last = it.Key
			}
		})
		if it, ok := s.crawlers[from].q.Remove(last); ok {
			if s.give(from, w.who, it) {
				s.stolen++
				return
			}
			_ = s.crawlers[from].q.Force(it) // it was its own
		}
	}
	s.n.after(stealAgain, func() {
		if !w.gone && w.q.Running() < threads && w.q.Waiting() == 0 {
			s.steal(w)
		}
	})
}
