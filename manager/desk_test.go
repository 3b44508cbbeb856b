package manager_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"shoal/channel"
	"shoal/channel/listing"
	"shoal/manager"
	"shoal/manager/desk"
	"shoal/recrawl"
)

func imported(t *testing.T, d *desk.Desk, urls ...string) channel.Imported {
	t.Helper()
	lines, err := listing.Read(strings.NewReader(strings.Join(urls, "\n")), listing.List, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	out, err := d.Import(t.Context(), lines)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// What an operator changes at a running manager holds at once, and after a restart.
func TestDeskWhileRunning(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := open(t, dir, func(_ *manager.Config, s *swarm) { s.recalls = true })
	d := b.d
	in := imported(t, d, "https://a.example/", "https://b.example/", "https://c.example/")
	if in.Added != 3 {
		t.Fatalf("imported %+v", in)
	}
	until(t, "updates of all", func() bool { return b.m.Overview().Updates >= 6 && b.m.Overview().Never == 0 })

	if err := d.Remove(t.Context(), in.First); err != nil {
		t.Fatal(err)
	}
	if err := d.Remove(t.Context(), in.First); !errors.Is(err, channel.ErrUnknown) {
		t.Errorf("removed twice: %v", err)
	}
	next := imported(t, d, "https://d.example/") // takes the slot
	until(t, "an update of the new one", func() bool { r, _, ok := b.row(next.First); return ok && r.Visits > 0 })

	second := in.First + 1
	if _, err := d.Edit(t.Context(), second, func(ch *channel.Channel) error { ch.Settings.Weight, ch.Settings.Group = 3, 1; return nil }); err != nil {
		t.Fatal(err)
	}
	if err := d.Block(t.Context(), "c.example", "asked to"); err != nil {
		t.Fatal(err)
	}
	if err := d.Block(t.Context(), "not a host/", "x"); !errors.Is(err, channel.ErrHost) {
		t.Errorf("a host that is none: %v", err)
	}
	third := in.First + 2
	until(t, "the block to show", func() bool {
		r, _, _ := b.row(third)
		return r.State == "blocked" && r.Reason == "asked to" && !r.Out
	})
	r, _, _ := b.row(third)
	visits := r.Visits
	until(t, "others' updates", func() bool { r, _, _ := b.row(second); return r.Visits > visits+4 })
	if r, _, _ := b.row(third); r.Visits > visits {
		t.Errorf("a blocked host was visited %d times more", r.Visits-visits)
	}
	if err := d.Block(t.Context(), "c.example", ""); err != nil {
		t.Fatal(err)
	}
	until(t, "visits after the block was lifted", func() bool { r, _, _ := b.row(third); return r.Visits > visits })
	p, err := d.Purge(t.Context(), "https://c.example", "")
	if err != nil || p.Channels != 1 || p.Pages == 0 {
		t.Errorf("purged %+v, %v", p, err)
	}
	if o := b.m.Overview(); o.Channels > 3 {
		until(t, "the purged channel to go", func() bool { return b.m.Overview().Channels == 2 })
	}
	b.swarm.mu.Lock()
	if b.swarm.overlap > 0 {
		t.Errorf("%d tasks ran on a host beside another", b.swarm.overlap)
	}
	b.swarm.mu.Unlock()
	b.stop()

	b = open(t, dir, nil)
	if o := b.m.Overview(); o.Channels != 2 {
		t.Errorf("after a restart there are %d channels, want 2", o.Channels)
	}
	ch, err := b.d.Channel(t.Context(), second)
	if err != nil || ch.Settings.Weight != 3 {
		t.Errorf("after a restart: %+v, %v", ch.Settings, err)
	}
	hosts, err := b.d.Hosts(t.Context(), "c.example", true, 10)
	if err != nil || len(hosts) != 1 || hosts[0].Blocked != "taken down" {
		t.Errorf("blocked hosts after a restart: %+v, %v", hosts, err)
	}
}

func TestStrategyIsKeptAndTried(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := open(t, dir, func(c *manager.Config, _ *swarm) { c.KeptStrategy = true })
	b.add(t, "https://a.example", "https://b.example")
	until(t, "updates", func() bool { return b.m.Overview().Updates >= 4 })
	before := b.m.Overview().Strategy
	var trial manager.Trial
	var err error
	until(t, "a trial in which there is capacity for tasks", func() bool { // what could be crawled so far depends on the machine
		trial, err = b.m.TryStrategy(t.Context(), manager.StrategyChoice{Name: "price"})
		return err != nil || trial.Now.Tasks > 0 && trial.Then.Tasks > 0
	})
	if err != nil || trial.Then.Strategy != "price" || trial.Now.Strategy != before {
		t.Errorf("tried: %+v, %v", trial, err)
	}
	if got := b.m.Overview().Strategy; got != before {
		t.Errorf("a trial changed the strategy to %s", got)
	}
	if err := b.m.UseStrategy(t.Context(), manager.StrategyChoice{Name: "nonsense"}); !errors.Is(err, recrawl.ErrUnknown) {
		t.Errorf("nonsense: %v", err)
	}
	want := manager.StrategyChoice{Name: "iir", Params: recrawl.Params{Delta: .4}}
	if err := b.m.UseStrategy(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	b.stop()
	b = open(t, dir, func(c *manager.Config, _ *swarm) { c.KeptStrategy = true })
	if got, err := b.m.Strategy(t.Context()); err != nil || got.StrategyChoice != want || !slices.Contains(got.Names, "iir") {
		t.Errorf("after a restart: %+v, %v", got, err)
	}
}

// What a strategy had learnt is there when it is in force again, also where a restart put another one in its place; limits are kept over a restart.
func TestStrategiesAndLimitsComeBack(t *testing.T) {
	dir := t.TempDir()
	with := func(name string) func(*manager.Config, *swarm) {
		return func(c *manager.Config, _ *swarm) { c.Strategy = name }
	}
	b := open(t, dir, with("icr"))
	info := func() manager.StrategyInfo {
		t.Helper()
		i, err := b.m.Strategy(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return i
	}
	left := func(name string) []byte {
		t.Helper()
		v, err := b.db.State(t.Context(), "recrawl/left/"+name)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	first := info().Intervals
	b.add(t, "https://a.example", "https://b.example", "https://c.example")
	until(t, "intervals that were learnt", func() bool { return info().Intervals[1] != first[1] })
	for _, bad := range []manager.Limits{{Cap: -1}, {Cap: math.NaN()}, {MinInterval: -1}, {MinInterval: 1 << 62}, {Weights: "heavy"}} {
		if err := b.m.UseLimits(t.Context(), bad); !errors.Is(err, manager.ErrAsk) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	limits := manager.Limits{Cap: .5, MinInterval: time.Hour, Weights: recrawl.RankWeights} // so that nothing moves from here on
	if err := b.m.UseLimits(t.Context(), limits); err != nil {
		t.Fatal(err)
	}
	b.settled(t)
	// What the last reports taught moves the intervals when the loop next looks for work.
	var before []time.Duration
	looked, same := time.Time{}, 0
	until(t, "the intervals to stay", func() bool {
		o := b.m.Overview()
		if o.Now.Equal(looked) {
			return false
		}
		looked = o.Now
		if now := info().Intervals; slices.Equal(now, before) {
			same++
		} else {
			before, same = now, 0
		}
		return same == 4
	})
	if err := b.m.UseStrategy(t.Context(), manager.StrategyChoice{Name: "price", Params: recrawl.Params{Delta: .3}}); !errors.Is(err, recrawl.ErrParams) {
		t.Errorf("price with delta: %v", err)
	}
	for _, name := range []string{"price", "icr", "price"} {
		if err := b.m.UseStrategy(t.Context(), manager.StrategyChoice{Name: name}); err != nil {
			t.Fatal(err)
		}
		if name == "price" {
			if trial, err := b.m.TryStrategy(t.Context(), manager.StrategyChoice{Name: "icr"}); err != nil || !slices.Equal(trial.Then.Intervals, before) {
				t.Errorf("icr is tried with %v, left with %v, %v", trial.Then.Intervals, before, err)
			}
		}
		if name == "icr" && !slices.Equal(info().Intervals, before) {
			t.Errorf("icr comes back with %v, left with %v", info().Intervals, before)
		}
	}
	if got := recrawl.StateOf(left("icr")); got != "icr" {
		t.Errorf("icr left a state of %q", got)
	}
	b.stop()

	b = open(t, dir, with("icr"))
	if i := info(); i.Name != "icr" || i.Limits != limits || !slices.Equal(i.Intervals, before) {
		t.Errorf("after a restart with icr: %+v, want intervals %v", i, before)
	}
	if got := recrawl.StateOf(left("price")); got != "price" {
		t.Errorf("price left a state of %q over the restart", got)
	}
	if p, err := b.d.PlanBasis(t.Context(), desk.StoppedPace{}); err != nil || p.Cap != limits.Cap || p.MinTicks != 180_000 {
		t.Errorf("a plan's limits: %+v, %v", p, err)
	}
}

// A disk that is full stops new tasks, and is told; once there is room it goes on.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	full := make(chan bool, 1)
	full <- true
	state := func() bool { v := <-full; full <- v; return v }
	b := open(t, t.TempDir(), func(c *manager.Config, _ *swarm) {
		c.Disk = func() error {
			if state() {
				return errors.New("no room")
			}
			return nil
		}
	})
	b.add(t, "https://a.example")
	until(t, "the notice", func() bool { return strings.Contains(strings.Join(b.m.Overview().Blocking, ""), "no room") })
	if err := b.m.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), "no room") {
		t.Errorf("ready: %v", err)
	}
	if n := b.m.Overview().Submitted; n > 0 {
		t.Errorf("%d tasks were handed out", n)
	}
	<-full
	full <- false
	until(t, "an update", func() bool { return b.m.Overview().Updates > 0 && len(b.m.Overview().Blocking) == 0 })
	if err := b.m.Ready(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestGroupsAreCountedFromOne: metrics number priority groups as settings, pages and commands do.
func TestGroupsAreCountedFromOne(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir(), nil)
	b.add(t, "https://a.example", "https://b.example")
	until(t, "updates", func() bool { return b.m.Overview().Updates >= 2 })
	reg := prometheus.NewRegistry()
	reg.MustRegister(b.m.Collector())
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string][]string{}
	for _, f := range families {
		for _, m := range f.Metric {
			for _, l := range m.Label {
				if l.GetName() == "group" {
					seen[f.GetName()] = append(seen[f.GetName()], l.GetValue())
				}
			}
		}
	}
	for _, name := range []string{"shoal_manager_interval_seconds", "shoal_manager_group_channels"} {
		if got := seen[name]; len(got) == 0 || !slices.Contains(got, "1") || slices.Contains(got, "0") {
			t.Errorf("%s has the groups %v, want them from 1 on", name, got)
		}
	}
}

// TestUpdatedIsWhenItWas: a channel was updated when its report came, not when the tick began in which that was.
func TestUpdatedIsWhenItWas(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir(), func(c *manager.Config, _ *swarm) { c.Tick = time.Second })
	var hosts []string
	for i := range 8 {
		hosts = append(hosts, fmt.Sprintf("https://site-%d.example", i))
	}
	ids := b.add(t, hosts...)
	until(t, "an update of each", func() bool {
		for _, id := range ids {
			if r, _, _ := b.row(id); r.Visits == 0 {
				return false
			}
		}
		return true
	})
	for _, id := range ids {
		r, events, _ := b.row(id)
		if !slices.ContainsFunc(events, func(e desk.Event) bool { return e.What == "updated" && e.At.Sub(r.Updated).Abs() < 10*time.Millisecond }) {
			t.Errorf("channel %d was updated at %v; what happened: %+v", id, r.Updated, events)
		}
		// It was handed out within a tick, so that this tick's beginning lies before the claim.
		if i := slices.IndexFunc(events, func(e desk.Event) bool { return e.What == "claimed" }); i < 0 || r.Updated.Before(events[i].At.Truncate(time.Millisecond)) { // as exactly as the database keeps times
			t.Errorf("channel %d was updated at %v, before it was claimed: %+v", id, r.Updated, events)
		}
	}
}
