package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"shoal/internal/lab/pglab"
	"shoal/internal/lab/pond"
	"shoal/internal/lab/s3lab"
	"shoal/internal/lab/waiting"
	"shoal/internal/member"
	"shoal/internal/wire"
	"shoal/manager"
)

// keepBans writes a data folder's file of bans, as an earlier run has left it.
func keepBans(t *testing.T, dir string, list ...banned) {
	t.Helper()
	b, err := json.Marshal(bannedFile{Version: 2, Banned: list})
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, bannedName), b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestBanReachesAllManagers has an account banned at one of two managers while its peer crawls for both: each ends what it has open and takes nothing
// of it any more. The other one forgives it, and both do. What one of them had banned while it was alone, the other learns.
func TestBanReachesAllManagers(t *testing.T) {
	t.Parallel()
	web := runPond(t, pond.Config{Seed: 1, Hosts: 12, Pages: 12000, Bytes: 2000, Plain: true, Start: time.Now()})
	db, store := pglab.Start(t, pglab.Options{}), s3lab.Start(t, s3lab.Options{})
	home := t.TempDir()
	dirs := []string{filepath.Join(home, "one"), filepath.Join(home, "two")}
	keepBans(t, dirs[0], banned{Name: "of one", Since: time.Now()})
	keepBans(t, dirs[1], banned{Name: "of two", Since: time.Now()}, banned{Name: "forgiven elsewhere", Told: true})
	both := openSeveral(t, web, dirs, func(_ int, cfg *stationConfig) {
		cfg.db, cfg.bucket = db.URL(), store.URL()
		cfg.manager.Terms.Term = 10 * time.Minute // no claim ends by itself
	})
	volunteers := func(st *station) []wire.Connected {
		return st.node.Members(func(m wire.Member) bool { return m.Role == member.Peer })
	}
	until := func(what string, holds func(*station) bool) {
		t.Helper()
		for _, st := range both {
			waiting.Until(t, filepath.Base(st.cfg.data)+": "+what, func() bool { return holds(st) }, func() string {
				return fmt.Sprintf("it bans %v, has %d connections and %d claims", st.members.list(), len(volunteers(st)), st.archive.Stats().Leases)
			})
		}
	}
	until("both know whom each had banned alone, and no other", func(st *station) bool {
		list := st.members.list()
		slices.Sort(list)
		return slices.Equal(list, []string{"of one", "of two"})
	})
	var bans sync.WaitGroup
	for i, st := range both {
		bans.Go(func() {
			if err := st.desk.Ban(t.Context(), fmt.Sprint("at the same time ", i), true); err != nil {
				t.Error(err)
			}
		})
	}
	bans.Wait()
	until("the database has the bans of one moment", func(st *station) bool {
		var f bannedFile
		b, err := st.others.shared.State(t.Context(), manager.StateBanned)
		return err == nil && json.Unmarshal(b, &f) == nil && len(f.Banned) == 4 && len(st.members.list()) == 4
	})
	if _, err := both[0].desk.AddChannels(t.Context(), pondChannels(web.world)); err != nil {
		t.Fatal(err)
	}
	w := &swimmers{n: 1, dir: filepath.Join(home, "peers"), pond: web.server, log: slog.New(slog.DiscardHandler)}
	web.run("peer", func(ctx context.Context) error { return w.run(ctx, both[0].joinString()) })
	until("the volunteer crawls for it, and some of that is stored there", func(st *station) bool {
		return len(volunteers(st)) > 0 && st.archive.Stats().Chunks > 0 && st.archive.Stats().Leases > 0
	})

	v := volunteers(both[0])[0]
	account, volunteer, began := v.Account, v.Peer.String(), time.Now()
	if err := both[0].desk.Ban(t.Context(), account, true); err != nil {
		t.Fatal(err)
	}
	until("the volunteer is gone", func(st *station) bool { return len(volunteers(st)) == 0 })
	until("it has heard of the ban, and no claim is left", func(st *station) bool {
		return slices.Contains(st.members.list(), account) && st.archive.Stats().Leases == 0
	})
	t.Logf("both managers had ended all after %.1f s", time.Since(began).Seconds())
	chunks := func() (n uint64) {
		for _, st := range both {
			n += st.archive.Stats().Chunks
		}
		return n
	}
	denied := map[*station]int64{}
	for _, st := range both {
		denied[st] = st.node.Refused()["denied"]
	}
	before := chunks()
	until("the volunteer comes back, and is refused", func(st *station) bool { return st.node.Refused()["denied"] > denied[st] })
	if n := chunks() - before; n != 0 {
		t.Errorf("%d chunks of a banned volunteer were stored", n)
	}
	for _, st := range both {
		if n := st.archive.Stats().Leases; n != 0 || len(volunteers(st)) != 0 {
			t.Errorf("a banned volunteer holds %d claims, and has %d connections", n, len(volunteers(st)))
		}
	}
	if err := both[1].desk.Ban(t.Context(), account, false); err != nil {
		t.Fatal(err)
	}
	until("it has heard that the volunteer is forgiven", func(st *station) bool {
		_, err := st.issuer.Issue(time.Now(), request(volunteer, ""))
		return err == nil && !slices.Contains(st.members.list(), account)
	})
}
