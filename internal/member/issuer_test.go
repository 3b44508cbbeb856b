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
	i, v := issuer(t, Policy{Account: Rate{3, time.Minute}, Prefix: Rate{5, time.Minute}})
	sealed, err := i.Issue(t0, Request{Peer: "p0", Addr: home, Account: "ada"})
	if err != nil {
		t.Fatal(err)
	}
	if c, err := v.VerifyCertificate(t0, sealed); err != nil || c.Peer != "p0" || c.Account != "ada" || c.Role != Peer || c.NotAfter != t0.Add(CertificateLife) {
		t.Fatalf("%+v, %v", c, err)
	}
	join := func(now time.Time, addr, account string) error {
		_, err := i.Issue(now, Request{Peer: "p", Addr: netip.MustParseAddr(addr), Account: account})
		return err
	}
	for range 2 {
		if err := join(t0, "192.0.2.8", "ada"); err != nil {
			t.Fatal(err)
		}
	}
	if err := join(t0, "192.0.2.9", "ada"); !errors.Is(err, ErrRate) || !strings.Contains(err.Error(), "account; try again in 1m0s") {
		t.Fatalf("fourth of an account: %v", err)
	}
	if err := join(t0, "2001:db8::1", "ada"); !errors.Is(err, ErrRate) {
		t.Fatalf("fourth of an account from elsewhere: %v", err)
	}
	for range 2 {
		if err := join(t0, "::ffff:192.0.2.200", ""); err != nil { // the same /24, written as IPv6
			t.Fatal(err)
		}
	}
	if err := join(t0, "192.0.2.1", "bob"); !errors.Is(err, ErrRate) || !strings.Contains(err.Error(), "address") {
		t.Fatalf("sixth of a prefix: %v", err)
	}
	if err := join(t0, "192.0.3.1", "bob"); err != nil {
		t.Fatalf("another prefix: %v", err)
	}
	if err := join(t0.Add(time.Minute), "192.0.2.1", "ada"); err != nil {
		t.Fatalf("a minute later: %v", err)
	}
	if err := join(t0.Add(time.Minute), "192.0.2.1", "ada"); !errors.Is(err, ErrRate) {
		t.Fatalf("only one token came back: %v", err)
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
