package postgres

import (
	"context"
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
	if err := copyLines(ctx, conn, lines); err != nil {
		return channel.Imported{}, errors.Join(ctx.Err(), db.Explain(err))
	}
	var out channel.Imported
	err = db.writeOn(ctx, conn, &e, func(ctx context.Context, tx pgx.Tx) error {
		out = channel.Imported{}
		return moveLines(ctx, tx, &out)
	})
	if err != nil {
		return channel.Imported{}, db.Explain(err)
	}
	return out, nil
}

var lineColumns = []string{"n", "scope", "host", "tls", "dir", "many", "dirs", "body", "host_key", "state", "weight", "grp", "links", "facts", "why"}

func copyLines(ctx context.Context, conn *pgxpool.Conn, lines iter.Seq[channel.Line]) error {
	_, err := conn.Exec(ctx, `DROP TABLE IF EXISTS import_lines; CREATE TEMPORARY TABLE import_lines (n bigint, scope bytea, host text COLLATE "C", tls boolean, dir text COLLATE "C",
		many boolean, dirs text[], body bytea, host_key bigint, state smallint, weight real, grp smallint, links integer, facts bytea, why text)`, pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		return err
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
		h := &r.hot
		return []any{r.n, r.scope, r.host, r.tls, r.dir, r.many, r.dirs, r.body, int64(h.Host), int16(h.State), h.Weight, int16(h.Group), int32(h.Links), orNull(h.Facts), r.why}, ctx.Err()
	}))
	if bad != nil {
		return bad
	}
	return err
}

// moveLines moves the lines of new scopes to the channels.
func moveLines(ctx context.Context, tx pgx.Tx, out *channel.Imported) error {
	steps := []string{
		`CREATE TEMPORARY TABLE import_new ON COMMIT DROP AS SELECT nextval('channel_ids') AS id, f.* FROM (
			SELECT * FROM (SELECT DISTINCT ON (scope) * FROM import_lines ORDER BY scope, n) u
			WHERE NOT EXISTS (SELECT FROM channels c WHERE c.scope = u.scope) ORDER BY n) f`,
		`INSERT INTO channels (id, scope, host, tls, dir, many, body) SELECT id, scope, host, tls, dir, many, body FROM import_new`,
		`INSERT INTO hot (id, host_key, state, weight, grp, links, facts) SELECT id, host_key, state, weight, grp, links, facts FROM import_new`,
		`INSERT INTO learnt (id, reason, body) SELECT id, why, '' FROM import_new WHERE why <> ''`,
		`INSERT INTO set_dirs (host, tls, dir, id) SELECT host, tls, unnest(dirs), id FROM import_new WHERE many`,
	}
	for _, sql := range steps {
		if _, err := tx.Exec(ctx, sql); err != nil {
			return err
		}
	}
	var first, last int64
	var lines int
	if err := tx.QueryRow(ctx, `SELECT count(*), coalesce(min(id), 0), coalesce(max(id), 0), (SELECT count(*) FROM import_lines) FROM import_new`).
		Scan(&out.Added, &first, &last, &lines); err != nil {
		return err
	}
	out.First, out.Last, out.Duplicates = channel.ID(first), channel.ID(last), lines-out.Added
	if out.Duplicates == 0 {
		return nil
	}
	rows, err := tx.Query(ctx, `SELECT l.n, c.id, l.tls, l.host, l.dir, l.dirs FROM import_lines l JOIN channels c ON c.scope = l.scope
		WHERE NOT EXISTS (SELECT FROM import_new i WHERE i.n = l.n) ORDER BY l.n LIMIT $1`, channel.MaxRefusals)
	if err != nil {
		return err
	}
	out.Refused, err = pgx.CollectRows(rows, scanRefusal)
	return err
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
