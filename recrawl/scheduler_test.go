package recrawl

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"unsafe"

	"pgregory.net/rapid"
)

func TestStatePerSlotIs64Bytes(t *testing.T) {
	entry := float64(unsafe.Sizeof(block{})) / blockSlots
	if n := float64(unsafe.Sizeof(cell{})+unsafe.Sizeof(readyItem(0))) + 1.5*entry; n > 64 { // a third of the entries may be stale
		t.Fatalf("a slot costs %v bytes", n)
	}
}

func must(t testing.TB, name string, p Params) Strategy {
	t.Helper()
	s, err := New(name, p)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func yes(Slot) (Tick, bool) { return 0, true }

// TestFixedAgainstScan compares the calendar with a scan of all slots at every tick.
func TestFixedAgainstScan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		opt := Options{Initial: []float64{3, 7, 40, 90_000}, Prior: Prior(10, 1), Cap: rapid.SampledFrom([]float64{0, .5, 2}).Draw(t, "cap"),
			MaxOut: rapid.IntRange(0, 2).Draw(t, "out"), MinTicks: Tick(rapid.IntRange(0, 9).Draw(t, "min"))}
		strategy, err := New("fixed", Params{})
		if err != nil {
			t.Fatal(err)
		}
		now := Tick(rapid.IntRange(1, 100_000).Draw(t, "start"))
		s := NewScheduler(now, strategy, opt)
		type model struct {
			interval, gap Tick
			last          Tick
			out           int
			paused        bool
			denied        bool
		}
		slots := map[Slot]*model{}
		var order []Slot
		add := func() {
			i := opt.Initial[rapid.IntRange(0, 3).Draw(t, "group")]
			m := &model{interval: Tick(i), gap: max(1, opt.MinTicks)}
			if opt.Cap > 0 {
				m.gap = max(m.gap, wholeTicks(i/opt.Cap))
			}
			at := s.Add(Facts{Est: Exactly(i), Flags: Known})
			if slots[at] != nil {
				t.Fatalf("slot %d given twice", at)
			}
			slots[at] = m
			order = append(order, at)
		}
		for range rapid.IntRange(1, 20).Draw(t, "slots") {
			add()
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now += Tick(rapid.SampledFrom([]int{1, 1, 1, 2, 30, 70_000, 200_000}).Draw(t, "sleep"))
			want := map[Slot]bool{}
			for at, m := range slots {
				gap, interval := m.gap, m.interval
				if m.denied && m.out == 0 {
					most := max(retryMost, float64(opt.MinTicks))
					gap, interval = wholeTicks(min(float64(m.interval)/8, most)), wholeTicks(min(float64(m.interval)/2, most))
				}
				due := m.last == 0 || now >= m.last+max(interval, gap)
				if due && !m.paused && (opt.MaxOut == 0 || m.out < opt.MaxOut) {
					want[at] = true
				}
			}
			n := s.Next(now, Load{Room: -1}, func(at Slot) (Tick, bool) {
				if !want[at] {
					t.Fatalf("tick %d: slot %d taken, which is not due: %+v", now, at, *slots[at])
				}
				delete(want, at)
				slots[at].last = now
				slots[at].out++
				return 0, true
			})
			if len(want) > 0 {
				t.Fatalf("tick %d: %d taken, not %v", now, n, want)
			}
			at := rapid.SampledFrom(order).Draw(t, "slot")
			m := slots[at]
			if m == nil {
				continue
			}
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0:
				add()
			case 1:
				s.Remove(at)
				delete(slots, at)
			case 2:
				m.paused = !m.paused
				s.Edit(at, func(f *Facts) { f.Flags ^= Paused })
			case 3:
				if m.out > 0 {
					m.out--
					m.denied = false
					s.Observe(now, at, Event{Kind: Updated, Changed: true})
				}
			case 4:
				if m.out > 0 {
					m.out--
					m.denied = true
					s.Observe(now, at, Event{Kind: Refused})
				}
			}
			if s.Len() != len(slots) {
				t.Fatalf("%d slots, want %d", s.Len(), len(slots))
			}
		}
	})
}

