package manager

import (
	"testing"
	"time"

	"shoal/coords"
	"shoal/manager/dispatch"
	"shoal/overlay"
	"shoal/recrawl"
)

type fullSwarm struct {
	Swarm
	view *overlay.View
}

func (s fullSwarm) View() *overlay.View { return s.view }

func newFullSwarm() fullSwarm {
	var peers []overlay.PeerRecord
	for _, id := range []overlay.ID{"a", "b", "c", "d"} {
		peers = append(peers, overlay.PeerRecord{ID: id, Load: overlay.Load{Threads: 1}})
	}
	return fullSwarm{view: overlay.ViewOf(time.Unix(1e9, 0), peers)}
}

// However much is due, so many hosts a second are read about, and the loop goes on with the rest later.
func TestLooksAreBounded(t *testing.T) {
	const n = 10_000
	m := crawled(t, n, "fixed")
	m.cfg.Swarm = newFullSwarm()
	m.near.Capacity(time.Time{})
	now := time.Unix(1e9, 0)
	looked := func() (yes int) {
		for s := range recrawl.Slot(n) {
			host := m.table.Host(s)
			if m.near.judge.Knows(now, host) {
				yes++
				continue
			}
			if !m.near.mayRead(now) {
				if _, v := m.near.Room(now, dispatch.Ask{Slot: s, Host: host, Share: dispatch.NearShare}); v != dispatch.Enough {
					t.Fatalf("verdict %d where enough was read", v)
				}
				continue
			}
			yes++
			m.near.judge.Locate(now, host, "", coords.HostRecord{})
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
	looked()
	now = now.Add(time.Second)
	if got := looked(); got < readsASecond {
		t.Errorf("after the clock was put back %d were looked at", got)
	}
}
