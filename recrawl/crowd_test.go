package recrawl

import (
	"math"
	"math/rand/v2"
	"testing"
)

// among has channels be visited every so many ticks, and returns the scheduler and their true rates. Those of the crowd differ by a factor of two either way at most.
func among(t *testing.T, rng *rand.Rand, channels, visits int, every Tick, interval float64, fast int) (s *Scheduler, rates []float64, now Tick) {
	t.Helper()
	s = NewScheduler(1, must(t, "price", Params{}), DefaultOptions())
	for i := range channels {
		rate := math.Exp(2*math.Ln2*(rng.Float64()-.5)) / interval
		if i < fast {
			rate = 50 / interval
		}
		rates = append(rates, rate)
		s.Add(Facts{Submitted: 1, Updated: 1})
	}
	for now = 1; visits > 0; visits-- {
		now += every
		s.Next(now, Load{}, nil)
		for i, rate := range rates {
			s.Observe(now, Slot(i), Event{Kind: Updated, Changed: rng.Float64() < -math.Expm1(-rate*float64(every))})
		}
	}
	for range 50 { // until it has settled
		now += crowdEvery
		s.Next(now, Load{}, nil)
	}
	return s, rates, now
}

// off is the mean distance of estimates from the truth, as a factor.
func off(rates []float64, estimate func(i int) Estimate) float64 {
	sum := 0.
	for i, r := range rates {
		e := estimate(i)
		sum += math.Abs(math.Log(e.Rate() / r))
	}
	return math.Exp(sum / float64(len(rates)))
}

// TestCrowdTellsOfEach: after a few visits, what the other channels tell brings the estimates much nearer to the truth than a prior that is a hundred times too slow does.
func TestCrowdTellsOfEach(t *testing.T) {
	const interval = 15
	seed := func() *rand.Rand { return rand.New(rand.NewPCG(3, 3)) }
	s, rates, _ := among(t, seed(), 400, 6, 20, interval, 0)
	alone := make([]Estimate, len(rates))
	rng := seed()
	for i := range alone {
		rng.Float64() // its rate
		alone[i] = Prior(1440, .5)
	}
	for range 6 {
		for i, r := range rates {
			alone[i].Visit(20, rng.Float64() < -math.Expm1(-r*20))
		}
	}
	with, without := off(rates, func(i int) Estimate { return s.Facts(Slot(i)).Est }), off(rates, func(i int) Estimate { return alone[i] })
	t.Logf("off by a factor of %.2f, and by %.2f where each channel is taken by itself", with, without)
	if with > 1.6 || with > without/2 {
		t.Errorf("estimates are off by a factor of %.2f; each by itself by %.2f", with, without)
	}
	if e := s.Prior(); e.Interval() < interval/1.5 || e.Interval() > interval*1.5 {
		t.Errorf("a new channel is thought to change every %.0f ticks, and the others do every %d", e.Interval(), interval)
	}
	at := s.Add(Facts{})
	if got, want := s.Facts(at).Est, s.Prior(); got != want {
		t.Errorf("a new channel has %+v, want %+v", got, want)
	}
}

// TestCrowdAfterAStart: a scheduler that begins with the facts of another one knows at once what all channels tell.
func TestCrowdAfterAStart(t *testing.T) {
	s, rates, now := among(t, rand.New(rand.NewPCG(7, 7)), 400, 6, 20, 15, 0)
	again, err := RestoreScheduler(now, must(t, "price", Params{}), DefaultOptions(), s.AppendState(nil))
	if err != nil {
		t.Fatal(err)
	}
	for i := range rates {
		var f Facts
		before := s.Facts(Slot(i))
		if err := f.Restore(before.AppendState(nil)); err != nil {
			t.Fatal(err)
		}
		again.Add(f)
	}
	again.Next(now, Load{}, nil)
	if a, b := again.crowd, s.crowd; math.Abs(math.Log(a.shape/b.shape)) > .1 || math.Abs(math.Log(a.ticks/b.ticks)) > .1 {
		t.Errorf("after a start the crowd counts as %.2f changes in %.1f ticks, and before as %.2f in %.1f", a.shape, a.ticks, b.shape, b.ticks)
	}
	for i := range rates {
		if a, b := again.Facts(Slot(i)).Est.Rate(), s.Facts(Slot(i)).Est.Rate(); math.Abs(math.Log(a/b)) > .1 {
			t.Fatalf("channel %d is thought to change %v times a tick, and was %v", i, a, b)
		}
	}
}

// TestCrowdHidesNoOutlier: a channel that changes fifty times as often as all others is known for that in the end, though they are much alike.
func TestCrowdHidesNoOutlier(t *testing.T) {
	const interval = 5000
	s, rates, now := among(t, rand.New(rand.NewPCG(4, 4)), 400, 6, interval, interval, 1)
	if s.crowd.shape < 2 {
		t.Fatalf("the crowd counts as %.1f changes: it is not alike", s.crowd.shape)
	}
	rng := rand.New(rand.NewPCG(5, 5))
	for range 64 { // as often as a strategy would have it
		every := max(wholeTicks(s.Facts(0).Est.Interval()/2), 10)
		now += every
		s.Next(now, Load{}, nil)
		s.Observe(now, 0, Event{Kind: Updated, Changed: rng.Float64() < -math.Expm1(-rates[0]*float64(every))})
	}
	if got, want := s.Facts(0).Est.Interval(), interval/50.; got < want/1.6 || got > want*1.6 {
		t.Errorf("it is thought to change every %.0f ticks, and does every %.0f", got, want)
	}
}

