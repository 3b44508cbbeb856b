package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shoal/internal/lab/pglab"
	"shoal/manager/archive/remote"
)

// shoalIn runs a command on a data folder and returns what it prints.
func shoalIn(t *testing.T, data string, want int, args ...string) string {
	t.Helper()
	var out, errs strings.Builder
	if code := run(t.Context(), append(args, "--data", data), streams{&out, &errs}); code != want {
		t.Fatalf("shoal %s: %d, want %d\n%s%s", strings.Join(args, " "), code, want, out.String(), errs.String())
	}
	return out.String() + errs.String()
}

// TestMigrate moves a manager's channels to a server and back. What every command shows stays the same, a backup of
// the one can be restored as the other, and a start with the wrong database is refused.
func TestMigrate(t *testing.T) {
	t.Parallel()
	s := pglab.Start(t, pglab.Options{})
	cfg := stationForTest(t)
	st, err := openStation(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if said := shoalIn(t, cfg.data, 1, "migrate", "--to", s.URL()); !strings.Contains(said, "stop it first") {
		t.Errorf("a running manager's channels: %s", said)
	}
	if err := st.close(); err != nil {
		t.Fatal(err)
	}
	shoalIn(t, cfg.data, 0, "channel", "add", "https://a.example/", "https://b.example/x/", "https://c.example/")
	shoalIn(t, cfg.data, 0, "channel", "edit", "a.example", "--weight", "2.5", "--exclude", "/private")
	shoalIn(t, cfg.data, 0, "channel", "remove", "c.example", "--yes")
	shoalIn(t, cfg.data, 0, "host", "block", "b.example")
	looks := func() string {
		return shoalIn(t, cfg.data, 0, "channel", "list") + shoalIn(t, cfg.data, 0, "channel", "show", "a.example") + shoalIn(t, cfg.data, 0, "host", "list")
	}
	before := looks()

	elsewhere := cfg
	elsewhere.db = s.URL()
	if _, err := openStation(t.Context(), elsewhere); err == nil || !strings.Contains(err.Error(), "shoal migrate") {
		t.Errorf("a folder with channels was opened with --db: %v", err)
	}
	if said := shoalIn(t, cfg.data, 1, "migrate", "--to", "postgres://nobody@/none?host=/nowhere"); !strings.Contains(said, "start it") {
		t.Errorf("no server: %s", said)
	}
	if said := shoalIn(t, cfg.data, 0, "migrate", "--to", s.URL()); !strings.Contains(said, "moved 2 channels") {
		t.Errorf("to the server: %s", said)
	}
	if after := looks(); after != before {
		t.Errorf("on the server:\n%s\nbefore:\n%s", after, before)
	}
	if info, err := os.Stat(filepath.Join(cfg.data, remote.DatabaseFile)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the server's URL: %v, %v", info, err)
	}
	backup, restored := filepath.Join(t.TempDir(), "backup"), filepath.Join(t.TempDir(), "restored")
	leave := []string{channelsFolder, "migrate-7", "archive.before-1"} // by a migration that was killed when the server counted already, and an earlier one
	for _, name := range leave {
		left := filepath.Join(cfg.data, name)
		if err := errors.Join(os.MkdirAll(left, 0o700), os.WriteFile(filepath.Join(left, "MANIFEST"), []byte("old"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	shoalIn(t, cfg.data, 0, "backup", backup)
	for _, name := range leave[1:] {
		if _, err := os.Stat(filepath.Join(backup, name)); err == nil {
			t.Errorf("%s is in the backup", name)
		}
	}
	for _, name := range leave {
		if err := os.RemoveAll(filepath.Join(cfg.data, name)); err != nil {
			t.Fatal(err)
		}
	}
	shoalIn(t, restored, 0, "restore", backup)
	if list := shoalIn(t, restored, 0, "channel", "list"); !strings.Contains(list, "https://b.example") {
		t.Errorf("restored from a backup of the server's channels:\n%s", list)
	}
	if _, err := os.Stat(filepath.Join(restored, remote.DatabaseFile)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a restored folder works on the server of the first: %v", err)
	}
	shoalIn(t, restored, 0, "channel", "add", "https://another.example/")
	if said := shoalIn(t, restored, 1, "migrate", "--to", s.URL()); !strings.Contains(said, "holds something already") {
		t.Errorf("into a database that is not empty: %s", said)
	}
	if err := os.Mkdir(filepath.Join(cfg.data, channelsFolder), 0o700); err != nil { // a migration was broken off before it gave the folder's database another name
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(cfg.data, channelsFolder, "old"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if said := shoalIn(t, cfg.data, 0, "migrate", "--to", "folder"); !strings.Contains(said, "moved 2 channels") {
		t.Errorf("back: %s", said)
	}
	if after := looks(); after != before {
		t.Errorf("back in the folder:\n%s\nbefore:\n%s", after, before)
	}
	st, err = openStation(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := st.close(); err != nil {
		t.Error(err)
	}
}
