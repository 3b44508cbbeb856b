package upkeep

import (
	"context"
	"errors"
	"testing"
)

// TestTurnEnds has somebody wait for a turn that another one has for long, and give up.
func TestTurnEnds(t *testing.T) {
	u := &Upkeep{turns: newTurns(nil)}
	if err := u.turns.take(t.Context(), backingUp); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := u.turns.turn(ctx, compaction); !errors.Is(err, context.Canceled) {
		t.Errorf("it waited on: %v", err)
	}
	if w := u.Work(); w == nil || w.What != backingUp || len(w.Waiting) != 0 {
		t.Errorf("at work: %+v", w)
	}
}
