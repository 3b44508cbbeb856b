package coords

import (
	"math"
	"math/rand/v2"
	"testing"
)

// equations are as many random ones as fit has unknowns, as normal makes them.
func equations(rng *rand.Rand) (a [fitDims][fitDims]float64, b [fitDims]float64) {
	for range 24 {
		var u [fitDims]float64
		for k := range u {
			u[k] = rng.NormFloat64()
		}
		addOuter(&a, &u, 1)
	}
	for k := range b {
		b[k] = rng.NormFloat64()
	}
	return a, b
}

func TestSolve(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		a, b := equations(rng)
		lambda := rng.Float64()
		x, ok := solve(&a, &b, lambda)
		if !ok {
			t.Fatal("no solution")
		}
		for i := range fitDims {
			sum := lambda * a[i][i] * x[i]
			for k := range fitDims {
				sum += a[max(i, k)][min(i, k)] * x[k]
			}
			if math.Abs(sum-b[i]) > 1e-9 {
				t.Fatalf("row %d: %v, want %v", i, sum, b[i])
			}
		}
	}
	var none [fitDims][fitDims]float64
	none[3][3] = -1
	if _, ok := solve(&none, &[fitDims]float64{}, 0); ok {
		t.Error("solved what is not positive definite")
	}
}

func BenchmarkSolve(b *testing.B) {
	a, r := equations(rand.New(rand.NewPCG(1, 2)))
	for b.Loop() {
		solve(&a, &r, .01)
	}
}
