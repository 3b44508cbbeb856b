package recrawl

import "testing"

// A thread costs more where tasks wait longer: of two channels alike in all else, the one in a crowded corner is worth less, and not if corners are ignored.
func TestPriceOfACrowdedCorner(t *testing.T) {
	for _, ignored := range []bool{false, true} {
		v := must(t, "price", Params{NoCorners: ignored}).(*price)
		s := NewScheduler(1, v, Options{Groups: 1, Prior: Prior(100, 1)})
		quiet, crowded := s.Add(Facts{Updated: 1}), s.Add(Facts{Updated: 1})
		for range 5 {
			s.Observe(10, quiet, Event{Kind: Accepted, Wait: 0})
			s.Observe(10, crowded, Event{Kind: Accepted, Wait: 100})
		}
		a, b := s.Facts(quiet), s.Facts(crowded)
		worthA, _ := v.Rank(50, 0, quiet, &a)
		worthB, _ := v.Rank(50, 0, crowded, &b)
		if ignored != (worthA == worthB) || worthA < worthB {
			t.Errorf("ignored %v: worth %v where nobody waits, %v where all do", ignored, worthA, worthB)
		}
		s.SetStrategy(60, must(t, "icr", Params{}))
		if f := s.Facts(crowded); f.Anchor != 0 || f.Epoch != 0 {
			t.Errorf("icr finds %d, %d of price's", f.Anchor, f.Epoch)
		}
	}
}

// What price knew of waits is there after a restart; a state from before it knew of them is read.
func TestPriceStateKeepsWaits(t *testing.T) {
	v := must(t, "price", Params{}).(*price)
	f := Facts{Est: Prior(100, 1)}
	v.Start(1, Setting{Groups: newGroups(1, nil)})
	v.Observe(5, 0, &f, Event{Kind: Accepted, Wait: 40})
	v.Quota(5, Load{})
	b := v.AppendState(nil)
	again := must(t, "price", Params{}).(*price)
	if err := again.Restore(b); err != nil || again.usual != v.usual || v.usual != 40 || again.window != v.window {
		t.Errorf("restored: %v, usual wait %v of %v, window %v of %v", err, again.usual, v.usual, again.window, v.window)
	}
	if err := again.Restore(appendFloats(nil, []float64{1, 2000, 3, 4, 5})); err != nil || again.usual != 0 || again.window != 2000 {
		t.Errorf("a state of five numbers: %v, %+v", err, again)
	}
	if err := again.Restore(appendFloats(nil, []float64{1, 2000, 3, 4, 5, -6})); err == nil {
		t.Error("a negative wait was read")
	}
}

// A lost task's channel may be asked for again after an eighth of its change interval, one that failed not before the cap allows it.
func TestLostIsAskedForAgainSooner(t *testing.T) {
	for kind, want := range map[Kind]Tick{Lost: 11, Refused: 11, Failed: 41} {
		s := NewScheduler(1, must(t, "price", Params{}), Options{Groups: 1, Prior: Prior(80, 1), Cap: 2, MaxOut: 1})
		at := s.Add(Facts{})
		all := Load{Room: -1}
		admit := func(Slot) (Tick, bool) { return 0, true }
		if n := s.Next(1, all, admit); n != 1 {
			t.Fatalf("%d taken", n)
		}
		s.Observe(2, at, Event{Kind: kind})
		now := Tick(3)
		for s.Next(now, all, admit) == 0 && now < 100 {
			now++
		}
		if now != want {
			t.Errorf("kind %d: again at tick %d, want %d", kind, now, want)
		}
	}
}

// TestPriceFallsFastWhereAllStandsStill checks that a price from before costs were known falls fast once nothing has
// been worth it for ten ticks. If room is used, or something is taken, it falls as slowly as ever.
func TestPriceFallsFastWhereAllStandsStill(t *testing.T) {
	after := func(ticks Tick, out, taken int) float64 {
		v := newPrice("price", Params{}, freshIndex{})
		v.Start(1, Setting{Groups: newGroups(5, nil)})
		v.phi = 1000
		for now := Tick(1); now <= ticks; now++ {
			v.Quota(now, Load{Room: -1, Out: out})
			v.Taken(now, taken, 1, false)
		}
		return v.phi
	}
	slow := after(60, windowLeast, 0)
	if slow < 250 {
		t.Errorf("with all of the window out the price fell to %v in an hour", slow)
	}
	if got := after(60, 0, 1); got != slow {
		t.Errorf("with something taken the price fell to %v, want %v", got, slow)
	}
	if got := after(10, 0, 0); got < 800 {
		t.Errorf("after ten ticks without a task the price is %v", got)
	}
	if got := after(60, 0, 0); got > 1 {
		t.Errorf("after an hour without a task the price is %v", got)
	}
}

// A strategy that shares the swarm with others begins with its part of the window, and the window moves with that part.
func TestWindowOfShare(t *testing.T) {
	begin := func(share float64) *price {
		s, err := New("price", Params{})
		if err != nil {
			t.Fatal(err)
		}
		NewScheduler(1, s, Options{Groups: 1}) // starts it
		v := s.(*price)
		v.Quota(1, Load{Room: -1, Share: share})
		return v
	}
	whole, part := begin(0), begin(.25)
	if whole.window != windowLeast || part.window != windowLeast/4 {
		t.Errorf("windows at first: %v, and %v with a quarter of the swarm", whole.window, part.window)
	}
	part.Quota(2, Load{Room: -1, Share: .5})
	if part.window != windowLeast/2 {
		t.Errorf("with half of the swarm: %v", part.window)
	}
	whole.Quota(2, Load{Room: -1})
	if whole.window != windowLeast {
		t.Errorf("the window of the only one moved to %v", whole.window)
	}
	again := begin(0)
	if err := again.Restore(part.AppendState(nil)); err != nil {
		t.Fatal(err)
	}
	again.share = 0 // as after a start
	again.Quota(3, Load{Room: -1})
	again.Quota(4, Load{Room: -1, Share: .5})
	if again.window != part.window {
		t.Errorf("after a start, the share is told a little later: a window of %v, which was %v", again.window, part.window)
	}
}
