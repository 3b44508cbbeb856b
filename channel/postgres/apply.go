package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"shoal/channel"
)

// Issue makes handings-out durable. When it returns, their offers may leave. It refuses those whose channel is gone
// or whose generation is not above the last one, and writes the others.
func (db *DB) Issue(ctx context.Context, e channel.Epoch, issues []channel.Issue) (refused []channel.Refusal, err error) {
	if len(issues) > channel.MaxIssues {
		return nil, fmt.Errorf("%w: %d handings-out, at most %d", ErrTooLarge, len(issues), channel.MaxIssues)
	}
	ids := make([]int64, len(issues))
	for n, i := range issues {
		if len(i.Lease) > channel.MaxLease {
			return nil, fmt.Errorf("%w: lease's record of %d bytes", channel.ErrTooLarge, len(i.Lease))
		}
		ids[n] = int64(i.ID)
	}
	err = db.write(ctx, &e, func(ctx context.Context, tx pgx.Tx) error {
		refused = nil
		gens, err := lastGens(ctx, tx, ids)
		if err != nil {
			return err
		}
		elsewhere, err := db.elsewhere(ctx, tx, e, ids)
		if err != nil {
			return err
		}
		var w hotWrite
		last := make(map[channel.ID]int) // place in w
		for n, i := range issues {
			gen, there := gens[i.ID]
			switch {
			case !there:
				refused = append(refused, channel.Refusal{N: n, Err: fmt.Errorf("%w: %d", channel.ErrUnknown, i.ID)})
				continue
			case elsewhere[i.ID]:
				refused = append(refused, channel.Refusal{N: n, Err: fmt.Errorf("%w: channel %d", channel.ErrStaleEpoch, i.ID)})
				continue
			case i.Gen <= gen:
				refused = append(refused, channel.Refusal{N: n, Err: fmt.Errorf("%w: channel %d, %d after %d", channel.ErrGen, i.ID, i.Gen, gen)})
				continue
			}
			gens[i.ID] = i.Gen
			at, again := last[i.ID]
			if !again {
				at = w.add(i.ID)
				last[i.ID] = at
			}
			w.gens[at], w.submitted[at], w.leases[at] = int64(i.Gen), micros(i.At), i.Lease
		}
		_, err = tx.Exec(ctx, `UPDATE hot SET gen = w.gen, submitted = w.submitted, lease = nullif(w.lease, '')
			FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bytea[]) AS w(id, gen, submitted, lease) WHERE hot.id = w.id`,
			w.ids, w.gens, w.submitted, w.leases)
		return err
	})
	return refused, err
}

// lastGens locks channels and returns their generations. It locks them by id, so that two writes never wait for each
// other.
func lastGens(ctx context.Context, tx pgx.Tx, ids []int64) (map[channel.ID]channel.Gen, error) {
	rows, err := tx.Query(ctx, `SELECT id, gen FROM hot WHERE id = ANY($1) ORDER BY id FOR UPDATE`, ids)
	if err != nil {
		return nil, err
	}
	gens := make(map[channel.ID]channel.Gen, len(ids))
	var id, gen int64
	_, err = pgx.ForEachRow(rows, []any{&id, &gen}, func() error {
		gens[channel.ID(id)] = channel.Gen(gen)
		return nil
	})
	return gens, err
}

// hotWrite is a write of the hot part of many channels, in columns.
type hotWrite struct {
	ids, gens, submitted []int64
	states               []int16
	links                []int32
	leases, facts        [][]byte
}

// add returns the place of a channel's columns.
func (w *hotWrite) add(id channel.ID) int {
	w.ids, w.gens, w.submitted = append(w.ids, int64(id)), append(w.gens, 0), append(w.submitted, 0)
	w.states, w.links = append(w.states, 0), append(w.links, 0)
	w.leases, w.facts = append(w.leases, nil), append(w.facts, nil)
	return len(w.ids) - 1
}

