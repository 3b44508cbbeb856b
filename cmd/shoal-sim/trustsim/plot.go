package trustsim

import (
	"math"
	"strconv"

	"shoal/cmd/shoal-sim/figure"
)

// draw draws poison, verified forgeries and added fetches by attack, a line a defence and share of liars.
func draw(rows []Row, dir string) error {
	type key struct {
		defence string
		f       float64
	}
	place := map[string]int{}
	for i, a := range attacks {
		place[a.name] = i + 1
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
		f := figure.New(p.title, "attack: "+legend(), p.label)
		for _, k := range order {
			var x, y []float64
			for i := 1; i <= len(attacks); i++ {
				if v, ok := sums[k][i]; ok {
					m := v[0] / v[1]
					if p.log {
						m = math.Log10(max(m, 1e-7))
					}
					x, y = append(x, float64(i)), append(y, m)
				}
			}
			if err := f.Marked(k.defence+", f "+percent(k.f), x, y); err != nil {
				return err
			}
		}
		if _, err := f.Save(dir, p.file); err != nil {
			return err
		}
	}
	return nil
}

// legend numbers the attacks.
func legend() (text string) {
	for i, a := range attacks {
		if i > 0 {
			text += ", "
		}
		text += strconv.Itoa(i+1) + " " + a.name
	}
	return text
}

func percent(f float64) string { return strconv.FormatFloat(100*f, 'g', 3, 64) + "%" }
