package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"shoal/channel"
	"shoal/internal/again"
)

// lane numbers the writes that follow one another, so that it can be told of each whether it was committed. One write
// at a time uses a lane.
type lane struct {
	id int64 // of its row in writers
	n  int64 // of its last write that was tried
}

// keepWriters is how long the row of a program that is gone stays.
const keepWriters = "30 days"

func (db *DB) openLanes(ctx context.Context, n int) error {
	db.lanes = make(chan *lane, n)
	return pgx.BeginFunc(ctx, db.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `DELETE FROM writers WHERE at < now() - $1::interval`, keepWriters); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, `INSERT INTO writers (n) SELECT 0 FROM generate_series(1, $1) RETURNING id`, n)
		if err != nil {
			return err
		}
		ids, err := pgx.CollectRows(rows, pgx.RowTo[int64])
		for _, id := range ids {
			db.lanes <- &lane{id: id}
		}
		return err
	})
}

// ErrUnknown wraps the error of a commit whose outcome is not known.
var ErrUnknown = errors.New("postgres: it is not known whether the write was committed")

// pace of tries while the server is away.
var pace = again.Bounds{First: 20 * time.Millisecond, Last: time.Second}

// write runs one write in a transaction, as often as it takes: run is called again after a deadlock, a lost connection
// or a race with another write. If e is given, the write is refused unless e is the present epoch. When write returns
// nil, the write is durable; when it returns an error, it did not happen, unless the error says that this is unknown.
func (db *DB) write(ctx context.Context, e *channel.Epoch, run func(context.Context, pgx.Tx) error) error {
	return db.inLane(ctx, func(l *lane) error {
		conn, err := db.pool.Acquire(ctx)
		if err != nil {
			return err
		}
		defer conn.Release()
		return db.attempt(ctx, conn, pgx.TxOptions{}, l, e, run)
	})
}

// writeOn is write for a connection that holds something that run needs. It is not tried on another one.
func (db *DB) writeOn(ctx context.Context, conn *pgxpool.Conn, as pgx.TxOptions, e *channel.Epoch, run func(context.Context, pgx.Tx) error) error {
	return db.inLane(ctx, func(l *lane) error {
		err := db.attempt(ctx, conn, as, l, e, run)
		if lost(err) && !errors.Is(err, ErrUnknown) {
			return fmt.Errorf("%w: the connection was lost, and nothing was written: try again (%s)", ErrUnreachable, unsecret(err))
		}
		return err
	})
}

// inLane tries a write, in a lane of its own, until its outcome is known.
func (db *DB) inLane(ctx context.Context, try func(*lane) error) error {
	if db.closed.Load() {
		return ErrClosed
	}
	var l *lane
	select {
	case l = <-db.lanes:
		defer func() { db.lanes <- l }()
	case <-ctx.Done():
		return ctx.Err()
	}
	return db.Patiently(ctx, func() error {
		l.n++
		err := try(l)
		if errors.Is(err, ErrUnknown) {
			return db.settle(l, err)
		}
		return err
	})
}

// Patiently repeats a read or write that failed for a reason that passes, until Patience ends.
func (s *Server) Patiently(ctx context.Context, try func() error) error {
	var since time.Time
	wait := again.Every(pace)
	for {
		err := try()
		if !Passes(err) {
			return err
		}
		if since.IsZero() {
			since = time.Now()
		}
		if time.Since(since) > s.cfg.Patience {
			return s.Explain(err)
		}
		if wait.Wait(ctx, nil, nil) != nil {
			return s.Explain(err)
		}
	}
}

// attempt tries a write once.
func (db *DB) attempt(ctx context.Context, conn *pgxpool.Conn, as pgx.TxOptions, l *lane, e *channel.Epoch, run func(context.Context, pgx.Tx) error) error {
	tx, err := conn.BeginTx(ctx, as)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // after a commit it does nothing
	if err := db.checkEpoch(ctx, tx, e); err != nil {
		return err
	}
	if err := run(ctx, tx); err != nil {
		return err
	}
	tag, err := tx.Exec(ctx, `UPDATE writers SET n = $2, at = now() WHERE id = $1`, l.id, l.n)
	if err != nil {
		return err
	}
	if tag.RowsAffected() == 0 { // another program took this one for dead
		if err := tx.QueryRow(ctx, `INSERT INTO writers (n) VALUES ($1) RETURNING id`, l.n).Scan(&l.id); err != nil {
			return err
		}
	}
	return db.commit(ctx, conn.Conn(), tx)
}

