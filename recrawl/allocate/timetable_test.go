package allocate

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// minCostFlow is the slow twin: unit flows along shortest paths found by Bellman and Ford in the whole network of the paper's figure 5.
func minCostFlow(p TimetableProblem) (float64, bool) {
	type slot struct {
		crawler int
		t       float64
	}
	var slots []slot
	for k, n := range p.Slots {
		for l := range n {
			slots = append(slots, slot{k, p.Span * (float64(l) / float64(n))})
		}
	}
	n, m := len(p.Ideal), len(slots)
	cost := make([][]float64, n)
	for i, t := range p.Ideal {
		cost[i] = make([]float64, m)
		for j, s := range slots {
			cost[i][j] = math.Abs(s.t - t)
			if p.Release != nil && p.Release[i] && s.t < t {
				cost[i][j] = math.Inf(1)
			}
		}
	}
	for _, b := range p.Barred {
		for j, s := range slots {
			if (b.Crawler == -1 || b.Crawler == s.crawler) && s.t >= b.From && s.t < b.To {
				cost[b.Task][j] = math.Inf(1)
			}
		}
	}
	taskOf := make([]int, m)
	for j := range taskOf {
		taskOf[j] = -1
	}
	total := 0.
	placed := make([]bool, n)
	for range n {
		dt, ds := make([]float64, n), make([]float64, m)
		from := make([]int, m)
		for i := range dt {
			dt[i] = math.Inf(1)
			if !placed[i] {
				dt[i] = 0
			}
		}
		for j := range ds {
			ds[j] = math.Inf(1)
		}
		for changed := true; changed; {
			changed = false
			for i := range n {
				for j := range m {
					if c := dt[i] + cost[i][j]; taskOf[j] != i && c < ds[j]-1e-12 {
						ds[j], from[j], changed = c, i, true
					}
				}
			}
			for j, i := range taskOf {
				if i >= 0 && ds[j]-cost[i][j] < dt[i]-1e-12 {
					dt[i], changed = ds[j]-cost[i][j], true
				}
			}
		}
		best := -1
		for j := range ds {
			if taskOf[j] < 0 && !math.IsInf(ds[j], 1) && (best < 0 || ds[j] < ds[best]) {
				best = j
			}
		}
		if best < 0 {
			return 0, false
		}
		total += ds[best]
		for j := best; ; {
			i := from[j]
			old := -1
			for k, t := range taskOf {
				if t == i {
					old = k
				}
			}
			taskOf[j] = i
			if old < 0 {
				placed[i] = true
				break
			}
			taskOf[old] = -1
			j = old
		}
	}
	return total, true
}

func randomTimetable(rng *rand.Rand, release, idle bool) TimetableProblem {
	p := TimetableProblem{Span: 1}
	total := 0
	if rng.IntN(2) == 0 {
		c, s := 1+rng.IntN(3), 1+rng.IntN(4)
		for range c {
			p.Slots = append(p.Slots, s)
		}
		total = c * s
	} else {
		for range 1 + rng.IntN(3) {
			s := 1 + rng.IntN(4)
			p.Slots = append(p.Slots, s)
			total += s
		}
	}
	n := total
	if idle {
		n = rng.IntN(total + 1)
	}
	p.Ideal = make([]float64, n)
	for i := range p.Ideal {
		p.Ideal[i] = rng.Float64()
		if rng.IntN(3) == 0 {
			p.Ideal[i] = float64(rng.IntN(5)) / 4
		}
	}
	if release {
		p.Release = make([]bool, n)
		for i := range p.Release {
			p.Release[i] = rng.IntN(3) == 0
			if p.Release[i] {
				p.Ideal[i] *= .6
			}
		}
	}
	return p
}

