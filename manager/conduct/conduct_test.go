package conduct

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

type note struct {
	d Deed
	n int
}

// What is a fault, and what happens to honest peers as well.
func TestFaults(t *testing.T) {
	for _, c := range []struct {
		name  string
		notes []note
		want  []Fault
	}{
		{"nothing", nil, nil},
		{"work alone", []note{{Took, 100}, {Delivered, 100}, {Pages, 5000}}, nil},
		{"a laptop that sleeps", []note{{Lapsed, 1}, {Took, 40}, {Delivered, 38}, {Lapsed, 2}}, nil},
		{"a laptop that sleeps with all its tasks", []note{{Lapsed, 7}}, nil},
		{"a laptop that does so daily, and works", []note{{Lapsed, 7}, {Took, 50}, {Delivered, 43}, {Lapsed, 7}, {Took, 50}, {Delivered, 43}, {Lapsed, 7}}, nil},
		{"a busy one", []note{{Unclaimed, 2}, {Took, 2}}, nil},
		{"swallows", []note{{Unclaimed, 1}, {Took, 54}, {Unclaimed, 53}}, []Fault{Swallows}},
		{"swallows a part", []note{{Unclaimed, 5}, {Unclaimed, 5}, {Took, 40}, {Delivered, 30}}, []Fault{Swallows}},
		{"stalls", []note{{Lapsed, 2}, {Empty, 1}, {Lapsed, 1}, {Took, 3}}, []Fault{Stalls}},
		{"dynamic pages", []note{{Forged, 6}, {Pages, 400}}, nil},
		{"few contradictions", []note{{Forged, 4}, {Pages, 4}}, nil},
		{"forges", []note{{Forged, 8}, {Pages, 400}}, []Fault{Contradicted}},
		{"false 404s", []note{{Gone, 305}}, []Fault{Contradicted}},
		{"too many pages", []note{{Budget, 1}}, []Fault{Malformed}},
		{"foreign pages", []note{{Foreign, 2}, {Pages, 10_000}}, []Fault{Malformed}},
		{"everything", []note{{Gone, 9}, {Pace, 1}, {Unclaimed, 8}, {Unclaimed, 1}, {Lapsed, 7}, {Empty, 1}, {Lapsed, 1}}, []Fault{Contradicted, Malformed, Swallows, Stalls}},
	} {
		b := New(time.Minute)
		now := start
		for _, x := range c.notes {
			now = now.Add(time.Hour)
			for range x.n { // all of a note end together, and were taken together
				if x.d == Unclaimed || x.d == Lapsed || x.d == Empty {
					b.Waste(now, now.Add(-time.Minute), "p", "a", x.d)
				} else {
					b.Note(now, "p", "a", x.d, 1)
				}
			}
		}
		got, all := b.Suspects(now, 10)
		switch {
		case len(c.want) == 0 && all == 0:
		case all != 1 || !slices.Equal(got[0].Faults, c.want) || got[0].Account != "a":
			t.Errorf("%s: %+v, want %v", c.name, got, c.want)
		}
	}
}

// Every misdeed belongs to a fault, so that none is counted and never shown.
func TestEveryMisdeedIsOfAFault(t *testing.T) {
	seen := map[Deed]bool{}
	for f, all := range deeds {
		if !slices.Contains(Faults(), f) {
			t.Errorf("%s is not among the faults", f)
		}
		for _, d := range all {
			seen[d] = true
		}
	}
	for _, d := range []Deed{Unclaimed, Lapsed, Empty, Budget, Pace, Unreadable, Foreign, Spelling, Digests, Statuses, Numbers, Forged, Gone} {
		if !seen[d] {
			t.Errorf("%s is of no fault", d)
		}
	}
}

