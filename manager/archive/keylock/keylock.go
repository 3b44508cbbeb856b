// Package keylock gives each key a lock of its own, with a value that lives as long as the lock is held, waited for or pinned. It does not bound
// the number of pinned values; the caller does.
package keylock

import "sync"

// Locks is a lock for each key. The zero value is ready. Its methods may be called by several goroutines.
type Locks[K comparable, V any] struct {
	mu sync.Mutex
	m  map[K]*Held[V]
}

// Held is a key's lock. Its holder owns Value.
type Held[V any] struct {
	mu     sync.Mutex
	refs   int  // holders and waiters; guarded by Locks.mu
	pinned bool // likewise
	Value  V
}

// Lock waits for the key.
func (l *Locks[K, V]) Lock(key K) *Held[V] {
	l.mu.Lock()
	if l.m == nil {
		l.m = make(map[K]*Held[V])
	}
	h := l.m[key]
	if h == nil {
		h = new(Held[V])
		l.m[key] = h
	}
	h.refs++
	l.mu.Unlock()
	h.mu.Lock()
	return h
}

// Unlock gives the key back. A pinned value stays in memory; any other is dropped with its last waiter.
func (l *Locks[K, V]) Unlock(key K, h *Held[V], pin bool) {
	h.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	h.refs--
	h.pinned = pin
	if h.refs == 0 && !pin {
		delete(l.m, key)
	}
}

// Pinned counts the values that stay in memory.
func (l *Locks[K, V]) Pinned() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range l.m {
		if h.pinned {
			n++
		}
	}
	return n
}