// checkSchedule verifies the assignment by itself: distinct slots, none early, none barred, and the cost that is told.
func checkSchedule(t *testing.T, p TimetableProblem, s *Schedule) {
	t.Helper()
	seen := map[[2]int]bool{}
	sum := 0.
	for i, ideal := range p.Ideal {
		c, l, at := s.At(i)
		if seen[[2]int{c, l}] || l < 0 || l >= p.Slots[c] || at != p.Span*(float64(l)/float64(p.Slots[c])) {
			t.Fatalf("task %d: crawler %d, slot %d at %g", i, c, l, at)
		}
		seen[[2]int{c, l}] = true
		if p.Release != nil && p.Release[i] && at < ideal {
			t.Fatalf("task %d at %g, released at %g", i, at, ideal)
		}
		for _, b := range p.Barred {
			if b.Task == i && (b.Crawler == -1 || b.Crawler == c) && at >= b.From && at < b.To {
				t.Fatalf("task %d stands in its bar %+v", i, b)
			}
		}
		sum += math.Abs(at - ideal)
	}
	if math.Abs(sum-s.Cost) > 1e-9*(1+sum) {
		t.Fatalf("cost is told as %g and adds up to %g", s.Cost, sum)
	}
}

func TestTimetableAgainstMinCostFlow(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 1))
	infeasible, barred := 0, 0
	for round := range 12_000 {
		p := randomTimetable(rng, round&1 == 1, round&2 == 2)
		if round%6 == 0 && len(p.Ideal) > 0 {
			for range 1 + rng.IntN(3) {
				from := rng.Float64()
				p.Barred = append(p.Barred, Bar{rng.IntN(len(p.Ideal)), rng.IntN(len(p.Slots)+1) - 1, from, from + .5*rng.Float64()})
			}
			barred++
		}
		want, ok := minCostFlow(p)
		got, err := Timetable(p)
		if !ok {
			if !errors.Is(err, ErrInfeasible) {
				t.Fatalf("round %d: %v, but no schedule exists: %+v", round, err, p)
			}
			infeasible++
			continue
		}
		if err != nil {
			t.Fatalf("round %d: %v: %+v", round, err, p)
		}
		checkSchedule(t, p, got)
		if math.Abs(got.Cost-want) > 1e-9 || !got.Exact {
			t.Fatalf("round %d: cost %g, min-cost flow %g: %+v", round, got.Cost, want, p)
		}
	}
	if infeasible < 100 || barred < 100 {
		t.Errorf("only %d infeasible and %d restricted cases", infeasible, barred)
	}
}

// Large enough for the radix paths; crossed with the restricted window.
func TestTimetableLarge(t *testing.T) {
	rng := rand.New(rand.NewPCG(12, 1))
	for _, slots := range [][]int{{20_000, 20_000, 20_000}, {30_000, 17_000, 999}} {
		total := 0
		for _, n := range slots {
			total += n
		}
		for _, n := range []int{total, total * 9 / 10} {
			p := TimetableProblem{Slots: slots, Span: 3, Ideal: make([]float64, n), Release: make([]bool, n)}
			for i := range p.Ideal {
				p.Ideal[i], p.Release[i] = 2.98*rng.Float64(), i%5 == 0
				if i%7 == 0 {
					p.Ideal[i] = 1
				}
			}
			for i := 0; i < n; i += 5000 {
				p.Barred = append(p.Barred, Bar{i, -1, p.Ideal[i] - .1, min(p.Ideal[i]+.1, 2.9)})
			}
			s, err := Timetable(p)
			if err != nil {
				t.Fatal(err)
			}
			checkSchedule(t, p, s)
			if s.Exact || s.Cost < s.Bound {
				t.Errorf("restricted: exact %v, cost %g, bound %g", s.Exact, s.Cost, s.Bound)
			}
			p.Barred = nil
			free, err := Timetable(p)
			if err != nil || !free.Exact || math.Abs(free.Cost-s.Bound) > 1e-6 {
				t.Fatalf("%v, %+v", err, free)
			}
			checkSchedule(t, p, free)
		}
	}
}

func TestTimetableRefusals(t *testing.T) {
	cases := []struct {
		p    TimetableProblem
		text string
	}{
		{TimetableProblem{Ideal: []float64{.1, .2}, Slots: []int{1}, Span: 1}, "2 tasks do not fit"},
		{TimetableProblem{Ideal: []float64{math.NaN()}, Slots: []int{1}, Span: 1}, "task 0"},
		{TimetableProblem{Ideal: []float64{.5}, Slots: []int{1}, Span: 1, Release: []bool{true}}, "release"},
		{TimetableProblem{Ideal: []float64{.5}, Slots: []int{2}, Span: 1, Barred: []Bar{{0, -1, 0, 2}}}, "task 0"},
		{TimetableProblem{Span: math.Inf(1)}, "interval"},
	}
	for _, c := range cases {
		if _, err := Timetable(c.p); err == nil || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%+v: %v", c.p, err)
		}
	}
	if s, err := Timetable(TimetableProblem{Span: 1}); err != nil || s.Cost != 0 {
		t.Errorf("empty: %v", err)
	}
}

