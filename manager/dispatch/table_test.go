package dispatch

import (
	"math/rand/v2"
	"testing"

	"shoal/channel"
	"shoal/recrawl"
)

// A Table agrees with maps, whatever comes and goes.
func TestTable(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	p := NewTable()
	type known struct {
		slot recrawl.Slot
		host channel.HostKey
	}
	byID, free := map[channel.ID]known{}, []recrawl.Slot{}
	hosts := map[channel.HostKey]int{}
	check := func(id channel.ID) {
		s, ok := p.Find(id)
		if want, is := byID[id]; ok != is || ok && (s != want.slot || p.ID(s) != id || p.Host(s) != want.host) {
			t.Fatalf("channel %d: slot %d, %v; want %+v, %v", id, s, ok, want, is)
		}
	}
	next := channel.ID(1)
	for step := range 20_000 {
		if rng.IntN(5) < 3 || len(byID) == 0 {
			s := recrawl.Slot(p.Len())
			if len(free) > 0 {
				s, free = free[len(free)-1], free[:len(free)-1]
			}
			host := channel.HostKey(1 + rng.IntN(4000)*rng.IntN(2)) // one host has half of all
			p.Put(s, next, host)
			p.SetLinks(s, int(next))
			byID[next] = known{s, host}
			hosts[host]++
			next++
		} else {
			id := channel.ID(1 + rng.IntN(int(next)))
			for byID[id].host == 0 {
				id = id%next + 1
			}
			k := byID[id]
			p.Drop(k.slot)
			delete(byID, id)
			hosts[k.host]--
			free = append(free, k.slot)
			check(id)
		}
		check(channel.ID(1 + rng.IntN(int(next))))
		host := channel.HostKey(1 + rng.IntN(4000))
		first, more := p.First(host)
		if (first != 0) != (hosts[host] > 0) || first != 0 && byID[first].host != host || !more && hosts[host] > 1 {
			t.Fatalf("step %d: host %d has %d channels, first %d, more %v", step, host, hosts[host], first, more)
		}
	}
	for id, k := range byID {
		check(id)
		if got := p.Links(k.slot); got != min(int(id), noteLinks) || p.Grows(k.slot) {
			t.Fatalf("channel %d: %d links", id, got)
		}
		p.SetGrows(k.slot, true)
		if p.Links(k.slot) != min(int(id), noteLinks) || !p.Grows(k.slot) {
			t.Fatalf("channel %d: a note changes another", id)
		}
	}
}
