package postgres

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Server is a schema on a server, as a store uses it: this package's own, and others with tables of their own. Its errors say what happened
// and what to do.
type Server struct {
	cfg    Config
	pool   *pgxpool.Pool
	log    *slog.Logger
	unsure sync.Map // *pgconn.PgConn to true: it gave up waiting for a standby
}

// A Claim notes the network to which a schema belongs, or refuses another's.
type Claim func(ctx context.Context, s *Server, tx pgx.Tx) error

// Connect connects to a server, and brings a schema to the version to which steps lead: SQL files in their order. None is ever changed once it
// was part of a release.
func Connect(ctx context.Context, cfg Config, steps fs.FS, claim Claim) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	pc, err := pgxpool.ParseConfig(cfg.URL)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: it has the form %s", ErrURL, unsecret(err), form)
	}
	if host := pc.ConnConfig.Host; strings.Contains(host, "@") && !strings.HasPrefix(host, "/") { // what is behind the @ was meant for the password's end
		return nil, fmt.Errorf("%w: the host's name has an @: it has the form %s", ErrURL, form)
	}
	s := &Server{cfg: cfg, log: cfg.Log}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	pc.ConnConfig.RuntimeParams["search_path"] = pgx.Identifier{cfg.Schema}.Sanitize()
	pc.ConnConfig.RuntimeParams["application_name"] = "shoal"
	if cfg.Abandon > 0 {
		pc.ConnConfig.RuntimeParams["idle_in_transaction_session_timeout"] = strconv.FormatInt(cfg.Abandon.Milliseconds(), 10)
	}
	pc.ConnConfig.OnNotice = s.notice
	pc.AfterConnect = greet
	if s.pool, err = pgxpool.NewWithConfig(ctx, pc); err != nil {
		return nil, s.Explain(err)
	}
	if err := s.begin(ctx, steps, claim); err != nil {
		s.pool.Close()
		return nil, err
	}
	return s, nil
}

func (s *Server) begin(ctx context.Context, steps fs.FS, claim Claim) error {
	var version int
	if err := s.pool.QueryRow(ctx, `SELECT current_setting('server_version_num')::int`).Scan(&version); err != nil {
		return s.Explain(err)
	}
	if version < oldest {
		return fmt.Errorf("%w: %s is version %d.%d, %d or later is needed", ErrOld, s.where(), version/10_000, version%10_000, oldest/10_000)
	}
	return s.Explain(s.prepare(ctx, steps, claim))
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

// syncRoutine is where the server waits for its standbys. Its warning that the wait was canceled has no code of its own.
const syncRoutine = "SyncRepWaitForLSN"

// notice marks a connection whose commit was told done although the standby did not confirm it.
func (s *Server) notice(c *pgconn.PgConn, n *pgconn.Notice) {
	if n.Code == codeCanceled || n.Code == codeShutdown || n.Routine == syncRoutine {
		s.unsure.Store(c, true)
	}
}

// where names the database in messages, without the password.
func (s *Server) where() string {
	u, err := url.Parse(s.cfg.URL)
	if err != nil || u.Scheme == "" {
		c := s.pool.Config().ConnConfig
		return fmt.Sprintf("database %s at %s", c.Database, c.Host)
	}
	return secretless(u.Redacted()) // one among the parameters stays there
}

// Where names the schema in messages, without the password.
func (s *Server) Where() string { return fmt.Sprintf("schema %s of %s", s.cfg.Schema, s.where()) }

// Reach asks the server for a sign of life, once.
func (s *Server) Reach(ctx context.Context) error { return s.Explain(s.pool.Ping(ctx)) }

// Pool is the connections to the server.
func (s *Server) Pool() *pgxpool.Pool { return s.pool }

// Transact runs a transaction once, and commits it without a deadline. After an error it did not happen, unless that is ErrUnknown.
func (s *Server) Transact(ctx context.Context, run func(context.Context, pgx.Tx) error) error {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // after a commit it does nothing
	if err := run(ctx, tx); err != nil {
		return err
	}
	return s.commit(ctx, conn.Conn(), tx)
}

// commit commits without a deadline: a commit that is canceled while it waits for a standby is told done.
func (s *Server) commit(ctx context.Context, c *pgx.Conn, tx pgx.Tx) error {
	if s.cfg.Lose != nil {
		if err := s.cfg.Lose("commit"); err != nil {
			_ = c.Close(context.WithoutCancel(ctx))
			return fmt.Errorf("%w: %w", ErrUnknown, err)
		}
	}
	err := tx.Commit(context.WithoutCancel(ctx))
	if err == nil && s.cfg.Lose != nil {
		err = s.cfg.Lose("answer")
	}
	var pg *pgconn.PgError
	_, unsure := s.unsure.LoadAndDelete(c.PgConn())
	switch {
	case unsure:
		_ = c.Close(context.WithoutCancel(ctx))
		return fmt.Errorf("%w: the server gave up waiting for its standby", ErrUnknown)
	case err == nil:
		return nil
	case errors.As(err, &pg) && !lost(err), errors.Is(err, pgx.ErrTxCommitRollback):
		return err
	}
	_ = c.Close(context.WithoutCancel(ctx))
	return fmt.Errorf("%w: %w", ErrUnknown, err)
}
