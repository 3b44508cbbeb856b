package allocate

import (
	"errors"
	"fmt"
	"math"
	"sort"
	"strings"
)

// ErrHistory says that a history cannot be read.
var ErrHistory = errors.New("allocate: not a usable history")

// MaxVisits bounds the visits that Fit looks at; older ones are left out.
const MaxVisits = 4096

// Visit is one look at a page.
type Visit struct {
	Gap     float64 // time since the visit before, above 0
	Changed bool    // whether it had changed
}

// History is what visits have shown of one page, oldest first.
type History struct {
	Start  float64 // time of the visit before the first; its phase in the scheduling interval matters to the quasi-deterministic model
	Visits []Visit
}

// Candidate is one model's case for a page.
type Candidate struct {
	Model  Model
	LogLik float64 // of all visits after the first change
	Params int
	AIC    float64 // 2 Params - 2 LogLik, with the small-sample correction
}

// Choice is the model that Fit chose, and why.
type Choice struct {
	Model      Model
	Reason     string
	Visits     int
	Changes    int
	Candidates []Candidate // best first; only Poisson when there are too few changes for more
}

// Changes below which only a rate is learnt, below which no periodic instants are sought, and below which no empirical model is.
const (
	minChangesShape     = 6
	minChangesQuasi     = 8
	minChangesEmpirical = 24
)

// quasiBins is the number of instants of a scheduling interval at which a page may be found to change regularly: hours, for a day.
const quasiBins = 24

// Fit chooses a page's update model by likelihood. A visit says only whether the page changed since the visit before. So a time between
// updates is known to lie between bounds, counted from the middle of the gap in which the update before was found. With its age o there, a gap
// that ends changed after s unchanged contributes (tail(o+s)-tail(o+s+g))/tail(o). For a Poisson process that is exact. The smallest AIC
// wins.
func Fit(h History, span float64) (Choice, error) {
	c, h, err := readHistory(h, span)
	if err != nil {
		return Choice{}, err
	}
	rate := poissonRate(h.Visits)
	m, err := Poisson(rate)
	if err != nil {
		return Choice{}, err
	}
	if c.Changes < minChangesShape {
		c.Model = m
		c.Reason = fmt.Sprintf("Poisson: %d changes in %d visits are too few (below %d) to tell more than a rate", c.Changes, c.Visits, minChangesShape)
		c.Candidates = []Candidate{{Model: m, Params: 1}}
		return c, nil
	}
	runs, first := spells(h.Visits)
	add := func(m Model, err error, ll float64, params int) {
		if err != nil || math.IsNaN(ll) || math.IsInf(ll, 0) {
			return
		}
		c.Candidates = append(c.Candidates, Candidate{m, ll, params, aicc(ll, params, len(h.Visits)-first)})
	}
	add(m, nil, runsLogLik(runs, m), 1)
	for _, g := range []struct {
		make  func([2]float64) (Model, error)
		start [2]float64
	}{{paretoOf, [2]float64{0, math.Log(1 / rate)}}, {weibullOf, [2]float64{-3, math.Log(1 / rate)}}} {
		p, v := minimise2(func(p [2]float64) float64 {
			m, err := g.make(p)
			if err != nil {
				return math.Inf(1)
			}
			return -runsLogLik(runs, m)
		}, g.start, .5)
		m, err := g.make(p)
		add(m, err, -v, 2)
	}
	if c.Changes >= minChangesQuasi {
		add(fitQuasi(h, span, first))
	}
	if c.Changes >= minChangesEmpirical {
		add(fitEmpirical(runs))
	}
	sort.SliceStable(c.Candidates, func(i, j int) bool { return c.Candidates[i].AIC < c.Candidates[j].AIC })
	c.Model = c.Candidates[0].Model
	c.Reason = c.compared()
	return c, nil
}

// readHistory checks a history, cuts it to its last MaxVisits, and counts.
func readHistory(h History, span float64) (Choice, History, error) {
	var c Choice
	if !(span > 0) || math.IsInf(span, 0) || math.IsNaN(h.Start) || math.IsInf(h.Start, 0) {
		return c, h, fmt.Errorf("%w: starts at %g, interval of length %g", ErrHistory, h.Start, span)
	}
	if len(h.Visits) > MaxVisits {
		cut := len(h.Visits) - MaxVisits
		for _, v := range h.Visits[:cut] {
			h.Start += v.Gap
		}
		h.Visits = h.Visits[cut:]
	}
	c.Visits = len(h.Visits)
	for i, v := range h.Visits {
		if !(v.Gap > 0) || v.Gap > 1e100 {
			return c, h, fmt.Errorf("%w: visit %d comes %g after the one before", ErrHistory, i, v.Gap)
		}
		if v.Changed {
			c.Changes++
		}
	}
	if len(h.Visits) == 0 {
		return c, h, fmt.Errorf("%w: no visits", ErrHistory)
	}
	return c, h, nil
}

// aicc is Akaike's criterion with the correction for n observations.
func aicc(ll float64, params, observations int) float64 {
	n, k := float64(observations), float64(params)
	aic := 2*k - 2*ll
	if n > k+1 {
		aic += 2 * k * (k + 1) / (n - k - 1)
	}
	return aic
}

// paretoOf and weibullOf are the models of two parameters that may be any numbers, so that a search needs no bounds.
func paretoOf(p [2]float64) (Model, error) { return Pareto(1+math.Exp(p[0]), math.Exp(p[1])) }

func weibullOf(p [2]float64) (Model, error) { // p[1] is the logarithm of the scale
	a := MinWeibullShape + (MaxWeibullShape-MinWeibullShape)/(1+math.Exp(-p[0]))
	return Weibull(math.Exp(-a*p[1]), a)
}

