package recrawl

import (
	"fmt"
	"slices"
	"testing"
)

// Idle threads get channels never crawled first, then stale ones, each in the strategy's order; none that is fresh, out, paused, or not allowed yet.
func TestSpareOrder(t *testing.T) {
	s := NewScheduler(1, must(t, "iir", Params{}), Options{Initial: []float64{100}, Prior: Prior(100, 1), Cap: 2, MaxOut: 1})
	add := func(submitted, updated Tick, flags uint8) Slot {
		return s.Add(Facts{Est: Exactly(100), Flags: Known | flags, Submitted: submitted, Updated: updated})
	}
	now := Tick(1000)
	fresh := add(now-99, now-50, 0)
	stale := add(now-90, now-80, 0)
	staler := add(now-95, now-85, 0)
	soon := add(now-40, now-200, 0) // the cap allows it in ten ticks
	paused := add(0, 0, Paused)
	failed := add(now-60, 0, 0)
	signalled := add(now-60, now-55, 0)
	s.Observe(now-10, signalled, Event{Kind: Signalled})
	s.Next(now, Load{Room: 0}, yes)
	var got []Slot
	if n := s.Spare(now, 100, all, func(at Slot) (Tick, bool) { got = append(got, at); return 0, true }); n != len(got) {
		t.Errorf("%d taken, %d asked for", n, len(got))
	}
	want := []Slot{failed, staler, stale, signalled}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v (fresh %d, soon %d, paused %d)", got, want, fresh, soon, paused)
	}
	if n := s.Spare(now, 100, all, yes); n != 0 {
		t.Errorf("%d taken twice", n)
	}
}

// A slot for which there is no room stays where it was, and is asked for again in the next tick only.
func TestSpareWithoutRoom(t *testing.T) {
	s := NewScheduler(1, must(t, "price", Params{}), Options{Groups: 1, Prior: Prior(100, 1), MaxOut: 1})
	for range 3 * spareLook {
		s.Add(Facts{})
	}
	s.Next(10, Load{Room: 0}, yes)
	asked := map[Slot]int{}
	no := func(at Slot) (Tick, bool) { asked[at]++; return 11, false }
	for range 100 {
		s.Spare(10, 5, all, no)
	}
	for at, n := range asked {
		if n > 1 {
			t.Fatalf("slot %d was asked for %d times in a tick", at, n)
		}
	}
	if len(asked) < spareLook {
		t.Errorf("only %d slots were asked for", len(asked))
	}
	if n := s.Spare(11, 1, all, no); n != 0 || s.Ready() != 3*spareLook {
		t.Errorf("%d taken, %d ready of %d", n, s.Ready(), 3*spareLook)
	}
	asked = map[Slot]int{}
	s.Spare(12, 1, all, func(at Slot) (Tick, bool) { asked[at]++; return Enough, false })
	if len(asked) != 1 {
		t.Errorf("asked for %d after enough", len(asked))
	}
}

// fixed keeps its intervals whatever is idle.
func TestSpareKeepsFixed(t *testing.T) {
	s := NewScheduler(1, must(t, "fixed", Params{}), Options{Initial: []float64{100}, Prior: Prior(100, 1), Cap: 2, MaxOut: 1})
	s.Add(Facts{Est: Exactly(100), Flags: Known, Submitted: 900, Updated: 901})
	s.Next(990, Load{Room: 0}, yes)
	if n := s.Spare(990, 5, all, yes); n != 0 {
		t.Error("a slot is crawled before its interval is over")
	}
	if !s.Lacking(all) {
		t.Error("a thread that is idle beside it does not count as one that could have crawled it")
	}
	s.Edit(0, func(f *Facts) { f.Flags |= Paused })
	if s.Spare(992, 5, all, yes); s.Lacking(all) {
		t.Error("a paused slot counts as one that could have been crawled")
	}
}

