package postgres

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"shoal/channel"
)

// Import adds any number of channels: all of them, or none if a line has an Err or a bad scope. It skips lines whose
// scope a channel or an earlier line has, and counts and names them. Other writes go on meanwhile.
//
// Import copies the lines into a table of its own connection. One transaction then moves them to the channels, so
// that nothing is seen of an import that is cut short.
func (db *DB) Import(ctx context.Context, e channel.Epoch, lines iter.Seq[channel.Line]) (channel.Imported, error) {
	if db.closed.Load() {
		return channel.Imported{}, ErrClosed
	}
	conn, err := db.pool.Acquire(ctx)
	if err != nil {
		return channel.Imported{}, db.Explain(err)
	}
	defer conn.Release()
	defer func() { // a table that stays would be seen by the connection's next import
		if _, err := conn.Exec(context.WithoutCancel(ctx), `DROP TABLE IF EXISTS import_lines`); err != nil {
			_ = conn.Conn().Close(context.WithoutCancel(ctx))
		}
	}()
	copied, err := copyLines(ctx, conn, lines)
	if err != nil {
		return channel.Imported{}, errors.Join(ctx.Err(), db.Explain(err))
	}
	var out channel.Imported
	err = db.writeOn(ctx, conn, pgx.TxOptions{}, &e, func(ctx context.Context, tx pgx.Tx) error {
		out = channel.Imported{}
		return moveLines(ctx, tx, copied, &out)
	})
	if err != nil {
		return channel.Imported{}, db.Explain(err)
	}
	return out, nil
}

var lineColumns = []string{"k", "n", "scope", "reach", "other", "digest", "host", "tls", "dir", "many", "dirs", "body", "host_key", "state", "weight", "grp", "links", "facts", "why"}

// copied counts lines, and those of them whose directories have another spelling.
type copied struct{ lines, spelt int }

// copyLines copies the lines and counts them. k numbers them from 1 on, without gaps; digest is the beginning of reach, or of scope where that is the same.
func copyLines(ctx context.Context, conn *pgxpool.Conn, lines iter.Seq[channel.Line]) (n copied, err error) {
	_, err = conn.Exec(ctx, `DROP TABLE IF EXISTS import_lines; CREATE TEMPORARY TABLE import_lines (k bigint, n bigint, scope bytea, reach bytea, other bytea[], digest bigint, host text COLLATE "C", tls boolean, dir text COLLATE "C",
		many boolean, dirs text[], body bytea, host_key bigint, state smallint, weight real, grp smallint, links integer, facts bytea, why text)`, pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		return n, err
	}
	next, stop := iter.Pull(lines)
	defer stop()
	var bad error // of a line; the server's answer to it says less
	_, err = conn.CopyFrom(ctx, pgx.Identifier{"import_lines"}, lineColumns, pgx.CopyFromFunc(func() ([]any, error) {
		l, more := next()
		if !more {
			return nil, nil
		}
		r, err := row{}, l.Err
		if err == nil {
			r, err = prepareNew(l.N, &l.Channel)
		}
		if err != nil {
			bad = fmt.Errorf("line %d: %w", l.N, err)
			return nil, bad
		}
		n.lines++
		reach := r.scope
		if r.reach != nil {
			reach = r.reach
			n.spelt++
		}
		h := &r.hot
		return []any{int64(n.lines), r.n, r.scope, orNull(r.reach), r.other, int64(binary.BigEndian.Uint64(reach)), r.host, r.tls, r.dir, r.many, r.dirs, r.body,
			int64(h.Host), int16(h.State), h.Weight, int16(h.Group), int32(h.Links), orNull(h.Facts), r.why}, ctx.Err()
	}))
	if bad != nil {
		return n, bad
	}
	return n, err
}

// sortMemory is how much the server may use to sort or to join the lines. A million need about 100 MB; with less it uses its disk.
const sortMemory = "128MB"

// moveLines moves the lines of new scopes to the channels. There are as many as it is told.
func moveLines(ctx context.Context, tx pgx.Tx, n copied, out *channel.Imported) error {
	if _, err := tx.Exec(ctx, `SET LOCAL work_mem = '`+sortMemory+`'`); err != nil {
		return err
	}
	var err error
	if out.Duplicates, err = findDuplicates(ctx, tx, n); err != nil {
		return err
	}
	if out.Added = n.lines - out.Duplicates; out.Added > 0 {
		if err := insertLines(ctx, tx, out); err != nil {
			return err
		}
	}
	if out.Duplicates == 0 {
		return nil
	}
	rows, err := tx.Query(ctx, `SELECT l.n, c.id, l.tls, l.host, l.dir, l.dirs FROM (SELECT k FROM import_duplicates ORDER BY k LIMIT $1) d JOIN import_lines l USING (k)
		CROSS JOIN LATERAL (SELECT id FROM channels WHERE scope = l.scope OR scope = ANY(l.other) ORDER BY scope <> l.scope, id LIMIT 1) c ORDER BY k`, channel.MaxRefusals)
	if err != nil {
		return err
	}
	out.Refused, err = pgx.CollectRows(rows, scanRefusal)
	return err
}

