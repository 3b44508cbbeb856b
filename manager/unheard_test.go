package manager

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"shoal/channel"
)

// TestFailedNotesAreTriedAgain has the database be away while another manager's notes come in: they are done once it is back, in their order. They were dropped, though the operator was told that it was done.
func TestFailedNotesAreTriedAgain(t *testing.T) {
	now := time.Unix(1e9, 0)
	away := errors.New("the database is away")
	var done []string
	broken := map[string]error{}
	tn := &tenancy{core: &core{log: slog.New(slog.DiscardHandler), cfg: Config{Now: func() time.Time { return now }}}}
	tn.hear = func(_ context.Context, n channel.Note) error {
		if err := broken[n.What]; err != nil {
			return err
		}
		done = append(done, n.What)
		return nil
	}
	look := func(when string, want ...string) {
		t.Helper()
		tn.unheard.hear(t.Context(), tn)
		if !slices.Equal(done, want) {
			t.Errorf("%s: done are %q, want %q", when, done, want)
		}
	}
	broken["strategy"], broken["odd"] = away, fmt.Errorf("%w: it is no JSON", errNote)
	tn.unheard.add([]channel.Note{{What: "pause"}, {What: "odd"}, {What: "strategy"}, {What: "limits"}})
	look("while the database is away", "pause")
	now = now.Add(unheardFor / 2)
	look("a while later", "pause")
	delete(broken, "strategy")
	look("when it is back", "pause", "strategy", "limits")

	// One that fails for good makes room.
	broken["trust"] = away
	tn.unheard.add([]channel.Note{{What: "trust"}, {What: "reset"}})
	look("while one fails", "pause", "strategy", "limits")
	now = now.Add(unheardFor)
	look("at the end of its time", "pause", "strategy", "limits", "reset")
	if len(tn.unheard.notes) > 0 {
		t.Errorf("%d notes are left", len(tn.unheard.notes))
	}
}
