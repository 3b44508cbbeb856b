package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"shoal/internal/lab/pglab"
	"shoal/internal/lab/pond"
	"shoal/internal/lab/s3lab"
	"shoal/internal/lab/waiting"
	"shoal/internal/member"
	"shoal/internal/ports"
	"shoal/internal/wire"
	"shoal/manager/desk"
	"shoal/manager/joint"
)

// keptRunning opens and runs a manager, and again when it says that it must begin anew.
func keptRunning(t *testing.T, web pondRun, cfg stationConfig) (now *atomic.Pointer[station], stop func()) {
	t.Helper()
	t.Cleanup(web.stop)
	now, ended := new(atomic.Pointer[station]), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	web.run(filepath.Base(cfg.data), func(all context.Context) error {
		defer close(ended)
		defer context.AfterFunc(all, cancel)()
		return ignoreCanceled(ctx, keepRunning(ctx, cfg, func(string) {}, func(cfg stationConfig) error {
			st, err := openStation(ctx, cfg)
			if err != nil {
				return err
			}
			now.Store(st)
			defer now.Store(nil)
			return errors.Join(st.run(ctx), st.close())
		}))
	})
	return now, func() { cancel(); <-ended }
}

// peerAsks has a peer, which is no manager, ask what managers ask each other.
func peerAsks(t *testing.T, st *station) error {
	t.Helper()
	join, err := st.invite(time.Now(), 1)
	if err != nil {
		t.Fatal(err)
	}
	j, err := member.ParseJoinString(join)
	if err != nil {
		t.Fatal(err)
	}
	var key [32]byte
	rand.Read(key[:])
	n, err := wire.New(t.Context(), wire.Config{Key: key, Network: st.keys.Network, Role: member.Peer, Listen: []string{"/ip4/127.0.0.1/tcp/0"}})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	if err := n.Join(t.Context(), j, ""); err != nil {
		t.Fatal(err)
	}
	said, err := n.Call(t.Context(), st.node.ID(), protoDesk, []byte(`{"what":"trust"}`), joint.MaxAnswer)
	if err == nil {
		t.Errorf("it was answered %.100q", said)
	}
	return err
}

func ignoreCanceled(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// TestKeysOfSeveralManagers has an invite of one manager good at the other, and counted once for both. Then the working key of one is stolen: when it is
// rotated there, the other one gets a new key by itself, and what the stolen one signed counts for nothing.
func TestKeysOfSeveralManagers(t *testing.T) {
	t.Parallel()
	web := runPond(t, pond.Config{Seed: 5, Hosts: 3, Pages: 6, Plain: true, Start: time.Now()})
	db, store := pglab.Start(t, pglab.Options{}), s3lab.Start(t, s3lab.Options{})
	home := t.TempDir()
	config := func(dir string) stationConfig {
		port, err := ports.Free()
		if err != nil {
			t.Fatal(err)
		}
		cfg := stationConfig{data: filepath.Join(home, dir), db: db.URL(), bucket: store.URL(), several: true, listen: []string{fmt.Sprintf("/ip4/127.0.0.1/tcp/%d", port)},
			dialer: pondDialer(web.world, port), log: slog.New(slog.DiscardHandler), manager: pondManager(), reach: pondReach}
		cfg.joining.Closed = true
		return cfg
	}
	until := func(what string, holds func() bool) { t.Helper(); waiting.Until(t, what, holds) }
	one, two := config("one"), config("two")
	first, stop := keptRunning(t, web, one)
	until("the first one runs", func() bool { return first.Load() != nil })
	backup := filepath.Join(home, "keys")
	shoalIn(t, one.data, 0, "key", "backup", "--out", backup)
	shoalIn(t, two.data, 0, "key", "restore", "--another", backup)
	second, _ := keptRunning(t, web, two)
	managers := func(at *atomic.Pointer[station]) (d member.Document) {
		if st := at.Load(); st != nil {
			d, _ = st.node.Document()
		}
		return d
	}
	until("both name two managers", func() bool { return len(managers(first).Managers) == 2 && len(managers(second).Managers) == 2 })

	a, b := first.Load(), second.Load()
	join, err := a.invite(time.Now(), 2)
	if err != nil {
		t.Fatal(err)
	}
	j, err := member.ParseJoinString(join)
	if err != nil {
		t.Fatal(err)
	}
	for i, at := range []*station{b, a} {
		if _, err := at.issuer.Issue(time.Now(), request(fmt.Sprint("volunteer-", i), j.Invite)); err != nil {
			t.Errorf("use %d of an invite: %v", i+1, err)
		}
	}
	for _, at := range []*station{a, b} {
		if _, err := at.issuer.Issue(time.Now(), request("one too many", j.Invite)); !errors.Is(err, member.ErrInvite) || !strings.Contains(err.Error(), "used 2 times") {
			t.Errorf("a third use: %v", err)
		}
	}

	if err := b.archive.Others.ShutOut(t.Context(), []string{a.others.writer}); err != nil {
		t.Fatal(err)
	}
	until("who was shut out of the archive says so, and begins anew", func() bool {
		st := first.Load()
		if st == nil || st == a {
			return false
		}
		a = st
		return slices.ContainsFunc(a.checks(t.Context()), func(f desk.Finding) bool { return strings.Contains(f.What, "had to begin anew") })
	})
	if why := b.archive.Trouble(); why != "" {
		t.Errorf("who has shut it out: %s", why)
	}
	until("it is one of two again, and stores", func() bool {
		return len(managers(first).Managers) == 2 && a.archive.Trouble() == "" && a.archive.Ledger.Seal() == nil
	})
	for _, st := range []*station{a, b} {
		if err := peerAsks(t, st); !errors.Is(err, wire.Refused) || !strings.Contains(err.Error(), "only managers") {
			t.Errorf("a peer asks what only managers may: %v, want %v", err, wire.Refused)
		}
	}

	old := a.keys.Authority.Delegation().Serial
	thief := a.keys.Authority
	stop()
	shoalIn(t, one.data, 0, "key", "rotate", "--stolen")
	again, _ := keptRunning(t, web, one)
	for _, at := range []*atomic.Pointer[station]{again, second} {
		until("the network outdates the stolen key, with both managers there", func() bool {
			d := managers(at)
			return d.MinSerial > old && len(d.Managers) == 2
		})
		st := at.Load()
		forged, err := thief.Certify(member.Certificate{Peer: "a thief", Role: member.Manager, NotBefore: time.Now(), NotAfter: time.Now().Add(time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := st.node.Verifier().VerifyCertificate(time.Now(), forged); !errors.Is(err, member.ErrOutdated) {
			t.Errorf("what the thief signs: %v", err)
		}
	}
}
