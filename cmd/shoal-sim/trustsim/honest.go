package trustsim

import (
	"fmt"
	"io"
	"math"
)

// Honest is what honest peers have to bear, for CSV and for the intervals: how many were suspended, in how many years of theirs; and crawls that went to any peer, not to
// a near one.
type Honest struct {
	Suspended float64 `json:"honest_suspended"`
	Years     float64 `json:"honest_years"`
	Anywhere  float64 `json:"anywhere_share"` // of all crawls
}

// intervals says for each attack, share of liars and defence how many honest peers were suspended in all runs, and within which bounds the rate lies.
func intervals(out io.Writer, rows []Row) error {
	type kind struct {
		attack, defence string
		f               float64
	}
	var order []kind
	sums := map[kind]Honest{}
	for _, r := range rows {
		k := kind{r.Attack, r.Defence, r.F}
		h, known := sums[k]
		if !known {
			order = append(order, k)
		}
		sums[k] = Honest{Suspended: h.Suspended + r.honest.Suspended, Years: h.Years + r.honest.Years}
	}
	var all Honest
	for _, k := range order {
		all.Suspended, all.Years = all.Suspended+sums[k].Suspended, all.Years+sums[k].Years
		if err := sums[k].say(out, fmt.Sprintf("%s, f %g, %s", k.attack, k.f, k.defence)); err != nil {
			return err
		}
	}
	if len(order) < 2 {
		return nil
	}
	return all.say(out, "all of these")
}

func (h Honest) say(out io.Writer, of string) error {
	if h.Years <= 0 {
		return nil
	}
	lo, hi := poisson(int(h.Suspended))
	each := 1000 / h.Years
	_, err := fmt.Fprintf(out, "%s: %.0f honest peers suspended in %.0f years: %.2f in 1,000, with 95%% certainty %.2f to %.2f\n", of, h.Suspended, h.Years, h.Suspended*each, lo*each, hi*each)
	return err
}

// poisson returns the bounds between which the mean of a count lies with 95% certainty, where n were counted. Garwood, "Fiducial limits for the Poisson
// distribution" (Biometrika 1936).
func poisson(n int) (lo, hi float64) {
	below := func(mean float64, k int) float64 { // the chance of at most k
		p, sum := math.Exp(-mean), 0.
		for i := range k + 1 {
			sum += p
			p *= mean / float64(i+1)
		}
		return sum
	}
	find := func(k int, chance float64) float64 {
		from, to := 0., 4*float64(n)+20
		for range 60 {
			if mid := (from + to) / 2; below(mid, k) > chance {
				from = mid
			} else {
				to = mid
			}
		}
		return from
	}
	if n > 0 {
		lo = find(n-1, .975)
	}
	return lo, find(n, .025)
}
