package tables

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/dgraph-io/badger/v4"

	"shoal/internal/lab/disklab"
)

// TestPowerCutOfWhatWasRead cuts the power just after a folder was checked whose last writes were in the file system's cache alone: a process was killed before
// it had synced them, or the disk had refused them. What the check has seen is there.
func TestPowerCutOfWhatWasRead(t *testing.T) {
	disklab.Cuts(t)
	const commits = 40
	files := map[string][]byte{}
	names, err := filepath.Glob(filepath.Join(killed(t, commits), "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if files[filepath.Base(name)], err = os.ReadFile(name); err != nil {
			t.Fatal(err)
		}
	}
	for what, refused := range map[string]bool{"killed": false, "refused": true} {
		t.Run(what, func(t *testing.T) {
			disk := disklab.For(t, 64<<20)
			dir := filepath.Join(disk.Root(), "db")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			last := func(name string) bool { // what the writes go to that are about to be lost
				return name == badger.ManifestFilename || strings.HasSuffix(name, ".mem") || strings.HasSuffix(name, ".vlog")
			}
			for name, b := range files {
				if last(name) {
					b = bytes.Repeat([]byte{1}, len(b))
				}
				if err := write(filepath.Join(dir, name), b, true); err != nil {
					t.Fatal(err)
				}
			}
			disk.Refuse(refused)
			for name, b := range files {
				if !last(name) {
					continue
				}
				if err := write(filepath.Join(dir, name), b, refused); refused && !errors.Is(err, syscall.EIO) || !refused && err != nil {
					t.Fatalf("write %s: %v", name, err)
				}
			}
			disk.Refuse(false)
			if err := Check(options(dir)); err != nil {
				t.Fatal(err)
			}
			_, err = disk.Cut(rand.New(rand.NewPCG(1, 1)), disk.Now(), 0, func(root string) {
				db, err := badger.Open(options(filepath.Join(root, "db")))
				if err != nil {
					t.Fatal(err)
				}
				err = db.View(func(txn *badger.Txn) error {
					for n := range commits {
						for _, kind := range "abc" {
							item, err := txn.Get(fmt.Appendf(nil, "%c%04d", kind, n))
							if err == nil {
								err = item.Value(func([]byte) error { return nil })
							}
							if err != nil {
								return fmt.Errorf("%c%04d: %w", kind, n, err)
							}
						}
					}
					return nil
				})
				if err != nil {
					t.Error(err)
				}
				if err := db.Close(); err != nil {
					t.Fatal(err)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}

// write overwrites a file, or makes it.
func write(name string, b []byte, sync bool) (err error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := f.Write(b); err != nil {
		return err
	}
	if sync {
		err = f.Sync()
	}
	return err
}
