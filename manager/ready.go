package manager

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// ErrStopped is returned for what only a running manager can do.
var ErrStopped = errors.New("manager: not running")

const aliveFor = 5 * time.Second // the loop must answer within

// Alive reports whether the loop answers.
func (m *Manager) Alive(ctx context.Context) error {
	if !m.running.Load() {
		return ErrStopped
	}
	ctx, cancel := context.WithTimeout(ctx, aliveFor)
	defer cancel()
	return m.do(ctx, func(time.Time) {})
}

// Ready reports whether tasks are handed out; the error says why not.
func (m *Manager) Ready(ctx context.Context) error {
	if err := m.Alive(ctx); err != nil {
		return err
	}
	if n := m.Overview().Blocking; len(n) > 0 {
		return fmt.Errorf("manager: %s", slices.Min(n))
	}
	return nil
}
