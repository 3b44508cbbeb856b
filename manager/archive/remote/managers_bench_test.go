package remote

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"shoal/channel"
	"shoal/channel/lease"
	"shoal/internal/lab/pglab"
	"shoal/internal/lab/s3lab"
	"shoal/manager/archive"
)

// team is archives of several managers on one server and one bucket.
type team []subject

// onTeams runs a benchmark on one manager, on two and on three, all in this process. The first of a team is asked what was spent: that is of all.
func onTeams(b *testing.B, run func(b *testing.B, t team)) {
	for n := 1; n <= 3; n++ {
		b.Run(fmt.Sprintf("managers=%d", n), func(b *testing.B) {
			db, store := pglab.Start(b, pglab.Options{Durable: true}), s3lab.Start(b, s3lab.Options{})
			store.Break(store.Puts(".warc.gz", func() s3lab.Fault { return s3lab.Fault{Delay: putDelay} }))
			sql, err := pgx.Connect(b.Context(), db.URL())
			if err != nil {
				b.Fatal(err)
			}
			var t team
			for i := range n {
				place := Place{DB: db.URL(), Bucket: store.URL(), Writer: fmt.Sprint("manager", i)}
				t = append(t, subject{opened(b, place.Config(benchConfig(b))), db, sql})
			}
			run(b, t)
			if err := sql.Close(b.Context()); err != nil {
				b.Error(err)
			}
		})
	}
}

// read has each manager read what all have stored: that is a part of what storing costs.
func (t team) read(b *testing.B) {
	for _, s := range t {
		if err := s.Others.ShutOut(b.Context(), nil); err != nil {
			b.Fatal(err)
		}
	}
}

// of is the archive to which a peer goes.
func (t team) of(peer int) *archive.Archive { return t[peer%len(t)].Archive }

// each has peers do something at once, each with its numbers below n.
func each(b *testing.B, peers, n int, do func(peer, i int) error) {
	var wg sync.WaitGroup
	for p := range peers {
		wg.Go(func() {
			for i := p; i < n; i += peers {
				if err := do(p, i); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// BenchmarkManagersStore stores pages through one manager, two and three, at a pace that one can keep, and measures what a page costs all of them
// together: each has a copy of the whole ledger.
func BenchmarkManagersStore(b *testing.B) {
	pages := benchPages()
	all := crawls(b, pages)
	onTeams(b, func(b *testing.B, t team) {
		once(b)
		each(b, benchPeers, benchPeers, func(peer, _ int) error {
			signed, body := task(channel.ID(peer + 1))
			if err := t.of(peer).Deposit(context.Background(), signed, body); err != nil {
				return err
			}
			c, err := t.of(peer).Claim(context.Background(), fmt.Sprint("peer", peer), signed)
			return wanted(c.Status, lease.Granted, err)
		})
		t.read(b)
		before := t[0].spent(b)
		b.ResetTimer()
		begin, every := time.Now(), time.Second*benchPeers*perChunk/time.Duration(given("SHOAL_BENCH_PACE", 3500))
		each(b, benchPeers, benchPeers, func(peer, _ int) error {
			for n, c := range all[peer] {
				time.Sleep(time.Until(begin.Add(every*time.Duration(n) + every*time.Duration(peer)/benchPeers)))
				r, err := t.of(peer).Put(context.Background(), fmt.Sprint("peer", peer), c)
				if err := wanted(r.Status, lease.Stored, err); err != nil {
					return err
				}
			}
			return nil
		})
		t.read(b)
		b.StopTimer()
		t.report(b, before, pages, "page")
	})
}

// BenchmarkManagersClaim deposits and claims tasks through one manager, two and three.
func BenchmarkManagersClaim(b *testing.B) {
	const claims = 20_000
	onTeams(b, func(b *testing.B, t team) {
		once(b)
		signed := make([]channel.Signed, claims)
		each(b, benchPeers, claims, func(peer, i int) error {
			one, body := task(channel.ID(i + 1))
			signed[i] = one
			return t.of(peer).Deposit(context.Background(), one, body)
		})
		t.read(b)
		before := t[0].spent(b)
		b.ResetTimer()
		each(b, benchPeers, claims, func(peer, i int) error {
			c, err := t.of(peer).Claim(context.Background(), fmt.Sprint("peer", peer), signed[i])
			return wanted(c.Status, lease.Granted, err)
		})
		t.read(b)
		b.StopTimer()
		t.report(b, before, claims, "claim")
	})
}

func wanted(got, want lease.Status, err error) error {
	if err == nil && got != want {
		err = fmt.Errorf("answered %v, not %v", got, want)
	}
	return err
}

// report says what n things cost.
func (t team) report(b *testing.B, before spent, n int, thing string) {
	after := t[0].spent(b)
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), thing+"s/s")
	b.ReportMetric(float64((after.own-before.own).Nanoseconds())/1e3/float64(n), "cpu-us/"+thing)
	b.ReportMetric(float64((after.server-before.server).Nanoseconds())/1e3/float64(n), "postgres-us/"+thing)
}
