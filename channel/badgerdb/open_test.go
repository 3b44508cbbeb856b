package badgerdb

import (
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"shoal/channel"
)

// refused opens a database that must not open, and checks the message.
func refused(t *testing.T, cfg Config, want error, words ...string) {
	t.Helper()
	db, err := Open(t.Context(), cfg)
	if err == nil {
		err = errors.Join(errors.New("it opened"), db.Close())
	}
	if !errors.Is(err, want) {
		t.Fatalf("error %v, want %v", err, want)
	}
	for _, w := range append(words, cfg.Dir) {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not say %q", err, w)
		}
	}
}

func TestLocked(t *testing.T) {
	dir := t.TempDir()
	_, out, in := startChild(t, "hold", dir)
	if !out.Scan() {
		t.Fatal("child said nothing")
	}
	refused(t, Default(dir), ErrLocked, "another process", "stop")
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	for out.Scan() {
	}
	open(t, dir)
}

// TestFullDiskInWords explains what Badger says of a disk without a byte left: it keeps the words of the system's error alone.
func TestFullDiskInWords(t *testing.T) {
	words := errors.New("Cannot write pid file \"/d/LOCK\" err: write /d/LOCK: " + syscall.ENOSPC.Error())
	if err := explain("/d", words); !errors.Is(err, ErrDiskFull) || !strings.Contains(err.Error(), "make room") {
		t.Error(err)
	}
}

func TestUnreadable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	refused(t, Default(file), ErrUnreadable)
	refused(t, Default(filepath.Join(file, "below")), ErrUnreadable)
	if os.Getuid() > 0 {
		dir := t.TempDir()
		if err := os.Chmod(dir, 0o500); err != nil {
			t.Fatal(err)
		}
		refused(t, Default(dir), ErrUnreadable, "permission")
	}
	if err := (Config{}).Validate(); err == nil {
		t.Error("no folder is no mistake")
	}
}

func TestNewerSchema(t *testing.T) {
	dir := t.TempDir()
	db := open(t, dir)
	if err := db.submit(t.Context(), &op{run: func(x *tx) error { x.putMetaUint(metaSchema, schema+1); return nil }}); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	refused(t, Default(dir), ErrNewer, "version 2", "up to 1", "export")
}

