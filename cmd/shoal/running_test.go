package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shoal/manager/desk"
)

// TestCommandsOnARunningManager speaks to a manager as an operator does, mistakes included, and begins again from its backup.
func TestCommandsOnARunningManager(t *testing.T) {
	t.Parallel()
	cfg := stationForTest(t)
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
	cfg.data = fresh
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
