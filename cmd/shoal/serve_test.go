package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
)

// stuck is a manager whose loop does not answer.
type stuck struct{ running bool }

func (s stuck) Running() bool             { return s.running }
func (stuck) Alive(context.Context) error { return errors.New("the loop does not answer") }

// TestHealthWithoutADatabase has a manager's loop wait: for its database, or for nothing that comes. Only of the latter /healthz says that it is dead, since what
// starts it again then would do so for as long as the database is away.
func TestHealthWithoutADatabase(t *testing.T) {
	t.Parallel()
	away := func(context.Context) error { return errors.New("connection refused") }
	hangs := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	there := func(context.Context) error { return nil }
	for what, tt := range map[string]struct {
		m        loop
		database func(context.Context) error
		want     int
	}{
		"its database is away":            {stuck{true}, away, http.StatusOK},
		"its database does not answer":    {stuck{true}, hangs, http.StatusOK},
		"its database is there":           {stuck{true}, there, http.StatusServiceUnavailable},
		"its channels are in a folder":    {stuck{true}, nil, http.StatusServiceUnavailable},
		"it does not run, nor a database": {stuck{false}, away, http.StatusServiceUnavailable},
	} {
		w := httptest.NewRecorder()
		answer(func(ctx context.Context) error { return alive(ctx, tt.m, tt.database) })(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/healthz", nil))
		if w.Code != tt.want {
			t.Errorf("where %s it answers %d, want %d", what, w.Code, tt.want)
		}
	}
}
