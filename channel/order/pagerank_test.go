package order

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// slowPageRank is eq. (1) as it stands, with a page without links linking to all.
func slowPageRank(g Graph, jump float64) []float64 {
	n := g.Pages()
	x := make([]float64, n)
	for i := range x {
		x[i] = 1 / float64(n)
	}
	for range 2000 {
		y := make([]float64, n)
		lost := 0.
		for i := range n {
			links := g.Links(Page(i))
			if len(links) == 0 {
				lost += x[i]
			}
			for _, j := range links {
				y[j] += (1 - jump) * x[i] / float64(len(links))
			}
		}
		for i := range y {
			y[i] += jump/float64(n) + (1-jump)*lost/float64(n)
		}
		x = y
	}
	return x
}

func randomGraph(rt *rapid.T) Graph {
	n := rapid.IntRange(1, 40).Draw(rt, "pages")
	arcs := rapid.SliceOfN(rapid.Uint32Range(0, uint32(n-1)), 0, 200).Draw(rt, "ends")
	half := len(arcs) / 2
	g, err := NewGraph(n, arcs[:half], arcs[half:2*half])
	if err != nil {
		rt.Fatal(err)
	}
	return g
}

func distance(a, b []float64) (d float64) {
	for i := range a {
		d += math.Abs(a[i] - b[i])
	}
	return d
}

func TestPageRankIsEquationOne(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		g := randomGraph(rt)
		jump := rapid.SampledFrom([]float64{.15, .1, .2, .5}).Draw(rt, "jump")
		slow := slowPageRank(g, jump)
		fast, _ := PageRank(g, Options{Jump: jump})
		if d := distance(slow, fast); !(d < 1e-10) {
			rt.Fatalf("off by %g:\n%v\n%v", d, fast, slow)
		}
		// From a start, good or bad, it ends at the same place.
		start := rapid.SliceOfN(rapid.Float64(), 0, g.Pages()+3).Draw(rt, "start")
		again, _ := PageRank(g, Options{Jump: jump, Start: start})
		if d := distance(slow, again); !(d < 1e-10) {
			rt.Fatalf("from %v: off by %g", start, d)
		}
	})
}

func TestPageRankOfNothing(t *testing.T) {
	if r, _ := PageRank(Graph{}, Options{}); len(r) != 0 {
		t.Error(r)
	}
	g, err := NewGraph(3, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if r, _ := PageRank(g, Options{}); distance(r, []float64{1. / 3, 1. / 3, 1. / 3}) > 1e-15 {
		t.Error(r)
	}
	for _, ends := range [][2][]uint32{{{0}, {3}}, {{3}, {0}}, {{1}, nil}} {
		if _, err := NewGraph(3, ends[0], ends[1]); err == nil {
			t.Errorf("%v was taken", ends)
		}
	}
}

// Yesterday's ranks save work when the Web has changed a little.
func TestPageRankGoesOn(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	g := webGraph(rng, 20_000, 200_000)
	rank, cold := PageRank(g, Options{})
	for range 100 {
		g.Arcs[rng.IntN(len(g.Arcs))] = uint32(rng.IntN(20_000))
	}
	want, _ := PageRank(g, Options{Tolerance: 1e-12})
	got, warm := PageRank(g, Options{Start: rank})
	if d := distance(got, want); d > 1e-10 {
		t.Errorf("off by %g", d)
	}
	if warm >= cold {
		t.Errorf("%d sweeps from yesterday's ranks, %d from none", warm, cold)
	}
}

// webGraph has heavy-tailed numbers of links in, and a third of its pages without links out.
func webGraph(rng *rand.Rand, n, arcs int) Graph {
	from, to := make([]uint32, arcs), make([]uint32, arcs)
	for i := range arcs {
		u := rng.Float64()
		from[i] = uint32(rng.IntN(n * 2 / 3))
		to[i] = uint32(u * u * u * float64(n))
	}
	g, err := NewGraph(n, from, to)
	if err != nil {
		panic(err)
	}
	return g
}

func FuzzNewGraph(f *testing.F) {
	f.Add(3, []byte{0, 1, 1, 2})
	f.Add(0, []byte{})
	f.Add(1, []byte{0, 0})
	f.Fuzz(func(t *testing.T, n int, b []byte) {
		if n < 0 || n > 300 {
			return
		}
		var from, to []uint32
		for i := 0; i+1 < len(b); i += 2 {
			from, to = append(from, uint32(b[i])), append(to, uint32(b[i+1]))
		}
		g, err := NewGraph(n, from, to)
		if err != nil {
			return
		}
		r, _ := PageRank(g, Options{})
		sum := 0.
		for _, x := range r {
			if !(x > 0) {
				t.Fatalf("rank %v", x)
			}
			sum += x
		}
		if n > 0 && math.Abs(sum-1) > 1e-9 {
			t.Fatalf("ranks add up to %v", sum)
		}
	})
}

func BenchmarkPageRank(b *testing.B) {
	g := webGraph(rand.New(rand.NewPCG(1, 2)), 325_000, 3_200_000)
	for b.Loop() {
		_, n := PageRank(g, Options{})
		b.ReportMetric(float64(n), "sweeps")
	}
}
