package allocate

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/integrate/quad"
)

// must unwraps a constructor in tests.
func must(m Model, err error) Model {
	if err != nil {
		panic(err)
	}
	return m
}

func randomQuasi(rng *rand.Rand, q int) Model {
	u, k := make([]float64, q), make([]float64, q)
	for i := range u {
		u[i], k[i] = rng.Float64(), rng.Float64()
		if rng.IntN(5) == 0 {
			k[i] = 1
		}
	}
	slices.Sort(u)
	return must(NewQuasi(1, u, k, rng.Float64()*float64(rng.IntN(2))))
}

func randomPage(rng *rand.Rand, maxQ int) Page {
	p := Page{Weight: .1 + rng.Float64()}
	rate := math.Exp(4*rng.Float64() - 2)
	switch rng.IntN(5) {
	case 0:
		p.Model = must(Poisson(rate))
	case 1:
		p.Model = must(Pareto(1.05+3*rng.Float64(), 1/rate))
	case 2:
		p.Model = must(Weibull(rate, .4+rng.Float64()*1.5))
	case 3:
		p.Model = randomQuasi(rng, 1+rng.IntN(maxQ))
	default:
		g := make([]float64, 1+rng.IntN(9))
		for i := range g {
			g[i] = rng.ExpFloat64()/rate + 1e-6
		}
		p.Model = must(NewEmpirical(g))
	}
	if rng.IntN(4) == 0 {
		p.Min = int32(rng.IntN(3))
	}
	if rng.IntN(4) == 0 {
		p.Max = p.Min + 1 + int32(rng.IntN(4))
	}
	return p
}

// The closed forms against the definition: staleness over a segment is the mean over its time of 1 - rate * integral of the tail (equation 3).
func TestStalenessAgainstQuadrature(t *testing.T) {
	cases := []struct {
		m    Model
		tail func(t float64) float64
	}{
		{must(Poisson(2.5)), func(t float64) float64 { return math.Exp(-2.5 * t) }},
		{must(Pareto(1.5, .7)), func(t float64) float64 { return math.Pow(.7/(.7+t), 1.5) }},
		{must(Pareto(2, .7)), func(t float64) float64 { return math.Pow(.7/(.7+t), 2) }},
		{must(Pareto(3.7, .7)), func(t float64) float64 { return math.Pow(.7/(.7+t), 3.7) }},
		{must(Weibull(1.3, .6)), func(t float64) float64 { return math.Exp(-1.3 * math.Pow(t, .6)) }},
		{must(Weibull(.8, 5)), func(t float64) float64 { return math.Exp(-.8 * math.Pow(t, 5)) }},
		{must(Weibull(.8, 2.2)), func(t float64) float64 { return math.Exp(-.8 * math.Pow(t, 2.2)) }},
	}
	for _, c := range cases {
		for _, seg := range []float64{1e-5, 1e-4, 1e-3, .01, .3, 1, 5, 40} {
			// 1 - F = (rate/seg) * integral over s in 0..seg of (seg-s)*tail(s) ... by parts of the double integral.
			f := func(v float64) float64 { s := seg * v * v; return (seg - s) * c.tail(s) * 2 * seg * v }
			rate := c.m.Rate(1)
			// Staleness at age s is rate * integral of tail over 0..s, so its mean over 0..seg is (rate/seg) * integral of (seg-s) tail(s).
			want := rate / seg * quad.Fixed(f, 0, 1, 400, nil, 0)
			got := c.m.stale(seg)
			if math.Abs(got-want) > 2e-7*(1+0*want) || want < .01 && math.Abs(got/want-1) > 1e-4 {
				t.Errorf("%v over %g: staleness %.12g, quadrature %.12g", c.m, seg, got, want)
			}
		}
	}
}

func TestEmpiricalIsItsDefinition(t *testing.T) {
	gaps := []float64{3, 1, 2, 2, 7}
	m := must(NewEmpirical(gaps))
	for _, seg := range []float64{.5, 1.5, 2, 6.9, 30} {
		sum := 0.
		const n = 200_000
		for i := range n {
			s := seg * (float64(i) + .5) / n
			for _, g := range gaps { // tail integral from 0 to s
				sum += math.Min(g, s)
			}
		}
		want := sum / n / (3 * 5) // mean gap 3
		if got := m.stale(seg); math.Abs(got-want) > 1e-8 {
			t.Errorf("segment %g: %.10g, want %.10g", seg, got, want)
		}
	}
}

