// Package badgerledger keeps the ledger of an embedded archive in Badger, in a folder. It does what package ledgertest asks of every ledger
// store; it is not for what the records mean, beside the archive's own one.
//
// Invariants: a commit is synced before its writes are answered, and a failed sync is an error. Bytes that the disk has changed are found before
// a compaction drops them (package tables). Close waits for readers, because Badger ends the program if one reads on.
package badgerledger

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"

	"shoal/channel/badgerdb/tables"
	pb "shoal/manager/archive/archivepb"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/schema"
)

// Config of a store.
type Config struct {
	Dir string // made if it is missing. No default
	// Free is how many bytes may still be written. Badger closes through mapped memory, where a full disk ends the process: with too little
	// room the database is left as after a crash, which loses nothing. Nil: it is not looked at.
	Free func() (int64, error)
	// Found is told when bytes have changed that a compaction would drop. Nil: it is not looked at.
	Found func(error)
	// MemTable is the bytes of a memory table. 0: 16 MiB.
	MemTable int64
	// Clock numbers the feed of a new archive. Nil: time.Now.
	Clock func() time.Time
	// Genesis is how a new archive begins. Nil: with a random ID, and a feed that is numbered by the clock.
	Genesis *Genesis
}

// Genesis is what all copies of one archive begin with.
type Genesis struct {
	ID   [8]byte
	Next uint64 // number of the feed's first entry
}

// NewGenesis makes one that no other archive has.
func NewGenesis(now time.Time) (g Genesis, err error) {
	_, err = rand.Read(g.ID[:])
	g.Next = FirstNumber(now)
	return g, err
}

// closeRoom is what memory tables and what comes with them take on the disk.
const closeRoom = 128 << 20

// openRoom is what opening may take on the disk.
const openRoom = 16 << 20

// valueThreshold is the size from which values are kept apart from their keys. A page's state and its entry in the feed, each below it, fit for a
// chunk's pages into one transaction.
const valueThreshold = 256

// Store is an open database.
type Store struct {
	cfg   Config
	db    *badger.DB
	said  *tables.Log
	guard *tables.Guarded // nil: none

	mu     sync.Mutex // of closed, of users' first steps, and of head
	closed bool
	users  sync.WaitGroup
	head   pb.State // as it was last committed; written by Commit and Apply alone
	partly partly   // owned by Apply
}

var _ ledger.Store = (*Store)(nil)

