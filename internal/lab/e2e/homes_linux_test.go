package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"shoal/internal/lab/netlab"
	"shoal/internal/wire"
	"shoal/manager/desk"
)

// TestHomes runs a network of three homes and a manager without any other address that could be dialled. Two of the
// routers keep a home's port, so that these homes open a direct connection to each other. The third router uses
// another port for each partner, so no hole can be punched to its home, and requests to it travel through the
// manager. All three homes must get tasks.
func TestHomes(t *testing.T) {
	drivesPrograms(t)
	t.Parallel()
	n := netlab.Open(t, "homes behind routers are")
	l := &lab{t: t, net: n, threads: 1, seen: map[string][]netip.Addr{}, marks: map[marking]int{}}
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
	straight := map[[2]netip.Addr]int{} // packets from one router to another, without those of Web servers
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
	began := time.Now()
	l.mgr.until("knows all peers", func() bool { return l.page.overview().Peers == len(dirs) })
	at := l.dirs
	reach := func(p *place) (r wire.Reach) {
		ask := l.in(p.peers[0], "shoal-peer", "status", "--json", "--data", at[p.peers[0]])
		<-ask.done
		var st struct{ Reach wire.Reach }
		_ = json.Unmarshal(bytes.TrimSpace(ask.out.Bytes()), &st) // it is asked again
		return st.Reach
	}
	a, b, c := places[0], places[1], places[2]
	// Each peer knows that it is behind a router, and the router's address.
	for _, p := range places {
		l.mgr.within(3*time.Minute, "has a home that is met at a relay: "+p.name, func() bool {
			r := reach(p)
			return len(r.Relays) == 1 && strings.HasPrefix(r.NAT, wire.NATPlain)
		})
	}
	// Chance decides which home asks the others. Calls between the third and another must ride.
	l.mgr.until("has homes that are reached by rides", func() bool { return reach(a).Rides+reach(b).Rides+reach(c).Rides > 0 })
	l.mgr.within(3*time.Minute, "sees a hole punched", func() bool {
		ra, rb := reach(a), reach(b)
		if ra.Direct < 2 || rb.Direct < 2 || ra.Punched+rb.Punched == 0 { // the manager is one
			return false
		}
		t.Logf("a direct way between two homes was there %v after they had joined, at most", time.Since(began).Round(100*time.Millisecond))
		t.Logf("a: %+v", ra)
		t.Logf("b: %+v", rb)
		for _, pair := range [][2]*place{{a, b}, {b, a}} {
			before := went(pair[0], pair[1])
			l.mgr.until("has the direct way used", func() bool { return went(pair[0], pair[1]) > before })
		}
		return true
	})

	// A busy machine's distances mislead, so it may take a few rounds until each has had a task.
	ids := l.channels()
	defer func() {
		if t.Failed() {
			l.whereabouts(places)
		}
	}()
	l.mgr.within(3*time.Minute, "has every host crawled, and tasks for all three homes", func() bool {
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
	l.mgr.until("has a third home that is met at the manager alone", func() bool { r = reach(c); return r.Direct == 1 && len(r.Relays) == 1 })
	t.Logf("%s: %+v", c.name, r)
	if r.Punched != 0 {
		t.Errorf("a home whose router changes ports: %+v", r)
	}
	t.Logf("%d and %d packets went from home to home", went(a, b), went(b, a))
	for _, p := range places {
		l.tells(p, at[p.peers[0]])
	}
	l.leaves(places)
}

// tells checks what the owner of a peer sees of its place and its connections.
func (l *lab) tells(p *place, dir string) {
	l.t.Helper()
	ask := l.in(p.peers[0], "shoal-peer", "status", "--data", dir)
	<-ask.done
	told := ask.out.String()
	for _, line := range []string{"place ", "rings ", "reached ", "messages "} {
		if _, rest, ok := strings.Cut(told, "\n"+line); ok {
			text, _, _ := strings.Cut(rest, "\n")
			l.t.Logf("%s: %s%s", p.name, line, text)
		} else {
			l.t.Errorf("%s: the status tells nothing of %s:\n%s", p.name, line, told)
		}
	}
}

// duty is a peer's task.
type duty struct{ Channel, Gen uint64 }

// duties returns the tasks that a home's peer runs, and those that wait.
func (l *lab) duties(p *place) (running, waiting []duty) {
	ask := l.in(p.peers[0], "shoal-peer", "status", "--json", "--data", l.dirs[p.peers[0]])
	<-ask.done
	var st struct{ Running, Waiting []duty }
	_ = json.Unmarshal(bytes.TrimSpace(ask.out.Bytes()), &st) // it is asked again
	return st.Running, st.Waiting
}

// rest pauses all channels, and waits until none is being crawled: their tasks would take the room in which others are to wait.
func (l *lab) rest() {
	l.t.Helper()
	for _, id := range l.channels() {
		l.post(fmt.Sprintf("/api/v1/channels/%d/pause", id), "")
	}
	l.mgr.until("has all crawls ended", func() bool {
		rows, err := l.page.rows()
		return err == nil && !slices.ContainsFunc(rows, func(r desk.Row) bool { return r.Out })
	})
}

// asked has a channel that no peer could start crawled now: one that was never crawled is offered again minutes later, unless the operator asks.
func (l *lab) asked(id uint64) {
	l.t.Helper()
	if d, err := l.page.channel(int(id)); err == nil && len(d.Events) > 0 && d.Events[0].What == "refused" {
		l.crawl(id)
	}
}

// leaves gives the homes, each with one thread, crawls that stop in the middle until one home has a waiting task.
// That home's peer then leaves politely. Another home must get the waiting task with the same generation, and must
// continue the crawl where it was.
func (l *lab) leaves(homes []*place) {
	l.t.Helper()
	var all []*library
	var leaver *place
	var task duty
	ids, held := map[string]uint64{}, map[uint64]bool{}
	defer func() { l.stories(all, ids) }()
	l.rest()
	waits := func(id uint64) bool {
		for _, p := range homes {
			running, waiting := l.duties(p)
			k := slices.IndexFunc(waiting, func(d duty) bool { return d.Channel == id })
			if k >= 0 && slices.ContainsFunc(running, func(d duty) bool { return held[d.Channel] }) {
				leaver, task = p, waiting[k]
				return true
			}
		}
		return false
	}
	for n := 0; leaver == nil; n++ {
		if n > 2*len(homes) {
			l.t.Fatal("no home has a task waiting, however many there are")
		}
		p := homes[n%len(homes)]
		large := &library{pages: 1, hold: 3, grows: true}
		large.serve(l.t, p.where, fmt.Sprintf("%s:%d", p.where.Addr, webPort+1+n))
		all = append(all, large)
		l.add(large.origin)
		ids = l.channels()
		l.crawl(ids[large.origin])
		l.mgr.until("has one more task at a home", func() bool {
			if large.held() || waits(ids[large.origin]) {
				return true
			}
			l.asked(ids[large.origin])
			return false
		})
		held[ids[large.origin]] = true
	}
	l.runs[leaver.peers[0]].end()
	var heir *place
	l.mgr.until("has another home take what waited", func() bool {
		for _, p := range homes {
			running, waiting := l.duties(p)
			if p != leaver && slices.Contains(append(running, waiting...), task) {
				heir = p
			}
		}
		return heir != nil
	})
	l.t.Logf("task %+v waited at %s when its peer left, and is at %s now", task, leaver.name, heir.name)
	for _, s := range all {
		s.open()
	}
	moved := 0
	for _, s := range all {
		l.mgr.until("has every crawl end", func() bool {
			if l.updated([]string{s.origin}, 1) {
				return true
			}
			l.asked(ids[s.origin])
			time.Sleep(time.Second / 2)
			return false
		})
		by := s.once(l)
		l.t.Logf("%s was crawled from %v", s.origin, by)
		if len(by) == 2 {
			moved++
		}
	}
	if moved != 1 {
		l.t.Errorf("%d crawls were begun by one home and ended by another, want 1", moved)
	}
}

// stories logs what the manager knows of the crawls if the test has failed.
func (l *lab) stories(all []*library, ids map[string]uint64) {
	if !l.t.Failed() {
		return
	}
	for _, s := range all {
		d, err := l.page.channel(int(ids[s.origin]))
		l.t.Logf("%s is out: %v, due %v (%v)", s.origin, d.Row.Out, d.Row.Due, err)
		for _, e := range d.Events {
			l.t.Logf("  %s generation %d: %s %s %s", e.At.Format(time.TimeOnly), e.Gen, e.What, e.Peer, e.Note)
		}
	}
}

// whereabouts logs what peers say of themselves, who visited which host, and the last of each channel's events, for a test that has failed.
func (l *lab) whereabouts(places []*place) {
	for _, p := range places {
		ask := l.in(p.peers[0], "shoal-peer", "status", "--data", l.dirs[p.peers[0]])
		<-ask.done
		l.t.Logf("%s, at %s, says of itself:\n%s", p.name, p.near[0], ask.out.String())
	}
	l.mu.Lock()
	for host, who := range l.seen {
		l.t.Logf("%s was visited by %v", host, who)
	}
	l.mu.Unlock()
	for origin, id := range l.channels() {
		d, err := l.page.channel(int(id))
		l.t.Logf("%s (%v)", origin, err)
		for _, e := range d.Events[:min(len(d.Events), 20)] {
			l.t.Logf("  %s generation %d: %s %s %s", e.At.Format(time.TimeOnly), e.Gen, e.What, e.Peer, e.Note)
		}
	}
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
