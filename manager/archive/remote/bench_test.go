package remote

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"shoal/channel"
	"shoal/channel/lease"
	"shoal/internal/lab/pglab"
	"shoal/internal/lab/processor"
	"shoal/internal/lab/s3lab"
	"shoal/manager/archive"
)

// The benchmarks compare an archive on servers of their own with one in a folder, on the same load and in the same run. The servers run on this
// machine: PostgreSQL syncs its commits, and each write of an object takes 80 ms longer.

const (
	benchPeers = 200
	perChunk   = 50
	pageBytes  = 8 << 10
	putDelay   = 80 * time.Millisecond
)

// benchPages is SHOAL_BENCH_PAGES, else 20,000.
func benchPages() int {
	n := given("SHOAL_BENCH_PAGES", 20_000)
	return max(n-n%(benchPeers*perChunk), benchPeers*perChunk)
}

// given is a number that the environment gives, else a default.
func given(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil && n > 0 {
		return n
	}
	return otherwise
}

// subject is an archive, and what else can be measured of it.
type subject struct {
	*archive.Archive
	db  *pglab.Server // nil: none
	sql *pgx.Conn
}

// onBoth runs a benchmark on both kinds of archive.
func onBoth(b *testing.B, run func(b *testing.B, s subject)) {
	b.Run("servers", func(b *testing.B) {
		db, store := pglab.Start(b, pglab.Options{Durable: true}), s3lab.Start(b, s3lab.Options{})
		store.Break(store.Puts(".warc.gz", func() s3lab.Fault { return s3lab.Fault{Delay: putDelay} }))
		sql, err := pgx.Connect(b.Context(), db.URL())
		if err != nil {
			b.Fatal(err)
		}
		place := Place{DB: db.URL(), Bucket: store.URL()}
		run(b, subject{opened(b, place.Config(benchConfig(b))), db, sql})
		if err := sql.Close(b.Context()); err != nil {
			b.Error(err)
		}
	})
	b.Run("folder", func(b *testing.B) { run(b, subject{Archive: opened(b, benchConfig(b))}) })
}

func benchConfig(b *testing.B) archive.Config {
	return archive.Config{
		Dir: filepath.Join(b.TempDir(), "archive"), Unpaced: true, NoText: true, RankEvery: -1, AccountOf: func(string) string { return "one account" },
		Verify: func(_ time.Time, s channel.Signed) (channel.Header, error) { return channel.ParseHeader(s.Raw) },
	}
}

func opened(b *testing.B, cfg archive.Config) *archive.Archive {
	a, err := archive.Open(b.Context(), cfg)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := a.Close(); err != nil {
			b.Error(err)
		}
	})
	return a
}

// task makes one of a channel.
func task(id channel.ID) (channel.Signed, []byte) { return crawlOf(id, 1) }

// crawlOf is the task of a channel's crawl.
func crawlOf(id channel.ID, gen channel.Gen) (channel.Signed, []byte) {
	host := fmt.Sprintf("http://site-%d.example", id)
	body := channel.Body{Scope: channel.Scope{Kind: channel.WholeHost, Host: host}, Seeds: []string{host + "/"}, Contact: "https://example.org/"}
	raw := body.Marshal()
	h := channel.Header{
		Network: [32]byte{1}, Channel: id, Gen: gen, Host: host, Pages: 10, Issued: time.Now(), Latest: time.Now().Add(time.Hour),
		BodySHA256: sha256.Sum256(raw), BodyBytes: len(raw), Archive: "archive",
	}
	return channel.Signed{Raw: h.Marshal(), Sig: []byte("good"), Delegation: []byte("d")}, raw
}

// text is a page that compresses about as HTML does.
func text(rng *rand.Rand) []byte {
	var b bytes.Buffer
	for b.Len() < pageBytes {
		fmt.Fprintf(&b, "<p class=\"x%d\">", rng.IntN(10))
		for range 12 {
			for range 2 + rng.IntN(7) {
				b.WriteByte("etaoinshrdlucmfw"[rng.IntN(16)])
			}
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "<a href=\"/page/%d\">next</a></p>\n", rng.IntN(1000))
	}
	return b.Bytes()[:pageBytes]
}

// crawls makes the chunks of each peer.
func crawls(b *testing.B, pages int) [][]channel.Chunk {
	out := make([][]channel.Chunk, benchPeers)
	var wg sync.WaitGroup
	for p := range out {
		wg.Go(func() {
			rng, id := rand.New(rand.NewPCG(1, uint64(p))), channel.ID(p+1)
			var prev [32]byte
			for s := range pages / benchPeers / perChunk {
				var body channel.ChunkBody
				for n := range perChunk {
					t := text(rng)
					body.Pages = append(body.Pages, channel.Page{
						URL: fmt.Sprintf("http://site-%d.example/page/%d/%d", id, s, n), Fetched: time.Now(), Status: 200, Change: channel.New, Digest: channel.ContentDigest(t), Body: t,
						Header: []byte("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nETag: \"abc\"\r\nServer: pond\r\n\r\n"),
						Links:  []string{fmt.Sprintf("http://site-%d.example/page/%d/%d", id, s, n+1), fmt.Sprintf("http://site-%d.example/", id+1)},
					})
				}
				raw, err := channel.CompressBody(body.Marshal())
				if err != nil {
					b.Error(err)
					return
				}
				c := channel.Chunk{Channel: id, Gen: 1, Seq: uint64(s + 1), Prev: prev, Body: raw}
				prev = c.Hash()
				out[p] = append(out[p], c)
			}
		})
	}
	wg.Wait()
	return out
}

