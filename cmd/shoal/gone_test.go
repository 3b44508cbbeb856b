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

// TestCountersOfGoneManagers adds what managers have counted that are gone, each once: one that is started again goes on with what it had counted, and until it tells
// that, what it told last counts.
func TestCountersOfGoneManagers(t *testing.T) {
	var o others
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	of := func(peer string, started time.Time, updates int64) about {
		return about{Peer: peer, Started: started, Figures: &desk.Figures{Updates: updates, Channels: 9}}
	}
	o.count("long gone", desk.Figures{Updates: 1000})
	o.count("me", desk.Figures{Updates: 5})
	begins := about{Peer: "a", Started: now.Add(time.Minute)}
	for _, step := range []struct {
		there []about
		want  int64
	}{
		{[]about{of("me", now, 1), of("a", now, 10), of("b", now, 100)}, 1000},
		{[]about{of("me", now, 2), of("a", now, 20), of("b", now, 200)}, 1000},
		{[]about{of("me", now, 2), of("a", now, 30)}, 1200},
		{[]about{of("me", now, 2), begins}, 1230},
		{[]about{of("me", now, 2), of("a", now.Add(time.Minute), 31)}, 1200},
		{[]about{of("me", now, 2)}, 1231},
		{[]about{of("me", now, 2)}, 1231},
	} {
		o.depart(step.there, "me", now)
		o.about = step.there
		if got := o.elsewhere("me"); got.Updates != step.want || got.Channels != 0 {
			t.Errorf("with %d there: %+v, want %d updates", len(step.there), got, step.want)
		}
	}
}

// TestHostsWithoutManager tells when no manager has some hosts for longer than a move takes, as when an archive alone is all that runs.
func TestHostsWithoutManager(t *testing.T) {
	var o others
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for i, step := range []struct {
		after time.Duration
		free  int
		says  string
	}{{0, 0, ""}, {0, 64, ""}, {freeTold - time.Second, 256, ""}, {time.Second, 128, "of 128 of 256 parts of the Web hosts, which no manager has had since 2026-01-02 03:04:05 UTC"}, {0, 0, ""}, {time.Hour, 5, ""}} {
		now = now.Add(step.after)
		o.noteFree(step.free, now)
		found := o.unowned(now)
		if (len(found) > 0) != (step.says != "") || len(found) > 0 && (!strings.Contains(found[0].What, step.says) || found[0].Level != desk.Error) {
			t.Errorf("step %d: %+v", i, found)
		}
	}
}