func TestRoomTakesTheLongestDueFirst(t *testing.T) {
	s := NewScheduler(1, must(t, "fixed", Params{}), Options{Initial: []float64{10}, Prior: Prior(10, 1)})
	for i := range 10 {
		s.Add(Facts{Est: Exactly(10), Flags: Known, Submitted: Tick(1 + (i*7)%10)})
	}
	var got []Tick
	for range 5 {
		s.Next(30, Load{Room: 2}, func(at Slot) (Tick, bool) {
			got = append(got, s.Facts(at).Submitted)
			return 0, true
		})
	}
	if want := "[1 2 3 4 5 6 7 8 9 10]"; fmt.Sprint(got) != want {
		t.Errorf("order %v, want %s", got, want)
	}
	if s.Ready() != 0 {
		t.Errorf("%d left", s.Ready())
	}
}

func TestAdmitPutsOff(t *testing.T) {
	s := NewScheduler(1, must(t, "fixed", Params{}), DefaultOptions())
	s.Add(Facts{})
	if n := s.Next(1, Load{Room: -1}, func(Slot) (Tick, bool) { return 50, false }); n != 0 {
		t.Fatalf("%d taken", n)
	}
	for now := Tick(2); now < 50; now++ {
		if n := s.Next(now, Load{Room: -1}, yes); n != 0 {
			t.Fatalf("taken at %d", now)
		}
	}
	if n := s.Next(50, Load{Room: -1}, yes); n != 1 {
		t.Fatal("not taken at 50")
	}
}

// TestEnoughEndsNext checks that no slot loses its place in line when admit has had enough.
func TestEnoughEndsNext(t *testing.T) {
	s := NewScheduler(1, must(t, "fixed", Params{}), DefaultOptions())
	const n = 10
	for range n {
		s.Add(Facts{})
	}
	asked := 0
	if got := s.Next(1, Load{Room: -1}, func(Slot) (Tick, bool) {
		if asked++; asked > 3 {
			return Enough, false
		}
		return 0, true
	}); got != 3 || asked != 4 {
		t.Fatalf("%d taken, %d asked, want 3 and 4", got, asked)
	}
	seen := map[Slot]bool{}
	if got := s.Next(1, Load{Room: -1}, func(at Slot) (Tick, bool) { seen[at] = true; return 0, true }); got != n-3 || len(seen) != n-3 {
		t.Fatalf("then %d taken, %v", got, seen)
	}
}

// TestGoesOnAfterRestart runs one scheduler through and another with a restart in the middle; they must decide alike. Rates and
// groups are given: where they are learnt, a restart takes all due times from the newest means, which a running scheduler does by and by.
func TestGoesOnAfterRestart(t *testing.T) {
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			run := func(restart bool) string {
				opt := Options{Initial: []float64{30, 80, 160}, MaxOut: 1, MinTicks: 2, Cap: 2, Prior: Prior(100, .5)}
				s := NewScheduler(1, must(t, name, Params{}), opt)
				rng := rand.New(rand.NewPCG(1, 1))
				const n = 60
				for i := range n {
					s.Add(Facts{Weight: float32(1 + i%3), Est: Exactly(float64(20 + 3*i)), Flags: Known})
				}
				var log strings.Builder
				busy := map[Slot]Tick{}
				for now := Tick(1); now <= 4000; now++ {
					if restart && now == 2000 {
						state := s.AppendState(nil)
						facts := make([][]byte, n)
						for i := range n {
							f := s.Facts(Slot(i))
							facts[i] = f.AppendState(nil)
						}
						var err error
						if s, err = RestoreScheduler(now, must(t, name, Params{}), opt, state); err != nil {
							t.Fatal(err)
						}
						for i := range n {
							var f Facts
							if err := f.Restore(facts[i]); err != nil {
								t.Fatal(err)
							}
							if busy[Slot(i)] > 0 {
								f.Out = 1
							}
							s.Add(f)
						}
					}
					for at := range Slot(n) {
						if end := busy[at]; end > 0 && end <= now {
							delete(busy, at)
							if rng.IntN(4) == 0 {
								s.Observe(now, at, Event{Kind: Failed})
							} else {
								s.Observe(now, at, Event{Kind: Updated, Changed: rng.IntN(int(2+at)) < 3, Wait: 2, Service: 5})
							}
						}
					}
					s.Next(now, Load{Room: 5 - len(busy), Out: len(busy)}, func(at Slot) (Tick, bool) {
						busy[at] = now + 7
						fmt.Fprintf(&log, "%d:%d ", now, at)
						return 0, true
					})
				}
				return log.String()
			}
			a, b := run(false), run(true)
			if _, ok := must(t, name, Params{}).(interface{ tune(Tick) }); ok { // which waits for room in an order that a restart forgets
				if n, m := strings.Count(a, " "), strings.Count(b, " "); m < n*94/100 || m > n*106/100 {
					t.Errorf("%d tasks with a restart, %d without", m, n)
				}
				return
			}
			if a != b {
				i := 0
				for i < min(len(a), len(b)) && a[i] == b[i] {
					i++
				}
				t.Errorf("after the restart other decisions from %.60q on, want %.60q", b[i:], a[i:])
			}
		})
	}
}

