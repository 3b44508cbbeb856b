package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"syscall"
	"testing"
	"time"

	"shoal/internal/lab/pond"
	"shoal/manager/api"
	"shoal/manager/desk"
)

// TestOneRequestAHost has three channels on each of three hosts, and passes their tasks from peer to peer while they
// run. One peer sleeps until another has its task, and then wakes up; one leaves politely in the middle of its task.
// The pond counts the requests in flight.
func TestOneRequestAHost(t *testing.T) {
	drivesPrograms(t)
	t.Parallel()
	w, err := pond.NewWorld(pond.Config{Seed: 5, Hosts: 3, Sizes: []int{70, 70, 70}, Pages: 210, MaxHost: 70, Plain: true})
	if err != nil {
		t.Fatal(err)
	}
	s := servePond(t, w)
	web := newSluice(t, s.Addr().String())
	addr := web.addr()
	m := start(t, "shoal", "manager", "--data", t.TempDir(), "--listen", "/ip4/127.0.0.1/tcp/0", "--page", "127.0.0.1:0", "--pond", addr, "--lease", "6s")
	g := pageOf(m, "Page ")
	join := m.word("shoal-peer join ")
	m.until("has its channels", func() bool { rows, err := g.rows(); return err == nil && len(rows) == 3 })
	for h := range 3 {
		id := 0
		rows, err := g.rows()
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rows {
			if r.Host == "http://"+w.Hosts()[h].Name && r.Scope == "" {
				id = int(r.ID)
			}
		}
		if err := g.post(fmt.Sprintf("/api/v1/channels/%d/split", id), api.Split{Dirs: []string{w.Path(h, 1), w.Path(h, 2)}}); err != nil {
			t.Fatal(err)
		}
	}

	peers := map[string]*process{} // by peer id
	for range 4 {
		dir := t.TempDir()
		j := start(t, "shoal-peer", "join", "--yes", join, "--data", dir)
		if <-j.done; j.cmd.ProcessState.ExitCode() != 0 {
			t.Fatalf("join: %s", j.said())
		}
		p := start(t, "shoal-peer", "run", "--data", dir, "--pond", addr, "--port", "0", "--listen", "127.0.0.1", "--no-quic", "--no-low-priority", "--log-level", "warn")
		p.until("tells its id", func() bool {
			ask := start(t, "shoal-peer", "status", "--json", "--data", dir)
			<-ask.done
			var st struct{ Peer string }
			if json.Unmarshal(ask.out.Bytes(), &st) != nil || st.Peer == "" {
				return false
			}
			peers[st.Peer] = p
			return true
		})
	}

	log := func(format string, v ...any) { // shown if the test fails
		t.Helper()
		t.Logf(time.Now().UTC().Format(time.StampMilli)+" "+format, v...)
	}
	// holder holds the hosts' answers, and waits for a channel that a peer claims after that: its crawl cannot end.
	holder := func() (id int, peer string) {
		web.hold()
		since := time.Now()
		m.within(3*time.Minute, "has a task in the middle of its crawl", func() bool {
			for i := 1; i <= 9; i++ {
				d, err := g.channel(i)
				if err == nil && d.Row.Out && len(d.Events) > 0 && d.Events[0].What == "claimed" && d.Events[0].At.After(since) && peers[d.Events[0].Peer] != nil {
					id, peer = i, d.Events[0].Peer
					return true
				}
			}
			return false
		})
		return id, peer
	}
	// goesOn reports whether another peer claimed the channel after its task ended so.
	goesOn := func(id int, what, from string) bool {
		d, err := g.channel(id)
		if err != nil {
			return false
		}
		other := false
		for _, e := range d.Events { // the latest first
			if e.What == "claimed" && e.Peer != from {
				other = true
			}
			if e.What == what && e.Peer == from {
				return other
			}
		}
		return false
	}

	end := time.Now().Add(4 * time.Minute)
	for slept := false; !slept; {
		id, peer := holder()
		p := peers[peer].cmd.Process
		err := p.Signal(syscall.SIGSTOP)
		log("peer %s falls asleep", peer)
		web.open()
		if err != nil {
			t.Fatal(err)
		}
		for until := time.Now().Add(30 * time.Second); !slept && time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
			slept = goesOn(id, "lapsed", peer) // it wakes up while the other one crawls
		}
		log("peer %s wakes up", peer)
		if err := p.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		if time.Now().After(end) {
			t.Fatal("no lease lapsed and was taken over, however often its holder fell asleep")
		}
	}
	for left := false; !left; { // it may have claimed its task so long before that is seen that its lease lapses first
		if len(peers) == 1 {
			t.Fatal("the lease of each peer that left had lapsed before")
		}
		id, peer := holder()
		log("peer %s leaves", peer)
		peers[peer].end()
		log("peer %s has left", peer)
		delete(peers, peer)
		web.open()
		m.until("has another peer go on with what one has left", func() bool {
			left = goesOn(id, "released", peer)
			return left || goesOn(id, "lapsed", peer)
		})
	}
	m.within(4*time.Minute, "updates every channel", func() bool {
		rows, err := g.rows()
		if err != nil || len(rows) != 9 {
			return false
		}
		for _, r := range rows {
			if r.Visits == 0 {
				return false
			}
		}
		return true
	})
	if st := s.Stats(); st.MaxInFlight != 1 {
		for _, v := range st.Violations {
			log("%s: %s %s%s beside %s since %s", v.When.Format(time.StampMilli), v.Kind, v.Host, v.Path, v.Beside, v.Since.Format(time.StampMilli))
		}
		t.Errorf("at most %d requests in flight to one host, want 1", st.MaxInFlight)
	}
	leasesInTurn(t, g)
	if t.Failed() {
		tellEvents(t, g)
	}
	for _, p := range peers {
		p.end()
	}
	m.end()
}

