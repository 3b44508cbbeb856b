package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"shoal/channel"
)

// Several is a channel database as one of several managers uses it. Each has partitions of the hosts, and writes under a tenancy, which Take begins.
//
// A tenancy that is not renewed for Term is ended by any other manager whose own was, for good. Each write locks its row for share, so that none is made after its
// end; and a partition changes hands only in a transaction in which its owner's tenancy has ended, or in one of the owner itself, which waits for that
// one's writes. The clock that decides is the server's alone.
type Several struct {
	*DB
	cfg SeveralConfig
	id  channel.Epoch // 0: before Take

	read  map[int64]bool // notes that were told, of the last ones; owned by who calls Notes
	notes int64          // the highest of them
}

// SeveralConfig says who a manager is among several.
type SeveralConfig struct {
	Node   string                  // peer id
	Writer string                  // its name in the archive's log
	Term   time.Duration           // 0: DefaultTerm
	Most   int                     // managers at once; 0: any number
	Feed   string                  // of the archive: of this one each manager has a cursor of its own
	Shared func(state string) bool // whether all managers have a state in common. Nil: none
	Heir   bool                    // it goes on with what a manager has kept that had the database for itself
	// Summed reports whether a manager that has the database for itself keeps of a state the sum of what all have kept that had shared it. Nil: of none.
	Summed func(state string) bool
}

// DefaultTerm is how long a tenancy lasts that is not renewed.
const DefaultTerm = 6 * time.Second

// begins is how much longer a tenancy lasts before it is renewed for the first time: its manager has much to read.
const begins = "1 minute"

// ErrSeveral says that a program wants the database for itself on which others work.
var ErrSeveral = errors.New("postgres: several managers work on this database")

// ErrFull says that as many managers share the database as may.
var ErrFull = errors.New("postgres: no further manager can share this network")

// AsOne gives the database to one of several managers.
func (db *DB) AsOne(cfg SeveralConfig) *Several {
	if cfg.Term <= 0 {
		cfg.Term = DefaultTerm
	}
	db.several.Store(true)
	return &Several{DB: db, cfg: cfg}
}

// alive is a tenancy that none has reason to end.
const alive = `SELECT count(*) FROM tenancies t JOIN beats b USING (id) WHERE NOT t.ended AND b.until > now()`

// Sharing is how many managers share the database at the moment, and how many run an archive alone, or are about to end.
func (db *DB) Sharing(ctx context.Context) (managers, archives int, err error) {
	err = db.read(ctx, func() error {
		return db.pool.QueryRow(ctx, `SELECT count(*) FILTER (WHERE NOT b.leaving), count(*) FILTER (WHERE b.leaving) FROM tenancies t JOIN beats b USING (id) WHERE NOT t.ended AND b.until > now()`).Scan(&managers, &archives)
	})
	return managers, archives, db.Explain(err)
}

// refuseAlone refuses a program that wants the database for itself beside others.
func refuseAlone(ctx context.Context, tx pgx.Tx) error {
	var n int
	if err := tx.QueryRow(ctx, alive).Scan(&n); err != nil {
		return err
	}
	if n > 0 {
		return fmt.Errorf("%w (%d): ask one of them, stop them first, or start this one with --several", ErrSeveral, n)
	}
	return nil
}

// Take begins the tenancy. The first one shuts out a manager that has the database for itself.
func (s *Several) Take(ctx context.Context) (channel.Epoch, error) {
	var id int64
	err := s.write(ctx, nil, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `UPDATE tenure SET epoch = epoch + 1 WHERE one = 1`); err != nil {
			return err
		}
		if err := s.full(ctx, tx); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `INSERT INTO partitions (part, cursor) SELECT n, coalesce((SELECT at FROM cursors WHERE feed = $1), '') FROM generate_series(0, $2) n
			ON CONFLICT DO NOTHING`, s.cfg.Feed, channel.Parts-1); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `DELETE FROM tenancies WHERE ended AND at < now() - interval '30 days'`); err != nil {
			return err
		}
		if err := tx.QueryRow(ctx, `INSERT INTO tenancies (node, writer) VALUES ($1, $2) RETURNING id`, s.cfg.Node, s.cfg.Writer).Scan(&id); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `DELETE FROM notes WHERE at < now() - interval '1 hour'`); err != nil {
			return err
		}
		if err := tx.QueryRow(ctx, `SELECT coalesce(max(n), 0) FROM notes`).Scan(&s.notes); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `INSERT INTO beats (id, until, about) VALUES ($1, now() + $2::interval + interval '`+begins+`', '')`, id, s.cfg.Term.String()); err != nil {
			return err
		}
		return s.succeed(ctx, tx)
	})
	s.id = channel.Epoch(id)
	return s.id, err
}

