package wire

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"shoal/channel"
	"shoal/internal/again"
	"shoal/internal/member"
	"shoal/internal/wire/homing"
)

var openPolicy = member.Policy{}

func run(t testing.TB, n *Node) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := n.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
}

func serial(t *testing.T, n *Node) uint64 {
	t.Helper()
	d, known := n.Document()
	if !known {
		t.Fatal("no document")
	}
	del, err := member.ReadDelegation(d.Delegations[0])
	if err != nil {
		t.Fatal(err)
	}
	return del.Serial
}

func TestRenewal(t *testing.T) {
	w := newNet(t, member.Policy{Life: 1500 * time.Millisecond}) // renewed after a second
	a, b := w.member(Config{}), w.member(Config{})
	serveEcho(b)
	run(t, w.manager)
	run(t, a)
	run(t, b)
	if err := a.Connect(t.Context(), b.ID(), b.Addrs()...); err != nil {
		t.Fatal(err)
	}
	first, at := a.notAfter(), w.manager.notAfter()
	m, _ := b.Member(a.ID())
	eventually(t, "both renew", func() bool { return a.notAfter().After(first) && w.manager.notAfter().After(at) })
	eventually(t, "the other side learns of it on the open connection", func() bool {
		now, _ := b.Member(a.ID())
		return now.NotAfter.After(m.NotAfter)
	})
}

// TestRenewalAfterASleep has the time of a manager go on by more than a certificate's life, as where its computer slept over a weekend, or its clock was set: timers know
// nothing of it. A certificate of a time to come is renewed too.
func TestRenewalAfterASleep(t *testing.T) {
	old := renewLook
	renewLook = 50 * time.Millisecond
	t.Cleanup(func() { renewLook = old })
	w := newNet(t, member.Policy{Life: 20 * time.Minute})
	run(t, w.manager)
	const slept = 30 * time.Minute
	first := w.manager.notAfter()
	time.Sleep(4 * renewLook) // it waits by now
	w.manager.offset.Store(int64(slept))
	eventually(t, "renewed", func() bool { return w.manager.notAfter().Sub(first) >= slept && w.manager.valid() })
	w.manager.offset.Store(0) // that clock was wrong
	eventually(t, "renewed by the right clock", w.manager.valid)
}

func TestUnrenewedMembershipEnds(t *testing.T) {
	_, a, b := pair(t, Config{})
	serveEcho(b)
	if _, err := a.Call(t.Context(), b.ID(), echo, nil, 10); err != nil {
		t.Fatal(err)
	}
	b.offset.Store(int64(member.CertificateLife + member.Skew + time.Minute)) // for b, a's day is over
	_, err := a.Call(t.Context(), b.ID(), echo, nil, 10)
	if err == nil {
		t.Fatal("an ended membership was served")
	}
	eventually(t, "disconnected", func() bool { _, is := a.Member(b.ID()); return !is })
	if b.numbers.count("expired") == 0 {
		t.Error("not counted")
	}
}

