package member

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"
)

func issuer(t testing.TB, p Policy) (*Issuer, *Verifier) {
	t.Helper()
	root := NewRoot(seed(1))
	a := authority(t, root, 10, func(d *Delegation) { d.NotAfter = t0.Add(DelegationLife) })
	i, err := NewIssuer(a, p)
	if err != nil {
		t.Fatal(err)
	}
	return i, NewVerifier(root.ID())
}

var home = netip.MustParseAddr("192.0.2.7")

func TestOpenIssuing(t *testing.T) {
	i, v := issuer(t, Policy{Account: Rate{2, time.Minute}, Prefix: Rate{5, time.Minute}})
	sealed, err := i.Issue(t0, Request{Peer: "p0", Addr: home, Label: "ada"})
	if err != nil {
		t.Fatal(err)
	}
	if c, err := v.VerifyCertificate(t0, sealed); err != nil || c.Peer != "p0" || c.Account != "p0" || c.Label != "ada" || c.Role != Peer || c.NotAfter != t0.Add(CertificateLife) {
		t.Fatalf("%+v, %v", c, err)
	}
	join := func(now time.Time, addr, peer string) error {
		_, err := i.Issue(now, Request{Peer: peer, Addr: netip.MustParseAddr(addr), Label: "ada"})
		return err
	}
	if err := join(t0, "192.0.2.8", "p0"); err != nil {
		t.Fatal(err)
	}
	if err := join(t0, "2001:db8::1", "p0"); !errors.Is(err, ErrRate) || !strings.Contains(err.Error(), "account; try again in 1m0s") {
		t.Fatalf("third of an account: %v", err)
	}
	for n := range 3 {
		if err := join(t0, "::ffff:192.0.2.200", fmt.Sprint("q", n)); err != nil { // the same /24, written as IPv6; and the same name, which counts for nothing
			t.Fatal(err)
		}
	}
	if err := join(t0, "192.0.2.1", "q9"); !errors.Is(err, ErrRate) || !strings.Contains(err.Error(), "address") {
		t.Fatalf("sixth of a prefix: %v", err)
	}
	if err := join(t0, "192.0.3.1", "q9"); err != nil {
		t.Fatalf("another prefix: %v", err)
	}
	if err := join(t0.Add(time.Minute), "192.0.2.1", "p0"); err != nil {
		t.Fatalf("a minute later: %v", err)
	}
	if err := join(t0.Add(time.Minute), "192.0.2.1", "p0"); !errors.Is(err, ErrRate) {
		t.Fatalf("only one token came back: %v", err)
	}
}

