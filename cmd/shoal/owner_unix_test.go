//go:build unix

package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"shoal/channel/badgerdb"
	"shoal/internal/member"
)

// TestRootLeavesNoFilesBehind: after a command that root runs in the folder of a manager which is a user of its own, all in it belongs to that user.
func TestRootLeavesNoFilesBehind(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can leave files of another owner: run the tests as root to see this")
	}
	data, elsewhere := filepath.Join(t.TempDir(), "shoal"), filepath.Join(t.TempDir(), "linked")
	do := func(args ...string) {
		t.Helper()
		var out bytes.Buffer
		if code := run(t.Context(), args, streams{&out, &out}); code != 0 {
			t.Fatalf("shoal %v: %s", args, &out)
		}
	}
	const user = 54321
	if _, err := member.LoadOrCreate(filepath.Join(data, "keys"), time.Now()); err != nil {
		t.Fatal(err)
	}
	db, err := badgerdb.Open(t.Context(), badgerdb.Default(filepath.Join(data, "channels")))
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(elsewhere, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(elsewhere, filepath.Join(data, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(elsewhere, filepath.Join(data, "name")); err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(data, func(path string, _ fs.DirEntry, _ error) error {
		if path == filepath.Join(data, "name") {
			return nil
		}
		return os.Lchown(path, user, user)
	})
	if err != nil {
		t.Fatal(err)
	}
	do("channel", "add", "https://b.example/", "--data", data)
	do("key", "backup", "--out", filepath.Join(t.TempDir(), "keys"), "--data", data)
	do("key", "rotate", "--stolen", "--data="+data)
	err = filepath.WalkDir(data, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		st, err := os.Lstat(path)
		if err == nil && st.Sys().(*syscall.Stat_t).Uid != user && path != filepath.Join(data, "name") {
			t.Errorf("%s belongs to %d, want %d", path, st.Sys().(*syscall.Stat_t).Uid, user)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	home := filepath.Join(t.TempDir(), "home") // whose owner has not asked for anything
	if err := os.MkdirAll(filepath.Join(home, "root's"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(home, user, user); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if run(t.Context(), []string{"channel", "list", "--data", home}, streams{&out, &out}) == 0 {
		t.Error("a folder without a manager's data has channels")
	}
	if st, err := os.Stat(filepath.Join(home, "root's")); err != nil || st.Sys().(*syscall.Stat_t).Uid != 0 {
		t.Errorf("what root has in somebody's folder was given away, %v", err)
	}
	if st, err := os.Stat(elsewhere); err != nil || st.Sys().(*syscall.Stat_t).Uid != 0 {
		t.Errorf("a file elsewhere that is linked to was given away, %v", err)
	}
}
