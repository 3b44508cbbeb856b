// Package warctest says what a place for WARC files must do, as tests that every one of them runs (warc.OS is the first). It is not for what
// only one of them promises: speed, permissions, names that others see.
package warctest

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"testing"

	"shoal/manager/archive/warc"
)

// Place is one to be tested.
type Place struct {
	FS  warc.FS
	Dir string // an empty folder in it
	// Crash forgets all that was not made durable, and closes all files. Nil: it cannot be tried.
	Crash func(t *testing.T)
}

// Run runs the suite; each test has a place of its own.
func Run(t *testing.T, make func(t *testing.T) Place) {
	for name, test := range map[string]func(*testing.T, Place){
		"Names": testNames, "Bytes": testBytes, "Truncate": testTruncate, "Readers": testReaders, "Removed": testRemoved, "Durable": testDurable, "Appender": testAppender,
	} {
		t.Run(name, func(t *testing.T) { test(t, make(t)) })
	}
}

func (p Place) path(name string) string { return filepath.Join(p.Dir, name) }

func (p Place) open(t *testing.T, name string, create bool) warc.File {
	t.Helper()
	f, err := p.FS.Open(p.path(name), create)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, f warc.File, s string, at int64) {
	t.Helper()
	if n, err := f.WriteAt([]byte(s), at); err != nil || n != len(s) {
		t.Fatalf("%d of %d bytes written, %v", n, len(s), err)
	}
}

// holds wants a file to be s.
func holds(t *testing.T, f warc.File, s string) {
	t.Helper()
	n, err := f.Size()
	must(t, err)
	b := make([]byte, n)
	if got, err := f.ReadAt(b, 0); err != nil && !errors.Is(err, io.EOF) || int64(got) != n || string(b) != s {
		t.Fatalf("%q of %d bytes, %v; want %q", b[:got], n, err, s)
	}
}

func testNames(t *testing.T, p Place) {
	if _, err := p.FS.Open(p.path("a"), false); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("open what is not there: %v", err)
	}
	if err := p.FS.Remove(p.path("a")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("remove what is not there: %v", err)
	}
	a := p.open(t, "a", true)
	holds(t, a, "")
	write(t, a, "12345", 0)
	if _, err := p.FS.Open(p.path("a"), true); !errors.Is(err, fs.ErrExist) {
		t.Errorf("create what is there: %v", err)
	}
	holds(t, a, "12345")
	must(t, p.open(t, "b", true).Close())
	must(t, p.FS.SyncDir(p.Dir))
	list, err := p.FS.List(p.Dir)
	if err != nil || len(list) != 2 || list["a"] != 5 || list["b"] != 0 {
		t.Errorf("list %v, %v", list, err)
	}
	must(t, a.Close())
	must(t, p.FS.Remove(p.path("a")))
	if list, err = p.FS.List(p.Dir); err != nil || len(list) != 1 {
		t.Errorf("list %v, %v", list, err)
	}
	must(t, p.open(t, "a", true).Close()) // a removed name can be taken again
	if free, err := p.FS.Free(p.Dir); err != nil || free <= 0 {
		t.Errorf("%d bytes free, %v", free, err)
	}
	if _, err := p.FS.List(filepath.Join(p.Dir, "none")); err == nil {
		t.Error("a folder that is not there is listed")
	}
}

func testBytes(t *testing.T, p Place) {
	f := p.open(t, "a", true)
	defer f.Close()
	write(t, f, "hello", 0)
	write(t, f, " world", 5)
	write(t, f, "J", 0)
	holds(t, f, "Jello world")
	for _, c := range []struct {
		at   int64
		n    int
		want string
		eof  bool
	}{{6, 5, "world", false}, {6, 9, "world", true}, {11, 1, "", true}, {50, 1, "", true}, {3, 0, "", false}} {
		b := make([]byte, c.n)
		n, err := f.ReadAt(b, c.at)
		if string(b[:n]) != c.want || c.eof != errors.Is(err, io.EOF) && !(err == nil && n == c.n) || !c.eof && err != nil && !errors.Is(err, io.EOF) {
			t.Errorf("%d bytes at %d: %q, %v", c.n, c.at, b[:n], err)
		}
	}
	big := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	write(t, f, string(big), 11)
	got := make([]byte, len(big))
	if _, err := f.ReadAt(got, 11); err != nil && !errors.Is(err, io.EOF) || !bytes.Equal(got, big) {
		t.Errorf("a megabyte comes back changed, %v", err)
	}
}