// succeed gives this manager the states that one has kept which had the database for itself, in place of older ones. They would be nobody's else. What is in a sum
// that it takes over is not kept beside it.
func (s *Several) succeed(ctx context.Context, tx pgx.Tx) error {
	if !s.cfg.Heir {
		return nil
	}
	rows, err := tx.Query(ctx, `SELECT name FROM states ORDER BY name`)
	if err != nil {
		return err
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	for _, name := range names {
		own := s.name(name)
		if _, is := channel.CutOwnState(name); is || own == name {
			continue
		}
		parts := []string{own}
		if s.cfg.Summed != nil && s.cfg.Summed(name) {
			for _, other := range names {
				if of, is := channel.CutOwnState(other); is && of == name {
					parts = append(parts, other)
				}
			}
		}
		if _, err := tx.Exec(ctx, `DELETE FROM states WHERE name = ANY($1)`, parts); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `UPDATE states SET name = $2 WHERE name = $1`, name, own); err != nil {
			return err
		}
	}
	return nil
}

// Full refuses where as many managers share the database as may: before Take, so that nothing else is begun.
func (s *Several) Full(ctx context.Context) error {
	return s.once(ctx, func(ctx context.Context, tx pgx.Tx) error { return s.full(ctx, tx) })
}

func (s *Several) full(ctx context.Context, tx pgx.Tx) error {
	var others int
	if err := tx.QueryRow(ctx, alive+` AND t.node <> $1`, s.cfg.Node).Scan(&others); err != nil {
		return err
	}
	if s.cfg.Most > 0 && others >= s.cfg.Most {
		return fmt.Errorf("%w: %d run, and a network document names no more; stop one of them first (shoal managers lists them)", ErrFull, others)
	}
	return nil
}

// checkTenancy refuses a write of a tenancy that has ended.
func checkTenancy(ctx context.Context, tx pgx.Tx, e channel.Epoch) error {
	err := tx.QueryRow(ctx, `SELECT id FROM tenancies WHERE id = $1 AND NOT ended FOR SHARE`, int64(e)).Scan(new(int64))
	if errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("%w: the tenancy %d has ended", channel.ErrStaleEpoch, e)
	}
	return err
}

// Beat renews the tenancy, ends those of managers that have gone, and tells who shares the database. about is what others are told of this manager.
func (s *Several) Beat(ctx context.Context, leaving bool, about []byte) (t channel.Tenure, err error) {
	var late int
	err = s.once(ctx, func(ctx context.Context, tx pgx.Tx) error {
		t = channel.Tenure{}
		tag, err := tx.Exec(ctx, `UPDATE beats SET since = CASE WHEN until BETWEEN now() + $2::interval / 2 AND now() + $2::interval THEN since ELSE now() END, until = now() + $2::interval,
			leaving = $3, about = coalesce($4, about) WHERE id = $1`, int64(s.id), s.cfg.Term.String(), leaving, about)
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return fmt.Errorf("%w: the tenancy %d has ended", channel.ErrStaleEpoch, s.id)
		}
		late, err = s.tenure(ctx, tx, &t)
		return err
	})
	if err == nil && late > 0 {
		if err = s.bury(ctx); err == nil {
			err = s.once(ctx, func(ctx context.Context, tx pgx.Tx) error {
				t = channel.Tenure{}
				_, err := s.tenure(ctx, tx, &t)
				return err
			})
		}
	}
	return t, err
}

