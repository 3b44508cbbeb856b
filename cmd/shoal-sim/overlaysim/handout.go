package overlaysim

import (
	"errors"
	"math"
	"slices"
	"time"

	"shoal/channel"
	"shoal/channel/lease"
	"shoal/coords"
	"shoal/manager/dispatch"
	"shoal/overlay"
	"shoal/recrawl"
)

func (t *task) slot() recrawl.Slot { return recrawl.Slot(t.id - 1) }

// look has the machine look after so long, or earlier.
func (s *swarm) look(after time.Duration) {
	at := s.n.now + int64(after)
	if s.soonAt != none && s.soonAt >= s.n.now && s.soonAt <= at {
		return
	}
	s.soonAt = at
	s.n.after(after, func() {
		if s.soonAt != at {
			return
		}
		s.soonAt, s.lookedAt = none, s.n.now
		for _, o := range s.m.Tick(s.n.time()) {
			s.hand(o)
		}
		s.act()
	})
}

// act does what the machine asks for, and sees to it that it is looked at in time.
func (s *swarm) act() {
	now := s.n.time()
	for _, a := range s.m.Acts() {
		t := s.tasks[a.Slot]
		switch a.Kind {
		case dispatch.Persist:
			t.issue = a.Issue
		case dispatch.GaveUp:
			s.end(t, false)
		case dispatch.Swallowed:
			s.n.members[manager].node.Doubt(now, overlay.ID(a.Peer), a.Since)
		}
	}
	switch {
	case s.m.Held(now) || s.m.Ready()+len(s.wants) == 0:
	case s.lookedAt != s.n.now: // something has happened since
		s.look(0)
	default: // a near peer may have room by then
		s.look(clock.Step)
	}
	if at := s.m.Deadline(); !at.IsZero() {
		s.look(max(at.Sub(now), 0))
	}
}

// hand has an order placed.
func (s *swarm) hand(o dispatch.Order) {
	t := s.tasks[o.Slot]
	t.latest, t.issue, t.order = o.Latest, o.Issue, o
	t.fence.Deposit(o.Gen)
	t.began, t.holder = s.n.now, none
	named := s.near.take(o.Slot)
	h := channel.Header{Channel: t.id, Gen: o.Gen, Host: hostOf(t.place), Pages: int(math.Ceil(t.left)), Issued: o.Issued, Latest: t.latest, Gap: gap}
	s.n.send(manager, s.n.members[manager].node.PlaceAt(o.Issued, uint64(t.id), overlay.Task{Header: h}, s.host(t.place).record, named))
}

// placed takes what a placing of the manager's came to.
func (s *swarm) placed(who int, e overlay.Event) bool {
	if who != manager || e.Req == 0 {
		return false
	}
	if e.Req > surveyReq {
		s.near.surveyed(int(e.Req-surveyReq), e.Placed.Samples)
		return true
	}
	defer s.act()
	t, now := s.tasks[e.Req-1], s.n.time()
	first := !t.accepted
	r := &s.host(t.place).record
	for _, m := range e.Placed.Samples {
		r.Add(m)
	}
	if len(e.Placed.Samples) > 0 {
		s.near.judge.Learn(channel.HostKey(t.place))
	}
	switch {
	case errors.Is(e.Err, overlay.ErrBusy):
		s.m.Unsent(now, t.order, busyAgain)
		return true
	case errors.Is(e.Err, overlay.ErrRefused):
		s.m.Refused(now, t.order)
		return true
	case e.Err != nil: // a peer may have it: its claim is awaited
		s.m.Unsure(now, t.order)
		if t.counted {
			s.unsure++
		}
	default:
		t.holder = s.n.who(e.Placed.Peer)
		s.m.Placed(now, t.order, dispatch.Peer(e.Placed.Peer), e.Placed.Start)
	}
	t.accepted = true
	if t.counted && first {
		s.accepted++
		s.note(t, &e)
	}
	return true
}

// hear tells the machine what the archive's feed says of a peer's task.
func (s *swarm) hear(t *task, who int, e lease.Event) dispatch.Heard {
	if e.Kind == 0 {
		return dispatch.Heard{}
	}
	h, _ := s.m.Hear(s.n.time(), t.slot(), e, dispatch.Peer(s.n.members[who].id)) // Issue never fails
	s.act()
	return h
}