func testTruncate(t *testing.T, p Place) {
	f := p.open(t, "a", true)
	defer f.Close()
	write(t, f, "hello world", 0)
	must(t, f.Truncate(5))
	holds(t, f, "hello")
	write(t, f, "!", 5)
	holds(t, f, "hello!")
	must(t, f.Truncate(0))
	holds(t, f, "")
	write(t, f, "x", 0)
	must(t, f.Sync())
	holds(t, f, "x")
}

// testReaders reads a file while it is written, as a request for a page does.
func testReaders(t *testing.T, p Place) {
	w := p.open(t, "a", true)
	defer w.Close()
	done := make(chan struct{})
	line := "0123456789\n"
	const lines = 300
	for range 4 {
		go func() {
			defer func() { done <- struct{}{} }()
			r, err := p.FS.Open(p.path("a"), false)
			if err != nil {
				t.Error(err)
				return
			}
			defer r.Close()
			for seen := int64(0); seen < int64(lines*len(line)); {
				if seen, err = r.Size(); err != nil {
					t.Error(err)
					return
				}
				seen -= seen % int64(len(line))
				if seen == 0 {
					continue
				}
				b := make([]byte, len(line))
				if _, err := r.ReadAt(b, seen-int64(len(line))); err != nil && !errors.Is(err, io.EOF) || string(b) != line {
					t.Errorf("at %d: %q, %v", seen, b, err)
					return
				}
			}
		}()
	}
	for n := range lines {
		write(t, w, line, int64(n*len(line)))
	}
	for range 4 {
		<-done
	}
}

// testRemoved removes a file while it is read, as compaction does. The reader may go on or fail; the name is gone.
func testRemoved(t *testing.T, p Place) {
	f := p.open(t, "a", true)
	write(t, f, "old", 0)
	must(t, f.Close())
	r := p.open(t, "a", false)
	err := p.FS.Remove(p.path("a"))
	if err != nil { // it stays while it is open
		holds(t, r, "old")
		must(t, r.Close())
		must(t, p.FS.Remove(p.path("a")))
	} else {
		_ = r.Close() // of a file that is gone
	}
	if _, err := p.FS.Open(p.path("a"), false); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what was removed is opened: %v", err)
	}
	n := p.open(t, "a", true)
	defer n.Close()
	holds(t, n, "")
}

// testDurable crashes: what was synced is there, as is the name if the folder was.
func testDurable(t *testing.T, p Place) {
	if p.Crash == nil {
		t.Skip("this place cannot be crashed by a test")
	}
	f := p.open(t, "a", true)
	must(t, p.FS.SyncDir(p.Dir))
	write(t, f, "synced", 0)
	must(t, f.Sync())
	write(t, f, ", not synced", 6)
	p.Crash(t)
	f = p.open(t, "a", false)
	defer f.Close()
	if n, err := f.Size(); err != nil || n < 6 {
		t.Fatalf("%d bytes, %v", n, err)
	}
	must(t, f.Truncate(6))
	holds(t, f, "synced")
}

// testAppender is what the archive does with a file.
func testAppender(t *testing.T, p Place) {
	a, err := warc.Create(p.FS, p.path("a"))
	must(t, err)
	_, err = a.Append([]byte("one"))
	must(t, errors.Join(err, a.Sync()))
	a.Commit()
	_, err = a.Append([]byte("two"))
	must(t, errors.Join(err, a.Rollback()))
	if at, err := a.Append([]byte("three")); err != nil || at != 3 {
		t.Fatal(at, err)
	}
	must(t, errors.Join(a.Sync(), a.Close()))
	a, err = warc.Resume(p.FS, p.path("a"), 3)
	must(t, err)
	must(t, a.Close())
	f := p.open(t, "a", false)
	defer f.Close()
	holds(t, f, "one")
	if _, err := warc.Resume(p.FS, p.path("a"), 4); !errors.Is(err, warc.ErrShort) {
		t.Errorf("a file that is too short: %v", err)
	}
}
