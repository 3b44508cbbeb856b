// Package postgres is the channel database on a PostgreSQL server, version 15 or later. It keeps what channel/badgerdb
// keeps in a folder, and channel/storetest specifies what it does.
//
// Invariants:
//   - An acknowledged write is committed, and on the standbys if the server waits for them. No write sets
//     synchronous_commit below "on".
//   - A write happens whole or not at all, an import of any size included.
//   - The answer to a commit may be lost. Every writing connection numbers its writes in the table writers, within
//     the same transactions. After a lost answer the database asks, by another write, whether the number is there.
//     A read would not do: it can see a commit that a failover then loses.
//   - A write of a manager that was replaced changes nothing: each write locks the epoch's row for share and compares.
//
// Statements keep to what CockroachDB and YugabyteDB have too: no advisory locks, no LISTEN, no order of transaction
// ids. Times are kept to the microsecond.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"shoal/channel"
)

// Errors of Open and of writes, beside those of package channel.
var (
	ErrURL          = errors.New("postgres: the database's URL cannot be used")
	ErrUnreachable  = errors.New("postgres: the database cannot be reached")
	ErrRefused      = errors.New("postgres: the server refuses this user")
	ErrRights       = errors.New("postgres: the user lacks a right")
	ErrOld          = errors.New("postgres: the server is too old")
	ErrNewer        = errors.New("postgres: the tables have a newer version")
	ErrOtherNetwork = errors.New("postgres: the tables belong to another network")
	ErrDamaged      = errors.New("postgres: channel database is damaged")
	ErrClosed       = errors.New("postgres: closed")
	ErrTooLarge     = errors.New("postgres: too much for one write")
	ErrPooler       = errors.New("postgres: the pooler in front of the server cannot be used as it is")
	ErrEncoding     = errors.New("postgres: the database cannot keep every text")
)

// Config of a database.
type Config struct {
	// URL says where the server is: postgres://user:password@host:5432/database. Parameters are those of libpq.
	URL string
	// Schema holds the tables. Open creates it if it is missing. Default "shoal".
	Schema string
	// Network is the network's root public key. A schema belongs to the network that opened it first. Zero means any
	// network.
	Network [32]byte
	// Patience is how long a read or write goes on trying while the server is away, such as during a failover.
	// Default one minute.
	Patience time.Duration
	// Abandon is after how long the server ends a transaction of this program of which nothing more comes, so that nobody waits for a program that
	// was stopped or cut off in the middle of one. Default 4 s, which is less than a tenancy lasts. Zero: it does not.
	Abandon time.Duration
	// Log receives what the operator should know, such as a lost connection. Nil: nothing is logged.
	Log *slog.Logger
	// Lose is for tests: at the stages "commit" and "answer" its error loses a commit on its way, or its answer. Nil: none is lost.
	Lose func(stage string) error
}

// Default returns the configuration for a server.
func Default(url string) Config {
	return Config{URL: url, Schema: "shoal", Patience: time.Minute, Abandon: 4 * time.Second}
}

// Validate reports the first bad field.
func (c Config) Validate() error {
	switch {
	case c.URL == "":
		return fmt.Errorf("%w: none given: it has the form %s", ErrURL, form)
	case c.Schema == "" || len(c.Schema) > 63:
		return fmt.Errorf("%w: name of a schema of %d bytes, 1 to 63 are possible", ErrURL, len(c.Schema))
	case c.Patience < 0:
		return fmt.Errorf("%w: negative patience %v", ErrURL, c.Patience)
	}
	return nil
}

const form = "postgres://user:password@host:5432/database; within user and password, @ is written %40, / %2F, % %25 and a space %20"

// oldest is the oldest server version that is tested, as server_version_num.
const oldest = 150_000

// DB is an open channel database. Several goroutines, and several programs, may use one database.
type DB struct {
	*Server
	lanes  chan *lane
	closed atomic.Bool

	several atomic.Bool // it is one of several managers'
}

// Open connects to a server, creates or upgrades the tables, and checks that they belong to the network.
func Open(ctx context.Context, cfg Config) (*DB, error) {
	db := &DB{}
	var err error
	steps, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return nil, err
	}
	if db.Server, err = Connect(ctx, cfg, steps, claimChannels); err != nil {
		return nil, err
	}
	if err := db.Explain(db.openLanes(ctx, max(int(db.pool.Config().MaxConns)-1, 1))); err != nil { // one connection is left for reads
		db.pool.Close()
		return nil, err
	}
	return db, nil
}

// Close ends the connections. Writes that run are finished first.
func (db *DB) Close() error {
	if db.closed.Swap(true) {
		return nil
	}
	for range cap(db.lanes) {
		<-db.lanes
	}
	db.pool.Close()
	return nil
}

// Take takes the channels over. From now on the database accepts only writes with the returned epoch.
func (db *DB) Take(ctx context.Context) (channel.Epoch, error) {
	var epoch int64
	err := db.write(ctx, nil, func(ctx context.Context, tx pgx.Tx) error {
		if err := tx.QueryRow(ctx, `UPDATE tenure SET epoch = epoch + 1 WHERE one = 1 RETURNING epoch`).Scan(&epoch); err != nil {
			return err
		}
		return refuseAlone(ctx, tx) // with the row locked that who begins to share the database writes first
	})
	return channel.Epoch(epoch), err
}
