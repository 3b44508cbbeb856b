package recrawl

import (
	"context"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"shoal/recrawl/cycle"
)

// swarmRun runs a strategy over channels of known rates on so many threads, each task taking its channel's service, and returns the mean freshness of a channel
// after the first third, by the channels' rates.
func swarmRun(t *testing.T, strategy Strategy, taus []float64, service []float64, threads, ticks int) (freshness float64) {
	t.Helper()
	s := NewScheduler(1, strategy, Options{Groups: 3, Prior: Prior(100, 1), MaxOut: 1})
	rng := rand.New(rand.NewPCG(5, 5))
	last := make([]Tick, len(taus))
	fresh := make([]float64, len(taus))
	for _, tau := range taus {
		s.Add(Facts{Est: Exactly(tau), Flags: Known, Submitted: 1})
	}
	ends := map[Tick][]Slot{}
	begin, busy := Tick(ticks/3), 0
	credit := func(i Slot, now Tick) {
		from := max(last[i], begin)
		if last[i] > 0 && now > from {
			r := 1 / taus[i]
			fresh[i] += (math.Exp(-r*float64(from-last[i])) - math.Exp(-r*float64(now-last[i]))) / r
		}
	}
	var waiting []Slot
	for now := Tick(2); now < Tick(ticks); now++ {
		for _, i := range ends[now] {
			busy--
			credit(i, now)
			last[i] = now
			s.Observe(now, i, Event{Kind: Updated, Wait: -1, Service: float32(service[i])})
		}
		delete(ends, now)
		if plan := strategy.Plan(now); plan != nil {
			adopt, err := plan(context.Background(), s.Snapshot())
			if err != nil {
				t.Fatal(err)
			}
			adopt()
			s.Rerank()
		}
		s.Next(now, Load{Room: max(threads-busy-len(waiting), 0), Out: busy + len(waiting)}, func(at Slot) (Tick, bool) {
			waiting = append(waiting, at)
			return 0, true
		})
		for len(waiting) > 0 && busy < threads {
			i := waiting[0]
			waiting = waiting[1:]
			busy++
			s.Observe(now, i, Event{Kind: Accepted, Wait: 0})
			end := now + max(Tick(math.Round(service[i]*(.5+rng.Float64()))), 1)
			ends[end] = append(ends[end], i)
		}
	}
	for i := range fresh {
		credit(Slot(i), Tick(ticks))
		freshness += fresh[i] / float64(Tick(ticks)-begin) / float64(len(taus))
	}
	return freshness
}

func mixedChannels() (taus, service []float64) {
	rng := rand.New(rand.NewPCG(6, 6))
	for range 400 {
		taus = append(taus, 40*math.Pow(20, rng.Float64()))
		service = append(service, 2+8*rng.ExpFloat64())
	}
	return taus, service
}

// What the strategies are for: more freshness from the same swarm than equal or proportional shares, and a promise that is kept.
func TestOptimalBeatsUniformAndProportional(t *testing.T) {
	taus, service := mixedChannels()
	for _, threads := range []int{12, 40} {
		got := map[string]float64{}
		var predicted float64
		names := []string{"optimal", "uniform", "proportional"}
		if threads == 12 {
			names = append(names, "cycle")
		}
		for _, name := range names {
			st := must(t, name, Params{PlanEvery: map[string]float64{"optimal": 500, "cycle": 100}[name]})
			got[name] = swarmRun(t, st, taus, service, threads, 8_000)
			if name == "optimal" {
				predicted = st.Report().Plain
			}
		}
		t.Logf("%d threads: %v, predicted %.3f", threads, got, predicted)
		if got["optimal"] < got["uniform"] || got["optimal"] < got["proportional"] {
			t.Errorf("%d threads: %v", threads, got)
		}
		if threads == 12 && got["cycle"] < .8*got["uniform"] {
			t.Errorf("%d threads: cycle %.3f", threads, got["cycle"])
		}
		if math.Abs(predicted/got["optimal"]-1) > .05 {
			t.Errorf("%d threads: predicted %.3f, got %.3f", threads, predicted, got["optimal"])
		}
	}
}

