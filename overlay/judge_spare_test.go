package overlay

import (
	"math"
	"slices"
	"testing"
	"time"

	"shoal/channel"
)

// A spare task goes to a near peer with a free thread or to none; the threads that the judge counts as idle are those that wait for a task.
func TestJudgeSpare(t *testing.T) {
	for seed := range uint64(20) {
		c := newCourt(t, seed, 12, JudgeConfig{})
		at := somewhere(c.rng)
		c.survey(7, at, 3)
		for range 60 {
			p := &c.peers[c.rng.IntN(len(c.peers))]
			c.hold(p.ID, c.rng.IntN(5))
			if c.rng.IntN(4) == 0 {
				c.see()
			}
			all, idle := 0, 0
			for i := range c.peers {
				q := &c.peers[i]
				all += int(q.Load.Threads)
				idle += max(int(q.Load.Threads)-c.held[q.ID], 0)
			}
			if gotAll, gotIdle := c.j.Threads(); gotAll != all || gotIdle != idle {
				t.Fatalf("seed %d: %d of %d threads idle, want %d of %d", seed, gotIdle, gotAll, idle, all)
			}
			wants := c.j.wants
			named, verdict := c.j.Near(c.now, Ask{Host: 7, Share: 1, Spare: true})
			if c.j.wants != wants {
				t.Fatalf("seed %d: a spare task counts as waiting", seed)
			}
			if verdict != Go {
				continue
			}
			if i := c.j.view.Index(named.Peer); i < 0 || c.held[named.Peer] >= int(c.j.view.Peers[i].Load.Threads) {
				t.Fatalf("seed %d: a spare task goes to %q, whose threads have work", seed, named.Peer)
			}
		}
		for i := range c.peers {
			c.hold(c.peers[i].ID, 0)
		}
		if named, verdict := c.j.Near(c.now, Ask{Host: 7, Share: NearShare, Spare: true}); verdict != Go || named.Peer == "" {
			t.Errorf("seed %d: all threads are free, and none takes a spare task: %v", seed, verdict)
		}
	}
}

// nearMay says whether a peer near a host for which a task may wait may have it.
func (c *court) nearMay(h *located, may func(ID) bool) bool {
	return slices.ContainsFunc(c.j.takers, func(k int32) bool {
		return c.j.away(h, k) <= c.j.reach(h) && c.j.awaited(k) && may(c.j.slots[k].rec.ID)
	})
}

// Farther names what a search through all tasks and peers finds, and Near gives the task to that peer.
func TestJudgeFarther(t *testing.T) {
	named := 0
	for seed := range uint64(60) {
		c := newCourt(t, seed, 12, JudgeConfig{Small: time.Minute})
		c.j.large = c.now.Add(-time.Duration(c.rng.IntN(120)) * time.Second)
		for i := range c.peers {
			c.peers[i].Load.Slots = 10 // two of which are filled
		}
		c.see()
		var tasks []Ask
		for h := range channel.HostKey(6) {
			c.survey(h+1, somewhere(c.rng), 3)
			odd := c.rng.IntN(2)
			tasks = append(tasks, Ask{Host: h + 1, Pressing: c.rng.IntN(3) == 0, Pages: 1 + c.rng.IntN(9), Usual: float64(c.rng.IntN(2) * 9), Since: c.now.Add(-time.Duration(c.rng.IntN(120)) * time.Second), May: func(id ID) bool { return int(id[len(id)-1])%2 == odd }})
		}
		for i := range c.peers {
			c.hold(c.peers[i].ID, c.rng.IntN(7))
		}
		c.j.Looked()
		for i := range c.peers {
			if c.rng.IntN(2) == 0 {
				c.hold(c.peers[i].ID, c.rng.IntN(7))
			}
		}
		least, best, press := math.Inf(1), false, false
		for _, a := range tasks {
			h := c.j.hosts[a.Host]
			c.j.weigh(c.now, &a)
			for _, k := range c.j.takers {
				s := &c.j.slots[k]
				if !c.j.hasRoom(s) || c.j.passes(k) || !a.May(s.rec.ID) || !a.Pressing && !(s.spare && s.free()) {
					continue
				}
				late := c.now.Sub(a.Since) >= time.Minute && c.now.Sub(c.j.large) >= time.Minute
				if small := a.Pressing && !late && a.Pages < 8 && a.Usual > 0; small && c.j.away(h, k) > c.j.reach(h) && c.nearMay(h, a.May) {
					continue
				}
				more := (c.j.away(h, k) - h.near[0].ms) / float64(a.Pages)
				if !best || a.Pressing && !press || a.Pressing == press && more < least {
					least, best, press = more, true, a.Pressing
				}
			}
		}
		large := c.j.large
		i, id, ok := c.j.Farther(c.now, tasks)
		if ok != best {
			t.Fatalf("seed %d: found %v, want %v", seed, ok, best)
		}
		if !ok {
			continue
		}
		named++
		if tasks[i].Pressing && (tasks[i].Pages >= 8 || tasks[i].Usual == 0) {
			large = c.now
		}
		if !c.j.large.Equal(large) {
			t.Fatalf("seed %d: small tasks wait from %v on, want %v", seed, c.j.large, large)
		}
		h := c.j.hosts[tasks[i].Host]
		if more := (c.j.away(h, c.j.slotOf[id]) - h.near[0].ms) / float64(tasks[i].Pages); tasks[i].Pressing != press || math.Abs(more-least) > 1e-9 {
			t.Fatalf("seed %d: a task that loses %v, pressing: %v; want %v, %v", seed, more, tasks[i].Pressing, least, press)
		}
		if got, v := c.j.Near(c.now, Ask{Host: tasks[i].Host, Share: NearShare, Only: id, May: tasks[i].May}); v != Go || got.Peer != id {
			t.Fatalf("seed %d: the task goes to %q (%v), want %q", seed, got.Peer, v, id)
		}
		c.hold(id, 99)
		if got, v := c.j.Near(c.now, Ask{Host: tasks[i].Host, Share: 1, Only: id}); v != Full {
			t.Fatalf("seed %d: the task goes to %q though %q is full", seed, got.Peer, id)
		}
	}
	if named < 30 {
		t.Errorf("only %d of the worlds had room", named)
	}
}
