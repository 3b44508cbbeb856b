package manager_test

import (
	"testing"

	"shoal/manager"
	"shoal/manager/desk"
)

// TestResetKeepsTheOperatorsBlock resets hosts that the operator blocked: what reports told is forgotten, and they stay blocked, for the reason that was given first.
func TestResetKeepsTheOperatorsBlock(t *testing.T) {
	b := open(t, t.TempDir(), func(_ *manager.Config, s *swarm) { s.recalls = true })
	b.add(t, "https://a.example")
	for _, why := range []string{"asked to, ticket 12", desk.Unsaid} {
		if err := b.d.Block(t.Context(), "a.example", why); err != nil {
			t.Fatal(err)
		}
	}
	if n, stays, err := b.d.ResetHost(t.Context(), "a.example"); err != nil || n != 2 || stays != "asked to, ticket 12" {
		t.Errorf("%d hosts reset, which stay blocked for %q, %v", n, stays, err)
	}
	rows, err := b.d.Hosts(t.Context(), "a.example", true, 10)
	if err != nil || len(rows) != 2 || rows[0].Blocked != "asked to, ticket 12" {
		t.Errorf("after the reset the blocked hosts are %+v, %v", rows, err)
	}
}
