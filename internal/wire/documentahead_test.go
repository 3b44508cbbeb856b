package wire

import (
	"sync/atomic"
	"testing"
	"time"

	"shoal/internal/member"
)

// TestDocumentOfAClockThatWasAhead has a manager and a member take a network document by clocks that are ten minutes ahead, and set right. Others join, the member renews, and
// learns of a ban that is made next.
func TestDocumentOfAClockThatWasAhead(t *testing.T) {
	var ahead atomic.Int64
	clock := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	w := &testNet{t: t, root: member.NewRoot(newKey())}
	w.manager = w.node(Config{Role: member.Manager, Clock: clock})
	ahead.Store(int64(10 * time.Minute))
	w.rotate(openPolicy, 1)
	early, err := w.auth.SignDocument(member.Document{Name: "test", MinSerial: 1, Delegations: [][]byte{w.auth.Sealed()}, Banned: []member.Ban{member.BanOf("eve")},
		Managers: []member.Server{{Peer: w.manager.ID().String(), Addrs: bare(w.manager)}}, Issued: clock(), NotAfter: clock().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.manager.Learn(early); err != nil {
		t.Fatal(err)
	}
	a := w.member(Config{Clock: clock})
	if !a.Verifier().Banned("eve", "") {
		t.Fatal("the member has another document")
	}

	ahead.Store(0)
	if err := w.manager.Renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	renewed := func(what string) {
		t.Helper()
		// The manager may hang up when it greets the member, whose certificate is of a time to come.
		eventually(t, what, func() bool { return a.Renew(t.Context()) == nil })
	}
	renewed("renewed before another document is signed")
	if err := w.manager.SetIssuer(w.issuer, w.banning("eve", "mallory")); err != nil {
		t.Fatal(err)
	}
	if err := w.node(Config{}).Join(t.Context(), w.joinString(), "bob"); err != nil {
		t.Errorf("joined: %v", err)
	}
	renewed("renewed")
	eventually(t, "the member knows of the ban", func() bool { return a.Verifier().Banned("mallory", "") })
}
