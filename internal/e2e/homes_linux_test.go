package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"shoal/internal/netlab"
	"shoal/internal/wire"
)

// TestHomes is a network of three homes and a manager, and nothing else that could be dialled. Two of the routers keep a home's port, so that the two
// open a direct way to each other; the third has another port for whoever is spoken to, so that no hole can be punched to it, and what is asked of it
// rides through the manager. All three take tasks.
func TestHomes(t *testing.T) {
	n, err := netlab.New()
	if errors.Is(err, netlab.ErrNotPermitted) {
		t.Skipf("%v: homes behind routers are not looked at; mandatory where it is permitted", err)
	}
	if err != nil {
		if os.Getenv("SHOAL_TEST_STRICT") == "1" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	t.Cleanup(n.Close)
	l := &lab{t: t, net: n, seen: map[string][]netip.Addr{}, marks: map[marking]int{}}
	boss := l.site("m", "11.0.9.1/24")
	var places []*place
	var origins []string
	for i, how := range []netlab.Translation{netlab.SamePort, netlab.SamePort, netlab.OtherPort} {
		name := string(rune('a' + i))
		router := l.site(name, fmt.Sprintf("11.0.%d.1/24", i+1))
		home, err := n.Home(router, name+"1", fmt.Sprintf("192.168.%d.2/24", i+1), how)
		if err != nil {
			t.Fatal(err)
		}
		p := &place{name: name, where: router, peers: []*netlab.Host{home}, near: []netip.Addr{home.Addr}, ports: []int{webPort}}
		n.Distance(router, boss, 20*time.Millisecond, 0)
		for _, o := range places {
			n.Distance(router, o.where, 60*time.Millisecond, 0)
		}
		places, origins = append(places, p), append(origins, l.serve(p, webPort))
	}
	straight := map[[2]netip.Addr]int{} // packets that went from one router to another, Web servers' apart
	n.Tap(func(_ *netlab.Host, b []byte) {
		head := int(b[0]&15) * 4
		if b[0]>>4 != 4 || b[9] != 17 || len(b) < head+8 {
			return
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		straight[[2]netip.Addr{netip.AddrFrom4([4]byte(b[12:16])), netip.AddrFrom4([4]byte(b[16:20]))}]++
	})
	went := func(from, to *place) int {
		l.mu.Lock()
		defer l.mu.Unlock()
		return straight[[2]netip.Addr{from.where.Addr, to.where.Addr}]
	}
	l.start(boss, origins)
	dirs := l.join(places)
	l.mgr.until("knows all peers", func() bool { return l.page.overview().Peers == len(dirs) })
	at := map[*netlab.Host]string{}
	for dir, h := range dirs {
		at[h] = dir
	}
	reach := func(p *place) (r wire.Reach) {
		ask := l.in(p.peers[0], "shoal-peer", "status", "--json", "--data", at[p.peers[0]])
		<-ask.done
		var st struct{ Reach wire.Reach }
		_ = json.Unmarshal(bytes.TrimSpace(ask.out.Bytes()), &st) // it is asked again
		return st.Reach
	}
	a, b, c := places[0], places[1], places[2]
	for _, pair := range [][2]*place{{a, b}, {b, a}} {
		l.mgr.until("sees a hole punched", func() bool {
			r := reach(pair[0])
			if r.Direct < 2 { // the manager is one
				return false
			}
			t.Logf("%s: %+v", pair[0].name, r)
			return r.NAT == wire.NATPlain || r.NAT == wire.NATCone
		})
		if went(pair[0], pair[1]) == 0 {
			t.Error("nothing went from home to home")
		}
	}
	l.mgr.until("hears that the direct way is through a hole", func() bool { return reach(a).Punched+reach(b).Punched > 0 })

	// A busy machine's distances mislead, so it may take a few rounds until each has had a task.
	ids := l.channels()
	l.mgr.within(5*time.Minute, "has every host crawled, and tasks for all three homes", func() bool {
		if l.updated(origins, 1) && l.visitors(places) == len(places) {
			return true
		}
		for _, o := range origins {
			l.crawl(ids[o])
		}
		time.Sleep(time.Second)
		return false
	})
	var r wire.Reach
	l.mgr.until("hears of rides to the third home", func() bool { r = reach(c); return r.Rides > 0 })
	t.Logf("%s: %+v", c.name, r)
	if r.Direct != 1 || r.Punched != 0 || len(r.Relays) != 1 {
		t.Errorf("a home whose router changes ports: %+v", r)
	}
	t.Logf("%d and %d packets went from home to home", went(a, b), went(b, a))
}

// visitors counts the places whose peers have visited some host.
func (l *lab) visitors(places []*place) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range places {
		for _, who := range l.seen {
			if slices.Contains(who, p.near[0]) {
				n++
				break
			}
		}
	}
	return n
}