// once runs a transaction that is tried again by its caller.
func (s *Several) once(ctx context.Context, run func(context.Context, pgx.Tx) error) error {
	return s.Explain(s.Transact(ctx, run))
}

// isLate is a condition: a tenancy may be ended. It was not renewed, and that of $1 was, all the while and until now, for a term of $2: else the server was away,
// and all managers have as long as ever to come back. An earlier start of the same manager does not come back. One that lasts for longer than any is given was
// renewed before the server's clock went back.
const isLate = `(b.until < now() OR b.until > now() + $2::interval + interval '` + begins + `') AND EXISTS (SELECT FROM tenancies mt JOIN beats mb USING (id) WHERE mt.id = $1 AND (mt.node = t.node AND mt.id <> t.id
	OR mb.since <= now() - $2::interval AND mb.until BETWEEN now() + $2::interval / 2 AND now() + $2::interval))`

// tenure reads who shares the database, and counts the tenancies that may be ended.
func (s *Several) tenure(ctx context.Context, tx pgx.Tx, t *channel.Tenure) (late int, err error) {
	rows, err := tx.Query(ctx, `SELECT t.id, t.node, t.writer, b.leaving, b.about, `+isLate+` FROM tenancies t JOIN beats b USING (id) WHERE NOT t.ended ORDER BY t.id`, int64(s.id), s.cfg.Term.String())
	if err != nil {
		return 0, err
	}
	var id int64
	var of channel.Tenancy
	var lateOne bool
	if _, err = pgx.ForEachRow(rows, []any{&id, &of.Node, &of.Writer, &of.Leaving, &of.About, &lateOne}, func() error {
		of.ID = channel.Epoch(id)
		if lateOne {
			late++
		}
		t.Tenants = append(t.Tenants, of)
		of.About = nil
		return nil
	}); err != nil {
		return 0, err
	}
	if rows, err = tx.Query(ctx, `SELECT part, owner FROM partitions`); err != nil {
		return 0, err
	}
	var part int16
	_, err = pgx.ForEachRow(rows, []any{&part, &id}, func() error {
		t.Owner[part] = channel.Epoch(id)
		return nil
	})
	return late, err
}

// bury ends the tenancies that were not renewed, and frees their partitions. One whose write is just being made is left to the next beat.
func (s *Several) bury(ctx context.Context) error {
	return s.once(ctx, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `UPDATE tenancies SET ended = true, at = now() WHERE id IN (
			SELECT t.id FROM tenancies t JOIN beats b USING (id) WHERE NOT t.ended AND `+isLate+` ORDER BY t.id FOR UPDATE OF t SKIP LOCKED) RETURNING id`,
			int64(s.id), s.cfg.Term.String())
		if err != nil {
			return err
		}
		ids, err := pgx.CollectRows(rows, pgx.RowTo[int64])
		if err != nil || len(ids) == 0 {
			return err
		}
		if _, err := tx.Exec(ctx, `DELETE FROM beats WHERE id = ANY($1)`, ids); err != nil {
			return err
		}
		return s.free(ctx, tx, `owner = ANY($2)`, ids)
	})
}

// cursorOf is up to where the feed was taken in for a partition: its owner's cursor, where it goes with that.
const cursorOf = `CASE WHEN joined THEN coalesce((SELECT at FROM cursors WHERE feed = $1::text || '@' || owner), cursor) ELSE cursor END`

