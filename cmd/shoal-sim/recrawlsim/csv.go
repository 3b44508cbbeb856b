package recrawlsim

import (
	"io"

	"shoal/cmd/shoal-sim/tidy"
)

// derived are figures that follow from a row's.
type derived struct {
	Case      string  `json:"case"`
	Strategy  string  `json:"strategy"`
	Rates     string  `json:"rates"`
	Mode      string  `json:"mode"`
	Weights   string  `json:"weights"`
	Updates   float64 `json:"updates_per_min"`
	Accepted  float64 `json:"upd_accepted"`
	Ended     float64 `json:"upd_ended"`
	Submitted float64 `json:"upd_submitted"`
}

// lead is what price has over the best of its rivals in one seed, and its quartiles of channel size over those of fixed.
type lead struct {
	Case              string    `json:"case"`
	Strategy          string    `json:"strategy"`
	Rates             string    `json:"rates"`
	Mode              string    `json:"mode"`
	Weights           string    `json:"weights"`
	Qw                float64   `json:"qw"`
	Q                 float64   `json:"q"`
	Freshness         float64   `json:"freshness"`
	FreshnessPages    float64   `json:"freshness_pages"`
	FreshnessQuartile []float64 `json:"freshness_quartile,omitempty"`
	QQuartile         []float64 `json:"q_quartile,omitempty"`
}

func writeCSV(out io.Writer, rows []Row) error {
	all := make([]any, 0, 2*len(rows))
	for _, r := range rows {
		all = append(all, r, derived{r.Case, r.Strategy, r.Rates, r.Mode, r.Weights, ratio(float64(r.Updates), float64(r.Steps)),
			r.SuccessAccepted(), r.SuccessEnded(), r.SuccessSubmitted()})
	}
	for _, l := range leads(rows) {
		all = append(all, l)
	}
	return tidy.Write(out, all)
}

// leads compares price with those of its rivals that ran beside it, in each seed.
func leads(rows []Row) (out []lead) {
	for _, p := range byStrategy(rows, "price") {
		l := lead{Case: p.Case, Strategy: "price/best", Rates: p.Rates, Mode: p.Mode, Weights: p.Weights}
		var best Row
		for _, n := range rivals {
			for _, r := range byStrategy(rows, n) {
				if r.Seed != p.Seed {
					continue
				}
				best.Qw, best.Q = max(best.Qw, r.Qw), max(best.Q, r.Q)
				best.Freshness, best.FreshnessPages = max(best.Freshness, r.Freshness), max(best.FreshnessPages, r.FreshnessPages)
				if n == "fixed" {
					for q := range r.QQuartile {
						l.FreshnessQuartile = append(l.FreshnessQuartile, ratio(p.FreshnessQuartile[q], r.FreshnessQuartile[q]))
						l.QQuartile = append(l.QQuartile, ratio(p.QQuartile[q], r.QQuartile[q]))
					}
				}
			}
		}
		if best.Qw == 0 {
			continue
		}
		l.Qw, l.Q = p.Qw/best.Qw, ratio(p.Q, best.Q)
		l.Freshness, l.FreshnessPages = ratio(p.Freshness, best.Freshness), ratio(p.FreshnessPages, best.FreshnessPages)
		out = append(out, l)
	}
	return out
}
