package manager

import (
	"testing"
	"time"

	"shoal/channel"
	"shoal/overlay"
	"shoal/recrawl"
)

type fullSwarm struct{ Swarm }

func (fullSwarm) Peers() []overlay.PeerRecord {
	var out []overlay.PeerRecord
	for _, id := range []overlay.ID{"a", "b", "c", "d"} {
		out = append(out, overlay.PeerRecord{ID: id, Load: overlay.Load{Threads: 1}})
	}
	return out
}

// However much is due, so many hosts a second are read about, and the loop goes on with the rest later.
func TestLooksAreBounded(t *testing.T) {
	const n = 10_000
	m := crawled(t, n, "fixed")
	m.cfg.Swarm = fullSwarm{}
	now := time.Unix(1e9, 0)
	looked := func() (yes int) {
		for s := range recrawl.Slot(n) {
			if !m.near.mayLook(now, m.table.Host(s)) {
				continue
			}
			yes++
			m.near.hosts[m.table.Host(s)] = placeOfHost{fitted: now}
		}
		return yes
	}
	for i, want := range []int{readsASecond, 2 * readsASecond, n} {
		if got := looked(); got != want {
			t.Errorf("second %d: %d of %d looked at, want %d", i, got, n, want)
		}
		now = now.Add(time.Second)
	}
	now = now.Add(-time.Hour) // a clock that was put back
	m.near.hosts = map[channel.HostKey]placeOfHost{}
	looked()
	now = now.Add(time.Second)
	if got := looked(); got < readsASecond {
		t.Errorf("after the clock was put back %d were looked at", got)
	}
}
