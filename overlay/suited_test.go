package overlay

import (
	"slices"
	"testing"
	"time"

	"shoal/channel"
)

// surveyed is a court with a measured host.
func surveyed(t *testing.T, seed uint64, peers int) (*court, channel.HostKey) {
	c := newCourt(t, seed, peers, JudgeConfig{})
	for i := range c.peers {
		c.peers[i].Load = Load{Threads: 2, Slots: 10}
	}
	c.see()
	const host = 7
	c.survey(host, somewhere(c.rng), 8)
	c.j.Looked() // so that what has waited may go far
	return c, host
}

// TestMay checks that a peer that may not have a task is never named, however near it is, and that the others take its place.
func TestMay(t *testing.T) {
	for seed := range uint64(20) {
		c, host := surveyed(t, seed, 40)
		barred := map[ID]bool{}
		for range 39 {
			named, v := c.j.Near(c.now, Ask{Host: host, Share: 1, May: func(id ID) bool { return !barred[id] }})
			if v != Go || named.Peer == "" || barred[named.Peer] {
				t.Fatalf("seed %d: with %d barred: %v, verdict %d", seed, len(barred), named, v)
			}
			barred[named.Peer] = true
		}
		none := func(ID) bool { return false }
		if named, v := c.j.Near(c.now, Ask{Host: host, Share: 1, May: none}); v == Go && named.Peer != "" {
			t.Errorf("seed %d: %s is named, and none may have the task", seed, named.Peer)
		}
		if named, _ := c.j.Near(c.now, Ask{Host: host, Share: 1, Anywhere: true, May: none}); named.Peer != "" {
			t.Errorf("seed %d: %s is named for a task that goes anywhere, and none may have it", seed, named.Peer)
		}
	}
}

// TestRather checks that a peer that should not have a task leaves it to another one that is about as near, now and then to any near one, and has it if there
// is no other.
func TestRather(t *testing.T) {
	for seed := range uint64(20) {
		c, host := surveyed(t, seed, 40)
		first, _ := c.j.Near(c.now, Ask{Host: host, Share: NearShare})
		others := 0
		for range 200 {
			named, _ := c.j.Near(c.now, Ask{Host: host, Share: NearShare, Rather: func(id ID) bool { return id != first.Peer }})
			if named.Peer != first.Peer {
				others++
			}
		}
		alone := c.only(host, first.Peer)
		if others == 0 && !alone {
			t.Errorf("seed %d: %s has all tasks, though other near peers should", seed, first.Peer)
		}
		if others > 0 && alone {
			t.Errorf("seed %d: %d tasks go to others, and none is near", seed, others)
		}
		if named, v := c.j.Near(c.now, Ask{Host: host, Share: NearShare, Rather: func(ID) bool { return false }}); v != Go || named.Peer == "" {
			t.Errorf("seed %d: where no peer should have the task none has: verdict %d", seed, v)
		}
	}
}

// TestSurely checks that a task which is surely to go to another peer does so also where that one is not near, and to the nearest such; and to any where no peer should
// have it.
func TestSurely(t *testing.T) {
	var far, random time.Duration
	for seed := range uint64(20) {
		c, host := surveyed(t, seed, 40)
		had := map[ID]bool{}
		for range 10 {
			named, v := c.j.Near(c.now, Ask{Host: host, Share: NearShare, Surely: true, Rather: func(id ID) bool { return !had[id] }})
			if v != Go || named.Peer == "" || had[named.Peer] {
				t.Fatalf("seed %d: after %d others: %v, verdict %d", seed, len(had), named, v)
			}
			had[named.Peer] = true
			far, random = far+named.RTT, random+named.Random
		}
		if n, v := c.j.Near(c.now, Ask{Host: host, Share: NearShare, Surely: true, Rather: func(ID) bool { return false }}); v != Go || n.Peer == "" {
			t.Errorf("seed %d: where no peer should have the task none has: verdict %d", seed, v)
		}
	}
	if 3*far > 2*random {
		t.Errorf("the peers were %v away in the mean, and random ones %v", far/200, random/200)
	}
}

// only reports whether no other peer is near a host, by asking for one that may not be the named peer.
func (c *court) only(host channel.HostKey, id ID) bool {
	_, v := c.j.Near(c.now, Ask{Host: host, Share: NearShare, May: func(p ID) bool { return p != id }})
	return v != Go
}

// TestAnywhere checks that tasks of a host that go anywhere go to far peers as often as to near ones.
func TestAnywhere(t *testing.T) {
	c, host := surveyed(t, 5, 40)
	got := map[ID]int{}
	const tasks = 4000
	for range tasks {
		named, v := c.j.Near(c.now, Ask{Host: host, Share: NearShare, Anywhere: true})
		if v != Go || named.Peer == "" {
			t.Fatalf("verdict %d, peer %q", v, named.Peer)
		}
		got[named.Peer]++
	}
	counts := make([]int, 0, len(got))
	for _, n := range got {
		counts = append(counts, n)
	}
	if most := slices.Max(counts); len(got) < 38 || most > tasks/10 {
		t.Errorf("%d of 40 peers had tasks; one had %d of %d", len(got), most, tasks)
	}
}
