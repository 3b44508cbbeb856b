package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"shoal/channel/postgres"
	"shoal/manager"
	"shoal/manager/archive"
	"shoal/manager/archive/bucket"
	"shoal/manager/desk"
)

// TestMoverTells has one migration at a time, whose state is told from the order on. What did not move is never told as done.
func TestMoverTells(t *testing.T) {
	t.Parallel()
	quiet := streams{io.Discard, io.Discard}
	ended := errors.New("no room")
	for name, x := range map[string]struct {
		rest func(*mover)
		want string
		says string
	}{
		"all is moved":           {func(m *mover) { m.over = true }, desk.MoveDone, ""},
		"it could not be closed": {func(m *mover) { m.failed(quiet, ended) }, desk.MoveFailed, ended.Error()},
		"something else ended":   {func(*mover) {}, desk.MoveFailed, runAgain},
	} {
		m := newMover()
		for range 2 { // the second one is not told of the first
			if err := m.Begin(t.Context(), "folder", ""); err != nil {
				t.Fatal(err)
			}
			if now := m.State(); now.State != desk.MoveCopies || now.Error != "" {
				t.Errorf("%s: an order was taken, and told is %+v", name, now)
			}
			if err := m.Begin(t.Context(), "folder", ""); !errors.Is(err, desk.ErrAsk) {
				t.Errorf("%s: a second order: %v", name, err)
			}
			m.rest, m.now.State = <-m.orders, desk.MovePauses
			x.rest(m)
			m.resumed()
			if now := m.State(); now.State != x.want || !strings.Contains(now.Error, x.says) {
				t.Errorf("%s: told is %+v, want %s, %q", name, now, x.want, x.says)
			}
		}
	}
}

// TestKeepRunningAfterAMove waits for a server that is away, and for a command that looks into the folder, once the data has moved, and not before.
func TestKeepRunningAfterAMove(t *testing.T) {
	t.Parallel()
	away, locked, disk := fmt.Errorf("x: %w", postgres.ErrUnreachable), fmt.Errorf("x: %w", archive.ErrLocked), errors.New("the disk is gone")
	for _, x := range []struct {
		ends []error
		want error
	}{
		{[]error{away}, away},
		{[]error{locked}, locked},
		{[]error{errMoving, away, locked, fmt.Errorf("x: %w", bucket.ErrUnreachable), nil}, nil},
		{[]error{errMoving, disk}, disk},
		{[]error{fmt.Errorf("x: %w", manager.ErrElsewhere), away, nil}, nil},
	} {
		n := 0
		err := keepRunning(t.Context(), stationConfig{}, func(string) {}, func(stationConfig) error { n++; return x.ends[n-1] })
		if n != len(x.ends) || !errors.Is(err, x.want) {
			t.Errorf("%v: %d runs and %v", x.ends, n, err)
		}
	}
	ctx, end := context.WithCancel(t.Context())
	end()
	if err := keepRunning(ctx, stationConfig{}, func(string) {}, func(stationConfig) error { return errMoving }); err != nil {
		t.Errorf("asked to end in the pause: %v", err)
	}
}

// TestPatience gives a manager up that says nothing though it tells its address, and not one that is about to come back after a long pause.
func TestPatience(t *testing.T) {
	t.Parallel()
	begun := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, x := range map[string][]struct {
		at    time.Duration
		tells bool
		over  bool
	}{
		"killed":           {{0, true, false}, {moveMute, true, false}, {moveMute + 1, true, true}},
		"ends, pauses":     {{0, true, false}, {moveMute, false, false}, {moveAway, false, false}, {moveAway + moveMute + 1, false, true}},
		"begins, at last":  {{0, false, false}, {moveAway, false, false}, {moveAway + 1, true, false}, {moveAway + moveMute, true, false}},
		"begins, is mute":  {{0, false, false}, {moveMute, true, false}, {2*moveMute + 1, true, true}},
		"begins, is stuck": {{0, false, false}, {moveAway + 1, false, true}},
	} {
		var p patience
		for _, s := range x {
			if over := p.over(begun.Add(s.at), s.tells); over != s.over {
				t.Errorf("%s: after %v: %v", name, s.at, over)
			}
		}
	}
}

// TestAskedToEndWhenToBeginAnew: a manager whose clock was set back to before its network began would begin anew, and is asked to end at that moment. It ends as it was
// asked to, and says why it was about to begin anew. What else failed it returns.
func TestAskedToEndWhenToBeginAnew(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	failed := errors.New("the disk fails")
	for err, want := range map[error]error{fmt.Errorf("it ended: %w", manager.ErrSetBack): nil, failed: failed} {
		said := ""
		if got := keepRunning(ctx, stationConfig{}, func(s string) { said += s }, func(stationConfig) error { return err }); !errors.Is(got, want) {
			t.Errorf("%v: it ended with %v, want %v", err, got, want)
		}
		if told := strings.Contains(said, "the clock was set back"); told != (want == nil) {
			t.Errorf("%v: it says %q", err, said)
		}
	}
}
