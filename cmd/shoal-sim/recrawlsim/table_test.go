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

func TestRoundTicks(t *testing.T) {
	for _, tc := range []struct {
		lo, hi float64
		want   string
	}{{0, 20, "0 5 10 15 20"}, {.5, 100, "10 20 30 40 50 60 70 80 90 100"}, {0, 7500, "0 1000 2000 3000 4000 5000 6000 7000"}, {0, .06, "0.00 0.01 0.02 0.03 0.04 0.05 0.06"},
		{2, 4.8, "2.0 2.5 3.0 3.5 4.0 4.5"}} {
		var got []string
		for _, tick := range roundTicks(tc.lo, tc.hi) {
			got = append(got, tick.Label)
		}
		if s := strings.Join(got, " "); s != tc.want {
			t.Errorf("%v to %v: %s, want %s", tc.lo, tc.hi, s, tc.want)
		}
	}
}

func TestDecades(t *testing.T) {
	for _, tc := range []struct {
		lo, hi float64
		want   string
	}{{2.3, 4.31, "200 500 1,000 2,000 5,000 10,000 20,000"}, {3, 6, "1,000 10,000 100,000 1,000,000"}, {-1, 0, "0.1 0.2 0.5 1"}} {
		var got []string
		for _, tick := range decades(tc.lo, tc.hi) {
			if tick.Label != "" {
				got = append(got, tick.Label)
			}
		}
		if s := strings.Join(got, " "); s != tc.want {
			t.Errorf("%v to %v: %s, want %s", tc.lo, tc.hi, s, tc.want)
		}
	}
}
