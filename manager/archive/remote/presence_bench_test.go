package remote

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"shoal/channel"
	"shoal/channel/postgres"
	"shoal/internal/lab/pglab"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/ledger/badgerledger"
	"shoal/manager/archive/ledger/pgledger"
)

// What BenchmarkPresence does at the pace of the product: a manager beats and reads notes twice a second (manager.tenancy), and follows the log five times a
// second and tells that it is alive each other second by itself (pgledger). What it tells of itself has as many bytes as in a network of three managers.
const (
	benchBeat  = 500 * time.Millisecond
	benchAbout = 812
	benchEntry = 64 << 10
	benchPace  = 250 * time.Millisecond // between two entries of the log
)

// BenchmarkPresence measures what managers cost their PostgreSQL server by being there, and what each entry of the log costs that all of them read. Run it with
// -benchtime 1x. SHOAL_BENCH_SECONDS says how long each part lasts; 10 without it.
func BenchmarkPresence(b *testing.B) {
	seconds, err := strconv.Atoi(os.Getenv("SHOAL_BENCH_SECONDS"))
	if err != nil {
		seconds = 10
	}
	for _, writes := range []bool{false, true} {
		for _, n := range []int{1, 4, 16, 64} {
			name := fmt.Sprintf("rest/managers=%d", n)
			if writes {
				name = fmt.Sprintf("entries/managers=%d", n)
			}
			b.Run(name, func(b *testing.B) {
				db := pglab.Start(b, pglab.Options{Durable: true, Settings: []string{"max_connections = 400", "shared_preload_libraries = 'pg_stat_statements'"}})
				if _, err := db.Ask(b.Context(), "CREATE EXTENSION pg_stat_statements"); err != nil {
					b.Fatal(err)
				}
				managersFor(b, db, n, writes, time.Duration(seconds)*time.Second)
			})
		}
	}
}

// managersFor runs managers for a time, and reports what a second cost.
func managersFor(b *testing.B, db *pglab.Server, n int, writes bool, d time.Duration) {
	ctx, cancel := context.WithCancel(b.Context())
	var running sync.WaitGroup
	var logs []*pgledger.Store
	defer func() {
		cancel()
		running.Wait()
		for _, s := range logs {
			_ = s.Close()
		}
	}()
	for i := range n {
		m, s := benchManager(b, db, fmt.Sprint("manager", i))
		logs = append(logs, s)
		running.Go(func() { beats(ctx, b, m) })
	}
	if writes {
		running.Go(func() { entries(ctx, b, logs[0]) })
	}
	if _, err := db.Ask(b.Context(), "SELECT pg_stat_statements_reset()"); err != nil {
		b.Fatal(err)
	}
	before, err := db.CPU()
	if err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	time.Sleep(d)
	b.StopTimer()
	after, err := db.CPU()
	if err != nil {
		b.Fatal(err)
	}
	took := b.Elapsed().Seconds()
	b.ReportMetric(float64((after-before).Microseconds())/1000/took, "pg-cpu-ms/s")
	said, err := db.Ask(context.Background(), "SELECT sum(calls), sum(rows), sum(wal_bytes) FROM pg_stat_statements WHERE query NOT LIKE '%pg_stat%'")
	if err != nil {
		b.Fatal(err)
	}
	for i, sum := range strings.Split(said, "|") {
		v, err := strconv.ParseFloat(sum, 64)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(v/took, []string{"statements/s", "rows/s", "wal-B/s"}[i])
	}
}

// benchManager is what a manager has on its server.
func benchManager(b *testing.B, db *pglab.Server, name string) (*postgres.Several, *pgledger.Store) {
	b.Helper()
	channels, err := postgres.Open(b.Context(), postgres.Default(db.URL()+"&pool_max_conns=2"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = channels.Close() })
	m := channels.AsOne(postgres.SeveralConfig{Node: name, Writer: name, Feed: "archive", Shared: func(string) bool { return false }})
	if _, err := m.Take(b.Context()); err != nil {
		b.Fatal(err)
	}
	server := postgres.Default(db.URL() + "&pool_max_conns=2")
	server.Schema = pgledger.Schema
	s, err := pgledger.Open(b.Context(), pgledger.Config{Server: server, Copy: badgerledger.Config{Dir: filepath.Join(b.TempDir(), "state")}, Writer: name})
	if err != nil {
		b.Fatal(err)
	}
	return m, s
}

// beats has a manager beat and read notes until ctx ends.
func beats(ctx context.Context, b *testing.B, m *postgres.Several) {
	about := make([]byte, benchAbout)
	t := time.NewTicker(benchBeat)
	defer t.Stop()
	for {
		rand.Read(about[:8])
		_, err := m.Beat(ctx, false, about)
		_, nerr := m.Notes(ctx)
		if err := errors.Join(err, nerr); err != nil && ctx.Err() == nil && !errors.Is(err, channel.ErrStaleEpoch) {
			b.Error(err)
		}
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

// entries has a manager append to the log until ctx ends.
func entries(ctx context.Context, b *testing.B, s *pgledger.Store) {
	body := make([]byte, benchEntry)
	t := time.NewTicker(benchPace)
	defer t.Stop()
	for n := 0; ; n++ {
		rand.Read(body)
		if _, err := s.Commit([]ledger.Write{{Changes: []ledger.Change{{Key: fmt.Appendf(nil, "x%d", n%64), Value: body}}}}); err != nil && ctx.Err() == nil {
			b.Error(err)
		}
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}