// Apply takes in stretches of feeds in their order, each whole or not at all. The cursor of a feed moves together
// with the effects. If Apply refuses a stretch with ErrCursor, because it was applied before or follows a missing
// one, it also refuses the later stretches of that feed.
func (db *DB) Apply(ctx context.Context, e channel.Epoch, stretches ...channel.Advance) error {
	for i := range stretches {
		if err := stretches[i].Check(); err != nil {
			return err
		}
	}
	var first error
	err := db.write(ctx, &e, func(ctx context.Context, tx pgx.Tx) error {
		first = nil
		for i := range stretches {
			part, err := tx.Begin(ctx) // a savepoint
			if err != nil {
				return err
			}
			if err := advance(ctx, part, &stretches[i]); err != nil {
				if !refuses(err) {
					return err
				}
				if first == nil {
					first = err
				}
				err = part.Rollback(ctx)
				if err != nil {
					return err
				}
			} else if err := part.Commit(ctx); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return first
}

// refuses reports whether an error is about one stretch, so that the others go on.
func refuses(err error) bool {
	return slices.ContainsFunc([]error{channel.ErrCursor, channel.ErrMalformed, channel.ErrTooLarge, channel.ErrScope}, func(e error) bool { return errors.Is(err, e) })
}

func advance(ctx context.Context, tx pgx.Tx, a *channel.Advance) error {
	if a.Feed != "" {
		if err := moveCursor(ctx, tx, a); err != nil {
			return err
		}
	}
	if err := applyEdits(ctx, tx, a); err != nil {
		return err
	}
	if err := putHosts(ctx, tx, a.Hosts); err != nil {
		return err
	}
	if err := putFound(ctx, tx, a.At, a.Found); err != nil {
		return err
	}
	if len(a.Counters) == 0 {
		return nil
	}
	names := slices.Sorted(maps.Keys(a.Counters))
	sums := make([]int64, len(names))
	for i, name := range names {
		sums[i] = a.Counters[name]
	}
	_, err := tx.Exec(ctx, `INSERT INTO counters (name, n) SELECT * FROM unnest($1::text[], $2::bigint[]) ORDER BY 1
		ON CONFLICT (name) DO UPDATE SET n = counters.n + excluded.n`, names, sums)
	return err
}

// moveCursor moves a feed's cursor if it stands where the stretch begins.
func moveCursor(ctx context.Context, tx pgx.Tx, a *channel.Advance) error {
	var at string
	err := tx.QueryRow(ctx, `SELECT at FROM cursors WHERE feed = $1 FOR UPDATE`, a.Feed).Scan(&at)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	if at != a.From {
		return fmt.Errorf("%w: at %q, not %q", channel.ErrCursor, at, a.From)
	}
	if err == nil {
		_, err = tx.Exec(ctx, `UPDATE cursors SET at = $2 WHERE feed = $1`, a.Feed, a.To)
		return err
	}
	_, err = tx.Exec(ctx, `INSERT INTO cursors (feed, at) VALUES ($1, $2)`, a.Feed, a.To)
	return err
}

// edited is a channel in the course of a stretch's edits. Nil pointers were not read or not changed.
type edited struct {
	at      int // place in the hotWrite
	why     string
	learnt  channel.Learnt
	told    bool // why or learnt changed
	pending []channel.Pending
	linked  bool // pending changed
}

// applyEdits reads the channels of a stretch, edits them in their order, and writes what changed.
func applyEdits(ctx context.Context, tx pgx.Tx, a *channel.Advance) error {
	if len(a.Edits) == 0 {
		return nil
	}
	w, chs, err := readEdited(ctx, tx, a.Edits)
	if err != nil {
		return err
	}
	for i := range a.Edits {
		e := &a.Edits[i]
		ch, there := chs[e.ID]
		if !there {
			continue
		}
		if err := w.edit(a.At, e, ch); err != nil {
			return fmt.Errorf("channel %d: %w", e.ID, err)
		}
	}
	return writeEdited(ctx, tx, w, chs)
}

func (w *hotWrite) edit(at time.Time, e *channel.Edit, ch *edited) error {
	i := ch.at
	if e.Lease != nil {
		if len(e.Lease) > channel.MaxLease {
			return fmt.Errorf("%w: lease's record of %d bytes", channel.ErrTooLarge, len(e.Lease))
		}
		w.leases[i], w.gens[i] = e.Lease, max(w.gens[i], int64(e.Gen))
	}
	if e.Learnt != nil {
		ch.learnt, ch.told = *e.Learnt, true
		if e.Learnt.EstimatorBlob != nil {
			w.facts[i] = e.Learnt.EstimatorBlob
		}
	}
	if e.State != 0 {
		w.states[i], ch.why, ch.told = int16(e.State), channel.Text(e.Reason), true
	}
	if e.Facts != nil {
		w.facts[i] = e.Facts
	}
	if len(w.facts[i]) > channel.MaxEstimator || e.State > channel.Removed {
		return fmt.Errorf("%w: scheduler's record of %d bytes, state %d", channel.ErrMalformed, len(w.facts[i]), e.State)
	}
	if e.Crawled.IsZero() && len(e.Inter) == 0 {
		return nil
	}
	var added int
	ch.pending, added = e.Pend(at, ch.pending)
	ch.linked = true
	if w.links[i] = int32(min(int(w.links[i])+added, channel.MaxLinks)); !e.Crawled.IsZero() {
		w.links[i] = int32(len(ch.pending))
	}
	return nil
}

// readEdited locks and reads the channels that edits name. Those that are gone are not in the result.
func readEdited(ctx context.Context, tx pgx.Tx, edits []channel.Edit) (*hotWrite, map[channel.ID]*edited, error) {
	ids := make([]int64, len(edits))
	var linked []int64
	for i := range edits {
		ids[i] = int64(edits[i].ID)
		if !edits[i].Crawled.IsZero() || len(edits[i].Inter) > 0 {
			linked = append(linked, ids[i])
		}
	}
	rows, err := tx.Query(ctx, `SELECT h.id, h.gen, h.submitted, h.state, h.links, h.lease, h.facts, coalesce(l.reason, ''), l.body
		FROM (SELECT * FROM hot WHERE id = ANY($1) ORDER BY id FOR UPDATE) h LEFT JOIN learnt l ON l.id = h.id`, ids)
	if err != nil {
		return nil, nil, err
	}
	w, chs := &hotWrite{}, make(map[channel.ID]*edited)
	var id, gen, submitted int64
	var state int16
	var links int32
	var lease, facts, learnt []byte
	var why string
	_, err = pgx.ForEachRow(rows, []any{&id, &gen, &submitted, &state, &links, &lease, &facts, &why, &learnt}, func() error {
		at := w.add(channel.ID(id))
		w.gens[at], w.submitted[at], w.states[at], w.links[at], w.leases[at], w.facts[at] = gen, submitted, state, links, lease, facts
		l, err := channel.ParseLearnt(learnt)
		if err != nil {
			return fmt.Errorf("%w: channel %d: %w", ErrDamaged, id, err)
		}
		chs[channel.ID(id)] = &edited{at: at, why: why, learnt: l}
		return nil
	})
	if err != nil || len(linked) == 0 {
		return w, chs, err
	}
	return w, chs, readPending(ctx, tx, linked, chs)
}

func readPending(ctx context.Context, tx pgx.Tx, ids []int64, chs map[channel.ID]*edited) error {
	rows, err := tx.Query(ctx, `SELECT id, found, urls FROM pending WHERE id = ANY($1)`, ids)
	if err != nil {
		return err
	}
	var id int64
	var found []int64
	var urls []string
	_, err = pgx.ForEachRow(rows, []any{&id, &found, &urls}, func() error {
		ch, there := chs[channel.ID(id)]
		if !there || len(found) != len(urls) {
			return fmt.Errorf("%w: pending URLs of channel %d", ErrDamaged, id)
		}
		for i := range urls {
			ch.pending = append(ch.pending, channel.Pending{Found: timeOf(found[i]), URL: urls[i]})
		}
		return nil
	})
	return err
}

func writeEdited(ctx context.Context, tx pgx.Tx, w *hotWrite, chs map[channel.ID]*edited) error {
	var b pgx.Batch
	b.Queue(`UPDATE hot SET gen = w.gen, state = w.state, links = w.links, lease = nullif(w.lease, ''), facts = nullif(w.facts, '')
		FROM unnest($1::bigint[], $2::bigint[], $3::smallint[], $4::integer[], $5::bytea[], $6::bytea[]) AS w(id, gen, state, links, lease, facts)
		WHERE hot.id = w.id`, w.ids, w.gens, w.states, w.links, w.leases, w.facts)
	var told []int64
	var reasons []string
	var bodies [][]byte
	for _, id := range slices.Sorted(maps.Keys(chs)) {
		ch := chs[id]
		if ch.told {
			told, reasons, bodies = append(told, int64(id)), append(reasons, ch.why), append(bodies, encodeLearnt(&ch.learnt))
		}
		if !ch.linked {
			continue
		}
		if len(ch.pending) == 0 {
			b.Queue(`DELETE FROM pending WHERE id = $1`, int64(id))
			continue
		}
		queuePending(&b, int64(id), ch.pending)
	}
	if len(told) > 0 {
		b.Queue(`INSERT INTO learnt (id, reason, body) SELECT * FROM unnest($1::bigint[], $2::text[], $3::bytea[])
			ON CONFLICT (id) DO UPDATE SET reason = excluded.reason, body = excluded.body`, told, reasons, bodies)
	}
	return tx.SendBatch(ctx, &b).Close()
}

// encodeLearnt leaves out what the table hot holds.
func encodeLearnt(learnt *channel.Learnt) []byte {
	l := *learnt
	l.Gen, l.Submitted, l.EstimatorBlob, l.LastError = 0, time.Time{}, nil, channel.Text(l.LastError)
	return l.Marshal()
}

func queuePending(b *pgx.Batch, id int64, pending []channel.Pending) {
	found, urls := make([]int64, len(pending)), make([]string, len(pending))
	for i, p := range pending {
		found[i], urls[i] = micros(p.Found), p.URL
	}
	b.Queue(`INSERT INTO pending (id, found, urls) VALUES ($1, $2, $3) ON CONFLICT (id) DO UPDATE SET found = excluded.found, urls = excluded.urls`, id, found, urls)
}

// Cursor returns the position up to which a feed was applied, "" if none of it was.
func (db *DB) Cursor(ctx context.Context, feed string) (at string, err error) {
	err = db.read(ctx, func() error {
		err := db.pool.QueryRow(ctx, `SELECT at FROM cursors WHERE feed = $1`, feed).Scan(&at)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		return err
	})
	return at, err
}

// Counters returns the sums of all Advance.Counters.
func (db *DB) Counters(ctx context.Context) (map[string]int64, error) {
	sums := make(map[string]int64)
	err := db.read(ctx, func() error {
		clear(sums)
		rows, err := db.pool.Query(ctx, `SELECT name, n FROM counters`)
		if err != nil {
			return err
		}
		var name string
		var n int64
		_, err = pgx.ForEachRow(rows, []any{&name, &n}, func() error {
			sums[name] = n
			return nil
		})
		return err
	})
	return sums, err
}

// PutState stores the state of a strategy under a name and replaces the old state.
func (db *DB) PutState(ctx context.Context, e channel.Epoch, name string, state []byte) error {
	if name == "" || len(name) > channel.MaxName || len(state) > channel.MaxStateBlob {
		return fmt.Errorf("%w: state of %d bytes, its name of %d", ErrTooLarge, len(state), len(name))
	}
	if state == nil {
		state = []byte{}
	}
	return db.write(ctx, &e, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO states (name, body) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET body = excluded.body`, name, state)
		return err
	})
}

// Kept returns a state as each manager keeps it that has the database or has had it: what one keeps that has it for itself comes first, then those that were
// here last.
func (db *DB) Kept(ctx context.Context, name string) (states [][]byte, err error) {
	err = db.read(ctx, func() error {
		rows, err := db.pool.Query(ctx, keptStates+` OR s.name = $1 ORDER BY s.name <> $1, t.last DESC NULLS LAST LIMIT 64`, name, "")
		if err != nil {
			return err
		}
		states, err = pgx.CollectRows(rows, pgx.RowTo[[]byte])
		return err
	})
	return states, err
}

// keptStates selects what managers among several keep of state $1, but for the one named $2.
const keptStates = `SELECT s.body FROM states s LEFT JOIN (SELECT node, max(id) AS last FROM tenancies GROUP BY node) t ON s.name = 'at/' || t.node || '/' || $1
	WHERE s.name LIKE 'at/%/%' AND substr(s.name, strpos(substr(s.name, 4), '/') + 4) = $1 AND s.name <> $2`

// State returns the stored state of a strategy, nil if there is none.
func (db *DB) State(ctx context.Context, name string) (state []byte, err error) {
	err = db.read(ctx, func() error {
		err := db.pool.QueryRow(ctx, `SELECT body FROM states WHERE name = $1`, name).Scan(&state)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		return err
	})
	return state, err
}
