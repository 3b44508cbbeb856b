// Package pgledger keeps the ledger of an archive on a PostgreSQL server, and does what package ledgertest asks of every ledger store. It is not
// for what the records mean, beside the archive's own one.
//
// The truth is a log on the server: each commit appends one entry, packed, with all that its writes change. This machine has a copy, in a folder:
// package badgerledger applies the log's entries in their order, and all reads are from it. The copy may be lost; it is made again from a snapshot,
// which lies in the object store, and from the entries behind it. So a page costs the server a part of a row, and reading costs it nothing.
//
// Invariants:
//
//   - A commit is on the server, and on its standbys if it waits for them, before it is applied to the copy and answered.
//   - The log's head moves by compare-and-swap of the writer's epoch and the last entry's number. A writer that another one has replaced, paused
//     or cut off for however long, appends nothing.
//   - What an entry does depends on the entries before it alone: conditions are in the log, and each copy finds the same ones to hold.
//   - After a lost answer the store asks by a write whether the entry is there. A read could see a commit that a failover then loses. Each entry's
//     random key tells it from any other.
package pgledger

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"shoal/channel/postgres"
	"shoal/manager/archive/bucket"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/ledger/badgerledger"
)

// ErrOwn says that a folder holds an archive of its own, and no copy of one on a server.
var ErrOwn = errors.New("archive: this folder holds an archive of its own: move it to the server with shoal migrate")

// Objects is where snapshots of the ledger are kept.
type Objects interface {
	PutFrom(ctx context.Context, name string, from io.Reader, size int64) error
	Get(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error)
	List(ctx context.Context, prefix string, do func(bucket.Object) error) error
	Remove(ctx context.Context, name string) error
}

// Config of a store.
type Config struct {
	Server  postgres.Config     // its Schema is the ledger's own. No default
	Copy    badgerledger.Config // of the copy on this machine; Dir has no default
	Objects Objects             // nil: there are no snapshots, and the log is never shortened
	Clock   func() time.Time    // numbers the feed of a new archive. Nil: time.Now
	Log     *slog.Logger        // nil: nothing is logged
	// Before is called when this machine's copy is locked, and before anything is asked of the server. Nil: nothing is.
	Before func(context.Context) error
	// Unwritten is called when the server has an archive to which nothing was ever written, or has just been given one, before this machine's copy is
	// emptied for it. Its error ends the opening. Nil: nothing is called.
	Unwritten func(context.Context) error
	// Writer is a random name of this start of the program, by which it is told from others that append to the same log. Empty: it wants the log
	// for itself.
	Writer string
	// SnapshotAfter is the least bytes of entries after which a snapshot is made. 0: 32 MiB.
	SnapshotAfter int64
}

// complete sets what is left to defaults.
func (c *Config) complete() {
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.SnapshotAfter <= 0 {
		c.SnapshotAfter = 32 << 20
	}
}

// Schema is the default name of the ledger's schema.
const Schema = "shoal_archive"

// part is the log that is used: there is one.
const part = 0

// Store is an open ledger.
type Store struct {
	cfg    Config
	server *postgres.Server
	copied *badgerledger.Store
	log    *slog.Logger
	packer packer

	writing lock  // of what follows; held by Commit and snapshots
	epoch   int64 // 0: this one has not written yet
	at      badgerledger.Position
	jumped  bool                 // feeds go on above all numbers that were used before the start
	gone    bool                 // another writer has replaced this one
	hear    func([]ledger.Write) // is told what others have appended; nil: nobody is

	out     atomic.Pointer[error] // why this writer can do nothing more
	life    context.Context       // ends when the store is about to be closed
	endLife context.CancelFunc

	settled settled

	unfollow func() // ends what follows the log; nil: nothing does
}

var _ ledger.Store = (*Store)(nil)

// lock is a mutex. A commit may hold it for minutes, while a server is away; so who waits for it can end before.
type lock chan struct{}

func newLock() lock { return make(lock, 1) }

func (l lock) Lock() { l <- struct{}{} }

func (l lock) Unlock() { <-l }

// LockWithin is Lock that ends with ctx.
func (l lock) LockWithin(ctx context.Context) error {
	select {
	case l <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

//go:embed migrations/*.sql
var migrations embed.FS

// Open opens the ledger of a server, or makes one, and brings this machine's copy up to date. It changes nothing that another program could see,
// but for the first time.
func Open(ctx context.Context, cfg Config) (s *Store, err error) {
	cfg.complete()
	s = &Store{cfg: cfg, log: cfg.Log, writing: newLock()}
	s.life, s.endLife = context.WithCancel(context.Background())
	defer func(opened *Store) {
		if err != nil {
			err = errors.Join(err, opened.Close())
		}
	}(s)
	if err := s.openCopy(); err != nil { // its lock tells first whether a manager runs here
		return nil, err
	}
	if cfg.Before != nil {
		if err := cfg.Before(ctx); err != nil {
			return nil, err
		}
	}
	if s.server, err = connect(ctx, cfg); err != nil {
		return nil, err
	}
	if err := s.catchUp(ctx); err != nil || !s.Several() {
		return s, err
	}
	if err := s.register(ctx); err != nil {
		return s, err
	}
	following, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.follow(following)
	}()
	s.unfollow = func() {
		stop()
		<-done
	}
	return s, nil
}

// Anew opens an empty ledger in place of one that cannot be opened. That one's entries are kept on the server, in a table whose name says so.
func Anew(ctx context.Context, cfg Config) (*Store, error) {
	cfg.complete()
	now := cfg.Clock()
	server, err := connect(ctx, cfg)
	if err != nil {
		return nil, err
	}
	g, err := badgerledger.NewGenesis(now)
	if err != nil {
		return nil, err
	}
	err = server.Transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
		broken := pgx.Identifier{"log_broken_" + now.UTC().Format("20060102150405")}.Sanitize()
		for _, sql := range []string{`ALTER TABLE log RENAME TO ` + broken, `CREATE TABLE log (LIKE ` + broken + ` INCLUDING ALL)`} {
			if _, err := tx.Exec(ctx, sql); err != nil {
				return err
			}
		}
		return reset(ctx, tx, g)
	})
	err = server.Explain(err)
	server.Pool().Close()
	if err != nil {
		return nil, err
	}
	return Open(ctx, cfg)
}

