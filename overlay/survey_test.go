package overlay

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"shoal/coords"
)

// surveyOf has a manager survey a host. answer is after how long a peer answers, and what it measures; zero: never.
func surveyOf(t *testing.T, n *Node, now time.Time, r coords.HostRecord, peers []PeerRecord, answer func(p *PeerRecord) (after, rtt time.Duration)) (e Event, asked []ID, took time.Duration) {
	t.Helper()
	began := now
	byID := map[ID]*PeerRecord{}
	for i := range peers {
		byID[peers[i].ID] = &peers[i]
	}
	var mail []due
	send := func(out []Send) {
		for _, s := range out {
			m, ok := s.Msg.(ProbeHost)
			if !ok {
				continue // gossip, which goes nowhere here
			}
			if m.Host != "http://a.example" {
				t.Fatalf("asked to measure %q", m.Host)
			}
			asked = append(asked, s.To)
			if after, rtt := answer(byID[s.To]); after > 0 {
				mail = append(mail, due{now.Add(after), s.To, Probed{Req: m.Req, RTT: rtt, At: byID[s.To].Coord}})
			}
		}
	}
	send(n.Survey(now, 7, Survey{Name: "http://a.example", N: 8}, r))
	for now.Before(began.Add(time.Minute)) {
		for _, e := range n.Events() {
			if e.Req == 7 {
				return e, asked, now.Sub(began)
			}
		}
		next, k := n.Deadline(), -1
		for i, d := range mail {
			if !d.at.After(next) {
				next, k = d.at, i
			}
		}
		if now = next; k < 0 {
			send(n.Tick(now))
			continue
		}
		d := mail[k]
		mail = append(mail[:k], mail[k+1:]...)
		send(n.Step(now, d.from, d.msg))
	}
	t.Fatal("a survey without an end")
	return e, asked, took
}

