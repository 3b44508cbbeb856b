package main

import (
	"strings"
	"testing"
	"time"

	"shoal/manager/api"
	"shoal/manager/desk"
)

// TestTaskThatNoPeerHasBegun: of a task that waits at a peer the command tells until when it does, and how to give it to another one; of one that is being crawled it does not.
func TestTaskThatNoPeerHasBegun(t *testing.T) {
	until := time.Date(2026, 3, 1, 12, 0, 0, 0, time.Local)
	r := desk.Row{ID: 7, Host: "https://a.example", State: desk.Active, Out: true, Awaited: until}
	for _, c := range []struct {
		awaited time.Time
		list    string
		hint    bool
	}{{until, "begins by 2026-03-01 12:00:00", true}, {time.Time{}, "out now", false}} {
		r.Awaited = c.awaited
		var out strings.Builder
		if err := showChannel(&out, api.Detail{Row: r}); err != nil {
			t.Fatal(err)
		}
		if got := nextCrawl(r); got != c.list || !strings.Contains(out.String(), c.list) || strings.Contains(out.String(), "shoal channel crawl-now 7") != c.hint {
			t.Errorf("the list has %q, the channel\n%s", got, &out)
		}
	}
}