// TestSpareLacksWhatMayBeCrawled has a stale slot beside idle threads that may not be crawled, as its host is blocked: no thread misses it, with any strategy. One that may,
// and finds no place, is missed until the next tick, or until it may not be crawled any more, or is taken for a thread elsewhere.
func TestSpareLacksWhatMayBeCrawled(t *testing.T) {
	for _, name := range []string{"fixed", "price"} {
		s := NewScheduler(1, must(t, name, Params{}), Options{Initial: []float64{100}, Prior: Prior(100, 1), Cap: 2, MaxOut: 1})
		for range 3 {
			s.Add(Facts{Est: Exactly(100), Flags: Known, Submitted: 900, Updated: 901})
		}
		refused := func(at Slot) (Tick, bool) {
			if at < 2 {
				t.Errorf("%s: slot %d is asked for, though it may not be crawled", name, at)
			}
			return 0, false
		}
		s.Next(990, Load{Room: 0}, yes)
		none := func(Slot) bool { return false }
		if s.Spare(990, 5, none, refused); s.Lacking(none) {
			t.Errorf("%s: slots that may not be crawled count as missed", name)
		}
		third := func(at Slot) bool { return at == 2 }
		if s.Spare(991, 5, third, refused); !s.Lacking(third) {
			t.Errorf("%s: one that may be crawled does not count as missed", name)
		}
		if s.Lacking(none) {
			t.Errorf("%s: one whose host is blocked since counts as missed", name)
		}
		if s.Take(991, 2, yes); s.Lacking(third) {
			t.Errorf("%s: one that was taken since counts as missed", name)
		}
	}
}

func all(Slot) bool { return true }

// Unused threads shorten intervals down to what the cap allows; threads in use, or that nobody tells of, do not.
func TestIntervalsFollowTheThreadsOffered(t *testing.T) {
	for _, c := range []struct {
		load Load
		want float64
	}{
		{Load{Room: -1}, 30},
		{Load{Room: -1, Threads: 10}, 30},
		{Load{Room: -1, Threads: 10, Idle: 2}, 24},
		{Load{Room: -1, Threads: 10, Idle: 10}, 10},
	} {
		v := must(t, "icr", Params{Delta: 1e-9}).(*interval)
		s := NewScheduler(1, v, Options{Initial: []float64{20}, Prior: Prior(10, 1), Cap: 2})
		s.Add(Facts{Est: Exactly(20), Flags: Known, Submitted: 1})
		for now := Tick(1); now < 61; now++ {
			v.usage.see(now, c.load)
		}
		v.n[0] = tally{sub: 2, suc: 2}
		v.reassign(61)
		if got := fmt.Sprintf("%.3f", v.t[0]); got != fmt.Sprintf("%.3f", c.want) {
			t.Errorf("%+v: interval %s, want %v", c.load, got, c.want)
		}
	}
}

// What Next has put off can be taken after all, once, and only as far as the limits allow.
func TestTake(t *testing.T) {
	s := NewScheduler(1, must(t, "price", Params{}), Options{Groups: 1, Prior: Prior(100, 1), Cap: 2, MaxOut: 1})
	now := Tick(1000)
	a, b, paused := s.Add(Facts{}), s.Add(Facts{}), s.Add(Facts{Flags: Paused})
	early := s.Add(Facts{Est: Exactly(100), Flags: Known, Submitted: now - 10, Updated: now - 9})
	later := func(Slot) (Tick, bool) { return now + 1, false }
	s.Next(now, Load{Room: -1}, later)
	if s.Take(now, a, later) {
		t.Error("taken against the will of admit")
	}
	if !s.Take(now, a, yes) || s.Facts(a).Out != 1 || s.Facts(a).Submitted != now {
		t.Errorf("not taken: %+v", s.Facts(a))
	}
	for name, at := range map[string]Slot{"twice": a, "though it is paused": paused, "before the cap allows it": early} {
		if s.Take(now, at, yes) {
			t.Errorf("taken %s", name)
		}
	}
	var got []Slot
	s.Next(now+1, Load{Room: -1}, func(at Slot) (Tick, bool) { got = append(got, at); return 0, true })
	if !slices.Equal(got, []Slot{b}) {
		t.Errorf("next come %v, want only %d", got, b)
	}
}