// The figure to meet: ten million tasks on ten crawlers in two seconds on one core, assignment included.
func BenchmarkTimetable(b *testing.B) {
	rng := rand.New(rand.NewPCG(13, 1))
	const n = 10_000_000
	p := TimetableProblem{Span: 1, Ideal: make([]float64, n), Release: make([]bool, n)}
	for i := range p.Ideal {
		p.Ideal[i], p.Release[i] = rng.Float64()*.9999, i%5 == 0
	}
	for range 10 {
		p.Slots = append(p.Slots, n/10)
	}
	b.Run("full", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := Timetable(p); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("idle", func(b *testing.B) {
		q := p
		q.Ideal, q.Release = p.Ideal[:9_000_000], p.Release[:9_000_000]
		for b.Loop() {
			if _, err := Timetable(q); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("twin", func(b *testing.B) { // a general assignment solver, on what it can do
		q := TimetableProblem{Ideal: p.Ideal[:1000], Release: p.Release[:1000], Slots: []int{100, 100, 100, 100, 100, 100, 100, 100, 100, 100}, Span: 1}
		for b.Loop() {
			start := time.Now()
			assign(1000, 1000, func(i, j int) float64 {
				t := float64(j/10) / 100
				if q.Release[i] && t < q.Ideal[i] {
					return 1e6
				}
				return math.Abs(t - q.Ideal[i])
			})
			flow := time.Since(start)
			start = time.Now()
			if _, err := Timetable(q); err != nil {
				b.Skip(err)
			}
			b.ReportMetric(flow.Seconds()/time.Since(start).Seconds(), "x-faster")
		}
	})
}

// Whatever times, slots and marks come in: an error that names what is wrong, or a schedule that is one, at the least cost.
func FuzzTimetable(f *testing.F) {
	f.Add(uint64(1), 3, 1., .5, math.NaN())
	f.Add(uint64(2), 0, 1., 0., 1.)
	f.Add(uint64(3), 5, math.Inf(1), 1e300, -1.)
	f.Add(uint64(4), 6, 1e-300, 1e-300, 0.)
	f.Add(uint64(5), 6, 1e308, 1e308, 1e307)
	f.Fuzz(func(t *testing.T, seed uint64, n int, span, a, b float64) {
		rng := rand.New(rand.NewPCG(seed, 1))
		p := TimetableProblem{Span: span}
		for range rng.IntN(4) {
			p.Slots = append(p.Slots, rng.IntN(5)-rng.IntN(20)/19)
		}
		for i := range min(max(n, 0), 12) {
			v := []float64{a, b, span * rng.Float64(), 0, span}[rng.IntN(5)]
			p.Ideal, p.Release = append(p.Ideal, v), append(p.Release, i%3 == 0)
		}
		if len(p.Ideal) > 0 && rng.IntN(2) == 0 {
			p.Barred = append(p.Barred, Bar{rng.IntN(len(p.Ideal)), rng.IntN(3) - 1, a, b})
		}
		s, err := Timetable(p)
		if err != nil {
			if !errors.Is(err, ErrProblem) && !errors.Is(err, ErrInfeasible) {
				t.Fatal(err)
			}
			return
		}
		seen := map[[2]int]bool{}
		for i, ideal := range p.Ideal {
			c, l, at := s.At(i)
			if seen[[2]int{c, l}] || l < 0 || l >= p.Slots[c] || p.Release[i] && at < ideal {
				t.Fatalf("task %d: crawler %d, slot %d at %g: %+v", i, c, l, at, p)
			}
			seen[[2]int{c, l}] = true
		}
		if span < 1e-6 || span > 1e6 { // the slow twin counts in absolute steps
			return
		}
		if want, ok := minCostFlow(p); !ok || math.Abs(want-s.Cost) > 1e-9*(1+span) {
			t.Fatalf("cost %g, min-cost flow %g %v: %+v", s.Cost, want, ok, p)
		}
	})
}
