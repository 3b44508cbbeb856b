package postgres

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"shoal/channel"
)

// row is a new channel as its tables hold it.
type row struct {
	n     int64 // line of an import, or place in a batch
	scope []byte
	other [][]byte // keys of what reaches the same, spelt otherwise; most have none
	reach []byte   // scope in the spelling of today; nil: as scope
	host  string
	tls   bool
	dir   string
	many  bool
	dirs  []string // of a set
	body  []byte
	hot   channel.Hot
	why   string
}

func prepareNew(n int, ch *channel.Channel) (row, error) {
	if err := ch.Scope.Validate(); err != nil {
		return row{}, err
	}
	state := max(ch.State, channel.Active)
	if state > channel.Removed || len(ch.Learnt.EstimatorBlob) > channel.MaxEstimator {
		return row{}, fmt.Errorf("%w: state %d, scheduler's record of %d bytes", channel.ErrMalformed, state, len(ch.Learnt.EstimatorBlob))
	}
	body, err := encodeBody(ch)
	if err != nil {
		return row{}, err
	}
	r := row{n: int64(n), body: body, why: channel.Text(ch.Reason), hot: channel.Hot{
		Host: channel.KeyOf(ch.Scope.Host), State: state, Weight: ch.Settings.Weight, Group: ch.Settings.Group,
		Links: min(len(ch.Seeds), channel.MaxLinks), Facts: ch.Learnt.EstimatorBlob,
	}}
	r.place(&ch.Scope)
	return r, nil
}

// place sets what is found by the scope.
func (r *row) place(s *channel.Scope) {
	r.scope, r.other, r.reach = scopeKey(s), nil, nil
	if all := s.Spellings(); len(all) > 1 {
		for i := range all[1:] {
			r.other = append(r.other, scopeKey(&all[1+i]))
		}
		r.reach = digest(s.Reach())
	}
	r.host, r.tls = splitOrigin(s.Host)
	r.dir, r.many, r.dirs = "/", s.Kind == channel.Directories, nil
	if len(s.Dirs) > 0 {
		r.dir = slices.Min(s.Dirs)
	}
	if r.many {
		r.dirs = slices.Compact(slices.Sorted(slices.Values(s.Dirs)))
	}
}

// keys are those under which a channel may be stored that reaches the same.
func (r *row) keys() [][]byte { return append([][]byte{r.scope}, r.other...) }

func scopeKey(s *channel.Scope) []byte { return digest(s.Key()) }

func digest(key string) []byte {
	sum := sha256.Sum256([]byte(key))
	return sum[:]
}

func splitOrigin(origin string) (host string, tls bool) {
	if host, ok := strings.CutPrefix(origin, "https://"); ok {
		return host, true
	}
	return strings.TrimPrefix(origin, "http://"), false
}

// encodeBody encodes the channel without what its other tables hold.
func encodeBody(ch *channel.Channel) ([]byte, error) {
	c := *ch
	c.ID, c.State, c.Reason, c.Learnt, c.Inter = 0, 0, "", channel.Learnt{}, nil
	c.Added = c.Added.Truncate(time.Millisecond) // as badgerdb keeps it
	body := c.Marshal()
	if _, err := channel.ParseChannel(body); err != nil { // never store a record that cannot be read back
		return nil, err
	}
	return body, nil
}

// Add adds channels and assigns their ids. It ignores their ID, Learnt and Inter, except for Learnt.EstimatorBlob,
// the scheduler's record. It refuses channels whose scope is taken with ErrDuplicate and adds the others.
func (db *DB) Add(ctx context.Context, e channel.Epoch, chs []channel.Channel) (ids []channel.ID, refused []channel.Refusal, err error) {
	if len(chs) > channel.MaxAdd {
		return nil, nil, fmt.Errorf("%w: %d channels, at most %d: import them", ErrTooLarge, len(chs), channel.MaxAdd)
	}
	rows := make([]row, len(chs))
	for i := range chs {
		if rows[i], err = prepareNew(i, &chs[i]); err != nil {
			return nil, nil, fmt.Errorf("channel %d of %d: %w", i+1, len(chs), err)
		}
	}
	err = db.write(ctx, &e, func(ctx context.Context, tx pgx.Tx) error {
		ids, refused = make([]channel.ID, len(chs)), nil
		taken, err := takenScopes(ctx, tx, rows)
		if err != nil {
			return err
		}
		var fresh []row
		next, err := nextIDs(ctx, tx, len(rows))
		if err != nil {
			return err
		}
		for i := range rows {
			if by := taken.by(&rows[i]); by != 0 {
				refused = append(refused, channel.Refusal{N: i, ID: by, Err: chs[i].Scope.Taken(by)})
				continue
			}
			ids[i] = next[len(fresh)]
			rows[i].hot.ID, taken[string(rows[i].scope)] = ids[i], ids[i]
			fresh = append(fresh, rows[i])
		}
		return insert(ctx, tx, fresh)
	})
	if err != nil {
		return nil, nil, err
	}
	return ids, refused, nil
}

