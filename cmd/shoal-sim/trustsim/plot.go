package trustsim

import (
	"math"
	"strconv"

	"shoal/cmd/shoal-sim/figure"
)

// draw draws poison, verified forgeries and added fetches by attack, a mark for each defence and share of liars.
func draw(rows []Row, dir string) error {
	type key struct {
		defence string
		f       float64
	}
	place := map[string]int{}
	for i, a := range attacks {
		place[a.name] = i
	}
	for _, p := range []struct {
		file, title, label string
		of                 func(Row) float64
		log                bool
	}{
		{"trust-poison", "Poison", "log10 of the share of page-time", func(r Row) float64 { return r.Poison }, true},
		{"trust-verified", "Forged share of verified", "log10 of the share of page-time", func(r Row) float64 { return r.Verified }, true},
		{"trust-extra", "Fetches added", "percent", func(r Row) float64 { return 100 * r.Extra }, false},
	} {
		sums, order := map[key]map[int][2]float64{}, []key(nil)
		for _, r := range rows {
			k := key{r.Defence, r.F}
			if sums[k] == nil {
				sums[k] = map[int][2]float64{}
				order = append(order, k)
			}
			v := sums[k][place[r.Attack]]
			sums[k][place[r.Attack]] = [2]float64{v[0] + p.of(r), v[1] + 1}
		}
		f := figure.New(p.title, "", p.label)
		for n, k := range order {
			shift := .5 * (float64(n)/float64(max(len(order)-1, 1)) - .5) // beside each other
			var x, y []float64
			for i := range attacks {
				if v, ok := sums[k][i]; ok {
					m := v[0] / v[1]
					if p.log {
						m = math.Log10(max(m, 1e-7))
					}
					x, y = append(x, float64(i)+shift), append(y, m)
				}
			}
			if err := f.Marks(k.defence+", f "+percent(k.f), x, y); err != nil {
				return err
			}
		}
		f.Places(Attacks()...)
		f.Y.Max += .3 * (f.Y.Max - f.Y.Min) // room for the legend
		if _, err := f.Save(dir, p.file); err != nil {
			return err
		}
	}
	return nil
}

func percent(f float64) string { return strconv.FormatFloat(100*f, 'g', 3, 64) + "%" }