// reset makes a log that has no entries begin anew.
func reset(ctx context.Context, tx pgx.Tx, g badgerledger.Genesis) error {
	_, err := tx.Exec(ctx, `UPDATE heads SET archive = $2, first = $3, key = $4, epoch = epoch + 1, seq = 0, base = 0, snapshot = '', size = 0, grown = 0 WHERE part = $1`,
		part, g.ID[:], int64(g.Next), make([]byte, 16))
	return err
}

func connect(ctx context.Context, cfg Config) (*postgres.Server, error) {
	steps, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return nil, err
	}
	return postgres.Connect(ctx, cfg.Server, steps, func(ctx context.Context, s *postgres.Server, tx pgx.Tx) error {
		g, err := badgerledger.NewGenesis(cfg.Clock())
		if err != nil {
			return err
		}
		if err := begin(ctx, tx, g); err != nil {
			return err
		}
		return claim(ctx, s, tx, cfg.Server.Network)
	})
}

// begin makes the head of a log, unless there is one.
func begin(ctx context.Context, tx pgx.Tx, g badgerledger.Genesis) error {
	_, err := tx.Exec(ctx, `INSERT INTO heads (part, archive, first, key) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING`, part, g.ID[:], int64(g.Next), make([]byte, 16))
	return err
}

// claim notes the network that the archive belongs to, or refuses another's.
func claim(ctx context.Context, s *postgres.Server, tx pgx.Tx, own [32]byte) error {
	if own == ([32]byte{}) {
		return nil
	}
	var network []byte
	if err := tx.QueryRow(ctx, `SELECT network FROM heads WHERE part = $1 FOR UPDATE`, part).Scan(&network); err != nil {
		return err
	}
	if network == nil {
		_, err := tx.Exec(ctx, `UPDATE heads SET network = $2 WHERE part = $1`, part, own[:])
		return err
	}
	return s.Belongs(network)
}

// openCopy opens this machine's copy, or an empty one in place of one that is damaged: the server has everything.
func (s *Store) openCopy() (err error) {
	s.copied, err = badgerledger.Open(s.cfg.Copy)
	if !errors.Is(err, ledger.ErrState) {
		return err
	}
	old := s.cfg.Copy.Dir + ".broken-" + s.cfg.Clock().UTC().Format("20060102150405")
	s.log.Error("this machine's copy of the archive's ledger is damaged, and is made again from the server", "moved to", old, "err", err)
	if err := os.Rename(s.cfg.Copy.Dir, old); err != nil {
		return err
	}
	s.copied, err = badgerledger.Open(s.cfg.Copy)
	return err
}

// Head implements ledger.Store.
func (s *Store) Head() ledger.Head { return s.copied.Head() }

// View implements ledger.Store.
func (s *Store) View(f func(ledger.Snapshot) error) error { return s.copied.View(f) }

// Check implements ledger.Store. At full speed it reads the snapshot too.
func (s *Store) Check(ctx context.Context, rate int64) error {
	if err := s.copied.Check(ctx, rate); err != nil || rate > 0 {
		return err
	}
	return s.checkServer(ctx)
}

// Tidy implements ledger.Store: it makes a snapshot when the log has grown enough.
func (s *Store) Tidy(ctx context.Context) {
	s.copied.Tidy(ctx)
	if err := s.shorten(ctx); err != nil && ctx.Err() == nil {
		s.log.Error("no snapshot of the archive's ledger was made, will try again", "err", err)
	}
}

// Backup implements ledger.Store: in the form of package badgerledger, which can be restored without the server.
func (s *Store) Backup(w io.Writer) error { return s.copied.Backup(w) }

// Release implements ledger.Store.
func (s *Store) Release() { s.copied.Release() }

// Close implements ledger.Store.
func (s *Store) Close() (err error) {
	s.End()
	if s.unfollow != nil {
		s.unfollow()
		s.unfollow = nil
	}
	if s.copied != nil {
		err = s.copied.Close()
	}
	if s.server != nil {
		s.server.Pool().Close()
	}
	return err
}

// where names the server in messages.
func (s *Store) where() string { return fmt.Sprintf("the archive's ledger in %s", s.server.Where()) }
