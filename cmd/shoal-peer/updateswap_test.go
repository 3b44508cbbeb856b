package main

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"shoal/internal/release/carry"
	"shoal/internal/release/programs"
	"shoal/internal/wire"
	"shoal/peer"
	"shoal/peer/queue"
)

// ready is an updater that has a new version, with two networks.
func ready(t *testing.T) (u *updater, a, b *peer.Agent) {
	t.Helper()
	data := t.TempDir()
	u = updating(t, data, peer.Membership{Dir: filepath.Join(data, "a")}, peer.Membership{Dir: filepath.Join(data, "b")})
	u.own, u.minute = "v0.1.0", time.Second
	list := u.s.running().nets.all()
	for _, n := range list {
		if err := os.MkdirAll(n.at.Dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	arrives(t, u, "v0.2.0")
	return u, list[0].agent, list[1].agent
}

// arrives has a version be here, as far as the record of updates tells.
func arrives(t *testing.T, u *updater, version string) {
	t.Helper()
	next := &programs.Program{Version: version, File: "shoal-peer-" + version}
	if runtime.GOOS == "windows" {
		next.File += ".exe"
	}
	if err := u.change(func(st *programs.State) error { return arrived(st, next) }); err != nil {
		t.Fatal(err)
	}
}

// TestUpdateKeepsOrders: a version that is taken by itself waits while any network finishes or drains by an order, and while all are on hold or paused, whatever for. It
// leaves a pause of one network in force.
func TestUpdateKeepsOrders(t *testing.T) {
	u, a, b := ready(t)
	may := func(what string, want bool) {
		t.Helper()
		if u.may() != want {
			t.Errorf("%s: it may take over: %v", what, !want)
		}
	}
	may("both are open", true)
	for order, want := range map[string]bool{"pause": true, "finish": false, "drain": false} {
		if err := a.Do(order, nil); err != nil {
			t.Fatal(err)
		}
		may("for one it was said to "+order, want)
	}
	if err := errors.Join(a.Do("pause", nil), b.Do("pause", nil)); err != nil {
		t.Fatal(err)
	}
	may("both are paused", false)
	if err := b.Do("resume", nil); err != nil {
		t.Fatal(err)
	}
	if err := a.Do("resume", nil); err != nil {
		t.Fatal(err)
	}
	a.Hold("its share of the budget is used up")
	may("one is on hold", true)
	b.Hold("the link is paid by volume")
	may("both are on hold, for two reasons", false)
	a.Hold("")
	b.Hold("")

	if err := a.Do("pause", nil); err != nil {
		t.Fatal(err)
	}
	if err := u.swap(t.Context()); err != nil || !u.done() {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(u.s.running().nets.all()[0].at.Dir, "pause.json")); err != nil || a.Status().Mode != queue.Paused.String() {
		t.Errorf("the pause ends with the update: %s, %v", a.Status().Mode, err)
	}
	if st := b.Status(); st.Mode != queue.Finish.String() || !st.Rests {
		t.Errorf("%+v", st)
	}
}

// TestUpdateThatIsNotTaken: when a version is refused while it is about to take over, what its volunteer has ordered meanwhile stays.
func TestUpdateThatIsNotTaken(t *testing.T) {
	u, a, b := ready(t)
	if err := u.change(func(st *programs.State) error { st.Next = nil; return nil }); err != nil { // refused
		t.Fatal(err)
	}
	u.take = true
	if err := a.Do("pause", nil); err != nil {
		t.Fatal(err)
	}
	if err := u.swap(t.Context()); err == nil || u.done() {
		t.Error("a version that was refused takes over")
	}
	if x, y := a.Status().Mode, b.Status().Mode; x != queue.Paused.String() || y != queue.Open.String() {
		t.Errorf("after that they are %s and %s", x, y)
	}

	// An order for a network that finishes for the update keeps it away.
	u.take = false
	list := u.s.running().nets.all()
	if err := a.Do("resume", nil); err != nil || !a.Rest() || !b.Rest() || a.Status().Mode != queue.Finish.String() {
		t.Fatal(err)
	}
	before := u.s.running().statuses()
	if ordered(before, before, list) {
		t.Error("there was no order")
	}
	for _, order := range []string{"pause", "finish", "resume", "drain"} {
		if err := a.Do(order, nil); err != nil {
			t.Fatal(err)
		}
		if !ordered(u.s.running().statuses(), before, list) {
			t.Errorf("%s does not keep the update away", order)
		}
	}
	a.Rouse()
	b.Rouse()
	if x, y := a.Status().Mode, b.Status().Mode; x != queue.Drain.String() || y != queue.Open.String() {
		t.Errorf("after an order they are %s and %s", x, y)
	}
	if err := u.swap(t.Context()); !errors.Is(err, errOrdered) || b.Status().Mode != queue.Open.String() {
		t.Errorf("%v, and then the other one is %s", err, b.Status().Mode)
	}
}

// TestSignsOfSeveralNetworks: a version is on probation while one network is worked for, and not while one is paused and the other on hold.
func TestSignsOfSeveralNetworks(t *testing.T) {
	open, paused, held := peer.Status{Mode: queue.Open.String()}, peer.Status{Mode: queue.Paused.String()}, peer.Status{Mode: queue.Open.String(), Hold: "the link is paid by volume"}
	for _, c := range []struct {
		of   []peer.Status
		want bool
	}{{[]peer.Status{open, open}, false}, {[]peer.Status{paused, open}, false}, {[]peer.Status{paused, held}, true}, {[]peer.Status{held, held}, true}, {[]peer.Status{open}, false}, {[]peer.Status{held}, true}} {
		var of []said
		st := &status{}
		for _, x := range c.of {
			of = append(of, said{Status: x})
			st.Networks = append(st.Networks, networkTold{Status: x})
		}
		st.Status = together(of)
		if got := signOf(st, false).Paused; got != c.want {
			t.Errorf("%+v: paused %v", c.of, got)
		}
	}
}

// TestOneServerIsAway: a version that is connected to one of several networks has connected, whichever that is.
func TestOneServerIsAway(t *testing.T) {
	there := peer.Status{Home: wire.Home{At: "12D3"}}
	for _, of := range [][]peer.Status{{there, {}}, {{}, there}} {
		st := &status{Status: together([]said{{Status: of[0]}, {Status: of[1]}}), Networks: []networkTold{{Status: of[0]}, {Status: of[1]}}}
		if !signOf(st, false).Member {
			t.Errorf("%+v: it is told that it has not connected", of)
		}
	}
	if signOf(&status{Networks: make([]networkTold, 2)}, false).Member {
		t.Error("it is told that it has connected")
	}
}

// TestPauseOfAllEnds: a pause of an hour of several networks, whose clocks differ a little, ends; one without an end among them does not.
func TestPauseOfAllEnds(t *testing.T) {
	now := time.Now()
	paused := func(until time.Time) said {
		return said{Status: peer.Status{Mode: queue.Paused.String(), Until: until}}
	}
	late := now.Add(time.Hour + time.Second)
	if got := together([]said{paused(now.Add(time.Hour)), paused(late), paused(now.Add(time.Hour))}); !got.Until.Equal(late) || got.Mode != queue.Paused.String() {
		t.Errorf("%s until %v, want %v", got.Mode, got.Until, late)
	}
	if got := together([]said{paused(now.Add(time.Hour)), paused(time.Time{})}); !got.Until.IsZero() {
		t.Errorf("until %v", got.Until)
	}
	if got := together([]said{paused(now.Add(time.Hour)), {Status: peer.Status{Mode: queue.Open.String()}}}); !got.Until.IsZero() || got.Mode != queue.Open.String() {
		t.Errorf("%s until %v", got.Mode, got.Until)
	}
}

// TestAllRest: where one network is paused and the other one drained, the computer is not told as one that works, and icon and page offer to go on.
func TestAllRest(t *testing.T) {
	of := func(modes ...queue.Mode) (list []said) {
		for _, m := range modes {
			list = append(list, said{Status: peer.Status{Mode: m.String()}})
		}
		return list
	}
	for _, c := range []struct {
		modes []queue.Mode
		open  bool
	}{{[]queue.Mode{queue.Paused, queue.Drain}, false}, {[]queue.Mode{queue.Finish, queue.Paused, queue.Paused}, false}, {[]queue.Mode{queue.Paused, queue.Open}, true}, {[]queue.Mode{queue.Open, queue.Drain}, true}} {
		st := &status{Status: together(of(c.modes...)), State: statePaused}
		if open := st.Mode == queue.Open.String(); open != c.open {
			t.Errorf("%v: together they are %s", c.modes, st.Mode)
		}
		if v := viewOf(st, nil); v.pause != c.open {
			t.Errorf("%v: the icon offers a pause: %v", c.modes, v.pause)
		}
	}
}

// TestTakenIsOneVersion: that a version is to be taken is said of the one that was offered then, and not of a newer one.
func TestTakenIsOneVersion(t *testing.T) {
	set := defaults()
	set.Data, set.from = t.TempDir(), map[string]string{}
	for _, here := range []string{"", "v0.2.0"} { // fetched already
		u := newUpdater(&station{set: set, log: slog.New(slog.DiscardHandler)}, time.Minute)
		u.own = "v0.1.0"
		if here != "" {
			arrives(t, u, here)
		} else {
			u.offered(carry.Offer{Version: "v0.2.0"}, "me")
		}
		if err := u.order(map[string]string{"what": "take"}); err != nil {
			t.Fatal(err)
		}
		if _, take, _ := u.offered(carry.Offer{Version: "v0.2.0"}, "me"); !take {
			t.Error("the version that was said to be taken is not")
		}
		if _, take, _ := u.offered(carry.Offer{Version: "v0.3.0"}, "me"); take || u.taken() {
			t.Error("a newer version is taken, of which that was not said")
		}
		if err := u.order(map[string]string{"what": "take"}); err != nil {
			t.Fatal(err)
		}
		if _, take, _ := u.offered(carry.Offer{Version: "v0.3.0"}, "me"); !take {
			t.Error("it is not taken although that was said")
		}
	}
}