func TestModelsAreConvex(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	for range 300 {
		p := randomPage(rng, 60)
		last := math.Inf(1)
		for x := range 30 {
			g := p.Model.Staleness(x, 1) - p.Model.Staleness(x+1, 1)
			if g < -1e-12 || g > last+1e-12 {
				t.Fatalf("%v: gain %d is %g after %g", p.Model, x, g, last)
			}
			last = g
		}
	}
}

// bruteQuasi tries all sets of x instants.
func bruteQuasi(m Model, x int) float64 {
	q := m.q
	best := math.Inf(-1)
	for set := range 1 << len(q.k) {
		nodes, last, f := 0, -1, 0.
		for i := range q.k {
			if set>>i&1 == 1 {
				f += slowFresh(q, last, i)
				last = i
				nodes++
			}
		}
		if nodes == min(x, len(q.k)) {
			best = max(best, f+slowFresh(q, last, len(q.k)))
		}
	}
	return 1 - best/q.span
}

func slowFresh(q *quasi, i, j int) float64 {
	f, p := 0., 1.
	for m := max(i, 0); m < j; m++ {
		if m > i {
			p *= 1 - q.k[m]
		}
		f += (q.u[m+1] - q.u[m]) * p
	}
	return f
}

func TestQuasiAgainstBruteForce(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	for range 300 {
		m := randomQuasi(rng, 1+rng.IntN(9))
		for x := 0; x <= len(m.q.k); x++ {
			want := bruteQuasi(m, x)
			if got := m.Staleness(x, 1); math.Abs(got-want) > 1e-12 {
				t.Fatalf("x %d: %g, brute force %g", x, got, want)
			}
			if _, v := m.q.best(x); math.Abs(1-v-want) > 1e-12 {
				t.Fatalf("x %d: layers give %g, brute force %g", x, 1-v, want)
			}
		}
	}
}

// The multiplier search of pages with many instants finds the gains of the layered programme.
func TestQuasiMultiplierAgainstLayers(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	for range 60 {
		m := randomQuasi(rng, 41+rng.IntN(150))
		a := m.q.curve(&scratch{})
		above, g := m.q.gains(2, 1e-13, &scratch{})
		if above != 0 {
			t.Fatalf("%d gains above the whole interval", above)
		}
		for x := range a[1:] {
			want, got := a[x]-a[x+1], 0.
			if x < len(g) {
				got = g[x]
			}
			if s := m.Staleness(x, 1); math.Abs(s-a[x]) > 1e-10 {
				t.Fatalf("x %d: staleness %g, layers give %g", x, s, a[x])
			}
			if math.Abs(got-want) > 1e-11 {
				t.Fatalf("gain %d: %g, layers give %g", x, got, want)
			}
		}
	}
}

func TestSolveAgainstHeapGreedyAndBruteForce(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	for round := range 400 {
		n, maxQ := 1+rng.IntN(60), 70
		if round%4 == 0 {
			n, maxQ = 1+rng.IntN(4), 4
		}
		pages := make([]Page, n)
		least, most := int64(0), int64(0)
		for i := range pages {
			pages[i] = randomPage(rng, maxQ)
			least += int64(pages[i].Min)
			most += int64(min(pages[i].natural(), 1000))
		}
		r := least + rng.Int64N(5*int64(n)+1)
		if most < r {
			continue
		}
		got, err := Solve(Problem{Pages: pages, Span: 1, R: r, Cores: 1})
		if err != nil {
			t.Fatal(err)
		}
		sum := got.Idle
		for i, x := range got.X {
			if x < pages[i].Min || int(x) > pages[i].limit() {
				t.Fatalf("round %d: page %d gets %d of %d..%d", round, i, x, pages[i].Min, pages[i].limit())
			}
			sum += int64(x)
		}
		if sum != r || got.Idle != 0 {
			t.Fatalf("round %d: %d of %d given out, %d idle", round, sum-got.Idle, r, got.Idle)
		}
		want := Objective(pages, 1, HeapGreedy(pages, 1, r))
		if math.Abs(got.Objective-want) > 1e-9*(1+want) || math.Abs(got.Objective-Objective(pages, 1, got.X)) > 1e-9 {
			t.Fatalf("round %d: objective %.15g, heap greedy %.15g, recomputed %.15g", round, got.Objective, want, Objective(pages, 1, got.X))
		}
		if round%4 == 0 {
			if brute := bruteForce(pages, 1, int(r)); math.Abs(got.Objective-brute) > 1e-9 {
				t.Fatalf("round %d: objective %.15g, brute force %.15g", round, got.Objective, brute)
			}
		}
	}
}

