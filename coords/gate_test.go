package coords

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestGateAgreesWithSorting compares the gate with one that sorts its window each time.
func TestGateAgreesWithSorting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var g gate
		var all []float64
		for i, r := range rapid.SliceOfN(rapid.Float64Range(0, 3), 0, 4*gateWindow).Draw(t, "residuals") {
			if rapid.Bool().Draw(t, "coarse") { // so that some are equal
				r = math.Round(r)
			}
			want := true
			if last := slices.Clone(all[max(0, len(all)-gateWindow):]); len(last) >= 6 {
				slices.Sort(last)
				median := last[len(last)/2]
				for k := range last {
					last[k] = math.Abs(last[k] - median)
				}
				slices.Sort(last)
				want = r <= median+2*last[len(last)/2]+gateSlack
			}
			if got := g.admit(r, 2, 6); got != want {
				t.Fatalf("residual %d of %v: admitted %v, want %v", i, r, got, want)
			}
			all = append(all, r)
		}
	})
}
