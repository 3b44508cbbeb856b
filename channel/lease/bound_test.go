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
