package pgledger

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// Who waits for other writers asks often. So it asks without a lock, which everyone who appends would wait for; only what ends the wait is made sure by a
// write, under the lock: what a read alone sees, a failover may lose.

// Name is this writer's own.
func (s *Store) Name() string { return s.cfg.Writer }

// Pass notes that this writer has answered a wait.
func (s *Store) Pass(ctx context.Context, wait []byte) error {
	return s.patiently(ctx, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE writers SET passed = $3 WHERE part = $1 AND token = $2`, part, s.cfg.Writer, wait)
		return err
	})
}

// Behind counts the other writers that have not answered a wait. Those that are silent are shut out first: they would never answer.
func (s *Store) Behind(ctx context.Context, wait []byte) (n int, err error) {
	return s.others(ctx, `passed IS DISTINCT FROM $3`, wait)
}

// Writes reports whether a writer may still append. One that is silent is shut out by the question.
func (s *Store) Writes(ctx context.Context, name string) (is bool, err error) {
	n, err := s.others(ctx, `token = $3`, name)
	return n > 0, err
}

// silent is a condition: the writer was not heard of lately, and $2 was, all the while. Where that one was not either, the server was away, and all have as
// long as ever to come back. One that was heard of later than now was so before the server's clock went back.
const silent = `(at = '-infinity' OR NOT at BETWEEN now() - interval '` + aliveFor + `' AND now() + interval '` + aliveFor + `' AND EXISTS (SELECT FROM writers me
	WHERE me.part = $1 AND me.token = $2 AND me.since <= now() - interval '` + aliveFor + `' AND me.at BETWEEN now() - interval '` + steadyGap + `' AND now()))`

const otherWriters = ` FROM writers WHERE part = $1 AND token <> $2 AND `

// others counts the other writers of which a condition on $3 holds, but for those that are silent: they are shut out.
func (s *Store) others(ctx context.Context, condition string, of any) (n int, err error) {
	err = s.server.Patiently(ctx, func() error {
		return s.server.Pool().QueryRow(ctx, `SELECT count(*)`+otherWriters+condition+` AND NOT `+silent, part, s.cfg.Writer, of).Scan(&n)
	})
	if err != nil || n > 0 {
		return n, s.server.Explain(err)
	}
	err = s.patiently(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `UPDATE heads SET looked = now() WHERE part = $1`, part); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `DELETE`+otherWriters+silent, part, s.cfg.Writer); err != nil {
			return err
		}
		return tx.QueryRow(ctx, `SELECT count(*)`+otherWriters+condition, part, s.cfg.Writer, of).Scan(&n)
	})
	return n, err
}

// Newest is the ID up to which no writer adds to a segment any more: each that is there began later. This one and all others have read what was stored before.
func (s *Store) Newest(ctx context.Context) (id uint32, err error) {
	err = s.patiently(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `UPDATE heads SET looked = now() WHERE part = $1`, part); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `DELETE`+otherWriters+silent, part, s.cfg.Writer); err != nil {
			return err
		}
		var n int64
		err := tx.QueryRow(ctx, `SELECT coalesce(min(first), 0) FROM writers WHERE part = $1`, part).Scan(&n)
		id = uint32(n)
		return err
	})
	return id, err
}

// First reports whether this is the first of the writers, by their names: one of them does what need not be done by all.
func (s *Store) First(ctx context.Context) (is bool, err error) {
	err = s.server.Pool().QueryRow(ctx, `SELECT coalesce(min(token), $2) = $2 FROM writers WHERE part = $1 AND at > now() - $3::interval`, part, s.cfg.Writer, aliveFor).Scan(&is)
	return is, s.server.Explain(err)
}