// Cursors are up to where the feed was taken in, by all managers for all partitions.
func (s *Several) Cursors(ctx context.Context) (out []string, err error) {
	err = s.DB.read(ctx, func() error {
		rows, err := s.pool.Query(ctx, `SELECT DISTINCT `+cursorOf+` FROM partitions`, s.cfg.Feed)
		if err != nil {
			return err
		}
		out, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	return out, err
}

// free has partitions without an owner. Where one goes with its owner's cursor, that becomes its own.
func (s *Several) free(ctx context.Context, tx pgx.Tx, which string, of any) error {
	_, err := tx.Exec(ctx, `UPDATE partitions SET cursor = `+cursorOf+`, owner = 0, epoch = epoch + 1, joined = false WHERE `+which, s.cfg.Feed, of)
	return err
}

// TakeParts takes those of some partitions that have no owner. Before anything is done with them, the writers that are told must be shut out of the
// archive's log, and JoinParts be called.
func (s *Several) TakeParts(ctx context.Context, parts []uint8) (out channel.Taken, err error) {
	err = s.write(ctx, &s.id, func(ctx context.Context, tx pgx.Tx) error {
		out = channel.Taken{}
		rows, err := tx.Query(ctx, `UPDATE partitions SET owner = $1, epoch = epoch + 1, joined = false WHERE part = ANY($2) AND owner = 0 RETURNING part, cursor`, int64(s.id), wide(parts))
		if err != nil {
			return err
		}
		var part int16
		var cursor string
		if _, err = pgx.ForEachRow(rows, []any{&part, &cursor}, func() error {
			out.Parts, out.Cursors = append(out.Parts, uint8(part)), append(out.Cursors, cursor)
			return nil
		}); err != nil {
			return err
		}
		rows, err = tx.Query(ctx, `SELECT writer FROM tenancies WHERE ended AND at > now() - interval '1 hour'`)
		if err != nil {
			return err
		}
		out.Ended, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	return out, err
}

func wide[T uint8 | channel.ID](all []T) []int64 {
	out := make([]int64, len(all))
	for i, n := range all {
		out[i] = int64(n)
	}
	return out
}

// JoinParts has all of this manager's partitions go on in the feed from one cursor, which lies before what any of them has not taken in.
func (s *Several) JoinParts(ctx context.Context, cursor string) error {
	return s.write(ctx, &s.id, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `INSERT INTO cursors (feed, at) VALUES ($1, $2) ON CONFLICT (feed) DO UPDATE SET at = excluded.at`, s.own(s.cfg.Feed), cursor); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `UPDATE partitions SET joined = true WHERE owner = $1`, int64(s.id))
		return err
	})
}

// GiveParts gives partitions up. It waits for the writes of this manager that are being made; later ones of these partitions' channels are refused.
func (s *Several) GiveParts(ctx context.Context, parts []uint8) error {
	return s.write(ctx, nil, func(ctx context.Context, tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `UPDATE tenancies SET gave = gave + 1 WHERE id = $1 AND NOT ended`, int64(s.id))
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return fmt.Errorf("%w: the tenancy %d has ended", channel.ErrStaleEpoch, s.id)
		}
		return s.free(ctx, tx, `part = ANY($2) AND owner = `+fmt.Sprint(int64(s.id)), wide(parts))
	})
}

// Leave ends the tenancy. What it still has is free.
func (s *Several) Leave(ctx context.Context) error {
	return s.write(ctx, nil, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `UPDATE tenancies SET ended = true, at = now() WHERE id = $1`, int64(s.id)); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `DELETE FROM beats WHERE id = $1`, int64(s.id)); err != nil {
			return err
		}
		return s.free(ctx, tx, `owner = $2`, int64(s.id))
	})
}

// elsewhere are those of some channels whose partitions are another manager's. The transaction has locked its tenancy for share, so that no partition
// is given up before it ends.
func (db *DB) elsewhere(ctx context.Context, tx pgx.Tx, e channel.Epoch, ids []int64) (map[channel.ID]bool, error) {
	if !db.several.Load() {
		return nil, nil
	}
	rows, err := tx.Query(ctx, `SELECT h.id FROM hot h JOIN partitions p ON p.part = ((h.host_key >> 56) & 255) WHERE h.id = ANY($1) AND p.owner <> $2`, ids, int64(e))
	if err != nil {
		return nil, err
	}
	out := map[channel.ID]bool{}
	var id int64
	_, err = pgx.ForEachRow(rows, []any{&id}, func() error {
		out[channel.ID(id)] = true
		return nil
	})
	return out, err
}

