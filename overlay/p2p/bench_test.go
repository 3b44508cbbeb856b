package p2p

import (
	"slices"
	"testing"
	"time"

	"shoal/overlay"
)

// BenchmarkLookup looks for the nearest to places all over, among fifty peers with a libp2p host each, over loopback: as the manager
// does, who is connected to all, and as peers do, who hold eight connections and dial for the rest.
func BenchmarkLookup(b *testing.B) {
	n := openWith(b, 50, 1, time.Minute, nil) // the product's own pace
	n.until("all know many", func() bool {
		for _, p := range n.peers {
			if len(p.runner.Peers()) < 20 {
				return false
			}
		}
		return n.takers() == 50
	})
	for _, who := range []struct {
		name string
		from []*site
	}{{"manager", []*site{n.boss}}, {"peers", n.peers}} {
		b.Run(who.name, func(b *testing.B) {
			var took []time.Duration
			asked, i := 0, 0
			b.ReportAllocs()
			for b.Loop() {
				i++
				e, d := n.lookup(b, who.from[i%len(who.from)].runner, n.peers[(i*7+3)%len(n.peers)].runner)
				took, asked = append(took, d), asked+e.Placed.Queries
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
			b.ReportMetric(float64(took[len(took)*9/10].Microseconds())/1000, "p90-ms")
			b.ReportMetric(float64(asked)/float64(len(took)), "queries/op")
		})
	}
}

// lookup has one member look for the nearest to where another is.
func (n *network) lookup(t testing.TB, r, to *Runner) (overlay.Event, time.Duration) {
	t.Helper()
	at := to.Coord()
	began := time.Now()
	e, err := r.await(t.Context(), func(now time.Time, req uint64) []overlay.Send { return r.node.Lookup(now, req, at) })
	if err != nil || len(e.Found) == 0 {
		t.Fatalf("nobody found: %v", err)
	}
	return e, time.Since(began)
}