// A channel that is updated at the same times every day gets them as due times, and the page says why.
func TestOptimalLearnsInstants(t *testing.T) {
	st := must(t, "optimal", Params{}).(*optimal)
	s := NewScheduler(1, st, Options{Groups: 1, Prior: Prior(600, .5)})
	at := s.Add(Facts{Submitted: 1})
	for range 30 {
		s.Add(Facts{Submitted: 1})
	}
	now, last := Tick(2), Tick(1)
	rng := rand.New(rand.NewPCG(7, 7))
	for range 200 {
		now += Tick(60 + rng.IntN(240))
		changed := false
		for _, hour := range []Tick{7*60 + 30, 10*60 + 30} {
			if (now-hour)/1440 != (last-hour)/1440 || (now-hour >= 0) != (last-hour >= 0) {
				changed = true
			}
		}
		for i := range Slot(31) {
			s.Observe(now, i, Event{Kind: Updated, Changed: changed && i == at, Service: 5})
		}
		last = now
	}
	why := st.Explain(at, &Facts{}, ticks)
	if !strings.Contains(why, "quasi") {
		t.Fatalf("explained as %q", why)
	}
	plan := st.Plan(now + 1440)
	if plan == nil {
		t.Fatal("no plan is due")
	}
	adopt, err := plan(context.Background(), s.Snapshot())
	if err != nil {
		t.Fatal(err)
	}
	adopt()
	f := s.Facts(at)
	_, fixed := st.interval(at, &f)
	due := st.due(at, &f, 1, fixed)
	phase := int(due) % 1440
	if !fixed || phase < 6*60 || phase > 12*60+30 {
		t.Errorf("fixed %v, due at minute %d of the day", fixed, phase)
	}
	if got := st.Explain(7, &f, ticks); !strings.Contains(got, "Poisson") {
		t.Errorf("a channel that never changed is explained as %q", got)
	}
}

func TestPlanOfNothing(t *testing.T) {
	for _, name := range []string{"optimal", "cycle"} {
		st := must(t, name, Params{PlanEvery: 10})
		s := NewScheduler(1, st, Options{Groups: 2, Prior: Prior(100, 1)})
		for now := Tick(2); now < 60; now++ {
			if plan := st.Plan(now); plan != nil {
				adopt, err := plan(context.Background(), s.Snapshot())
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				adopt()
			}
			s.Next(now, Load{Room: -1}, yes)
		}
		if st.Restore(st.AppendState(nil)) != nil {
			t.Errorf("%s: its own state is refused", name)
		}
	}
}

// The planned number of crawls fits the budget, and a larger budget never promises less.
func TestPlanSpendsItsBudget(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	facts := make([]Facts, 500)
	for i := range facts {
		facts[i] = Facts{Est: Exactly(30 * math.Pow(100, rng.Float64())), Flags: Known, Weight: rng.Float32() + .1, Service: ToHalf(1 + 20*rng.Float32()), Submitted: 1, Updated: 2}
	}
	prices := costs{p: Params{CostBase: 2}}
	last := 0.
	for _, spend := range []float64{1, 5, 20, 80} {
		p, err := planOptimal(context.Background(), 100, facts, planInput{cost: prices.cost, spend: spend, every: 1440})
		if err != nil {
			t.Fatal(err)
		}
		used := 0.
		for i := range facts {
			used += prices.cost(&facts[i]) / math.Abs(float64(p.interval[i]))
		}
		if used > 1.001*spend || used < .97*spend {
			t.Errorf("spends %.4g of %g", used, spend)
		}
		if p.Summary.Freshness < last {
			t.Errorf("spending %g promises %g, less gave %g", spend, p.Summary.Freshness, last)
		}
		last = p.Summary.Freshness
		for s := range facts {
			for k, d := range p.due[p.first[s]:p.first[s+1]] {
				if d <= 100 || d > 100+1440+1 || k > 0 && d < p.due[int(p.first[s])+k-1] {
					t.Fatalf("slot %d: due times %v", s, p.due[p.first[s]:p.first[s+1]])
				}
			}
		}
	}
}

// What is visited as a Poisson process would have it ends near its own bucket; the byte is kept under any strategy, and over a restart.
func TestBucketByteFollowsTheRecord(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	s := NewScheduler(1, must(t, "icr", Params{}), Options{Groups: 2, Prior: Prior(1440, .5)})
	for _, want := range []uint8{40, 90, 140} {
		at := s.Add(Facts{})
		rate := cycle.RateOf(want)
		now := Tick(1)
		for range 600 {
			gap := Tick(1 + rng.IntN(int(1.6/rate)+1))
			now += gap
			changed := rng.Float64() < -math.Expm1(-rate*float64(gap))
			before := s.Facts(at)
			s.Observe(now, at, Event{Kind: Updated, Changed: changed})
			after := s.Facts(at)
			if before.Updated > 0 && changed && after.Bucket > before.Bucket+1 {
				t.Fatalf("a change moves a channel from bucket %d to the slower %d", before.Bucket, after.Bucket)
			}
		}
		f := s.Facts(at)
		if d := int(f.Bucket) - int(want); d < -9 || d > 9 { // 64 changes are remembered: 12%, three buckets, is one standard deviation
			t.Errorf("bucket %d after 600 visits, want about %d", f.Bucket, want)
		}
		var back Facts
		if err := back.Restore(f.AppendState(nil)); err != nil || back.Bucket != f.Bucket {
			t.Errorf("restored as bucket %d of %d: %v", back.Bucket, f.Bucket, err)
		}
	}
}

