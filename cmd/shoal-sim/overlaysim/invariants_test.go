package overlaysim

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"shoal/channel"
	"shoal/channel/lease"
	"shoal/overlay"
	"shoal/peer/queue"
)

// watch checks a swarm once a simulated minute for what must never happen. Of the spec's invariants it checks 1 (a
// channel is crawled by one peer at a time and no task is lost, whatever peers lie, swallow or leave), 2 (a run
// begins after its claim and before its latest start; signatures are overlaytest's), 3 (a channel's chain only
// grows), 4 (generations only grow, at most eight handings-out) and 6 (tables, queues and messages have bounds). 5
// belongs to TestLoad. 7 belongs to the pure node's own test in package overlay: here it would move both sides of
// each comparison.
type watch struct {
	s      *swarm
	was    map[channel.ID]seen
	most   int // handings-out of a task
	broken []string
}

type seen struct {
	gen  channel.Gen
	seq  uint64
	left float64
}

func newWatch(s *swarm) *watch {
	return &watch{s: s, was: map[channel.ID]seen{}, most: lease.DefaultHandouts}
}

func (w *watch) say(format string, a ...any) { w.broken = append(w.broken, fmt.Sprintf(format, a...)) }

func (w *watch) look() {
	s := w.s
	runs := map[channel.ID]int{}
	for _, i := range s.n.ups() {
		if k := s.n.members[i].node.Size(); k > overlay.MaxTable {
			w.say("bounds: peer %d knows %d members", i, k)
		}
		c := s.crawlers[i]
		if c == nil {
			continue
		}
		if c.q.Running() > threads || c.q.Waiting() > slots {
			w.say("bounds: peer %d runs %d and holds %d", i, c.q.Running(), c.q.Waiting())
		}
		c.q.Each(func(it queue.Item[channel.Gen], started time.Time) {
			t := s.tasks[it.Key-1]
			if started.IsZero() || t.run == nil || t.run.peer != i {
				return // waits, or has ended in this very instant
			}
			runs[t.id]++
			if t.fence.Gen < it.Value {
				w.say("claim: task %d runs at %d as generation %d, claimed is %d", t.id, i, it.Value, t.fence.Gen)
			}
			if started.After(it.Latest) {
				w.say("late: task %d began %v after its latest start", t.id, started.Sub(it.Latest))
			}
		})
	}
	for _, t := range s.tasks {
		was := w.was[t.id]
		issue, flying := s.m.Issue(t.slot())
		if !flying {
			issue = t.issue
		}
		switch {
		case runs[t.id] > 1 || t.run != nil && runs[t.id] == 0:
			w.say("one: task %d runs at %d peers", t.id, runs[t.id])
		case t.fence.Seq < was.seq || was.seq > 0 && t.left > was.left:
			w.say("chain: task %d has %d chunks and %.0f pages left, had %d and %.0f", t.id, t.fence.Seq, t.left, was.seq, was.left)
		case issue.Gen < was.gen:
			w.say("generation: task %d has %d, had %d", t.id, issue.Gen, was.gen)
		case int(issue.Tries) > w.most:
			w.say("handings-out: task %d had %d", t.id, issue.Tries)
		case !t.over && t.accepted && t.issue.Phase == lease.Marked:
			w.say("lost: task %d is given up and nobody was told", t.id)
		}
		w.was[t.id] = seen{issue.Gen, t.fence.Seq, t.left}
	}
	s.n.after(time.Minute, w.look)
}

// measure looks at one message.
func (w *watch) measure(m overlay.Msg) {
	switch m := m.(type) {
	case overlay.Gossip:
		if len(m.Records) > overlay.MaxGossip {
			w.say("message: gossip of %d records", len(m.Records))
		}
	case overlay.Near:
		if len(m.Records) > overlay.MaxNear {
			w.say("message: answer of %d records", len(m.Records))
		}
	}
}

// harsh is a swarm of which a fifth lies and a tenth swallows tasks, where peers stay for an hour, at twice the work that it can do.
func harsh(t *testing.T, length time.Duration) (*swarm, *watch) {
	t.Helper()
	c := busy(2)
	c.Peers, c.Pages, c.Churn, c.Liars, c.Swallowers, c.For, c.Steal = 20, 1200, "x17", .2, .1, length, true
	s := newSwarm(&c, 5)
	w := newWatch(s)
	s.opened = func() {
		s.n.deaf = func(_, _ int, m overlay.Msg) bool { w.measure(m); return false }
		w.look()
	}
	if _, err := c.work(t.Context(), s, 5); err != nil {
		t.Fatal(err)
	}
	return s, w
}

func TestInvariants(t *testing.T) {
	s, w := harsh(t, 3*time.Hour)
	for _, b := range w.broken[:min(len(w.broken), 10)] {
		t.Error(b)
	}
	if s.updates < 20 || s.stolen == 0 {
		t.Errorf("%d updates, %d stolen: hardly anything was tried", s.updates, s.stolen)
	}
	if share(s.updates, s.failed) < .98 {
		t.Errorf("%d updates, %d given up", s.updates, s.failed)
	}
}

// Each of them can fail.
func TestInvariantsAreLookedAt(t *testing.T) {
	s, w := harsh(t, time.Hour)
	var running *task
	for _, t := range s.tasks {
		if t.run != nil && t.fence.Seq == 0 {
			running = t
		}
	}
	if running == nil || len(w.broken) > 0 {
		t.Fatalf("no task runs, or %q", w.broken)
	}
	for want, spoil := range map[string]func(t *task){
		"one":          func(t *task) { t.run = &run{peer: 1 << 20} },
		"chain":        func(t *task) { w.was[t.id] = seen{seq: t.fence.Seq + 1} },
		"generation":   func(t *task) { w.was[t.id] = seen{gen: t.order.Gen + 1} },
		"handings-out": func(*task) { w.most = 0 },
		"claim":        func(t *task) { t.fence.Gen = 0 },
		"lost":         func(t *task) { t.over, t.accepted, t.issue.Phase = false, true, lease.Marked },
	} {
		was, before := *running, w.was[running.id]
		spoil(running)
		w.broken = nil
		w.look()
		*running, w.was[running.id], w.most = was, before, lease.DefaultHandouts
		if !strings.HasPrefix(strings.Join(w.broken, "\n"), want) {
			t.Errorf("%s: found %q", want, w.broken)
		}
	}
	w.broken = nil
	w.measure(overlay.Gossip{Records: make([]*overlay.PeerRecord, overlay.MaxGossip+1)})
	w.measure(overlay.Near{Records: make([]*overlay.PeerRecord, overlay.MaxNear+1)})
	if len(w.broken) != 2 {
		t.Errorf("oversized messages: found %q", w.broken)
	}
}