// findDuplicates counts the lines whose scope a channel or an earlier line has. If there are any, they are in the table import_duplicates.
func findDuplicates(ctx context.Context, tx pgx.Tx, of copied) (n int, err error) {
	if of.spelt == 0 { // a channel that is spelt otherwise is none of theirs
		var none bool // most imports have none; to compare digests costs a fraction of what it costs to sort the scopes
		err = tx.QueryRow(ctx, `SELECT (SELECT count(DISTINCT digest) FROM import_lines) = $1 AND NOT EXISTS (SELECT FROM import_lines l JOIN channels c ON c.scope = l.scope)`, of.lines).Scan(&none)
		if err != nil || none {
			return 0, err
		}
	}
	tag, err := tx.Exec(ctx, `CREATE TEMPORARY TABLE import_duplicates ON COMMIT DROP AS
		SELECT k FROM (SELECT k, scope, other, row_number() OVER (PARTITION BY coalesce(reach, scope) ORDER BY k) AS nth FROM import_lines) l
		WHERE nth > 1 OR EXISTS (SELECT FROM channels c WHERE c.scope = l.scope) OR other IS NOT NULL AND EXISTS (SELECT FROM channels c WHERE c.scope = ANY(l.other))`)
	return int(tag.RowsAffected()), err
}

// insertLines makes the rows of the lines that are no duplicates. It takes as many ids as there are of them, so that none is left out.
func insertLines(ctx context.Context, tx pgx.Tx, out *channel.Imported) error {
	if _, err := tx.Exec(ctx, fmt.Sprintf(`CREATE TEMPORARY TABLE import_ids ON COMMIT DROP AS SELECT row_number() OVER () AS nth, nextval('channel_ids') AS id FROM generate_series(1, %d)`, out.Added)); err != nil {
		return err
	}
	if err := tx.QueryRow(ctx, `SELECT min(id), max(id) FROM import_ids`).Scan(&out.First, &out.Last); err != nil {
		return err
	}
	id, of := fmt.Sprintf("k + %d", out.First-1), "import_lines"
	switch inOne := int(out.Last-out.First)+1 == out.Added; {
	case out.Duplicates > 0:
		id, of = "id", `(SELECT l.*, i.id FROM (SELECT *, row_number() OVER (ORDER BY k) AS nth FROM import_lines l WHERE NOT EXISTS (SELECT FROM import_duplicates d WHERE d.k = l.k)) l JOIN import_ids i USING (nth)) l`
	case !inOne: // other writes have taken ids meanwhile
		id, of = "id", `(SELECT l.*, i.id FROM import_lines l JOIN import_ids i ON i.nth = l.k) l`
	}
	for _, sql := range []string{
		`INSERT INTO channels (id, scope, host, tls, dir, many, body) SELECT ` + id + `, scope, host, tls, dir, many, body FROM ` + of,
		`INSERT INTO hot (id, host_key, state, weight, grp, links, facts) SELECT ` + id + `, host_key, state, weight, grp, links, facts FROM ` + of,
		`INSERT INTO learnt (id, reason, body) SELECT ` + id + `, why, '' FROM ` + of + ` WHERE why <> ''`,
		`INSERT INTO set_dirs (host, tls, dir, id) SELECT host, tls, unnest(dirs), ` + id + ` FROM ` + of + ` WHERE many`,
	} {
		if _, err := tx.Exec(ctx, sql); err != nil {
			return err
		}
	}
	return nil
}

func scanRefusal(r pgx.CollectableRow) (channel.Refusal, error) {
	var n, id int64
	var tls bool
	var host, dir string
	var dirs []string
	if err := r.Scan(&n, &id, &tls, &host, &dir, &dirs); err != nil {
		return channel.Refusal{}, err
	}
	s := channel.Scope{Host: "http://" + host, Dirs: dirs}
	if tls {
		s.Host = "https://" + host
	}
	if len(dirs) == 0 && strings.Trim(dir, "/") != "" {
		s.Dirs = []string{dir}
	}
	return channel.Refusal{N: int(n), ID: channel.ID(id), Err: s.Taken(channel.ID(id))}, nil
}
