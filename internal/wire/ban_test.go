package wire

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"shoal/internal/member"
	"shoal/internal/wire/wirepb"
)

// banning is a document that bans.
func (w *testNet) banning(names ...string) []byte {
	w.t.Helper()
	var list []member.Ban
	for _, n := range names {
		list = append(list, member.BanOf(n))
	}
	doc, err := w.auth.SignDocument(member.Document{Name: "test", MinSerial: 1, Delegations: [][]byte{w.auth.Sealed()}, Banned: list,
		Managers: []member.Server{{Peer: w.manager.ID().String(), Addrs: bare(w.manager)}}, Issued: time.Now(), NotAfter: time.Now().Add(time.Hour)})
	if err != nil {
		w.t.Fatal(err)
	}
	return doc
}

// A ban ends what the banned member has open, at the manager when it is made, and at another server and a peer as soon as they hear of it;
// and nothing lets it in again, until it is forgiven.
func TestBanEndsConnectionsEverywhere(t *testing.T) {
	w := newNet(t, openPolicy)
	archive := w.node(Config{Role: member.Archive})
	sealed, err := w.issuer.Appoint(time.Now(), archive.ID().String(), member.Archive)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := archive.take(w.document(1)); err != nil {
		t.Fatal(err)
	}
	if err := archive.install(sealed, func(*Kept) {}); err != nil {
		t.Fatal(err)
	}
	if err := archive.Connect(t.Context(), w.manager.ID(), w.manager.Addrs()...); err != nil {
		t.Fatal(err)
	}
	knows(t, w.manager, archive)
	bad, good := w.member(Config{}), w.member(Config{})
	all := []*Node{w.manager, archive, good}
	for _, n := range all {
		serveEcho(n)
		if err := bad.Connect(t.Context(), n.ID(), n.Addrs()...); err != nil {
			t.Fatal(err)
		}
		knows(t, n, bad)
	}
	call := func(n *Node) error { _, err := bad.Call(t.Context(), n.ID(), echo, nil, 100); return err }
	for _, n := range all {
		if err := call(n); err != nil {
			t.Fatal(err)
		}
	}

	if err := w.issuer.Deny(bad.ID().String(), true); err != nil {
		t.Fatal(err)
	}
	if err := w.manager.Learn(w.banning(bad.ID().String())); err != nil {
		t.Fatal(err)
	}
	if _, is := w.manager.Member(bad.ID()); is {
		t.Error("still a member at the manager once the ban was made")
	}
	for _, n := range all {
		eventually(t, "the ban has arrived", func() bool { _, is := n.Member(bad.ID()); return !is })
		if err := call(n); err == nil {
			t.Error("a banned member was served")
		}
	}
	if err := bad.Renew(t.Context()); !errors.Is(err, Refused) || !outcast(err) {
		t.Errorf("renewed: %v", err)
	}
	if err := bad.Join(t.Context(), w.joinString(), "eve"); !errors.Is(err, Refused) {
		t.Errorf("joined anew: %v", err)
	}
	if err := good.Connect(t.Context(), archive.ID(), archive.Addrs()...); err != nil {
		t.Errorf("another member: %v", err)
	}

	if err := w.issuer.Deny(bad.ID().String(), false); err != nil {
		t.Fatal(err)
	}
	if err := w.manager.Learn(w.banning()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "forgiven", func() bool { return bad.Connect(t.Context(), w.manager.ID(), w.manager.Addrs()...) == nil })
	for _, n := range all {
		eventually(t, "forgiven there too", func() bool { return bad.Connect(t.Context(), n.ID(), n.Addrs()...) == nil && call(n) == nil })
	}
}

// A member whose certificate was good when it was checked, and is banned before it is let in, is not let in; and a disk that takes nothing
// does not keep a ban from acting.
func TestBanBeforeAdmission(t *testing.T) {
	w := newNet(t, openPolicy)
	full := false
	b := w.member(Config{Keep: func(Kept) error {
		if full {
			return errors.New("disk full")
		}
		return nil
	}})
	bad, late := w.member(Config{}), w.member(Config{})
	for _, n := range []*Node{bad, late} {
		if err := n.Connect(t.Context(), b.ID(), b.Addrs()...); err != nil {
			t.Fatal(err)
		}
		knows(t, b, n)
	}
	conns := b.gate.ConnsToPeer(late.ID())
	m := *b.gate.MemberOf(conns[0])
	full = true
	if err := b.Learn(w.banning(bad.ID().String())); err == nil {
		t.Error("a document that could not be kept was taken without a word")
	}
	if _, is := b.Member(bad.ID()); is {
		t.Error("a full disk keeps a ban from acting")
	}
	full = false
	eventually(t, "a document of a later millisecond", func() bool {
		changed, err := b.take(w.banning(late.ID().String()))
		if err != nil {
			t.Fatal(err)
		}
		return changed
	})
	if err := b.greeter.admit(conns[0], m, nil); !errors.Is(err, Refused) {
		t.Errorf("admitted: %v", err)
	}
	if _, is := b.Member(late.ID()); is {
		t.Error("a banned member was let in")
	}
}

