package crawl

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"shoal/channel"
)

// hang is a host of so many pages, each of which links to all, that answers no more after some.
type hang struct {
	pages          int
	answers, asked atomic.Int64
}

func newHang(pages, answers int) *hang {
	h := &hang{pages: pages}
	h.answers.Store(int64(answers))
	return h
}

func (h *hang) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/robots.txt" {
		http.NotFound(w, r)
		return
	}
	if n := h.answers.Load(); n > 0 && h.asked.Add(1) > n {
		<-r.Context().Done()
		return
	}
	w.Header().Set("Content-Type", "text/html")
	for i := range h.pages {
		fmt.Fprintf(w, `<a href="/%d">%s</a>`, i, r.URL.Path)
	}
	fmt.Fprintf(w, `<a href="https://elsewhere.example%s">elsewhere</a>`, r.URL.Path)
}

// interrupted crawls until the host hangs, and is killed there. What was fetched and not put is in the spool folder.
func interrupted(t *testing.T, cfg Config, h *hang) {
	t.Helper()
	interruptedBy(t.Context(), t, cfg, h)
}

// interruptedBy is interrupted, which the end of a context does as well.
func interruptedBy(ctx context.Context, t *testing.T, cfg Config, h *hang) {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cfg.OnVisit = func(v Visit) {
		if int64(v.Pages) == h.answers.Load() {
			cancel()
		}
	}
	if _, err := Run(ctx, cfg); err == nil {
		t.Fatal("the crawl came to its end")
	}
}

func spoolFiles(t *testing.T, cfg Config) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(cfg.Spool, "*"))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestSpoolGoesOn(t *testing.T) {
	noLeaks(t)
	h := newHang(30, 10)
	cfg, s := task(t, h)
	interrupted(t, cfg, h)
	if len(s.chunks) != 0 || len(spoolFiles(t, cfg)) != 1 {
		t.Fatalf("%d chunks, files %v", len(s.chunks), spoolFiles(t, cfg))
	}
	// The end of the file was being written: its last page is fetched again.
	name := spoolFiles(t, cfg)[0]
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, b[:len(b)-3], 0o600); err != nil {
		t.Fatal(err)
	}
	h.answers.Store(0)
	fetched := 0
	cfg.OnVisit = func(v Visit) { fetched++ }
	r := run(t, cfg)
	if r.Outcome != channel.Updated || r.Pages != 31 || r.New != 31 {
		t.Errorf("report %+v", r)
	}
	if n := len(r.Inter); n != 31 { // also what the first run had found
		t.Errorf("%d links to another site, of 31: %q", n, r.Inter)
	}
	urls := s.urls()
	if n := len(slices.Compact(urls)); n != 31 || len(s.pages()) != 31 {
		t.Errorf("%d pages, %d different ones", len(s.pages()), n)
	}
	if fetched != 31-9+1 { // and robots.txt
		t.Errorf("%d fetched", fetched)
	}
	if files := spoolFiles(t, cfg); len(files) > 0 {
		t.Errorf("files remain: %v", files)
	}
}

