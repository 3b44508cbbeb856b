package haul

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
)

// slow is the least cost of hauling single units, by trying every way.
func slow(supply, room []int, cost [][]float64) float64 {
	for i, s := range supply {
		if s == 0 {
			continue
		}
		best := math.Inf(1)
		supply[i]--
		for j := range room {
			if room[j] > 0 {
				room[j]--
				best = min(best, cost[i][j]+slow(supply, room, cost))
				room[j]++
			}
		}
		supply[i]++
		return best
	}
	return 0
}

func TestLeastAgreesWithTryingAll(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 1))
		supply, room := make([]int, 1+rng.IntN(4)), make([]int, 1+rng.IntN(3))
		cost := make([][]float64, len(supply))
		all, units := 0, 0
		for i := range supply {
			supply[i] = rng.IntN(3)
			units += supply[i]
			for range room {
				cost[i] = append(cost[i], float64(rng.IntN(20)))
			}
		}
		for j := range room {
			room[j] = rng.IntN(4)
			all += room[j]
		}
		got, err := Least(floats(supply), floats(room), func(i, j int) float64 { return cost[i][j] })
		if (err != nil) != (units > all) || err != nil && !errors.Is(err, ErrRoom) {
			t.Fatalf("seed %d: %d units, room for %d: %v", seed, units, all, err)
		}
		if want := slow(supply, room, cost); err == nil && math.Abs(got-want) > 1e-6 {
			t.Fatalf("seed %d: %v, want %v: supply %v room %v cost %v", seed, got, want, supply, room, cost)
		}
	}
}

func floats(v []int) (f []float64) {
	for _, x := range v {
		f = append(f, float64(x))
	}
	return f
}

// Parts of units, many supplies: the total is at least that of the dual for any prices, and equals it for the best ones that ascent finds.
func TestLeastMeetsItsDual(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	const n, m = 400, 12
	supply, room := make([]float64, n), make([]float64, m)
	cost := make([][]float64, n)
	sum := 0.
	for i := range n {
		supply[i] = rng.ExpFloat64()
		sum += supply[i]
		for range m {
			cost[i] = append(cost[i], 100*rng.Float64())
		}
	}
	for j := range m {
		room[j] = 1.1 * sum / m
	}
	got, err := Least(supply, room, func(i, j int) float64 { return cost[i][j] })
	if err != nil {
		t.Fatal(err)
	}
	price, best := make([]float64, m), 0.
	for step := range 4000 {
		used, dual := make([]float64, m), 0.
		for i := range n {
			at := 0
			for j := range m {
				if cost[i][j]+price[j] < cost[i][at]+price[at] {
					at = j
				}
			}
			used[at] += supply[i]
			dual += supply[i] * (cost[i][at] + price[at])
		}
		for j := range m {
			dual -= price[j] * room[j]
			price[j] = max(price[j]+20/(10+float64(step))*(used[j]-room[j])/room[j]*10, 0)
		}
		best = max(best, dual)
	}
	if best > got*(1+1e-9) || best < got*.995 {
		t.Errorf("total %v, best dual %v", got, best)
	}
}

func BenchmarkLeast(b *testing.B) {
	rng := rand.New(rand.NewPCG(3, 3))
	const n, m = 2000, 100
	supply, room, x, y := make([]float64, n), make([]float64, m), make([][2]float64, n), make([][2]float64, m)
	for i := range n {
		supply[i], x[i] = 1, [2]float64{rng.Float64(), rng.Float64()}
	}
	for j := range m {
		room[j], y[j] = 1.05*n/m, [2]float64{rng.Float64(), rng.Float64()}
	}
	for b.Loop() {
		if _, err := Least(supply, room, func(i, j int) float64 { return math.Hypot(x[i][0]-y[j][0], x[i][1]-y[j][1]) }); err != nil {
			b.Fatal(err)
		}
	}
}