func (db *DB) checkEpoch(ctx context.Context, tx pgx.Tx, e *channel.Epoch) error {
	if e == nil {
		return nil
	}
	if db.several.Load() {
		return checkTenancy(ctx, tx, *e)
	}
	var present int64
	if err := tx.QueryRow(ctx, `SELECT epoch FROM tenure WHERE one = 1 FOR SHARE`).Scan(&present); err != nil {
		return err
	}
	if channel.Epoch(present) != *e {
		return fmt.Errorf("%w: this one's epoch is %d, the present one %d", channel.ErrStaleEpoch, *e, present)
	}
	return nil
}

// ErrAgain tells Patiently that the write did not happen.
var ErrAgain = errors.New("postgres: the write was lost")

// settle finds out whether the lane's last write was committed. It asks by a write, which waits for a commit that
// still runs and is itself only answered when it is durable.
func (db *DB) settle(l *lane, cause error) error {
	db.log.Warn("the answer to a commit was lost; asking whether it was made", "err", unsecret(cause))
	ctx, cancel := context.WithTimeout(context.Background(), max(db.cfg.Patience, time.Second))
	defer cancel()
	wait := again.Every(pace)
	for {
		n, err := db.lastOf(ctx, l)
		switch {
		case err == nil && n == l.n:
			return nil
		case err == nil:
			return fmt.Errorf("%w: %s", ErrAgain, unsecret(cause))
		}
		if wait.Wait(ctx, nil, nil) != nil {
			return fmt.Errorf("%w, and the server does not come back to tell: look at %s (%s)", ErrUnknown, db.where(), unsecret(cause))
		}
	}
}

func (db *DB) lastOf(ctx context.Context, l *lane) (n int64, err error) {
	conn, err := db.pool.Acquire(ctx)
	if err != nil {
		return 0, err
	}
	defer conn.Release()
	tx, err := conn.Begin(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { _ = tx.Rollback(ctx) }()
	if err := tx.QueryRow(ctx, `UPDATE writers SET at = now() WHERE id = $1 RETURNING n`, l.id).Scan(&n); errors.Is(err, pgx.ErrNoRows) {
		return 0, nil // the row was to be inserted by the lost write
	} else if err != nil {
		return 0, err
	}
	return n, db.commit(ctx, conn.Conn(), tx)
}

// Passes reports whether the same write may succeed later.
func Passes(err error) bool {
	if err == nil || errors.Is(err, ErrUnknown) || errors.Is(err, ErrUnreachable) || errors.Is(err, ErrPooler) {
		return false
	}
	if errors.Is(err, ErrAgain) || lost(err) {
		return true
	}
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return false
	}
	switch pg.Code {
	case codeSerialize, codeDeadlock, codeUnique, codeReadOnly, codeFull, codeConnections, codeAbandoned:
		return true // a unique key is only hit in a race: every write looks first
	}
	return false
}

// lost reports whether the connection is gone.
func lost(err error) bool {
	var connect *pgconn.ConnectError // it may hold a deadline that is not the caller's: that of connect_timeout
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) && !errors.As(err, &connect) {
		return false
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return strings.HasPrefix(pg.Code, classOperator) || strings.HasPrefix(pg.Code, classConnection)
	}
	var network net.Error
	return errors.As(err, &network) || errors.As(err, &connect) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, net.ErrClosed) || strings.Contains(err.Error(), "conn closed") || pgconn.SafeToRetry(err)
}

// view runs reads in one snapshot.
func (db *DB) view(ctx context.Context, run func(pgx.Tx) error) error {
	if db.closed.Load() {
		return ErrClosed
	}
	return db.Patiently(ctx, func() error {
		return pgx.BeginTxFunc(ctx, db.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, run)
	})
}

// read runs a read of one statement.
func (db *DB) read(ctx context.Context, run func() error) error {
	if db.closed.Load() {
		return ErrClosed
	}
	return db.Patiently(ctx, run)
}
