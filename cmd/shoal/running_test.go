package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shoal/internal/lab/pglab"
	"shoal/internal/lab/s3lab"
	"shoal/manager/desk"
)

// TestCommandsOnARunningManager speaks to a manager as an operator does, mistakes included, and begins again from its backup: to one with its data in a folder, to one
// with its data on servers, and to one that shares these with others.
func TestCommandsOnARunningManager(t *testing.T) {
	t.Parallel()
	t.Run("folder", func(t *testing.T) {
		t.Parallel()
		commandsOnARunningManager(t, stationForTest(t))
	})
	for name, several := range map[string]bool{"servers": false, "several": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := stationForTest(t)
			cfg.db, cfg.bucket, cfg.several = pglab.Start(t, pglab.Options{}).URL(), s3lab.Start(t, s3lab.Options{}).URL(), several
			commandsOnARunningManager(t, cfg)
		})
	}
}

func commandsOnARunningManager(t *testing.T, cfg stationConfig) {
	t.Helper()
	cfg.page = "127.0.0.1:0"
	st, err := openStation(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- st.run(ctx) }()
	backup, page := filepath.Join(t.TempDir(), "backup"), "http://"+st.page.Addr().String()
	for _, x := range []struct {
		args string
		code int
		want string // in output or error
	}{
		{"channel add https://a.example/ https://b.example/x/", 0, "added 2 channels"},
		{"channel edit 1 --weight 3", 0, "channel 1 changed"},
		{"channel show 1", 0, "https://a.example"},
		{"channel list", 0, "https://b.example /x/"},
		{"channel export --format csv", 0, "https://b.example/x/"},
		{"channel found", 0, ""},
		{"channel split 1 /n/", 0, "/n/"},
		{"channel remove 3 --yes", 0, "removed"},
		{"host block b.example", 0, "not crawled any more"},
		{"host list --blocked", 0, "https://b.example"},
		{"channel crawl-now 2", 1, "is blocked"},
		{"host unblock b.example", 0, ""},
		{"host list --blocked", 0, ""},
		{"strategy set price", 0, ""},
		{"strategy set --cap 1.5", 0, ""},
		{"strategy show", 0, "price"},
		{"trust show", 0, ""},
		{"peer list", 0, ""},
		{"peer conduct", 0, ""},
		{"peer invite --uses 3", 0, ""},
		{"peer ban nobody", 1, "nobody"},
		{"credit board --weeks 4", 0, ""},
		{"trust set --newcomers 0", 0, "no newcomer will ever be tried"},
		{"trust set --newcomers .03", 0, ""},
		{"credit board --name zzz", 0, "No volunteer and no team on the board is called zzz."},
		{"peer ban somebody --unknown", 0, ""},
		{"peer vouch somebody", 1, "somebody is banned: shoal peer unban lets it in again"},
		{"strategy set --min-interval 1ms", 1, "shorter than a tick"},
		{"strategy set --min-interval=-5m", 1, "want 1m0s to 8784h0m0s (a year), or 0 for a tick"},
		{"strategy set --min-interval 20000h", 1, "want 1m0s to 8784h0m0s (a year), or 0 for a tick"},
		{"plan --capacity 3", 0, ""},
		{"channel pause 2", 0, "paused"},
		{"archive stats", 0, "chunks      0"},
		{"archive verify", 0, "0 problems"},
		{"archive compact --captures 3 --age 1h --feed 1h", 1, "--yes"},
		{"archive compact --captures 3 --age 1h --feed 1h --dry-run", 0, "would be forgotten"},
		{"archive compact --captures 3 --age 1h --feed 1h --yes", 0, "0 versions and 0 changes forgotten"},
		{"archive compact --captures -3", 1, "negative"},
		{"archive repair", 1, "stop the manager first"},
		{"archive repair --rebuild", 1, "stop the manager first"},
		{"get https://a.example/", 1, "is not stored"},
		{"get http://[::bad", 1, "http://[::bad"},
		{"get ftp://a.example/", 1, "ftp"},
		{"get https://a.example/ --at yesterday", 1, "yesterday"},
		{"export", 0, "next: --since"},
		{"export --since bm9uZQ", 1, "of another archive than this"},
		{"export --since !", 1, "of another archive than this"},
		{"feed --since nonsense", 1, "of another archive than this"},
		{"feed --limit -1", 1, "limit"},
		{"channel list --token wrong --manager " + page, 1, "token"},
		{"archive stats --token wrong --manager " + page, 1, "wants a token"},
		{"backup " + backup, 0, "backup in"},
		{"backup " + backup, 1, "exists already"},
	} {
		var out, errs strings.Builder
		args := append(strings.Fields(x.args), "--data", cfg.data)
		code := run(t.Context(), args, streams{&out, &errs})
		if code != x.code || !strings.Contains(out.String()+errs.String(), x.want) {
			t.Errorf("shoal %s: %d, want %d with %q in\n%s%s", x.args, code, x.code, x.want, out.String(), errs.String())
		}
	}
	if out, said := must(t, "strategy", "try", "price", "--data", cfg.data); !strings.HasPrefix(out, "No peer has joined") || strings.Contains(out+said, "fresh") {
		t.Errorf("a strategy is tried without peers, and zeros are shown:\n%s%s", out, said)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := st.close(); err != nil {
		t.Fatal(err)
	}
	fresh := filepath.Join(t.TempDir(), "fresh")
	must(t, "restore", backup, "--data", fresh)
	before, err := os.ReadFile(filepath.Join(cfg.data, "keys", "root.key"))
	if err != nil {
		t.Fatal(err)
	}
	after, err := os.ReadFile(filepath.Join(fresh, "keys", "root.key"))
	if err != nil || string(after) != string(before) {
		t.Errorf("the network's key in the backup: %v", err)
	}
	cfg.data, cfg.db, cfg.bucket, cfg.several = fresh, "", "", false
	if st, err = openStation(t.Context(), cfg); err != nil {
		t.Fatalf("a manager on the restored data: %v", err)
	}
	rows, n, err := st.desk.Rows(t.Context(), desk.Find{N: 10})
	if err != nil || n != 2 || rows[1].State != "paused" {
		t.Errorf("%d channels are restored: %+v, %v", n, rows, err)
	}
	if err := st.close(); err != nil {
		t.Error(err)
	}
}