func TestSwitchKeepsFacts(t *testing.T) {
	s := NewScheduler(1, must(t, "fixed", Params{}), Options{Groups: 2, MaxOut: 1, Prior: Prior(100, .5)})
	at := s.Add(Facts{})
	for now := Tick(1); now < 300; now += 20 {
		s.Next(now, Load{Room: -1}, yes)
		s.Observe(now+10, at, Event{Kind: Updated, Changed: true})
	}
	before := s.Facts(at)
	for _, name := range Names() {
		s.SetStrategy(300, must(t, name, Params{}))
		after := s.Facts(at)
		if after.Est != before.Est || after.Updated != before.Updated || after.Submitted != before.Submitted || after.Group != before.Group {
			t.Errorf("%s: facts %+v, want %+v", name, after, before)
		}
	}
}

func TestErrorsNameTheFault(t *testing.T) {
	_, err := New("quick", Params{})
	if !errors.Is(err, ErrUnknown) || !strings.Contains(err.Error(), "fixed") || !strings.Contains(err.Error(), "quick") {
		t.Errorf("unknown strategy: %v", err)
	}
	for _, p := range []Params{{Delta: -.1}, {Delta: 1}, {Sigma: .5}, {Mu: -2}, {IIR: "median"}} {
		if _, err := New("iir", p); !errors.Is(err, ErrParams) {
			t.Errorf("%+v: %v", p, err)
		}
	}
	good := DefaultOptions()
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for i, change := range []func(*Options){func(o *Options) { o.Cap = -1 }, func(o *Options) { o.MinTicks = -1 }, func(o *Options) { o.MaxOut = 256 },
		func(o *Options) { o.Groups = 0 }, func(o *Options) { o.Initial = []float64{5, 3} }, func(o *Options) { o.Prior = Estimate{} }} {
		o := good
		change(&o)
		if err := o.Validate(); !errors.Is(err, ErrOptions) {
			t.Errorf("bad options %d: %v", i, err)
		}
	}
}

func FuzzRestore(f *testing.F) {
	facts := Facts{Est: Prior(10, 1)}
	f.Add(facts.AppendState(nil))
	for _, name := range Names() {
		s := NewScheduler(1, must(f, name, Params{}), DefaultOptions())
		f.Add(s.AppendState(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var facts Facts
		_ = facts.Restore(b)
		for _, name := range Names() {
			s, err := RestoreScheduler(1, must(t, name, Params{}), DefaultOptions(), b)
			if err == nil {
				s.Add(facts)
				s.Next(1, Load{Room: -1}, yes)
			}
		}
	})
}

// Channels never crawled come before all others, those of which most is known first, also when that changes while they wait.
func TestLargerSitesFirst(t *testing.T) {
	for _, name := range []string{"fixed", "iir", "icr"} {
		pending := map[Slot]int{}
		opt := DefaultOptions()
		opt.MinTicks, opt.Pending = 1, func(at Slot) int { return pending[at] }
		s := NewScheduler(1, must(t, name, Params{}), opt)
		old := s.Add(Facts{Submitted: 1, Updated: 1, Est: Exactly(1), Flags: Known})
		var fresh []Slot
		for i := range 4 {
			at := s.Add(Facts{})
			pending[at] = []int{3, 900, 0, 901}[i]
			s.Found(at)
			fresh = append(fresh, at)
		}
		s.Next(100, Load{Room: 0}, yes)
		pending[fresh[2]] = 5000
		s.Found(fresh[2])
		var got []Slot
		s.Next(100, Load{Room: -1}, func(at Slot) (Tick, bool) { got = append(got, at); return 0, true })
		if want := []Slot{fresh[2], fresh[3], fresh[1], fresh[0], old}; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: taken in the order %v, want %v", name, got, want)
		}
	}
}

