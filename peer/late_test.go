package peer

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"shoal/peer/queue"
)

// setAhead sets by how much the archive's clock is ahead of the peers'.
func (s *swarm) setAhead(d time.Duration) {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	s.store.ahead = d
}

// files counts the tasks in an agent's folder.
func files(dir string) int {
	names, _ := filepath.Glob(filepath.Join(dir, "tasks", "*"))
	return len(names)
}

// TestLateByOwnClock has tasks wait that are late by the clock of the peer, which is ten minutes ahead of the archive's. They are given back, as nothing else tells the
// manager that nobody crawls them.
func TestLateByOwnClock(t *testing.T) {
	s := open(t, plain(5))
	dir := t.TempDir()
	a, _ := s.agent(dir, nil)
	s.setAhead(-10 * time.Minute)
	signed, h := s.deposit(0)
	it := itemOf(signed, h)
	if err := os.WriteFile(a.tasks.file(it.Key, false), signed.Marshal(), 0o600); err != nil {
		t.Fatal(err)
	}
	a.tasks.mu.Lock()
	err := a.tasks.q.Force(it) // as if it had been taken before the clock went forward
	a.tasks.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	a.tasks.poke()
	s.until("its file is gone", func() bool { return files(dir) == 0 })
	if !s.look(h.Channel, func(c *stored) bool { return c.released == 1 && len(c.pages) == 0 })() {
		t.Error("the task was not given back")
	}
	if c := a.Status().Counters; c.GivenBack != 1 || c.Dropped != 0 {
		t.Errorf("%+v", c)
	}
}

// TestLateAtTheStart starts an agent whose clock is ahead, while the archive is away, with two tasks of an earlier run: one is late by its own clock only, one by the
// archive's as well.
func TestLateAtTheStart(t *testing.T) {
	s := open(t, plain(5))
	dir := t.TempDir()
	s.setAhead(-10 * time.Minute)
	signed, h := s.deposit(0)
	s.setAhead(-time.Hour)
	old, oldHeader := s.deposit(1)
	s.setAhead(-10 * time.Minute)
	if err := os.MkdirAll(filepath.Join(dir, "tasks"), 0o700); err != nil {
		t.Fatal(err)
	}
	tasks := newTasks(queue.Default(), filepath.Join(dir, "tasks"), nil, nil)
	for path, b := range map[string][]byte{tasks.file(keyOf(h), false): signed.Marshal(), tasks.file(keyOf(oldHeader), false): old.Marshal()} {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.setAway(true)
	_, leave := s.agent(dir, nil)
	if err := leave(); err != nil {
		t.Fatal(err)
	}
	if n := files(dir); n != 2 {
		t.Errorf("%d of 2 files are there after a run while the archive was away", n)
	}
	a, _ := s.agent(dir, nil)
	s.setAway(false)
	s.until("their files are gone", func() bool { return files(dir) == 0 })
	if !s.look(h.Channel, func(c *stored) bool { return c.released == 1 && len(c.pages) == 0 })() {
		t.Error("the task was not given back")
	}
	if !s.look(oldHeader.Channel, func(c *stored) bool { return c.released == 0 && len(c.pages) == 0 })() {
		t.Error("the task that was too late was claimed")
	}
	if c := a.Status().Counters; c.GivenBack != 1 || c.Dropped != 1 {
		t.Errorf("%+v", c)
	}
}
