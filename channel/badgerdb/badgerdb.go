// Package badgerdb is the channel database of a single manager: Badger, in a folder. It keeps channels, Web hosts,
// the hosts that crawls discovered, the position in each archive's feed, and the strategy's state. Pages live
// elsewhere (manager/archive), and all decisions are made elsewhere. channel/storetest specifies what it does.
//
// Invariants:
//   - An acknowledged write survives kill -9 and power loss. Every commit is synced before its caller returns.
//     Concurrent writers share a commit.
//   - A write happens whole or not at all, an import of any size included.
//   - After a failed commit or sync the database writes nothing more until it is opened again, because the state
//     of the disk is unknown. Reading goes on.
//   - Every stored value begins with a version byte. Open refuses a folder with a newer schema.
//
// The manager reads some fields of every channel when it starts, and the rest only of single channels. These few
// fields have records of their own, small enough to lie in the index rather than in the value log. Times are kept to
// the millisecond.
package badgerdb

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"

	"shoal/channel/badgerdb/tables"
	"shoal/channel/groupcommit"
)

// Errors of Open and of writes, beside those of package channel.
var (
	ErrLocked       = errors.New("badgerdb: data folder is in use")
	ErrUnreadable   = errors.New("badgerdb: data folder cannot be used")
	ErrDamaged      = errors.New("badgerdb: channel database is damaged")
	ErrNewer        = errors.New("badgerdb: channel database has a newer version")
	ErrOtherNetwork = errors.New("badgerdb: channel database belongs to another network")
	ErrDiskFull     = errors.New("badgerdb: disk is nearly full")
	ErrBroken       = errors.New("badgerdb: an earlier write failed")
	ErrClosed       = errors.New("badgerdb: closed")
	// ErrImporting is returned for an import that names a site of another unfinished import. That import may still
	// fail.
	ErrImporting = errors.New("badgerdb: another import, still running or being undone, names this site too: try again when it has ended")
	ErrTooLarge  = errors.New("badgerdb: too much for one write")
)

// Config of a database.
type Config struct {
	// Dir is the folder. Open creates it if it is missing.
	Dir string
	// Network is the network's root public key. A folder belongs to the network that opened it first. Zero means any
	// network.
	Network [32]byte
	// MinFree is the number of bytes that must be free on the disk before a write, because Badger does not survive a
	// full disk. Default 128 MiB; zero: no check.
	MinFree int64
	// ScrubEvery is the pause between two scrubs. A scrub reads the whole database to find bytes that the disk has
	// lost, then searches the value log for space to free. Default 5 minutes; zero: never.
	ScrubEvery time.Duration
	// ScrubRate is the number of bytes that a scrub reads per second. Default 8 MiB; zero: as many as possible.
	ScrubRate int64
	// Log receives Badger's messages and the failures of background work. Nil: nothing is logged.
	Log *slog.Logger

	memTable int64 // for tests: bytes of one of the memory tables; 0: 8 MiB
}

// Default returns the configuration for a folder.
func Default(dir string) Config {
	return Config{Dir: dir, MinFree: 128 << 20, ScrubEvery: 5 * time.Minute, ScrubRate: 8 << 20}
}

// Validate reports the first bad field.
func (c Config) Validate() error {
	switch {
	case c.Dir == "":
		return errors.New("badgerdb: no folder given")
	case c.MinFree < 0 || c.ScrubEvery < 0 || c.ScrubRate < 0:
		return fmt.Errorf("badgerdb: negative MinFree %d, ScrubEvery %v or ScrubRate %d", c.MinFree, c.ScrubEvery, c.ScrubRate)
	}
	return nil
}

// DB is an open channel database. Several goroutines may call its methods.
type DB struct {
	cfg Config
	b   *badger.DB
	log *slog.Logger

	commits *groupcommit.Pipeline[*op]
	stop    chan struct{}  // closed by Close
	done    sync.WaitGroup // garbage collection

	mu      sync.RWMutex // of closed
	closed  bool
	readers sync.WaitGroup

	blobs sync.Mutex // held while a state is written

	stagedMu sync.RWMutex
	staged   ranges // ids of channels being imported: stored, not yet there

	broken  error                 // owned by the committer
	said    *tables.Log           // by Badger
	damaged atomic.Pointer[error] // what Scrub or a compaction found
	guard   *tables.Guarded

	fail func(stage string) error // for tests: fails a commit or a sync
}

