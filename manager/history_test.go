package manager

import (
	"math"
	"testing"
	"time"

	"shoal/channel"
	"shoal/manager/dispatch"
	"shoal/recrawl"
)

// TestFreshnessIsOfWhatIsCrawled has channels that were crawled at several times, one that never was, and one of each kind that an operator has paused. Neither of
// these changes the estimate.
func TestFreshnessIsOfWhatIsCrawled(t *testing.T) {
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	c := &core{clock: recrawl.Clock{Epoch: now.Add(-1000 * time.Minute), Step: time.Minute}, table: dispatch.NewTable()}
	c.machine = dispatch.New(now, dispatch.Config{}, nil, book{Table: c.table}, nil)
	st := &status{core: c}
	strategy, err := recrawl.New("fixed", recrawl.Params{})
	if err != nil {
		t.Fatal(err)
	}
	tick := c.clock.At(now)
	c.sched = recrawl.NewScheduler(tick, strategy, recrawl.DefaultOptions())
	rate, want := 0., 0.
	for i, of := range []struct {
		updated recrawl.Tick
		flags   uint8
	}{{tick - 100, 0}, {tick - 900, 0}, {0, 0}, {0, recrawl.Paused}, {tick, recrawl.Paused}, {tick, recrawl.Paused}} {
		s := c.sched.Add(recrawl.Facts{Updated: of.updated, Submitted: of.updated, Flags: of.flags, Est: recrawl.Prior(1440, .5)})
		c.table.Put(s, channel.ID(i+1), channel.HostKey(i+1))
		if rate = c.sched.Facts(s).Est.Rate(); of.flags == 0 && of.updated > 0 {
			want += math.Exp(-rate*float64(tick-of.updated)) / 3
		}
	}
	var holds Holds
	if got := st.freshness(now, &holds); math.Abs(got-want) > 1e-9 {
		t.Errorf("the estimate is %.3f, want %.3f", got, want)
	}
	if holds.Stale != 1 || holds.Free != 1 || holds.Early != 1 || holds.MinInterval != 10*time.Minute || holds.Cap != 2 {
		t.Errorf("one was never crawled, one might be crawled again, one is too early: %+v", holds)
	}
	for s := range recrawl.Slot(3) {
		c.sched.Edit(s, func(f *recrawl.Facts) { f.Flags |= recrawl.Paused })
	}
	if got := st.freshness(now, new(Holds)); got != 0 {
		t.Errorf("of a network that crawls nothing %.3f is fresh", got)
	}
}

// TestTrialIsOfWhatIsCrawled adds paused channels to those of a trial: it foretells what it did without them.
func TestTrialIsOfWhatIsCrawled(t *testing.T) {
	const at = 10_000
	foretell := func(paused int) Outlook {
		opt := recrawl.DefaultOptions()
		strategy, err := recrawl.New("icr", recrawl.Params{})
		if err != nil {
			t.Fatal(err)
		}
		try := trial{opt: opt, at: at, of: 8 + paused, capacity: 1, state: recrawl.NewScheduler(at, strategy, opt).AppendState(nil)}
		for i := range 8 + paused {
			f := recrawl.Facts{Submitted: at - 2000, Updated: at - 2000, Est: recrawl.Prior(1440, .5)}
			if i >= 8 {
				f.Flags = recrawl.Paused
			}
			try.facts = append(try.facts, f)
		}
		out, err := try.run(t.Context(), strategy, nil, 0, Config{Tick: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	want, got := foretell(0), foretell(8)
	if want.Freshness < .5 || math.Abs(got.Freshness-want.Freshness) > 1e-9 || got.Tasks != want.Tasks {
		t.Errorf("%d tasks and a freshness of %.3f, want %d and %.3f as without paused channels", got.Tasks, got.Freshness, want.Tasks, want.Freshness)
	}
}

// TestTrialHasItsOwnSlots samples while the scheduler reads the loop's tables: the copy, which runs beside the loop, must not.
func TestTrialHasItsOwnSlots(t *testing.T) {
	opt := recrawl.DefaultOptions()
	opt.Pending, opt.Ahead = func(recrawl.Slot) int { t.Error("it asks the loop's table"); return 0 }, func(recrawl.Slot) { t.Error("it reads the loop's table ahead") }
	strategy, err := recrawl.New("icr", recrawl.Params{})
	if err != nil {
		t.Fatal(err)
	}
	try := trial{opt: ownOptions(opt), at: 10_000, of: 8, capacity: 1, state: recrawl.NewScheduler(10_000, strategy, opt).AppendState(nil), facts: make([]recrawl.Facts, 8)}
	if out, err := try.run(t.Context(), strategy, nil, 0, Config{Tick: time.Minute}); err != nil || out.New == 0 {
		t.Errorf("%d channels crawled for the first time, %v", out.New, err)
	}
}
