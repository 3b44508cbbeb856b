package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"shoal/channel"
	"shoal/internal/lab/pglab"
	"shoal/internal/lab/pond"
	"shoal/internal/lab/s3lab"
	"shoal/internal/lab/waiting"
	"shoal/internal/ports"
	"shoal/internal/version"
	"shoal/manager/desk"
	"shoal/manager/joint"
)

// openSeveral opens and runs managers that share a network of the pond, each in a folder of its own. change completes the configuration of each.
func openSeveral(t *testing.T, web pondRun, dirs []string, change func(i int, cfg *stationConfig)) (all []*station) {
	t.Helper()
	for i, dir := range dirs {
		if i > 0 {
			backup := filepath.Join(t.TempDir(), "keys")
			shoalIn(t, dirs[0], 0, "key", "backup", "--out", backup)
			shoalIn(t, dir, 0, "key", "restore", "--another", backup)
		}
		port, err := ports.Free()
		if err != nil {
			t.Fatal(err)
		}
		cfg := stationConfig{data: dir, several: true, listen: []string{fmt.Sprintf("/ip4/127.0.0.1/tcp/%d", port)}, dialer: pondDialer(web.world, port),
			tenancy: 3 * time.Minute, // no test has a manager die, and a machine may be busy
			log:     slog.New(slog.DiscardHandler), manager: pondManager(), reach: pondReach}
		change(i, &cfg)
		st, err := openStation(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { web.stop(); st.close() })
		web.run(filepath.Base(dir), st.run)
		all = append(all, st)
	}
	return all
}