// Channels never crawled outbid all others under price; a share given, or the strategy's, divides the room all the same, whatever politeness puts off.
func TestShareOfNew(t *testing.T) {
	type counts struct{ fresh, old int }
	run := func(strategy Strategy, given float64, fresh, old int, refuse func(Slot) bool) (c counts) {
		s := NewScheduler(1, strategy, Options{Groups: 2, Prior: Prior(100, 1), MaxOut: 1})
		for i := range fresh + old {
			f := Facts{Est: Exactly(100), Flags: Known}
			if i >= fresh {
				f.Submitted, f.Updated = 1, 2
			}
			s.Add(f)
		}
		for now := Tick(5000); now < 5040; now++ {
			s.Next(now, Load{Room: 50, New: given}, func(at Slot) (Tick, bool) {
				if refuse != nil && refuse(at) {
					return now + 1000, false
				}
				if int(at) < fresh {
					c.fresh++
				} else {
					c.old++
				}
				return 0, true
			})
		}
		return c
	}
	fixed := func() Strategy { return must(t, "price", Params{}) }
	for _, x := range []struct {
		name     string
		strategy Strategy
		given    float64
		fresh    int
		old      int
		refuse   func(Slot) bool
		want     float64 // share of new
	}{
		{"the order", fixed(), 0, 20_000, 20_000, nil, 1},
		{"given", fixed(), .3, 20_000, 20_000, nil, .3},
		{"little", fixed(), .05, 20_000, 20_000, nil, .05},
		{"half of the new ones are put off", fixed(), .3, 20_000, 20_000, func(s Slot) bool { return s < 20_000 && s%2 == 0 }, .3},
		{"no new ones", fixed(), .3, 0, 20_000, nil, 0},
		{"no old ones", fixed(), .3, 20_000, 0, nil, 1},
		{"the strategy's", mixing{fixed(), .2, true}, 0, 20_000, 20_000, nil, .2},
		{"given, whatever the strategy says", mixing{fixed(), .2, true}, .6, 20_000, 20_000, nil, .6},
		{"the strategy has none", mixing{fixed(), 0, false}, 0, 20_000, 20_000, nil, 1},
	} {
		c := run(x.strategy, x.given, x.fresh, x.old, x.refuse)
		if got := float64(c.fresh) / float64(c.fresh+c.old); c.fresh+c.old != 2000 || math.Abs(got-x.want) > .035 {
			t.Errorf("%s: %d new and %d old taken, want a share of %g in 2000", x.name, c.fresh, c.old, x.want)
		}
	}
}

// mixing is a strategy with a ratio of its own.
type mixing struct {
	Strategy
	share float64
	ok    bool
}

func (m mixing) Quota(now Tick, l Load) Quota {
	q := m.Strategy.Quota(now, l)
	q.New, q.Mixed = m.share, m.ok
	return q
}