// Open opens the database in cfg.Dir, or creates it.
func Open(ctx context.Context, cfg Config) (*DB, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	log := cfg.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, explain(cfg.Dir, err)
	}
	// Opening writes through mapped memory too.
	if free, ok := freeBytes(cfg.Dir); ok && free < openRoom {
		return nil, fmt.Errorf("%w: %s has %d MiB left, and opening the database takes up to %d; nothing is lost, make room first", ErrDiskFull, cfg.Dir, free>>20, int64(openRoom)>>20)
	}
	said := &tables.Log{To: log}
	opt := badgerOptions(cfg.Dir, said)
	opt.MemTableSize = cmp.Or(cfg.memTable, opt.MemTableSize)
	if err := tables.Writable(cfg.Dir); err != nil {
		return nil, explain(cfg.Dir, err)
	}
	if err := tables.Check(opt); err != nil {
		return nil, explain(cfg.Dir, damage(err))
	}
	db := &DB{cfg: cfg, log: log, said: said, stop: make(chan struct{})}
	db.commits = groupcommit.New(groupcommit.Config[*op]{Do: db.doGroup, MaxJobs: maxGroup, Closed: ErrClosed})
	db.guard = tables.Guard(opt, func(err error) { _ = db.note(err) })
	var err error
	if db.b, err = openBadger(opt); err != nil {
		db.guard.End()
		return nil, explain(cfg.Dir, err)
	}
	if err := db.start(ctx); err != nil {
		return nil, errors.Join(err, db.closeBadger())
	}
	return db, nil
}

func (db *DB) closeBadger() error {
	db.guard.Release()
	defer db.guard.End()
	return db.b.Close()
}

func (db *DB) start(ctx context.Context) error {
	if err := db.loadMeta(); err != nil {
		return err
	}
	if err := db.dropStaged(ctx, nil); err != nil { // of an import that was cut short
		return errors.Join(fmt.Errorf("undo an import that was cut short: %w", err), db.halt())
	}
	if db.cfg.ScrubEvery > 0 {
		db.done.Go(db.keepLooking)
	}
	return nil
}

// halt stops the committer and the background work.
func (db *DB) halt() error {
	db.mu.Lock()
	already := db.closed
	db.closed = true
	db.mu.Unlock()
	if already {
		return ErrClosed
	}
	close(db.stop)
	idle := make(chan struct{})
	go func() {
		db.commits.Close()
		db.done.Wait()
		db.readers.Wait()
		close(idle)
	}()
	if db.Damaged() == nil {
		<-idle
		return nil
	}
	// A commit in flight when the damage was found may wait for a compaction that will not happen.
	db.guard.Release()
	select {
	case <-idle:
		return nil
	case <-time.After(stuckAfter):
		return fmt.Errorf("%w: left as after a crash", db.Damaged())
	}
}

const stuckAfter = 10 * time.Second

// Close finishes the accepted writes, stops the background work and closes the folder.
func (db *DB) Close() error {
	if err := db.halt(); errors.Is(err, ErrClosed) {
		return nil
	} else if err != nil {
		return err
	}
	// Closing writes through mapped memory, and on a full disk that ends the process. Leave the folder as after a
	// crash instead: everything that counts is in the write-ahead log.
	if free, ok := freeBytes(db.cfg.Dir); ok && free < closeRoom {
		return fmt.Errorf("%w: %s has %d MiB left; nothing is lost, but make room before the next start", ErrDiskFull, db.cfg.Dir, free>>20)
	}
	// Badger would retry writing its tables for ever.
	if err := tables.Writable(db.cfg.Dir); err != nil {
		return fmt.Errorf("%w; nothing is lost", explain(db.cfg.Dir, err))
	}
	defer tables.Released(db.cfg.Dir)
	if err := db.closeBadger(); err != nil {
		return fmt.Errorf("close channel database in %s: %w", db.cfg.Dir, err)
	}
	return nil
}

// Broken reports whether a write has failed. If so, nothing more is written until the database is opened again.
func (db *DB) Broken() bool { return db.commits.Failed() != nil }

// Bytes that must be free.
const (
	closeRoom = 32 << 20 // two memory tables and what comes with them
	openRoom  = 16 << 20
)

// badgerOptions keep memory small: about 53 MB of heap for 3 million records, where the defaults peak at 1.4 GB.
func badgerOptions(dir string, log badger.Logger) badger.Options {
	o := badger.DefaultOptions(dir).
		WithLogger(log).
		WithMemTableSize(8 << 20).WithNumMemtables(2).WithNumCompactors(2).
		WithBlockCacheSize(0).WithCompression(options.None).WithChecksumVerificationMode(options.OnBlockRead).
		WithBaseTableSize(1 << 20).
		WithDetectConflicts(false). // there is one writer
		WithValueThreshold(inlineValue).WithValueLogFileSize(64 << 20).
		WithVerifyValueChecksum(true).
		WithSyncWrites(true).     // also before garbage collection deletes the original of what it moved
		WithMetricsEnabled(false) // Badger's are global
	o.TableSizeMultiplier = 1
	return o
}