// TestStaleSpoolStaysOut: what the archive has, what another generation left, and what is no spool at all never get in.
func TestStaleSpoolStaysOut(t *testing.T) {
	h := newHang(30, 10)
	cfg, s := task(t, h)
	interrupted(t, cfg, h)
	name := spoolFiles(t, cfg)[0]
	left, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	h.answers.Store(0)
	t.Run("archived", func(t *testing.T) { // the archive had stored it, and the answer was lost
		again := cfg
		raw, err := (&part{path: name, written: -1, bytes: records(left, func([]byte) {})}).read(nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Put(t.Context(), raw, false); err != nil {
			t.Fatal(err)
		}
		again.Resume = s.resume()
		run(t, again)
		if n := len(s.pages()); n != 31 {
			t.Errorf("%d pages", n)
		}
	})
	t.Run("generation", func(t *testing.T) {
		again, fresh := cfg, &sink{}
		again.Sink, again.Header.Gen = fresh, 2
		if err := os.WriteFile(name, left, 0o600); err != nil {
			t.Fatal(err)
		}
		fetched := 0
		again.OnVisit = func(Visit) { fetched++ }
		run(t, again)
		if fetched != 32 || len(fresh.pages()) != 31 || len(spoolFiles(t, cfg)) != 0 {
			t.Errorf("%d fetched, %d pages, files %v", fetched, len(fresh.pages()), spoolFiles(t, cfg))
		}
	})
	t.Run("rubbish", func(t *testing.T) {
		again, fresh := cfg, &sink{}
		again.Sink = fresh
		for i, b := range [][]byte{nil, []byte("rubbish"), append([]byte(partMagic), 255, 255, 255, 255, 0, 0, 0, 0, 1)} {
			if err := os.WriteFile(fmt.Sprintf("%s%d", name[:len(name)-1], i), b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		run(t, again)
		if len(fresh.pages()) != 31 || len(spoolFiles(t, cfg)) != 0 {
			t.Errorf("%d pages, files %v", len(fresh.pages()), spoolFiles(t, cfg))
		}
	})
}

// slowSink stores nothing until it is opened.
type slowSink struct {
	sink
	open chan struct{}
}

func (s *slowSink) Put(ctx context.Context, b []byte, last bool) error {
	select {
	case <-s.open:
	case <-ctx.Done():
		return ctx.Err()
	}
	return s.sink.Put(ctx, b, last)
}

// TestSlowArchive sees the crawl go on while nothing is stored, until the disk quota is reached, and everything stored in the end.
func TestSlowArchive(t *testing.T) {
	noLeaks(t)
	page := make([]byte, 256<<10)
	for i := range page {
		page[i] = "abcdefgh "[i%9]
	}
	cfg, _ := task(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/robots.txt" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		for i := range 30 {
			fmt.Fprintf(w, `<a href="/%d">x</a>`, i)
		}
		fmt.Fprint(w, r.URL.Path)
		w.Write(page)
	}))
	s := &slowSink{open: make(chan struct{})}
	cfg.Sink, cfg.Disk = s, 5*3<<20 // 3 MiB for pages
	visits := make(chan Visit, 100)
	cfg.OnVisit = func(v Visit) { visits <- v }
	done := make(chan error, 1)
	go func() { _, err := Run(t.Context(), cfg); done <- err }()
	for n := 0; n < 10; { // 12 pages are more than 3 MiB
		n = (<-visits).Pages
	}
	most := int64(0)
	for _, f := range spoolFiles(t, cfg) {
		if st, err := os.Stat(f); err == nil {
			most += st.Size()
		}
	}
	if most > 5<<20 {
		t.Errorf("%d bytes on disk", most)
	}
	close(s.open)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if n := len(s.pages()); n != 31 || len(spoolFiles(t, cfg)) > 0 {
		t.Errorf("%d pages, files %v", n, spoolFiles(t, cfg))
	}
}

func FuzzRecords(f *testing.F) {
	f.Add([]byte(partMagic))
	f.Add([]byte(partMagic + "\x00\x00\x00\x01\x00\x00\x00\x00a"))
	f.Fuzz(func(t *testing.T, b []byte) {
		n := int64(0)
		if valid := records(b, func(r []byte) { n += recordHead + int64(len(r)) }); valid != n || n > int64(len(b)) {
			t.Errorf("%d bytes of records, said to be %d", n, valid)
		}
	})
}

// TestPageAfterAPauseGoesToDisk has a page come when all before it are on disk: the keeper of checkpoints is told of it. It slept until the next checkpoint, and a page that no other one followed was
// in memory alone until then.
func TestPageAfterAPauseGoesToDisk(t *testing.T) {
	s := newSpool(&Config{Spool: t.TempDir(), Checkpoint: time.Hour}, func([]byte, bool) error { return nil })
	defer s.close(false)
	add := func() {
		t.Helper()
		if err := s.page(&channel.Page{URL: "http://a.example/", Fetched: time.Now(), Status: 200}); err != nil {
			t.Fatal(err)
		}
		select {
		case <-s.news:
		default:
			t.Fatal("a page lies in memory, and its keeper was not told")
		}
	}
	add()
	s.mu.Lock()
	s.open.flush(time.Now())
	s.mu.Unlock()
	if wait := s.tend(); wait < time.Minute {
		t.Fatalf("with nothing in memory the keeper looks again after %v", wait)
	}
	add()
	if wait := s.tend(); wait > flushEvery && len(s.open.buf) > 0 {
		t.Errorf("with a page in memory the keeper looks again after %v", wait)
	}
}
