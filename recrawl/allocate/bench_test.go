package allocate_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"shoal/cmd/shoal-sim/allocsim"
	"shoal/recrawl/allocate"
)

// The figure to meet: a million mixed pages and five million crawls in a second on one core.
func BenchmarkSolve(b *testing.B) {
	pages, err := allocsim.NewPages(rand.New(rand.NewPCG(1, 1)), allocsim.World{N: 1e6, Mean: 1.5, Mix: allocsim.PaperMix, Shape: 1.5})
	if err != nil {
		b.Fatal(err)
	}
	for _, cores := range []int{1, 2} {
		b.Run(map[int]string{1: "one", 2: "two"}[cores], func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := allocate.Solve(allocate.Problem{Pages: pages, Span: 1, R: 5e6, Cores: cores}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("twin", func(b *testing.B) {
		for b.Loop() {
			start := time.Now()
			x := allocate.HeapGreedy(pages, 1, 5e6)
			b.ReportMetric(time.Since(start).Seconds(), "s/twin")
			_ = x
		}
	})
}
