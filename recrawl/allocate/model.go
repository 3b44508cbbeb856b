package allocate

import (
	"errors"
	"fmt"
	"math"
	"sort"

	"gonum.org/v1/gonum/mathext"
)

// Kind names an update model.
type Kind uint8

// The update models of section 2.3 of the paper and the empirical one of its section 4.
const (
	PoissonKind Kind = iota + 1
	ParetoKind
	WeibullKind
	QuasiKind
	EmpiricalKind
)

// String is the name that CSV files, flags and pages use.
func (k Kind) String() string {
	switch k {
	case PoissonKind:
		return "poisson"
	case ParetoKind:
		return "pareto"
	case WeibullKind:
		return "weibull"
	case QuasiKind:
		return "quasi"
	case EmpiricalKind:
		return "empirical"
	}
	return "none"
}

// Errors of models and problems.
var (
	ErrModel      = errors.New("allocate: not a usable update model")
	ErrInfeasible = errors.New("allocate: bounds cannot be kept")
	ErrProblem    = errors.New("allocate: not a usable problem")
)

// Limits of Weibull shapes: outside them the incomplete gamma functions leave double precision.
const (
	MinWeibullShape = 0.1
	MaxWeibullShape = 20
)

// Model says how a page changes. The zero Model is refused; make one with Poisson, Pareto, Weibull, NewQuasi or NewEmpirical.
type Model struct {
	kind Kind
	a, b float64 // Poisson: rate; Pareto: tail (b/(b+t))^a; Weibull: tail e^(-b t^a)
	c    float64 // Weibull: ln(b^(-1/a) Gamma(2/a)/Gamma(1/a))
	q    *quasi
	e    *empirical
}

// Poisson is a page whose updates follow a Poisson process of the given rate; rate 0 never changes.
func Poisson(rate float64) (Model, error) {
	if !(rate >= 0) || math.IsInf(rate, 0) {
		return Model{}, fmt.Errorf("%w: Poisson rate %g is not a finite number from 0 up", ErrModel, rate)
	}
	return Model{kind: PoissonKind, a: rate}, nil
}

// Pareto is a page whose times between updates have the tail (b/(b+t))^a. A stationary process needs a mean, so a > 1.
func Pareto(a, b float64) (Model, error) {
	if math.IsNaN(a) || math.IsInf(a, 0) || !(b > 0) || math.IsInf(b, 0) {
		return Model{}, fmt.Errorf("%w: Pareto shape %g and scale %g must be finite, the scale above 0", ErrModel, a, b)
	}
	if a <= 1 {
		return Model{}, fmt.Errorf("%w: Pareto shape %g: up to 1 the mean time between updates is infinite and no stationary process exists; "+
			"use a shape above 1, or the empirical model of the page's own history", ErrModel, a)
	}
	return Model{kind: ParetoKind, a: a, b: b}, nil
}

// Weibull is a page whose times between updates have the tail e^(-l t^a).
func Weibull(l, a float64) (Model, error) {
	if !(l > 0) || math.IsInf(l, 0) {
		return Model{}, fmt.Errorf("%w: Weibull rate %g is not a finite number above 0", ErrModel, l)
	}
	if !(a >= MinWeibullShape && a <= MaxWeibullShape) {
		return Model{}, fmt.Errorf("%w: Weibull shape %g is outside %g..%g", ErrModel, a, float64(MinWeibullShape), float64(MaxWeibullShape))
	}
	g2, _ := math.Lgamma(2 / a)
	g1, _ := math.Lgamma(1 / a)
	return Model{kind: WeibullKind, a: a, b: l, c: g2 - g1 - math.Log(l)/a}, nil
}

// Kind is the model's kind.
func (m Model) Kind() Kind { return m.kind }