// leasesInTurn checks that no two leases of channels of one host ran at a time, whether or not their holders' requests met.
func leasesInTurn(t *testing.T, g page) {
	t.Helper()
	type lease struct {
		host, channel, peer string
		from, to            time.Time
	}
	var all []lease
	for i := 1; i <= 9; i++ {
		d, err := g.channel(i)
		if err != nil {
			t.Fatal(err)
		}
		of := func(e desk.Event, to time.Time) lease { return lease{d.Row.Host, d.Row.Scope, e.Peer, e.At, to} }
		end := time.Now()
		for _, e := range d.Events { // the latest first
			switch e.What {
			case "updated", "released", "lapsed", "failed":
				end = e.At
			case "claimed", "revived":
				all = append(all, of(e, end))
			}
		}
	}
	for i, a := range all {
		for _, b := range all[:i] {
			if a.host == b.host && a.channel != b.channel && a.from.Before(b.to) && b.from.Before(a.to) {
				t.Errorf("two leases of %s ran at a time: of %q by %s from %s to %s, and of %q by %s from %s to %s", a.host, a.channel, a.peer, a.from.Format(time.StampMilli), a.to.Format(time.StampMilli),
					b.channel, b.peer, b.from.Format(time.StampMilli), b.to.Format(time.StampMilli))
			}
		}
	}
	if len(all) < 9 {
		t.Errorf("%d leases are known of nine channels that were crawled", len(all))
	}
}

// tellEvents logs what became of all tasks.
func tellEvents(t *testing.T, g page) {
	t.Helper()
	for i := 1; i <= 9; i++ {
		d, err := g.channel(i)
		if err != nil {
			t.Error(err)
		}
		for _, e := range d.Events {
			t.Logf("channel %d of %s%s was %s at %s, by %s, generation %d%s", i, d.Row.Host, d.Row.Scope, e.What, e.At.Format(time.StampMilli), e.Peer, e.Gen, e.Note)
		}
	}
}

// channel returns the details of one channel.
func (g page) channel(id int) (d api.Detail, err error) {
	err = g.get(fmt.Sprintf("/api/v1/channels/%d", id), &d)
	return d, err
}

// post sends a request to the API.
func (g page) post(path string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(g.t.Context(), http.MethodPost, g.base+path, bytes.NewReader(b))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+g.token)
	res, err := g.client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", path, res.Status)
	}
	return nil
}