// TestOneDeskAtEachManager has two managers and an archive alone share a network: each shows all of it, and an order that is given at any of them is
// carried out, or refused with its owner's reason, by the manager that has the channel.
func TestOneDeskAtEachManager(t *testing.T) {
	t.Parallel()
	web := runPond(t, pond.Config{Seed: 3, Hosts: 30, Pages: 120, MaxHost: 10, Plain: true, Start: time.Now()})
	db, store := pglab.Start(t, pglab.Options{}), s3lab.Start(t, s3lab.Options{})
	home := t.TempDir()
	dirs := []string{filepath.Join(home, "one"), filepath.Join(home, "two"), filepath.Join(home, "archive")}
	all := openSeveral(t, web, dirs, func(i int, cfg *stationConfig) {
		cfg.db, cfg.bucket, cfg.onlyArchive, cfg.page, cfg.openView = db.URL(), store.URL(), i == 2, "127.0.0.1:0", true
	})
	var refused error // the last one; a look that takes too long on a busy machine is to be taken again
	until := func(what string, holds func() bool) {
		t.Helper()
		refused = nil
		waiting.Until(t, what, holds, func() string { return fmt.Sprint(refused) })
	}
	ctx := t.Context()
	if _, err := all[2].desk.AddChannels(ctx, pondChannels(web.world)); err != nil {
		t.Fatal(err)
	}
	w := &swimmers{n: 2, dir: filepath.Join(home, "peers"), pond: web.server, log: slog.New(slog.DiscardHandler)}
	web.run("peers", func(ctx context.Context) error { return w.run(ctx, all[0].joinString()) })

	var rows [3][]desk.Row
	until("each manager shows all channels, crawled, as their owners know them", func() bool {
		for i, st := range all {
			var n int
			if rows[i], n, refused = st.desk.Rows(ctx, desk.Find{N: 100}); refused != nil {
				return false
			}
			if n != 30 || len(rows[i]) != 30 {
				return false
			}
			for _, r := range rows[i] {
				if r.Group == 0 || r.Visits == 0 {
					return false
				}
			}
		}
		return true
	})
	until("each manager lists three, two of which share the partitions, and sums them up", func() bool {
		for _, st := range all {
			o := st.desk.Overview()
			parts := 0
			for _, m := range o.Managers {
				parts += m.Partitions
				if m.ArchiveOnly != (m.Peer == all[2].node.ID().String()) || m.ArchiveOnly && m.Partitions > 0 || len(m.Addrs) == 0 || m.Since.IsZero() {
					return false
				}
			}
			if len(o.Managers) != 3 || parts != channel.Parts || o.Channels != 30 || len(o.History) == 0 || total(o.GroupSizes) != 30 {
				return false
			}
		}
		return true
	})
	if n := all[2].archive.Stats().Chunks; n == 0 {
		t.Error("the archive alone has stored nothing")
	}
	if d, _ := all[0].node.Document(); len(d.Managers) != 2 || len(d.Archives) != 3 {
		t.Errorf("the network document names %d managers and %d archives", len(d.Managers), len(d.Archives))
	}

	owned := [2]desk.Row{} // a channel of each manager
	for _, r := range rows[0] {
		for i := range owned {
			if all[0].ownerOf(channel.KeyOf(r.Host)) == all[i].node.ID().String() {
				owned[i] = r
			}
		}
	}
	for i, r := range owned {
		for k, st := range all {
			until(fmt.Sprintf("manager %d tells what happened to the channel of manager %d", k, i), func() bool { // a manager that answers late is named
				var told []desk.Event
				_, told, refused = st.desk.Row(ctx, r.ID)
				return len(told) > 0 && !slices.ContainsFunc(told, func(e desk.Event) bool { return e.What == joint.Unheard })
			})
			if err := st.desk.Pause(ctx, r.ID, true); err != nil {
				t.Error(err)
			}
			until(fmt.Sprintf("a pause that manager %d was asked for is known to the owner", k), func() bool { // it knows until it has written it, and then by its record
				row, _, err := all[i].desk.Row(ctx, r.ID)
				return err == nil && row.State == "paused"
			})
			if err := st.desk.Pause(ctx, r.ID, false); err != nil {
				t.Error(err)
			}
		}
		if err := all[1-i].desk.Block(ctx, r.Host, "a test"); err != nil {
			t.Fatal(err)
		}
		until("the order of another manager is refused with the owner's reason", func() bool {
			err := all[1-i].desk.CrawlNow(ctx, r.ID)
			return err != nil && (strings.Contains(err.Error(), "is blocked (a test)") || strings.Contains(err.Error(), "being crawled already"))
		})
	}
	for i, st := range all { // a list is imported at each, and then once more
		chs := make([]channel.Channel, len(rows[0]))
		for k, r := range rows[0] {
			at := fmt.Sprintf("/list%d/", i)
			chs[k] = channel.Channel{Scope: channel.Scope{Kind: channel.Directory, Host: r.Host, Dirs: []string{at}}, Seeds: []string{r.Host + at}}
		}
		got, err := st.desk.AddChannels(ctx, chs)
		if err != nil || got.Added != 30 || got.Duplicates != 0 || got.Blocked != len(owned) {
			t.Errorf("manager %d, a list of 30, of which the hosts of %d are blocked: %+v, %v", i, len(owned), got, err)
		}
		if again, err := all[(i+1)%3].desk.AddChannels(ctx, chs); err != nil || again.Added != 0 || again.Duplicates != 30 {
			t.Errorf("the list of manager %d at the next one: %+v, %v", i, again, err)
		}
		for k, other := range all {
			until(fmt.Sprintf("manager %d counts each channel of the lists once, with %d lists imported", k, i+1), func() bool {
				_, n, err := other.desk.Rows(ctx, desk.Find{N: 1})
				o := other.desk.Overview()
				refused = fmt.Errorf("%d channels, %d of them in groups, %d listed, %w", o.Channels, total(o.GroupSizes), n, err)
				return err == nil && n == 30*(i+2) && o.Channels == n && total(o.GroupSizes) == n
			})
		}
	}
	for i, st := range all {
		until(fmt.Sprintf("manager %d sums up what all have handed out and judged", i), func() bool { // one that answers late is named as missing
			s, err := st.desk.Strategy(ctx)
			trust, err2 := st.desk.Court().Rules(ctx)
			refused = errors.Join(err, err2)
			return refused == nil && s.Note == "" && s.Sequencers.NewTaken+s.Sequencers.OldTaken >= 30 && trust.Deliveries >= 30
		})
		if _, err := st.desk.Court().Case(ctx, "1"); !errors.Is(err, desk.ErrAsk) || !strings.Contains(err.Error(), "no case 1") {
			t.Errorf("manager %d: a case that there is not: %v", i, err)
		}
		h, err := st.handler()
		if err != nil {
			t.Fatal(err)
		}
		page := httptest.NewRecorder()
		h.ServeHTTP(page, httptest.NewRequest(http.MethodGet, "http://127.0.0.1/", nil))
		if text := page.Body.String(); !strings.Contains(text, `<h2 id="managers">`) || !strings.Contains(text, "archive alone") {
			t.Errorf("the page of manager %d has no table of managers: %.300s", i, text)
		}
		list := shoalIn(t, dirs[i], 0, "managers")
		if strings.Count(list, version.String()) != 3 || !strings.Contains(list, "archive alone") {
			t.Errorf("shoal managers at manager %d:\n%s", i, list)
		}
		if free := exposed(t, st); !strings.Contains(free, "shoal_managers 2") || !strings.Contains(free, "shoal_managers_archive_only 1") || !strings.Contains(free, "shoal_manager_partitions_free 0") {
			t.Errorf("metrics of manager %d lack the managers", i)
		}
	}
}

func total(list []int) (n int) {
	for _, x := range list {
		n += x
	}
	return n
}
