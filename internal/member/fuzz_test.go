package member

import (
	"bytes"
	"errors"
	"reflect"
	"testing"
	"time"

	"shoal/channel"
)

func typed(t *testing.T, err error) {
	t.Helper()
	if err != nil && Reason(err) == "other" {
		t.Fatalf("untyped refusal: %v", err)
	}
}

func FuzzDelegation(f *testing.F) {
	root := NewRoot(seed(1))
	f.Add(authority(f, root, 10, nil).Sealed())
	f.Add([]byte{})
	f.Add([]byte{0x0a, 0x02, 0x08, 0x01})
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := ReadDelegation(b)
		typed(t, err)
		if err == nil {
			if again, err := parseDelegation(d.marshal()); err != nil || again != d {
				t.Fatalf("%+v became %+v, %v", d, again, err)
			}
		}
		d, err = openDelegation(root.ID(), b)
		typed(t, err)
		if err == nil && d.Key != pub(seed(10)) {
			t.Fatalf("forged: %+v", d)
		}
	})
}

func FuzzCertificate(f *testing.F) {
	root := NewRoot(seed(1))
	a := authority(f, root, 10, nil)
	f.Add(must(a.Certify(Certificate{Peer: "p", Account: "ada", Role: Peer, NotBefore: t0, NotAfter: t0.Add(time.Hour)})))
	f.Add(a.Sealed())
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := ReadCertificate(b)
		typed(t, err)
		if err == nil {
			if again, err := parseCertificate(c.marshal()); err != nil || again != c {
				t.Fatalf("%+v became %+v, %v", c, again, err)
			}
		}
		c, err = NewVerifier(root.ID()).VerifyCertificate(t0, b)
		typed(t, err)
		if err == nil && c.Account != "ada" {
			t.Fatalf("forged: %+v", c)
		}
	})
}

func FuzzDocument(f *testing.F) {
	root := NewRoot(seed(1))
	a := authority(f, root, 10, nil)
	f.Add(document(f, a, Document{Name: "n", Managers: []Server{{"m", []string{"/ip4/127.0.0.1/tcp/1"}}}, Delegations: [][]byte{a.Sealed()}, Lease: time.Minute}))
	f.Add(document(f, a, Document{}))
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := ReadDocument(b)
		typed(t, err)
		if err == nil {
			if again, err := parseDocument(d.marshal()); err != nil || !reflect.DeepEqual(again, d) {
				t.Fatalf("%+v became %+v, %v", d, again, err)
			}
		}
		_, _, err = NewVerifier(root.ID()).Learn(t0, b)
		typed(t, err)
	})
}

func FuzzJoinString(f *testing.F) {
	j := JoinString{Network: NewRoot(seed(1)).ID(), Addrs: []string{"/ip4/192.0.2.1/tcp/7785"}, Invite: "x"}
	f.Add(j.String())
	f.Add("shoal-join-")
	f.Add("")
	f.Fuzz(func(t *testing.T, s string) {
		j, err := ParseJoinString(s)
		typed(t, err)
		if err == nil {
			if again, err := ParseJoinString(j.String()); err != nil || !reflect.DeepEqual(again, j) {
				t.Fatalf("%+v became %+v, %v", j, again, err)
			}
		}
	})
}

func FuzzTask(f *testing.F) {
	root := NewRoot(seed(1))
	s := signed(f, authority(f, root, 10, nil), header())
	f.Add(s.Raw, s.Sig, s.Delegation)
	f.Add([]byte("raw"), []byte("sig"), []byte{})
	v := NewVerifier(root.ID())
	f.Fuzz(func(t *testing.T, raw, sig, delegation []byte) {
		h, err := v.VerifyTask(t0, channel.Signed{Raw: raw, Sig: sig, Delegation: delegation})
		typed(t, err)
		if err == nil && !bytes.Equal(raw, s.Raw) {
			t.Fatalf("forged: %+v", h)
		}
	})
}

func FuzzInvite(f *testing.F) {
	i, _ := issuer(f, Policy{Closed: true, Prefix: Rate{1 << 30, 1}})
	invite, err := i.Invite([8]byte{1}, 1<<31, t0.Add(time.Hour))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(invite)
	f.Add("shoal-invite-")
	f.Fuzz(func(t *testing.T, s string) {
		_, err := i.Issue(t0, Request{Peer: "p", Addr: home, Invite: s})
		if err != nil && !errors.Is(err, ErrInvite) {
			t.Fatal(err)
		}
		if again, rerr := i.Invite([8]byte{1}, 1<<31, t0.Add(time.Hour)); rerr != nil || again != invite {
			t.Fatal("an invite is made twice differently")
		}
	})
}

func FuzzBackup(f *testing.F) {
	k, err := LoadOrCreate(f.TempDir(), t0)
	if err != nil {
		f.Fatal(err)
	}
	text, err := k.Backup()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add("#\n\n")
	f.Fuzz(func(t *testing.T, s string) {
		got, err := parseBackup(s)
		typed(t, err)
		if err == nil && got.Network == (NetworkID{}) {
			t.Fatal("restored nothing")
		}
	})
}

func FuzzLedger(f *testing.F) {
	i, _ := issuer(f, Policy{Closed: true})
	invite, err := i.Invite([8]byte{1}, 3, t0.Add(time.Hour))
	if err != nil {
		f.Fatal(err)
	}
	if _, err := i.Issue(t0, Request{Peer: "p", Addr: home, Invite: invite}); err != nil {
		f.Fatal(err)
	}
	f.Add(i.Ledger(t0))
	f.Fuzz(func(t *testing.T, b []byte) {
		typed(t, i.Restore(b))
	})
}
