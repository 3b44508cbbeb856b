package wire

import (
	"crypto/ed25519"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"shoal/channel"
	"shoal/internal/member"
	"shoal/internal/wire/wirepb"
)

func fuzzCertificate(f *testing.F) (kept Kept, hello []byte) {
	root := member.NewRoot([32]byte{1})
	t0 := time.Unix(1_700_000_000, 0)
	seed := [32]byte{2}
	sealed, err := root.Delegate(member.Delegation{Key: [32]byte(ed25519.NewKeyFromSeed(seed[:]).Public().(ed25519.PublicKey)), Roles: member.AllRoles,
		NotBefore: t0, NotAfter: t0.Add(time.Hour), Serial: 1})
	if err != nil {
		f.Fatal(err)
	}
	a, err := member.NewAuthority(seed, root.ID(), sealed)
	if err != nil {
		f.Fatal(err)
	}
	kept.Join = member.JoinString{Network: root.ID(), Addrs: []string{"/ip4/127.0.0.1/tcp/1"}}.String()
	if kept.Certificate, err = a.Certify(member.Certificate{Peer: "p", Role: member.Peer, NotBefore: t0, NotAfter: t0.Add(time.Hour)}); err != nil {
		f.Fatal(err)
	}
	if kept.Document, err = a.SignDocument(member.Document{Issued: t0, NotAfter: t0.Add(time.Hour)}); err != nil {
		f.Fatal(err)
	}
	if hello, err = proto.Marshal(&wirepb.Hello{Version: 1, Certificate: kept.Certificate, NowMs: t0.UnixMilli()}); err != nil {
		f.Fatal(err)
	}
	return kept, hello
}

func FuzzKept(f *testing.F) {
	kept, _ := fuzzCertificate(f)
	b, err := kept.Marshal()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte{8, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		k, err := ParseKept(b)
		if err != nil {
			return
		}
		again, err := k.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ParseKept(again); err != nil {
			t.Fatalf("%v, after writing it again", err)
		}
	})
}

// FuzzWelcome has a node that wants to join answered anything. It takes no certificate and no document that its network's key has not signed.
func FuzzWelcome(f *testing.F) {
	kept, _ := fuzzCertificate(f)
	add := func(w *wirepb.Welcome) {
		b, err := proto.Marshal(w)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	add(&wirepb.Welcome{Certificate: kept.Certificate, Issued: kept.Certificate, Document: kept.Document, NowMs: 1})
	add(&wirepb.Welcome{Code: 4, Reason: "invite", Text: "no"})
	add(&wirepb.Welcome{Code: 1 << 31, NowMs: -1 << 62})
	add(&wirepb.Welcome{Code: 4, Reason: "\x1b[31m", Text: "\x1b[2J\u202eno"})
	w := newNet(f, member.Policy{})
	n := w.node(Config{})
	c := w.raw(n, w.manager)
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := readWelcome(b, time.Now(), time.Now())
		if err != nil {
			var s *Status
			if errors.As(err, &s) && (channel.PlainText(s.Reason, 32) != s.Reason || channel.PlainText(s.Text, maxText) != s.Text) {
				t.Fatalf("the reason %q, %q is too long or may not be shown", s.Reason, s.Text)
			}
			return
		}
		n.learn(r.Document)
		if err := n.accept(c, r, func(*Kept) {}); err == nil || n.Joined() || n.documentIssued() != 0 || n.gate.MemberOf(c) != nil {
			t.Fatalf("accepted: %v", r.Welcome)
		}
	})
}

// FuzzHello puts anything before the gate of a manager. Nothing but a good certificate may be admitted.
func FuzzHello(f *testing.F) {
	_, hello := fuzzCertificate(f)
	f.Add(hello)
	f.Add([]byte{8, 1, 16, 1})
	w := newNet(f, member.Policy{})
	n := w.node(Config{})
	c := w.raw(n, w.manager)
	f.Fuzz(func(t *testing.T, b []byte) {
		var h wirepb.Hello
		if proto.Unmarshal(b, &h) != nil {
			return
		}
		h.Network = w.manager.network[:]
		answer, admit := w.manager.welcome(c, &h)
		if admit != nil && h.Want == wantKnown {
			t.Fatalf("%v would be admitted", &h)
		}
		if _, err := proto.Marshal(answer); err != nil {
			t.Fatal(err)
		}
	})
}

// A membership that a full disk left empty is called that, not one of another version.
func TestEmptyMembershipIsCalledEmpty(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, fileKept), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadKept(dir); err == nil || !strings.Contains(err.Error(), "is empty") || !strings.Contains(err.Error(), "join again") {
		t.Error(err)
	}
}
