//go:build !linux

package pglab

import (
	"context"
	"testing"
	"time"
)

// Server is one PostgreSQL server.
type Server struct{}

// Options of a server.
type Options struct {
	Durable  bool
	Settings []string
	Room     int64
}

// Start skips the test: servers for tests run on Linux alone.
func Start(t testing.TB, _ Options) *Server {
	t.Helper()
	t.Skip("PostgreSQL for tests runs on Linux alone")
	return nil
}

// Shared skips the test, as Start does.
func Shared(t testing.TB) *Server { return Start(t, Options{}) }

// Run runs the tests of a package.
func Run(m *testing.M) int { return m.Run() }

// Start does nothing.
func (*Server) Start(context.Context) error { return nil }

// Kill does nothing.
func (*Server) Kill() {}

// URL is empty.
func (*Server) URL() string { return "" }

// CPU is nothing.
func (*Server) CPU() (time.Duration, error) { return 0, nil }

// Ask answers nothing.
func (*Server) Ask(context.Context, string) (string, error) { return "", nil }

// Pause does nothing.
func (*Server) Pause() {}

// Resume does nothing.
func (*Server) Resume() {}
