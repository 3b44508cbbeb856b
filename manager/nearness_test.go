package manager

import (
	"slices"
	"testing"
	"time"

	"shoal/coords"
	"shoal/manager/dispatch"
	"shoal/manager/trust"
	"shoal/manager/trust/compare"
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

// A task that has waited long goes to no peer that may not have it, however near that one is.
func TestFartherNamesWhoMay(t *testing.T) {
	m := crawled(t, 1, "fixed")
	m.cfg.Swarm = newFullSwarm()
	now := time.Unix(1e9, 0)
	m.near.Capacity(now)
	host := m.table.Host(0)
	var r coords.HostRecord
	for i, vantage := range []string{"a", "b", "c", "d"} {
		r.Add(coords.Sample{Vantage: vantage, At: coords.Coord{Err: .1}, RTT: time.Duration(i+1) * time.Millisecond, When: now.Unix()})
	}
	m.near.judge.Locate(now, host, "", r)
	m.near.Looked(now)
	tasks := []dispatch.Ask{{Slot: 0, Host: host, Pressing: true}}
	if _, p, ok := m.near.Farther(now, tasks); !ok || p != "a" {
		t.Fatalf("where every peer may have it, it goes to %q, %v", p, ok)
	}
	m.auditor.strict = true
	m.near.asks.mayTake[0] = func(id overlay.ID) bool { return id != "a" }
	_, p, ok := m.near.Farther(now, tasks)
	if !ok || p != "b" {
		t.Fatalf("where a may not have it, it goes to %q, %v", p, ok)
	}
	if got, v := m.near.Room(now, dispatch.Ask{Slot: 0, Host: host, Share: dispatch.NearShare, Only: p}); v != dispatch.Go || got != p {
		t.Errorf("it goes to %q (%v), want %q", got, v, p)
	}
}

// TestHeldPagesAreSeenByOthers: a channel with a delivery that is held for a doubt is not left to the peer that is nearest, since its pages are shown only once others have
// seen them.
func TestHeldPagesAreSeenByOthers(t *testing.T) {
	m := crawled(t, 1, "fixed")
	au, now := m.auditor, time.Unix(1e9, 0)
	rules := au.trust.Config()
	rules.Enforce, rules.Arbiter = true, true
	if err := au.trust.SetConfig(rules); err != nil {
		t.Fatal(err)
	}
	au.enforced, au.strict = true, true
	ids := []overlay.ID{"liar", "checker", "other", "another", "newcomer"}
	number := map[overlay.ID]trust.Peer{}
	for _, id := range ids {
		if number[id] = au.meet(id); id != "newcomer" {
			au.trust.Vouch(number[id])
		}
	}
	others := func() (fit []overlay.ID) { // who should have the channel, surely
		var ask overlay.Ask
		if m.near.suit(now, 0, &ask); !ask.Surely {
			return nil
		}
		for _, id := range ids {
			if ask.Rather(id) {
				fit = append(fit, id)
			}
		}
		return fit
	}
	if fit := others(); fit != nil {
		t.Fatalf("a channel without trouble is for %q alone", fit)
	}
	saw := func(word uint32) *compare.Features {
		f := &compare.Features{Status: 200, Words: 100, Exact: uint64(word)}
		for i := range uint32(20) {
			f.Text = append(f.Text, 100*word+i)
		}
		return f
	}
	id := m.table.ID(0)
	c := trust.Case{Reason: trust.Contradicted, Channel: id, Accused: number["liar"], Accuser: number["checker"], At: now.Unix()}
	au.trust.Ruled(now, &trust.Ruling{Evidence: trust.Evidence{Case: c, Host: &compare.Host{}, Delivered: saw(1), Checked: saw(2)}, Arbiter: saw(2)})
	if fit := others(); !slices.Equal(fit, []overlay.ID{"checker", "other", "another"}) {
		t.Errorf("a channel with a delivery that is held is for %q", fit)
	}
	if i := au.info(now); i.Seen != 1 || i.InDoubt != 1 || len(i.Doubts) != 1 || i.Doubts[0].Channel != id || i.Doubts[0].Views == 0 {
		t.Errorf("an operator is told of %d channels to be seen, %+v", i.Seen, i.Doubts)
	}
	crawl := func(by overlay.ID, times int) {
		for range times {
			au.trust.Deliver(now, &trust.Delivery{Peer: number[by], Channel: id, At: now})
		}
	}
	crawl("liar", 5) // no peer sees its own delivery
	crawl("newcomer", 5)
	crawl("other", 2)
	if fit := others(); !slices.Equal(fit, []overlay.ID{"checker", "another"}) {
		t.Errorf("after another peer has come it is for %q", fit)
	}
	crawl("checker", 3)
	if fit := others(); fit != nil {
		t.Errorf("after five crawls by others it is for %q still", fit)
	}
	if i := au.info(now); i.Seen != 0 || i.InDoubt != i.Watched {
		t.Errorf("an operator is told of %d channels to be seen still, %+v", i.Seen, i.Doubts)
	}
}

// TestChecksGoAnywhere: who checks is drawn from all that may. The peers near a host may all be of a gang that is after it, and would vouch for each other.
func TestChecksGoAnywhere(t *testing.T) {
	m := crawled(t, 1, "fixed")
	au := m.auditor
	for _, id := range []overlay.ID{"accused", "checker"} {
		au.trust.Vouch(au.meet(id))
	}
	m.errands.places[0].errand = &errand{host: "http://a.example", apart: []trust.Peer{au.meet("accused")}}
	var ask overlay.Ask
	if m.near.suit(time.Unix(1e9, 0), errandSlot, &ask); !ask.Anywhere || ask.May("accused") || !ask.May("checker") {
		t.Errorf("a check goes anywhere: %v, to the accused: %v, to a checker: %v", ask.Anywhere, ask.May("accused"), ask.May("checker"))
	}
	ask = overlay.Ask{}
	if m.near.suit(time.Unix(1e9, 0), 0, &ask); ask.Anywhere {
		t.Error("a crawl goes anywhere")
	}
}
