package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"shoal/internal/member"
	"shoal/internal/release"
	"shoal/internal/release/signing"
	"shoal/internal/wire"
	"shoal/manager/joint"
)

// TestReleasesOfEarlierManagers starts a manager that has a network for itself, and was away while another one published a release and stopped its roll-out: it serves
// that list and does not go on with the roll-out. A version whose programs only the other one had is offered once they are published here.
func TestReleasesOfEarlierManagers(t *testing.T) {
	now, home := time.Now(), t.TempDir()
	keys, err := member.LoadOrCreate(filepath.Join(home, "keys"), now)
	if err != nil {
		t.Fatal(err)
	}
	key, err := signing.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	repo := signing.Repo{Dir: filepath.Join(home, "repo")}
	if err := repo.Init(now, []signing.Key{key}, keys.SealReleases); err != nil {
		t.Fatal(err)
	}
	open := func(dir string) *releases {
		t.Helper()
		r, err := openReleases(filepath.Join(home, dir), slog.New(slog.DiscardHandler), func(string) string { return "" }, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	publish := func(r *releases) {
		t.Helper()
		if err := r.shelf.Take(repo, keys.Network, now); err != nil {
			t.Fatal(err)
		}
		if _, err := r.refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	add := func(version, content string) {
		t.Helper()
		if _, err := repo.Add(now, version, "", []signing.File{{System: "linux", Arch: "amd64", Bytes: []byte(content)}}, key); err != nil {
			t.Fatal(err)
		}
	}
	offered := func(r *releases) string {
		return r.Told(wire.Member{Peer: peer.ID("p")}, release.Report{Version: "v1.0.0", System: "linux/amd64"}).Version
	}
	own, other := open("own"), open("other")
	add("v1.0.0", "the first")
	publish(own)
	publish(other)
	began := now.Add(-time.Hour)
	own.book.Rollout = release.Rollout{Version: "v1.0.0", Share: release.Whole, Since: began}
	add("v1.1.0", "the second")
	publish(other)
	files, err := other.shelf.Files()
	if err != nil {
		t.Fatal(err)
	}
	recall := func(o release.Rollout) {
		t.Helper()
		if err := own.recall(&releasesShared{Files: files, Rollout: o}); err != nil {
			t.Fatal(err)
		}
	}
	if got := offered(own); got != "v1.0.0" {
		t.Fatalf("offered is %q", got)
	}
	recall(release.Rollout{Version: "v1.0.0", Share: release.Whole, Since: began, Stopped: "too many fell back"})
	if got := offered(own); got != "" || own.book.Rollout.Stopped == "" {
		t.Errorf("a roll-out that was stopped goes on: %q", got)
	}
	if list, _, err := own.Signed(); err != nil || len(list) != 2 {
		t.Errorf("it lists %d versions, %v; want both", len(list), err)
	}
	recall(release.Rollout{Version: "v1.1.0", Share: release.Whole, Since: began.Add(time.Minute)})
	if got := offered(own); got != "" || len(own.lacking()) != 1 {
		t.Errorf("offered is %q, whose program is not here; told are %v", got, own.lacking())
	}
	publish(own)
	if got := offered(own); got != "v1.1.0" || len(own.lacking()) != 0 {
		t.Errorf("published here, offered is %q; told are %v", got, own.lacking())
	}
	recall(release.Rollout{Version: "v1.0.0", Share: 1, Since: began})
	if o := own.book.Rollout; o.Version != "v1.1.0" {
		t.Errorf("an earlier roll-out is taken for a later one: %+v", o)
	}
}

// recordOf is the record of managers that share a network.
type recordOf struct{ body []byte }

func (r *recordOf) State(context.Context, string) ([]byte, error) { return r.body, nil }

func (r *recordOf) Change(_ context.Context, _ string, f func([]byte) ([]byte, error)) error {
	next, err := f(r.body)
	if err == nil {
		r.body = next
	}
	return err
}

// TestReleasesOfOneAmongSeveral has a manager that had a network for itself share it again: a roll-out that it has stopped or begun meanwhile is all managers', and one
// that is older than theirs is not.
func TestReleasesOfOneAmongSeveral(t *testing.T) {
	began := time.Now().Add(-time.Hour).UTC()
	rolls := release.Rollout{Version: "v1.0.0", Share: 100, Since: began}
	stopped, next := rolls, release.Rollout{Version: "v1.1.0", Share: 7, Since: began.Add(time.Minute)}
	stopped.Stopped = "by an operator"
	again := rolls
	again.Again = began.Add(time.Second)
	for name, c := range map[string]struct{ own, shared, want release.Rollout }{
		"it stopped it": {stopped, rolls, stopped}, "it began another one": {next, rolls, next}, "the others stopped it": {rolls, stopped, stopped},
		"the others began another one": {stopped, next, next}, "nothing is new": {rolls, rolls, rolls},
		"it had it go on": {again, stopped, again}, "the others had it go on": {stopped, again, again},
	} {
		r, err := openReleases(t.TempDir(), slog.New(slog.DiscardHandler), func(string) string { return "" }, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(releasesShared{Rollout: c.shared})
		if err != nil {
			t.Fatal(err)
		}
		record := &recordOf{b}
		r.book.Rollout = c.own
		r.together = &together{record: record, others: func() []joint.Other { return nil }, tell: func(context.Context) error { return nil }, complete: map[string]bool{}, good: map[string][32]byte{}, read: map[string]joint.Heard{}}
		if _, err := r.refresh(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		s, err := parseShared(record.body)
		if err != nil || s.Rollout != c.want || r.book.Rollout != c.want {
			t.Errorf("%s: the record has %+v, the manager %+v, %v; want %+v", name, s.Rollout, r.book.Rollout, err, c.want)
		}
	}
}