func TestOtherNetwork(t *testing.T) {
	cfg := Default(t.TempDir())
	for i, network := range [][32]byte{{}, {1}, {1}, {}} {
		cfg.Network = network
		db, err := Open(t.Context(), cfg)
		if err != nil {
			t.Fatalf("%d: %v", i, err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	cfg.Network = [32]byte{2}
	refused(t, cfg, ErrOtherNetwork, "network 01", "choose another")
}

// TestExplain checks that an error of the system is not reported as damage, whatever names its text contains.
func TestExplain(t *testing.T) {
	for errno, want := range map[syscall.Errno]error{syscall.EROFS: ErrUnreadable, syscall.EACCES: ErrUnreadable, syscall.EIO: ErrUnreadable, syscall.ENOSPC: ErrDiskFull} {
		err := explain("d", &fs.PathError{Op: "open", Path: "d/.writable", Err: errno})
		if !errors.Is(err, want) || errors.Is(err, ErrDamaged) {
			t.Errorf("%v: %v", errno, err)
		}
	}
	if err := explain("d", errors.New("checksum mismatch in table 000001")); !errors.Is(err, ErrDamaged) {
		t.Error(err)
	}
}

// TestDamaged checks that a folder with damaged files opens or is refused with advice, and never panics.
func TestDamaged(t *testing.T) {
	dir := t.TempDir()
	db := open(t, dir)
	e, err := db.Take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for n := range 3 {
		var chs []channel.Channel
		for i := range 500 {
			chs = append(chs, host(500*n+i))
		}
		if _, _, err := db.Add(t.Context(), e, chs); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	names, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	refusals := 0
	for _, entry := range names {
		for _, how := range []string{"garbage", "cut", "gone", "head"} {
			copied := filepath.Join(t.TempDir(), "db")
			if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(copied, entry.Name())
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			switch how {
			case "garbage":
				for i := range raw {
					raw[i] = byte(rng.Uint32())
				}
			case "head":
				for i := range min(16, len(raw)) {
					raw[i] ^= 0xff
				}
			case "cut":
				raw = raw[:len(raw)/2]
			}
			if err := os.WriteFile(file, raw, 0o600); err != nil {
				t.Fatal(err)
			}
			if how == "gone" {
				if err := os.Remove(file); err != nil {
					t.Fatal(err)
				}
			}
			db, err := Open(t.Context(), Default(copied))
			if err != nil {
				refusals++
				if !strings.Contains(err.Error(), copied) {
					t.Errorf("%s %s: %v", entry.Name(), how, err)
				}
				continue
			}
			_ = db.Scan(t.Context(), 0, 0, func(channel.Hot) error { return nil }) // may fail, must not panic
			_, _ = db.List(t.Context(), 0, 2000)
			_ = db.Close()
		}
	}
	t.Logf("%d refusals", refusals)
	if refusals == 0 {
		t.Error("damage was never noticed")
	}
}

func TestClosed(t *testing.T) {
	db := open(t, t.TempDir())
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Take(t.Context()); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if _, err := db.List(t.Context(), 0, 1); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := db.Take(ctx); err == nil {
		t.Error("a write to a closed database")
	}
}

func TestCallersPanic(t *testing.T) {
	db := open(t, t.TempDir())
	e, err := db.Take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := db.Add(t.Context(), e, []channel.Channel{host(0)}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if p := recover(); p != "mine" {
			t.Fatalf("panic %v", p)
		}
	}()
	err = db.Scan(t.Context(), 0, 0, func(channel.Hot) error { panic("mine") })
	t.Fatal(err)
}

// TestLostByte checks that a byte that the disk lost is found, both when the folder is opened and while it is open.
// Nothing more is written then, the rest stays readable, and once the byte is back everything works again.
func TestLostByte(t *testing.T) {
	dir := t.TempDir()
	db := open(t, dir)
	e, err := db.Take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const n = 1000
	var chs []channel.Channel
	for i := range n {
		chs = append(chs, host(i))
	}
	if _, _, err := db.Add(t.Context(), e, chs); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = open(t, dir)
	if err := db.Scrub(t.Context()); err != nil {
		t.Fatal(err)
	}
	if e, err = db.Take(t.Context()); err != nil {
		t.Fatal(err)
	}
	tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Fatal(tables, err)
	}
	flip := func() {
		t.Helper()
		f, err := os.OpenFile(tables[0], os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		var b [1]byte
		const at = 4000 // of the first block
		if _, err := f.ReadAt(b[:], at); err != nil {
			t.Fatal(err)
		}
		b[0] ^= 1
		if _, err := f.WriteAt(b[:], at); err != nil {
			t.Fatal(err)
		}
	}
	flip()
	if err := db.Scrub(t.Context()); !errors.Is(err, ErrDamaged) {
		t.Errorf("scrubbed: %v", err)
	}
	if _, _, err := db.Add(t.Context(), e, []channel.Channel{host(n)}); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "backup") {
		t.Errorf("written to a damaged database: %v", err)
	}
	if err := db.CopyTo(t.Context(), filepath.Join(t.TempDir(), "copy")); !errors.Is(err, ErrDamaged) || !errors.Is(db.Damaged(), ErrDamaged) {
		t.Errorf("copied: %v; damaged: %v", err, db.Damaged())
	}
	if _, err := db.Channel(t.Context(), n); err != nil {
		t.Errorf("what is left cannot be read: %v", err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	refused(t, Default(dir), ErrDamaged, "table", "backup")
	flip()
	db = open(t, dir)
	seen := 0
	if err := db.Scan(t.Context(), 0, 0, func(channel.Hot) error { seen++; return nil }); err != nil || seen != n {
		t.Errorf("%d channels after the byte came back, %v", seen, err)
	}
}
