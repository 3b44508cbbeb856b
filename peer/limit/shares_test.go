package limit

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestShares(t *testing.T) {
	for _, c := range []struct {
		whole   int
		weights []int
		want    []int
	}{
		{5, []int{1}, []int{5}},
		{5, []int{1, 1}, []int{3, 2}},
		{5, []int{2, 1}, []int{3, 2}},
		{5, []int{3, 1}, []int{4, 1}},
		{5, []int{1000, 1}, []int{4, 1}},
		{2, []int{1000, 1}, []int{1, 1}},
		{1, []int{1, 1}, []int{1, 0}},
		{0, []int{1, 1}, []int{0, 0}},
		{7, []int{1, 1, 1}, []int{3, 2, 2}},
		{10, []int{1, 0, 1}, []int{5, 0, 5}},
		{3, nil, []int{}},
	} {
		if got := Shares(c.whole, c.weights); !slices.Equal(got, c.want) {
			t.Errorf("%d by %v: %v, want %v", c.whole, c.weights, got, c.want)
		}
	}
}

// The parts add up, each is at least 1 where there is enough, and none is more than 1 away from its exact size but for that.
func TestSharesAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		whole := rapid.IntRange(0, 5000).Draw(t, "whole")
		weights := rapid.SliceOfN(rapid.IntRange(1, 1000), 1, 8).Draw(t, "weights")
		parts, total, sum := Shares(whole, weights), 0, 0
		for i, p := range parts {
			total, sum = total+p, sum+weights[i]
			if p < 0 || whole >= len(weights) && p < 1 {
				t.Fatalf("%d by %v: %v", whole, weights, parts)
			}
		}
		if total != whole {
			t.Fatalf("%d by %v: %v, together %d", whole, weights, parts, total)
		}
		for i, p := range parts {
			if exact := whole * weights[i]; p*sum > exact+sum+sum*len(weights) && p > 1 {
				t.Fatalf("%d by %v: %v, the part %d is too large", whole, weights, parts, i)
			}
		}
	})
}