// TestCrowdBearsLiars: channels that are always said to have changed, one in twenty, make no honest one look fast. A new one is taken for faster than it is, and only until a few visits have found nothing.
func TestCrowdBearsLiars(t *testing.T) {
	const channels, liars, interval, days = 200, 10, 10_000, 60
	s := NewScheduler(1, must(t, "price", Params{}), DefaultOptions())
	rng := rand.New(rand.NewPCG(1, 2))
	for range channels {
		s.Add(Facts{Submitted: 1, Updated: 1})
	}
	next := make([]Tick, channels)
	for now := Tick(11); now < days*1440; now += crowdEvery {
		s.Next(now, Load{}, nil)
		for i := range next {
			if next[i] > now {
				continue
			}
			gap := float64(now - s.Facts(Slot(i)).Updated)
			s.Observe(now, Slot(i), Event{Kind: Updated, Changed: i < liars || rng.Float64() < -math.Expm1(-gap/interval)})
			next[i] = now + max(wholeTicks(s.Facts(Slot(i)).Est.Interval()/2), 10)
		}
	}
	sum := 0.
	for i := liars; i < channels; i++ {
		sum += math.Log(s.Facts(Slot(i)).Est.Interval())
	}
	e, visits := s.Prior(), 0
	honest, fresh := math.Exp(sum/(channels-liars)), e.Interval()
	for ; e.Interval() < interval/2; visits++ {
		e.visit(max(math.Ceil(e.Interval()/2), 10), false, &s.crowd)
	}
	t.Logf("honest channels are thought to change every %.0f ticks, and do every %d; a new one every %.0f, until %d visits have found nothing", honest, interval, fresh, visits)
	if honest < interval/1.3 || honest > interval*1.3 || visits > 6 {
		t.Errorf("honest channels are thought to change every %.0f ticks, and do every %d; a new one every %.0f, until %d visits have found nothing", honest, interval, fresh, visits)
	}
}

// TestCrowdBringsAllUpToDate: channels that were visited once are thought of as the others, and are counted in the groups of their new intervals.
func TestCrowdBringsAllUpToDate(t *testing.T) {
	s, rates, now := among(t, rand.New(rand.NewPCG(6, 6)), 300, 6, 20, 15, 0)
	var once []Slot
	for range 100 {
		once = append(once, s.Add(Facts{Submitted: now, Updated: now, Est: s.opt.Prior}))
	}
	held := s.Add(Facts{Submitted: now, Updated: now, Est: Exactly(777), Flags: Known})
	own := s.Add(Facts{Submitted: now, Updated: now, Est: Prior(777, 1)})
	for range 20 { // the more channels of no visits of their own there are, the less they say
		now += crowdEvery
		for i, r := range rates { // all twice as slow as before, so that the crowd moves
			s.Observe(now, Slot(i), Event{Kind: Updated, Changed: rand.New(rand.NewPCG(uint64(now), uint64(i))).Float64() < -math.Expm1(-r/2*float64(crowdEvery))})
		}
		s.Next(now, Load{}, nil)
	}
	for _, at := range once {
		if i := s.Facts(at).Est.Interval(); i > 60 {
			t.Fatalf("one of which nothing is known is still thought to change every %.0f ticks", i)
		}
	}
	for _, at := range []Slot{held, own} {
		if i := s.Facts(at).Est.Interval(); math.Abs(i-777) > 1 {
			t.Errorf("what somebody said of a channel is now %.0f ticks", i)
		}
	}
	count, sum := make([]int, s.groups.K()), make([]float64, s.groups.K())
	for i := range s.Len() {
		f := s.Facts(Slot(i))
		count[f.Group]++
		sum[f.Group] += f.Est.Interval()
	}
	for g := range count {
		if count[g] != s.groups.count[g] || math.Abs(sum[g]-s.groups.sum[g]) > 1e-6*(1+sum[g]) {
			t.Errorf("group %d has %d channels of %v ticks together, and counts %d of %v", g, count[g], sum[g], s.groups.count[g], s.groups.sum[g])
		}
	}
}

// TestPriorGoesAsItCame: what the prior brought is gone when it has faded, so that it holds nothing back any more.
func TestPriorGoesAsItCame(t *testing.T) {
	w := &crowd{prior: Prior(1440, .5)}
	e := w.prior
	for range 4 * Memory {
		e.visit(10, true, w)
	}
	if e.prior > 0 || e.idle > 1 {
		t.Errorf("a prior of %d, and %v ticks without a change, after visits that all found one", e.prior, e.idle)
	}
}

// TestGammaShape has the shape follow from what numbers of a Gamma distribution tell, and checks digamma by its values in the books.
func TestGammaShape(t *testing.T) {
	for _, shape := range []float64{.3, 1, 2.5, 20} {
		if got := gammaShape(math.Log(shape) - digamma(shape)); math.Abs(got/shape-1) > .02 {
			t.Errorf("shape %v is taken for %v", shape, got)
		}
	}
	if got := gammaShape(0); !math.IsInf(got, 1) {
		t.Errorf("numbers that are all the same: shape %v", got)
	}
	for x, want := range map[float64]float64{.5: -1.9635100260214235, 1: -.5772156649015329, 10: 2.2517525890667211} {
		if got := digamma(x); math.Abs(got-want) > 1e-6 {
			t.Errorf("digamma(%v) = %v, want %v", x, got, want)
		}
	}
}
