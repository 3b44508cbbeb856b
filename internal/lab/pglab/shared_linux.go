package pglab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
)

// shared is the server that the tests of a process share, which run one after the other.
var shared struct {
	server *Server // nil: no test has wanted it yet
	bases  int     // how many databases were made on it
}

// Run runs the tests of a package, and then ends the server that they shared. TestMain calls it.
func Run(m *testing.M) int {
	code := m.Run()
	s := shared.server
	if s == nil {
		return code
	}
	s.Kill()
	if code != 0 {
		fmt.Fprintf(os.Stderr, "the PostgreSQL server that the tests shared said:\n%s\n", lastLines(s.log.String(), 60))
	}
	if err := s.remove(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return max(code, 1)
	}
	return code
}

// Shared gives a test an empty database, on a server that all tests of the package share: to start one takes longer than most tests. The package's TestMain
// must call Run. Such a test does not run in parallel with others; it may kill the server. The server syncs nothing: it loses no commit when it is
// killed, but would in a power cut.
func Shared(t testing.TB) *Server {
	t.Helper()
	s := shared.server
	if s == nil {
		s = folder(t, Options{})
		shared.server = s
		if err := s.create(Options{}); err != nil {
			t.Fatal(err)
		}
	}
	if s.base != "" {
		t.Fatal("another test has the server, which tests that run in parallel cannot share")
	}
	if !s.Runs() {
		s.Kill() // what is left of it
		if err := s.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	shared.bases++
	base := fmt.Sprint("test", shared.bases)
	if _, err := s.Ask(t.Context(), "CREATE DATABASE "+base); err != nil {
		t.Fatal(err)
	}
	s.base = base
	ctx := context.WithoutCancel(t.Context()) // t's own ends before
	t.Cleanup(func() {
		s.base = ""
		if !s.Runs() { // a test failed before it had started it again
			return
		}
		if _, err := s.Ask(ctx, "DROP DATABASE "+base+" WITH (FORCE)"); err != nil {
			t.Error(err)
		}
	})
	return s
}

// remove removes the folder of a server that does not run.
func (s *Server) remove() error { return errors.Join(s.unmount(), os.RemoveAll(s.dir)) }