// Next implements dispatch.Due: tasks go in the order in which they came. One that found no room in the time within which it was to start is refused.
func (s *swarm) Next(now recrawl.Tick, load recrawl.Load, admit func(recrawl.Slot) (recrawl.Tick, bool)) (taken int) {
	wants := s.wants
	s.wants = nil
	for _, w := range wants {
		if t := s.tasks[w.slot]; !t.accepted && s.n.now-t.born > int64(waitLimit) {
			s.refuse(t)
			continue
		}
		if w.again <= now && (load.Room < 0 || taken < load.Room) {
			again, ok := admit(w.slot)
			if ok {
				taken++
				continue
			}
			w.again = again
		}
		s.wants = append(s.wants, w)
	}
	return taken
}

// Take implements dispatch.Due.
func (s *swarm) Take(_ recrawl.Tick, at recrawl.Slot, admit func(recrawl.Slot) (recrawl.Tick, bool)) bool {
	i := slices.IndexFunc(s.wants, func(w want) bool { return w.slot == at })
	if i < 0 {
		return false
	}
	if _, ok := admit(at); !ok {
		return false
	}
	s.wants = slices.Delete(s.wants, i, i+1)
	return true
}

// refuse ends a task that no peer took.
func (s *swarm) refuse(t *task) {
	t.over = true
	if t.counted {
		s.refused++
	}
}

// Observe implements dispatch.Due. A task that no peer took at first is over; one that was interrupted is wanted again after a while.
func (s *swarm) Observe(_ recrawl.Tick, at recrawl.Slot, e recrawl.Event) {
	t := s.tasks[at]
	switch {
	case e.Kind != recrawl.Refused:
	case t.accepted:
		s.n.after(retryEvery, func() {
			s.wants = append(s.wants, want{slot: at})
			s.look(0)
		})
	default:
		s.refuse(t)
	}
}

// Edit implements dispatch.Due.
func (s *swarm) Edit(recrawl.Slot, func(*recrawl.Facts)) {}

// Facts implements dispatch.Due: whatever is refused is for Observe.
func (s *swarm) Facts(recrawl.Slot) recrawl.Facts { return recrawl.Facts{Updated: 1} }

// Intervals implements dispatch.Due: there are none, and tasks wait for two hours.
func (s *swarm) Intervals() []recrawl.Tick { return nil }

// Host implements dispatch.Channels: tasks are few for so many hosts, and go whatever else is out there.
func (s *swarm) Host(recrawl.Slot) channel.HostKey { return 0 }

// Issue implements dispatch.Channels.
func (s *swarm) Issue(at recrawl.Slot) (lease.Issue, error) { return s.tasks[at].issue, nil }

// Expect implements dispatch.Channels.
func (s *swarm) Expect(recrawl.Slot) time.Duration { return 0 }

// note counts a placing.
func (s *swarm) note(t *task, e *overlay.Event) {
	y := &s.tally
	y.done++
	y.hops += e.Placed.Hops
	y.queries += e.Placed.Queries
	if len(e.Found) == 0 {
		y.empty++
	}
	s.recall(e)
	if t.holder == none {
		return
	}
	s.bound.tasks = append(s.bound.tasks, t)
	y.rtt = append(y.rtt, s.n.ground.rtt(t.holder, t.place))
	y.stretch = append(y.stretch, float64(s.n.offerAt[manager]-t.began)/1e6/s.n.ground.rtt(manager, t.holder))
}

// recall compares the result of a lookup with all members.
func (s *swarm) recall(e *overlay.Event) {
	away := func(i int) float64 {
		at := s.n.members[i].node.Coord()
		return coords.Distance(&at, &e.Goal)
	}
	best := math.Inf(1)
	for _, i := range s.n.ups() {
		best = min(best, away(i))
	}
	for k := range e.Found[:min(8, len(e.Found))] {
		if i := s.n.who(e.Found[k].ID); s.n.members[i].up && away(i) <= best+tie {
			if k == 0 {
				s.tally.recall1++
			}
			s.tally.recall8++
			return
		}
	}
}

// end counts a task out.
func (s *swarm) end(t *task, updated bool) {
	t.over = true
	switch {
	case !s.counted:
	case updated:
		s.updates++
		s.good += t.pages
	default:
		s.failed++
		s.use.lost += t.pages - t.left
	}
}
