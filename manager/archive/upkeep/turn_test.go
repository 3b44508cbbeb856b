package upkeep

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
)

// alone has turns that share their ledger with no other manager.
func alone() *turns {
	return newTurns(func(context.Context) (func(), error) { return func() {}, nil })
}

// TestTurnEnds has somebody wait for a turn that another one has for long, and give up.
func TestTurnEnds(t *testing.T) {
	u := &Upkeep{turns: alone()}
	release, err := u.turns.turn(t.Context(), backingUp)
	if err != nil {
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
	release()
	if w := u.Work(); w != nil {
		t.Errorf("at work after it: %+v", w)
	}
}

// TestTurnFails has another manager not answer: the next one has its turn then.
func TestTurnFails(t *testing.T) {
	silent := errors.New("it does not answer")
	u := &Upkeep{turns: newTurns(func(context.Context) (func(), error) { return nil, silent })}
	for range 2 {
		if _, err := u.turns.turn(t.Context(), compaction); !errors.Is(err, silent) {
			t.Errorf("a turn beside a manager that does not answer: %v", err)
		}
		if w := u.Work(); w != nil {
			t.Errorf("at work after it: %+v", w)
		}
	}
}

// TestTakedownGoesFirst has a compaction let two takedowns go in its middle, of which one gives up; what asked before them goes when the compaction has ended.
func TestTakedownGoesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		held := 0 // of the turns among several managers
		u := &Upkeep{turns: newTurns(func(context.Context) (func(), error) {
			if held++; held > 1 {
				t.Error("two turns among the managers are held")
			}
			return func() { held-- }, nil
		})}
		var order []string
		do := func(ctx context.Context, what string) {
			release, err := u.turns.turn(ctx, what)
			if err != nil {
				order = append(order, what+" gave up")
				return
			}
			order = append(order, what)
			release()
		}
		release, err := u.turns.turn(t.Context(), compaction)
		if err != nil {
			t.Fatal(err)
		}
		u.turns.step("rewriting files", 10)
		u.turns.did(3)
		if u.turns.yield() {
			t.Error("it let something go first, and nothing waits")
		}
		ctx, cancel := context.WithCancel(t.Context())
		go do(t.Context(), verification)
		synctest.Wait()
		go do(t.Context(), takedown)
		synctest.Wait()
		go do(ctx, takedown)
		synctest.Wait()
		if w := u.Work(); !slices.Equal(w.Waiting, []string{takedown, takedown, verification}) {
			t.Errorf("waiting: %v", w.Waiting)
		}
		cancel()
		synctest.Wait()
		if !u.turns.yield() {
			t.Error("it let nothing go first, and a takedown waits")
		}
		if w := u.Work(); w == nil || w.What != compaction || w.Step != "rewriting files" || w.Done != 3 || held != 1 {
			t.Errorf("at work after the takedown: %+v; %d turns are held", w, held)
		}
		order = append(order, "end of compaction")
		release()
		synctest.Wait()
		if want := []string{takedown + " gave up", takedown, "end of compaction", verification}; !slices.Equal(order, want) {
			t.Errorf("they went as %q, want %q", order, want)
		}
		if w := u.Work(); w != nil || held != 0 {
			t.Errorf("at work at the end: %+v; %d turns are held", w, held)
		}
	})
}