// scopes are the channels that have some keys.
type scopes map[string]channel.ID

// by is the channel that reaches what a new one would; 0: none does.
func (s scopes) by(r *row) channel.ID {
	for _, key := range r.keys() {
		if id := s[string(key)]; id != 0 {
			return id
		}
	}
	return 0
}

func takenScopes(ctx context.Context, tx pgx.Tx, rows []row) (scopes, error) {
	keys := make([][]byte, 0, len(rows))
	for i := range rows {
		keys = append(keys, rows[i].keys()...)
	}
	found, err := tx.Query(ctx, `SELECT scope, id FROM channels WHERE scope = ANY($1)`, keys)
	if err != nil {
		return nil, err
	}
	taken := make(scopes)
	var scope []byte
	var id int64
	_, err = pgx.ForEachRow(found, []any{&scope, &id}, func() error {
		taken[string(scope)] = channel.ID(id)
		return nil
	})
	return taken, err
}

// nextIDs takes ids from the sequence. Those that are not used are never used.
func nextIDs(ctx context.Context, tx pgx.Tx, n int) ([]channel.ID, error) {
	rows, err := tx.Query(ctx, `SELECT nextval('channel_ids') FROM generate_series(1, $1)`, n)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(r pgx.CollectableRow) (channel.ID, error) {
		id, err := pgx.RowTo[int64](r)
		return channel.ID(id), err
	})
}

// insert writes the rows of new channels.
func insert(ctx context.Context, tx pgx.Tx, rows []row) error {
	var reasons, sets [][]any
	for i := range rows {
		r := &rows[i]
		if r.why != "" {
			reasons = append(reasons, []any{int64(r.hot.ID), r.why, []byte{}})
		}
		for _, d := range r.dirs {
			sets = append(sets, []any{r.host, r.tls, d, int64(r.hot.ID)})
		}
	}
	for _, t := range []struct {
		name    string
		columns []string
		source  pgx.CopyFromSource
	}{
		{"channels", []string{"id", "scope", "host", "tls", "dir", "many", "body"}, pgx.CopyFromSlice(len(rows), func(i int) ([]any, error) {
			r := &rows[i]
			return []any{int64(r.hot.ID), r.scope, r.host, r.tls, r.dir, r.many, r.body}, nil
		})},
		{"hot", []string{"id", "host_key", "state", "weight", "grp", "links", "facts"}, pgx.CopyFromSlice(len(rows), func(i int) ([]any, error) {
			h := &rows[i].hot
			return []any{int64(h.ID), int64(h.Host), int16(h.State), h.Weight, int16(h.Group), int32(h.Links), orNull(h.Facts)}, nil
		})},
		{"learnt", []string{"id", "reason", "body"}, pgx.CopyFromRows(reasons)},
		{"set_dirs", []string{"host", "tls", "dir", "id"}, pgx.CopyFromRows(sets)},
	} {
		if _, err := tx.CopyFrom(ctx, pgx.Identifier{t.name}, t.columns, t.source); err != nil {
			return err
		}
	}
	return nil
}

// orNull is NULL for a record of no bytes.
func orNull(b []byte) any {
	if len(b) == 0 {
		return nil
	}
	return b
}

const (
	channelColumns = `SELECT c.id, c.body, h.state, h.gen, h.submitted, h.facts, coalesce(l.reason, ''), l.body, p.urls`
	channelTables  = `
	FROM channels c JOIN hot h ON h.id = c.id LEFT JOIN learnt l ON l.id = c.id LEFT JOIN pending p ON p.id = c.id `

	wholeChannel   = channelColumns + channelTables // what readChannel reads; conditions follow it
	entireChannels = channelColumns + `, h.lease` + channelTables + `WHERE c.id = ANY($1) ORDER BY c.id`
)

func readChannel(r pgx.CollectableRow) (channel.Channel, error) { return scanChannel(r) }

// scanChannel scans more columns behind those of wholeChannel into more.
func scanChannel(r pgx.CollectableRow, more ...any) (channel.Channel, error) {
	var id, gen, submitted int64
	var state int16
	var body, facts, learnt []byte
	var reason string
	var urls []string
	if err := r.Scan(append([]any{&id, &body, &state, &gen, &submitted, &facts, &reason, &learnt, &urls}, more...)...); err != nil {
		return channel.Channel{}, err
	}
	ch, err := channel.ParseChannel(body)
	if err == nil {
		ch.Learnt, err = channel.ParseLearnt(learnt)
	}
	if err != nil {
		return ch, fmt.Errorf("%w: channel %d: %w", ErrDamaged, id, err)
	}
	ch.ID, ch.State, ch.Reason, ch.Inter = channel.ID(id), channel.State(state), reason, urls
	ch.Learnt.Gen, ch.Learnt.Submitted, ch.Learnt.EstimatorBlob = channel.Gen(gen), timeOf(submitted), facts
	return ch, nil
}

// querier is a pool or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

