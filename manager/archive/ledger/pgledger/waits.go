package pgledger

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// Name is this writer's own.
func (s *Store) Name() string { return s.cfg.Writer }

// Pass notes that this writer has answered a wait.
func (s *Store) Pass(ctx context.Context, wait []byte) error {
	return s.patiently(ctx, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE writers SET passed = $3 WHERE part = $1 AND token = $2`, part, s.cfg.Writer, wait)
		return err
	})
}

// Behind counts the other writers that have not answered a wait. Those that were not heard of lately are shut out first: they would never answer.
func (s *Store) Behind(ctx context.Context, wait []byte) (n int, err error) {
	err = s.patiently(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if err := s.dropSilent(ctx, tx); err != nil {
			return err
		}
		return tx.QueryRow(ctx, `SELECT count(*) FROM writers WHERE part = $1 AND token <> $2 AND passed IS DISTINCT FROM $3`, part, s.cfg.Writer, wait).Scan(&n)
	})
	return n, err
}

// Writes reports whether a writer may still append. One that was not heard of lately is shut out by the question.
func (s *Store) Writes(ctx context.Context, name string) (is bool, err error) {
	err = s.patiently(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if err := s.dropSilent(ctx, tx); err != nil {
			return err
		}
		return tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM writers WHERE part = $1 AND token = $2)`, part, name).Scan(&is)
	})
	return is, err
}

func (s *Store) dropSilent(ctx context.Context, tx pgx.Tx) error {
	if err := lockHead(ctx, tx); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `DELETE FROM writers WHERE part = $1 AND token <> $2 AND at <= now() - $3::interval`, part, s.cfg.Writer, aliveFor)
	return err
}

// First reports whether this is the first of the writers, by their names: one of them does what need not be done by all.
func (s *Store) First(ctx context.Context) (is bool, err error) {
	err = s.server.Pool().QueryRow(ctx, `SELECT coalesce(min(token), $2) = $2 FROM writers WHERE part = $1 AND at > now() - $3::interval`, part, s.cfg.Writer, aliveFor).Scan(&is)
	return is, s.server.Explain(err)
}