// The plan keeps the limits: no channel is planned oftener than cap times its rate, and what is left of the capacity goes to the others.
func TestPlanKeepsTheCap(t *testing.T) {
	facts := make([]Facts, 300)
	for i := range facts {
		facts[i] = Facts{Est: Exactly(100 + 40*float64(i)), Flags: Known, Service: ToHalf(2), Submitted: 1, Updated: 2}
	}
	prices := costs{p: Params{CostBase: 2}}
	for _, spend := range []float64{.5, 2, 1000} {
		p, err := planOptimal(context.Background(), 100, facts, planInput{cost: prices.cost, spend: spend, every: 1440, limits: Limits{2, 10}})
		if err != nil {
			t.Fatal(err)
		}
		for i, iv := range p.interval {
			if least := facts[i].Est.Interval() / 2; float64(iv) < least*(1-1e-6) {
				t.Fatalf("spend %g: slot %d every %g ticks, not oftener than %g", spend, i, iv, least)
			}
		}
		if spend == 1000 && p.Summary.AtCap != len(facts) {
			t.Errorf("with room for all %d of %d get all that the cap allows", p.Summary.AtCap, len(facts))
		}
	}
}

// A history that was stored gives the model back after a restart, and says the same.
func TestRecall(t *testing.T) {
	var history []byte
	rng := rand.New(rand.NewPCG(7, 7))
	now, last := Tick(2), Tick(1)
	for range 200 {
		now += Tick(60 + rng.IntN(240))
		changed := false
		for _, hour := range []Tick{7*60 + 30, 10*60 + 30} {
			changed = changed || (now-hour)/1440 != (last-hour)/1440 || (now-hour >= 0) != (last-hour >= 0)
		}
		history = AppendVisit(history, float64(now-last), changed)
		last = now
	}
	if len(history) != 128 {
		t.Fatalf("%d bytes of history", len(history))
	}
	f := Facts{Est: Exactly(500), Updated: now}
	c := ChooseFast(history, &f, 1440)
	if !c.Other || !strings.Contains(c.Reason, "quasi") {
		t.Fatalf("chosen: %+v", c)
	}
	st := must(t, "optimal", Params{}).(*optimal)
	NewScheduler(1, st, Options{Groups: 1, Prior: Prior(600, .5)})
	st.Recall(3, &f, history, c)
	if got := st.Explain(3, &f, ticks); !strings.Contains(got, "quasi") {
		t.Errorf("explained as %q", got)
	}
	keepsHistory(t, history, f, c)
	if got := DescribeModel(nil, &f, 1440, ticks); !strings.Contains(got, "too few") {
		t.Errorf("without a history: %q", got)
	}
	for _, gap := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		if len(AppendVisit(nil, gap, true)) != 0 {
			t.Errorf("a gap of %g is kept", gap)
		}
	}
	if n := len(AppendVisit(nil, 1e300, true)); n != 2 {
		t.Errorf("a huge gap takes %d bytes", n)
	}
}

// keepsHistory has a channel keep its model through a pause, a crawl that an operator asks for, and a change of its weight, and lose it with its slot, or where its rate is given.
func keepsHistory(t *testing.T, history []byte, f Facts, c Chosen) {
	t.Helper()
	st := must(t, "optimal", Params{}).(*optimal)
	s := NewScheduler(f.Updated, st, Options{Groups: 1, Prior: Prior(600, .5)})
	at := s.Add(f)
	st.Recall(at, &f, history, c)
	models := func() int { return len(st.logs.models()) }
	for what, change := range map[string]func(*Facts){
		"a pause":       func(f *Facts) { f.Flags |= Paused },
		"its end":       func(f *Facts) { f.Flags &^= Paused },
		"a task":        func(f *Facts) { f.Out = 1 },
		"a weight":      func(f *Facts) { f.Weight = 3 },
		"a fixed group": func(f *Facts) { f.Flags |= Pinned },
	} {
		if s.Edit(at, change); models() != 1 || !strings.Contains(st.Explain(at, &f, ticks), "quasi") {
			t.Fatalf("%s makes optimal forget the channel's visits: %s", what, st.Explain(at, &f, ticks))
		}
	}
	s.Edit(at, func(f *Facts) { f.Est, f.Flags = Exactly(100), f.Flags|Known })
	if models() != 0 {
		t.Error("a channel whose rate is given keeps the model that visits spoke for")
	}
	st.Recall(at, &f, history, c)
	if s.Remove(at); models() != 0 {
		t.Error("a channel that is gone leaves its model behind")
	}
}

