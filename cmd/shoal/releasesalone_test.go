package main

import (
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"shoal/internal/member"
	"shoal/internal/release"
	"shoal/internal/release/signing"
	"shoal/internal/wire"
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