// Open opens the database, or makes one. The settings keep it small in memory: see docs/decisions on the archive's storage.
func Open(cfg Config) (*Store, error) {
	s, err := openTables(cfg)
	if err != nil {
		return nil, err
	}
	if err := s.readHead(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func openTables(cfg Config) (*Store, error) {
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	if err := os.MkdirAll(cfg.Dir, 0o750); err != nil {
		return nil, err
	}
	if cfg.Free != nil { // opening writes through mapped memory, and on a full disk that ends the process
		if free, err := cfg.Free(); err == nil && free < openRoom {
			return nil, fmt.Errorf("%w: %s has %d MiB left, and opening the database takes up to %d; nothing is lost, make room first", ledger.ErrFull, cfg.Dir, free>>20, int64(openRoom)>>20)
		}
	}
	s := &Store{cfg: cfg, said: new(tables.Log)}
	o := badger.DefaultOptions(cfg.Dir)
	o.Logger = s.said
	o.SyncWrites = true // what was acknowledged survives power loss
	o.DetectConflicts = false
	o.MemTableSize = cmp.Or(cfg.MemTable, 16<<20)
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
	if err := s.open(o); err != nil {
		return nil, explain(err)
	}
	return s, nil
}

func (s *Store) open(o badger.Options) (err error) {
	if err := tables.Writable(o.Dir); err != nil {
		return err
	}
	if err := tables.Check(o); err != nil {
		return err
	}
	if s.cfg.Found != nil {
		s.guard = tables.Guard(o, s.cfg.Found)
	}
	if s.db, err = badger.Open(o); err != nil && s.guard != nil {
		s.guard.End()
	}
	return err
}

// explain says what an error of Open means for the archive.
func explain(err error) error {
	err = tables.System(err)
	switch {
	case errors.Is(err, tables.ErrInUse), strings.Contains(err.Error(), "Cannot acquire directory lock"):
		return fmt.Errorf("%w: stop it first: %w", ledger.ErrLocked, err)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("%w: make room: %w", ledger.ErrFull, err)
	case errors.Is(err, os.ErrPermission), errors.Is(err, syscall.EROFS):
		return err
	default:
		return fmt.Errorf("%w: %w: %s", ledger.ErrState, err, ledger.RebuildHint)
	}
}

// readHead reads the archive's own record, or makes one.
func (s *Store) readHead() error {
	found := false
	err := s.View(func(snap ledger.Snapshot) (err error) {
		found, err = ledger.Get(snap, []byte{schema.State}, &s.head)
		return err
	})
	if err != nil {
		return err
	}
	if found && s.head.Schema != schema.Version {
		return fmt.Errorf("%w: schema %d, this program knows %d", ledger.ErrSchema, s.head.Schema, schema.Version)
	}
	if len(s.head.Id) > 0 {
		return nil
	}
	g := s.cfg.Genesis
	if g == nil {
		made, err := NewGenesis(s.cfg.Clock())
		if err != nil {
			return err
		}
		g = &made
	}
	s.head.Id, s.head.Schema, s.head.NextSeq = g.ID[:], schema.Version, g.Next
	_, err = s.Commit([]ledger.Write{{}})
	return err
}

// FirstNumber is where the feed of a new archive begins, and that of one that was restored goes on. The manager ignores entries of a channel that are numbered below the last, so the numbers
// must be above those of the archive that this one replaces, which told up to a million entries a second.
func FirstNumber(now time.Time) uint64 { return uint64(max(now.Unix(), 1)) << 20 }

// Head implements ledger.Store.
func (s *Store) Head() ledger.Head {
	s.mu.Lock()
	defer s.mu.Unlock()
	return ledger.Head{ID: [8]byte(schema.Padded(s.head.Id)), Segment: s.head.File, Totals: ledger.Totals{
		Pages: s.head.Pages, Unchanged: s.head.Unchanged, Chunks: s.head.Chunks, Bytes: s.head.Bytes, Events: s.head.Events,
	}}
}

// Next is the number that the next entry of a feed gets.
func (s *Store) Next() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.head.NextSeq
}

var _ ledger.Syncer = (*Store)(nil) // else its feeds are read to their ends

// Synced implements ledger.Syncer. What Badger could not sync is in its snapshots all the same, until the database is opened again. Its numbers are given to other entries then.
func (s *Store) Synced() uint64 { return s.Next() }

// use runs f while the database stays open.
func (s *Store) use(f func() error) error {
	if err := s.begin(); err != nil {
		return err
	}
	defer s.users.Done()
	return f()
}

// begin counts a user, until users.Done, or says that the database is closed.
func (s *Store) begin() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ledger.ErrClosed
	}
	s.users.Add(1)
	return nil
}

// View implements ledger.Store.
func (s *Store) View(f func(ledger.Snapshot) error) error {
	if err := s.begin(); err != nil {
		return err
	}
	defer s.users.Done()
	txn := s.db.NewTransaction(false)
	defer txn.Discard()
	return f(snapshot{txn})
}

// snapshot is a transaction that only reads.
type snapshot struct{ txn *badger.Txn }

func (s snapshot) Get(key []byte, read func(value []byte) error) (bool, error) {
	item, err := s.txn.Get(key)
	if errors.Is(err, badger.ErrKeyNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read %q: %w", key[0], err)
	}
	return true, item.Value(read)
}

func (s snapshot) Scan(prefix, start []byte, values bool, do func(key, value []byte) (bool, error)) error {
	o := badger.DefaultIteratorOptions
	o.Prefix, o.PrefetchValues, o.PrefetchSize = prefix, values, 64
	if start == nil {
		start = prefix
	}
	return scan(s.txn, o, start, values, do)
}