// inlineValue is the size from which values go to the value log.
const inlineValue = 64

// openBadger turns Badger's panics over damaged files into errors.
func openBadger(o badger.Options) (b *badger.DB, err error) {
	defer func() {
		if p := recover(); p != nil {
			b, err = nil, fmt.Errorf("%w: %v", ErrDamaged, p)
		}
	}()
	return badger.Open(o)
}

// explain turns an error about a folder into one that says what happened and what to do.
func explain(dir string, err error) error {
	err = tables.System(err)
	msg := err.Error()
	var system syscall.Errno
	fromSystem := errors.As(err, &system)
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("%w: %s: make room (%w)", ErrDiskFull, dir, err)
	case errors.Is(err, tables.ErrInUse), strings.Contains(msg, "acquire directory lock"), strings.Contains(msg, "Another process is using"), strings.Contains(msg, "Cannot open pid lock file"):
		return fmt.Errorf("%w: %s is open in another process: stop that one, or choose another data folder with --data", ErrLocked, dir)
	case errors.Is(err, syscall.EROFS):
		return fmt.Errorf("%w: %s can be read only: make its disk writable, or choose another folder (%w)", ErrUnreadable, dir, err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: no permission to read and write %s: give the folder to the user that runs this, or choose another (%w)", ErrUnreadable, dir, err)
	case errors.Is(err, ErrDamaged), !fromSystem && (strings.Contains(msg, "anifest") || strings.Contains(msg, "MANIFEST") || strings.Contains(msg, "checksum") || strings.Contains(msg, "table")):
		return fmt.Errorf("%w: %s: restore the folder from a backup, or move it away and import the channels again (%w)", ErrDamaged, dir, err)
	}
	return fmt.Errorf("%w: %s: %w", ErrUnreadable, dir, err)
}

// damage tells changed bytes from unreadable files.
func damage(err error) error {
	if errors.Is(err, tables.ErrChanged) {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return err
}

// Meta keys.
const (
	metaSchema  = "schema"
	metaNetwork = "network"
	metaEpoch   = "epoch"
	metaNext    = "next"
	metaImport  = "import"
	metaFound   = "found" // number of candidates
)

// schema is the version of the layout. migrations[i] leads from version i+1 to i+2.
const schema = 1

var migrations = [schema - 1]func(*tx) error{}

// loadMeta reads the database's own metadata, or writes it on the first start. It runs before the committer.
func (db *DB) loadMeta() error {
	t := newTx(db.b)
	defer t.discard()
	version, err := t.metaUint(metaSchema)
	if err != nil {
		return err
	}
	switch {
	case version == 0:
		t.putMetaUint(metaSchema, schema)
	case version > schema:
		return fmt.Errorf("%w: %s has version %d, this program knows up to %d: use the newer program that wrote it, or export the channels there and import them here",
			ErrNewer, db.cfg.Dir, version, schema)
	default:
		for v := version; v < schema; v++ {
			if err := migrations[v-1](t); err != nil {
				return fmt.Errorf("bring %s from version %d to %d: %w", db.cfg.Dir, v, v+1, err)
			}
			t.putMetaUint(metaSchema, v+1)
		}
	}
	if err := db.checkNetwork(t); err != nil {
		return err
	}
	if db.staged, err = notedRanges(t); err != nil {
		return err
	}
	t.accept()
	return db.commit(t)
}

func (db *DB) checkNetwork(t *tx) error {
	if db.cfg.Network == ([32]byte{}) {
		return nil
	}
	raw, err := t.get(metaKey(metaNetwork))
	if err != nil {
		return err
	}
	if raw == nil {
		t.put(metaKey(metaNetwork), append([]byte{v1}, db.cfg.Network[:]...))
		return nil
	}
	if len(raw) != 33 || raw[0] != v1 {
		return damaged("network", raw)
	}
	if [32]byte(raw[1:]) != db.cfg.Network {
		return fmt.Errorf("%w: %s is of network %s, this manager's is %s: choose another data folder, or restore the key that belongs to it",
			ErrOtherNetwork, db.cfg.Dir, hex.EncodeToString(raw[1:9]), hex.EncodeToString(db.cfg.Network[:8]))
	}
	return nil
}

// Take takes the channels over. From now on the database accepts only writes with the returned epoch.
func (db *DB) Take(ctx context.Context) (Epoch, error) {
	var epoch uint64
	err := db.submit(ctx, &op{run: func(t *tx) error {
		last, err := t.metaUint(metaEpoch)
		epoch = last + 1
		t.putMetaUint(metaEpoch, epoch)
		return err
	}})
	return Epoch(epoch), err
}
