package main

import (
	"maps"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"shoal/internal/lab/pglab"
	"shoal/internal/lab/pond"
	"shoal/internal/lab/s3lab"
	"shoal/internal/lab/waiting"
	"shoal/internal/release"
	"shoal/internal/release/carry"
	"shoal/internal/release/signing"
	"shoal/internal/release/trusted"
	"shoal/internal/wire"
	"shoal/manager/desk"
)

// TestReleasesOfSeveralManagers publishes a release at one of two managers and rolls it out at the other. A computer that goes from one to the other and
// back finds the same list at both, and each counts what was told to either, once for each computer. Too many that fall back stop it at both.
func TestReleasesOfSeveralManagers(t *testing.T) {
	web := runPond(t, pond.Config{Seed: 3, Hosts: 3, Pages: 6, Plain: true, Start: time.Now()})
	db, store := pglab.Start(t, pglab.Options{}), s3lab.Start(t, s3lab.Options{})
	home := t.TempDir()
	dirs := []string{filepath.Join(home, "one"), filepath.Join(home, "two")}
	all := openSeveral(t, web, dirs, func(_ int, cfg *stationConfig) { cfg.db, cfg.bucket = db.URL(), store.URL() })
	until := func(what string, holds func() bool) {
		t.Helper()
		waiting.Until(t, what, func() bool {
			if holds() {
				return true
			}
			for _, st := range all {
				st.releases.wakeUp() // the test need not wait for their turns
			}
			return false
		})
	}
	until("each knows the other", func() bool { return len(all[0].otherManagers()) == 1 && len(all[1].otherManagers()) == 1 })

	key, err := signing.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	repo := signing.Repo{Dir: filepath.Join(home, "repo")}
	if err := repo.Init(time.Now(), []signing.Key{key}, all[0].keys.SealReleases); err != nil {
		t.Fatal(err)
	}
	program := signing.File{System: "linux", Arch: "amd64", Bytes: []byte("a program")}
	publish := func(at int, version string) {
		t.Helper()
		if _, err := repo.Add(time.Now(), version, "", []signing.File{program}, key); err != nil {
			t.Fatal(err)
		}
		shoalIn(t, dirs[at], 0, "release", "publish", repo.Dir)
	}
	computer := trusted.Reader{Dir: t.TempDir(), Network: all[0].keys.Network}
	moves := func(from int, versions ...string) { // each manager is asked over the wire, by the other one
		t.Helper()
		if _, err := all[1-from].reachManager(t.Context(), all[from].node.ID().String()); err != nil {
			t.Fatal(err)
		}
		c := carry.Client{Node: all[1-from].node, Manager: all[from].node.ID()}
		list, err := computer.Update(t.Context(), time.Now(), c.File)
		if err != nil {
			t.Fatalf("the list of manager %d: %v", from, err)
		}
		var got []string
		for _, p := range list {
			got = append(got, p.Version)
			if err := c.Download(t.Context(), p.Target, 0, p.Length, func([]byte) error { return nil }); err != nil {
				t.Errorf("%s at manager %d: %v", p.Target, from, err)
			}
		}
		if slices.Sort(got); !slices.Equal(got, versions) {
			t.Errorf("manager %d lists %v, want %v", from, got, versions)
		}
	}
	served := func(at int) signing.Files {
		t.Helper()
		f, err := all[at].releases.shelf.Files()
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	for i, version := range []string{"v1.0.0", "v1.1.0"} {
		publish(i, version)
		until("both serve the same files, with the programs", func() bool {
			for _, st := range all {
				st.releases.mu.Lock()
				complete := st.releases.together.complete[version]
				st.releases.mu.Unlock()
				if !complete {
					return false
				}
			}
			one, two := served(0), served(1)
			return len(one[trusted.Timestamp]) > 0 && maps.EqualFunc(one, two, slices.Equal)
		})
		want := []string{"v1.0.0", "v1.1.0"}[:i+1]
		moves(i, want...)
		moves(1-i, want...)
		moves(i, want...)
	}

	if _, err := all[0].desk.Shelf().Roll(desk.RolloutAsk{Version: "v1.1.0", Share: "100%"}); err != nil {
		t.Fatal(err)
	}
	for _, st := range all {
		st.releases.mu.Lock()
		st.releases.prefixOf = func(peer string) string { return "network of " + peer }
		st.releases.mu.Unlock()
	}
	told := func(at int, name string, r release.Report) carry.Offer {
		r.Setting = "auto"
		return all[at].releases.Told(wire.Member{Peer: peer.ID(name), Account: "account of " + name}, r)
	}
	until("the other one offers what was rolled out", func() bool {
		return told(1, "a", release.Report{Version: "v1.0.0"}) == carry.Offer{Version: "v1.1.0", Share: release.Whole}
	})
	for _, st := range all {
		until("each counts all of them once, by the last word of one that has moved", func() bool {
			told(0, "a", release.Report{Version: "v1.1.0"}) // and once more: the clocks of the two may differ
			told(0, "b", release.Report{Version: "v1.1.0"})
			told(1, "c", release.Report{Version: "v1.1.0"})
			s, err := st.desk.Shelf().Releases()
			if err != nil {
				t.Fatal(err)
			}
			return s.Rollout.Peers == 3 && s.Rollout.Took == 3 && len(s.Rollout.Runs) == 1
		})
	}
	for _, st := range all {
		until("it has stopped at both", func() bool {
			for i, name := range []string{"a", "b", "c"} { // no manager hears of enough of them by itself; and again, since the clocks of the two may differ
				told(i%2, name, release.Report{Version: "v1.0.0", Falls: []release.Fall{{Version: "v1.1.0", Why: "crashed"}}})
			}
			return st.releases.Summary().Stopped != ""
		})
	}
	if err := all[1].releases.Roll("v1.1.0", release.Whole, false); err == nil {
		t.Error("what has stopped by itself goes on without being told to")
	}
}
