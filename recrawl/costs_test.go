package recrawl

import (
	"math"
	"testing"
)

// TestMeanOfTheFirstCosts: the sites that end first are the smallest. Until many have ended, all count alike; a restored mean is one of many.
func TestMeanOfTheFirstCosts(t *testing.T) {
	var v costs
	for _, s := range []float64{1, 1, 1, 9} {
		v.served(&Facts{Weight: 2}, s)
	}
	if v.mean != 3 || v.dear != 1.5 {
		t.Errorf("a mean of %v, %v by weight: want 3 and 1.5", v.mean, v.dear)
	}
	again := costs{mean: v.mean, dear: v.dear}
	again.served(&Facts{Weight: 2}, 1003)
	if math.Abs(again.mean-4) > 1e-9 {
		t.Errorf("one update moves a restored mean from 3 to %v, want 4", again.mean)
	}
}
