package recrawlsim

import (
	"encoding/binary"
	"math"
	"time"

	"shoal/channel/lease"
	"shoal/manager/dispatch"
	"shoal/peer/queue"
)

// tick does what a peer's queue asks for, and tells whether a task was given up.
func (s *shoal) tick(minute int, now time.Time, peer int32) (dropped bool) {
	q := s.queues[peer]
	s.acts = q.Tick(now, s.acts[:0])
	for _, a := range s.acts {
		ch := int32(a.Item.Key)
		switch a.Kind {
		case queue.Start:
			s.queued--
			dropped = !s.start(minute, now, ch, peer) || dropped
		case queue.Drop:
			dropped = true // the manager misses its claim
			s.queued--
		}
	}
	s.noted(peer)
	s.drops[peer] = math.MaxInt32
	if d := q.Deadline(); !d.IsZero() {
		s.drops[peer] = int32(math.Ceil(s.steps(since(d))))
	}
	return dropped
}

// start claims the task, which may come too late, and runs it.
func (s *shoal) start(minute int, now time.Time, ch, peer int32) bool {
	t := &s.tasks[ch]
	step := t.fence.Claim(now, lease.Peer(peer+1), t.fence.Offered, t.latest, s.terms)
	s.hear(now, ch, peer, step.Event)
	if step.Reply.Status != lease.Granted {
		s.queues[peer].Done(now, uint64(ch), 0)
		return false
	}
	i := s.unused
	if i == nothing {
		s.runs = append(s.runs, shoalRun{})
		i = int32(len(s.runs) - 1)
	} else {
		s.unused = s.runs[i].next
	}
	started := s.steps(since(now))
	s.r.m.begun(ch, peer, t.left)
	s.apart.begin(ch, peer, s.r.w.away(ch, peer))
	s.runs[i] = shoalRun{channel: ch, peer: peer, pages: t.left, started: started, end: started + s.r.w.startup(peer) + float64(t.left)*s.r.w.minutesPerPage(ch, peer)}
	t.run = i
	s.bucket(minute, i)
	return true
}

// progress tells a peer's queue how many pages its crawls still expect: once one has fetched its first page, that tells of the others.
func (s *shoal) progress(now time.Time, peer int32) {
	q, at := s.queues[peer], s.steps(since(now))
	s.items = s.items[:0]
	q.Each(func(it queue.Item[struct{}], started time.Time) {
		if !started.IsZero() {
			s.items = append(s.items, it)
		}
	})
	for _, it := range s.items {
		i := s.tasks[it.Key].run
		if i == nothing || s.runs[i].peer != peer {
			continue
		}
		run := &s.runs[i]
		perPage := (run.end - run.started) / float64(run.pages)
		if fetched := math.Floor((at - run.started) / perPage); fetched >= 1 {
			q.Progress(now, it.Key, max(int(math.Ceil(float64(run.pages)-fetched)), 0))
		}
	}
}

func (s *shoal) bucket(minute int, i int32) {
	if s.sites != nil {
		s.sites.active = append(s.sites.active, i)
		return
	}
	s.ends.add(minute, s.runs[i].end, i)
}

func (s *shoal) step(minute int) {
	if s.sites != nil {
		s.sites.until(minute)
	}
	all := s.ends.take(minute)
	s.touchRuns(all)
	for _, i := range all {
		run := s.runs[i]
		switch {
		case run.peer == nothing:
			s.runs[i].next, s.unused = s.unused, i
		case run.end > float64(minute):
			s.bucket(minute, i)
		default:
			s.runs[i].next, s.unused = s.unused, i
			s.complete(minute, run)
		}
	}
	for p, m := range s.drops {
		if int(m) <= minute {
			s.tick(minute, s.at(float64(minute)), int32(p))
		}
	}
	for {
		due, ok := s.lapses.Next()
		if !ok || due > int64(minute) {
			return
		}
		_, t := s.lapses.Pop()
		s.lapse(minute, t)
	}
}

// touchRuns and touch read, in one go, what the tasks of a minute will need one after the other: a processor waits for many lines of memory as
// long as for one. They change nothing.
func (s *shoal) touchRuns(all []int32) {
	n := 0
	for _, i := range all {
		run := &s.runs[i]
		t := &s.tasks[run.channel]
		p, slot := s.r.manager(run.channel)
		n += t.touch() + int(s.r.m.of[run.channel].last) + int(s.r.w.pages[run.channel]) +
			int(p.s.Facts(slot).Out)
		p.m.Ahead(slot)
		if run.peer != nothing {
			n += s.queues[run.peer].Waiting()
		}
	}
	for _, i := range all {
		if run := &s.runs[i]; run.peer != nothing {
			if key, ok := s.queues[run.peer].Next(); ok {
				p, slot := s.r.manager(int32(key))
				p.m.Ahead(slot)
				t := &s.tasks[key]
				n += t.touch() + int(s.r.w.hosts[key].X)
			}
		}
	}
	for _, i := range all {
		if run := &s.runs[i]; run.peer != nothing && s.queues[run.peer].Has(nobody) {
			n++
		}
	}
	s.r.touched += n
}

// touch reads all lines of a task.
func (t *shoalTask) touch() int { return int(t.issue.Gen) + int(t.fence.Seq) + int(t.run) }

func (s *shoal) touch(channels []int32) {
	n := 0
	for _, ch := range channels {
		t := &s.tasks[ch]
		n += t.touch() + int(s.r.w.pages[ch]) + int(s.r.w.hosts[ch].X) + s.r.w.near.touch(ch)
	}
	s.r.touched += n
}