// A member that has as many tasks as it may have attracts too much once that lasts.
func TestAttracts(t *testing.T) {
	b := New(5 * time.Minute)
	full := map[string]string{"near": "invite-1"}
	suspects := func(now time.Time) int {
		_, n := b.Suspects(now, 10)
		return n
	}
	b.Full(start, full)
	b.Full(start.Add(4*time.Minute), full)
	if n := suspects(start.Add(4 * time.Minute)); n != 0 {
		t.Errorf("after 4 minutes: %d suspects", n)
	}
	b.Full(start.Add(6*time.Minute), full)
	got, _ := b.Suspects(start.Add(6*time.Minute), 10)
	if len(got) != 1 || got[0].Faults[0] != Attracts || !got[0].Full.Equal(start) || got[0].Account != "invite-1" {
		t.Errorf("after 6 minutes: %+v", got)
	}
	b.Full(start.Add(7*time.Minute), nil)
	if n := suspects(start.Add(7 * time.Minute)); n != 0 {
		t.Errorf("when it has fewer: %d suspects", n)
	}
}

// Many peers of one account are one line; one or two bad ones among many are named.
func TestAccounts(t *testing.T) {
	b := New(time.Minute)
	for i := range 60 {
		peer := fmt.Sprint("sybil ", i)
		b.Waste(start, start.Add(-time.Minute), peer, "invite-bad", Unclaimed)
	}
	for i := range 20 {
		b.Waste(start, start.Add(-time.Minute), fmt.Sprint("team ", i), "invite-team", Lapsed)
		b.Note(start, fmt.Sprint("team ", i), "invite-team", Delivered, 10)
	}
	b.Note(start, "team 3", "invite-team", Budget, 90)
	b.Note(start, "own", "own", Budget, 1)
	got, all := b.Suspects(start, 10)
	if all != 3 || got[0].Name() != "team 3" || got[1].Name() != "own" || got[2].Name() != "invite-bad" || got[2].Peers != 60 || got[2].Counts[Unclaimed] != 60 {
		t.Errorf("%d: %+v", all, got)
	}
}

// The book is bounded, the worst stay, and what is old is forgotten.
func TestBookIsBounded(t *testing.T) {
	b := New(time.Minute)
	b.Note(start, "worst", "", Gone, 100)
	for i := range 3 * MaxMembers {
		b.Note(start.Add(time.Duration(i)*time.Second), fmt.Sprint("sybil ", i), "", Lapsed, 1)
	}
	if len(b.members) > MaxMembers {
		t.Errorf("%d members", len(b.members))
	}
	if got, all := b.Suspects(start.Add(time.Hour), 1); all != 1 || got[0].Peer != "worst" {
		t.Errorf("%d suspects, %+v", all, got)
	}
	if _, all := b.Suspects(start.Add(forgetAfter+time.Hour), 10); all != 0 {
		t.Errorf("%d suspects after a week of peace", all)
	}
	b.Note(start.Add(forgetAfter+time.Hour), "worst", "", Gone, 1)
	if m := b.members["worst"]; m.Counts[Gone] != 1 || !m.Since.Equal(start.Add(forgetAfter+time.Hour)) {
		t.Errorf("it begins anew with %+v", m)
	}
	for day := range 30 {
		b.Note(start.Add(time.Duration(day)*24*time.Hour), "slow", "", Lapsed, 10)
	}
	if n := b.members["slow"].Counts[Lapsed]; n > 200 {
		t.Errorf("after a month %d are counted", n)
	}
}

// A restart keeps the book, and begins what is out anew.
func TestBookOutlivesARestart(t *testing.T) {
	b := New(time.Minute)
	for i := range 3 {
		at := start.Add(time.Duration(i-3) * time.Hour)
		b.Waste(at, at.Add(-time.Minute), "p", "a", Unclaimed)
	}
	b.Note(start, "q", "", Budget, 1)
	b.Full(start, map[string]string{"q": "b"})
	state, err := b.AppendState(start)
	if err != nil {
		t.Fatal(err)
	}
	after := New(time.Minute)
	if err := after.Restore(state); err != nil {
		t.Fatal(err)
	}
	x, n := b.Suspects(start, 10)
	y, m := after.Suspects(start, 10)
	for i := range x {
		x[i].Full, x[i].until = time.Time{}, nil
	}
	if n != m || !reflect.DeepEqual(x, y) {
		t.Errorf("before %+v, after %+v", x, y)
	}
	for _, bad := range []string{"", "{}", "[null]", `[{"peer":""}]`} {
		if err := after.Restore([]byte(bad)); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	if _, n := after.Suspects(start, 10); n != 2 {
		t.Errorf("after bad states %d are left", n)
	}
}
