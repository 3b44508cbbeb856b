package release

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestVersions(t *testing.T) {
	rising := []string{"v0.1.0", "v0.1.1-alpha", "v0.1.1-alpha.2", "v0.1.1-beta.1", "v0.1.1-rc.1", "v0.1.1-rc.10", "v0.1.1", "v0.2.0", "v0.10.0", "v1.0.0"}
	for i, a := range rising {
		v, err := Parse(a)
		if err != nil || v.String() != a {
			t.Errorf("Parse(%q) = %v, %v", a, v, err)
		}
		for k, b := range rising {
			if got := Newer(a, b); got != (i > k) {
				t.Errorf("Newer(%s, %s) = %v", a, b, got)
			}
		}
	}
	for _, bad := range []string{"", "devel", "v1", "v1.2", "v1.2.3.4", "v1.2.3-4-gabcdef0", "v1.2.3-dirty", "v01.2.3", "v1.2.-3", "v1.2.3-rc.x", "v1.2.3+b", "v1.2.9999999", "../../x", "v1.2.3/", strings.Repeat("1", 99)} {
		if v, err := Parse(bad); err == nil {
			t.Errorf("Parse(%q) = %v", bad, v)
		}
		if Newer(bad, "v0.0.1") || Newer("v9.9.9", bad) {
			t.Errorf("%q has a place among the versions", bad)
		}
	}
}

// TestShares checks that a larger share contains a smaller one, and that shares are about as large as they say.
func TestShares(t *testing.T) {
	const peers = 20_000
	counts := map[int]int{}
	same := 0
	for i := range peers {
		id := fmt.Sprint("peer", i)
		last := false
		for _, share := range []int{0, 100, 1000, 5000, Whole} {
			in := In("v1.2.3", id, share)
			if last && !in {
				t.Fatalf("%s is in a smaller share and not in %d", id, share)
			}
			if last = in; in {
				counts[share]++
			}
		}
		if In("v1.2.3", id, 1000) && In("v1.2.4", id, 1000) {
			same++
		}
	}
	for share, n := range counts {
		if want := peers * share / Whole; n < want*9/10 || n > want*11/10 {
			t.Errorf("%d of %d peers are in a share of %d", n, peers, share)
		}
	}
	if counts[0] != 0 || counts[Whole] != peers || same > peers/50 {
		t.Errorf("shares %v, in the first tenth twice %d", counts, same)
	}
}

var verdicts = []string{GoOn: "go on", Keep: "keep", FallBack: "fall back"}

var update = flag.Bool("update", false, "write testdata anew")

