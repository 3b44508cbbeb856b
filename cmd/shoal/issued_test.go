package main

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"shoal/internal/member"
	"shoal/internal/wire"
)

// publisher is as much of a station as signs network documents, by a clock that is ahead by what ahead says.
func publisher(t *testing.T, dir string, ahead *atomic.Int64) *station {
	t.Helper()
	st := &station{cfg: stationConfig{data: dir, log: slog.New(slog.DiscardHandler), manager: pondManager()}}
	clock := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	var err error
	if st.keys, err = member.LoadOrCreate(filepath.Join(dir, "keys"), time.Now()); err != nil {
		t.Fatal(err)
	}
	if st.issuer, err = member.NewIssuer(st.keys.Authority, member.Policy{}); err != nil {
		t.Fatal(err)
	}
	if st.members, err = openMembers(dir, st.issuer, clock()); err != nil {
		t.Fatal(err)
	}
	st.node, err = wire.New(t.Context(), wire.Config{Key: st.keys.Node, Network: st.keys.Network, Role: member.Manager, Listen: []string{"/ip4/127.0.0.1/tcp/0"}, Clock: clock, Log: st.cfg.log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.node.Close() })
	return st
}

// TestDocumentOfAClockThatWasAhead has a manager sign its network document by a clock that is ten minutes ahead, and set right: it signs others at once, also after a restart. From
// when on members take the first, it signs one that follows it.
func TestDocumentOfAClockThatWasAhead(t *testing.T) {
	t.Parallel()
	const off = 10 * time.Minute
	var ahead atomic.Int64
	dir := t.TempDir()
	st := publisher(t, dir, &ahead)
	publish := func(what string) member.Document {
		t.Helper()
		now := st.node.Now()
		if err := st.publish(now); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		d, _ := st.node.Document()
		if !d.Issued.Equal(st.issued.last) || signAgain(st) {
			t.Errorf("%s: the document in force is of %v, by %+v", what, d.Issued, st.issued)
		}
		return d
	}
	ahead.Store(int64(off))
	first := publish("by a clock that is ahead")
	ahead.Store(0)
	second := publish("set right")
	if !second.Issued.Before(first.Issued) {
		t.Errorf("signed at %v after %v", second.Issued, first.Issued)
	}
	for range 3 { // within a millisecond, too
		if d := publish("once more"); !d.Issued.After(second.Issued) {
			t.Errorf("signed at %v after %v", d.Issued, second.Issued)
		} else {
			second = d
		}
	}
	if err := st.members.set("eve", true, nil, time.Now()); err != nil {
		t.Fatal(err)
	}
	publish("a ban")
	if !st.node.Verifier().Banned("eve", "") {
		t.Error("the ban is not in force")
	}
	st.node.Close()
	st = publisher(t, dir, &ahead)
	recallIssued(st)
	publish("started anew")

	ahead.Store(int64(off - member.Skew + time.Minute)) // that time has come
	if !signAgain(st) {
		t.Error("members would take the first document from now on, and no other is signed")
	}
	if d := publish("which overtakes the first"); !d.Issued.After(first.Issued) || d.Issued.Sub(first.Issued) > time.Second {
		t.Errorf("signed at %v to follow %v", d.Issued, first.Issued)
	}
}

// TestFailedDocumentIsSignedAgain has signing fail: it is tried again, and what failed is not taken for what is in force.
func TestFailedDocumentIsSignedAgain(t *testing.T) {
	now := time.Now()
	var i issued
	first := i.next(now, now, time.Time{})
	i.signed(first, nil)
	if i.due(now, first) {
		t.Error("due at once")
	}
	second := i.next(now, now, first)
	if i.signed(second, errors.New("no")); !second.After(first) || !i.due(now, first) || !i.last.Equal(first) {
		t.Errorf("%+v", i)
	}
	if i.signed(i.next(now, now, first), nil); i.due(now, i.last) {
		t.Errorf("%+v", i)
	}
	if later := i.last.Add(time.Minute); !i.due(now, later) || i.due(later, later) {
		t.Error("a document from a time to come, and one that another manager has signed by a right clock")
	}
}

// TestDamagedDateOfADocument has the file of it damaged: the manager starts all the same.
func TestDamagedDateOfADocument(t *testing.T) {
	st := &station{cfg: stationConfig{data: t.TempDir(), log: slog.New(slog.DiscardHandler)}}
	if err := os.WriteFile(filepath.Join(st.cfg.data, issuedName), []byte("???"), 0o600); err != nil {
		t.Fatal(err)
	}
	if recallIssued(st); !st.issued.ahead.IsZero() {
		t.Error(st.issued.ahead)
	}
}