// Params are the model's parameters in the order of its constructor; none for the two kinds that are made from lists.
func (m Model) Params() []float64 {
	switch m.kind {
	case PoissonKind:
		return []float64{m.a}
	case ParetoKind:
		return []float64{m.a, m.b}
	case WeibullKind:
		return []float64{m.b, m.a}
	}
	return nil
}

// String tells the model and its parameters.
func (m Model) String() string {
	switch m.kind {
	case PoissonKind:
		return fmt.Sprintf("poisson(rate %.4g)", m.a)
	case ParetoKind:
		return fmt.Sprintf("pareto(a %.4g, b %.4g)", m.a, m.b)
	case WeibullKind:
		return fmt.Sprintf("weibull(l %.4g, a %.4g)", m.b, m.a)
	case QuasiKind:
		return fmt.Sprintf("quasi(%d instants)", m.q.instants())
	case EmpiricalKind:
		return fmt.Sprintf("empirical(%d gaps)", len(m.e.gaps))
	}
	return "none"
}

// Rate is the mean number of updates in a unit of time; for a quasi-deterministic page, over its interval of length span.
func (m Model) Rate(span float64) float64 {
	switch m.kind {
	case PoissonKind:
		return m.a
	case ParetoKind:
		return (m.a - 1) / m.b
	case WeibullKind:
		g, _ := math.Lgamma(1 + 1/m.a)
		return math.Exp(math.Log(m.b)/m.a - g)
	case QuasiKind:
		return m.q.expected() / span
	case EmpiricalKind:
		return 1 / m.e.mean
	}
	return 0
}

// Staleness is A(x), the time-average staleness over an interval of length span of a page crawled x times at the best instants.
func (m Model) Staleness(x int, span float64) float64 {
	if m.kind == QuasiKind {
		return m.q.staleness(x)
	}
	return m.stale(span / float64(x+1))
}

// stale is the time-average staleness over a segment of length t that begins with a crawl: 1 - F(t). Not for quasi-deterministic pages.
func (m *Model) stale(t float64) float64 {
	switch m.kind {
	case PoissonKind:
		return stalePoisson(m.a * t)
	case ParetoKind:
		return stalePareto(m.a, t/m.b)
	case WeibullKind:
		return m.staleWeibull(t)
	case EmpiricalKind:
		return m.e.stale(t)
	}
	return 0
}

// stalePoisson is equation 14 with y = l t: 1 - (1-e^-y)/y.
func stalePoisson(y float64) float64 {
	if y < .05 {
		return y * (1./2 - y*(1./6-y*(1./24-y*(1./120-y*(1./720-y/5040)))))
	}
	return 1 - (1-math.Exp(-y))/y
}

// stalePareto is 1 - ((1+r)^(2-a) - 1)/((2-a) r), r = t/b.
func stalePareto(a, r float64) float64 {
	if a*r < 1e-3 {
		return (a - 1) * r * (1./2 - a*r*(1./6-(a+1)*r*(1./24-(a+2)*r/120)))
	}
	if r > math.MaxFloat64 {
		r = math.MaxFloat64
	}
	l := math.Log1p(r)
	e := 2 - a
	var f float64
	switch z := e * l; {
	case z > 1: // keeps (1+r)^(2-a) from overflowing
		f = (1 + 1/r) * math.Exp((e-1)*l) * (1 - math.Exp(-z)) / e
	case z < -1:
		f = (math.Exp(z) - 1) / (e * r)
	case z > 1e-9 || z < -1e-9:
		f = math.Expm1(z) / (e * r)
	default:
		f = l * (1 + z/2) / r
	}
	return clamp01(1 - f)
}

func (m *Model) staleWeibull(t float64) float64 {
	y := m.b * math.Pow(t, m.a)
	if y < 1e-14 { // the tail is still 1: staleness grows as t over twice the mean
		return clamp01(t * m.Rate(1) / 2)
	}
	if math.IsInf(y, 1) || y > 700 {
		return clamp01(1 - math.Exp(m.c-math.Log(t)))
	}
	p1 := mathext.GammaIncReg(1/m.a, y)
	p2 := mathext.GammaIncReg(2/m.a, y)
	return clamp01(p1 - math.Exp(m.c+math.Log(p2)-math.Log(t)))
}