// TestProbations plays testdata/probations.txt: each line is a time that passes and what is seen after it, or a crash.
func TestProbations(t *testing.T) {
	const file = "testdata/probations.txt"
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	times := InMinutes(time.Minute)
	var out strings.Builder
	var p Probation
	for line := range strings.Lines(string(b)) {
		line, _, _ = strings.Cut(strings.TrimSuffix(line, "\n"), " -> ")
		out.WriteString(line)
		words := strings.Fields(line)
		switch {
		case len(words) == 0 || line[0] == '#':
			p = Probation{}
		case words[0] == "crash":
			v, why := p.Crash()
			fmt.Fprintf(&out, " -> %s", strings.TrimSpace(verdicts[v]+" "+why))
		default:
			d, err := time.ParseDuration(words[0])
			if err != nil {
				t.Fatal(err)
			}
			has := func(w string) bool { return slices.Contains(words, w) }
			s := Sign{Paused: has("paused"), Online: has("online"), Member: has("member"), Taken: has("taken"), Finished: has("finished"), Idle: has("idle")}
			for i := range 10 {
				if has(fmt.Sprint("ended-", i)) {
					s.Ended = i
				}
			}
			v, why := GoOn, ""
			if has("asleep") {
				v, why = p.Look(times, d, s)
			} else {
				for ; d > 0 && v == GoOn; d -= times.Step {
					v, why = p.Look(times, min(d, times.Step), s)
				}
			}
			fmt.Fprintf(&out, " -> %s", strings.TrimSpace(verdicts[v]+" "+why))
		}
		out.WriteString("\n")
	}
	if *update {
		if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if out.String() != string(b) {
		t.Errorf("got\n%s\nwant\n%s", out.String(), b)
	}
}

// TestProbationEnds checks that no order of what is seen lets a program stay on probation for ever, or keeps one that came to the end of nothing and holds what
// it was given.
func TestProbationEnds(t *testing.T) {
	times := InMinutes(time.Minute)
	rapid.Check(t, func(t *rapid.T) {
		var p Probation
		flip := rapid.Bool()
		most := times.Member + times.Task + times.Quiet
		taken, ended := false, 0
		for passed := time.Duration(0); passed <= most; passed += times.Step {
			s := Sign{Online: true, Member: flip.Draw(t, "member"), Taken: taken || rapid.IntRange(0, 400).Draw(t, "taken") == 0}
			taken = s.Taken
			s.Idle = taken && rapid.IntRange(0, 3).Draw(t, "idle") == 0
			if taken && rapid.IntRange(0, 400).Draw(t, "ended") == 0 {
				ended++
			}
			s.Ended = ended
			v, why := p.Look(times, times.Step, s)
			if v == FallBack && why == "" || v == Keep && taken && !s.Idle && ended == 0 {
				t.Fatalf("%s %q after %v: %+v", verdicts[v], why, passed, p)
			}
			if v != GoOn {
				return
			}
		}
		t.Fatalf("on probation after %v: %+v", most, p)
	})
}

func report(i int, version string, falls ...Fall) Report {
	return Report{Peer: fmt.Sprint("peer", i), Account: fmt.Sprint("account", i), Prefix: fmt.Sprint("net", i), Version: version, Setting: "auto", Falls: falls, At: time.Unix(1e9, 0)}
}

// TestOneParty has one party fail loudly, with many peers of one account in many networks and many accounts in one network. That stops no release; a
// third party that fails does.
func TestOneParty(t *testing.T) {
	b := NewBook(Rollout{Version: "v1.1.0", Share: 1000}, nil)
	for i := range 60 {
		b.Told(report(i, "v1.1.0"))
	}
	fall := Fall{"v1.1.0", "crashed 3 times"}
	for i := 100; i < 150; i++ {
		r := report(i, "v1.0.0", fall)
		r.Account = "one"
		b.Told(r)
		r = report(100+i, "v1.0.0", fall)
		r.Prefix = "one"
		b.Told(r)
	}
	if b.Rollout.Stopped != "" {
		t.Error("one party stops a release:", b.Rollout.Stopped)
	}
	if changed, _ := b.Told(report(1000, "v1.0.0", fall)); !changed || b.Rollout.Stopped == "" {
		t.Error("a third party that fails does not stop it")
	}
	// Many peers of one party among a thousand that run well.
	b = NewBook(Rollout{Version: "v1.1.0", Share: 1000}, nil)
	for i := range 1000 {
		b.Told(report(i, "v1.1.0"))
	}
	for i := 2000; i < 2100; i++ {
		r := report(i, "v1.0.0", fall)
		r.Account, r.Prefix = fmt.Sprint("account", i%4), fmt.Sprint("net", i%4)
		b.Told(r)
	}
	if b.Rollout.Stopped != "" {
		t.Error("four accounts of a thousand stop a release:", b.Rollout.Stopped)
	}
}

// TestSummaryOfNothing is in JSON what any other summary is: a list without items is a list.
func TestSummaryOfNothing(t *testing.T) {
	b, err := json.Marshal(NewBook(Rollout{}, nil).Summary(time.Unix(1e9, 0)))
	if err != nil || strings.Contains(string(b), "null") {
		t.Errorf("%s, %v", b, err)
	}
}

// TestStopped keeps a stopped roll-out stopped over a restart, until an operator insists; a new version starts afresh.
func TestStopped(t *testing.T) {
	now := time.Unix(1e9, 0)
	b := NewBook(Rollout{Version: "v1.1.0", Share: 100}, nil)
	changed := false
	for i := range 3 {
		if b.Rollout.Stopped != "" {
			t.Fatal("stopped by", i)
		}
		changed, _ = b.Told(report(i, "v1.0.0", Fall{"v1.1.0", strings.Repeat("x", 1000)}))
	}
	if !changed || !strings.Contains(b.Rollout.Stopped, "3 of 3") {
		t.Fatalf("%v %+v", changed, b.Rollout)
	}
	b = NewBook(b.Rollout, b.Reports())
	if err := b.Roll(now, "v1.1.0", 5000, false); err == nil || b.Rollout.Share != 100 {
		t.Errorf("a stopped roll-out is widened: %+v", b.Rollout)
	}
	if s := b.Summary(now); s.Fell != 3 || s.Took != 3 || len(s.Runs) != 2 || s.Runs[0].Version != "v1.1.0" || s.Runs[0].Fell != 3 || s.Why[strings.Repeat("x", MaxWhy)] != 3 {
		t.Errorf("%+v", s)
	}
	if err := b.Roll(now, "v1.1.0", 5000, true); err != nil || b.Rollout.Stopped != "" {
		t.Error(err, b.Rollout)
	}
	if err := b.Roll(now, "v1.1.1", 100, false); err != nil || b.Rollout.Version != "v1.1.1" {
		t.Error(err, b.Rollout)
	}
	b.Stop("by an operator")
	if b.Rollout.Stopped == "" {
		t.Error("goes on")
	}
	for _, bad := range []struct {
		version string
		share   int
	}{{"devel", 1}, {"v1.2.0", -1}, {"v1.2.0", Whole + 1}} {
		if b.Roll(now, bad.version, bad.share, true) == nil {
			t.Error(bad)
		}
	}
}

// TestGoesOnAllTheSame: once an operator has a stopped roll-out go on, only those stop it again that fall back from then on, also over a restart, at another
// manager, and where a peer says again what it has said before.
func TestGoesOnAllTheSame(t *testing.T) {
	began := time.Unix(1e9, 0)
	fall := Fall{"v1.1.0", "crashed 3 times"}
	at := func(d time.Duration, i int, version string, falls ...Fall) Report {
		r := report(i, version, falls...)
		r.At = began.Add(d)
		return r
	}
	b := NewBook(Rollout{Version: "v1.1.0", Share: Whole, Since: began}, nil)
	for i := range 40 {
		b.Told(at(time.Minute, i, "v1.1.0"))
	}
	for i := range 5 {
		b.Told(at(2*time.Minute, i, "v1.0.0", fall))
	}
	if !strings.Contains(b.Rollout.Stopped, "fell back") {
		t.Fatal("it goes on")
	}
	if err := b.Roll(began.Add(time.Hour), "v1.1.0", Whole, true); err != nil {
		t.Fatal(err)
	}
	other := NewBook(b.Rollout, nil) // of a manager that learns of all of it later
	other.Told(at(2*time.Hour, 0, "v1.0.0", fall))
	other.Merge(b.Reports())
	for name, b := range map[string]*Book{"the manager": b, "after a restart": NewBook(b.Rollout, b.Reports()), "another manager": other} {
		for i := range 5 {
			b.Told(at(3*time.Hour, i, "v1.0.0", fall, Fall{"v1.0.9", "crashed 3 times"}))
		}
		if err := b.Roll(began.Add(3*time.Hour), "v1.1.0", Whole/2, false); err != nil {
			t.Errorf("%s cannot narrow it: %v", name, err)
		}
		if b.Told(at(4*time.Hour, 5, "v1.0.0", fall)); b.Rollout.Stopped != "" {
			t.Errorf("%s: the next report of a fall stops it: %s", name, b.Rollout.Stopped)
		}
		for i := 6; i < 8; i++ {
			b.Told(at(5*time.Hour, i, "v1.0.0", fall))
		}
		if !strings.Contains(b.Rollout.Stopped, "3 of 35 peers that took it fell back since") {
			t.Errorf("%s: three that fall back from now on do not stop it: %+v", name, b.Rollout)
		}
	}
}

// TestTenThousand rolls a release that fails on 3% of 10,000 peers out to 1%, then 10%, and so on, and counts those that meet the failure before it stops.
func TestTenThousand(t *testing.T) {
	for seed := range uint64(5) {
		rng := rand.New(rand.NewPCG(seed, 1))
		b := NewBook(Rollout{}, nil)
		now := time.Unix(1e9, 0)
		took, fell := 0, 0
		has := map[int]bool{}
		for _, share := range []int{100, 1000, 5000, Whole} {
			if b.Roll(now, "v1.1.0", share, false) != nil {
				break
			}
			for _, i := range rng.Perm(10_000) {
				if b.Rollout.Stopped != "" || has[i] || !In("v1.1.0", fmt.Sprint("peer", i), b.Rollout.Share) {
					continue
				}
				has[i] = true
				took++
				r := report(i, "v1.1.0")
				r.Prefix = fmt.Sprint("net", i%500)
				b.Told(r)
				if rng.Float64() < .03 {
					fell++
					r.Version, r.Falls = "v1.0.0", []Fall{{"v1.1.0", "crashed 3 times"}}
					b.Told(r)
				}
			}
		}
		t.Logf("seed %d: %d peers took it, %d fell back: %s", seed, took, fell, b.Rollout.Stopped)
		if b.Rollout.Stopped == "" || took > 1200 {
			t.Errorf("seed %d: %d of 10,000 peers took a release that fails on 3%%: %+v", seed, took, b.Rollout)
		}
		if s := b.Summary(now); s.Took != took || s.Fell != fell {
			t.Errorf("seed %d: the summary counts %d and %d, want %d and %d", seed, s.Took, s.Fell, took, fell)
		}
	}
}

// TestCrowd bounds what is kept of peers.
func TestCrowd(t *testing.T) {
	b := NewBook(Rollout{}, nil)
	for i := range MaxPeers + 10 {
		r := Report{Peer: fmt.Sprint(i), Version: strings.Repeat("v", 1000), At: time.Unix(int64(i), 0)}
		if i > MaxPeers {
			r.Falls = make([]Fall, 100)
		}
		b.Told(r)
	}
	if n := len(b.peers); n > MaxPeers {
		t.Error(n)
	}
	if r, ok := b.peers[fmt.Sprint(MaxPeers+9)]; !ok || len(r.Version) > 2*MaxVersion || len(r.Falls) != MaxFalls {
		t.Errorf("%+v", r)
	}
}

// TestFifthFall counts a fall of computers that have told of as many others as are kept: one of those makes room.
func TestFifthFall(t *testing.T) {
	var falls []Fall
	for i := range MaxFalls {
		falls = append(falls, Fall{Version: fmt.Sprintf("v1.0.%d", i), Why: "crashed 3 times"})
	}
	b := NewBook(Rollout{Version: "v1.1.0", Share: Whole}, nil)
	for i := range StopParties {
		b.Told(report(i, "v1.1.0", falls...))
	}
	for i := range StopParties {
		b.Told(report(i, "v1.0.9", append(slices.Clone(falls[1:]), Fall{"v1.1.0", "crashed 3 times"})...))
	}
	if b.Rollout.Stopped == "" {
		t.Error("the roll-out goes on, although all fell back")
	}
}

// TestNews tells reports that say something new from those that say the same again.
func TestNews(t *testing.T) {
	b := NewBook(Rollout{}, nil)
	r := Report{Peer: "a", Version: "v1.0.0", Setting: "auto", Falls: []Fall{{Version: "v1.1.0", Why: "crashed 3 times"}}, At: time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)}
	again := func(change func(*Report)) bool {
		r.At = r.At.Add(time.Hour)
		change(&r)
		_, news := b.Told(r)
		return news
	}
	for _, c := range []struct {
		why    string
		change func(*Report)
		want   bool
	}{
		{"the first one", func(*Report) {}, true},
		{"the same", func(*Report) {}, false},
		{"another version", func(r *Report) { r.Version = "v1.2.0" }, true},
		{"on probation", func(r *Report) { r.Trial = true }, true},
		{"the same", func(*Report) {}, false},
		{"fell back once more", func(r *Report) { r.Falls = []Fall{{Version: "v1.2.0"}} }, true},
		{"another network", func(r *Report) { r.Prefix = "10.0.0.0/24" }, true},
	} {
		if got := again(c.change); got != c.want {
			t.Errorf("%s: %v", c.why, got)
		}
	}
	if all := b.Reports(); len(all) != 1 || !all[0].At.Equal(r.At) {
		t.Errorf("%+v", all)
	}
}

