package manager

import (
	"context"
	"testing"
	"time"

	"shoal/channel"
)

// states is a database with nothing but the manager's own state.
type states struct {
	Store
	of map[string][]byte
}

func (s *states) State(_ context.Context, key string) ([]byte, error) { return s.of[key], nil }

func (s *states) PutState(_ context.Context, _ channel.Epoch, key string, b []byte) error {
	s.of[key] = b
	return nil
}

// TestFirstRunCountsByTheWallClock has ticks counted in a network's first run as in all later ones: also while the computer sleeps, and so that a clock which is set
// right is noticed. The monotonic clock, which a time has with it and no database keeps, tells neither.
func TestFirstRunCountsByTheWallClock(t *testing.T) {
	now := time.Now()
	if now == now.Round(0) {
		t.Fatal("the time has no monotonic reading, so that this tests nothing")
	}
	m := &Manager{core: &core{cfg: Config{Store: &states{of: map[string][]byte{}}}}}
	var err error
	if m.clock, err = readClock(t.Context(), m.cfg.Store, time.Minute, now); err != nil {
		t.Fatal(err)
	}
	if e := m.clock.Epoch; e != e.Round(0) || !e.Equal(now) {
		t.Errorf("before the first start ticks are counted from %v, want %v by the wall clock", e, now)
	}
	if err := m.countFrom(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	if e := m.clock.Epoch; e != e.Round(0) || !e.Equal(now) {
		t.Errorf("in the first run they are counted from %v, want %v by the wall clock", e, now)
	}
	if again, err := readClock(t.Context(), m.cfg.Store, time.Minute, now.Add(time.Hour)); err != nil || !again.Epoch.Equal(m.clock.Epoch) {
		t.Errorf("in the second one from %v, %v", again.Epoch, err)
	}
}
