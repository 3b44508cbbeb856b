package overlay

import "testing"

// A task that presses takes room that others want; another one waits.
func TestJudgePressing(t *testing.T) {
	c := newCourt(t, 3, 12, JudgeConfig{})
	for i := range c.peers {
		c.peers[i].Load.Slots = 10 // two of which are filled
	}
	c.see()
	c.survey(7, somewhere(c.rng), 3)
	for i := range c.peers {
		c.hold(c.peers[i].ID, 99)
	}
	c.j.Looked()
	h := c.j.hosts[7]
	var far ID
	for i := range c.peers {
		if k := c.j.slotOf[c.peers[i].ID]; c.j.away(h, k) > h.distance[1] {
			far = c.peers[i].ID
		}
	}
	c.hold(far, 0) // a place that became free since all was looked at
	if named, v := c.j.Near(c.now, Ask{Host: 7, Share: 1}); v != Full {
		t.Errorf("it goes to %q, which others near it may want", named.Peer)
	}
	if named, v := c.j.Near(c.now, Ask{Host: 7, Share: 1, Pressing: true}); v != Go || named.Peer != far {
		t.Errorf("verdict %v, peer %q, want %q", v, named.Peer, far)
	}
	c.hold(far, int(c.j.view.Find(far).Load.Threads)) // a place in the queue is left, and no thread
	if named, v := c.j.Near(c.now, Ask{Host: 7, Share: 1, Pressing: true}); v != Full {
		t.Errorf("it takes a place in the queue of %q", named.Peer)
	}
	if named, v := c.j.Near(c.now, Ask{Host: 7, Share: 1, Pressing: true, Starving: true}); v != Go || named.Peer != far {
		t.Errorf("starving: verdict %v, peer %q, want %q", v, named.Peer, far)
	}
}

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
