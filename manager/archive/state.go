package archive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"

	"shoal/channel/badgerdb/tables"
)

// state is the open database. Whoever still reads it while it is closed is waited for, and whoever comes later is told so: Badger ends the
// program over both.
type state struct {
	*badger.DB
	log    *tables.Log
	guard  *tables.Guarded // nil: none
	mu     sync.Mutex      // of closed, and of users' first steps
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

// Close closes the database after its users.
func (s *state) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.users.Wait()
	if s.guard != nil {
		s.guard.Release()
		defer s.guard.End()
	}
	return s.DB.Close()
}

// openDB opens the state. The settings keep it small in memory: see docs/decisions on the archive's storage. found is told when bytes have
// changed that a compaction would drop; nil: it is not looked at.
func openDB(dir string, memTable int64, found func(error)) (*state, error) {
	s := &state{log: new(tables.Log)}
	o := badger.DefaultOptions(dir)
	o.Logger = s.log
	o.SyncWrites = true // what was acknowledged survives power loss
	o.DetectConflicts = false
	o.MemTableSize = cmp.Or(memTable, 16<<20)
	o.NumMemtables = 2
	o.NumLevelZeroTables = 4
	o.NumLevelZeroTablesStall = 8
	o.NumCompactors = 2
	o.BlockCacheSize = 0
	o.Compression = 0
	o.BaseTableSize = 4 << 20
	o.TableSizeMultiplier = 1
	o.ValueThreshold = valueThreshold
	o.ValueLogFileSize = 64 << 20
	o.MetricsEnabled = false
	o.ChecksumVerificationMode, o.VerifyValueChecksum = options.OnBlockRead, true
	err := tables.Check(o)
	if err == nil {
		if found != nil {
			s.guard = tables.Guard(o, found)
		}
		if s.DB, err = badger.Open(o); err != nil && s.guard != nil {
			s.guard.End()
		}
	}
	if err != nil && isLocked(err) {
		return nil, fmt.Errorf("%w: stop it first: %w", ErrLocked, err)
	}
	if err != nil && !errors.Is(err, os.ErrPermission) && !errors.Is(err, syscall.EROFS) && !errors.Is(err, syscall.ENOSPC) {
		return nil, fmt.Errorf("%w: %w: %s", ErrState, err, rebuildHint)
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}
