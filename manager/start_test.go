package manager

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"shoal/channel"
	"shoal/channel/badgerdb"
	"shoal/channel/lease"
	"shoal/recrawl"
)

// BenchmarkStart is a manager's start on a database of many channels that were all crawled: the folder is opened, checked and read.
func BenchmarkStart(b *testing.B) {
	n := benchChannels(b)
	dir := b.TempDir()
	fill(b, dir, n)
	for b.Loop() {
		peak, began, cpu := watch(), time.Now(), cpuSeconds()
		db, err := badgerdb.Open(b.Context(), badgerdb.Default(dir))
		if err != nil {
			b.Fatal(err)
		}
		opened := time.Since(began)
		cfg := Default()
		cfg.Store, cfg.Archive, cfg.Swarm = db, stillArchive{}, noSwarm{}
		cfg.Evidence = noEvidence{}
		cfg.Sign = func(channel.Header) (channel.Signed, error) { return channel.Signed{}, nil }
		m, err := New(b.Context(), cfg)
		if err != nil || m.sched.Len() != n || m.tally.visited != n {
			b.Fatal(err, m.sched.Len(), m.tally.visited)
		}
		b.ReportMetric(time.Since(began).Seconds(), "s/start")
		b.ReportMetric(cpuSeconds()-cpu, "cpu-s/start")
		b.ReportMetric(opened.Seconds(), "s/open")
		b.ReportMetric(peak()/(1<<20), "MiB-peak")
		b.StopTimer()
		if err := db.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

// fill makes a database of n channels that were all crawled once.
func fill(b *testing.B, dir string, n int) {
	b.Helper()
	db, err := badgerdb.Open(b.Context(), badgerdb.Default(dir))
	if err != nil {
		b.Fatal(err)
	}
	fillStore(b, db, n)
	if err := db.Close(); err != nil {
		b.Fatal(err)
	}
}

// fillStore does it with an empty database.
func fillStore(b *testing.B, db Store, n int) {
	b.Helper()
	e, err := db.Take(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	now := time.Now()
	name := func(i int) string { return fmt.Sprintf("https://www.host-%08d.example", (i*7919)%n) } // not in the order of names
	got, err := db.Import(b.Context(), e, func(yield func(channel.Line) bool) {
		for i := range n {
			c := channel.Channel{Scope: channel.Scope{Kind: channel.WholeHost, Host: name(i)}, Seeds: []string{name(i) + "/"}, Added: now, State: channel.Active}
			if !yield(channel.Line{N: i + 1, Channel: c}) {
				return
			}
		}
	})
	if err != nil || got.Added != n {
		b.Fatalf("%+v, %v", got, err)
	}
	rng := rand.New(rand.NewPCG(5, 6))
	const step = 1000
	for i := 0; i < n; i += step {
		a := channel.Advance{Feed: "f", From: fmt.Sprint(i), To: fmt.Sprint(i + step), At: now}
		if i == 0 {
			a.From = ""
		}
		for id := i + 1; id <= min(i+step, n); id++ {
			var l lease.Issue
			gen, err := l.Next(now, now.Add(time.Minute), lease.Default())
			if err != nil {
				b.Fatal(err)
			}
			l.Apply(now, lease.Event{Kind: lease.Claimed, Gen: gen, Seq: uint64(2 * id)}, lease.Default())
			l.Apply(now, lease.Event{Kind: lease.Reported, Gen: gen, Seq: uint64(2*id + 1)}, lease.Default())
			last := recrawl.Tick(1 + rng.IntN(1000))
			f := recrawl.Facts{Est: recrawl.Prior(100+rng.ExpFloat64()*10_000, 4), Submitted: last, Updated: last, Service: recrawl.ToHalf(1)}
			a.Edits = append(a.Edits, channel.Edit{ID: channel.ID(id), Gen: gen, Lease: l.Append(nil), Facts: f.AppendState(nil),
				Learnt: &channel.Learnt{Visits: 1, Pages: 10, Updated: now}, Crawled: now})
			a.Hosts = append(a.Hosts, channel.Host{Name: name(id - 1), NextVisit: now})
		}
		if err := db.Apply(b.Context(), e, a); err != nil {
			b.Fatal(err)
		}
	}
}
