package recrawlsim

import (
	"math"
	"time"

	"shoal/channel"
	"shoal/peer/queue"
)

// shelved is a task that a peer had when it vanished. The peer's folder keeps it, with all pages that it had fetched.
type shelved struct {
	channel int32
	gen     channel.Gen
	began   bool
	left    float32 // pages that it had not fetched
	until   float64 // when the last of its pages was fetched that the peer has
	page    float64 // steps that one took
}

// shelve takes down what a peer that vanishes keeps of a task, before its run is cut short.
func (s *shoal) shelve(minute int, peer, ch int32) {
	if s.shelves == nil {
		return
	}
	t := &s.tasks[ch]
	kept := shelved{channel: ch, gen: t.fence.Offered, left: t.left}
	if t.run != nothing {
		run := &s.runs[t.run]
		perPage := (run.end - run.started) / float64(run.pages)
		fetched := math.Floor(max(float64(minute)-run.started, 0) / perPage)
		kept.gen, kept.began, kept.left = t.fence.Gen, true, max(run.pages-float32(fetched), 1)
		kept.until, kept.page = run.started+fetched*perPage, perPage
	}
	s.shelves[peer] = append(s.shelves[peer], kept)
}

// resume has a peer that is there again go on with what it had, as package peer does. A task whose lease runs goes on where it was; of one whose lease has lapsed the peer brings
// what it has, as long as no other peer has claimed it; one that it had not begun it claims in its turn, if its latest start has not passed.
func (s *shoal) resume(minute int, peer int32) {
	if s.shelves == nil {
		return
	}
	all, now := s.shelves[peer], s.at(float64(minute))
	s.shelves[peer] = nil
	for _, kept := range all {
		t := &s.tasks[kept.channel]
		latest := t.latest
		switch mine := t.fence.Gen == kept.gen && t.run == nothing; {
		case kept.began && mine:
			s.r.m.wasted -= float64(max(t.left-kept.left, 0))
			s.storePart(kept.channel, t.left, kept.left, kept.until-float64(t.left-kept.left)*kept.page, kept.until)
			t.left, latest = min(t.left, kept.left), time.Time{}
			if !t.fence.Running() {
				continue
			}
		case kept.began, t.fence.Offered != kept.gen, t.fence.Gen >= kept.gen, now.After(latest):
			continue
		}
		item := queue.Item[struct{}]{Key: uint64(kept.channel), Pages: s.told(kept.channel), Gap: s.gap, Latest: latest}
		if s.queues[peer].Take(now, item) == nil {
			s.queued++
		}
	}
	s.tick(minute, now, peer)
	for _, kept := range all {
		if i := s.tasks[kept.channel].run; kept.began && i != nothing && s.runs[i].peer == peer {
			s.put(now, s.runs[i], false) // what it had, which its lease is renewed by
		}
	}
}
