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
	"shoal/internal/lab/processor"
)

// benchChannels returns the size of the large benchmarks: SHOAL_BENCH_CHANNELS, else 20,000.
func benchChannels(b *testing.B) int {
	n, err := strconv.Atoi(os.Getenv("SHOAL_BENCH_CHANNELS"))
	if err != nil || n < 1 {
		return 20_000
	}
	return n
}

// settings are those of a server with some memory to itself; the defaults are for one that shares 128 MB.
var settings = []string{"shared_buffers = 512MB", "max_wal_size = 4GB"}

// server starts a server that syncs its commits.
func server(b *testing.B) *pglab.Server {
	return pglab.Start(b, pglab.Options{Durable: true, Settings: settings})
}

// costs reports what processor time a benchmark took of this process and of the server, for each of n things.
func costs(b *testing.B, s *pglab.Server) func(n int, thing string) {
	b.Helper()
	now := func() (own, of time.Duration) {
		if s != nil {
			var err error
			if of, err = s.CPU(); err != nil {
				b.Fatal(err)
			}
		}
		return processor.Time(b), of
	}
	own, of := now()
	return func(n int, thing string) {
		ownNow, ofNow := now()
		b.ReportMetric(float64((ownNow-own).Nanoseconds())/1e3/float64(n), "cpu-us/"+thing)
		if s != nil {
			b.ReportMetric(float64((ofNow-of).Nanoseconds())/1e3/float64(n), "postgres-us/"+thing)
		}
	}
}

// both runs a benchmark on a server, and on a folder beside it.
func both(b *testing.B, run func(b *testing.B, db storetest.Store, s *pglab.Server)) {
	b.Run("postgres", func(b *testing.B) {
		s := server(b)
		run(b, open(b, s, "db"), s)
	})
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
		run(b, db, nil)
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
	both(b, func(b *testing.B, db storetest.Store, s *pglab.Server) {
		n := benchChannels(b)
		report := costs(b, s)
		for b.Loop() {
			imported(b, db, n)
			b.StopTimer()
			if b.N > 1 {
				b.Fatal("run it with -benchtime 1x")
			}
			b.StartTimer()
		}
		b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "channels/s")
		report(n, "channel")
	})
}

// BenchmarkScan reads what a manager reads when it starts.
func BenchmarkScan(b *testing.B) {
	both(b, func(b *testing.B, db storetest.Store, s *pglab.Server) {
		n := benchChannels(b)
		imported(b, db, n)
		report := costs(b, s)
		for b.Loop() {
			seen := 0
			if err := db.Scan(b.Context(), 0, 0, func(channel.Hot) error { seen++; return nil }); err != nil || seen != n {
				b.Fatal(seen, err)
			}
		}
		b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "channels/s")
		report(n*b.N, "channel")
	})
}

// BenchmarkIssue makes handings-out durable, 256 at a time.
func BenchmarkIssue(b *testing.B) {
	both(b, func(b *testing.B, db storetest.Store, s *pglab.Server) {
		n := benchChannels(b)
		e := imported(b, db, n)
		i, report := 0, costs(b, s)
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
		report(b.N*256, "issue")
	})
}

// BenchmarkApply takes in 256 reports at a time.
func BenchmarkApply(b *testing.B) {
	both(b, func(b *testing.B, db storetest.Store, s *pglab.Server) {
		n := benchChannels(b)
		e := imported(b, db, n)
		i, at, report := 0, "", costs(b, s)
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
		report(b.N*256, "report")
	})
}

// BenchmarkTakeOver has a manager of four stop renewing its tenancy, and another one do what it does then: wait until the tenancy has ended, take the
// 64 partitions and read their channels, a quarter of all.
func BenchmarkTakeOver(b *testing.B) {
	once := func(b *testing.B) {
		if b.N > 1 {
			b.Fatal("run it with -benchtime 1x")
		}
	}
	once(b)
	s := server(b)
	db := open(b, s, "")
	imported(b, db, benchChannels(b))
	one := func(name string) *Several {
		m := open(b, s, "").AsOne(SeveralConfig{Node: name, Writer: name, Feed: "archive"})
		if _, err := m.Take(b.Context()); err != nil {
			b.Fatal(err)
		}
		return m
	}
	beat := func(m *Several) channel.Tenure {
		t, err := m.Beat(b.Context(), false, nil)
		if err != nil {
			b.Fatal(err)
		}
		return t
	}
	dead, next := one("dead"), one("next")
	quarter := allParts()[:channel.Parts/4]
	if _, err := dead.TakeParts(b.Context(), quarter); err != nil {
		b.Fatal(err)
	}
	beat(dead)
	report := costs(b, s)
	b.ResetTimer()
	for beats := time.NewTicker(DefaultTerm / 3); len(beat(next).Tenants) > 1; { // as managers renew theirs
		<-beats.C
	}
	ended := b.Elapsed()
	taken, err := next.TakeParts(b.Context(), quarter)
	if err != nil || len(taken.Parts) != len(quarter) {
		b.Fatal(len(taken.Parts), err)
	}
	if err := next.JoinParts(b.Context(), ""); err != nil {
		b.Fatal(err)
	}
	n := 0
	if err := next.ScanParts(b.Context(), taken.Parts, 0, func(channel.Hot) error { n++; return nil }); err != nil {
		b.Fatal(err)
	}
	b.StopTimer()
	b.ReportMetric(ended.Seconds(), "s-until-ended")
	b.ReportMetric(float64(n), "channels")
	report(n, "channel")
}
