package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"shoal/internal/wire"
	"shoal/peer"
	"shoal/peer/limit"
	"shoal/peer/words"
)

// statusOf waits until the volunteer's peer tells what good wants.
func (v *volunteer) statusOf(good func(*status) bool) (st status) {
	v.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		code, text := v.do("status", "--json")
		st = status{}
		if code == 0 && json.Unmarshal([]byte(text), &st) == nil && good(&st) {
			return st
		}
		if time.Now().After(end) {
			v.t.Fatalf("never told: %s", text)
		}
	}
}

// TestSeveralNetworks joins a second network while the first is crawled for, divides the limits, and leaves one after the other.
func TestSeveralNetworks(t *testing.T) {
	joins := []string{manager(t), manager(t)}
	v := newVolunteer(t)
	code := make(chan int, 1)
	var out buffer
	go func() {
		code <- run(t.Context(), []string{"run", "--port", "0", "--listen", "127.0.0.1", "--no-quic", "--no-dht", "--no-low-priority", "--control", "127.0.0.1:0"}, streams{&out, &out, v.env, nil})
	}()
	v.statusOf(func(st *status) bool { return st.State == stateUnjoined })
	if text := v.ok("status"); strings.Count(text, "\n") != 2 || !strings.Contains(text, "shoal-peer join JOIN-STRING") {
		t.Error(text)
	}
	if code, said := v.do("pause"); code != 1 || strings.Count(said, "joined") != 1 {
		t.Error(said)
	}
	v.ok("join", joins[0], "--yes", "--no-limits")
	first := v.statusOf(func(st *status) bool {
		return st.Peer != "" && len(st.Networks) == 1 && st.Networks[0].Share == 1 && st.Threads == 5
	})
	if told := v.ok("join", joins[1], "--yes", "--no-limits"); !strings.Contains(told, "already works for Example Search") || !strings.Contains(told, "The running peer begins with it now, beside Example Search.") {
		t.Error(told)
	}
	st := v.statusOf(func(st *status) bool {
		return len(st.Networks) == 2 && st.Networks[0].Peer != "" && st.Networks[1].Peer != "" && st.Threads == 5
	})
	a, b := st.Networks[0], st.Networks[1]
	if a.Peer != first.Peer || a.Peer == b.Peer || a.Network == b.Network || a.Share != .5 || b.Share != .5 || a.Threads+b.Threads != 5 || a.Threads != 3 || a.Queue+b.Queue != 5 {
		t.Errorf("%+v\n%+v", a, b)
	}
	if slices.ContainsFunc(a.Addrs, func(x string) bool { return slices.Contains(b.Addrs, x) }) {
		t.Errorf("one port for both: %v %v", a.Addrs, b.Addrs)
	}

	// The limits are one ceiling, and each has its share.
	v.ok("settings", "down_kib_per_s=100", "day_mib=90")
	v.ok("limit", "--network", b.Network[:10], "--share", "2")
	var one networkLimits
	if err := json.Unmarshal([]byte(v.ok("limit", "--network", b.Network[:10], "--json")), &one); err != nil || one.Weight != 2 || one.Threads != 3 || one.DayMiB != 60 || one.DownKiBPerS != 100 { // nobody works: all of the speed is there
		t.Errorf("%v: %+v", err, one)
	}
	v.ok("limit", "--network", b.Network[:10], "--down", "20")
	st = v.statusOf(func(st *status) bool { return len(st.Networks) == 2 && st.Networks[1].DownKiBPerS == 20 })
	if x := st.Networks[0]; x.DownKiBPerS != 100 || x.DayMiB != 30 || st.Limits.DownKiBPerS.Value != 100 { // the other one has no work: what it leaves is there
		t.Errorf("%+v", x)
	}
	text, err := os.ReadFile(filepath.Join(v.dir, "config", "shoal", "peer.toml"))
	if err != nil || !strings.Contains(string(text), b.Network[:shortName]+"=2") {
		t.Errorf("%v\n%s", err, text)
	}
	for _, c := range [][]string{{"limit", "--network", "nobody"}, {"limit", "--share", "2"}, {"limit", "--network", b.Network[:10], "--share", "0"}, {"leave"}, {"leave", "nobody"}, {"pause", "--network", "nobody"}, {"leave", "Example Search"},
		{"log", "--network", "nobody"}, {"log", "--sites", "--network", "Example Search"}, {"log", "--network", "misspelt"},
		{"settings", `network_shares=["short=1"]`}, {"settings", `network_shares=["longenough=0"]`}} {
		if code, said := v.do(c...); code == 0 || !strings.Contains(said, "etwork") && !strings.Contains(said, "several") && !strings.Contains(said, "weight") {
			t.Errorf("%v: %d %s", c, code, said)
		}
	}

	v.ok("log", "--network", strings.ToUpper(b.Network[:10]))

	// One may rest while the other works.
	v.ok("pause", "1h", "--network", b.Network[:10])
	st = v.statusOf(func(st *status) bool { return st.Networks[1].Mode == "paused" })
	if st.Networks[0].Mode != "open" || st.Mode != "open" || st.State == statePaused || !strings.Contains(st.Says, "Example Search: Paused because you said so, until") {
		t.Errorf("%s %q", st.State, st.Says)
	}
	v.ok("pause")
	if st = v.statusOf(func(st *status) bool { return st.Mode == "paused" }); st.State != statePaused || !strings.Contains(st.Says, "Paused because you said so, until: shoal-peer resume.") {
		t.Errorf("%s %q", st.State, st.Says)
	}
	v.ok("resume")
	v.statusOf(func(st *status) bool { return st.Networks[0].Mode == "open" && st.Networks[1].Mode == "open" })
	if text := v.ok("status"); !strings.Contains(text, "share 67%") || strings.Count(text, "\nnetwork ") != 2 {
		t.Error(text)
	}
	if text := v.ok("report"); strings.Contains(text, b.Network[:shortName]) || strings.Contains(text, "Example Search") || !strings.Contains(text, "(company 1)") || !strings.Contains(text, "network_shares is set") {
		t.Error(text)
	}

	// Leaving the first, whose membership lies in the data folder itself, leaves the other alone.
	if said := v.ok("leave", a.Network[:10]); !strings.Contains(said, "goes on for the one that is left") {
		t.Error(said)
	}
	st = v.statusOf(func(st *status) bool { return len(st.Networks) == 1 && st.Networks[0].Threads == 5 })
	if st.Peer != b.Peer || st.Networks[0].Share != 1 {
		t.Errorf("%+v", st)
	}
	data := filepath.Join(v.dir, "data")
	if _, err := wire.LoadKept(data); !errors.Is(err, wire.ErrNotJoined) {
		t.Error(err)
	}
	if said := v.ok("leave"); !strings.Contains(said, "has left the network") {
		t.Error(said)
	}
	select {
	case c := <-code:
		if c != 0 {
			t.Errorf("%d %s", c, out.String())
		}
	case <-time.After(time.Minute):
		t.Error("never ends")
	}
	if all, err := peer.Memberships(data); len(all) != 0 || err != nil {
		t.Error(all, err)
	}
	// Who comes back has the identity of before.
	v.ok("join", joins[1], "--yes", "--no-limits")
	all, err := peer.Memberships(data)
	if err != nil || len(all) != 1 || all[0].Dir == data || all[0].Company != "Example Search" {
		t.Errorf("%+v %v", all, err)
	}
}

