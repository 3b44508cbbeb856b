package postgres

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"shoal/channel"
	"shoal/channel/badgerdb"
	"shoal/channel/storetest"
	"shoal/internal/lab/pglab"
)

// benchChannels returns the size of the large benchmarks: SHOAL_BENCH_CHANNELS, else 20,000.
func benchChannels(b *testing.B) int {
	n, err := strconv.Atoi(os.Getenv("SHOAL_BENCH_CHANNELS"))
	if err != nil || n < 1 {
		return 20_000
	}
	return n
}

// both runs a benchmark on a server that syncs its commits, and on a folder beside it.
func both(b *testing.B, run func(b *testing.B, db storetest.Store)) {
	b.Run("postgres", func(b *testing.B) { run(b, open(b, pglab.Start(b, pglab.Options{Durable: true}), "db")) })
	b.Run("badger", func(b *testing.B) {
		db, err := badgerdb.Open(b.Context(), badgerdb.Default(b.TempDir()))
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			if err := db.Close(); err != nil {
				b.Error(err)
			}
		})
		run(b, db)
	})
}

func imported(b *testing.B, db storetest.Store, n int) channel.Epoch {
	b.Helper()
	e, err := db.Take(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	got, err := db.Import(b.Context(), e, func(yield func(channel.Line) bool) {
		for i := range n {
			if !yield(channel.Line{N: i + 1, Channel: host((i * 7919) % n)}) { // not in the order of names
				return
			}
		}
	})
	if err != nil || got.Added != n {
		b.Fatalf("%+v, %v", got, err)
	}
	return e
}

// BenchmarkImport imports channels once, into an empty database.
func BenchmarkImport(b *testing.B) {
	both(b, func(b *testing.B, db storetest.Store) {
		n := benchChannels(b)
		for b.Loop() {
			imported(b, db, n)
			b.StopTimer()
			if b.N > 1 {
				b.Fatal("run it with -benchtime 1x")
			}
			b.StartTimer()
		}
		b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "channels/s")
	})
}

// BenchmarkScan reads what a manager reads when it starts.
func BenchmarkScan(b *testing.B) {
	both(b, func(b *testing.B, db storetest.Store) {
		n := benchChannels(b)
		imported(b, db, n)
		for b.Loop() {
			seen := 0
			if err := db.Scan(b.Context(), 0, 0, func(channel.Hot) error { seen++; return nil }); err != nil || seen != n {
				b.Fatal(seen, err)
			}
		}
		b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "channels/s")
	})
}

// BenchmarkIssue makes handings-out durable, 256 at a time.
func BenchmarkIssue(b *testing.B) {
	both(b, func(b *testing.B, db storetest.Store) {
		n := benchChannels(b)
		e := imported(b, db, n)
		i := 0
		for b.Loop() {
			batch := make([]channel.Issue, 256)
			for j := range batch {
				batch[j] = channel.Issue{ID: channel.ID(i%n + 1), Gen: channel.Gen(i/n + 1), Lease: make([]byte, 44), At: time.Now()}
				i++
			}
			if refused, err := db.Issue(b.Context(), e, batch); err != nil || len(refused) > 0 {
				b.Fatal(refused, err)
			}
		}
		b.ReportMetric(float64(b.N*256)/b.Elapsed().Seconds(), "issues/s")
	})
}

// BenchmarkApply takes in 256 reports at a time.
func BenchmarkApply(b *testing.B) {
	both(b, func(b *testing.B, db storetest.Store) {
		n := benchChannels(b)
		e := imported(b, db, n)
		i, at := 0, ""
		for b.Loop() {
			a := channel.Advance{Feed: "f", From: at, At: time.Now(), Counters: map[string]int64{"pages": 1}}
			for range 256 {
				a.Edits = append(a.Edits, channel.Edit{ID: channel.ID(i%n + 1), Gen: 1, Lease: make([]byte, 44), Facts: make([]byte, 44), Learnt: &channel.Learnt{Visits: i}})
				i++
			}
			a.To = fmt.Sprint(i)
			at = a.To
			if err := db.Apply(b.Context(), e, a); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.N*256)/b.Elapsed().Seconds(), "reports/s")
	})
}
