package recrawlsim

import (
	"strings"
	"testing"
)

// As CSV, price is set against the best of its rivals in each seed, and its quartiles against fixed's.
func TestCSV(t *testing.T) {
	row := func(strategy string, seed uint64, q float64) Row {
		return Row{Case: "rec", Strategy: strategy, Rates: "known", Mode: "shoal", Weights: "equal", Seed: seed, Steps: 100, Submitted: 80, Accepted: 50, Updates: 40, Open: 10,
			Q: q, Qw: 2 * q, Freshness: q / 10, FreshnessPages: q / 20, QQuartile: []float64{q, q, q, q / 2}, FreshnessQuartile: []float64{q, q, q, q}}
	}
	var out strings.Builder
	if err := writeCSV(&out, []Row{row("fixed", 1, 1), row("icr", 1, 2), row("price", 1, 3), row("fixed", 2, 1), row("icr", 2, .5), row("price", 2, 3)}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"rec price known shoal equal,q,3,0,2\n",
		"rec fixed known shoal equal,updates_per_min,0.4,0,2\n",
		"rec fixed known shoal equal,upd_accepted,0.8,0,2\n",
		"rec fixed known shoal equal,upd_ended,1,0,2\n",
		"rec fixed known shoal equal,upd_submitted,0.5,0,2\n",
		"rec price/best known shoal equal,qw,2.25,1.06066,2\n", // 3/2 and 3/1
		"rec price/best known shoal equal,q_quartile_4,3,0,2\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
}
