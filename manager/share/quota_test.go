package share

import (
	"math"
	"testing"
)

// TestQuotas has capacity move to where crawls are worth most until they are worth alike everywhere.
func TestQuotas(t *testing.T) {
	// A manager's next crawl is worth what it needs for what it has.
	play := func(want []float64) []Need {
		needs := make([]Need, len(want))
		for range 300 {
			for i, s := range Quotas(needs) {
				needs[i] = Need{Share: s, Price: want[i] / s}
			}
		}
		return needs
	}
	for _, want := range [][]float64{{1}, {1, 1}, {3, 1}, {1, 2, 3, 4}, {5, 1, 1, 1, 1, 1, 1, 1}} {
		sum, all := 0., 0.
		for _, w := range want {
			all += w
		}
		for i, n := range play(want) {
			if sum += n.Share; math.Abs(n.Share-want[i]/all) > .01 {
				t.Errorf("of %v: manager %d has %.3f of the swarm, should have %.3f", want, i, n.Share, want[i]/all)
			}
		}
		if math.Abs(sum-1) > 1e-9 {
			t.Errorf("of %v: the shares are %v together", want, sum)
		}
	}
	if least := play([]float64{1e9, 1})[1].Share; least < leastPart/2/(1+leastPart) {
		t.Errorf("who needs next to nothing has %v of the swarm", least)
	}
}

// TestQuotasUnknown has managers that do not know what crawls are worth come to even shares, also with one that began when the others had all.
func TestQuotasUnknown(t *testing.T) {
	needs := []Need{{Share: .7}, {Share: .3}, {}}
	for range 100 {
		for i, s := range Quotas(needs) {
			needs[i].Share = s
		}
	}
	for i, n := range needs {
		if math.Abs(n.Share-1./3) > .001 {
			t.Errorf("manager %d has %v of the swarm", i, n.Share)
		}
	}
	if got := Quotas(nil); len(got) != 0 {
		t.Errorf("of nobody: %v", got)
	}
}