// own is the name under which this manager's cursor of the archive's feed is kept.
func (s *Several) own(feed string) string {
	if feed == s.cfg.Feed && feed != "" {
		return fmt.Sprintf("%s@%d", feed, s.id)
	}
	return feed
}

// Apply is DB.Apply, with this manager's own cursor of the archive's feed.
func (s *Several) Apply(ctx context.Context, e channel.Epoch, stretches ...channel.Advance) error {
	own := make([]channel.Advance, len(stretches))
	for i := range stretches {
		own[i] = stretches[i]
		own[i].Feed = s.own(own[i].Feed)
	}
	return s.DB.Apply(ctx, e, own...)
}

// Cursor is DB.Cursor, likewise.
func (s *Several) Cursor(ctx context.Context, feed string) (string, error) {
	return s.DB.Cursor(ctx, s.own(feed))
}

// ScanParts is Scan of the channels of some partitions that have ids above one.
func (s *Several) ScanParts(ctx context.Context, parts []uint8, above channel.ID, f func(channel.Hot) error) error {
	return s.scan(ctx, parts, above+1, 0, f)
}

// LastID is the highest id of a channel.
func (s *Several) LastID(ctx context.Context) (id channel.ID, err error) {
	err = s.DB.read(ctx, func() error {
		var n int64
		err := s.pool.QueryRow(ctx, `SELECT coalesce(max(id), 0) FROM hot`).Scan(&n)
		id = channel.ID(n)
		return err
	})
	return id, err
}

// PutState is DB.PutState, of a state that is this manager's own unless all managers share it.
func (s *Several) PutState(ctx context.Context, e channel.Epoch, name string, state []byte) error {
	return s.DB.PutState(ctx, e, s.name(name), state)
}

// State is DB.State, likewise.
func (s *Several) State(ctx context.Context, name string) ([]byte, error) {
	return s.DB.State(ctx, s.name(name))
}

// Others are what the other managers, also those that have gone, keep of a state of which each has one for itself: those first that were here last.
func (s *Several) Others(ctx context.Context, name string) (states [][]byte, err error) {
	err = s.DB.read(ctx, func() error {
		rows, err := s.pool.Query(ctx, keptStates+` ORDER BY t.last DESC NULLS LAST LIMIT 64`, name, s.name(name))
		if err != nil {
			return err
		}
		states, err = pgx.CollectRows(rows, pgx.RowTo[[]byte])
		return err
	})
	return states, s.Explain(err)
}

// OthersOf is Others of some states at once, by their names.
func (s *Several) OthersOf(ctx context.Context, names []string) (states map[string][][]byte, err error) {
	err = s.DB.read(ctx, func() error {
		own := make([]string, len(names))
		for i, name := range names {
			own[i] = s.name(name)
		}
		rows, err := s.pool.Query(ctx, `SELECT of, body FROM (
			SELECT k.of, s.body, t.last, row_number() OVER (PARTITION BY k.of ORDER BY t.last DESC NULLS LAST) AS place FROM states s
				JOIN (SELECT unnest($1::text[]) AS of) k ON substr(s.name, strpos(substr(s.name, 4), '/') + 4) = k.of
				LEFT JOIN (SELECT node, max(id) AS last FROM tenancies GROUP BY node) t ON s.name = 'at/' || t.node || '/' || k.of
			WHERE s.name LIKE 'at/%/%' AND s.name <> ALL($2::text[])) found WHERE place <= 64 ORDER BY of, place`, names, own)
		if err != nil {
			return err
		}
		states = map[string][][]byte{}
		var of string
		var body []byte
		_, err = pgx.ForEachRow(rows, []any{&of, &body}, func() error {
			states[of] = append(states[of], body)
			body = nil
			return nil
		})
		return err
	})
	return states, s.Explain(err)
}

