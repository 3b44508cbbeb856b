package e2e

import (
	"bytes"
	"encoding/json"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"

	"shoal/internal/lab/pond"
	"shoal/internal/lab/rogue"
	"shoal/internal/member"
	"shoal/internal/wire/wirepb"
	"shoal/overlay/p2p/overlaypb"
)

// TestHostile makes a member of another make send every forbidden message to a manager and a peer, once and then many
// times. Each kind must be counted by its reason where an operator and a volunteer look, neither program may grow,
// and both must go on working.
func TestHostile(t *testing.T) {
	w, err := pond.NewWorld(pond.Config{Seed: 4, Hosts: 2, Pages: 12, Plain: true})
	if err != nil {
		t.Fatal(err)
	}
	addr := servePond(t, w).Addr().String()
	m := start(t, "shoal", "manager", "--data", t.TempDir(), "--listen", "/ip4/127.0.0.1/tcp/0", "--page", "127.0.0.1:0", "--pond", addr)
	g := pageOf(m, "Page ")
	join := m.word("shoal-peer join ")
	dir := t.TempDir()
	j := start(t, "shoal-peer", "join", "--yes", join, "--data", dir)
	if <-j.done; j.cmd.ProcessState.ExitCode() != 0 {
		t.Fatalf("join: %s", j.said())
	}
	v := start(t, "shoal-peer", "run", "--data", dir, "--pond", addr, "--port", "0", "--listen", "127.0.0.1", "--no-quic", "--no-low-priority", "--log-level", "warn")
	st := statusOf(t, dir)
	m.until("has a peer", func() bool { st = statusOf(t, dir); return g.overview().Peers == 1 && len(st.Addrs) > 0 })

	js, err := member.ParseJoinString(join)
	if err != nil {
		t.Fatal(err)
	}
	h := &hostile{t: t, Program: rogue.New(t), network: js.Network[:], boss: target(t, js.Addrs...), peer: target(t, st.Addrs...)}
	h.Dial(h.boss)
	victim := h.Hello(h.boss.ID, &wirepb.Hello{Want: 1, Network: h.network, Label: "mallory"}).Certificate
	h.gate(g, victim)
	for _, to := range []struct {
		peer.AddrInfo
		name    string
		at      rogue.At
		refused func() map[string]int64
		memory  func() float64
	}{
		{h.boss, "manager", rogue.At{Manager: true, Archive: true}, func() map[string]int64 { return metric(t, g, `shoal_wire_refused_total{reason="`) }, func() float64 { return heap(t, g) }},
		{h.peer, "peer", rogue.At{Peer: true}, func() map[string]int64 { return statusOf(t, dir).Refused }, func() float64 { return usageOf(t, v.cmd.Process.Pid).own }},
	} {
		h.known(to.AddrInfo)
		counted := to.refused()
		all := h.Misdeeds(h.network, to.at)
		want := map[string]int64{}
		for _, bad := range all {
			code, b, err := h.Send(rogue.Patience, to.ID, bad.On, bad.Raw, true)
			if (err != nil) != bad.Hangs || code != bad.Code {
				t.Errorf("%s: %s: answered %d %q, %v; want code %d", to.name, bad.What, code, b, err, bad.Code)
			}
			if want[bad.Reason]++; bad.Reason == "overlay_too_many_records" {
				want["overlay_unsigned"] += 12
			}
		}
		now := to.refused()
		for why, n := range want {
			if now[why]-counted[why] != n {
				t.Errorf("%s: %s: %d, then %d, want %d more", to.name, why, counted[why], now[why], n)
			}
		}
		h.flood(to.ID, floods/4, all) // after which buffers are as large as they get
		before := to.memory()
		h.flood(to.ID, floods, all)
		after := to.memory()
		t.Logf("%s: %.1f MB before %d messages of %d kinds, %.1f MB after", to.name, before, floods*len(all), len(all), after)
		if after > before+growth {
			t.Errorf("%s: grew from %.1f to %.1f MB", to.name, before, after)
		}
	}
	ids := (&lab{t: t, page: g}).channels()
	m.until("goes on with its work", func() bool {
		for _, id := range ids {
			(&lab{t: t, page: g, client: http.DefaultClient}).crawl(id)
		}
		o := g.overview()
		return o.Updates >= 4 && o.Refused == 0 || o.Updates >= 8
	})
	v.end()
	m.end()
}

type hostile struct {
	*rogue.Program
	t           *testing.T
	network     []byte
	boss, peer  peer.AddrInfo
	certificate []byte
}