func (s *shoal) complete(minute int, run shoalRun) {
	t := &s.tasks[run.channel]
	end := s.at(run.end)
	t.run = nothing
	step := s.put(end, run, true)
	h := s.hear(end, run.channel, run.peer, step.Event)
	q := s.queues[run.peer]
	q.Done(end, uint64(run.channel), int(math.Ceil(float64(run.pages))))
	s.r.m.downloaded(minute, run.pages)
	if h.Effect&lease.Apply != 0 {
		s.store(run, run.pages)
		t.left, t.open = 0, false
		s.r.updated(minute, run.channel, float32(run.started)-float32(t.since), float32(run.end-run.started)*s.r.w.pages[run.channel]/max(run.pages, 1))
	}
	s.tick(minute, end, run.peer)
}

// store takes in what the first pages of a run showed.
func (s *shoal) store(run shoalRun, pages float32) {
	s.storePart(run.channel, run.pages, run.pages-pages, run.started, run.started+(run.end-run.started)*float64(pages/run.pages))
}

// storePart takes in what pages of a site showed that were fetched from one time to another: before it some were left to fetch, and fewer after it.
func (s *shoal) storePart(ch int32, before, after float32, from, to float64) {
	if shown := s.r.m.shown; shown != nil && before > after {
		all := int(s.r.w.pages[ch])
		shown.part(ch, all, max(all-int(math.Ceil(float64(before))), 0), max(all-int(math.Ceil(float64(after))), 0), from, to)
	}
}

// hear tells the manager what the archive's feed says.
func (s *shoal) hear(now time.Time, ch, peer int32, e lease.Event) dispatch.Heard {
	if e.Kind == 0 {
		return dispatch.Heard{}
	}
	p, slot := s.r.manager(ch)
	h, _ := p.m.Hear(now, slot, e, s.name(peer)) // Issue never fails
	if e.Kind == lease.Reported {                // the channel may be wanted again before the machine is looked at
		s.tasks[ch].issue = h.Issue
	}
	return h
}

// put stores a chunk on the channel's head.
func (s *shoal) put(now time.Time, run shoalRun, final bool) lease.Step {
	f := &s.tasks[run.channel].fence
	c := lease.Chunk{Gen: f.Gen, Seq: f.Seq + 1, Prev: f.Head, Final: final}
	binary.LittleEndian.PutUint64(c.Hash[:], c.Seq)
	return f.Put(now, lease.Peer(run.peer+1), c, s.terms)
}

func (s *shoal) leave(minute int, peer int32, polite bool) {
	q, now := s.queues[peer], s.at(float64(minute))
	s.items = s.items[:0]
	q.Each(func(it queue.Item[struct{}], started time.Time) {
		if !started.IsZero() {
			s.items = append(s.items, it)
		}
	})
	running := len(s.items)
	s.items = q.Handover(s.items)
	items := append([]queue.Item[struct{}](nil), s.items...)
	s.queued -= len(items) - running
	s.drops[peer], s.soonest[peer] = math.MaxInt32, away
	if s.sites != nil {
		s.sites.view = nil
	}
	for _, it := range items[:running] {
		q.Done(now, it.Key, 0)
		if !polite {
			s.shelve(minute, peer, int32(it.Key))
		}
		s.cut(minute, int32(it.Key), polite)
	}
	for _, it := range items[running:] {
		ch := int32(it.Key)
		if polite {
			s.r.m.migrations++
			s.offer(minute, now, ch, "")
		} else {
			s.shelve(minute, peer, ch)
		}
	} // the manager misses the claims of the rest
}

// cut ends a run whose peer leaves: politely, with a last chunk and a release; or without a word, and the lease lapses.
func (s *shoal) cut(minute int, ch int32, polite bool) {
	t := &s.tasks[ch]
	run := &s.runs[t.run]
	was := *run
	run.peer, t.run = nothing, nothing
	ran := min(max(float64(minute)-was.started, 0), was.end-was.started) // its end may be in this very minute
	perPage := (was.end - was.started) / float64(was.pages)
	stored := ran
	if !polite {
		every := min(s.checkpoint, s.chunk*perPage)
		stored = math.Floor(ran/every) * every
	}
	t.left = max(was.pages-float32(stored/perPage), 1)
	s.r.m.cut(ch, float64(was.pages)-ran/perPage)
	s.r.m.downloaded(minute, float32(ran/perPage))
	s.r.m.wasted += (ran - stored) / perPage
	now := s.at(float64(minute))
	if stored > 0 {
		s.store(was, was.pages-t.left)
		s.put(s.at(was.started+stored), was, false)
	}
	if !polite {
		s.lapses.Push(int64(math.Ceil(s.steps(since(t.fence.Deadline())))), shoalTimer{ch, t.fence.Gen})
		return
	}
	s.r.m.migrations++
	s.hear(now, ch, was.peer, t.fence.Release(now, lease.Peer(was.peer+1), t.fence.Gen).Event)
}

// lapse ends a lease whose peer was not heard of.
func (s *shoal) lapse(minute int, timer shoalTimer) {
	t, now := &s.tasks[timer.channel], s.at(float64(minute))
	if timer.gen != t.fence.Gen {
		return
	}
	if step := t.fence.Tick(now); step.Event.Kind != 0 {
		s.r.m.lapsed++
		s.hear(now, timer.channel, int32(t.fence.Peer)-1, step.Event)
	}
}
