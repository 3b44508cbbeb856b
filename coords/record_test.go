package coords

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestFitFindsTheHost(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	var errs []float64
	for range 200 {
		host := Coord{Height: 2 * rng.Float64(), Err: 0.1}
		host.Vec[0], host.Vec[1] = 150*rng.Float64(), 80*rng.Float64()
		var r HostRecord
		for i := range 24 {
			at := Coord{Height: 5 * rng.Float64(), Err: 0.1}
			at.Vec[0], at.Vec[1] = 150*rng.Float64(), 80*rng.Float64()
			r.Add(Sample{Vantage: strconv.Itoa(i), At: at, RTT: Predict(at, host), When: int64(i)})
		}
		got, ok := r.Fit(rng)
		if !ok || !got.Valid() {
			t.Fatalf("fit %+v, %v", got, ok)
		}
		var probe Coord
		probe.Vec[0], probe.Vec[1] = 150*rng.Float64(), 80*rng.Float64()
		errs = append(errs, math.Abs(Distance(&probe, &got)-Distance(&probe, &host)))
	}
	slices.Sort(errs)
	if m, p90 := errs[100], errs[180]; m > 3 || p90 > 10 {
		t.Errorf("prediction from elsewhere errs by %.2f ms (median), %.2f ms (p90); want 3 and 10", m, p90)
	}
}

func TestFitBearsALiar(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	host := Coord{Vec: [Dims]float64{70, 40}, Err: 0.1}
	var r HostRecord
	for i := range 16 {
		at := Coord{Err: 0.1}
		at.Vec[0], at.Vec[1] = 150*rng.Float64(), 80*rng.Float64()
		r.Add(Sample{Vantage: strconv.Itoa(i), At: at, RTT: Predict(at, host)})
	}
	r.Add(Sample{Vantage: "liar", At: Coord{Vec: [Dims]float64{-900}, Err: MinErr}, RTT: time.Millisecond})
	got, _ := r.Fit(rng)
	if d := Apart(&got, &host); d > 25 {
		t.Errorf("one liar among 17 moved the host %.1f ms", d)
	}
}

func TestFitOfFewSamples(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	var r HostRecord
	if _, ok := r.Fit(rng); ok {
		t.Fatal("fitted a host without samples")
	}
	at := Coord{Vec: [Dims]float64{50, 20}, Height: 2, Err: 0.2}
	r.Add(Sample{Vantage: "one", At: at, RTT: 10 * time.Millisecond})
	got, ok := r.Fit(rng)
	if !ok || Apart(&got, &at) > 12 {
		t.Errorf("one sample of 10 ms puts the host %.1f ms away (%v)", Apart(&got, &at), ok)
	}
}

func TestRecordIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var r HostRecord
		n := rapid.IntRange(0, 120).Draw(t, "n")
		shortest := time.Duration(math.MaxInt64)
		for i := range n {
			s := Sample{
				Vantage: strconv.Itoa(rapid.IntRange(0, 60).Draw(t, "vantage")),
				At:      Coord{Err: rapid.Float64Range(-1, 2).Draw(t, "err")},
				RTT:     time.Duration(rapid.Int64Range(-10, int64(12*time.Second)).Draw(t, "rtt")),
				When:    int64(i),
			}
			if r.Add(s) {
				shortest = min(shortest, s.RTT)
			}
			if !r.Valid() {
				t.Fatalf("record out of bounds: %+v", r)
			}
			seen := map[string]bool{}
			for _, s := range r.Samples {
				if seen[s.Vantage] {
					t.Fatalf("two samples of %s", s.Vantage)
				}
				seen[s.Vantage] = true
			}
			if len(r.Best) != min(len(r.Samples), MaxBest) {
				t.Fatalf("%d best of %d samples", len(r.Best), len(r.Samples))
			}
		}
		if len(r.Samples) > 0 && shortest < time.Second {
			got := slices.MinFunc(r.Samples, func(a, b Sample) int { return compareSamples(&a, &b) })
			if got.Vantage != r.Best[0] {
				t.Fatalf("best %s, nearest %s", r.Best[0], got.Vantage)
			}
		}
	})
}

func TestAnycast(t *testing.T) {
	build := func(rtt func(at Coord) time.Duration) bool {
		rng := rand.New(rand.NewPCG(8, 8))
		var r HostRecord
		for i := range 16 {
			at := Coord{Err: 0.1}
			at.Vec[0], at.Vec[1] = 200*rng.Float64(), 80*rng.Float64()
			r.Add(Sample{Vantage: strconv.Itoa(i), At: at, RTT: rtt(at)})
		}
		return r.Anycast
	}
	if !build(func(Coord) time.Duration { return 4 * time.Millisecond }) {
		t.Error("a host that is 4 ms from everywhere is not marked")
	}
	if build(func(at Coord) time.Duration { return Predict(at, Coord{Vec: [Dims]float64{20, 20}}) }) {
		t.Error("a host in one place is marked")
	}
}

func TestMoved(t *testing.T) {
	var r HostRecord
	r.Add(Sample{Vantage: "a", At: Coord{Err: 0.1}, RTT: 5 * time.Millisecond})
	r.Add(Sample{Vantage: "b", At: Coord{Err: 0.1}, RTT: 7 * time.Millisecond})
	there := Coord{Vec: [Dims]float64{100}, Err: 0.1}
	m := r.Moved(func(v string) (Coord, bool) { return there, v == "a" })
	if m.Samples[0].At != there || m.Samples[1].At == there || r.Samples[0].At == there {
		t.Errorf("moved %+v from %+v", m.Samples, r.Samples)
	}
}

// FuzzFit holds that no samples, however odd, give a coordinate out of bounds.
func FuzzFit(f *testing.F) {
	f.Add(uint64(1), 3, 10.0, 20.0, 5.0)
	f.Add(uint64(2), 32, -2999.0, 0.0, 1e-6)
	f.Add(uint64(3), 1, 0.0, 0.0, 9999.0)
	f.Fuzz(func(t *testing.T, seed uint64, n int, x, y, rtt float64) {
		rng := rand.New(rand.NewPCG(seed, 0))
		var r HostRecord
		for i := range min(n, 2*MaxSamples) {
			at := Coord{Vec: [Dims]float64{x * rng.Float64(), y * rng.Float64()}, Err: 0.5, Height: math.Abs(x), Adjust: y / 10}
			r.Add(Sample{Vantage: strconv.Itoa(i), At: at, RTT: time.Duration(rtt * rng.Float64() * 1e6)})
		}
		if got, ok := r.Fit(rng); ok && !got.Valid() {
			t.Fatalf("fitted %+v to %+v", got, r)
		}
	})
}

func BenchmarkFit(b *testing.B) {
	rng := rand.New(rand.NewPCG(5, 5))
	host := Coord{Vec: [Dims]float64{70, 40}, Err: 0.1}
	var r HostRecord
	for i := range 24 {
		at := Coord{Err: 0.1}
		at.Vec[0], at.Vec[1] = 150*rng.Float64(), 80*rng.Float64()
		r.Add(Sample{Vantage: strconv.Itoa(i), At: at, RTT: Predict(at, host)})
	}
	b.ReportAllocs()
	for range b.N {
		r.Fit(rng)
	}
}