// known joins once, with a clock that is four minutes ahead, which is tolerated, and shows its certificate from then
// on. Then it gossips as a member does.
func (h *hostile) known(to peer.AddrInfo) {
	h.t.Helper()
	if h.certificate == nil {
		h.Again(h.boss)
		w := h.Hello(h.boss.ID, &wirepb.Hello{Want: 1, Network: h.network, Label: "mallory", NowMs: time.Now().Add(4 * time.Minute).UnixMilli()})
		if h.certificate = w.Issued; len(h.certificate) == 0 {
			h.t.Fatalf("not let in: %v", w)
		}
	}
	h.Again(to)
	if w := h.Hello(to.ID, &wirepb.Hello{Network: h.network, Certificate: h.certificate}); w.Code != 0 {
		h.t.Fatalf("a member is not known: %v", w)
	}
	if code, b, err := h.Call(to.ID, "/shoal/gossip/1", h.Encode(&overlaypb.Gossip{Self: h.Record(h.network, nil)})); err != nil || code != 0 {
		h.t.Fatalf("gossip is answered %d %q, %v", code, b, err)
	}
}

// gate sends wrong greetings.
func (h *hostile) gate(g page, certificate []byte) {
	h.t.Helper()
	for _, bad := range h.Greetings(h.network, certificate) {
		before := refusedBy(h.t, g)[bad.Reason]
		h.Again(h.boss)
		w := h.Hello(h.boss.ID, bad.Hello)
		if w.Code != bad.Code || w.Reason != bad.Reason || len(w.Issued) > 0 {
			h.t.Errorf("%s is answered %d %s %q; want %d %s", bad.What, w.Code, w.Reason, w.Text, bad.Code, bad.Reason)
		} else {
			h.t.Logf("%s: %s", bad.What, w.Text)
		}
		if after := refusedBy(h.t, g)[bad.Reason]; after != before+1 {
			h.t.Errorf("%s: %s counted %d, then %d", bad.What, bad.Reason, before, after)
		}
	}
}

const (
	floods = 320 // times that each kind is sent
	growth = 8   // MB by which a program may grow of it; what is sent is three times as much
)

// flood sends everything many times, on eight streams at a time.
func (h *hostile) flood(to peer.ID, times int, all []rogue.Misdeed) {
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range times / 8 {
				for _, bad := range all {
					_, _, _ = h.Send(rogue.Patience, to, bad.On, bad.Raw, true) // refused, as busy too
				}
			}
		})
	}
	wg.Wait()
}

// refusedBy returns the refusals in a manager's metrics.
func refusedBy(t *testing.T, g page) map[string]int64 {
	t.Helper()
	return metric(t, g, `shoal_wire_refused_total{reason="`)
}

// heap returns a manager's live heap in MB, without garbage.
func heap(t *testing.T, g page) float64 {
	t.Helper()
	least := math.Inf(1)
	for range 5 { // on a busy machine the manager makes garbage between the collection and the look; what it holds is there each time
		if _, err := g.read("/debug/pprof/heap?gc=1"); err != nil {
			t.Fatal(err)
		}
		least = min(least, float64(metric(t, g, "go_memstats_heap_alloc_bytes")[""])/1e6)
	}
	return least
}

// metric returns the values of a manager's metrics whose names begin so, keyed by the rest of the name.
func metric(t *testing.T, g page, begins string) map[string]int64 {
	t.Helper()
	b, err := g.read("/metrics")
	if err != nil {
		t.Fatal(err)
	}
	by := map[string]int64{}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), begins); ok {
			at := strings.LastIndexByte(rest, ' ')
			f, err := strconv.ParseFloat(rest[at+1:], 64)
			if err != nil {
				t.Fatal(err)
			}
			by[strings.TrimSuffix(rest[:at], `"}`)] = int64(f)
		}
	}
	return by
}

type peerStatus struct {
	Peer    string
	Addrs   []string `json:"addrs"`
	Refused map[string]int64
}

func statusOf(t *testing.T, dir string) (st peerStatus) {
	t.Helper()
	ask := start(t, "shoal-peer", "status", "--json", "--data", dir)
	<-ask.done
	_ = json.Unmarshal(bytes.TrimSpace(ask.out.Bytes()), &st) // it is asked again
	return st
}

func target(t *testing.T, addrs ...string) peer.AddrInfo {
	t.Helper()
	var all []ma.Multiaddr
	for _, a := range addrs {
		m, err := ma.NewMultiaddr(a)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, m)
	}
	infos, err := peer.AddrInfosFromP2pAddrs(all...)
	if err != nil || len(infos) != 1 {
		t.Fatalf("%v: %v", addrs, err)
	}
	return infos[0]
}