// claim has each peer hold its task.
func (s subject) claim(b *testing.B) {
	for p := range benchPeers {
		signed, body := task(channel.ID(p + 1))
		if err := s.Deposit(b.Context(), signed, body); err != nil {
			b.Fatal(err)
		}
		if c, err := s.Claim(b.Context(), fmt.Sprint("peer", p), signed); err != nil || c.Status != lease.Granted {
			b.Fatal(c.Status, err)
		}
	}
}

// put has each peer send its chunks, one after the other, and returns how long each waited for its answer. every is the time between the beginnings
// of a peer's chunks; 0: as fast as they are answered.
func (s subject) put(b *testing.B, all [][]channel.Chunk, every time.Duration) (waits []time.Duration) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	began := time.Now()
	for p, chunks := range all {
		wg.Go(func() {
			for n, c := range chunks {
				due := began.Add(every*time.Duration(n) + every*time.Duration(p)/benchPeers)
				time.Sleep(time.Until(due))
				at := time.Now()
				if r, err := s.Put(context.Background(), fmt.Sprint("peer", p), c); err != nil || r.Status != lease.Stored {
					b.Errorf("peer %d, chunk %d: %v, %v", p, n, r.Status, err)
					return
				}
				if every > 0 {
					at = due // who comes late because the one before was, has waited too
				}
				mu.Lock()
				waits = append(waits, time.Since(at))
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	slices.Sort(waits)
	return waits
}

// spent is what has been used up so far.
type spent struct {
	own, server time.Duration
	wal         int64
}

func (s subject) spent(b *testing.B) (out spent) {
	out.own = processor.Time(b)
	if s.db == nil {
		return out
	}
	if err := s.sql.QueryRow(b.Context(), `SELECT (pg_current_wal_lsn() - '0/0')::bigint`).Scan(&out.wal); err != nil {
		b.Fatal(err)
	}
	var err error
	if out.server, err = s.db.CPU(); err != nil {
		b.Fatal(err)
	}
	return out
}

// BenchmarkStore stores pages as fast as they are taken.
func BenchmarkStore(b *testing.B) {
	pages := benchPages()
	all := crawls(b, pages)
	onBoth(b, func(b *testing.B, s subject) {
		once(b)
		s.claim(b)
		before := s.spent(b)
		b.ResetTimer()
		s.put(b, all, 0)
		b.StopTimer()
		after := s.spent(b)
		b.ReportMetric(float64(pages)/b.Elapsed().Seconds(), "pages/s")
		b.ReportMetric(float64((after.own-before.own).Microseconds())/float64(pages), "cpu-us/page")
		if s.db != nil {
			b.ReportMetric(float64((after.server-before.server).Microseconds())/float64(pages), "postgres-us/page")
			b.ReportMetric(float64(after.wal-before.wal)/float64(pages), "WAL-B/page")
		}
	})
}

// BenchmarkAcknowledge stores 3,500 pages a second, or SHOAL_BENCH_PACE, and measures how long peers wait for an answer. It says something only
// where the machine can do more than that.
func BenchmarkAcknowledge(b *testing.B) {
	pages := benchPages()
	all := crawls(b, pages)
	onBoth(b, func(b *testing.B, s subject) {
		once(b)
		s.claim(b)
		b.ResetTimer()
		waits := s.put(b, all, time.Second*benchPeers*perChunk/time.Duration(given("SHOAL_BENCH_PACE", 3500)))
		b.StopTimer()
		b.ReportMetric(waits[len(waits)/2].Seconds(), "p50-s")
		b.ReportMetric(waits[len(waits)*99/100].Seconds(), "p99-s")
		b.ReportMetric(float64(pages)/b.Elapsed().Seconds(), "pages/s")
	})
}

// BenchmarkClaim claims tasks, each by a call of its own, of 200 peers at once.
func BenchmarkClaim(b *testing.B) {
	const claims, peers = 20_000, 200
	onBoth(b, func(b *testing.B, s subject) {
		once(b)
		signed := make([]channel.Signed, claims)
		each := func(do func(i int) error) {
			var wg sync.WaitGroup
			for p := range peers {
				wg.Go(func() {
					for i := p; i < claims; i += peers {
						if err := do(i); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
		}
		each(func(i int) error {
			one, body := task(channel.ID(i + 1))
			signed[i] = one
			return s.Deposit(context.Background(), one, body)
		})
		before := s.spent(b)
		b.ResetTimer()
		each(func(i int) error {
			c, err := s.Claim(context.Background(), fmt.Sprint("peer", i%peers), signed[i])
			if err == nil && c.Status != lease.Granted {
				err = fmt.Errorf("claim %d: status %v", i, c.Status)
			}
			return err
		})
		b.StopTimer()
		after := s.spent(b)
		b.ReportMetric(claims/b.Elapsed().Seconds(), "claims/s")
		b.ReportMetric(float64((after.own-before.own).Microseconds())/claims, "cpu-us/claim")
	})
}

func once(b *testing.B) {
	if b.N > 1 {
		b.Fatal("run it with -benchtime 1x")
	}
}
