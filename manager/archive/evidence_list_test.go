package archive

import (
	"testing"
	"time"

	"shoal/manager/trust"
)

// TestCasesBeyondTheListAreCounted has more cases than one answer lists: it tells how many it leaves out, and they are the oldest. Those that are held against a
// peer are told however many it had as a checker.
func TestCasesBeyondTheListAreCounted(t *testing.T) {
	a, cl, _ := strangers(t)
	const beyond = 3
	var lost uint64
	for i := range 1000 + beyond {
		cl.now = cl.now.Add(time.Second)
		about := trust.Case{Reason: trust.LostAudit, URL: uint64(i + 1), Channel: 1, Accused: 7, Accuser: 8, At: int64(i)}
		n, err := a.Evidence.Open(t.Context(), about, "http://site-1.example/", nil)
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			lost = n
		}
	}
	if err := a.Evidence.Ruled(t.Context(), lost, 8, 1.5, 1.5, "lost check"); err != nil {
		t.Fatal(err)
	}
	all, more, err := a.Evidence.List(t.Context(), 8)
	if err != nil || len(all) != 1000 || more != beyond || all[0].About.At != 1000+beyond-1 {
		t.Errorf("%d cases and %d more, %v", len(all), more, err)
	}
	if all, more, err := a.Evidence.Held(t.Context(), 8); err != nil || len(all) != 1 || more != 0 || all[0].Number != lost {
		t.Errorf("%d cases are held against the checker, and %d more, %v; want the oldest", len(all), more, err)
	}
}

// TestAPardonedCaseIsHeldAgainstNobody has a peer pardoned: the cases that it had lost are none against it, and what it loses afterwards is.
func TestAPardonedCaseIsHeldAgainstNobody(t *testing.T) {
	a, cl, cfg := strangers(t)
	lose := func(at int64) uint64 {
		t.Helper()
		cl.now = cl.now.Add(time.Second)
		n, err := a.Evidence.Open(t.Context(), trust.Case{Reason: trust.LostAudit, URL: 1, Channel: 1, Accused: 7, At: at}, "http://site-1.example/", nil)
		if err == nil {
			err = a.Evidence.Ruled(t.Context(), n, 7, 4, 4, "lost audit")
		}
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := lose(1)
	at := cl.now
	after := lose(2)
	for range 2 { // it may be noted again
		if err := a.Evidence.Pardon(t.Context(), 7, at); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	a = open(t, cfg)
	if held, more, err := a.Evidence.Held(t.Context(), 7); err != nil || len(held) != 1 || more != 0 || held[0].Number != after {
		t.Errorf("held against it is %+v, %v", held, err)
	}
	if all, _, err := a.Evidence.List(t.Context(), 7); err != nil || len(all) != 2 || !all[1].Pardoned.Equal(at) || all[1].Number != before || !all[0].Pardoned.IsZero() {
		t.Errorf("the operator sees %+v, %v", all, err)
	}
}