func load(ctx context.Context, q querier, id channel.ID) (channel.Channel, error) {
	rows, err := q.Query(ctx, wholeChannel+`WHERE c.id = $1`, int64(id))
	if err != nil {
		return channel.Channel{}, err
	}
	ch, err := pgx.CollectExactlyOneRow(rows, readChannel)
	if errors.Is(err, pgx.ErrNoRows) {
		return ch, fmt.Errorf("%w: %d", channel.ErrUnknown, id)
	}
	return ch, err
}

// Channel returns one channel.
func (db *DB) Channel(ctx context.Context, id channel.ID) (ch channel.Channel, err error) {
	err = db.read(ctx, func() error {
		ch, err = load(ctx, db.pool, id)
		return err
	})
	return ch, err
}

// atOnce bounds what one question to the server asks for.
const atOnce = 1000

// Entire returns many channels, in the order of their ids. Those that are not there are left out.
func (db *DB) Entire(ctx context.Context, ids []channel.ID) (all []channel.Entire, err error) {
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	for some := range slices.Chunk(ids, atOnce) {
		err = db.read(ctx, func() error {
			rows, err := db.pool.Query(ctx, entireChannels, wide(some))
			if err != nil {
				return err
			}
			part, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (e channel.Entire, err error) {
				e.Channel, err = scanChannel(r, &e.Lease)
				return e, err
			})
			if err == nil {
				all = append(all, part...)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Update changes a channel's scope, seeds, settings, state or reason, as an operator asks. It ignores changes to ID,
// Added, Learnt and Inter.
func (db *DB) Update(ctx context.Context, e channel.Epoch, id channel.ID, change func(*channel.Channel)) error {
	return db.write(ctx, &e, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT FROM hot WHERE id = $1 FOR UPDATE`, int64(id)); err != nil {
			return err
		}
		old, err := load(ctx, tx, id)
		if err != nil {
			return err
		}
		ch := old
		change(&ch)
		ch.ID, ch.Added = id, old.Added
		if err := ch.Scope.Validate(); err != nil {
			return err
		}
		if ch.State < channel.Active || ch.State > channel.Removed {
			return fmt.Errorf("%w: state %d", channel.ErrMalformed, ch.State)
		}
		return update(ctx, tx, &old, &ch)
	})
}

func update(ctx context.Context, tx pgx.Tx, old, ch *channel.Channel) error {
	r := row{}
	r.place(&ch.Scope)
	id := int64(ch.ID)
	if old.Scope.Key() != ch.Scope.Key() { // else versions before 0.2.0 may have given what it reaches to another one, too, spelt otherwise
		var by int64
		err := tx.QueryRow(ctx, `SELECT id FROM channels WHERE scope = ANY($1) AND id <> $2 LIMIT 1`, r.keys(), id).Scan(&by)
		if err == nil {
			return ch.Scope.Taken(channel.ID(by))
		} else if !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
	}
	var err error
	if r.body, err = encodeBody(ch); err != nil {
		return err
	}
	var b pgx.Batch
	b.Queue(`UPDATE channels SET scope = $2, host = $3, tls = $4, dir = $5, many = $6, body = $7 WHERE id = $1`, id, r.scope, r.host, r.tls, r.dir, r.many, r.body)
	b.Queue(`UPDATE hot SET state = $2, weight = $3, grp = $4, host_key = $5 WHERE id = $1`,
		id, int16(ch.State), ch.Settings.Weight, int16(ch.Settings.Group), int64(channel.KeyOf(ch.Scope.Host)))
	if why := channel.Text(ch.Reason); why != old.Reason {
		b.Queue(`INSERT INTO learnt (id, reason, body) VALUES ($1, $2, '') ON CONFLICT (id) DO UPDATE SET reason = excluded.reason`, id, why)
	}
	b.Queue(`DELETE FROM set_dirs WHERE id = $1`, id)
	b.Queue(`INSERT INTO set_dirs (host, tls, dir, id) SELECT $2, $3, dir, $1 FROM unnest($4::text[]) dir`, id, r.host, r.tls, r.dirs)
	return tx.SendBatch(ctx, &b).Close()
}

// Remove removes a channel. Its id is never used again.
func (db *DB) Remove(ctx context.Context, e channel.Epoch, id channel.ID) error {
	return db.write(ctx, &e, func(ctx context.Context, tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `DELETE FROM hot WHERE id = $1`, int64(id))
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return fmt.Errorf("%w: %d", channel.ErrUnknown, id)
		}
		var b pgx.Batch
		for _, table := range []string{"channels", "learnt", "pending", "set_dirs"} {
			b.Queue(`DELETE FROM `+table+` WHERE id = $1`, int64(id))
		}
		return tx.SendBatch(ctx, &b).Close()
	})
}

// Times are microseconds since 1970. Zero means none.
func micros(t time.Time) int64 {
	if t.IsZero() || t.UnixMicro() < 0 {
		return 0
	}
	return t.UnixMicro()
}

func spanOf(us int64) time.Duration { return time.Duration(us) * time.Microsecond }

func timeOf(us int64) time.Time {
	if us <= 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}
