package archive

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"shoal/manager/archive/ledger"
	"shoal/manager/archive/segment"
	"shoal/manager/archive/warc"
)

// TestDamageDoesNotStopReaders exports an archive of which some records are damaged, before and after a repair: all others are there, and it is counted.
func TestDamageDoesNotStopReaders(t *testing.T) {
	a, _ := aged(t, t.TempDir())
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	name := warcFiles(t, a)[0]
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	clear(b[len(b)/3 : len(b)/2])
	if err := os.WriteFile(name, b, 0o640); err != nil {
		t.Fatal(err)
	}
	a = open(t, a.cfg)
	for _, repaired := range []bool{false, true} {
		if repaired {
			if _, err := a.Repair(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		lines, _ := linesOf(t, a, "", 0, Filter{})
		removed := 0
		for _, l := range lines {
			if l.Removed {
				removed++
			} else if l.Text == "" {
				t.Errorf("line %+v", l)
			}
		}
		if len(lines) != 22 || removed == 0 || removed > 4 {
			t.Errorf("repaired %v: %d of %d changes cannot be read", repaired, removed, len(lines))
		}
		var text, file bytes.Buffer
		if _, err := a.Export(t.Context(), &text, ExportOptions{Format: FormatText}); err != nil || strings.Count(text.String(), "http://site-") != 22-removed {
			t.Errorf("as text %d pages, %v", strings.Count(text.String(), "http://site-"), err)
		}
		if _, err := a.Export(t.Context(), &file, ExportOptions{Format: FormatWARC}); err != nil {
			t.Error(err)
		}
		n := 0
		for s := warc.NewScanner(&file); s.Scan(); {
			if s.Record().Field("WARC-Type") == warc.Response {
				n++
			}
		}
		if n != 22-removed {
			t.Errorf("as WARC %d pages", n)
		}
		if s := a.Stats(); s.Unreadable == 0 {
			t.Error("that was not counted")
		}
	}
}

// A read that breaks off is no damage: an export ends with its error and leaves nothing out, and texts are made later.
func TestReadsThatBreakOffAreNoDamage(t *testing.T) {
	a, _ := aged(t, t.TempDir())
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	cfg, stores := a.cfg, &cutStores{Stores: Embedded(a.cfg.Dir)}
	cfg.Stores = stores
	a = open(t, cfg)
	stores.cut.Store(true)
	if _, err := a.Export(t.Context(), io.Discard, ExportOptions{Format: FormatJSON}); !errors.Is(err, errDisk) {
		t.Errorf("export: %v", err)
	}
	if n, err := a.ExtractText(t.Context()); !errors.Is(err, errDisk) {
		t.Errorf("texts of %d changes: %v", n, err)
	}
	stores.cut.Store(false)
	if lines, _ := linesOf(t, a, "", 0, Filter{}); len(lines) != 22 || lines[0].Removed || lines[0].Text == "" {
		t.Errorf("%d lines, %+v", len(lines), lines[0])
	}
	if s := a.Stats(); s.Unreadable != 0 {
		t.Errorf("%d damaged records were counted", s.Unreadable)
	}
}

// cutStores have reads of segments break off.
type cutStores struct {
	Stores
	cut atomic.Bool
}

func (c *cutStores) Open(ctx context.Context, own Own) (ledger.Store, segment.Store, error) {
	l, s, err := c.Stores.Open(ctx, own)
	return l, cutSegments{s, &c.cut}, err
}

type cutSegments struct {
	segment.Store
	cut *atomic.Bool
}

func (c cutSegments) Read(at segment.Location, most int64) (io.ReadCloser, error) {
	in, err := c.Store.Read(at, most)
	if err != nil || !c.cut.Load() {
		return in, err
	}
	return brokenOff{io.LimitReader(in, int64(at.Length)/2), in}, nil
}

type brokenOff struct {
	io.Reader
	io.Closer
}

func (b brokenOff) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		err = errDisk
	}
	return n, err
}

// TestRepairForgetsNothingThatCannotBeReadNow has one read of a file fail while it is verified, and while it is repaired: both end with that, and all captures stay.
func TestRepairForgetsNothingThatCannotBeReadNow(t *testing.T) {
	a, _ := aged(t, t.TempDir())
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	cfg, stores := a.cfg, &failingReads{Stores: Embedded(a.cfg.Dir)}
	cfg.Stores = stores
	a = open(t, cfg)
	for name, do := range map[string]func() error{
		"verify": func() error { _, err := a.Verify(t.Context(), nil); return err },
		"repair": func() error { _, err := a.Repair(t.Context()); return err },
	} {
		stores.left.Store(2)
		if err := do(); !errors.Is(err, errDisk) {
			t.Errorf("%s: %v", name, err)
		}
		stores.left.Store(0)
	}
	if v := clean(t, a); v.Captures != 40 {
		t.Errorf("%d captures are left of 40", v.Captures)
	}
}