func (s snapshot) ScanBack(prefix, start []byte, do func(key, value []byte) (bool, error)) error {
	o := badger.DefaultIteratorOptions
	o.Prefix, o.PrefetchValues, o.Reverse = prefix, false, true
	return scan(s.txn, o, start, true, do)
}

func scan(txn *badger.Txn, o badger.IteratorOptions, start []byte, values bool, do func(key, value []byte) (bool, error)) error {
	it := txn.NewIterator(o)
	defer it.Close()
	for it.Seek(start); it.ValidForPrefix(o.Prefix); it.Next() {
		item := it.Item()
		more, err := false, error(nil)
		if values {
			err = item.Value(func(v []byte) (err error) {
				more, err = do(item.Key(), v)
				return err
			})
		} else {
			more, err = do(item.Key(), nil)
		}
		if err != nil || !more {
			return err
		}
	}
	return nil
}

// Check implements ledger.Store.
func (s *Store) Check(ctx context.Context, rate int64) error {
	err := s.use(func() error { return tables.CheckOpen(ctx, s.db, rate) })
	if errors.Is(err, tables.ErrChanged) {
		return damaged{err}
	}
	return err
}

// damaged is a ledger.ErrDamaged that says which bytes are meant, and nothing else.
type damaged struct{ error }

func (d damaged) Is(target error) bool { return target == ledger.ErrDamaged }
func (d damaged) Unwrap() error        { return d.error }

// Tidy implements ledger.Store: it cleans the value log. Cleaning a file drops what cannot be read of it, so Check comes first.
func (s *Store) Tidy(ctx context.Context) {
	for ctx.Err() == nil && s.use(func() error { return s.db.RunValueLogGC(0.5) }) == nil {
	}
}

// Backup implements ledger.Store.
func (s *Store) Backup(w io.Writer) error {
	return s.use(func() error {
		_, err := s.db.Backup(w, 0)
		return err
	})
}

// ErrEmpty says that what Restore was given holds no archive.
var ErrEmpty = errors.New("archive: no archive in this copy")

// Restore makes a new database in dir from what Backup wrote. Nothing may be told under a number that was used after the backup, so the feed
// jumps ahead; see FirstNumber.
func Restore(dir string, r io.Reader, now time.Time) error {
	s, err := openTables(Config{Dir: dir})
	if err != nil {
		return err
	}
	return errors.Join(s.restore(r, now), s.Close())
}

func (s *Store) restore(r io.Reader, now time.Time) error {
	if err := s.db.Load(r, 16); err != nil {
		return err
	}
	return s.db.Update(func(txn *badger.Txn) error {
		var head pb.State
		if ok, err := ledger.Get(snapshot{txn}, []byte{schema.State}, &head); err != nil || !ok {
			return fmt.Errorf("%w: %w", ErrEmpty, errors.Join(err))
		}
		head.NextSeq = max(head.NextSeq+1, FirstNumber(now))
		v, err := schema.Encode(&head)
		if err != nil {
			return err
		}
		if err := txn.Delete(positionKey); err != nil { // it follows no log
			return err
		}
		return txn.Set([]byte{schema.State}, v)
	})
}

// Release implements ledger.Store.
func (s *Store) Release() {
	if s.guard != nil {
		s.guard.Release()
	}
}

// Close implements ledger.Store.
func (s *Store) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.users.Wait()
	// All that counts is in the write-ahead log, as after a crash.
	if s.cfg.Free != nil {
		if free, err := s.cfg.Free(); err == nil && free < closeRoom {
			return fmt.Errorf("%w: %s has %d MiB left; nothing is lost, but make room before the next start", ledger.ErrFull, s.cfg.Dir, free>>20)
		}
	}
	if err := probe(s.cfg.Dir); err != nil { // Badger would try for ever to write its tables
		return fmt.Errorf("close archive: %w; nothing is lost", err)
	}
	if s.guard != nil {
		s.guard.Release()
		defer s.guard.End()
	}
	defer tables.Released(s.cfg.Dir)
	return s.db.Close()
}

// probe finds out whether a folder can be written.
func probe(dir string) error {
	name := filepath.Join(dir, ".writable")
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		return err
	}
	return os.Remove(name)
}