// compared is the reason in words: the candidates by their AIC.
func (c *Choice) compared() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: ", c.Model)
	for i, k := range c.Candidates {
		if i == 0 {
			fmt.Fprintf(&b, "AIC %.1f against", k.AIC)
			continue
		}
		if i > 1 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, " %.1f %s", k.AIC, k.Model.kind)
	}
	fmt.Fprintf(&b, ", from %d changes in %d visits", c.Changes, c.Visits)
	return b.String()
}

// poissonRate solves the likelihood equation: the sum over changed gaps of g/(e^(rate g)-1) equals the sum of unchanged gaps. Half a changed
// and half an unchanged visit of mean gap are added, so that a page that always or never changed has a rate.
func poissonRate(visits []Visit) float64 {
	total := 0.
	for _, v := range visits {
		total += v.Gap
	}
	mean := total / float64(len(visits))
	score := func(rate float64) float64 {
		s := .5*mean/math.Expm1(rate*mean) - .5*mean
		for _, v := range visits {
			if v.Changed {
				s += v.Gap / math.Expm1(rate*v.Gap)
			} else {
				s -= v.Gap
			}
		}
		return s
	}
	lo, hi := math.Log(1e-9/total), math.Log(1e4/mean)
	for range 60 {
		if mid := (lo + hi) / 2; score(math.Exp(mid)) > 0 {
			lo = mid
		} else {
			hi = mid
		}
	}
	return math.Exp((lo + hi) / 2)
}

// spell is a time between updates as visits saw it: aged o when first seen, unchanged for s, then changed within g (0: not yet).
type spell struct{ o, s, g float64 }

// spells cuts a history at its changes. It leaves out the visits up to the first change, which tell no age; first is their number.
func spells(visits []Visit) (runs []spell, first int) {
	var cur spell
	seen := false
	for i, v := range visits {
		if v.Changed {
			if seen {
				cur.g = v.Gap
				runs = append(runs, cur)
			} else {
				seen, first = true, i+1
			}
			cur = spell{o: v.Gap / 2}
			continue
		}
		cur.s += v.Gap
	}
	if seen && cur.s > 0 {
		runs = append(runs, cur)
	}
	return runs, first
}

// logTail is the logarithm of the tail of a stochastic model's time between updates.
func (m *Model) logTail(t float64) float64 {
	switch m.kind {
	case PoissonKind:
		return -m.a * t
	case ParetoKind:
		return -m.a * math.Log1p(t/m.b)
	case WeibullKind:
		return -m.b * math.Pow(t, m.a)
	}
	return 0
}

func runsLogLik(runs []spell, m Model) float64 {
	ll := 0.
	for _, r := range runs {
		ll += runLogLik(r, m.logTail)
	}
	return ll
}

func runLogLik(r spell, logTail func(float64) float64) float64 {
	o, s := logTail(r.o), logTail(r.o+r.s)
	if r.g == 0 {
		return s - o
	}
	d := logTail(r.o+r.s+r.g) - s // below 0
	return s - o + math.Log(max(-math.Expm1(d), 1e-300))
}

// FitGaps fits the exponential, Weibull and Pareto models to times between updates that are known exactly. The best (smallest AIC) comes
// first.
func FitGaps(gaps []float64) ([]Candidate, error) {
	if _, err := NewEmpirical(gaps); err != nil {
		return nil, err
	}
	n, sum := float64(len(gaps)), 0.
	for _, g := range gaps {
		sum += g
	}
	mean := sum / n
	exp, _ := Poisson(1 / mean)
	out := []Candidate{{Model: exp, LogLik: -n * (1 + math.Log(mean)), Params: 1}}
	density := func(m Model, g float64) float64 {
		if m.kind == ParetoKind {
			return math.Log(m.a/m.b) - (m.a+1)*math.Log1p(g/m.b)
		}
		return math.Log(m.b*m.a) + (m.a-1)*math.Log(g) - m.b*math.Pow(g, m.a)
	}
	// A Pareto law fitted to data may well have a <= 1. No stationary model exists then, and the candidate has the zero Model's rate.
	par := func(p [2]float64) (Model, error) {
		return Model{kind: ParetoKind, a: math.Exp(p[0]), b: math.Exp(p[1])}, nil
	}
	for _, g := range []struct {
		make  func([2]float64) (Model, error)
		start [2]float64
	}{{weibullOf, [2]float64{-3, math.Log(mean)}}, {par, [2]float64{.5, math.Log(mean)}}} {
		p, v := minimise2(func(p [2]float64) float64 {
			m, err := g.make(p)
			if err != nil {
				return math.Inf(1)
			}
			ll := 0.
			for _, x := range gaps {
				ll += density(m, x)
			}
			return -ll
		}, g.start, .5)
		m, err := g.make(p)
		if err == nil && !math.IsInf(v, 0) {
			out = append(out, Candidate{Model: m, LogLik: -v, Params: 2})
		}
	}
	for i := range out {
		out[i].AIC = 2*float64(out[i].Params) - 2*out[i].LogLik
	}
	sort.SliceStable(out, func(i, j int) bool { return out[i].AIC < out[j].AIC })
	return out, nil
}

// Tail is the probability that a time between updates exceeds t, under a stochastic model.
func (m Model) Tail(t float64) float64 {
	if m.kind == EmpiricalKind {
		return float64(len(m.e.gaps)-sort.Search(len(m.e.gaps), func(i int) bool { return m.e.gaps[i] > t })) / float64(len(m.e.gaps))
	}
	return math.Exp(m.logTail(t))
}
