package allocate

import (
	"math"
	"math/rand/v2"
	"testing"
)

// watch visits a page whose updates come after the gaps that next draws.
func watch(rng *rand.Rand, visits int, gap float64, next func() float64) History {
	var h History
	now, update := 0., next()*rng.Float64()
	for range visits {
		g := gap * (.5 + rng.Float64())
		now += g
		v := Visit{Gap: g}
		for update <= now {
			v.Changed = true
			update += next()
		}
		h.Visits = append(h.Visits, v)
	}
	return h
}

func TestFitChoosesTheModelThatMadeTheHistory(t *testing.T) {
	cases := []struct {
		name string
		want []Kind
		next func(rng *rand.Rand) float64
		rate float64
	}{
		{"poisson", []Kind{PoissonKind}, func(r *rand.Rand) float64 { return r.ExpFloat64() }, 1},
		{"pareto", []Kind{ParetoKind}, func(r *rand.Rand) float64 { return .6 * (math.Pow(r.Float64(), -1/1.6) - 1) }, 1},
		{"weibull", []Kind{WeibullKind}, func(r *rand.Rand) float64 { return 1.1 * math.Pow(r.ExpFloat64(), 1/2.5) }, 1.02},
	}
	for _, c := range cases {
		right := 0
		const rounds = 20
		for seed := range uint64(rounds) {
			rng := rand.New(rand.NewPCG(seed, 9))
			ch, err := Fit(watch(rng, 900, .3, func() float64 { return c.next(rng) }), 1)
			if err != nil {
				t.Fatal(err)
			}
			for _, k := range c.want {
				if ch.Model.Kind() == k {
					right++
				}
			}
			if r := ch.Model.Rate(1); ch.Model.Kind() == c.want[0] && c.name != "pareto" && math.Abs(r/c.rate-1) > .25 {
				t.Errorf("%s, seed %d: rate %g", c.name, seed, r)
			}
		}
		if right < rounds*3/5 {
			t.Errorf("%s: right %d of %d times", c.name, right, rounds)
		}
	}
}

func TestFitFindsInstants(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var h History
	now := 0.
	for range 400 {
		g := .11 + .1*rng.Float64()
		v := Visit{Gap: g}
		for _, u := range []float64{.3, .8} { // updated daily shortly before .3 and .8 of the interval, with probability .9
			k := math.Floor(now + g - u)
			if k >= math.Floor(now-u)+1 && rng.Float64() < .9 {
				v.Changed = true
			}
		}
		now += g
		h.Visits = append(h.Visits, v)
	}
	c, err := Fit(h, 1)
	if err != nil {
		t.Fatal(err)
	}
	if c.Model.Kind() != QuasiKind {
		t.Fatalf("chose %s", c.Reason)
	}
	if r := c.Model.Rate(1); math.Abs(r-1.8) > .4 {
		t.Errorf("rate %g, want about 1.8", r)
	}
}

func TestFitFewChanges(t *testing.T) {
	c, err := Fit(History{Visits: []Visit{{1, false}, {1, true}, {1, false}}}, 1)
	if err != nil || c.Model.Kind() != PoissonKind {
		t.Fatalf("%+v, %v", c, err)
	}
	if r := c.Model.Rate(1); r < .2 || r > .9 {
		t.Errorf("rate %g", r)
	}
	if c, err = Fit(History{Visits: []Visit{{1, false}, {5, false}}}, 1); err != nil || !(c.Model.Rate(1) > 0) {
		t.Errorf("never changed: %v, %v", c.Model, err)
	}
	if _, err = Fit(History{}, 1); err == nil {
		t.Error("no visits accepted")
	}
}

func TestFitGaps(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 3))
	g := make([]float64, 2000)
	for i := range g {
		g[i] = math.Pow(rng.ExpFloat64(), 1/.6)
	}
	c, err := FitGaps(g)
	if err != nil || c[0].Model.Kind() != WeibullKind || math.Abs(c[0].Model.a-.6) > .05 {
		t.Fatalf("%v, %v", c, err)
	}
}

func FuzzFit(f *testing.F) {
	f.Add([]byte{1, 0, 3, 1, 9, 1, 200, 0}, 1., 1.)
	f.Add([]byte{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, 1e-9, 1e9)
	f.Fuzz(func(t *testing.T, b []byte, unit, span float64) {
		var h History
		for i := 0; i+1 < len(b) && i < 400; i += 2 {
			h.Visits = append(h.Visits, Visit{Gap: float64(b[i]) * unit, Changed: b[i+1]&1 == 1})
		}
		c, err := Fit(h, span)
		if err != nil {
			return
		}
		if s := c.Model.Staleness(1, span); math.IsNaN(s) || c.Model.Kind() == 0 {
			t.Fatalf("%v: staleness %g", c.Model, s)
		}
	})
}