// Whatever a joiner calls itself, its account is its invite's, or its own key's.
func TestAccounts(t *testing.T) {
	i, v := issuer(t, Policy{})
	invite, err := i.Invite([8]byte{1}, 2, t0.Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	account := func(r Request) string {
		t.Helper()
		r.Addr = home
		sealed, err := i.Issue(t0, r)
		if err != nil {
			t.Fatal(err)
		}
		c, err := v.VerifyCertificate(t0, sealed)
		if err != nil || c.Label != r.Label {
			t.Fatalf("%+v, %v", c, err)
		}
		again, err := i.Renew(t0, r.Peer, sealed, v)
		if err != nil {
			t.Fatal(err)
		}
		if renewed, err := v.VerifyCertificate(t0, again); err != nil || renewed.Account != c.Account || renewed.Label != c.Label {
			t.Fatalf("renewed: %+v, %v", renewed, err)
		}
		return c.Account
	}
	a, b := account(Request{Peer: "a", Invite: invite, Label: "x"}), account(Request{Peer: "b", Invite: invite, Label: "y"})
	if a != b || !strings.HasPrefix(a, "invite-") {
		t.Errorf("two of one invite are %q and %q", a, b)
	}
	if c := account(Request{Peer: "c", Invite: invite, Label: a}); c != "c" { // used up; anyone may join here
		t.Errorf("a third is %q", c)
	}
}

// A certificate of version 0.1.0 names an account that its peer claimed. That is its label now.
func TestCertificatesOfBefore(t *testing.T) {
	i, v := issuer(t, Policy{})
	for label, want := range map[string]string{"ada": "ada", "invite-aaaa": "invite-aaaa", "ada\u202e": ""} {
		old := Certificate{Network: i.authority.Network(), Peer: "p", Label: label, Role: Peer, NotBefore: t0, NotAfter: t0.Add(time.Hour)}
		sealed, err := seal(i.authority.key, contextCertificate, old.marshal(), i.authority.Sealed(), MaxCertificate)
		if err != nil {
			t.Fatal(err)
		}
		if c, err := v.VerifyCertificate(t0, sealed); err != nil || c.Account != "p" || c.Label != want {
			t.Errorf("%q: %+v, %v", label, c, err)
		}
		next, err := i.Renew(t0, "p", sealed, v)
		if err != nil {
			t.Fatal(err)
		}
		if c, err := v.VerifyCertificate(t0, next); err != nil || c.Account != "p" || c.Label != want {
			t.Errorf("%q, renewed: %+v, %v", label, c, err)
		}
	}
}

func TestLabels(t *testing.T) {
	for _, good := range []string{"", "ada", "Ada Lovelace", "Žofie", "艾达", "آدا\u200cها", strings.Repeat("x", MaxLabel)} {
		if err := CheckLabel(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"a\nb", "a\x1b[31mb", "a\u202eb", "a\u2066b", "a\u200bb", "a\u2028b", "a\x00", "\xff", "a\u00adb", "\ufeffa", strings.Repeat("x", MaxLabel+1)} {
		if CheckLabel(bad) == nil {
			t.Errorf("%q is let through", bad)
		}
		if i, _ := issuer(t, Policy{}); i != nil {
			if _, err := i.Issue(t0, Request{Peer: "p", Addr: home, Label: bad}); err == nil {
				t.Errorf("%q has joined", bad)
			}
		}
	}
}

func TestWork(t *testing.T) {
	i, v := issuer(t, Policy{Work: 8})
	ask := func(now time.Time, peer string, proof []byte) error {
		sealed, err := i.Issue(now, Request{Peer: peer, Addr: home, Work: proof})
		if err == nil {
			_, err = v.VerifyCertificate(now, sealed)
		}
		return err
	}
	if err := ask(t0, "p", nil); !errors.Is(err, ErrWork) {
		t.Fatalf("without: %v", err)
	}
	w, err := i.Work(t0)
	if err != nil || w.Validate() != nil || w.Bits != 8 {
		t.Fatalf("%+v, %v", w, err)
	}
	var proof []byte
	tries := uint64(0)
	for ; proof == nil; tries++ {
		proof = w.Search("p", tries*100, 100)
	}
	if err := ask(t0, "p", proof); err != nil {
		t.Errorf("proved: %v", err)
	}
	if err := ask(t0.Add(workTerm), "p", proof); err != nil {
		t.Errorf("proved with the salt before: %v", err)
	}
	for name, err := range map[string]error{
		"two terms later": ask(t0.Add(2*workTerm), "p", proof), "another peer": ask(t0, "q", proof), "cut short": ask(t0, "p", proof[:7]),
		"longer": ask(t0, "p", append(proof[:len(proof):len(proof)], 0)), "another number": ask(t0, "p", []byte{1, 2, 3, 4, 5, 6, 7, proof[7] ^ 1}),
	} {
		if !errors.Is(err, ErrWork) {
			t.Errorf("%s: %v", name, err)
		}
	}
	invite, err := i.Invite([8]byte{1}, 1, t0.Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := i.Issue(t0, Request{Peer: "r", Addr: home, Invite: invite}); err != nil {
		t.Errorf("with an invite: %v", err)
	}
	for _, w := range []Work{{}, {Bits: MaxWork + 1, Salt: w.Salt}, {Bits: 1, Salt: nil}} {
		if w.Validate() == nil {
			t.Errorf("%+v is worth it", w)
		}
	}
}

// What a document bans is refused at once, by certificate and by pass; servers are not.
func TestBans(t *testing.T) {
	i, v := issuer(t, Policy{})
	doc := func(at time.Time, banned ...Ban) {
		t.Helper()
		sealed, err := i.authority.SignDocument(Document{Issued: at, NotAfter: at.Add(time.Hour), Banned: banned, Delegations: [][]byte{i.authority.Sealed()}})
		if err != nil {
			t.Fatal(err)
		}
		if _, changed, err := v.Learn(t0, sealed); err != nil || !changed {
			t.Fatal(changed, err)
		}
	}
	doc(t0)
	cert := func(c Certificate) []byte {
		c.NotBefore, c.NotAfter = t0, t0.Add(time.Hour)
		sealed, err := i.authority.Certify(c)
		if err != nil {
			t.Fatal(err)
		}
		return sealed
	}
	bad, mate := cert(Certificate{Peer: "bad", Account: "x", Role: Peer}), cert(Certificate{Peer: "mate", Account: "y", Role: Peer})
	good, server := cert(Certificate{Peer: "good", Account: "z", Label: "bad", Role: Peer}), cert(Certificate{Peer: "bad", Role: Archive})
	pass, err := PassOf(bad)
	if err != nil {
		t.Fatal(err)
	}
	held, err := v.VerifyPass(t0, pass)
	if err != nil {
		t.Fatal(err)
	}
	doc(t0.Add(time.Second), BanOf("bad"), BanOf("y"), BanOf("bad"))
	for name, sealed := range map[string][]byte{"identity": bad, "account": mate} {
		if _, err := v.VerifyCertificate(t0, sealed); !errors.Is(err, ErrDenied) || Reason(err) != "denied" {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, sealed := range map[string][]byte{"another": good, "server": server} {
		if _, err := v.VerifyCertificate(t0, sealed); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := v.VerifyPass(t0, pass); !errors.Is(err, ErrDenied) {
		t.Errorf("pass: %v", err)
	}
	if err := v.StillGood(t0, held); !errors.Is(err, ErrDenied) {
		t.Errorf("pass of before: %v", err)
	}
	if !v.Banned("bad", "") || !v.Banned("", "y") || v.Banned("good", "z") {
		t.Error("who is banned?")
	}
	doc(t0.Add(2 * time.Second))
	if _, err := v.VerifyCertificate(t0, bad); err != nil {
		t.Errorf("forgiven: %v", err)
	}
}

func TestHeldPrefix(t *testing.T) {
	i, _ := issuer(t, Policy{})
	i.HoldPrefix(Prefix(home), t0, t0.Add(time.Hour))
	join := func(now time.Time, addr string) error {
		_, err := i.Issue(now, Request{Peer: "p", Addr: netip.MustParseAddr(addr)})
		return err
	}
	if err := join(t0, "192.0.2.200"); !errors.Is(err, ErrRate) || !strings.Contains(err.Error(), "1h0m0s") {
		t.Errorf("beside one that was banned: %v", err)
	}
	if err := join(t0, "192.0.3.1"); err != nil {
		t.Errorf("elsewhere: %v", err)
	}
	if err := join(t0.Add(time.Hour), "192.0.2.200"); err != nil {
		t.Errorf("later: %v", err)
	}
	i.HoldPrefix(Prefix(home), t0, t0)
	if err := join(t0, "192.0.2.200"); err != nil {
		t.Errorf("forgiven: %v", err)
	}
}

func TestPrefix(t *testing.T) {
	for in, want := range map[string]string{"192.0.2.77": "192.0.2.0/24", "::ffff:192.0.2.77": "192.0.2.0/24", "2001:db8:1:2::3": "2001:db8:1::/48", "fe80::1%eth0": "fe80::/48"} {
		if got := Prefix(netip.MustParseAddr(in)); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
	if got := Prefix(netip.Addr{}); got != "unknown" {
		t.Errorf("no address: %s", got)
	}
}

func TestTablesAreBounded(t *testing.T) {
	i, _ := issuer(t, Policy{})
	b := newBuckets(Rate{1, time.Hour})
	for n := range maxBuckets + 100 {
		b.take(t0, fmt.Sprint(n))
	}
	if len(b.of) != maxBuckets || b.order.Len() != maxBuckets {
		t.Fatalf("%d buckets", len(b.of))
	}
	if b.wait(t0, "99") != 0 || b.wait(t0, "100") == 0 {
		t.Fatal("did not forget the longest unused")
	}
	for n := range maxDenied {
		if err := i.Deny(fmt.Sprint(n), true); err != nil {
			t.Fatal(err)
		}
	}
	if err := i.Deny("one more", true); !errors.Is(err, ErrTooLarge) {
		t.Fatalf("denied one more: %v", err)
	}
}

func TestInvites(t *testing.T) {
	i, _ := issuer(t, Policy{Closed: true})
	issue := func(i *Issuer, now time.Time, invite string) error {
		_, err := i.Issue(now, Request{Peer: "p", Addr: home, Invite: invite})
		return err
	}
	invite, err := i.Invite([8]byte{1}, 2, t0.Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	if err := issue(i, t0, ""); !errors.Is(err, ErrInvite) {
		t.Fatalf("without: %v", err)
	}
	if err := issue(i, t0, invite[:len(invite)-1]+"a"); !errors.Is(err, ErrInvite) {
		t.Fatalf("mistyped: %v", err)
	}
	if err := issue(i, t0, strings.Repeat("x", MaxInvite+1)); !errors.Is(err, ErrInvite) {
		t.Fatalf("long: %v", err)
	}
	if err := issue(i, t0.Add(2*time.Hour), invite); !errors.Is(err, ErrInvite) || !strings.Contains(err.Error(), "ended") {
		t.Fatalf("ended: %v", err)
	}
	if err := issue(i, t0, invite); err != nil {
		t.Fatal(err)
	}
	// The count survives a restart.
	again, _ := issuer(t, Policy{Closed: true})
	if err := again.Restore(i.Ledger(t0)); err != nil {
		t.Fatal(err)
	}
	if err := issue(again, t0, invite); err != nil {
		t.Fatalf("second use: %v", err)
	}
	if err := issue(again, t0, invite); !errors.Is(err, ErrInvite) || !strings.Contains(err.Error(), "2 times") {
		t.Fatalf("third use: %v", err)
	}
	// A use that cannot be kept is none, and brings no certificate.
	third, err := i.Invite([8]byte{3}, 1, t0.Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	full := errors.New("disk full")
	again.KeepLedger(func([]byte) error { return full })
	if err := issue(again, t0, third); !errors.Is(err, ErrLedger) || !errors.Is(err, full) {
		t.Fatalf("not kept: %v", err)
	}
	var kept []byte
	again.KeepLedger(func(b []byte) error { kept = b; return nil })
	if err := issue(again, t0, third); err != nil {
		t.Fatalf("kept: %v", err)
	}
	if string(kept) != string(again.Ledger(t0)) {
		t.Fatal("kept another ledger")
	}
	a := authority(t, NewRoot(seed(1)), 77, nil)
	rotated, err := NewIssuer(a, Policy{Closed: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := issue(rotated, t0, invite); !errors.Is(err, ErrInvite) {
		t.Fatalf("after a rotation: %v", err)
	}
	if len(again.Ledger(t0.Add(2*time.Hour))) >= len(again.Ledger(t0)) && len(again.used) > 0 {
		t.Fatal("ended invites are kept for ever")
	}
	if err := again.Restore([]byte("rubbish")); !errors.Is(err, ErrMalformed) {
		t.Fatalf("rubbish ledger: %v", err)
	}
}

func TestRenew(t *testing.T) {
	i, v := issuer(t, Policy{Closed: true, Renew: Rate{2, time.Hour}})
	held, err := i.Appoint(t0, "p", Archive)
	if err != nil {
		t.Fatal(err)
	}
	before := t0.Add(-30 * time.Minute) // the clock was ahead when it was given
	if next, err := i.Renew(before, "p", held, v); err != nil {
		t.Fatalf("before its beginning: %v", err)
	} else if _, err := v.VerifyCertificate(before, next); err != nil {
		t.Fatalf("before the beginning of the one before: %v", err)
	}
	for _, at := range []time.Duration{time.Hour, CertificateLife + 7*24*time.Hour} { // long after its end too
		now := t0.Add(at)
		next, err := i.Renew(now, "p", held, v)
		if err != nil {
			t.Fatalf("after %s: %v", at, err)
		}
		if c, err := v.VerifyCertificate(now, next); err != nil || c.Role != Archive || c.NotAfter != now.Add(CertificateLife) {
			t.Fatalf("%+v, %v", c, err)
		}
	}
	if _, err := i.Renew(t0.Add(CertificateLife+DefaultGrace+time.Hour), "p", held, v); !errors.Is(err, ErrExpired) {
		t.Fatalf("after the grace: %v", err)
	}
	if _, err := i.Renew(t0, "q", held, v); !errors.Is(err, ErrAltered) {
		t.Fatalf("another's: %v", err)
	}
	now := t0.Add(8 * 24 * time.Hour)
	var last error
	for range 3 {
		_, last = i.Renew(now, "p", held, v)
	}
	if !errors.Is(last, ErrRate) {
		t.Fatalf("third at once: %v", last)
	}
	if err := i.Deny("p", true); err != nil {
		t.Fatal(err)
	}
	if _, err := i.Renew(now.Add(24*time.Hour), "p", held, v); !errors.Is(err, ErrDenied) {
		t.Fatalf("denied: %v", err)
	}
	if err := i.Deny("p", false); err != nil {
		t.Fatal(err)
	}
	if _, err := i.Renew(now.Add(24*time.Hour), "p", held, v); err != nil {
		t.Fatalf("forgiven: %v", err)
	}
}

func TestBadPolicy(t *testing.T) {
	a := authority(t, NewRoot(seed(1)), 10, nil)
	for name, p := range map[string]Policy{"negative life": {Life: -1}, "no burst": {Account: Rate{0, time.Second}}, "no time": {Prefix: Rate{1, 0}}} {
		if _, err := NewIssuer(a, p); err == nil {
			t.Errorf("took a policy with %s", name)
		}
	}
	if _, err := NewIssuer(authority(t, NewRoot(seed(1)), 10, func(d *Delegation) { d.Roles = SignTasks }), Policy{}); !errors.Is(err, ErrRole) {
		t.Errorf("a key that may not certify: %v", err)
	}
}

// A search of a thousand numbers; 20 bits take a thousand of these on average.
func BenchmarkWork(b *testing.B) {
	w := Work{Bits: MaxWork, Salt: make([]byte, saltBytes)}
	from := uint64(0)
	for b.Loop() {
		w.Search("12D3KooWGzxzKZYveHXtpG6AsrUJBcWxHBFS2HsEoGTxrMLvKXtf", from, 1000)
		from += 1000
	}
}

// TestSlowCount has the count that managers share take long, as while their database is away. Others join and renew meanwhile; who is banned meanwhile gets
// nothing; and a use that was not counted takes nothing from the rates.
func TestSlowCount(t *testing.T) {
	i, v := issuer(t, Policy{Account: Rate{2, time.Minute}, Prefix: Rate{3, time.Minute}})
	asked, answer := make(chan InviteUse), make(chan error)
	i.ShareInvites([32]byte{1}, func(u InviteUse) (uint32, error) {
		asked <- u
		return u.Before + 1, <-answer
	})
	invite, err := i.Invite([8]byte{7}, 2, t0.Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	join := func(peer string) chan error {
		done := make(chan error, 1)
		go func() {
			_, err := i.Issue(t0, Request{Peer: peer, Addr: home, Invite: invite})
			done <- err
		}()
		return done
	}
	for range 5 {
		slow := join("invited")
		<-asked
		held, err := i.Issue(t0, Request{Peer: "other", Addr: netip.MustParseAddr("198.51.100.1")})
		if err == nil {
			_, err = i.Renew(t0, "other", held, v)
		}
		if err != nil && !errors.Is(err, ErrRate) {
			t.Fatalf("beside a count that takes long: %v", err)
		}
		answer <- errors.New("the database is away")
		if err := <-slow; !errors.Is(err, ErrLedger) {
			t.Fatalf("a use that was not counted: %v", err)
		}
	}
	banned := join("banned")
	<-asked
	if err := i.Deny("banned", true); err != nil {
		t.Fatal(err)
	}
	answer <- nil
	if err := <-banned; !errors.Is(err, ErrDenied) {
		t.Errorf("who was banned meanwhile: %v", err)
	}
	last := join("last")
	<-asked
	answer <- nil
	if err := <-last; err != nil {
		t.Errorf("a second use: %v", err)
	}
}

// TestTakenInvites has the manager that is left of several take invites that another one made, in a network that is closed: for as many uses as are left of all that
// were counted.
func TestTakenInvites(t *testing.T) {
	key := [32]byte{1}
	other, _ := issuer(t, Policy{Closed: true})
	other.ShareInvites(key, func(u InviteUse) (uint32, error) { return u.Before + 1, nil })
	invite, err := other.Invite([8]byte{7}, 4, t0.Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	left, _ := issuer(t, Policy{Closed: true})
	join := func(i *Issuer, peer string) error {
		_, err := i.Issue(t0, Request{Peer: peer, Addr: home, Invite: invite})
		return err
	}
	if err := join(left, "p0"); !errors.Is(err, ErrInvite) {
		t.Errorf("an invite of a key that it does not have: %v", err)
	}
	if err := join(other, "p1"); err != nil {
		t.Fatal(err)
	}
	uses := other.Uses(t0)
	if len(uses) != 1 || uses[0].Before != 1 {
		t.Fatalf("uses %+v", uses)
	}
	uses[0].Before = 2 // another manager counted one, too
	left.TakeInvites(key, uses)
	for n, peer := range []string{"p2", "p3", "p4"} {
		if err := join(left, peer); (err == nil) != (n < 2) || err != nil && !errors.Is(err, ErrInvite) {
			t.Errorf("use %d: %v", n+3, err)
		}
	}
	if uses := left.Uses(t0); len(uses) != 1 || uses[0].Before != 4 {
		t.Errorf("uses %+v", uses)
	}
}