func clamp01(x float64) float64 {
	if !(x > 0) {
		return 0
	}
	if x > 1 {
		return 1
	}
	return x
}

// marginal is h(t) = (1/mean) * integral of s*tail(s) over 0..t, and its derivative. For every renewal model dF/dn = h(T/n)/T, where n = x+1
// is taken as continuous; so the number of crawls at a price is T/h^-1(price*T), up to a rounding that above settles exactly.
func (m *Model) marginal(t float64) (h, dh float64) {
	switch m.kind {
	case PoissonKind:
		y := m.a * t
		e := math.Exp(-y)
		if y < .01 {
			h = y * y * (1./2 - y*(1./3-y/8))
		} else {
			h = 1 - e*(1+y)
		}
		return h / m.a, y * e
	case ParetoKind:
		r := t / m.b
		l := math.Log1p(r)
		g := math.Exp(-m.a * l) // tail
		if m.a*r < 1e-2 {
			h = (m.a - 1) * r * r * (1./2 - m.a*r/3)
		} else if e := 2 - m.a; math.Abs(e*l) < 1e-6 {
			h = l - r/(1+r)
		} else {
			h = ((1+r)*(1+r)*g-1)/e - r*(1+r)*g
		}
		return h * m.b, (m.a - 1) * r * g
	case WeibullKind:
		y := m.b * math.Pow(t, m.a)
		if math.IsInf(y, 1) {
			return math.Exp(m.c), 0
		}
		return math.Exp(m.c) * mathext.GammaIncReg(2/m.a, y), t * math.Exp(-y) * m.Rate(1)
	}
	return 0, 0
}

// MaxGaps bounds the times between updates that an empirical model keeps.
const MaxGaps = 1 << 16

// empirical is the equilibrium renewal process of a page's own times between updates.
type empirical struct {
	gaps []float64 // ascending
	sq   []float64 // sq[i]: sum of squares of gaps[:i]
	lin  []float64 // lin[i]: sum of gaps[i:]
	mean float64
}

// NewEmpirical is a page whose future repeats its history: gaps are its times between updates, in any order.
func NewEmpirical(gaps []float64) (Model, error) {
	if len(gaps) == 0 || len(gaps) > MaxGaps {
		return Model{}, fmt.Errorf("%w: the empirical model takes 1..%d times between updates, not %d", ErrModel, MaxGaps, len(gaps))
	}
	e := &empirical{gaps: make([]float64, len(gaps)), sq: make([]float64, len(gaps)+1), lin: make([]float64, len(gaps)+1)}
	copy(e.gaps, gaps)
	sort.Float64s(e.gaps)
	for i, g := range e.gaps {
		if !(g > 0) || g > 1e100 {
			return Model{}, fmt.Errorf("%w: time between updates %g is not a number above 0 (and at most 1e100)", ErrModel, g)
		}
		e.sq[i+1] = e.sq[i] + g*g
	}
	for i := len(e.gaps) - 1; i >= 0; i-- {
		e.lin[i] = e.lin[i+1] + e.gaps[i]
	}
	e.mean = e.lin[0] / float64(len(gaps))
	return Model{kind: EmpiricalKind, e: e}, nil
}

// stale: F(t) = 1/(mean t) * mean of (u^2 - (u-t)+^2)/2, so 1-F = mean over u of (t-(u^2-(u-t)+^2)/(2 mean t)).
func (e *empirical) stale(t float64) float64 {
	i := sort.SearchFloat64s(e.gaps, t)
	n := float64(len(e.gaps))
	longer := n - float64(i)
	return clamp01(1 - (e.sq[i]+2*t*e.lin[i]-t*t*longer)/(2*t*n*e.mean))
}