// TestRotation is the life of a network whose working key changes: first as routine, then because it was stolen.
func TestRotation(t *testing.T) {
	w := newNet(t, openPolicy)
	a, b := w.member(Config{}), w.member(Config{})
	serveEcho(b)
	for _, n := range []*Node{a, b, w.manager} {
		run(t, n)
	}
	if err := a.Connect(t.Context(), b.ID(), b.Addrs()...); err != nil {
		t.Fatal(err)
	}
	task := func() channel.Signed {
		s, err := w.auth.SignHeader(channel.Header{Channel: 1, Gen: 1, Host: "https://example.org", Issued: time.Now(), Latest: time.Now().Add(time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	verify := func(n *Node, s channel.Signed) error { _, err := n.Verifier().VerifyTask(n.Now(), s); return err }
	old := task()
	if err := verify(b, old); err != nil {
		t.Fatal(err)
	}

	w.rotate(openPolicy, 1) // serial 2; 1 is still good
	fresh := task()
	if err := verify(b, fresh); err != nil {
		t.Fatalf("new key, before the document is known: %v", err)
	}
	if err := b.Renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := serial(t, b); got != 2 {
		t.Fatalf("after renewing, the document is of key %d", got)
	}
	if err := verify(b, old); err != nil {
		t.Fatalf("old key in routine rotation: %v", err)
	}
	if _, err := a.Call(t.Context(), b.ID(), echo, nil, 10); err != nil {
		t.Fatalf("a's certificate is of the old key, which is still good: %v", err)
	}

	w.rotate(openPolicy, 3) // serial 3; all older ones are outdated at once
	if err := verify(w.manager, old); !errors.Is(err, member.ErrOutdated) {
		t.Fatalf("old key at the manager: %v", err)
	}
	// All members hear of it by their connections, renew, and meet again.
	eventually(t, "a and b know the new document", func() bool { return serial(t, a) == 3 && serial(t, b) == 3 })
	eventually(t, "a and b hold certificates of the new key", func() bool { return a.valid() && b.valid() })
	for what, s := range map[string]channel.Signed{"first key": old, "second key": fresh} {
		if err := verify(b, s); !errors.Is(err, member.ErrOutdated) {
			t.Errorf("task of the %s: %v", what, err)
		}
	}
	if err := verify(b, task()); err != nil {
		t.Errorf("task of the third key: %v", err)
	}
	eventually(t, "they talk again", func() bool {
		_, err := a.Call(t.Context(), b.ID(), echo, nil, 10)
		return err == nil
	})
}

// A document reaches members that the manager does not talk to.
func TestDocumentIsPassedOn(t *testing.T) {
	w, a, b := pair(t, Config{})
	a.gate.ClosePeer(w.manager.ID())
	eventually(t, "the manager is left", func() bool { _, is := w.manager.Member(a.ID()); return !is })
	if err := w.manager.Learn(w.document(1)); err != nil {
		t.Fatal(err)
	}
	issued := func(n *Node) time.Time { d, _ := n.Document(); return d.Issued }
	eventually(t, "b hears of it", func() bool { return issued(b).Equal(issued(w.manager)) })
	eventually(t, "a hears of it from b", func() bool { return issued(a).Equal(issued(b)) })
	eventually(t, "a keeps it", func() bool {
		kept, err := member.ReadDocument(a.Kept().Document)
		return err == nil && kept.Issued.Equal(issued(a))
	})
}

func TestHomeIsKept(t *testing.T) {
	w := newNet(t, openPolicy)
	a := w.member(Config{})
	run(t, a)
	key, addrs := w.manager.cfg.Key, bare(w.manager)
	eventually(t, "at home", func() bool { return a.Direct(w.manager.ID()) })
	w.manager.Close()
	eventually(t, "lost", func() bool { return !a.Direct(w.manager.ID()) })
	w.manager = w.node(Config{Key: key, Role: member.Manager, Listen: addrs})
	if err := w.manager.SetIssuer(w.issuer, w.document(1)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "home again", func() bool { _, is := w.manager.Member(a.ID()); return is })
}

func TestHomesAreSharedOut(t *testing.T) {
	w := newNet(t, openPolicy)
	var archives []member.Server
	for range 4 {
		id, err := PeerID(newKey())
		if err != nil {
			t.Fatal(err)
		}
		archives = append(archives, member.Server{Peer: id.String(), Addrs: []string{"/ip4/192.0.2.1/tcp/7785"}})
	}
	doc, err := w.auth.SignDocument(member.Document{Archives: archives, Issued: time.Now(), NotAfter: time.Now().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	first := map[string]int{}
	for range 64 {
		n := &home{papers: &papers{verifier: member.NewVerifier(w.root.ID())}}
		if n.self, err = PeerID(newKey()); err != nil {
			t.Fatal(err)
		}
		if _, _, err := n.verifier.Learn(time.Now(), doc); err != nil {
			t.Fatal(err)
		}
		first[n.homes()[0].ID.String()]++
	}
	for _, s := range archives {
		if first[s.Peer] < 2 { // of keys that are drawn, one of a million runs gives so few
			t.Errorf("%s is home to %d of 64", s.Peer, first[s.Peer])
		}
	}
}

// A computer that was off for weeks knows from its kept document, ended as it is, whom to ask and which keys are outdated.
func TestKeptDocumentOfLongAgo(t *testing.T) {
	w := newNet(t, openPolicy)
	var kept Kept
	a := w.member(Config{Keep: func(k Kept) error { kept = k; return nil }})
	a.Close()
	doc, err := w.auth.SignDocument(member.Document{MinSerial: 1, Managers: []member.Server{{Peer: w.manager.ID().String(), Addrs: bare(w.manager)}},
		Issued: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(-time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	kept.Document = doc
	j := w.joinString()
	j.Addrs = []string{"/ip4/127.0.0.1/tcp/1/p2p/" + a.ID().String()} // the member that invited is gone
	kept.Join = j.String()
	again := w.node(Config{Key: a.cfg.Key, Kept: kept})
	if err := again.Renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	if d, _ := again.Document(); !d.NotAfter.After(time.Now()) {
		t.Error("the document is still the old one")
	}
	if addrs := again.Host().Peerstore().Addrs(w.manager.ID()); len(addrs) == 0 {
		t.Error("the manager's address is not kept")
	}
}

func TestJoinStringOfANode(t *testing.T) {
	w := newNet(t, openPolicy)
	n := w.node(Config{Listen: []string{"/ip4/0.0.0.0/tcp/0"}, Announce: []string{"/dns4/shoal.example.org/tcp/7785"}})
	j := n.JoinString("shoal-invite-x")
	if len(j.Addrs) < 1 || len(j.Addrs) > maxJoinAddrs || j.Addrs[0] != "/dns4/shoal.example.org/tcp/7785/p2p/"+n.ID().String() || j.Network != n.Network() {
		t.Fatalf("%+v", j)
	}
	if again, err := member.ParseJoinString(j.String()); err != nil || again.Invite != j.Invite {
		t.Fatal(again, err)
	}
}

// short are times of the way home for tests.
var short = homing.Times{Look: 100 * time.Millisecond, Soon: 50 * time.Millisecond, Again: 50 * time.Millisecond, Try: 5 * time.Second, Full: time.Second}

// restart ends the manager and starts it again later at the same address, without any memory of its members.
func (w *testNet) restart(meanwhile func()) {
	w.t.Helper()
	key, addrs := w.manager.cfg.Key, bare(w.manager)
	w.manager.Close()
	meanwhile()
	w.manager = w.node(Config{Key: key, Role: member.Manager, Listen: addrs})
	time.Sleep(300 * time.Millisecond) // it listens before it can admit anybody, and members ask meanwhile
	if err := w.manager.SetIssuer(w.issuer, w.document(1)); err != nil {
		w.t.Fatal(err)
	}
}

// TestHomeTellsOfAnOutage: who asks hears that no server is connected, since when, how often it was tried and why that failed, and then
// that one is.
func TestHomeTellsOfAnOutage(t *testing.T) {
	w := newNet(t, openPolicy)
	a := w.member(Config{homing: short})
	run(t, a)
	eventually(t, "at home", func() bool { h, _ := a.Home(); return h.At == w.manager.ID().String() && !h.Away() })
	began := time.Now()
	_, changed := a.Home()
	w.restart(func() {
		eventually(t, "away", func() bool {
			h, _ := a.Home()
			return h.Away() && h.At == "" && h.Tries > 1 && h.Why != "" && !h.Since.Before(began) && h.Next.After(began)
		})
		select {
		case <-changed:
		default:
			t.Error("the loss was not told")
		}
		_, changed = a.Home()
	})
	<-changed
	if h, _ := a.Home(); h.At != w.manager.ID().String() || h.Away() || h.Why != "" {
		t.Errorf("home again: %+v", h)
	}
}

// TestHomeAfterCertificateEnded: an outage in which the certificate ends delays the return no more than another.
func TestHomeAfterCertificateEnded(t *testing.T) {
	old := renewals
	renewals = again.Bounds{First: 20 * time.Minute, Last: time.Hour} // the renewal's own pace does not help
	t.Cleanup(func() { renewals = old })
	w := newNet(t, openPolicy)
	a := w.member(Config{homing: short})
	run(t, a)
	eventually(t, "at home", func() bool { h, _ := a.Home(); return h.At != "" })
	w.restart(func() {
		c, err := member.ReadCertificate(a.Certificate())
		if err != nil {
			t.Fatal(err)
		}
		c.NotBefore, c.NotAfter = time.Now().Add(-3*time.Hour), time.Now().Add(-2*member.Skew)
		sealed, err := w.auth.Certify(c)
		if err != nil {
			t.Fatal(err)
		}
		a.papers.mu.Lock()
		a.papers.kept.Certificate = sealed
		a.papers.mu.Unlock()
		eventually(t, "away, and its renewal has failed", func() bool {
			h, _ := a.Home()
			return h.Away() && !a.valid() && strings.Contains(h.Why, "no manager answers")
		})
	})
	eventually(t, "home again", func() bool { h, _ := a.Home(); return h.At != "" && a.valid() })
}
