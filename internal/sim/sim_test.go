package sim

import (
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"testing"
)

func TestQueueOrders(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var q Queue[int]
	type ev struct{ at, n int }
	var want []ev
	for n := range 2000 {
		at := rng.IntN(300)
		q.Push(int64(at), n)
		want = append(want, ev{at, n})
	}
	sort.SliceStable(want, func(i, j int) bool { return want[i].at < want[j].at })
	for _, w := range want {
		if next, _ := q.Next(); next != int64(w.at) {
			t.Fatalf("next at %d, want %d", next, w.at)
		}
		if at, n := q.Pop(); at != int64(w.at) || n != w.n {
			t.Fatalf("%d at %d, want %d at %d", n, at, w.n, w.at)
		}
	}
	if _, ok := q.Next(); ok || q.Len() != 0 {
		t.Error("not empty")
	}
}

func TestNearestAgainstScan(t *testing.T) {
	for seed := range uint64(5) {
		rng := Rand(seed, "test")
		points := Synthetic(700, rng)
		index := NewNearest(points)
		for range 200 {
			p := Point{rng.NormFloat64() * 300, rng.NormFloat64() * 300}
			ok := func(i int32) bool { return i%3 != 0 }
			var want []int32
			for i := range points {
				if ok(int32(i)) {
					want = append(want, int32(i))
				}
			}
			slices.SortFunc(want, func(a, b int32) int {
				if p.To(points[a]) < p.To(points[b]) {
					return -1
				}
				return 1
			})
			if got := index.Find(p, 9, ok, nil); !slices.Equal(got, want[:9]) {
				t.Fatalf("seed %d, near %v: %v, want %v", seed, p, got, want[:9])
			}
		}
	}
}

func TestSyntheticSpreadsLikeKing(t *testing.T) {
	for seed := range uint64(10) {
		rng := Rand(seed, "test")
		p := Synthetic(1740, rng)
		d := make([]float64, 20000)
		for i := range d {
			d[i] = p[rng.IntN(len(p))].To(p[rng.IntN(len(p))])
		}
		slices.Sort(d)
		for _, q := range []struct{ at, want float64 }{{.1, 33}, {.5, 152}, {.9, 342}} {
			if got := d[int(q.at*float64(len(d)))]; got < q.want/2 || got > q.want*2 {
				t.Errorf("seed %d: quantile %v is %.0f ms, King's is %.0f", seed, q.at, got, q.want)
			}
		}
	}
}

func TestReplicasStayNear(t *testing.T) {
	rng := Rand(1, "test")
	all := []Point{{0, 0}, {10, 0}, {0, 0}, {50, 0}}
	for i, r := range Replicate(all, all, 5, rng) {
		p := all[i/5]
		want := 10.
		if p.X == 50 {
			want = 40
		}
		if d := p.To(r); d < .1*want-1e-9 || d > .5*want+1e-9 {
			t.Errorf("replica of %v at distance %v", p, d)
		}
	}
}

func TestBadLatencyFileIsNamedWithLine(t *testing.T) {
	dir := t.TempDir()
	for text, want := range map[string]string{
		"0 1 2\n1 2\n":                ":2: 2 fields",
		"0 1 2\n\n1 x 3\n":            `:3: "x"`,
		"0 1 NaN\n":                   `:1: "NaN"`,
		"0 1 2\n":                     "1 points",
		"a,b\n0,1\n":                  ":1: this is a matrix",
		"0;1\n1;0\n":                  ":1: 1 fields, want 3: id x y (a matrix of times, which shoal-sim overlay takes, has commas",
		"0\t1\t2\t3\n":                ":1: 4 fields, want 3: id x y (a matrix of times, which shoal-sim overlay takes, has commas",
		strings.Repeat("1 7 7\n", 30): "all 30 points are in one place",
	} {
		path := filepath.Join(dir, "short.txt")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := LoadEmbedding(path)
		if !errors.Is(err, ErrLatency) || !strings.Contains(err.Error(), "short.txt") || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if _, err := LoadEmbedding(filepath.Join(dir, "none")); !errors.Is(err, ErrLatency) || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
}

func TestChurnMeans(t *testing.T) {
	rng := Rand(1, "test")
	c := PaperChurn()
	var life, gap, polite float64
	const n = 20000
	for range n {
		life += c.Lives(rng) / n
		gap += c.Stays(rng) / n
		if c.Leaves(rng) {
			polite += 1. / n
		}
	}
	if math.Abs(life-1000) > 10 || math.Abs(gap-600) > 10 || math.Abs(polite-1./3) > .02 {
		t.Errorf("life %.0f, gap %.0f, polite %.3f", life, gap, polite)
	}
}

func FuzzReadEmbedding(f *testing.F) {
	f.Add("0 1 2\n1 3 4\n")
	f.Add("0 1\n")
	f.Fuzz(func(t *testing.T, text string) {
		points, err := ReadEmbedding(strings.NewReader(text), "fuzz")
		if err == nil && len(points) < 20 {
			t.Errorf("%d points accepted", len(points))
		}
		for _, p := range points {
			if math.IsNaN(p.X) || math.IsNaN(p.Y) {
				t.Error("not a number")
			}
		}
	})
}
