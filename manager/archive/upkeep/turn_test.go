package upkeep

import (
	"context"
	"errors"
	"testing"
)

// TestTurnEnds has somebody wait for a turn that another one has for long, and give up.
func TestTurnEnds(t *testing.T) {
	u := &Upkeep{one: make(chan struct{}, 1)}
	u.one <- struct{}{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := u.turn(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("it waited on: %v", err)
	}
}