// failingReads have the n-th scan of a segment meet a read that fails in the middle.
type failingReads struct {
	Stores
	left atomic.Int64 // scans until then; 0: none does
}

func (f *failingReads) Open(ctx context.Context, own Own) (ledger.Store, segment.Store, error) {
	l, s, err := f.Stores.Open(ctx, own)
	return l, failingScans{s, &f.left}, err
}

type failingScans struct {
	segment.Store
	left *atomic.Int64
}

func (f failingScans) Scan(ctx context.Context, s segment.Info, do func(segment.Found) error) error {
	if f.left.Load() == 0 || f.left.Add(-1) > 0 {
		return f.Store.Scan(ctx, s, do)
	}
	var whole bytes.Buffer
	if err := f.Copy(ctx, s, &whole); err != nil {
		return err
	}
	return segment.ScanBytes(ctx, &failsOnce{in: bytes.NewReader(whole.Bytes()), at: int64(whole.Len()) / 2}, int64(whole.Len()), s, do)
}

// failsOnce fails the first read that goes beyond a place.
type failsOnce struct {
	in   io.ReaderAt
	at   int64
	done bool
}

func (f *failsOnce) ReadAt(b []byte, off int64) (int, error) {
	if f.done || off+int64(len(b)) <= f.at {
		return f.in.ReadAt(b, off)
	}
	f.done = true
	n, err := f.in.ReadAt(b[:max(0, f.at-off)], off)
	return n, errors.Join(errDisk, err)
}

// TestOnePlaceThatCannotBeReadDoesNotStopTexts has reads of one record fail for good: the texts of all others are made after a few tries, the feed is done with, and what was
// left out is counted. Where nothing can be read, nothing is left out so soon.
func TestOnePlaceThatCannotBeReadDoesNotStopTexts(t *testing.T) {
	a, _ := aged(t, t.TempDir())
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	cfg, stores := a.cfg, &badPlace{Stores: Embedded(a.cfg.Dir)}
	cfg.Stores = stores
	a = open(t, cfg)
	stores.all.Store(true)
	for range 20 {
		if n, err := a.ExtractText(t.Context()); n > 0 || !errors.Is(err, errDisk) {
			t.Fatalf("texts of %d changes though nothing can be read, %v", n, err)
		}
	}
	stores.all.Store(false)
	for tries := 1; ; tries++ {
		n, err := a.ExtractText(t.Context())
		if err == nil && n > 0 {
			break
		}
		if tries == 20 {
			t.Fatalf("texts of %d changes after %d tries, %v", n, tries, err)
		}
	}
	if n, err := a.ExtractText(t.Context()); n != 0 || err != nil {
		t.Errorf("%d changes are left, %v", n, err)
	}
	if s := a.Stats(); s.Unreadable == 0 || s.Unreadable > 4 || s.TextLag != 0 {
		t.Errorf("%d records were left out, and the texts of %d changes are missing", s.Unreadable, s.TextLag)
	}
	stores.well.Store(true)
	if lines, _ := linesOf(t, a, "", 0, Filter{}); len(lines) != 22 || slices.ContainsFunc(lines, func(l Line) bool { return l.Text == "" }) {
		t.Errorf("%d lines, of which some have no text", len(lines))
	}
}

// badPlace has reads of the first record that is read fail, until all is well.
type badPlace struct {
	Stores
	all, well atomic.Bool
	at        atomic.Pointer[segment.Location]
}

func (b *badPlace) Open(ctx context.Context, own Own) (ledger.Store, segment.Store, error) {
	l, s, err := b.Stores.Open(ctx, own)
	return l, badSegments{s, b}, err
}

type badSegments struct {
	segment.Store
	of *badPlace
}

func (b badSegments) Read(at segment.Location, most int64) (io.ReadCloser, error) {
	in, err := b.Store.Read(at, most)
	b.of.at.CompareAndSwap(nil, &at)
	if err != nil || b.of.well.Load() || !b.of.all.Load() && *b.of.at.Load() != at {
		return in, err
	}
	return brokenOff{io.LimitReader(in, int64(at.Length)/2), in}, nil
}