// TestPlaces says in words why a network cannot be joined.
func TestPlaces(t *testing.T) {
	joins := []string{manager(t), manager(t)}
	v := newVolunteer(t)
	v.ok("join", joins[0], "--yes", "--no-limits")
	v.env = append(v.env, "SHOAL_PEER_THREADS=1")
	if code, said := v.do("join", joins[1], "--yes"); code != 1 || !strings.Contains(said, "may fetch from 1 site only, for Example Search; raise the setting threads first") {
		t.Errorf("%d %s", code, said)
	}
	for _, bad := range []string{"", "shoal-join-", joins[1][:len(joins[1])-7], joins[1][:40], "hello", strings.Repeat("x", 1<<20)} {
		code, said := v.do("join", bad, "--yes")
		if code != 1 || len(said) > 400 || !strings.Contains(said, "join string") {
			t.Errorf("%.50s: %d %s", bad, code, said)
		}
	}
}

func TestShareWeights(t *testing.T) {
	list := []string{"abcdefgh=2", "abcdefgx = 7", "broken", "mnopqrst=0"}
	for id, want := range map[string]int{"abcdefghijkl": 2, "abcdefgxxxxx": 7, "mnopqrstuvwx": 1, "zzzzzzzzzzzz": 1} {
		if got := weightOf(list, id); got != want {
			t.Errorf("%s: %d, want %d", id, got, want)
		}
	}
}

