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