// manager is a node that places tasks, and knows some peers.
func manager(t *testing.T, now time.Time, seed uint64, peers []PeerRecord) *Node {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 2))
	v, err := coords.NewNode(coords.Default(), rng)
	if err != nil {
		t.Fatal(err)
	}
	cfg := Default("me")
	cfg.Places = true
	n, err := New(now, cfg, v, nil, rng)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range peers {
		if err := n.Meet(now, p); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

// A survey asks some peers at random, then those that are probably nearest; a host that was measured is measured by the latter only. Of a few
// thousand peers it finds near ones as of a few.
func TestSurvey(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	for _, count := range []int{200, 3000} {
		rng := rand.New(rand.NewPCG(3, uint64(count)))
		var peers []PeerRecord
		for i := range count {
			peers = append(peers, PeerRecord{ID: ID(fmt.Sprint("p", i)), Seq: 1, Issued: now, Load: Load{Threads: 1}, Coord: somewhere(rng)})
		}
		better := 0
		const hosts = 20
		for range hosts {
			n := manager(t, now, 1, peers)
			at := somewhere(rng)
			rtt := func(p *PeerRecord) (time.Duration, time.Duration) {
				d := max(coords.Predict(p.Coord, at), time.Microsecond)
				return 3*d + 5*time.Millisecond, d
			}
			e, asked, _ := surveyOf(t, n, now, coords.HostRecord{}, peers, rtt)
			if e.Err != nil || len(e.Placed.Samples) != len(asked) || len(asked) > 8+NearRounds*NearProbes+5 {
				t.Fatalf("%v: %d asked, %d samples", e.Err, len(asked), len(e.Placed.Samples))
			}
			var first, r coords.HostRecord
			for i, s := range e.Placed.Samples {
				if r.Add(s); i < 8 {
					first.Add(s)
				}
			}
			if b, f := shortest(&r).RTT, shortest(&first).RTT; b < f*2/3 {
				better++
			}
			e, again, _ := surveyOf(t, manager(t, now, 2, peers), now, r, peers, rtt)
			if e.Err != nil || len(again) > 8 {
				t.Fatalf("%v: %d asked of a host that was measured", e.Err, len(again))
			}
			for _, id := range again {
				for _, s := range r.Samples {
					if s.Vantage == string(id) {
						t.Errorf("%s measures the host again", id)
					}
				}
			}
		}
		if better < hosts*2/3 {
			t.Errorf("of %d peers, a nearer one was found for %d of %d hosts only", count, better, hosts)
		}
	}
}

// Silence, unreachable hosts and an empty table end a survey, and soon.
func TestSurveyEnds(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	rng := rand.New(rand.NewPCG(9, 9))
	var peers []PeerRecord
	for i := range 40 {
		peers = append(peers, PeerRecord{ID: ID(fmt.Sprint("p", i)), Seq: 1, Issued: now, Load: Load{Threads: 1}, Coord: somewhere(rng)})
	}
	const rounds = 2 + NearRounds
	for _, c := range []struct {
		what   string
		answer func(p *PeerRecord) (time.Duration, time.Duration)
		asked  int
		within time.Duration
	}{
		{"silence", func(*PeerRecord) (time.Duration, time.Duration) { return 0, 0 }, 8, surveyPatience},
		{"a host that cannot be reached", func(*PeerRecord) (time.Duration, time.Duration) { return time.Millisecond, 0 }, 8, 20 * time.Millisecond},
		{"half silent", func(p *PeerRecord) (time.Duration, time.Duration) {
			if p.ID[len(p.ID)-1]%2 == 0 {
				return 0, 0
			}
			return 10 * time.Millisecond, 40 * time.Millisecond
		}, 40, rounds * surveyPatience},
	} {
		_, asked, took := surveyOf(t, manager(t, now, 1, peers), now, coords.HostRecord{}, peers, c.answer)
		if len(asked) > c.asked || took > c.within {
			t.Errorf("%s: %d asked in %v, want at most %d in %v", c.what, len(asked), took, c.asked, c.within)
		}
	}
	n := manager(t, now, 1, nil)
	n.Survey(now, 1, Survey{Name: "http://a.example", N: 8}, coords.HostRecord{})
	if e := n.Events(); len(e) != 1 || !errors.Is(e[0].Err, ErrRefused) {
		t.Errorf("without peers: %+v", e)
	}
	n = manager(t, now, 1, peers)
	for req := range uint64(MaxSurveys + 1) {
		n.Survey(now, req+1, Survey{Name: "http://a.example", N: 1}, coords.HostRecord{})
	}
	if e := n.Events(); len(e) != 1 || !errors.Is(e[0].Err, ErrBusy) {
		t.Errorf("%d surveys at a time: %+v", MaxSurveys+1, e)
	}
}

// A task for which the judge has named a peer is offered to that peer before anything else is asked; others are looked for when it refuses, is gone or unknown.
func TestTheNamedPeerComesFirst(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	rng := rand.New(rand.NewPCG(2, 2))
	var peers []PeerRecord
	for i := range 100 {
		peers = append(peers, PeerRecord{ID: ID(fmt.Sprint("p", i)), Seq: 1, Issued: now, Load: Load{Threads: 1}, Coord: somewhere(rng)})
	}
	named := Named{Peer: "p42", RTT: 7 * time.Millisecond, Random: 90 * time.Millisecond}
	n := manager(t, now, 1, peers)
	out := n.PlaceAt(now, 1, hostTask(), coords.HostRecord{}, named)
	if len(out) != 1 || out[0].To != "p42" {
		t.Fatalf("sent %+v", out)
	}
	offer, ok := out[0].Msg.(Offer)
	if !ok {
		t.Fatalf("sent %T", out[0].Msg)
	}
	n.Step(now, "p42", Answer{Req: offer.Req, Accept: true, Start: now})
	e := n.Events()
	if len(e) != 1 || e[0].Err != nil || e[0].Placed.Peer != "p42" || e[0].Placed.RTT != named.RTT || e[0].Placed.RandomRTT != named.Random || e[0].Placed.Offers != 1 {
		t.Errorf("came to %+v", e)
	}

	for what, end := range map[string]func(n *Node, req uint64) []Send{
		"refused": func(n *Node, req uint64) []Send {
			return n.Step(now, "p42", Answer{Req: req, Start: now.Add(time.Hour)})
		},
		"not reached": func(n *Node, req uint64) []Send { return n.Failed(now, req, true) },
		"silent":      func(n *Node, req uint64) []Send { return n.Failed(now, req, false) },
	} {
		n := manager(t, now, 1, peers)
		req := n.PlaceAt(now, 1, hostTask(), coords.HostRecord{}, named)[0].Msg.(Offer).Req
		n.events = nil
		out := end(n, req)
		if len(out) == 0 {
			t.Fatalf("%s: nothing more is tried", what)
		}
		for range 200 { // all others are silent
			var next []Send
			for _, s := range out {
				if o, ok := s.Msg.(Offer); ok && s.To == "p42" && o.Req != 0 {
					t.Errorf("%s: offered to it again", what)
				}
				next = append(next, n.Failed(now, reqOf(s.Msg), true)...)
			}
			if out = next; len(out) == 0 {
				break
			}
		}
		e := n.Events()
		want := ErrRefused
		if what == "silent" {
			want = ErrUnsure
		}
		if len(e) != 1 || !errors.Is(e[0].Err, want) {
			t.Errorf("%s: came to %+v, want %v", what, e, want)
		}
		if v := n.View(now); what == "refused" && (v.Find("p42") == nil || !slices.ContainsFunc(v.stands, func(s standing) bool { return s&full != 0 })) {
			t.Errorf("who has just refused a task is not passed over")
		}
	}

	n = manager(t, now, 1, peers)
	for _, s := range n.PlaceAt(now, 1, hostTask(), coords.HostRecord{}, Named{Peer: "unknown"}) {
		if _, ok := s.Msg.(Offer); ok || s.To == "unknown" {
			t.Errorf("%T to %s", s.Msg, s.To)
		}
	}
}

// A view shows the table, and finds in it.
func TestView(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	var peers []PeerRecord
	rng := rand.New(rand.NewPCG(4, 4))
	for i := range 1000 {
		peers = append(peers, PeerRecord{ID: ID(fmt.Sprint("p", i)), Seq: 1, Issued: now, Load: Load{Threads: 1}, Coord: somewhere(rng), Account: "a"})
	}
	n := manager(t, now, 1, peers)
	n.Doubt(now, "p5", now.Add(-time.Hour))
	v := n.View(now)
	if len(v.Peers) != 1000 {
		t.Fatalf("%d peers", len(v.Peers))
	}
	for i := range peers {
		p := v.Find(peers[i].ID)
		if p == nil || p.ID != peers[i].ID || p.Coord != peers[i].Coord || p.Account != "a" || !p.Seen.Equal(now) {
			t.Fatalf("%s: %+v", peers[i].ID, p)
		}
	}
	if v.Find("q") != nil {
		t.Error("found a peer that is not there")
	}
	for i := range v.Peers {
		if (v.stands[i] == avoided) != (v.Peers[i].ID == "p5") {
			t.Errorf("%s: standing %d", v.Peers[i].ID, v.stands[i])
		}
	}
}

// A survey by one peer asks no other, whatever is known of the host.
func TestSurveyByOne(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	rng := rand.New(rand.NewPCG(3, 4))
	var peers []PeerRecord
	for i := range 20 {
		peers = append(peers, PeerRecord{ID: ID(fmt.Sprint("p", i)), Issued: now, Coord: somewhere(rng), Load: Load{Threads: 1}})
	}
	for _, known := range []bool{false, true} {
		n := manager(t, now, 5, peers)
		var r coords.HostRecord
		if known {
			for _, p := range peers[:10] {
				r.Add(coords.Sample{Vantage: string(p.ID), At: p.Coord, RTT: time.Millisecond, When: now.Unix()})
			}
		}
		var asked []ID
		for _, s := range n.Survey(now, 7, Survey{Name: "http://a.example", N: 1, By: "p3"}, r) {
			if m, ok := s.Msg.(ProbeHost); ok {
				asked = append(asked, s.To)
				n.Step(now, s.To, Probed{Req: m.Req, RTT: 5 * time.Millisecond, At: peers[3].Coord})
			}
		}
		ended := false
		for _, e := range n.Events() {
			if ended = ended || e.Req == 7; e.Req == 7 && (len(e.Placed.Samples) != 1 || e.Err != nil) {
				t.Errorf("it came to %+v", e)
			}
		}
		if !ended || !slices.Equal(asked, []ID{"p3"}) {
			t.Errorf("known %v: asked %v, ended %v", known, asked, ended)
		}
		n.Survey(now, 8, Survey{Name: "http://a.example", N: 1, By: "gone"}, r)
		if e := n.Events(); len(e) != 1 || !errors.Is(e[0].Err, ErrRefused) {
			t.Errorf("by a peer that has gone: %+v", e)
		}
	}
}
