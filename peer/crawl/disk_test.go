package crawl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"

	"shoal/channel"
)

// small is a disk with so much room, which a test may change; what is removed from it makes none.
type small struct {
	room    atomic.Int64
	refused atomic.Int64 // writes and files
}

func (d *small) take(n int) int {
	if left := d.room.Add(-int64(n)); left < 0 {
		d.refused.Add(1)
		d.room.Add(int64(n))
		return max(0, n+int(left))
	}
	return n
}

func (d *small) create(path string) (io.WriteCloser, error) {
	if d.take(1) < 1 {
		return nil, &os.PathError{Op: "open", Path: path, Err: syscall.ENOSPC}
	}
	f, err := disk{}.create(path)
	return &smallFile{f, d}, err
}

func (d *small) spill(dir string) (spillDisk, error) {
	f, err := disk{}.spill(dir)
	return &smallSpill{f, d}, err
}

type smallFile struct {
	io.WriteCloser
	d *small
}

// Write takes what there is room for, as a full disk does.
func (f *smallFile) Write(b []byte) (int, error) {
	n := f.d.take(len(b))
	if n, err := f.WriteCloser.Write(b[:n]); n == len(b) || err != nil {
		return n, err
	}
	return n, syscall.ENOSPC
}

type smallSpill struct {
	spillDisk
	d *small
}

func (f *smallSpill) Write(b []byte) (int, error) {
	if f.d.take(len(b)) < len(b) {
		return 0, syscall.ENOSPC
	}
	return f.spillDisk.Write(b)
}

// TestFullDisk: a crawl goes on while the disk takes nothing, and uses it again when it does.
func TestFullDisk(t *testing.T) {
	noLeaks(t)
	for _, room := range []int64{0, 1, 20, 300, 2500, 6000, 15_000} {
		t.Run(fmt.Sprint(room), func(t *testing.T) {
			h := newHang(30, 0)
			cfg, s := task(t, h)
			cfg.Checkpoint = 1 // each page is a part
			d := &small{}
			d.room.Store(room)
			told, fetched := 0, map[string]int{}
			full := int64(0) // refusals until there was room again
			cfg.files, cfg.OnDisk = d, func(err error) {
				if !errors.Is(err, syscall.ENOSPC) {
					t.Errorf("told of %v", err)
				}
				told++
			}
			cfg.OnVisit = func(v Visit) {
				fetched[v.URL]++
				if v.Pages == 20 {
					full = d.refused.Load()
					d.room.Store(1 << 30)
				}
			}
			r := run(t, cfg)
			if r.Outcome != channel.Updated || r.Pages != 31 || len(slices.Compact(s.urls())) != 31 || len(s.pages()) != 31 {
				t.Errorf("report %+v, %d pages stored", r, len(s.pages()))
			}
			for u, n := range fetched {
				if n > 1 {
					t.Errorf("%s fetched %d times", u, n)
				}
			}
			if told == 0 || full == 0 || d.refused.Load() > full+1 || len(spoolFiles(t, cfg)) > 0 {
				t.Errorf("told %d times, refused %d times until there was room and %d after that, files %v", told, full, d.refused.Load()-full, spoolFiles(t, cfg))
			}
		})
	}
}

// TestFullDiskIsKilled: what the disk took before it was full is there after a kill, and what it took of the rest does not get in.
func TestFullDiskIsKilled(t *testing.T) {
	h := newHang(30, 10)
	cfg, s := task(t, h)
	shut := &slowSink{open: make(chan struct{})}
	cfg.Sink = shut
	d := &small{}
	d.room.Store(7000) // of some 11,000 bytes
	cfg.files = d
	// Where the crawl is slow the disk is full before the host hangs, and the crawl waits for room.
	ctx, cancel := context.WithCancel(t.Context())
	cfg.OnDisk = func(error) { cancel() }
	interruptedBy(ctx, t, cfg, h)
	if d.refused.Load() == 0 {
		t.Fatal("there was room")
	}
	fetched := 0
	cfg.Sink, cfg.files, cfg.OnVisit = s, nil, func(Visit) { fetched++ }
	h.answers.Store(0)
	r := run(t, cfg)
	if r.Outcome != channel.Updated || len(s.pages()) != 31 || len(slices.Compact(s.urls())) != 31 {
		t.Errorf("report %+v, %d pages", r, len(s.pages()))
	}
	if fetched < 32-9 || fetched > 32-4 { // and robots.txt
		t.Errorf("%d fetched", fetched)
	}
}

// TestDiskLoses checks that a crawl whose disk loses pages, or does not keep its list of URLs, goes back with
// everything else, and that the peer that resumes it fetches what is missing.
func TestDiskLoses(t *testing.T) {
	noLeaks(t)
	many := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { // more URLs than are kept in memory
		w.Header().Set("Content-Type", "text/html")
		switch r.URL.Path {
		case "/robots.txt":
			http.NotFound(w, r)
		case "/":
			for i := range 2 * inMemory {
				fmt.Fprintf(w, `<a href="/%d">x</a>`, i)
			}
		default:
			fmt.Fprint(w, r.URL.Path)
		}
	})
	for _, test := range []struct {
		name  string
		host  http.Handler
		pages int
		spoil func(cfg *Config, s *slowSink)
	}{
		{"pages", newHang(30, 0), 31, func(cfg *Config, s *slowSink) {
			cfg.Checkpoint = 1 // each page is a part
			cfg.OnVisit = func(v Visit) {
				if v.Pages != 12 {
					return
				}
				files := spoolFiles(t, *cfg)
				if len(files) < 10 {
					t.Errorf("files %v", files)
				}
				for _, f := range files[3:7] { // the first one is on its way
					if err := os.Truncate(f, 40); err != nil {
						t.Error(err)
					}
				}
				close(s.open)
			}
		}},
		{"list", many, 2*inMemory + 1, func(cfg *Config, s *slowSink) {
			close(s.open)
			d := &small{}
			d.room.Store(5000)
			cfg.files = d
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			cfg, _ := task(t, test.host)
			s := &slowSink{open: make(chan struct{})}
			cfg.Sink = s
			again := cfg
			test.spoil(&cfg, s)
			told := 0
			cfg.OnDisk = func(error) { told++ }
			r, err := Run(t.Context(), cfg)
			if err != nil || r.Outcome != channel.Stopped || told == 0 || len(spoolFiles(t, cfg)) > 0 {
				t.Fatalf("report %+v: %v; told %d times, files %v", r, err, told, spoolFiles(t, cfg))
			}
			t.Logf("%s; %d pages are stored", r.Reason, len(s.pages()))
			again.Resume = s.resume()
			if r := run(t, again); r.Outcome != channel.Updated {
				t.Errorf("report %+v", r)
			}
			if n := len(slices.Compact(s.urls())); n != test.pages || len(s.pages()) != test.pages {
				t.Errorf("%d pages stored, %d different ones", len(s.pages()), n)
			}
		})
	}
}
