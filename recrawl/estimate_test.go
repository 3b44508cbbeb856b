package recrawl

import (
	"math"
	"math/rand/v2"
	"testing"
)

type visit struct {
	t       float64
	changed bool
}

// batchRate solves the maximum-likelihood equation with the prior over all visits, by bisection: slow and obviously right.
func batchRate(interval, strength float64, visits []visit) float64 {
	score := func(r float64) float64 {
		s := strength - r*strength*interval
		for _, v := range visits {
			if v.changed {
				s += r * v.t / math.Expm1(r*v.t)
			} else {
				s -= r * v.t
			}
		}
		return s
	}
	lo, hi := 1e-9, 1e3
	for range 200 {
		if mid := math.Sqrt(lo * hi); score(mid) > 0 {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}

// TestEstimateFollowsBatch: after 50 irregular visits the online estimate is within 5% of the batch one, 8% where they are so irregular that
// a third are further than e from the median either way.
func TestEstimateFollowsBatch(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	worst := map[float64]float64{}
	for trial := range 2400 {
		rate := math.Exp(rng.Float64()*6 - 8)        // .0003 to .14 a tick
		spread := []float64{0, .3, .6, 1}[trial%4]   // sigma of the logarithm of the time between visits
		mean := math.Exp(rng.Float64()*3-1.5) / rate // visits from 4 times as often as changes to 4 times as rare
		const interval, strength = 1440, .5
		e := Prior(interval, strength)
		var visits []visit
		for range 50 {
			v := visit{t: max(1, math.Round(mean*math.Exp(spread*rng.NormFloat64()-spread*spread/2)))}
			v.changed = rng.Float64() < -math.Expm1(-rate*v.t)
			visits = append(visits, v)
			e.Visit(v.t, v.changed)
		}
		want := batchRate(interval, strength, visits)
		off := math.Abs(e.Rate()/want - 1)
		worst[spread] = max(worst[spread], off)
		if off > .05 && (spread < 1 || off > .08) {
			t.Errorf("trial %d, spread %v: online %.6f, batch %.6f (%.1f%% off), true %.6f", trial, spread, e.Rate(), want, 100*off, rate)
		}
	}
	t.Logf("worst distance from the batch estimate by spread: %v", worst)
}

func TestEstimateForgets(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	e := Prior(1440, .5)
	see := func(interval float64, visits int) {
		for range visits {
			e.Visit(60, rng.Float64() < -math.Expm1(-60/interval))
		}
	}
	see(100, 5000)
	if i := e.Interval(); i < 70 || i > 140 {
		t.Errorf("interval 100 estimated as %.1f", i)
	}
	see(1000, 5000)
	if i := e.Interval(); i < 700 || i > 1400 {
		t.Errorf("after a change to 1000 estimated as %.1f", i)
	}
}

func TestEstimateStaysSane(t *testing.T) {
	for _, tc := range []visit{{0, true}, {-5, true}, {math.NaN(), true}, {1e-9, true}, {1e9, true}, {1e9, false}, {1, true}} {
		e := Prior(1440, .5)
		for range 10_000 {
			e.Visit(tc.t, tc.changed)
		}
		if r := e.Rate(); !(r > 0) || math.IsInf(r, 0) {
			t.Errorf("10,000 visits %+v: rate %v", tc, r)
		}
	}
	var zero Estimate
	if zero.Rate() != 0 || !math.IsInf(zero.Interval(), 1) {
		t.Errorf("zero estimate: rate %v, interval %v", zero.Rate(), zero.Interval())
	}
}

func BenchmarkVisit(b *testing.B) {
	e := Prior(1440, .5)
	b.ReportAllocs()
	for i := range b.N {
		e.Visit(float64(60+i%100), i%3 != 0)
	}
}
