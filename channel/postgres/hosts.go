package postgres

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"shoal/channel"
)

// Host returns the stored state of a Web host, named as in Scope.Host. For an unknown host only Name is set.
func (db *DB) Host(ctx context.Context, name string) (h channel.Host, err error) {
	err = db.read(ctx, func() error {
		h, err = loadHost(ctx, db.pool, name)
		return err
	})
	return h, err
}

// Hosts is Host of many at once, in their order.
func (db *DB) Hosts(ctx context.Context, names []string) ([]channel.Host, error) {
	all := make([]channel.Host, len(names))
	of := make(map[string]int, len(names)) // the first place of each in all
	var ask []string
	for i, name := range names {
		all[i].Name = name
		if _, twice := of[name]; !twice {
			of[name] = i
			ask = append(ask, name)
		}
	}
	for some := range slices.Chunk(ask, atOnce) {
		err := db.read(ctx, func() error {
			rows, err := db.pool.Query(ctx, `SELECT name, next_visit, said, crawl_delay, blocked, place FROM hosts WHERE name = ANY($1)`, some)
			if err != nil {
				return err
			}
			var name, blocked string
			var place []byte
			var next, said, delay int64
			_, err = pgx.ForEachRow(rows, []any{&name, &next, &said, &delay, &blocked, &place}, func() error {
				h := &all[of[name]]
				h.NextVisit, h.Rest, h.CrawlDelay, h.Blocked = timeOf(next), restOf(next, said), spanOf(delay), blocked
				return setRecord(h, place)
			})
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	for i, name := range names {
		all[i] = all[of[name]]
	}
	return all, nil
}

func loadHost(ctx context.Context, q querier, name string) (channel.Host, error) {
	h := channel.Host{Name: name}
	rows, err := q.Query(ctx, `SELECT next_visit, said, crawl_delay, blocked, place FROM hosts WHERE name = $1`, name)
	if err != nil {
		return h, err
	}
	var place []byte
	var next, said, delay int64
	_, err = pgx.ForEachRow(rows, []any{&next, &said, &delay, &h.Blocked, &place}, func() error {
		h.NextVisit, h.Rest, h.CrawlDelay = timeOf(next), restOf(next, said), spanOf(delay)
		return nil
	})
	if err != nil {
		return h, err
	}
	return h, setRecord(&h, place)
}

// setRecord sets where a host is, by the column place.
func setRecord(h *channel.Host, place []byte) error {
	if place == nil {
		return nil
	}
	full, err := channel.ParseHost(place)
	if err != nil {
		return fmt.Errorf("%w: host %s: %w", ErrDamaged, h.Name, err)
	}
	h.Record = full.Record
	return nil
}

// UpdateHost changes the stored state of a host, as an operator asks.
func (db *DB) UpdateHost(ctx context.Context, e channel.Epoch, name string, change func(*channel.Host)) error {
	return db.write(ctx, &e, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT FROM hosts WHERE name = $1 FOR UPDATE`, name); err != nil {
			return err
		}
		h, err := loadHost(ctx, tx, name)
		if err != nil {
			return err
		}
		change(&h)
		h.Name = name
		return putHosts(ctx, tx, []channel.Host{h})
	})
}

// putHosts stores hosts; of one that is named twice the last.
func putHosts(ctx context.Context, tx pgx.Tx, hosts []channel.Host) error {
	if len(hosts) == 0 {
		return nil
	}
	last := make(map[string]*channel.Host, len(hosts))
	for i := range hosts {
		last[hosts[i].Name] = &hosts[i]
	}
	var next, said, delays []int64
	var blocked []string
	var places [][]byte
	names := slices.Sorted(maps.Keys(last))
	for _, name := range names {
		h := last[name]
		where := channel.Host{Name: h.Name, Record: h.Record}
		raw := where.Marshal()
		if _, err := channel.ParseHost(raw); err != nil { // never store a record that cannot be read back
			return fmt.Errorf("host %.80q: %w", h.Name, err)
		}
		if len(h.Record.Samples) == 0 && len(h.Record.Best) == 0 && !h.Record.Anycast {
			raw = nil
		}
		next, said, delays = append(next, micros(h.NextVisit)), append(said, saidOf(h)), append(delays, max(h.CrawlDelay, 0).Microseconds())
		blocked, places = append(blocked, channel.Text(h.Blocked)), append(places, raw)
	}
	_, err := tx.Exec(ctx, `INSERT INTO hosts (name, next_visit, said, crawl_delay, blocked, place)
		SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::text[], $6::bytea[])
		ON CONFLICT (name) DO UPDATE SET next_visit = excluded.next_visit, said = excluded.said, crawl_delay = excluded.crawl_delay, blocked = excluded.blocked, place = excluded.place`,
		names, next, said, delays, blocked, places)
	return err
}

// saidOf is when a host's next visit was said, and restOf how much later that is. Kept is the first: a manager of an earlier version changes the next visit alone, and the host is believed to
// rest longer then, not less long.
func saidOf(h *channel.Host) int64 {
	if h.Rest <= 0 {
		return 0
	}
	return micros(h.NextVisit.Add(-h.Rest))
}

func restOf(next, said int64) time.Duration {
	if said <= 0 {
		return 0
	}
	return spanOf(max(next-said, 0))
}

// ScanHosts reads everything but Record of all stored hosts, ordered by name, then scheme. Politeness needs these
// fields. If the connection is lost, it goes on behind the last host that f has seen.
func (db *DB) ScanHosts(ctx context.Context, f func(channel.Host) error) error {
	type key struct {
		host string
		tls  bool
	}
	var after key
	return db.eachHost(ctx, func() (pgx.Rows, error) {
		return db.pool.Query(ctx, `SELECT name, next_visit, said, crawl_delay, blocked FROM (
			SELECT *, substr(name, strpos(name, '://') + 3) COLLATE "C" AS host, name LIKE 'https://%' AS tls FROM hosts) h
			WHERE (host, tls) > ($1, $2) OR $1 = '' ORDER BY host, tls`, after.host, after.tls)
	}, func(h channel.Host) error {
		err := f(h)
		after.host, after.tls = splitOrigin(h.Name)
		return err
	})
}

// eachHost calls f for the hosts that a query finds, and begins anew if the connection is lost. What f returns ends it.
func (db *DB) eachHost(ctx context.Context, query func() (pgx.Rows, error), f func(channel.Host) error) error {
	var stopped error
	err := db.read(ctx, func() error {
		rows, err := query()
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var h channel.Host
			var next, said, delay int64
			if err := rows.Scan(&h.Name, &next, &said, &delay, &h.Blocked); err != nil {
				return err
			}
			h.NextVisit, h.Rest, h.CrawlDelay = timeOf(next), restOf(next, said), spanOf(delay)
			if stopped = f(h); stopped != nil {
				return nil
			}
		}
		return rows.Err()
	})
	if stopped != nil {
		return stopped
	}
	return err
}

// ScanHeld is ScanHosts of the hosts that are blocked, or may not be visited up to a time, in no order. They are few among many hosts, so that the server reads
// all and sorts none. If the connection is lost, f may see a host again.
func (db *DB) ScanHeld(ctx context.Context, at time.Time, f func(channel.Host) error) error {
	return db.eachHost(ctx, func() (pgx.Rows, error) {
		return db.pool.Query(ctx, `SELECT name, next_visit, said, crawl_delay, blocked FROM hosts WHERE blocked <> '' OR next_visit > $1`, micros(at))
	}, f)
}

// putFound counts links to hosts that no channel covers.
func putFound(ctx context.Context, tx pgx.Tx, at time.Time, list []channel.Found) error {
	if len(list) == 0 {
		return nil
	}
	origins := make([]string, len(list))
	for i := range list {
		var err error
		if origins[i], err = list[i].Origin(); err != nil {
			return err
		}
	}
	var total int
	if err := tx.QueryRow(ctx, `SELECT found FROM tenure WHERE one = 1`).Scan(&total); err != nil {
		return err
	}
	known, err := readCandidates(ctx, tx, `WHERE host = ANY($1) ORDER BY host FOR UPDATE`, origins)
	if err != nil {
		return err
	}
	byHost := make(map[string]*channel.Candidate, len(known))
	for i := range known {
		byHost[known[i].Host] = &known[i]
	}
	first := map[string]channel.ID{} // by whom hosts were found that are not there yet
	for i, f := range list {
		if _, again := first[origins[i]]; !again && byHost[origins[i]] == nil && total+len(first) < channel.MaxCandidates {
			first[origins[i]] = f.From
		}
	}
	fresh, err := addCandidates(ctx, tx, at, first, byHost)
	if err != nil {
		return err
	}
	for i, f := range list {
		if c := byHost[origins[i]]; c != nil { // else there is no room
			c.Link(at, f.URL)
		}
	}
	var b pgx.Batch
	for _, host := range slices.Sorted(maps.Keys(byHost)) {
		queueCandidate(&b, byHost[host])
	}
	if fresh > 0 {
		b.Queue(`UPDATE tenure SET found = found + $1 WHERE one = 1`, fresh)
	}
	return tx.SendBatch(ctx, &b).Close()
}

// addCandidates makes rows for hosts, locks them, and adds them to byHost. It counts those that another manager has not made at the same time.
func addCandidates(ctx context.Context, tx pgx.Tx, at time.Time, first map[string]channel.ID, byHost map[string]*channel.Candidate) (fresh int64, err error) {
	if len(first) == 0 {
		return 0, nil
	}
	hosts := slices.Sorted(maps.Keys(first))
	by := make([]int64, len(hosts))
	for i, host := range hosts {
		by[i] = int64(first[host])
	}
	tag, err := tx.Exec(ctx, `INSERT INTO candidates (host, links, first, last, source, seeds) SELECT host, 0, $3::bigint, $3::bigint, source, '{}'::text[]
		FROM unnest($1::text[], $2::bigint[]) AS f(host, source) ON CONFLICT DO NOTHING`, hosts, by, micros(at))
	if err != nil {
		return 0, err
	}
	made, err := readCandidates(ctx, tx, `WHERE host = ANY($1) ORDER BY host FOR UPDATE`, hosts)
	for i := range made {
		byHost[made[i].Host] = &made[i]
	}
	return tag.RowsAffected(), err
}

func readCandidates(ctx context.Context, q querier, where string, args ...any) ([]channel.Candidate, error) {
	rows, err := q.Query(ctx, `SELECT host, links, first, last, source, seeds FROM candidates `+where, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scanCandidate)
}

func scanCandidate(r pgx.CollectableRow) (c channel.Candidate, err error) {
	var links int32
	var first, last, source int64
	err = r.Scan(&c.Host, &links, &first, &last, &source, &c.Seeds)
	c.Links, c.First, c.Last, c.From = int(links), timeOf(first), timeOf(last), channel.ID(source)
	return c, err
}

func queueCandidate(b *pgx.Batch, c *channel.Candidate) {
	b.Queue(`INSERT INTO candidates (host, links, first, last, source, seeds) VALUES ($1, $2, $3, $4, $5, $6)
		ON CONFLICT (host) DO UPDATE SET links = excluded.links, last = excluded.last, seeds = excluded.seeds`,
		c.Host, int32(c.Links), micros(c.First), micros(c.Last), int64(c.From), c.Seeds)
}

// Candidates returns the n hosts without a channel that crawls found most often, in that order, of those that want takes; nil: of all.
func (db *DB) Candidates(ctx context.Context, n int, want func(host string) bool) (list []channel.Candidate, err error) {
	err = db.read(ctx, func() error {
		if want == nil {
			list, err = readCandidates(ctx, db.pool, `ORDER BY links DESC, host LIMIT $1`, n)
			return err
		}
		hosts, err := db.wantedCandidates(ctx, n, want)
		if err != nil {
			return err
		}
		list, err = readCandidates(ctx, db.pool, `WHERE host = ANY($1) ORDER BY links DESC, host`, hosts)
		return err
	})
	return noneNil(list), err
}

// wantedCandidates are the names alone. The server does not know which are wanted, so that all names are read.
func (db *DB) wantedCandidates(ctx context.Context, n int, want func(host string) bool) ([]string, error) {
	rows, err := db.pool.Query(ctx, `SELECT host, links FROM candidates`)
	if err != nil {
		return nil, err
	}
	type linked struct {
		host  string
		links int32
	}
	var top []linked
	cut := func() {
		slices.SortFunc(top, func(a, b linked) int { return cmp.Or(cmp.Compare(b.links, a.links), cmp.Compare(a.host, b.host)) })
		top = top[:min(len(top), n)]
	}
	var l linked
	_, err = pgx.ForEachRow(rows, []any{&l.host, &l.links}, func() error {
		if !want(l.host) {
			return nil
		}
		if top = append(top, l); len(top) > 2*n+1000 {
			cut()
		}
		return nil
	})
	cut()
	hosts := make([]string, len(top))
	for i := range top {
		hosts[i] = top[i].host
	}
	return hosts, err
}

// CountCandidates returns the number of hosts without a channel.
func (db *DB) CountCandidates(ctx context.Context) (n int, err error) {
	err = db.read(ctx, func() error {
		return db.pool.QueryRow(ctx, `SELECT found FROM tenure WHERE one = 1`).Scan(&n)
	})
	return n, err
}

// DropCandidates forgets hosts that have a channel by now or are not wanted.
func (db *DB) DropCandidates(ctx context.Context, e channel.Epoch, hosts []string) error {
	if len(hosts) > channel.MaxAdd {
		return fmt.Errorf("%w: %d candidates, at most %d", ErrTooLarge, len(hosts), channel.MaxAdd)
	}
	if len(hosts) == 0 {
		return db.write(ctx, &e, func(context.Context, pgx.Tx) error { return nil })
	}
	return db.write(ctx, &e, func(ctx context.Context, tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `DELETE FROM candidates WHERE host = ANY($1)`, hosts)
		if err != nil || tag.RowsAffected() == 0 {
			return err
		}
		_, err = tx.Exec(ctx, `UPDATE tenure SET found = greatest(found - $1, 0) WHERE one = 1`, tag.RowsAffected())
		return err
	})
}
