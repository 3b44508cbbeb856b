package postgres

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"shoal/channel"
)

// List returns up to n channels with ids above after, in order.
func (db *DB) List(ctx context.Context, after channel.ID, n int) (chs []channel.Channel, err error) {
	err = db.read(ctx, func() error {
		rows, err := db.pool.Query(ctx, wholeChannel+`WHERE c.id > $1 ORDER BY c.id LIMIT $2`, int64(min(after, 1<<63-1)), n)
		if err != nil {
			return err
		}
		chs, err = pgx.CollectRows(rows, readChannel)
		return err
	})
	return noneNil(chs), err
}

// noneNil is nil for a list of nothing.
func noneNil[T any](list []T) []T {
	if len(list) == 0 {
		return nil
	}
	return list
}

// position is where a search goes on.
type position struct {
	Host string
	TLS  bool
	Dir  string
	Many bool
	ID   int64
}

// Search returns up to n channels whose host name begins with prefix (without scheme), ordered by name and directory.
// To get more, the caller passes next as after; "" means that there are no more.
func (db *DB) Search(ctx context.Context, prefix, after string, n int) (chs []channel.Channel, next string, err error) {
	var from position
	if after != "" {
		raw, err := base64.RawURLEncoding.DecodeString(after)
		if err == nil {
			err = json.Unmarshal(raw, &from)
		}
		if err != nil {
			return nil, "", fmt.Errorf("%w: search position %q", channel.ErrMalformed, after)
		}
	}
	err = db.read(ctx, func() error {
		rows, err := db.pool.Query(ctx, wholeChannel+`WHERE c.host LIKE $1 AND (c.host, c.tls, c.dir, c.many, c.id) > ($2, $3, $4, $5, $6)
			ORDER BY c.host, c.tls, c.dir, c.many, c.id LIMIT $7`, likeEscape.Replace(prefix)+"%", from.Host, from.TLS, from.Dir, from.Many, from.ID, n+1)
		if err != nil {
			return err
		}
		chs, err = pgx.CollectRows(rows, readChannel)
		return err
	})
	if err != nil {
		return nil, "", err
	}
	if len(chs) > n {
		chs = chs[:n]
		next = positionOf(&chs[n-1])
	}
	return noneNil(chs), next, nil
}

