package postgres

import (
	"context"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// migrations are numbered from 0001. Each leads from the version before to its own. None is ever changed once it was
// part of a release.
//
//go:embed migrations/*.sql
var migrations embed.FS

// prepare brings the schema to the version that this program knows, and claims it for the network.
func (s *Server) prepare(ctx context.Context, from fs.FS, claim Claim) error {
	if err := s.createVersions(ctx); err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		var version int
		if err := tx.QueryRow(ctx, `SELECT version FROM versions WHERE one = 1 FOR UPDATE`).Scan(&version); err != nil {
			return err
		}
		steps, err := fs.Glob(from, "*.sql")
		if err != nil {
			return err
		}
		slices.Sort(steps)
		if version > len(steps) {
			return fmt.Errorf("%w: %s has version %d, this program knows up to %d: use the newer program that wrote it", ErrNewer, s.Where(), version, len(steps))
		}
		for i := version; i < len(steps); i++ {
			sql, err := fs.ReadFile(from, steps[i])
			if err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, string(sql), pgx.QueryExecModeSimpleProtocol); err != nil {
				return fmt.Errorf("bring %s from version %d to %d: %w", s.where(), i, i+1, err)
			}
		}
		if _, err := tx.Exec(ctx, `UPDATE versions SET version = $1 WHERE one = 1`, len(steps)); err != nil {
			return err
		}
		return claim(ctx, s, tx)
	})
}

// createVersions creates the schema and the table that holds its version. Several programs may do so at once.
func (s *Server) createVersions(ctx context.Context) error {
	for try := 0; ; try++ {
		err := s.createVersionsOnce(ctx)
		var pg *pgconn.PgError
		if try < 5 && errors.As(err, &pg) && (pg.Code == codeUnique || strings.HasPrefix(pg.Code, "42P0")) { // another program was faster
			continue
		}
		return err
	}
}

func (s *Server) createVersionsOnce(ctx context.Context) error {
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		var there bool
		if err := tx.QueryRow(ctx, `SELECT count(*) > 0 FROM pg_namespace WHERE nspname = $1`, s.cfg.Schema).Scan(&there); err != nil {
			return err
		}
		if !there { // who may not create schemas can be given an empty one
			if _, err := tx.Exec(ctx, `CREATE SCHEMA `+pgx.Identifier{s.cfg.Schema}.Sanitize()); err != nil {
				return err
			}
		}
		if _, err := tx.Exec(ctx, `CREATE TABLE IF NOT EXISTS versions (one smallint PRIMARY KEY CHECK (one = 1), version integer NOT NULL)`); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `INSERT INTO versions (one, version) VALUES (1, 0) ON CONFLICT DO NOTHING`)
		return err
	})
}

// claimChannels notes the network that the database belongs to, or refuses another's.
func claimChannels(ctx context.Context, s *Server, tx pgx.Tx) error {
	if s.cfg.Network == ([32]byte{}) {
		return nil
	}
	var network []byte
	if err := tx.QueryRow(ctx, `SELECT network FROM tenure WHERE one = 1 FOR UPDATE`).Scan(&network); err != nil {
		return err
	}
	if network == nil {
		_, err := tx.Exec(ctx, `UPDATE tenure SET network = $1 WHERE one = 1`, s.cfg.Network[:])
		return err
	}
	return s.Belongs(network)
}

// Belongs returns an error unless the network that a schema names is the one of the configuration. If that names none, any is right.
func (s *Server) Belongs(network []byte) error {
	switch {
	case s.cfg.Network == [32]byte{}:
	case len(network) != 32:
		return fmt.Errorf("%w: the network in %s has %d bytes", ErrDamaged, s.where(), len(network))
	case [32]byte(network) != s.cfg.Network:
		return fmt.Errorf("%w: %s is of network %s, this manager's is %s: choose another database, or restore the key that belongs to it",
			ErrOtherNetwork, s.Where(), hex.EncodeToString(network[:8]), hex.EncodeToString(s.cfg.Network[:8]))
	}
	return nil
}
