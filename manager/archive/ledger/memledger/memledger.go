// Package memledger keeps the ledger of an archive in memory, for tests of what stands on a ledger store: a commit needs no disk, and can be
// made to fail at any of its steps. Its records are gone when the process ends.
package memledger

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"sort"
	"sync"

	"shoal/manager/archive/ledger"
)

// MaxChanges bounds the changes and entries of one write.
const MaxChanges = 20_000

// Store is a store in memory. What it holds stays when it is closed, for Reopen.
type Store struct {
	// Fail is asked before a commit, with how many writes it has; an error is the commit's, of which then nothing is kept. Nil: none fails.
	Fail func(writes int) error

	mu      sync.Mutex
	closed  bool
	records []ledger.Change // in order of their keys; replaced, never changed
	next    uint64
	head    ledger.Head
}

var _ ledger.Store = (*Store)(nil)

// New makes an empty store.
func New() *Store {
	return &Store{next: 1, head: ledger.Head{ID: [8]byte{'m', 'e', 'm', 'o', 'r', 'y'}}}
}

// Head implements ledger.Store.
func (s *Store) Head() ledger.Head {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.head
}

// View implements ledger.Store.
func (s *Store) View(f func(ledger.Snapshot) error) error {
	s.mu.Lock()
	now, closed := snapshot(s.records), s.closed
	s.mu.Unlock()
	if closed {
		return ledger.ErrClosed
	}
	return f(now)
}

// snapshot is records in order of their keys.
type snapshot []ledger.Change

// find is where a key is, or would be.
func (s snapshot) find(key []byte) (int, bool) {
	return slices.BinarySearchFunc(s, key, func(c ledger.Change, key []byte) int { return bytes.Compare(c.Key, key) })
}

func (s snapshot) Get(key []byte, read func(value []byte) error) (bool, error) {
	n, ok := s.find(key)
	if !ok {
		return false, nil
	}
	return true, read(s[n].Value)
}

func (s snapshot) Scan(prefix, start []byte, values bool, do func(key, value []byte) (bool, error)) error {
	if start == nil {
		start = prefix
	}
	n, _ := s.find(start)
	for ; n < len(s) && bytes.HasPrefix(s[n].Key, prefix); n++ {
		v := s[n].Value
		if !values {
			v = nil
		}
		if more, err := do(s[n].Key, v); err != nil || !more {
			return err
		}
	}
	return nil
}

func (s snapshot) ScanBack(prefix, start []byte, do func(key, value []byte) (bool, error)) error {
	n := sort.Search(len(s), func(n int) bool { return bytes.Compare(s[n].Key, start) > 0 }) - 1
	for ; n >= 0 && bytes.HasPrefix(s[n].Key, prefix); n-- {
		if more, err := do(s[n].Key, s[n].Value); err != nil || !more {
			return err
		}
	}
	return nil
}

// Commit implements ledger.Store.
func (s *Store) Commit(writes []ledger.Write) (refused []error, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ledger.ErrClosed
	}
	if s.Fail != nil {
		if err := s.Fail(len(writes)); err != nil {
			return nil, err
		}
	}
	refused = make([]error, len(writes))
	for n := range writes {
		w := &writes[n]
		if len(w.Changes)+len(w.Entries) > MaxChanges {
			refused[n] = fmt.Errorf("%w: %d changes", ledger.ErrTooLarge, len(w.Changes)+len(w.Entries))
			continue
		}
		if !s.holds(w.If) || !s.holds(w.Also) {
			refused[n] = ledger.ErrConflict
			continue
		}
		s.apply(slices.Concat(w.Early, w.Changes))
		var entries []ledger.Change
		s.next = max(s.next, w.Number)
		for _, e := range w.Entries {
			entries = append(entries, ledger.Change{Key: binary.BigEndian.AppendUint64([]byte{e.Feed}, s.next), Value: e.Value})
			s.next++
		}
		s.apply(entries)
		t, a := &s.head.Totals, w.Add
		t.Pages, t.Unchanged, t.Chunks, t.Bytes, t.Events = t.Pages+a.Pages, t.Unchanged+a.Unchanged, t.Chunks+a.Chunks, t.Bytes+a.Bytes, t.Events+a.Events
		s.head.Segment = max(s.head.Segment, w.Segment)
	}
	return refused, nil
}

func (s *Store) holds(c ledger.Change) bool {
	if c.Key == nil {
		return true
	}
	n, ok := snapshot(s.records).find(c.Key)
	return ok == (c.Value != nil) && (!ok || bytes.Equal(s.records[n].Value, c.Value))
}

// apply makes changes, of which the last one of a key counts.
func (s *Store) apply(changes []ledger.Change) {
	if len(changes) == 0 {
		return
	}
	latest := map[string][]byte{}
	for _, c := range changes {
		latest[string(c.Key)] = c.Value
	}
	out := make([]ledger.Change, 0, len(s.records)+len(latest))
	for _, r := range s.records {
		if _, changed := latest[string(r.Key)]; !changed {
			out = append(out, r)
		}
	}
	for k, v := range latest {
		if v != nil {
			out = append(out, ledger.Change{Key: []byte(k), Value: bytes.Clone(v)})
		}
	}
	slices.SortFunc(out, func(a, b ledger.Change) int { return bytes.Compare(a.Key, b.Key) })
	s.records = out
}

// Check implements ledger.Store: memory is what was written.
func (s *Store) Check(ctx context.Context, _ int64) error { return ctx.Err() }

// Tidy implements ledger.Store.
func (s *Store) Tidy(context.Context) {}

// Backup implements ledger.Store: a line for each record.
func (s *Store) Backup(w io.Writer) error {
	return s.View(func(now ledger.Snapshot) error {
		return now.Scan(nil, nil, true, func(key, value []byte) (bool, error) {
			_, err := fmt.Fprintf(w, "%x %x\n", key, value)
			return true, err
		})
	})
}

// Release implements ledger.Store.
func (s *Store) Release() {}

// Close implements ledger.Store.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}

// Reopen makes a closed store one that can be used, as a restart does.
func (s *Store) Reopen() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = false
}