var likeEscape = strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`)

func positionOf(ch *channel.Channel) string {
	r := row{}
	r.place(&ch.Scope)
	raw, err := json.Marshal(position{r.host, r.tls, r.dir, r.many, int64(ch.ID)})
	if err != nil { // a struct of plain fields
		panic(err)
	}
	return base64.RawURLEncoding.EncodeToString(raw)
}

// Matching returns the channels whose host name, scheme included, contains a text: n of them beginning with number
// from, and the total. Channels of one directory or a whole host come first, then those of several directories, both
// ordered by name.
func (db *DB) Matching(ctx context.Context, text string, from, n int) (ids []channel.ID, total int, err error) {
	const matching = ` FROM channels WHERE strpos(CASE WHEN tls THEN 'https://' ELSE 'http://' END || host, $1) > 0 `
	err = db.view(ctx, func(tx pgx.Tx) error {
		if err := tx.QueryRow(ctx, `SELECT count(*)`+matching, text).Scan(&total); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, `SELECT id`+matching+`ORDER BY many, host, tls, dir, id OFFSET $2 LIMIT $3`, text, from, n)
		if err != nil {
			return err
		}
		ids, err = pgx.CollectRows(rows, func(r pgx.CollectableRow) (channel.ID, error) {
			id, err := pgx.RowTo[int64](r)
			return channel.ID(id), err
		})
		return err
	})
	return noneNil(ids), total, err
}

// deepest orders directories of one path, the most specific first. Those in the former spelling are shorter.
const deepest = `length(replace(dir, '%5E', '^')) DESC, length(dir) DESC`

// Lookup returns the most specific channel that holds a canonical URL by host and directory. It ignores filters.
func (db *DB) Lookup(ctx context.Context, canonicalURL string) (channel.ID, error) {
	host, tls, dirs := placesOf(canonicalURL)
	var id int64
	err := db.read(ctx, func() error {
		return db.pool.QueryRow(ctx, `SELECT id FROM (
			SELECT id, dir, many FROM channels WHERE host = $1 AND tls = $2 AND dir = ANY($3) AND NOT many
			UNION ALL SELECT id, dir, true FROM set_dirs WHERE host = $1 AND tls = $2 AND dir = ANY($3)) found
			ORDER BY `+deepest+`, many, id LIMIT 1`, host, tls, dirs).Scan(&id)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, fmt.Errorf("%w: none holds %s", channel.ErrUnknown, canonicalURL)
	}
	return channel.ID(id), err
}

// Holders is Lookup of many URLs at once; 0: no channel holds it.
func (db *DB) Holders(ctx context.Context, canonicalURLs []string) ([]channel.ID, error) {
	ids := make([]channel.ID, 0, len(canonicalURLs))
	for urls := range slices.Chunk(canonicalURLs, atOnce) {
		part, err := db.holders(ctx, urls)
		if err != nil {
			return nil, err
		}
		ids = append(ids, part...)
	}
	return ids, nil
}

func (db *DB) holders(ctx context.Context, urls []string) ([]channel.ID, error) {
	var of []int32 // whose directory it is
	var hosts, dirs []string
	var tls []bool
	for i, url := range urls {
		host, secure, all := placesOf(url)
		for _, dir := range all {
			if at := host + dir; !utf8.ValidString(at) || strings.IndexByte(at, 0) >= 0 {
				continue // no text to the server, and no channel's
			}
			of, hosts, tls, dirs = append(of, int32(i)), append(hosts, host), append(tls, secure), append(dirs, dir)
		}
	}
	ids := make([]channel.ID, len(urls))
	if len(of) == 0 {
		return ids, nil
	}
	err := db.read(ctx, func() error {
		rows, err := db.pool.Query(ctx, `SELECT DISTINCT ON (n) n, id FROM (
			SELECT q.n, c.id, q.dir, false AS many FROM unnest($1::int[], $2::text[], $3::bool[], $4::text[]) AS q(n, host, tls, dir)
				JOIN channels c ON c.host = q.host AND c.tls = q.tls AND c.dir = q.dir AND NOT c.many
			UNION ALL SELECT q.n, s.id, q.dir, true FROM unnest($1::int[], $2::text[], $3::bool[], $4::text[]) AS q(n, host, tls, dir)
				JOIN set_dirs s ON s.host = q.host AND s.tls = q.tls AND s.dir = q.dir) found
			ORDER BY n, `+deepest+`, many, id`, of, hosts, tls, dirs)
		if err != nil {
			return err
		}
		var n int32
		var id int64
		_, err = pgx.ForEachRow(rows, []any{&n, &id}, func() error {
			ids[n] = channel.ID(id)
			return nil
		})
		return err
	})
	return ids, err
}

// placesOf are the host of a canonical URL and the directories that it lies in, the most specific first.
func placesOf(canonicalURL string) (host string, tls bool, dirs []string) {
	origin := channel.Origin(canonicalURL)
	host, tls = splitOrigin(origin)
	path, _, _ := strings.Cut(channel.Respell(canonicalURL[len(origin):]), "?")
	if !strings.HasSuffix(path, "/") {
		path += "/" // "/a" belongs to the directory "/a/"
	}
	for dir := path; ; dir = dir[:strings.LastIndexByte(dir[:len(dir)-1], '/')+1] {
		dirs = append(dirs, dir)
		if former := channel.FormerSpelling(dir); former != dir {
			dirs = append(dirs, former)
		}
		if dir == "/" {
			return host, tls, dirs
		}
	}
}

// Lease returns the lease's record of a channel, nil if the channel was never handed out.
func (db *DB) Lease(ctx context.Context, id channel.ID) (lease []byte, err error) {
	err = db.read(ctx, func() error {
		err := db.pool.QueryRow(ctx, `SELECT lease FROM hot WHERE id = $1`, int64(id)).Scan(&lease)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		return err
	})
	return lease, err
}

// Scan calls f with the hot part of the channels with ids from first to last, in order. If last is 0, it goes on to
// the end. The slices passed to f are valid during the call only. An error of f ends the scan. If the connection is
// lost, the scan goes on behind the last channel that f has seen.
func (db *DB) Scan(ctx context.Context, first, last channel.ID, f func(channel.Hot) error) error {
	return db.scan(ctx, nil, first, last, f)
}

// scan is Scan of the channels of some partitions; nil: of all.
func (db *DB) scan(ctx context.Context, parts []uint8, first, last channel.ID, f func(channel.Hot) error) error {
	sql, of := `SELECT id, host_key, state, weight, grp, links, gen, submitted, lease, facts FROM hot WHERE id BETWEEN $1 AND $2 `, []any{}
	if parts != nil {
		sql, of = sql+`AND ((host_key >> 56) & 255) = ANY($3::bigint[]) `, append(of, wide(parts))
	}
	if last == 0 || last > 1<<63-1 {
		last = 1<<63 - 1
	}
	var stopped error
	err := db.read(ctx, func() error {
		rows, err := db.pool.Query(ctx, sql+`ORDER BY id`, append([]any{int64(min(first, last)), int64(last)}, of...)...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			h, err := scanHot(rows)
			if err != nil {
				return err
			}
			if stopped = f(h); stopped != nil {
				return nil
			}
			first = h.ID + 1
		}
		return rows.Err()
	})
	if stopped != nil {
		return stopped
	}
	return err
}

// scanHot reads a row without copying its records. Millions are read when a manager starts, so it decodes the binary form itself; where a proxy has
// the server send text, pgx does.
func scanHot(rows pgx.Rows) (h channel.Hot, err error) {
	raw := rows.RawValues()
	for i, f := range rows.FieldDescriptions() {
		if f.Format != pgx.BinaryFormatCode {
			return scanHotText(rows)
		}
		if size := hotSizes[i]; size > 0 && len(raw[i]) != size {
			return h, fmt.Errorf("%w: column %s of %d bytes", ErrDamaged, f.Name, len(raw[i]))
		}
	}
	be := binary.BigEndian
	h.ID, h.Host, h.State = channel.ID(be.Uint64(raw[0])), channel.HostKey(be.Uint64(raw[1])), channel.State(be.Uint16(raw[2]))
	h.Weight, h.Group, h.Links = math.Float32frombits(be.Uint32(raw[3])), int(int16(be.Uint16(raw[4]))), int(int32(be.Uint32(raw[5])))
	h.Gen, h.Submitted, h.Lease, h.Facts = channel.Gen(be.Uint64(raw[6])), timeOf(int64(be.Uint64(raw[7]))), raw[8], raw[9]
	return h, nil
}

// hotSizes are the bytes of the columns that scan selects; 0: any number.
var hotSizes = [10]int{8, 8, 2, 4, 2, 4, 8, 8, 0, 0}

func scanHotText(rows pgx.Rows) (h channel.Hot, err error) {
	var id, key, gen, submitted int64
	var state, group int16
	var links int32
	var lease, facts pgtype.DriverBytes
	err = rows.Scan(&id, &key, &state, &h.Weight, &group, &links, &gen, &submitted, &lease, &facts)
	h.ID, h.Host, h.State, h.Group, h.Links, h.Gen = channel.ID(id), channel.HostKey(key), channel.State(state), int(group), int(links), channel.Gen(gen)
	h.Submitted, h.Lease, h.Facts = timeOf(submitted), lease, facts
	return h, err
}