// Among many ready slots those of which something was found go up at the next tick, in their order.
func TestFoundAmongMany(t *testing.T) {
	const n = 3 * refreshReady
	pending := map[Slot]int{}
	opt := DefaultOptions()
	opt.MinTicks, opt.Pending = 1, func(at Slot) int { return pending[at] }
	s := NewScheduler(1, must(t, "fixed", Params{}), opt)
	for range n {
		s.Add(Facts{})
	}
	s.Next(100, Load{Room: 1}, yes) // slot 0
	for tick := Tick(101); tick < 104; tick++ {
		var want []Slot
		for i := range 40 {
			at := Slot(n - 1 - i*int(tick))
			if pending[at] == 0 {
				want = append(want, at)
			}
			pending[at] = 100_000 * int(tick) / (i + 1)
			s.Found(at)
		}
		var got []Slot
		s.Next(tick, Load{Room: len(want)}, func(at Slot) (Tick, bool) { got = append(got, at); return 0, true })
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("tick %d: taken in the order %v, want %v", tick, got, want)
		}
	}
}

func BenchmarkFound(b *testing.B) {
	s := NewScheduler(1, must(b, "fixed", Params{}), DefaultOptions())
	const n = 1 << 20
	for range n {
		s.Add(Facts{})
	}
	s.Next(2, Load{Room: 0}, nil)
	b.ResetTimer()
	tick := Tick(3)
	for i := range b.N {
		s.Found(Slot(i * 7919 % n))
		if i%1000 == 999 {
			s.Next(tick, Load{Room: 0}, nil)
			tick++
		}
	}
}

// TestRefusedIsAskedForSooner: a refused task was no crawl, so that the channel may go an eighth of its change interval later, also after a
// restart; one that failed had its crawl.
func TestRefusedIsAskedForSooner(t *testing.T) {
	for _, tc := range []struct {
		kind Kind
		want Tick
	}{{Refused, 13}, {Failed, 50}, {Updated, 50}} {
		for _, restart := range []bool{false, true} {
			opt := Options{Initial: []float64{100}, Prior: Prior(100, 1), Cap: 2, MaxOut: 1}
			s := NewScheduler(1, must(t, "uniform", Params{}), opt)
			at := s.Add(Facts{Est: Exactly(100), Flags: Known})
			if n := s.Next(1, Load{Room: 1}, yes); n != 1 {
				t.Fatalf("%d taken", n)
			}
			s.Observe(2, at, Event{Kind: tc.kind})
			if restart {
				f := s.Facts(at)
				var back Facts
				if err := back.Restore(f.AppendState(nil)); err != nil {
					t.Fatal(err)
				}
				s = NewScheduler(2, must(t, "uniform", Params{}), opt)
				s.Add(back)
			}
			now := Tick(2)
			for s.Next(now, Load{Room: 1}, yes) == 0 {
				if now++; now > 1000 {
					t.Fatal("never asked for again")
				}
			}
			if got := now - 1; got != tc.want {
				t.Errorf("event %d, restart %v: asked for again after %d ticks, want %d", tc.kind, restart, got, tc.want)
			}
		}
	}
}

// TestRefusedRestsAnHourAtMost: one refused offer puts a channel that changes once a month off for an hour, and not for days, whatever the strategy; but
// not for less than the minimum interval.
func TestRefusedRestsAnHourAtMost(t *testing.T) {
	const month = 30 * 1440
	for _, name := range []string{"fixed", "icr", "price", "uniform"} {
		for least, want := range map[Tick]Tick{10: retryMost, 1440: 1440} {
			s := NewScheduler(1, must(t, name, Params{}), Options{Initial: []float64{month}, Prior: Prior(month, 1), Cap: 2, MaxOut: 1, MinTicks: least})
			at := s.Add(Facts{Est: Exactly(month), Flags: Known, Updated: 1, Submitted: 1})
			next := func(from Tick) Tick {
				for now := from; now < from+month+month/4; now++ {
					if s.Next(now, Load{Room: 1}, yes) > 0 {
						return now
					}
				}
				t.Fatalf("%s: not taken within %d ticks", name, month+month/4)
				return 0
			}
			asked := next(2)
			s.Observe(asked+1, at, Event{Kind: Refused})
			if got := next(asked+2) - asked; got != want {
				t.Errorf("%s, at least %d ticks apart: asked for again after %d ticks, want %d", name, least, got, want)
			}
		}
	}
}
