package postgres

import (
	"context"
	"fmt"
	"iter"

	"github.com/jackc/pgx/v5"

	"shoal/channel"
)

// Dump calls f with everything that the database holds, as of one moment.
func (db *DB) Dump(ctx context.Context, f func(channel.Item) error) error {
	if db.closed.Load() {
		return ErrClosed
	}
	err := pgx.BeginTxFunc(ctx, db.pool, pgx.TxOptions{BeginQuery: "begin isolation level repeatable read read only; " + unhurried}, func(tx pgx.Tx) error {
		for _, part := range []struct {
			sql  string
			item func(pgx.CollectableRow) (channel.Item, error)
		}{
			{storedChannel, dumpChannel},
			{`SELECT name, next_visit, said, crawl_delay, blocked, place FROM hosts ORDER BY substr(name, strpos(name, '://') + 3) COLLATE "C", name`, dumpHost},
			{`SELECT host, links, first, last, source, seeds FROM candidates ORDER BY substr(host, strpos(host, '://') + 3) COLLATE "C", host`, dumpCandidate},
			{`SELECT feed, at FROM cursors ORDER BY feed`, dumpCursor},
			{`SELECT name, n FROM counters ORDER BY name`, dumpCounter},
			{`SELECT name, body FROM states ORDER BY name`, dumpState},
			{`SELECT CASE WHEN is_called THEN last_value + 1 ELSE last_value END FROM channel_ids`, dumpNext},
		} {
			if err := eachItem(ctx, tx, part.sql, part.item, f); err != nil {
				return err
			}
		}
		return nil
	})
	return db.Explain(err)
}

// unhurried is for a transaction that waits for more than the server: for the disk to which its rows go, or from which they come. It comes in one message with
// what begins the transaction, so that none of it is held up under the usual limit.
const unhurried = "set local " + idleMost + " = 0"

func eachItem(ctx context.Context, tx pgx.Tx, sql string, item func(pgx.CollectableRow) (channel.Item, error), f func(channel.Item) error) error {
	rows, err := tx.Query(ctx, sql)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		it, err := item(rows)
		if err != nil {
			return err
		}
		if err := f(it); err != nil {
			return err
		}
	}
	return rows.Err()
}

const storedChannel = `SELECT c.id, c.body, h.state, h.gen, h.submitted, h.facts, coalesce(l.reason, ''), l.body, p.urls, p.found, h.lease
	FROM channels c JOIN hot h ON h.id = c.id LEFT JOIN learnt l ON l.id = c.id LEFT JOIN pending p ON p.id = c.id ORDER BY c.id`

func dumpChannel(r pgx.CollectableRow) (channel.Item, error) {
	var found []int64
	s := &channel.Stored{}
	var err error
	if s.Channel, err = scanChannel(r, &found, &s.Lease); err != nil {
		return channel.Item{}, err
	}
	if len(found) != len(s.Inter) {
		return channel.Item{}, fmt.Errorf("%w: pending URLs of channel %d", ErrDamaged, s.ID)
	}
	for i, u := range s.Inter {
		s.Pending = append(s.Pending, channel.Pending{Found: timeOf(found[i]), URL: u})
	}
	s.Inter = nil
	return channel.Item{Channel: s}, nil
}

func dumpHost(r pgx.CollectableRow) (channel.Item, error) {
	h := &channel.Host{}
	var next, said, delay int64
	var place []byte
	if err := r.Scan(&h.Name, &next, &said, &delay, &h.Blocked, &place); err != nil {
		return channel.Item{}, err
	}
	h.NextVisit, h.Rest, h.CrawlDelay = timeOf(next), restOf(next, said), spanOf(delay)
	return channel.Item{Host: h}, setRecord(h, place)
}

func dumpCandidate(r pgx.CollectableRow) (channel.Item, error) {
	c, err := scanCandidate(r)
	return channel.Item{Candidate: &c}, err
}

func dumpCursor(r pgx.CollectableRow) (channel.Item, error) {
	c := &channel.Cursor{}
	return channel.Item{Cursor: c}, r.Scan(&c.Feed, &c.At)
}

func dumpCounter(r pgx.CollectableRow) (channel.Item, error) {
	c := &channel.Counter{}
	return channel.Item{Counter: c}, r.Scan(&c.Name, &c.N)
}

func dumpState(r pgx.CollectableRow) (channel.Item, error) {
	s := &channel.Blob{}
	return channel.Item{State: s}, r.Scan(&s.Name, &s.Body)
}

func dumpNext(r pgx.CollectableRow) (channel.Item, error) {
	var next int64
	err := r.Scan(&next)
	return channel.Item{Next: channel.ID(next)}, err
}

// loadBatch is the number of items that Load writes at a time.
const loadBatch = 1000

// Load fills an empty database with the items of a dump, all of them or none.
func (db *DB) Load(ctx context.Context, items iter.Seq2[channel.Item, error]) error {
	e, err := db.Take(ctx)
	if err != nil {
		return err
	}
	next, stop := iter.Pull2(items)
	defer stop()
	conn, err := db.pool.Acquire(ctx)
	if err != nil {
		return db.Explain(err)
	}
	defer conn.Release()
	begun := false
	err = db.writeOn(ctx, conn, pgx.TxOptions{BeginQuery: "begin; " + unhurried}, &e, func(ctx context.Context, tx pgx.Tx) error {
		if begun { // the items are gone
			return fmt.Errorf("%w: the connection was lost, and nothing was written: try again", ErrUnreachable)
		}
		begun = true
		if err := db.mustBeEmpty(ctx, tx); err != nil {
			return err
		}
		for {
			batch, err := pull(next)
			if err != nil || len(batch) == 0 {
				return err
			}
			if err := loadItems(ctx, tx, batch); err != nil {
				return err
			}
		}
	})
	return db.Explain(err)
}