// TestRatesAreShared: those who work share the rates by their weights; one who rests may begin with its share.
func TestRatesAreShared(t *testing.T) {
	p := &program{meter: limit.NewMeter(nil)}
	f := &limit.Force{DownKiBPerS: limit.Cap{Value: 100}}
	for i, w := range []int{1, 3} {
		a, err := peer.New(peer.Config{Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		n := &network{p: p, agent: a, meter: p.meter.Part(nil), at: peer.Membership{Dir: string(rune('a' + i))}}
		n.part.Store(&part{weight: w, of: 4})
		p.nets.add(n)
	}
	p.shareRates(f)
	for i, want := range []int{100, 100} { // nobody works
		if down, up := p.nets.all()[i].meter.Rates(); down != want || up != 0 {
			t.Errorf("%d: %d %d", i, down, up)
		}
	}
}

// TestPauseOfAll: all networks pause, also where the pause of one cannot be kept on disk.
func TestPauseOfAll(t *testing.T) {
	p := &program{}
	for i, dir := range []string{filepath.Join(t.TempDir(), "gone"), t.TempDir()} {
		a, err := peer.New(peer.Config{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		p.nets.add(&network{p: p, agent: a, at: peer.Membership{Dir: string(rune('a' + i))}})
	}
	if err := p.do("pause", nil); err == nil {
		t.Error("it is not told that a pause is not kept")
	}
	for i, n := range p.nets.all() {
		if m := n.agent.Status().Mode; m != "paused" {
			t.Errorf("network %d is %s", i, m)
		}
	}
}

// TestOrdersReachWhoIsAway: an order to all networks is in force for one whose agent has ended and comes back, also where it was paused on disk.
func TestOrdersReachWhoIsAway(t *testing.T) {
	for _, tt := range []struct{ before, order, want string }{
		{"finish", "resume", "open"}, {"pause", "resume", "open"}, {"resume", "finish", "finish"}, {"resume", "pause", "paused"}, {"pause", "drain", "drain"},
	} {
		p := &program{log: slog.New(slog.DiscardHandler)}
		dir, other := t.TempDir(), t.TempDir()
		agent := func(dir string) *network {
			a, err := peer.New(peer.Config{Dir: dir})
			if err != nil {
				t.Fatal(err)
			}
			return &network{p: p, agent: a, at: peer.Membership{Dir: dir}, left: make(chan struct{})}
		}
		p.nets.add(agent(other))
		n := agent(dir)
		p.nets.add(n)
		if err := p.do(tt.before, nil); err != nil {
			t.Fatal(err)
		}
		p.nets.remove(n)
		if err := p.do(tt.order, nil); err != nil {
			t.Fatal(err)
		}
		for range 2 { // also when it ends once more
			n = agent(dir)
			n.do(p.nets.wished(dir))
			p.nets.add(n)
			if m := n.agent.Status().Mode; m != tt.want {
				t.Errorf("%s, then %s while it is away: it comes back with %s, want %s", tt.before, tt.order, m, tt.want)
			}
			p.nets.remove(n)
		}
	}
	p := &program{}
	p.nets.away("broken")
	if err := p.do("finish", nil); err != nil || p.nets.wished("broken").order != "finish" {
		t.Errorf("an order does not reach a network that has not run: %v", err)
	}
}

// TestOneCeilingOfThreads: a network whose part has shrunk below what it runs makes others wait.
func TestOneCeilingOfThreads(t *testing.T) {
	set := defaults()
	p := &program{set: set}
	early := time.Date(2026, 11, 22, 0, 30, 0, 0, time.Local)
	for i := range 2 {
		a, err := peer.New(peer.Config{Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		u, err := limit.OpenUsage(filepath.Join(t.TempDir(), "usage"), func() time.Time { return early })
		if err != nil {
			t.Fatal(err)
		}
		p.nets.add(&network{p: p, agent: a, usage: u, at: peer.Membership{Dir: string(rune('a' + i))}})
	}
	p.divide()
	limit.NewMeter(p.nets.all()[1].usage).Count(6<<20, 0)
	over := func(f *limit.Force, now time.Time, want ...string) {
		t.Helper()
		for i, got := range p.overShares(p.nets.all(), f, now) {
			if text := got.In(words.English); !strings.Contains(text, want[i]) || text != "" && want[i] == "" {
				t.Errorf("%d: %q, want %q", i, text, want[i])
			}
		}
	}
	day := &limit.Force{DayMiB: limit.Cap{Value: 10, Source: "your settings"}} // the second has used its half of it and 1 MiB more
	over(day, early, "", "is used up (your settings), until 01:00")
	over(day, early.Add(5*time.Hour), "", "") // what the first one could have used by then, and did not
	for i, want := range []int{3, 2} {
		if n := p.nets.all()[i]; n.allowed != want || n.agent.Status().Threads != want {
			t.Errorf("%d: %d threads, want %d", i, n.allowed, want)
		}
	}
	set.Threads = 1
	p.live.Store(&set)
	p.divide()
	for _, c := range []struct{ parts, running, want []int }{
		{[]int{5}, []int{5}, []int{5}},
		{[]int{3, 2}, []int{5, 0}, []int{3, 0}},
		{[]int{3, 2}, []int{4, 0}, []int{3, 1}},
		{[]int{3, 2}, []int{4, 1}, []int{3, 1}},
		{[]int{1, 2}, []int{2, 1}, []int{1, 1}},
		{[]int{2, 2, 1}, []int{5, 0, 0}, []int{2, 0, 0}},
		{[]int{2, 2, 1}, []int{3, 1, 0}, []int{2, 1, 1}},
		{[]int{3, 2}, []int{3, 2}, []int{3, 2}},
	} {
		if got := allowed(c.parts, c.running); !slices.Equal(got, c.want) {
			t.Errorf("%v with %v: %v, want %v", c.parts, c.running, got, c.want)
		}
	}
	over(&limit.Force{}, early, "", "there are more networks than sites")
}

// TestDamagedMembership has one network's membership damaged on the disk. The other is crawled for, and the damaged one can be left.
func TestDamagedMembership(t *testing.T) {
	v := newVolunteer(t)
	data := filepath.Join(v.dir, "data")
	v.ok("join", manager(t), "--yes", "--no-limits")
	other := filepath.Join(data, "networks", "x")
	if err := errors.Join(os.MkdirAll(other, 0o700), os.WriteFile(filepath.Join(other, "membership"), []byte("damaged"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if is, err := peer.IsMember(data); !is || err != nil {
		t.Error(is, err)
	}
	if all, err := peer.Memberships(data); len(all) != 1 || err == nil {
		t.Error(all, err)
	}
	if code, said := v.do("leave"); code != 1 || !strings.Contains(said, "leave the network, and join again") {
		t.Errorf("%d %s", code, said)
	}
	if err := errors.Join(os.RemoveAll(other), os.WriteFile(filepath.Join(data, "membership"), []byte("damaged"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if is, err := peer.IsMember(data); is || err == nil {
		t.Error(is, err)
	}
	v.ok("leave")
	v.ok("join", manager(t), "--yes", "--no-limits")
}

// TestLeftWhateverGoesWrong: a volunteer who leaves a network is out of it, though its agent ends with an error and counters cannot be written, as on a full disk.
func TestLeftWhateverGoesWrong(t *testing.T) {
	p := limited(t, defaults())
	dir, gone := t.TempDir(), t.TempDir()
	kept := filepath.Join(dir, "membership")
	if err := os.WriteFile(kept, []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	usage, err := limit.OpenUsage(filepath.Join(gone, "share.json"), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(gone); err != nil {
		t.Fatal(err)
	}
	usage.Count(time.Now(), limit.Tally{Pages: 1})
	if usage.Save() == nil {
		t.Fatal("counters are written into a folder that is not there")
	}
	a, err := peer.New(peer.Config{Dir: dir, Log: p.log})
	if err != nil {
		t.Fatal(err)
	}
	n := &network{p: p, agent: a, at: peer.Membership{Dir: dir}, usage: usage, left: make(chan struct{})}
	n.leave(true)
	if err := n.run(t.Context(), t.Context()); err != nil {
		t.Errorf("it runs again: %v", err)
	}
	if _, err := os.Stat(kept); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is a member still: %v", err)
	}
}

// TestUnevenShares: a small share is not none, and a large one beside it is not all.
func TestUnevenShares(t *testing.T) {
	for share, want := range map[float64]string{0: "0%", .001: "<1%", .005: "<1%", .006: "1%", .5: "50%", .994: "99%", .999: ">99%", 1: "100%"} {
		if got := percent(share); got != want {
			t.Errorf("%v is %s, want %s", share, got, want)
		}
	}
	for running, want := range map[int]string{2: "2 of 2", 3: "3, begun before there were only 2 at a time"} {
		if got := ofThreads(running, 2); got != want {
			t.Errorf("%d of 2: %s", running, got)
		}
	}
}
