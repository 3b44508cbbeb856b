package main

import (
	"slices"
	"strings"
	"testing"
	"time"
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
}