// TestChannelsThatStayDoNotArrive edits a channel that was never crawled: strategy cycle does not plan for another one.
func TestChannelsThatStayDoNotArrive(t *testing.T) {
	st := must(t, "cycle", Params{}).(*cyclic)
	s := NewScheduler(1, st, DefaultOptions())
	at := s.Add(Facts{})
	for range 3 {
		s.Edit(at, func(f *Facts) { f.Submitted = 0 })
	}
	if st.added != 1 || st.never != 1 {
		t.Errorf("one channel counts as %d that came and %d never crawled", st.added, st.never)
	}
}

func TestRateBias(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	for _, want := range []float64{.7, 1, 1.4} {
		var found []float32
		for range 4000 {
			x := 2 * rng.Float64() // expected by an estimate that is off by the same factor everywhere
			if rng.Float64() > -math.Expm1(-want*x) {
				x = -x
			}
			found = append(found, float32(x))
		}
		if got := rateBias(found); math.Abs(got/want-1) > .08 {
			t.Errorf("bias %.3f, want %.1f", got, want)
		}
	}
	for _, found := range [][]float32{nil, {1}, {-1, -2}, {3, 4}, {0}} {
		if got := rateBias(found); got != 1 {
			t.Errorf("%v: bias %g of nearly nothing", found, got)
		}
	}
}

// Every cycle is planned anew from what was measured: by the paper's Strategy 2 in the first two, then by 3, or by 1 where the mean channel changes within a cycle. Channels
// that come later are new in the cycle that follows, and the ratio says so.
func TestCycleFollowsThePaper(t *testing.T) {
	for _, x := range []struct {
		tau  float64
		then int
	}{{4000, 3}, {30, 1}} {
		st := must(t, "cycle", Params{PlanEvery: 20, Periods: 3}).(*cyclic)
		s := NewScheduler(1, st, Options{Groups: 2, Prior: Prior(x.tau, 1), MaxOut: 1})
		for range 60 {
			s.Add(Facts{Est: Exactly(x.tau), Flags: Known, Service: ToHalf(2)})
		}
		strategies := map[int]int{} // by cycle
		sawNew, capacities := false, map[float64]bool{}
		ends := map[Tick][]Slot{}
		for now := Tick(2); now < 20*3*4+40; now++ {
			if now == 70 {
				for range 30 {
					s.Add(Facts{Est: Exactly(x.tau), Flags: Known})
				}
			}
			for _, at := range ends[now] {
				s.Observe(now, at, Event{Kind: Updated, Wait: 0, Service: 2})
			}
			if plan := st.Plan(now); plan != nil {
				adopt, err := plan(context.Background(), s.Snapshot())
				if err != nil {
					t.Fatal(err)
				}
				adopt()
				s.Rerank()
			}
			s.Next(now, Load{Room: 3}, func(at Slot) (Tick, bool) {
				ends[now+3] = append(ends[now+3], at)
				return 0, true
			})
			r := st.Report()
			if r == nil {
				continue
			}
			strategies[r.Cycle] = r.Strategy
			capacities[r.Capacity] = true
			if ratio, ok := st.share(); ok != (r.Old+r.New > 0) || ratio != r.Ratio {
				t.Fatalf("ratio %g, %v, but the report says %+v", ratio, ok, r)
			}
			sawNew = sawNew || r.Cycle > 1 && r.New > 0 && r.Ratio > 0
			if r.Period < 1 || r.Period > 3 || len(r.Shares) != len(r.Buckets) || r.Gap < 0 {
				t.Fatalf("%+v", r)
			}
		}
		if strategies[1] != 2 || strategies[2] != 2 || strategies[3] != x.then || strategies[4] != x.then {
			t.Errorf("change interval %g: strategies by cycle %v, want 2, 2, then %d", x.tau, strategies, x.then)
		}
		if len(capacities) < 3 {
			t.Errorf("capacities %v: not measured", capacities)
		}
		if x.then == 3 && !sawNew {
			t.Error("channels that came in the second cycle were never new in a plan")
		}
	}
}
