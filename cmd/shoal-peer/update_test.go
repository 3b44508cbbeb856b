package main

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shoal/internal/member"
	"shoal/internal/release"
	"shoal/peer"
)

// updating is an updater of a volunteer's folder in which agents of some memberships run.
func updating(t *testing.T, data string, run ...peer.Membership) *updater {
	t.Helper()
	set := defaults()
	set.Data = data
	p := limited(t, set)
	for _, m := range run {
		a, err := peer.New(peer.Config{Dir: m.Dir, Log: p.log})
		if err != nil {
			t.Fatal(err)
		}
		p.nets.add(&network{p: p, agent: a, at: m, left: make(chan struct{})})
	}
	return newUpdater(&station{set: set, log: slog.New(slog.DiscardHandler), peer: p}, time.Minute)
}

// TestUpdatesComeFromTheFirstNetwork: while the network that was joined first does not run, no other one's programs are taken; once it is left, those of the
// one that was joined next are, whatever is joined and left after.
func TestUpdatesComeFromTheFirstNetwork(t *testing.T) {
	v := newVolunteer(t)
	data := filepath.Join(v.dir, "data")
	for range 3 {
		v.ok("join", manager(t), "--yes", "--no-limits")
	}
	all, err := peer.Memberships(data)
	if err != nil || len(all) != 3 || all[0].Dir != data {
		t.Fatal(all, err)
	}
	from := func(what string, want *peer.Membership, run ...peer.Membership) {
		t.Helper()
		u := updating(t, data, run...)
		a, err := u.agent()
		if want == nil {
			if a != nil || !errors.Is(err, errResting) {
				t.Errorf("%s: another network's releases are taken: %v", what, err)
			}
			return
		}
		if err != nil || a == nil {
			t.Errorf("%s: %v", what, err)
			return
		}
		for _, n := range u.s.running().nets.all() {
			if n.agent == a && n.at.Dir != want.Dir {
				t.Errorf("%s: the releases of %s are taken, want those of %s", what, n.at.Dir, want.Dir)
			}
		}
	}
	root, first, last := all[0], all[2], all[1] // by name; the keys tell who was joined first
	for i, m := range []peer.Membership{first, last} {
		at := time.Now().Add(time.Duration(i-9) * time.Hour)
		if err := os.Chtimes(filepath.Join(m.Dir, "node.key"), at, at); err != nil {
			t.Fatal(err)
		}
	}
	from("all run", &root, root, last, first)
	from("the first does not run", nil, last, first)
	if _, err := peer.Forget(data); err != nil {
		t.Fatal(err)
	}
	from("the first was left", &first, last, first)
	early := time.Now().Add(-99 * time.Hour)
	if err := os.Chtimes(filepath.Join(last.Dir, "node.key"), early, early); err != nil {
		t.Fatal(err)
	}
	from("a key looks older after a restore", &first, last, first)
	from("the next does not run", nil, last)
	if _, err := peer.Forget(first.Dir); err != nil {
		t.Fatal(err)
	}
	from("only one is left", &last, last)

	// What cannot be read may be the one.
	if err := os.WriteFile(filepath.Join(data, "membership"), []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	if a, err := updating(t, data, last).agent(); a != nil || err == nil {
		t.Errorf("another network's releases are taken while the first one's membership is damaged: %v", err)
	}
}

// TestUpdatesComeFromTheNextJoined: once the first network is left, the one that was joined next brings the updates, not one that was only looked at before that, nor
// one that was left and joined again.
func TestUpdatesComeFromTheNextJoined(t *testing.T) {
	v := newVolunteer(t)
	data := filepath.Join(v.dir, "data")
	first, looked, again, next := manager(t), manager(t), manager(t), manager(t)
	v.ok("join", first, "--yes", "--no-limits")
	v.in = strings.NewReader("n\n")
	if code, said := v.do("join", looked); code != 0 {
		t.Fatal(code, said)
	}
	v.ok("join", again, "--yes", "--no-limits")
	v.ok("leave", nameOf(t, again))
	v.ok("join", next, "--yes", "--no-limits")
	v.ok("join", looked, "--yes", "--no-limits")
	v.ok("join", again, "--yes", "--no-limits")
	v.ok("leave", nameOf(t, first))
	m, is, err := peer.Oldest(data, "")
	if err != nil || !is || m.Network.String() != nameOf(t, next) {
		t.Errorf("%+v, %v, %v: want the network that was joined next", m, is, err)
	}
	v.ok("join", looked, "--yes", "--no-limits") // its membership is brought up to date
	v.ok("leave", nameOf(t, next))
	if m, is, err = peer.Oldest(data, ""); err != nil || !is || m.Network.String() != nameOf(t, looked) {
		t.Errorf("%+v, %v, %v: want the network that was joined after that", m, is, err)
	}
}

// nameOf is the name of the network of a join string.
func nameOf(t *testing.T, join string) string {
	t.Helper()
	j, err := member.ParseJoinString(join)
	if err != nil {
		t.Fatal(err)
	}
	return j.Network.String()
}

// TestSignsOfTasks: a task that ended with a report counts as one that came to its end, also where its site is dead; one that is held or was mislaid does not.
func TestSignsOfTasks(t *testing.T) {
	for name, c := range map[string]struct {
		did     peer.Counters
		running int
		want    release.Sign
	}{
		"nothing yet":                     {peer.Counters{}, 0, release.Sign{}},
		"one is held":                     {peer.Counters{Accepted: 1}, 1, release.Sign{Taken: true}},
		"its site is dead":                {peer.Counters{Accepted: 1, Failed: 1}, 0, release.Sign{Taken: true, Idle: true, Ended: 1}},
		"another one is held":             {peer.Counters{Accepted: 2, Failed: 1}, 1, release.Sign{Taken: true, Ended: 1}},
		"it was called back":              {peer.Counters{Accepted: 1, Stopped: 1}, 0, release.Sign{Taken: true, Idle: true}},
		"it was mislaid":                  {peer.Counters{Accepted: 1, Lost: 1}, 0, release.Sign{Taken: true}},
		"the first was mislaid":           {peer.Counters{Accepted: 2, Lost: 1, Failed: 1}, 0, release.Sign{Taken: true, Idle: true, Ended: 1}},
		"one came to its end as it shall": {peer.Counters{Accepted: 2, Updated: 1}, 1, release.Sign{Taken: true, Finished: true, Ended: 1}},
	} {
		var st status
		st.Counters = c.did
		st.Running = make([]peer.TaskStatus, c.running)
		if got := signOf(&st, false); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
