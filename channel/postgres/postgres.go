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
	"log/slog"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"shoal/channel"
)

// Errors of Open and of writes, beside those of package channel.
var (
	ErrURL          = errors.New("postgres: the database's URL cannot be used")
	ErrUnreachable  = errors.New("postgres: the database cannot be reached")
	ErrRefused      = errors.New("postgres: the server refuses this user")
	ErrRights       = errors.New("postgres: the user lacks a right")
	ErrOld          = errors.New("postgres: the server is too old")
	ErrNewer        = errors.New("postgres: channel database has a newer version")
	ErrOtherNetwork = errors.New("postgres: channel database belongs to another network")
	ErrDamaged      = errors.New("postgres: channel database is damaged")
	ErrClosed       = errors.New("postgres: closed")
	ErrTooLarge     = errors.New("postgres: too much for one write")
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
	// Log receives what the operator should know, such as a lost connection. Nil: nothing is logged.
	Log *slog.Logger
}

// Default returns the configuration for a server.
func Default(url string) Config {
	return Config{URL: url, Schema: "shoal", Patience: time.Minute}
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

const form = "postgres://user:password@host:5432/database"

// oldest is the oldest server version that is tested, as server_version_num.
const oldest = 150_000

// DB is an open channel database. Several goroutines, and several programs, may use one database.
type DB struct {
	cfg    Config
	pool   *pgxpool.Pool
	log    *slog.Logger
	lanes  chan *lane
	closed atomic.Bool

	unsure sync.Map // *pgconn.PgConn to true: it gave up waiting for a standby

	lose func(stage string) error // for tests: loses a commit on its way, or its answer
}

// Open connects to a server, creates or upgrades the tables, and checks that they belong to the network.
func Open(ctx context.Context, cfg Config) (*DB, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	pc, err := pgxpool.ParseConfig(cfg.URL)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: it has the form %s", ErrURL, unsecret(err), form)
	}
	db := &DB{cfg: cfg, log: cfg.Log}
	if db.log == nil {
		db.log = slog.New(slog.DiscardHandler)
	}
	pc.ConnConfig.RuntimeParams["search_path"] = pgx.Identifier{cfg.Schema}.Sanitize()
	pc.ConnConfig.RuntimeParams["application_name"] = "shoal"
	pc.ConnConfig.OnNotice = db.notice
	pc.AfterConnect = greet
	if db.pool, err = pgxpool.NewWithConfig(ctx, pc); err != nil {
		return nil, db.explain(err)
	}
	if err := db.begin(ctx, int(pc.MaxConns)); err != nil {
		db.pool.Close()
		return nil, err
	}
	return db, nil
}

func (db *DB) begin(ctx context.Context, conns int) error {
	var version int
	if err := db.pool.QueryRow(ctx, `SELECT current_setting('server_version_num')::int`).Scan(&version); err != nil {
		return db.explain(err)
	}
	if version < oldest {
		return fmt.Errorf("%w: %s is version %d.%d, %d or later is needed", ErrOld, db.where(), version/10_000, version%10_000, oldest/10_000)
	}
	if err := db.prepare(ctx); err != nil {
		return db.explain(err)
	}
	return db.explain(db.openLanes(ctx, max(conns-1, 1))) // one connection is left for reads
}

// greet sees to it that the server does not acknowledge what it may still lose.
func greet(ctx context.Context, c *pgx.Conn) error {
	var level string
	if err := c.QueryRow(ctx, `SHOW synchronous_commit`).Scan(&level); err != nil {
		return err
	}
	if level == "off" || level == "local" {
		_, err := c.Exec(ctx, `SET synchronous_commit = on`)
		return err
	}
	return nil
}

// notice marks a connection whose commit was told done although the standby did not confirm it.
func (db *DB) notice(c *pgconn.PgConn, n *pgconn.Notice) {
	if n.Code == codeCanceled || n.Code == codeShutdown {
		db.unsure.Store(c, true)
	}
}

// where names the database in messages, without the password.
func (db *DB) where() string {
	u, err := url.Parse(db.cfg.URL)
	if err != nil || u.Scheme == "" {
		c := db.pool.Config().ConnConfig
		return fmt.Sprintf("database %s at %s", c.Database, c.Host)
	}
	return u.Redacted()
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
		return tx.QueryRow(ctx, `UPDATE tenure SET epoch = epoch + 1 WHERE one = 1 RETURNING epoch`).Scan(&epoch)
	})
	return channel.Epoch(epoch), err
}
