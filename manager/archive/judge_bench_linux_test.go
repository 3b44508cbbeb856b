package archive

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"shoal/channel"
	"shoal/manager/trust"
)

// BenchmarkJudge measures what it costs to judge deliveries beside what it costs to store them, by turns, in processor time: crawls of a channel of 300 pages by
// peers in turn, of which a share of the pages has changed.
func BenchmarkJudge(b *testing.B) {
	for _, changed := range []int{1, 5, 20} {
		b.Run(fmt.Sprintf("changed=%d%%", changed), func(b *testing.B) { benchJudge(b, changed) })
	}
}

func benchJudge(b *testing.B, changed int) {
	const pages, peers = 300, 4
	cfg := testConfig(b.TempDir())
	cfg.AccountOf = nil
	cl := &clock{now: time.Now().Truncate(time.Microsecond)}
	cfg.Clock = cl.Now
	a, err := Open(b.Context(), cfg)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = a.Close() })
	m, err := trust.New(trust.Default(), rand.New(rand.NewPCG(1, 1)))
	if err != nil {
		b.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(2, 2))
	bodies, versions := make([]string, pages), make([]int, pages)
	body := func(i int) string { return fmt.Sprintf("<p>%d %d</p>%s", i, versions[i], bodies[i]) }
	for i := range bodies {
		bodies[i] = string(pageText(rng, 6000))
	}
	var storing, judging time.Duration
	stored, gen := 0, channel.Gen(0)
	crawl := func() {
		gen++
		peer := fmt.Sprint("peer", gen%peers)
		n := trust.Peer(a.DelivererNumber(peer))
		m.Join(n, trust.Account(n), trust.Prefix(n))
		m.Vouch(n)
		cl.now = cl.now.Add(time.Minute)
		r, _ := start(b, a, peer, 1, gen)
		cl.now = cl.now.Add(time.Second)
		var all []channel.Page
		for i := range pages {
			change := channel.Unchanged
			if gen == 1 {
				change = channel.New
			} else if rng.IntN(100) < changed {
				change = channel.Changed
				versions[i]++
			}
			p := r.page(fmt.Sprint("/", i), body(i), change)
			if change == channel.Unchanged {
				p.Body, p.Header, p.Links = nil, nil, nil
			}
			all = append(all, p)
		}
		c := r.chunk(channel.ChunkBody{Pages: all, Report: r.report(channel.Updated)})
		from := processor(b)
		if _, err := a.Put(b.Context(), peer, c); err != nil {
			b.Fatal(err)
		}
		between := processor(b)
		d, err := a.Delivery(b.Context(), 1, gen)
		if err != nil || len(d.Pages) != pages {
			b.Fatalf("%d pages, %v", len(d.Pages), err)
		}
		records := make([]Judged, len(d.Pages))
		td := trust.Delivery{Peer: d.Deliverer, Channel: 1, Domain: 1, At: d.Claimed, Pages: make([]trust.Seen, len(d.Pages))}
		for i := range d.Pages {
			p := &d.Pages[i]
			records[i] = Judged{Hash: p.Hash, Page: p.Record, Was: p.Record}
			td.Pages[i] = trust.Seen{URL: p.Hash, Page: &records[i].Page, Digest: p.Digest, Shingle: p.Shingle, Modified: p.Modified}
		}
		m.Deliver(cl.now, &td)
		if err := a.Judge(b.Context(), 1, gen, records); err != nil {
			b.Fatal(err)
		}
		if gen > peers { // all is verified from now on, but for what changes
			storing, judging, stored = storing+between-from, judging+processor(b)-between, stored+pages
		}
	}
	for range peers {
		crawl()
	}
	for b.Loop() {
		crawl()
	}
	b.ReportMetric(float64(storing.Nanoseconds())/1e3/float64(stored), "us-stored/page")
	b.ReportMetric(float64(judging.Nanoseconds())/1e3/float64(stored), "us-judged/page")
	b.ReportMetric(100*judging.Seconds()/storing.Seconds(), "%-of-storing")
}

// processor is the processor time of this process so far.
func processor(tb testing.TB) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
