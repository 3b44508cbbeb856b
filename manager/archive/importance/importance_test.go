package importance

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"shoal/channel/order"
)

// fresh computes the ranks of a set of pages from nothing.
func fresh(pages map[uint64][]uint64) map[uint64]float64 {
	var urls []uint64
	for u := range pages {
		urls = append(urls, u)
	}
	slices.Sort(urls)
	var from, to []uint32
	for i, u := range urls {
		seen := map[uint64]bool{u: true}
		for _, l := range pages[u] {
			if j, ok := slices.BinarySearch(urls, l); ok && !seen[l] {
				from, to = append(from, uint32(i)), append(to, uint32(j))
			}
			seen[l] = true
		}
	}
	g, err := order.NewGraph(len(urls), from, to)
	if err != nil {
		panic(err)
	}
	rank, _ := order.PageRank(g, order.Options{})
	out := map[uint64]float64{}
	for i, u := range urls {
		out[u] = rank[i]
	}
	return out
}

// Whatever came before, and whatever ranks it begins from, the ranks are those of the pages that are stored.
func TestAgainstFreshRanks(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		g := New()
		pages := map[uint64][]uint64{}
		url := rapid.Uint64Range(1, 12)
		for range rapid.IntRange(0, 40).Draw(rt, "steps") {
			u := url.Draw(rt, "url")
			switch rapid.IntRange(0, 5).Draw(rt, "what") {
			case 0:
				g.Rank(order.Options{})
			case 1:
				g.Prior(u, rapid.Float32Range(0, 1).Draw(rt, "prior"))
			default:
				links := rapid.SliceOfN(url, 0, 8).Draw(rt, "links")
				if err := g.Put(u, links); err != nil {
					rt.Fatal(err)
				}
				pages[u] = links
			}
		}
		g.Rank(order.Options{})
		want := fresh(pages)
		if g.Pages() != len(want) {
			rt.Fatalf("%d pages, want %d", g.Pages(), len(want))
		}
		for u := range uint64(14) {
			if r := g.Of(u); math.Abs(float64(r)-want[u]) > 1e-6 {
				rt.Fatalf("page %d has %v, want %v", u, r, want[u])
			}
		}
	})
}

func TestDoublesDoNotCount(t *testing.T) {
	g := New()
	for range 2 {
		if err := g.Put(1, []uint64{2, 2, 1, 3}); err != nil {
			t.Fatal(err)
		}
	}
	if g.Links() != 2 || g.Pages() != 1 {
		t.Errorf("%d links, %d pages", g.Links(), g.Pages())
	}
}

// A day's work at a million pages: one in a hundred changed, then ranked anew from yesterday's ranks; sweeps from nothing beside it.
func BenchmarkDay(b *testing.B) {
	const pages, links = 1_000_000, 10
	rng := rand.New(rand.NewPCG(1, 1))
	g := New()
	put := func(u uint64) {
		row := make([]uint64, links)
		for i := range row {
			x := rng.Float64()
			row[i] = uint64(x * x * pages)
		}
		if err := g.Put(u, row); err != nil {
			b.Fatal(err)
		}
	}
	for u := range uint64(pages) {
		put(u)
	}
	cold := g.Rank(order.Options{Tolerance: 1e-8})
	b.ReportAllocs()
	for b.Loop() {
		for range pages / 100 {
			put(rng.Uint64N(pages))
		}
		b.ReportMetric(float64(g.Rank(order.Options{Tolerance: 1e-8})), "sweeps")
	}
	b.ReportMetric(float64(cold), "cold-sweeps")
}