// Left are states of an earlier start of this manager, and of others, that ended within an hour of the one that ended last.
func (s *Several) Left(ctx context.Context, name string) (states [][]byte, err error) {
	err = s.DB.read(ctx, func() error {
		rows, err := s.pool.Query(ctx, `SELECT body FROM states WHERE name IN (
			SELECT 'at/' || node || '/' || $1 FROM tenancies WHERE ended AND at > (SELECT max(at) FROM tenancies WHERE ended) - interval '1 hour')`, name)
		if err != nil {
			return err
		}
		states, err = pgx.CollectRows(rows, pgx.RowTo[[]byte])
		return err
	})
	return states, s.Explain(err)
}

// KeptBy is what the other managers, also those that have gone, keep of a state of which each has one for itself, by their peer ids.
func (s *Several) KeptBy(ctx context.Context, name string) (by map[string][]byte, err error) {
	err = s.DB.read(ctx, func() error {
		rows, err := s.pool.Query(ctx, `SELECT name, body FROM states WHERE name LIKE 'at/%/%' AND substr(name, strpos(substr(name, 4), '/') + 4) = $1 AND name <> $2`, name, s.name(name))
		if err != nil {
			return err
		}
		by = map[string][]byte{}
		var kept string
		var body []byte
		_, err = pgx.ForEachRow(rows, []any{&kept, &body}, func() error {
			by[channel.OwnerOfState(kept)] = body
			body = nil
			return nil
		})
		return err
	})
	return by, s.Explain(err)
}

// Change makes of a state that all managers share the next one, without another manager's change between: f is told what there is, nil if nothing, and what
// it returns is written. If f fails nothing is.
func (s *Several) Change(ctx context.Context, name string, f func(state []byte) ([]byte, error)) error {
	return s.write(ctx, &s.id, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `INSERT INTO states (name, body) VALUES ($1, '') ON CONFLICT DO NOTHING`, s.name(name)); err != nil {
			return err
		}
		var body []byte
		if err := tx.QueryRow(ctx, `SELECT body FROM states WHERE name = $1 FOR UPDATE`, s.name(name)).Scan(&body); err != nil {
			return err
		}
		if len(body) == 0 {
			body = nil
		}
		next, err := f(body)
		if err != nil {
			return err
		}
		if len(next) > channel.MaxStateBlob {
			return fmt.Errorf("%w: state of %d bytes", ErrTooLarge, len(next))
		}
		_, err = tx.Exec(ctx, `UPDATE states SET body = $2 WHERE name = $1`, s.name(name), next)
		return err
	})
}

func (s *Several) name(name string) string {
	if s.cfg.Shared != nil && s.cfg.Shared(name) {
		return name
	}
	return channel.OwnState(s.cfg.Node, name)
}

// Tell tells the other managers something.
func (s *Several) Tell(ctx context.Context, n channel.Note) error {
	return s.write(ctx, &s.id, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO notes (tenancy, what, body) VALUES ($1, $2, coalesce($3, ''::bytea))`, int64(s.id), n.What, n.Body)
		return err
	})
}

// lateNotes is how many numbers below the highest one a note may come late: who writes it got its number before, and was slower.
const lateNotes = 256

// Notes are what others have told since the last call, each once. One goroutine calls it.
func (s *Several) Notes(ctx context.Context) (out []channel.Note, err error) {
	if s.read == nil {
		s.read = map[int64]bool{}
	}
	rows, err := s.pool.Query(ctx, `SELECT n, what, body FROM notes WHERE n > $1 AND tenancy <> $2 AND at > (SELECT at FROM tenancies WHERE id = $2) ORDER BY n`, s.notes-lateNotes, int64(s.id))
	if err != nil {
		return nil, s.Explain(err)
	}
	var n int64
	var note channel.Note
	_, err = pgx.ForEachRow(rows, []any{&n, &note.What, &note.Body}, func() error {
		if !s.read[n] {
			s.read[n], s.notes = true, max(s.notes, n)
			out = append(out, note)
		}
		note.Body = nil
		return nil
	})
	for n := range s.read {
		if n <= s.notes-lateNotes {
			delete(s.read, n)
		}
	}
	return out, s.Explain(err)
}