// A banned account's members are refused, whatever their identity.
func TestBanOfAnAccount(t *testing.T) {
	w := newNet(t, openPolicy)
	invite, err := w.issuer.Invite([8]byte{1}, 9, time.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	j := w.joinString()
	j.Invite = invite
	var crew []*Node
	for range 3 {
		n := w.node(Config{})
		if err := n.Join(t.Context(), j, ""); err != nil {
			t.Fatal(err)
		}
		knows(t, w.manager, n)
		crew = append(crew, n)
	}
	m, _ := w.manager.Member(crew[0].ID())
	if err := w.issuer.Deny(m.Account, true); err != nil {
		t.Fatal(err)
	}
	if err := w.manager.Learn(w.banning(m.Account)); err != nil {
		t.Fatal(err)
	}
	for _, n := range crew {
		if _, is := w.manager.Member(n.ID()); is {
			t.Error("a member of the banned account is there")
		}
	}
	if err := w.node(Config{}).Join(t.Context(), j, ""); !errors.Is(err, Refused) {
		t.Errorf("a new identity of the account: %v", err)
	}
}

func TestJoiningCostsWork(t *testing.T) {
	const wanted = 12
	w := newNet(t, member.Policy{Work: wanted})
	n := w.node(Config{})
	if err := n.Join(t.Context(), w.joinString(), "ada"); err != nil {
		t.Fatal(err)
	}
	// A program of version 0.1.0 knows nothing of it, and is told why it is refused.
	old := w.node(Config{})
	c := w.raw(old, w.manager)
	_, err := old.ask(t.Context(), c, &wirepb.Hello{Want: wantJoin, Label: "old"})
	var s *Status
	if !errors.As(err, &s) || s.Code != Refused || s.Reason != "work" {
		t.Fatalf("without: %v", err)
	}
	var asked *toll
	if !errors.As(err, &asked) || asked.work.Bits != wanted {
		t.Fatalf("asked for %+v", asked)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := n.prove(ctx, member.Work{Bits: member.MaxWork, Salt: asked.work.Salt}); !errors.Is(err, context.Canceled) {
		t.Errorf("searched on: %v", err)
	}
	if _, err := n.prove(t.Context(), member.Work{Bits: member.MaxWork + 1, Salt: asked.work.Salt}); err == nil {
		t.Error("searches for whatever it is asked for")
	}
}

// A manager that asks for more bits than a byte holds is not taken for one that asks for few.
func TestWorkBeyondABit(t *testing.T) {
	b, err := proto.Marshal(&wirepb.Welcome{Code: uint32(Refused), WorkBits: 257, WorkSalt: make([]byte, 16)})
	if err != nil {
		t.Fatal(err)
	}
	_, err = readWelcome(b, time.Now(), time.Now())
	var asked *toll
	if !errors.As(err, &asked) || asked.work.Validate() == nil {
		t.Errorf("%v", err)
	}
}

// TestWhoIsOutcast tells apart why a server does not let a peer in: a volunteer who reads of a ban must be banned, and not have a certificate that is no good.
func TestWhoIsOutcast(t *testing.T) {
	w := newNet(t, openPolicy)
	bad := w.member(Config{})
	altered := w.certified(func(c *member.Certificate) { c.Peer = bad.ID().String() }, w.auth)
	if err := altered.Connect(t.Context(), w.manager.ID(), w.manager.Addrs()...); err == nil || outcast(err) || !errors.Is(err, NotMember) || !strings.Contains(err.Error(), "another peer") {
		t.Errorf("with a certificate that is another's: %v", err)
	}
	if err := w.issuer.Deny(bad.ID().String(), true); err != nil {
		t.Fatal(err)
	}
	if err := w.manager.Learn(w.banning(bad.ID().String())); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is told that it is banned", func() bool {
		err := bad.Connect(t.Context(), w.manager.ID(), w.manager.Addrs()...)
		return outcast(err) && errors.Is(err, NotMember)
	})
}

// TestWhyOutlivesTheConnection: a connection that is refused may have ended before its caller comes to ask why. The caller is told why all the same, and by
// no means that there is no member.
func TestWhyOutlivesTheConnection(t *testing.T) {
	w := newNet(t, openPolicy)
	bad := w.member(Config{})
	altered := w.certified(func(c *member.Certificate) { c.Peer = bad.ID().String() }, w.auth)
	var wg sync.WaitGroup
	for range 2 * runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for range 25 {
				if err := altered.Connect(t.Context(), w.manager.ID(), w.manager.Addrs()...); err == nil || !strings.Contains(err.Error(), "another peer") {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// TestGreetedAgainInVain: a member that does not answer when it is greeted again, with a newer document or certificate, stays one. Calls to it would break off.
func TestGreetedAgainInVain(t *testing.T) {
	w := newNet(t, openPolicy)
	a := w.member(Config{})
	if err := a.Connect(t.Context(), w.manager.ID(), w.manager.Addrs()...); err != nil {
		t.Fatal(err)
	}
	conns := a.gate.ConnsToPeer(w.manager.ID())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range conns {
		a.greet(ctx, c)
	}
	for _, c := range conns {
		if c.IsClosed() || a.gate.MemberOf(c) == nil {
			t.Error("the connection has ended")
		}
	}
	if len(conns) == 0 {
		t.Error("no connection")
	}
}
