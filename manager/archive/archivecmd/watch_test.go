package archivecmd

import (
	"bytes"
	"context"
	"testing"
	"testing/synctest"
	"time"

	"shoal/manager/archive"
)

// TestWatch has a command wait for other work: where no terminal is, each step is a line, however far it comes, and what ends at once says nothing.
func TestWatch(t *testing.T) {
	since := time.Date(2026, 11, 28, 23, 4, 5, 0, time.UTC)
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		work := archive.Work{What: "verification", Since: since, Step: "reading files", Done: 0, All: 9e6, Waiting: []string{"compaction"}}
		looks := 0
		stop := Watch(t.Context(), &out, func(context.Context) *archive.Work {
			switch looks++; {
			case looks < 10:
				work.Done += 1e6
			case looks == 10:
				work.Step = "reading the index"
			case looks == 11:
				work = archive.Work{What: "compaction", Since: since.Add(10 * time.Second)}
			default:
				return nil
			}
			w := work
			return &w
		})
		time.Sleep(time.Minute)
		stop()
		want := "verification since 23:04:05 UTC, reading files; waiting for its turn: compaction\n" +
			"verification since 23:04:05 UTC, reading the index; waiting for its turn: compaction\n" +
			"compaction since 23:04:15 UTC\n"
		if out.String() != want {
			t.Errorf("it says\n%swant\n%s", out.String(), want)
		}
		out.Reset()
		Watch(t.Context(), &out, func(context.Context) *archive.Work { return &work })()
		if out.Len() > 0 {
			t.Errorf("of what ends at once it says %q", out.String())
		}
	})
}
