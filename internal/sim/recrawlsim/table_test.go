package recrawlsim

import (
	"strings"
	"testing"
)

// The best rival is another one in each seed: icr in the first (ratio 1.5), fixed in the second (ratio 2).
func TestRatiosTakeTheBestOfEachSeed(t *testing.T) {
	row := func(name string, seed uint64, qw float64, largest float64) Row {
		return Row{Strategy: name, Seed: seed, Qw: qw, Q: qw, Freshness: qw, FreshnessPages: qw,
			FreshnessQuartile: []float64{1, 1, 1, largest}, QQuartile: []float64{1, 1, 1, largest}}
	}
	rows := []Row{row("fixed", 1, 1, .5), row("icr", 1, 2, .9), row("price", 1, 3, .4), row("fixed", 2, 2, .5), row("icr", 2, 1, .9), row("price", 2, 4, .5)}
	var out strings.Builder
	writeRatios(&out, rows)
	for _, want := range []string{"the best of fixed, icr in each seed: Qw 1.750±0.354", "freshness 1.000 1.000 1.000 0.900"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in:\n%s", want, out.String())
		}
	}
	out.Reset()
	if writeRatios(&out, rows[:2]); out.Len() > 0 {
		t.Errorf("ratios without price: %s", out.String())
	}
}