func bruteForce(pages []Page, span float64, r int) float64 {
	if len(pages) == 0 {
		if r == 0 {
			return 0
		}
		return math.Inf(1)
	}
	p := &pages[0]
	best := math.Inf(1)
	for x := int(p.Min); x <= min(r, p.natural()); x++ {
		best = min(best, p.Weight*p.Model.Staleness(x, span)+bruteForce(pages[1:], span, r-x))
	}
	return best
}

func TestSameForAnyNumberOfCores(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	pages := make([]Page, 60_000)
	for i := range pages {
		pages[i] = randomPage(rng, 8)
	}
	one, err := Solve(Problem{Pages: pages, Span: 1, R: 200_000, Cores: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, cores := range []int{2, 3, 7} {
		more, err := Solve(Problem{Pages: pages, Span: 1, R: 200_000, Cores: cores})
		if err != nil {
			t.Fatal(err)
		}
		if more.Objective != one.Objective || more.Price != one.Price || !slices.Equal(more.X, one.X) {
			t.Fatalf("%d cores: objective %v, price %v; one core: %v, %v", cores, more.Objective, more.Price, one.Objective, one.Price)
		}
	}
	if want := Objective(pages, 1, HeapGreedy(pages, 1, 200_000)); math.Abs(one.Objective-want) > 1e-9*want {
		t.Fatalf("objective %.15g, heap greedy %.15g", one.Objective, want)
	}
}

// Equal gains everywhere: the price separates nothing, page order does.
func TestTies(t *testing.T) {
	pages := make([]Page, 50_000)
	for i := range pages {
		pages[i] = Page{Model: must(Poisson(1)), Weight: 1}
	}
	res, err := Solve(Problem{Pages: pages, Span: 1, R: 70_000, Cores: 2})
	if err != nil {
		t.Fatal(err)
	}
	for i, x := range res.X {
		if want := int32(1); i < 20_000 && x != 2 || i >= 20_000 && x != want {
			t.Fatalf("page %d gets %d", i, x)
		}
	}
	even := make([]float64, 1000)
	ones := make([]float64, 1000)
	for i := range even {
		even[i], ones[i] = float64(i+1)/1001, 1
	}
	many := make([]Page, 100)
	for i := range many {
		many[i] = Page{Model: must(NewQuasi(1, even, ones, 0)), Weight: 1}
	}
	res, err = Solve(Problem{Pages: many, Span: 1, R: 40_000, Cores: 1})
	if err != nil {
		t.Fatal(err)
	}
	if want := 100 - 40_000./1001 - 100./1001; math.Abs(res.Objective-want) > 1e-6 || res.Idle != 0 {
		t.Fatalf("objective %g, want %g; idle %d", res.Objective, want, res.Idle)
	}
}

func TestMemoryDoesNotGrowWithR(t *testing.T) {
	for _, r := range []int64{1e3, 1e6, 1e9, 1e12} {
		pages := []Page{{Model: must(Poisson(3)), Weight: 1}, {Model: must(Pareto(1.5, .1)), Weight: 2}, {Model: must(Weibull(2, .5)), Weight: .1}, {Model: must(Poisson(1e6)), Weight: 5}}
		res, err := Solve(Problem{Pages: pages, Span: 1, R: r, Cores: 1})
		if err != nil {
			t.Fatal(err)
		}
		sum := res.Idle
		for _, x := range res.X {
			sum += int64(x)
		}
		if sum != r {
			t.Fatalf("R %d: %d given out", r, sum)
		}
	}
}

func TestRefusals(t *testing.T) {
	p := must(Poisson(1))
	cases := []struct {
		name string
		err  error
		want error
		text string
	}{
		{"pareto", second(Pareto(1, 2)), ErrModel, "no stationary process"},
		{"pareto nan", second(Pareto(math.NaN(), 2)), ErrModel, "finite"},
		{"poisson", second(Poisson(math.Inf(1))), ErrModel, "rate"},
		{"poisson negative", second(Poisson(-1)), ErrModel, "rate"},
		{"weibull", second(Weibull(1, .01)), ErrModel, "shape"},
		{"quasi order", second(NewQuasi(1, []float64{.5, .4}, []float64{1, 1}, 0)), ErrModel, "ascend"},
		{"empirical", second(NewEmpirical([]float64{0})), ErrModel, "above 0"},
		{"minima", solveErr(Problem{Pages: []Page{{Model: p, Weight: 1, Min: 5}}, Span: 1, R: 4}), ErrInfeasible, "minima add up to 5"},
		{"maxima", solveErr(Problem{Pages: []Page{{Model: p, Weight: 1, Max: 3}}, Span: 1, R: 4}), ErrInfeasible, "maxima add up to 3"},
		{"crossed", solveErr(Problem{Pages: []Page{{Model: p, Weight: 1}, {Model: p, Weight: 1, Min: 3, Max: 2}}, Span: 1, R: 4}), ErrInfeasible, "page 1"},
		{"weight", solveErr(Problem{Pages: []Page{{Model: p, Weight: math.NaN()}}, Span: 1, R: 4}), ErrProblem, "page 0"},
		{"span", solveErr(Problem{Span: 0, R: 4}), ErrProblem, "interval"},
	}
	for _, c := range cases {
		if !errors.Is(c.err, c.want) || !strings.Contains(c.err.Error(), c.text) {
			t.Errorf("%s: %v", c.name, c.err)
		}
	}
	if res, err := Solve(Problem{Span: 1, R: 4}); err != nil || res.Idle != 4 {
		t.Errorf("no pages: %+v, %v", res, err)
	}
}

func second(_ Model, err error) error { return err }
func solveErr(p Problem) error        { _, err := Solve(p); return err }

func FuzzSolve(f *testing.F) {
	f.Add(uint64(1), 1., 1., 1., int64(10), uint8(0))
	f.Add(uint64(2), math.NaN(), 0., 1e300, int64(0), uint8(1))
	f.Add(uint64(3), 1e-300, 1e300, 1e-12, int64(1000), uint8(2))
	f.Add(uint64(4), 1e300, 1e-300, 3., int64(1<<40), uint8(3))
	f.Fuzz(func(t *testing.T, seed uint64, a, b, w float64, r int64, kind uint8) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var ms []Model
		for _, v := range [][2]float64{{a, b}, {b, a}, {rng.Float64(), rng.Float64() * 10}} {
			var m Model
			var err error
			switch kind % 5 {
			case 0:
				m, err = Poisson(v[0])
			case 1:
				m, err = Pareto(v[0], v[1])
			case 2:
				m, err = Weibull(v[0], v[1])
			case 3:
				m, err = NewQuasi(1, []float64{v[0], v[1]}, []float64{v[1], v[0]}, v[0])
			default:
				m, err = NewEmpirical([]float64{v[0], v[1], 1})
			}
			if err == nil {
				ms = append(ms, m)
			}
		}
		pages := make([]Page, 0, 4)
		for _, m := range ms {
			pages = append(pages, Page{Model: m, Weight: w})
		}
		pages = append(pages, randomPage(rng, 50))
		res, err := Solve(Problem{Pages: pages, Span: 1, R: r, Cores: 1})
		if err != nil {
			return
		}
		sum := res.Idle
		for _, x := range res.X {
			sum += int64(x)
		}
		if sum != r || math.IsNaN(res.Objective) || res.Objective < 0 {
			t.Fatalf("R %d: %d given out, objective %g", r, sum, res.Objective)
		}
	})
}

// The paper chooses a quasi-deterministic page's instants greedily. That is never better than the exact choice and sometimes worse; here is how often.
func TestGreedyInstants(t *testing.T) {
	rng := rand.New(rand.NewPCG(14, 1))
	cases, worse, most := 0, 0, 0.
	for range 400 {
		m := randomQuasi(rng, 2+rng.IntN(9))
		q := m.q
		n := len(q.k)
		crawled := make([]bool, n)
		fresh := func() float64 {
			last, f := -1, 0.
			for i, c := range crawled {
				if c {
					f += q.fresh(last, i)
					last = i
				}
			}
			return f + q.fresh(last, n)
		}
		for x := 1; x < n; x++ {
			best, arg := -1., -1
			for i := range crawled {
				if !crawled[i] {
					crawled[i] = true
					if f := fresh(); f > best {
						best, arg = f, i
					}
					crawled[i] = false
				}
			}
			crawled[arg] = true
			exact := 1 - m.Staleness(x, 1)
			cases++
			if best > exact+1e-12 {
				t.Fatalf("greedy gives %g, exact %g", best, exact)
			}
			if best < exact-1e-9 {
				worse++
				most = max(most, 1-best/exact)
			}
		}
	}
	t.Logf("greedy is worse in %.1f%% of %d cases, by up to %.1f%%", 100*float64(worse)/float64(cases), cases, 100*most)
	if worse == 0 {
		t.Error("greedy was never worse")
	}
}