// TestBooksMerge has two books learn from each other what each was told: of two reports of a peer the later one counts, nothing goes round, and a roll-out
// stops by falls of which neither was told enough.
func TestBooksMerge(t *testing.T) {
	at := time.Unix(1e9, 0)
	one, two := NewBook(Rollout{Version: "v1.1.0", Share: Whole}, nil), NewBook(Rollout{Version: "v1.1.0", Share: Whole}, nil)
	report := func(peer, version string, after time.Duration, falls ...Fall) Report {
		return Report{Peer: peer, Account: peer, Prefix: peer, Version: version, Setting: "auto", Falls: falls, At: at.Add(after)}
	}
	one.Told(report("moved", "v1.0.0", 0))
	two.Told(report("moved", "v1.1.0", time.Second))
	one.Told(report("a", "v1.0.0", 0, Fall{Version: "v1.1.0"}))
	two.Told(report("b", "v1.0.0", 0, Fall{Version: "v1.1.0"}))
	one.Told(report("c", "v1.0.0", 0, Fall{Version: "v1.1.0"}))
	var read, back uint64
	pull := func(from, to *Book, read *uint64) (n int, stopped bool) {
		for {
			list, next := from.Since(*read, 2)
			if *read = next; len(list) == 0 {
				return n, stopped
			}
			s, _ := to.Merge(list)
			n, stopped = n+len(list), stopped || s
		}
	}
	if n, stopped := pull(one, two, &read); n != 3 || !stopped || two.Rollout.Stopped == "" {
		t.Errorf("%d reports read, stopped %v", n, stopped)
	}
	if n, stopped := pull(two, one, &back); n != 4 || !stopped {
		t.Errorf("%d reports read back, stopped %v", n, stopped)
	}
	for _, of := range []*Book{one, two} {
		if s := of.Summary(at); s.Peers != 4 || s.Took != 4 || s.Fell != 3 {
			t.Errorf("%+v", s)
		}
	}
	pull(one, two, &read)
	if n, _ := pull(two, one, &back); n != 0 {
		t.Errorf("%d reports go round", n)
	}
	two.Told(report("b", "v1.0.0", time.Hour, Fall{Version: "v1.1.0"}))
	if n, _ := pull(two, one, &back); n != 0 {
		t.Error("what a peer says again an hour later is read again")
	}
	two.Told(report("b", "v1.0.0", 25*time.Hour, Fall{Version: "v1.1.0"}))
	if n, _ := pull(two, one, &back); n != 1 {
		t.Error("that a peer was heard a day later is not read")
	}
	one.Told(report("quick", "v1.0.0", time.Minute)) // by a clock that is ahead
	two.Told(report("quick", "v1.1.0", 30*time.Second))
	pull(two, one, &back)
	two.Told(report("quick", "v1.1.0", 2*time.Minute))
	pull(one, two, &read)
	pull(two, one, &back)
	if r := one.Reports(); !slices.ContainsFunc(r, func(r Report) bool { return r.Peer == "quick" && r.Version == "v1.1.0" }) {
		t.Errorf("the manager whose clock is ahead never learns what a peer says at the other: %+v", r)
	}
}