// pull returns the next items, none at the end.
func pull(next func() (channel.Item, error, bool)) (batch []channel.Item, err error) {
	for len(batch) < loadBatch {
		it, err, more := next()
		if err != nil {
			return nil, err
		}
		if !more {
			break
		}
		batch = append(batch, it)
	}
	return batch, nil
}

func (db *DB) mustBeEmpty(ctx context.Context, tx pgx.Tx) error {
	var filled bool
	if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM channels) OR EXISTS (SELECT FROM hosts) OR EXISTS (SELECT FROM candidates)
		OR EXISTS (SELECT FROM cursors) OR EXISTS (SELECT FROM counters) OR EXISTS (SELECT FROM states)`).Scan(&filled); err != nil {
		return err
	}
	if filled {
		return fmt.Errorf("%w: %s: choose another database, or remove those channels with DROP SCHEMA %s CASCADE", channel.ErrNotEmpty, db.where(), db.cfg.Schema)
	}
	return nil
}

// MustBeEmpty is ErrNotEmpty if the database holds anything.
func (db *DB) MustBeEmpty(ctx context.Context) error {
	return db.Explain(pgx.BeginTxFunc(ctx, db.pool, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error { return db.mustBeEmpty(ctx, tx) }))
}

// Clear removes all that Load fills.
func (db *DB) Clear(ctx context.Context) error {
	e, err := db.Take(ctx)
	if err != nil {
		return err
	}
	return db.write(ctx, &e, func(ctx context.Context, tx pgx.Tx) error {
		for _, table := range []string{"pending", "learnt", "hot", "set_dirs", "channels", "hosts", "candidates", "cursors", "counters", "states"} {
			if _, err := tx.Exec(ctx, `DELETE FROM `+table); err != nil {
				return err
			}
		}
		return nil
	})
}

func loadItems(ctx context.Context, tx pgx.Tx, items []channel.Item) error {
	var rows []row
	var hosts []channel.Host
	var b pgx.Batch
	for i := range items {
		switch it := &items[i]; {
		case it.Channel != nil:
			r, err := prepareNew(i, &it.Channel.Channel)
			if err != nil {
				return fmt.Errorf("channel %d: %w", it.Channel.ID, err)
			}
			r.hot.ID, r.why = it.Channel.ID, ""
			rows = append(rows, r)
			queueStored(&b, it.Channel)
		case it.Host != nil:
			hosts = append(hosts, *it.Host)
		case it.Candidate != nil:
			queueCandidate(&b, it.Candidate)
			b.Queue(`UPDATE tenure SET found = found + 1 WHERE one = 1`)
		case it.Cursor != nil:
			b.Queue(`INSERT INTO cursors (feed, at) VALUES ($1, $2)`, it.Cursor.Feed, it.Cursor.At)
		case it.Counter != nil:
			b.Queue(`INSERT INTO counters (name, n) VALUES ($1, $2)`, it.Counter.Name, it.Counter.N)
		case it.State != nil:
			b.Queue(`INSERT INTO states (name, body) VALUES ($1, $2)`, it.State.Name, append([]byte{}, it.State.Body...))
		default:
			b.Queue(`SELECT setval('channel_ids', $1, false)`, int64(max(it.Next, 1)))
		}
	}
	if err := eachOnce(ctx, tx, rows, items); err != nil {
		return err
	}
	if err := insert(ctx, tx, rows); err != nil {
		return err
	}
	if err := putHosts(ctx, tx, hosts); err != nil {
		return err
	}
	return tx.SendBatch(ctx, &b).Close()
}

// eachOnce refuses channels whose scope another one has. Older versions could store such in a folder: one of a directory, and one that named it twice.
func eachOnce(ctx context.Context, tx pgx.Tx, rows []row, items []channel.Item) error {
	if len(rows) == 0 {
		return nil
	}
	taken, err := takenScopes(ctx, tx, rows)
	if err != nil {
		return err
	}
	for i := range rows {
		r := &rows[i]
		if by, twice := taken[string(r.scope)]; twice {
			return fmt.Errorf("%w, and channel %d too: remove one of them, and try again", items[r.n].Channel.Scope.Taken(by), r.hot.ID)
		}
		taken[string(r.scope)] = r.hot.ID
	}
	return nil
}

// queueStored writes what a channel has beside the rows of a new one.
func queueStored(b *pgx.Batch, s *channel.Stored) {
	id := int64(s.ID)
	if s.Learnt.Gen != 0 || len(s.Lease) > 0 || len(s.Pending) > 0 {
		b.Queue(`UPDATE hot SET gen = $2, submitted = $3, lease = $4, links = least(links + $5, $6) WHERE id = $1`,
			id, int64(s.Learnt.Gen), micros(s.Learnt.Submitted), orNull(s.Lease), len(s.Pending), channel.MaxLinks)
	}
	b.Queue(`INSERT INTO learnt (id, reason, body) VALUES ($1, $2, $3)`, id, channel.Text(s.Reason), encodeLearnt(&s.Learnt))
	if len(s.Pending) > 0 {
		queuePending(b, id, s.Pending)
	}
}
