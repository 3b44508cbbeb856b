package pglab

import (
	"testing"
)

// TestFailover writes at a server, kills it, and reads at its standby what it has answered. The old one then follows the new one.
func TestFailover(t *testing.T) {
	a := Start(t, Options{})
	b := StartStandby(t, a, Options{})
	if _, err := a.Ask(t.Context(), "CREATE TABLE t (n int)"); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Ask(t.Context(), "SET synchronous_commit = on; INSERT INTO t VALUES (1)"); err != nil {
		t.Fatal(err)
	}
	a.Kill()
	if a.Runs() {
		t.Error("a server runs that was killed")
	}
	if err := b.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := a.Follow(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Ask(t.Context(), "SET synchronous_commit = remote_apply; INSERT INTO t VALUES (2)"); err != nil {
		t.Fatal(err)
	}
	if n, err := a.Ask(t.Context(), "SELECT sum(n) FROM t"); err != nil || n != "3" {
		t.Errorf("the old server, which follows now, has %s, %v; want 3", n, err)
	}
}
