package manager

import (
	"container/heap"
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"shoal/channel"
	"shoal/channel/lease"
	"shoal/manager/dispatch"
	"shoal/recrawl"
)

// crawled is a manager of n channels, each a host of its own, that were crawled before: their change intervals are a week on average.
func crawled(b testing.TB, n int, strategy string) *Manager {
	rng := rand.New(rand.NewPCG(3, 4))
	cfg := Default()
	cfg.Strategy, cfg.MinPeersWait = strategy, 0
	cfg.Archive, cfg.Evidence, cfg.Swarm = stillArchive{}, noEvidence{}, noSwarm{}
	cfg.Sign = func(channel.Header) (channel.Signed, error) { return channel.Signed{}, nil }
	var buf []byte
	cfg.Store = many{n: n, perHost: 1, facts: func(int) []byte {
		last := recrawl.Tick(1 + rng.IntN(10_000))
		f := recrawl.Facts{Est: recrawl.Prior(100+rng.ExpFloat64()*10_000, 4), Submitted: last, Updated: last, Service: recrawl.ToHalf(1)}
		buf = f.AppendState(buf[:0])
		return buf
	}}
	at := time.Now()
	cfg.Now = func() time.Time { return at }
	m, err := New(context.Background(), cfg)
	if err != nil {
		b.Fatal(err)
	}
	return m
}

// BenchmarkDecisions is one decision of the loop: the most urgent channel is chosen among all, politeness admits it, its next generation is issued,
// its report is heard and observed, which ranks it anew. Without database, signing and placing. The baseline does the same with a map and a heap of due times.
func BenchmarkDecisions(b *testing.B) {
	n := benchChannels(b)
	rate := func(b *testing.B, done int, cpu float64) {
		b.ReportMetric((cpuSeconds()-cpu)*1e9/float64(done), "cpu-ns/decision")
		b.ReportMetric(float64(done)/b.Elapsed().Seconds(), "decisions/s")
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(done), "ns/decision")
	}
	for _, strategy := range []string{"fixed", "price"} {
		b.Run(fmt.Sprintf("n=%d/%s", n, strategy), func(b *testing.B) {
			m := crawled(b, n, strategy)
			start := recrawl.Tick(10_001)
			m.sched.Next(start, recrawl.Load{Room: 0}, nil) // ranks all once
			b.ReportAllocs()
			b.ResetTimer()
			d := dispatch.New(m.clock.Time(start), dispatch.Config{Clock: m.clock, Terms: m.cfg.Terms, MaxOut: -1, Batch: maxBatch}, m.sched, alone{m.table}, ready{})
			done, tick, cpu := 0, start, cpuSeconds()
			for done < b.N {
				now := m.clock.Time(tick)
				orders := d.Tick(now)
				for i, o := range orders {
					for _, kind := range []lease.Kind{lease.Claimed, lease.Reported} {
						if _, err := d.Hear(now, o.Slot, lease.Event{Kind: kind, Gen: o.Gen}, ""); err != nil {
							b.Fatal(err)
						}
					}
					m.sched.Observe(tick, o.Slot, recrawl.Event{Kind: recrawl.Updated, Changed: i%3 == 0, Wait: 1, Service: 1})
				}
				done += len(orders)
				if len(orders) < maxBatch {
					tick++
				}
				d.Acts()
			}
			rate(b, done, cpu)
		})
	}
	b.Run(fmt.Sprintf("n=%d/baseline", n), func(b *testing.B) {
		rng := rand.New(rand.NewPCG(3, 4))
		all := make(map[channel.ID]*dueChannel, n)
		var due dueHeap
		for i := range n {
			c := &dueChannel{id: channel.ID(i + 1), host: fmt.Sprintf("https://www.host-%08d.example", i), every: 100 + rng.ExpFloat64()*10_000}
			c.due = float64(rng.IntN(10_000)) + c.every
			all[c.id] = c
			due = append(due, c)
		}
		heap.Init(&due)
		busy := map[string]bool{}
		b.ReportAllocs()
		b.ResetTimer()
		cpu := cpuSeconds()
		for range b.N {
			c := due[0]
			if !busy[c.host] {
				busy[c.host] = true
			}
			delete(busy, c.host)
			all[c.id].due += c.every
			heap.Fix(&due, 0)
		}
		rate(b, b.N, cpu)
	})
}

// alone are channels of which nothing is kept; each has a host of its own.
type alone struct{ *dispatch.Table }

func (alone) Issue(recrawl.Slot) (lease.Issue, error) { return lease.Issue{}, nil }
func (alone) Expect(recrawl.Slot) time.Duration       { return 0 }

// ready is a swarm that has room for all.
type ready struct{}

func (ready) Room(time.Time, dispatch.Ask) (dispatch.Peer, dispatch.Verdict) { return "", dispatch.Go }
func (ready) Farther(time.Time, []dispatch.Ask) (int, dispatch.Peer, bool)   { return 0, "", false }
func (ready) Held(dispatch.Peer, int)                                        {}
func (ready) Capacity(time.Time) dispatch.Capacity                           { return dispatch.Capacity{} }
func (ready) Looked(time.Time)                                               {}

type dueChannel struct {
	id    channel.ID
	host  string
	due   float64
	every float64
}

type dueHeap []*dueChannel

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].due < h[j].due }
func (h dueHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *dueHeap) Push(x any)        { *h = append(*h, x.(*dueChannel)) }
func (h *dueHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}
