package lease

import (
	"testing"
	"time"
)

// TestClaimIsAwaitedNoLonger: a task that was issued by a clock far ahead is awaited for no longer than one of now; others are left alone.
func TestClaimIsAwaitedNoLonger(t *testing.T) {
	now, most := time.Date(2026, 11, 26, 0, 0, 0, 0, time.UTC), 24*time.Hour
	for _, ahead := range []time.Duration{0, 40 * 24 * time.Hour} {
		var i Issue
		then := now.Add(ahead)
		if _, err := i.Next(then, then.Add(time.Hour), Terms{Term: time.Hour, Slack: time.Second}); err != nil {
			t.Fatal(err)
		}
		if got, want := i.Bound(now, most), ahead > 0; got != want {
			t.Errorf("issued %v ahead: it changes: %v", ahead, got)
		}
		if end := i.Deadline(); end.After(now.Add(most)) || i.Phase != Placing || i.Bound(now, most) {
			t.Errorf("issued %v ahead: it is %v, awaited until %v", ahead, i.Phase, end)
		}
	}
	i := Issue{Phase: Leased, until: now.Add(40 * 24 * time.Hour).UnixNano()}
	if i.Bound(now, most) {
		t.Error("what a lease keeps has changed")
	}
}

// TestNoLeaseKeepsOthersBackForLonger revokes a lease that was granted by a clock far ahead: once the clock is set right another peer is let in after a term.
func TestNoLeaseKeepsOthersBackForLonger(t *testing.T) {
	now, terms := time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC), Default()
	for _, ahead := range []time.Duration{0, 40 * 24 * time.Hour} {
		var f Fence
		then := now.Add(ahead)
		f.Deposit(1)
		if s := f.Claim(then, 7, 1, then.Add(time.Hour), terms); s.Reply.Status != Granted {
			t.Fatal(s.Reply.Status)
		}
		f.Revoke(then)
		f.Restart(now, terms)
		f.Deposit(9)
		for wait, want := range map[time.Duration]Status{terms.Term - 1: Held, terms.Term: Granted} {
			g := f
			if s := g.Claim(now.Add(wait), 8, 9, now.Add(time.Hour), terms); s.Reply.Status != want {
				t.Errorf("granted %v ahead: after %v another claim is %v, want %v", ahead, wait, s.Reply.Status, want)
			}
		}
	}
}

// TestEndedLeaseKeepsNobodyBack ends a lease by a clock ten minutes ahead, in each way in which its holder knows of it. Once the clock is set right the generation after it is revoked or taken
// back, as an operator or the manager does: the next one is granted at once.
func TestEndedLeaseKeepsNobodyBack(t *testing.T) {
	now, terms := time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC), Default()
	then := now.Add(10 * time.Minute)
	for how, end := range map[string]func(f *Fence){
		"reported": func(f *Fence) { f.Put(then, 7, Chunk{Gen: 1, Seq: 1, Final: true}, terms) },
		"released": func(f *Fence) { f.Release(then, 7, 1) },
	} {
		for what, over := range map[string]func(f *Fence) Step{
			"revoked":    func(f *Fence) Step { return f.Revoke(now) },
			"taken back": func(f *Fence) Step { f.Deposit(2); return f.TakeBack(now, 2) },
			"lost":       func(f *Fence) Step { return f.Lost(now, 2) },
			"over":       func(f *Fence) Step { return f.Over(now, 1) },
		} {
			var f Fence
			f.Deposit(1)
			if s := f.Claim(then, 7, 1, then.Add(time.Hour), terms); s.Reply.Status != Granted {
				t.Fatal(s.Reply.Status)
			}
			end(&f)
			if s := over(&f); s.Event.Kind != Released || !s.Event.Until.IsZero() {
				t.Errorf("%s, then %s: the manager hears %v", how, what, s.Event)
			}
			f.Deposit(9)
			if s := f.Claim(now, 8, 9, now.Add(time.Hour), terms); s.Reply.Status != Granted || s.Reply.Rested != leastRested {
				t.Errorf("%s, then %s: the next claim is %v, with %v left, and the host has rested for %v", how, what, s.Reply.Status, s.Reply.Left, s.Reply.Rested)
			}
		}
	}
}

