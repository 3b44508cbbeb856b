package peer

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestDiskFails: an agent whose disk takes nothing tells so and is paused until it does again; what was fetched meanwhile is stored, and the crawl
// goes on.
func TestDiskFails(t *testing.T) {
	s := open(t, plain(40))
	dir, v, seen := t.TempDir(), newValve(1), &fetched{n: map[string]int{}}
	a, _ := s.agent(dir, func(c *Config) { v.on(c); seen.on(c) })
	id := s.place(0)
	s.until("robots.txt was read", v.blocked)
	spool := filepath.Join(dir, "spool")
	if err := os.RemoveAll(spool); err != nil {
		t.Fatal(err)
	}
	v.open()
	s.until("the agent tells of its disk", func() bool {
		st := a.Status()
		return strings.Contains(st.Hold, "the disk fails") && st.Mode == "open" // what its volunteer wants
	})
	s.until("a page is stored", s.look(id, func(c *stored) bool { return len(c.pages) > 0 }))
	if err := os.Mkdir(spool, 0o700); err != nil {
		t.Fatal(err)
	}
	s.until("a report", s.look(id, reported))
	s.until("the pause is over", func() bool { st := a.Status(); return st.Hold == "" && st.Mode == "open" })
	for u, n := range seen.all() {
		if n != 1 {
			t.Errorf("%s fetched %d times", u, n)
		}
	}
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	if c := s.store.at(id); len(c.pages) != s.world.Hosts()[0].Pages || c.released != 0 || c.reports[0].Pages != len(c.pages) {
		t.Errorf("%d pages stored, released %d times, report %+v", len(c.pages), c.released, c.reports[0])
	}
}

// TestFailedDiskSaysWhatToDo: whatever fails of the disk, the pause says since when, and what a person can do.
func TestFailedDiskSaysWhatToDo(t *testing.T) {
	since := time.Date(2026, 11, 25, 8, 5, 0, 0, time.Local)
	for err, want := range map[error]string{syscall.ENOSPC: "make room on that disk", syscall.EROFS: "mount it anew", syscall.EACCES: "let the user that runs the peer write there",
		syscall.EPERM: "let the user that runs the peer write there", syscall.EIO: "look at that disk", os.ErrClosed: "look at that disk"} {
		got := failureOf(&os.PathError{Op: "write", Path: "/d/spool/pages", Err: err}, since).Says()
		if !strings.HasPrefix(got, "the disk fails since 25 November 08:05: write /d/spool/pages") || !strings.Contains(got, want) || !strings.HasSuffix(got, ", and the peer goes on by itself") {
			t.Errorf("%v: %s", err, got)
		}
	}
}
