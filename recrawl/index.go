package recrawl

import "math"

// freshIndex is w*tau*g(a/tau), g(x) = 1-e^(-x)(1+x): what a crawl at age a gains in freshness over time, less what waiting gains. tau is the
// change interval.
type freshIndex struct{}

func (freshIndex) value(f *Facts, age float64) float64 {
	x := age * f.Est.Rate()
	g := 1.
	if x < 30 {
		g = 1 - math.Exp(-x)*(1+x)
	}
	return float64(f.Weighed()) / f.Est.Rate() * g
}

func (freshIndex) age(f *Facts, value, least float64) float64 {
	r := f.Est.Rate()
	y := value * r / float64(f.Weighed())
	if y >= 1 {
		return math.Inf(1)
	}
	if y <= 0 {
		return 0
	}
	// g(x) is the integral of t*e^(-t), so at least that of t*(1-t+t^2/2-t^3/6). Under a cap this mostly spares what follows.
	if x := least * r; x > 0 && y < surely*x*x*(1./2-x*(1./3-x*(1./8-x*(1./30)))) {
		return least
	}
	// g(x) = y: x^2/2 near 0, 1-x*e^(-x) far out; Newton from between.
	x := math.Sqrt(2 * y)
	if y > .5 {
		x = -math.Log(1-y) + math.Log(1-math.Log(1-y))
	} else {
		x += y / 1.5
	}
	for range 4 {
		e := math.Exp(-x)
		step := (1 - e*(1+x) - y) / (x * e)
		x = max(x-step, x/4)
		if math.Abs(step) < lastStep*x {
			break
		}
	}
	return x / r
}

// surely leaves room for what Newton's method leaves open.
const surely = .99

// ageIndex crawls all channels at the same interval.
type ageIndex struct{}

func (ageIndex) value(_ *Facts, age float64) float64    { return age }
func (ageIndex) age(_ *Facts, value, _ float64) float64 { return value }

// ratioIndex crawls each channel at an interval proportional to its change interval.
type ratioIndex struct{}

func (ratioIndex) value(f *Facts, age float64) float64    { return age * f.Est.Rate() }
func (ratioIndex) age(f *Facts, value, _ float64) float64 { return value / f.Est.Rate() }

// lambdaIndex crawls at LambdaCrawl's rate r = (-d+sqrt(d^2+4*m*d/lambda))/2 (Kolobov et al., "Staying up to Date with Online Content
// Changes Using Reinforcement Learning for Scheduling", NeurIPS 2019), d the change rate, m the weight, the multiplier lambda tracked by
// the price: a channel of age a is due when lambda falls to m*d*a^2/(1+d*a).
type lambdaIndex struct{}

func (lambdaIndex) value(f *Facts, age float64) float64 {
	d := f.Est.Rate()
	return float64(f.Weighed()) * d * age * age / (1 + d*age)
}

func (lambdaIndex) age(f *Facts, value, _ float64) float64 {
	d, m := f.Est.Rate(), float64(f.Weighed())
	return (value*d + math.Sqrt(value*value*d*d+4*m*d*value)) / (2 * m * d)
}