// TestNobodyIsKeptBackByAClockThatWasAhead ends a lease, and the generation after it, while the clock is ten minutes ahead. Once it is set right the next claim is granted at once where the
// holder knew of the end, and after a term where it did not, also if the fence was not touched between.
func TestNobodyIsKeptBackByAClockThatWasAhead(t *testing.T) {
	now, terms := time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC), Default()
	then := now.Add(10 * time.Minute)
	terms.Term = time.Minute
	for how, tt := range map[string]struct {
		end   func(f *Fence)
		knows bool
	}{
		"reported":                        {func(f *Fence) { f.Put(then, 7, Chunk{Gen: 1, Seq: 1, Final: true}, terms) }, true},
		"reported, then revoked":          {func(f *Fence) { f.Put(then, 7, Chunk{Gen: 1, Seq: 1, Final: true}, terms); f.Revoke(then) }, true},
		"released, and the next one lost": {func(f *Fence) { f.Release(then, 7, 1); f.Lost(then, 2) }, true},
		"reported, the next taken back": {func(f *Fence) {
			f.Put(then, 7, Chunk{Gen: 1, Seq: 1, Final: true}, terms)
			f.Deposit(2)
			f.TakeBack(then, 2)
		}, true},
		"revoked":               {func(f *Fence) { f.Revoke(then) }, false},
		"evicted":               {func(f *Fence) { f.Evict(then) }, false},
		"revoked, and again":    {func(f *Fence) { f.Revoke(then); f.Revoke(then.Add(1)) }, false},
		"it runs":               {func(*Fence) {}, false},
		"released by a restart": {func(f *Fence) { f.Claim(then, 7, 1, then, terms); f.Release(then, 7, 1) }, false},
	} {
		var f Fence
		f.Deposit(1)
		if s := f.Claim(then, 7, 1, then.Add(time.Hour), terms); s.Reply.Status != Granted {
			t.Fatal(s.Reply.Status)
		}
		tt.end(&f)
		f.Deposit(9)
		s := f.Claim(now, 8, 9, now.Add(time.Hour), terms)
		if tt.knows {
			if s.Reply.Status != Granted || s.Reply.Rested != leastRested {
				t.Errorf("%s: the next claim is %v, with %v left, and the host has rested for %v", how, s.Reply.Status, s.Reply.Left, s.Reply.Rested)
			}
			continue
		}
		if s.Reply.Status != Held || s.Reply.Left != terms.Term || !s.Persist {
			t.Errorf("%s: the next claim is %v, with %v left, kept: %v", how, s.Reply.Status, s.Reply.Left, s.Persist)
		}
		for wait, want := range map[time.Duration]Status{terms.Term - 1: Held, terms.Term: Granted} {
			g := f
			if s := g.Claim(now.Add(wait), 8, 9, now.Add(time.Hour), terms); s.Reply.Status != want || s.Persist != (want == Granted) {
				t.Errorf("%s: after %v another claim is %v, want %v", how, wait, s.Reply.Status, want)
			}
		}
	}
}

// TestLostAndPassed asks of a generation that the fence has passed since, as where its channel was to be removed: it is over, which is said again.
func TestLostAndPassed(t *testing.T) {
	now := time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC)
	var f Fence
	f.Deposit(4)
	if s := f.Lost(now, 4); s.Event.Kind != 0 {
		t.Errorf("deposited, and not claimed: %v", s.Event)
	}
	f.Revoke(now)
	if s := f.Lost(now, 4); s.Event.Kind != Released || s.Event.Gen != 5 || !s.Event.Until.IsZero() || !s.Persist {
		t.Errorf("revoked: %v", s.Event)
	}
	f.Deposit(6)
	f.Claim(now, 7, 6, now.Add(time.Hour), Default())
	if s := f.Lost(now, 4); s.Event.Kind != 0 {
		t.Errorf("a later one runs: %v", s.Event)
	}
}
