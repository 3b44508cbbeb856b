package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"shoal/manager/desk"
)

// TestGoneManagers tells which managers are not there any more, until they are back, or for a day.
func TestGoneManagers(t *testing.T) {
	var o others
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	all := []about{{Peer: "me", Name: "here"}, {Peer: "a", Name: "east"}, {Peer: "b", Name: "west"}}
	for i := range all {
		all[i].Started = now
	}
	for _, step := range []struct {
		after time.Duration
		there []about
		gone  []string
	}{
		{0, all, nil}, {time.Second, all[:2], []string{"west"}}, {time.Hour, all[:1], []string{"east", "west"}}, {time.Minute, all[:2], []string{"west"}},
		{goneTold, all[:2], nil}, {time.Second, all[1:], nil},
	} {
		now = now.Add(step.after)
		o.depart(step.there, "me", now)
		o.about = slices.Clone(step.there)
		found := o.missing()
		if len(found) != len(step.gone) {
			t.Fatalf("of %v there: %v, want %v", step.there, found, step.gone)
		}
		for i, machine := range step.gone {
			if !strings.Contains(found[i].What, " on "+machine+" ") {
				t.Errorf("told %v, want %v", found, step.gone)
			}
		}
	}
}

// TestEndedManagers does not tell of managers that were asked to end, whether that is heard before it is seen or after, and tells of the next start.
func TestEndedManagers(t *testing.T) {
	var o others
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	me, first := about{Peer: "me", Started: now}, about{Peer: "a", Name: "east", Started: now}
	again := about{Peer: "a", Name: "east", Started: now.Add(time.Hour)}
	sees := func(what string, want int, there ...about) {
		t.Helper()
		o.depart(there, "me", now)
		o.about = there
		if found := o.missing(); len(found) != want {
			t.Errorf("%s: told %v", what, found)
		}
	}
	sees("both are here", 0, me, first)
	o.end(first)
	sees("it says that it ends", 0, me, first)
	sees("it is gone", 0, me)
	sees("it is started again", 0, me, again)
	sees("that start dies", 1, me)
	sees("it is back", 0, me, again)
	sees("it is gone", 1, me)
	o.end(again)
	sees("it is heard that it was asked to end", 0, me)
	sees("it is gone for good", 0, me)
	if len(o.ended) > 0 {
		t.Errorf("it is kept of %v that they were asked to end", o.ended)
	}
}

// TestCountersOfGoneManagers adds what managers have counted that are gone, each start once.
func TestCountersOfGoneManagers(t *testing.T) {
	var o others
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	of := func(peer string, started time.Time, updates int64) about {
		return about{Peer: peer, Started: started, Figures: &desk.Figures{Updates: updates, Channels: 9}}
	}
	for _, step := range []struct {
		there []about
		want  int64
	}{
		{[]about{of("me", now, 1), of("a", now, 10), of("b", now, 100)}, 0},
		{[]about{of("me", now, 2), of("a", now, 20), of("b", now, 200)}, 0},
		{[]about{of("me", now, 2), of("a", now, 30)}, 200},
		{[]about{of("me", now, 2), of("a", now.Add(time.Minute), 1)}, 230},
		{[]about{of("me", now, 2)}, 231},
		{[]about{of("me", now, 2)}, 231},
	} {
		o.depart(step.there, "me", now)
		o.about = step.there
		if o.counted.Updates != step.want || o.counted.Channels != 0 {
			t.Errorf("with %d there: %+v, want %d updates", len(step.there), o.counted, step.want)
		}
	}
}
