package pgledger

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"shoal/channel/postgres"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/ledger/badgerledger"
)

// unwritten reports whether no entry was ever appended.
func (h *head) unwritten() bool { return h.seq == 0 && h.base == 0 && h.snapshot == "" }

// Unwritten reports whether a server has no archive, or one to which nothing was ever written; where names the place in messages. It changes nothing there.
func Unwritten(ctx context.Context, cfg postgres.Config) (is bool, where string, err error) {
	server, err := postgres.Look(ctx, cfg)
	if err != nil {
		return false, "", err
	}
	defer server.Pool().Close()
	err = server.Pool().QueryRow(ctx, `SELECT count(*) = 0 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = 'heads'`, cfg.Schema).Scan(&is)
	if err == nil && !is {
		err = server.Pool().QueryRow(ctx, `SELECT seq = 0 AND base = 0 AND snapshot = '' FROM `+pgx.Identifier{cfg.Schema, "heads"}.Sanitize()+` WHERE part = $1`, part).Scan(&is)
		if errors.Is(err, pgx.ErrNoRows) {
			return true, server.Where(), nil
		}
	}
	return is, server.Where(), server.Explain(err)
}

// mayBegin refuses to begin a new archive in place of one that the server has lost, or that another one has.
func (s *Store) mayBegin(ctx context.Context, h *head, at badgerledger.Position) error {
	if !h.unwritten() {
		return nil
	}
	if s.cfg.Unwritten != nil {
		if err := s.cfg.Unwritten(ctx); err != nil {
			return err
		}
	}
	if at.Seq > 0 && s.copied.Head().ID != h.archive {
		return fmt.Errorf("%w: %s holds the copy of an archive, and %s has none: name the database that belongs to it, or restore that one from its backup; nothing was changed. If that archive is not wanted any more, remove this folder",
			ledger.ErrState, s.cfg.Copy.Dir, s.server.Where())
	}
	return nil
}
