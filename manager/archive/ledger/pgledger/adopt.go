package pgledger

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"shoal/manager/archive/ledger"
)

// ErrNotEmpty says that the server holds an archive already.
var ErrNotEmpty = errors.New("archive: the server holds one already")

// MayAdopt says why Adopt would refuse an archive: the server holds another one. It changes nothing that counts.
func MayAdopt(ctx context.Context, cfg Config, id [8]byte) error {
	cfg.complete()
	server, err := connect(ctx, cfg)
	if err != nil {
		return err
	}
	defer server.Pool().Close()
	return (&Store{cfg: cfg, server: server}).mayAdopt(ctx, id)
}

// Adopt makes the ledger of another store the one on a server, which must be empty, or hold what an earlier try left there. The other store must
// not be written meanwhile. cfg's copy is not touched: Open makes it.
func Adopt(ctx context.Context, cfg Config, from ledger.Store) (err error) {
	cfg.complete()
	server, err := connect(ctx, cfg)
	if err != nil {
		return err
	}
	defer server.Pool().Close()
	s := &Store{cfg: cfg, server: server}
	if s.packer, err = newPacker(); err != nil {
		return err
	}
	id := from.Head().ID
	if err := s.mayAdopt(ctx, id); err != nil {
		return err
	}
	name, _, size, err := s.writeSnapshot(ctx, from)
	if err != nil {
		return err
	}
	var key [16]byte
	rand.Read(key[:])
	body := s.packer.pack(nil)
	err = server.Transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `UPDATE heads SET archive = $2, first = 1, key = $3, epoch = epoch + 1, seq = 1, base = 1, snapshot = $4, size = $5, grown = 0 WHERE part = $1 AND seq <= 1`,
			part, id[:], key[:], name, size)
		if err == nil && tag.RowsAffected() == 0 {
			err = s.notEmpty()
		}
		if err == nil {
			_, err = tx.Exec(ctx, `INSERT INTO log (part, seq, key, body) VALUES ($1, 1, $2, $3) ON CONFLICT (part, seq) DO UPDATE SET key = excluded.key, body = excluded.body`, part, key[:], body)
		}
		return err
	})
	return server.Explain(err)
}

// mayAdopt finds out whether the server is empty.
func (s *Store) mayAdopt(ctx context.Context, id [8]byte) error {
	var seq int64
	var is []byte
	if err := s.server.Pool().QueryRow(ctx, `SELECT seq, archive FROM heads WHERE part = $1`, part).Scan(&seq, &is); err != nil {
		return s.server.Explain(err)
	}
	if seq > 1 || seq == 1 && string(is) != string(id[:]) {
		return s.notEmpty()
	}
	return nil
}

func (s *Store) notEmpty() error {
	return fmt.Errorf("%w: %s: choose another database, or remove that archive with DROP SCHEMA %s CASCADE, and its objects in the bucket", ErrNotEmpty, s.server.Where(), s.cfg.Server.Schema)
}
