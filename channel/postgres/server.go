package postgres

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"time"

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
	s, err := Look(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if err := s.begin(ctx, steps, claim); err != nil {
		s.pool.Close()
		return nil, err
	}
	return s, nil
}

// Look connects to a server, and changes nothing there. Its schema may be missing, or of any version.
func Look(ctx context.Context, cfg Config) (*Server, error) {
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
	delete(pc.ConnConfig.RuntimeParams, "search_path") // the schema's is set by greet
	pc.ConnConfig.RuntimeParams["application_name"] = "shoal"
	connectBy(&pc.ConnConfig.Config)
	pc.ConnConfig.OnNotice = s.notice
	pc.AfterConnect = s.greet
	if s.pool, err = pgxpool.NewWithConfig(ctx, pc); err != nil {
		return nil, s.Explain(err)
	}
	return s, nil
}

func (s *Server) begin(ctx context.Context, steps fs.FS, claim Claim) error {
	if err := s.ownSessions(ctx); err != nil {
		return s.Explain(err)
	}
	var version int
	if err := s.pool.QueryRow(ctx, `SELECT current_setting('server_version_num')::int`).Scan(&version); err != nil {
		return s.Explain(err)
	}
	if version < oldest {
		return fmt.Errorf("%w: %s is version %d.%d, %d or later is needed", ErrOld, s.where(), version/10_000, version%10_000, oldest/10_000)
	}
	if err := s.keepsText(ctx); err != nil {
		return s.Explain(err)
	}
	return s.Explain(s.prepare(ctx, steps, claim))
}

// keepsText refuses a database that does not give back what is written to it: it would be found out when a reason or an error in another alphabet is to be stored, and no
// report behind it could be taken in any more. One in UTF8 does, and one of another encoding whose connections have the same, of one byte a letter.
func (s *Server) keepsText(ctx context.Context) error {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	var all strings.Builder
	for r := rune(' '); r < 0x800; r++ {
		all.WriteRune(r)
	}
	all.WriteString("中文日本語한국어ไทย€\uFFFD\U0001F41F")
	var back string
	err = conn.QueryRow(ctx, `SELECT $1::text`, pgx.QueryExecModeExec, all.String()).Scan(&back)
	var pg *pgconn.PgError
	if err != nil && (!errors.As(err, &pg) || !strings.HasPrefix(pg.Code, classData)) {
		return err
	}
	if err == nil && back == all.String() {
		return nil
	}
	server, client := conn.Conn().PgConn().ParameterStatus("server_encoding"), conn.Conn().PgConn().ParameterStatus("client_encoding")
	return fmt.Errorf("%w: %s is in %s, and connections are in %s: make a database with ENCODING 'UTF8' TEMPLATE template0, and let neither the URL nor the user nor the database set client_encoding",
		ErrEncoding, s.where(), server, client)
}

// ownSessions refuses a pooler that gives connections of this program the same session of the server in turn, transaction by transaction: what greet sets for one
// schema would hold for the other one.
func (s *Server) ownSessions(ctx context.Context) error {
	if s.pool.Config().MaxConns < 2 {
		return nil
	}
	one, err := s.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer one.Release()
	pid := func(q querier) (n uint32, err error) {
		rows, err := q.Query(ctx, `SELECT pg_backend_pid()`, pgx.QueryExecModeExec) // what is prepared may be for another session
		if err != nil {
			return 0, err
		}
		return pgx.CollectExactlyOneRow(rows, pgx.RowTo[uint32])
	}
	first, err := pid(one)
	if err != nil || first == one.Conn().PgConn().PID() { // a pooler makes numbers of its own up
		return err
	}
	two, err := s.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer two.Release()
	if first, err = pid(one); err != nil { // now that one is the session that a pooler gives away next
		return err
	}
	return pgx.BeginFunc(ctx, two, func(tx pgx.Tx) error {
		second, err := pid(tx)
		if err == nil && second == first {
			err = s.byTransaction()
		}
		return err
	})
}

func (s *Server) byTransaction() error {
	return fmt.Errorf("%w: what stands at %s gives every transaction another connection of the server: set pool_mode = session for this database there, or name the server itself", ErrPooler, s.where())
}

// idleMost is the server's name for Abandon.
const idleMost = "idle_in_transaction_session_timeout"

// greet has statements find the schema, sees to it that the server does not acknowledge what it may still lose, and does not wait for good for a program that has
// stopped. Limits of time that an administrator has set for all users do not hold for this program, whose dumps take as long as they take. A URL may say how long it waits.
// These are no parameters of the connection itself, which a pooler refuses.
func (s *Server) greet(ctx context.Context, c *pgx.Conn) error {
	sets := `set_config('search_path', $1, false)`
	params := c.Config().RuntimeParams
	for _, limit := range []struct {
		name string
		most time.Duration // 0: none
	}{{idleMost, s.cfg.Abandon}, {"statement_timeout", 0}, {"lock_timeout", 0}, {"transaction_timeout", 0}} {
		if _, given := params[limit.name]; given || strings.Contains(params["options"], limit.name) || limit.name == idleMost && limit.most <= 0 {
			continue
		}
		sets += fmt.Sprintf(`, CASE WHEN current_setting('%[1]s', true) IS NOT NULL THEN set_config('%[1]s', '%[2]d', false) END`, limit.name, limit.most.Milliseconds())
	}
	var level, set string
	if err := c.QueryRow(ctx, `SELECT current_setting('synchronous_commit'), concat(`+sets+`)`, pgx.QueryExecModeExec, pgx.Identifier{s.cfg.Schema}.Sanitize()).Scan(&level, &set); err != nil {
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
