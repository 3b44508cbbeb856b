package archive

import (
	"context"
	"io"
	"sync"

	"github.com/dgraph-io/badger/v4"

	"shoal/internal/tables"
)

// state is the open database. Whoever still reads it while it is closed is waited for, and whoever comes later is told so: Badger ends the
// program over both.
type state struct {
	*badger.DB
	mu     sync.Mutex // of closed, and of users' first steps
	closed bool
	users  sync.WaitGroup
}

// use runs f while the database stays open.
func (s *state) use(f func() error) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return ErrClosed
	}
	s.users.Add(1)
	s.mu.Unlock()
	defer s.users.Done()
	return f()
}

// View reads within one snapshot.
func (s *state) View(f func(txn *badger.Txn) error) error {
	return s.use(func() error { return s.DB.View(f) })
}

// Backup writes all there is.
func (s *state) Backup(w io.Writer, since uint64) (version uint64, err error) {
	err = s.use(func() error {
		version, err = s.DB.Backup(w, since)
		return err
	})
	return version, err
}

// tidy gives back what the value log wastes.
func (s *state) tidy(ctx context.Context) {
	for ctx.Err() == nil && s.use(func() error { return s.RunValueLogGC(0.5) }) == nil {
	}
}

// check looks at every byte of its tables.
func (s *state) check() error {
	return s.use(func() error { return tables.CheckOpen(s.DB) })
}

// Close closes the database after its users.
func (s *state) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.users.Wait()
	return s.DB.Close()
}
