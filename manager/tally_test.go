package manager

import (
	"maps"
	"strings"
	"testing"
	"time"

	"shoal/channel"
)

// TestAFailureCountsOnce: a failed task is counted by what its crawl met, and as a failed task only where its report names nothing. No kind has a space.
func TestAFailureCountsOnce(t *testing.T) {
	t.Parallel()
	ta := newTally(time.Now())
	for _, r := range []channel.Report{
		{Outcome: channel.Failed, Errors: map[string]int{"timeout": 1}},
		{Outcome: channel.Failed, Errors: map[string]int{"skipped-robots": 2}},
		{Outcome: channel.HostBlocked},
		{Outcome: channel.Refused},
		{Outcome: channel.Updated, Errors: map[string]int{"http-404": 3}},
	} {
		ta.report(&r)
	}
	if want := map[string]int64{"timeout": 1, "skipped-robots": 2, "task-failed": 1, "task-blocked": 1, "task-refused": 1, "http-404": 3}; !maps.Equal(ta.errors, want) {
		t.Errorf("counted %v, want %v", ta.errors, want)
	}
	for o := channel.Updated; o <= channel.Lapsed+1; o++ {
		if kind := outcomeKind(o); strings.Contains(kind, " ") || !strings.HasPrefix(kind, "task-") {
			t.Errorf("outcome %d is counted as %q", o, kind)
		}
	}
}

// TestErrorsOfEarlierVersions: what an earlier version counted under words with spaces goes on under those of now.
func TestErrorsOfEarlierVersions(t *testing.T) {
	t.Parallel()
	ta := newTally(time.Now())
	ta.fault(kindGivenUp)
	ta.recall(&remembered{Errors: map[string]int64{"given up": 2, "task failed": 3, "task blocked by its host": 4, "dns-not-found": 5}})
	if want := map[string]int64{"given-up": 3, "task-failed": 3, "task-blocked": 4, "dns-not-found": 5}; !maps.Equal(ta.errors, want) {
		t.Errorf("counted %v, want %v", ta.errors, want)
	}
}
