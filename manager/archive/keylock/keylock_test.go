package keylock

import (
	"sync"
	"testing"
)

// A key has one holder at a time, and its value lives while it is held, waited for or pinned.
func TestLocks(t *testing.T) {
	var l Locks[string, int]
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			h := l.Lock("a")
			h.Value++
			l.Unlock("a", h, true)
		})
	}
	wg.Wait()
	h := l.Lock("a")
	if h.Value != 100 || l.Pinned() != 1 {
		t.Errorf("value %d, %d pinned", h.Value, l.Pinned())
	}
	other := l.Lock("b") // another key does not wait
	l.Unlock("b", other, false)
	l.Unlock("a", h, false)
	if h = l.Lock("a"); h.Value != 0 || l.Pinned() != 0 {
		t.Errorf("a value that is not pinned lives on: %d, %d pinned", h.Value, l.Pinned())
	}
	l.Unlock("a", h, false)
}
