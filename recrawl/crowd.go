package recrawl

import "math"

// crowd is what all channels tell of one of which little is known: their change rates are taken to follow a Gamma distribution, whose shape and mean are fitted to what visits
// found. It takes the place of the prior that an estimate came with, so that a wrong guess of an operator, or of the defaults, does not outlive the first visits. Where channels are
// much alike it weighs as much as several visits, and one that was found changed each time is not taken for a fast one at once; where they are not, it weighs little.
type crowd struct {
	shape, ticks float64  // so many changes in so many ticks; 0: not fitted yet
	prior        Estimate // that estimates came with
	mean, log    float64  // of the rates, and of their logarithms, over the last samples

	fitted Tick // when it was fitted last, or began
	begun  bool // it was fitted to the channels of a start
	told   crowdTold
	next   int // slot to look at first for the next sample
	bring  int // next slot whose estimate is brought up to date; -1: none
	sample []Estimate
}

// crowdTold is what the estimates have been brought up to date with.
type crowdTold struct{ shape, ticks float64 }

const (
	crowdEvery  = 10      // ticks between two fits
	crowdSample = 512     // channels of a fit at most
	crowdLook   = 1 << 12 // slots that are looked at for them at most
	crowdSteps  = 4       // of the expectation-maximization in one fit; the next one goes on
	crowdAnew   = 60      // of them after a start
	crowdGuess  = 2       // channels that the prior of the options counts for
	crowdLeast  = .25     // shape
	crowdMost   = 4
	crowdFades  = 8       // changes found after which the crowd counts half
	crowdMoves  = 1.1     // estimates are brought up to date when the mean rate or the strength has moved by this factor
	crowdBring  = 1 << 13 // slots that are brought up to date in one call of Next
)

// seen are the ticks without a change of an estimate that visits saw, not the prior. One with a stronger prior than that of the options is somebody's own, which stays.
func (w *crowd) seen(e *Estimate) (ticks float64, own bool) {
	return max(float64(e.idle)-w.brought(e), 0), e.prior > w.prior.prior
}

// brought are the ticks that the prior brought.
func (w *crowd) brought(e *Estimate) (ticks float64) {
	if e.prior == 0 || e.prior > w.prior.prior {
		return 0
	}
	return float64(e.prior) / priorUnit / w.prior.Rate()
}

// belief is what the crowd says of a channel, as so many changes in so many ticks: the less, the more changes of it were found. Else one that is much faster than all others would hardly
// ever be known for that, since the ticks of the others weigh more than all between its own changes.
func (w *crowd) belief(e *Estimate) (changes, ticks float64) {
	n := float64(e.changes) / crowdFades
	share := 1 / (1 + n*n)
	return share * w.shape, share * w.ticks
}

// informed says whether visits told something of the rate, and nobody else did.
func (w *crowd) informed(e *Estimate) bool {
	ticks, own := w.seen(e)
	return !own && (e.changes > 0 || ticks > 1e-6*float64(e.idle))
}

// due says whether it is to be fitted: at the first call, in case that channels of a start are known, and from time to time.
func (w *crowd) due(now Tick) bool {
	if now-w.fitted >= crowdEvery || now < w.fitted {
		w.fitted, w.begun = now, true
		return true
	}
	begun := w.begun
	w.begun = true
	return !begun
}

// fitCrowd learns from a sample of the channels.
func (s *Scheduler) fitCrowd() {
	w := &s.crowd
	w.sample = w.sample[:0]
	looked := 0
	for range min(crowdLook, s.cells.n) {
		if w.next >= s.cells.n {
			w.next = 0
		}
		c := s.cells.at(Slot(w.next))
		if w.next++; c.Flags&(gone|Known|Paused) != 0 {
			continue
		}
		if looked++; !w.informed(&c.Est) {
			continue
		}
		if w.sample = append(w.sample, c.Est); len(w.sample) == crowdSample {
			break
		}
	}
	if len(w.sample) == 0 {
		return
	}
	steps := crowdSteps
	if w.shape == 0 && 2*len(w.sample) > looked { // a start with channels that are known: what was fitted before is to be there again
		steps = crowdAnew
	}
	for range steps {
		w.step()
	}
	moved := func(a, b float64) bool { return !(a < crowdMoves*b && b < crowdMoves*a) }
	if moved(w.shape, w.told.shape) || moved(w.ticks/w.shape*w.told.shape, w.told.ticks) {
		w.told, w.bring = crowdTold{w.shape, w.ticks}, 0
	}
}

// step is one of expectation and maximization. What is believed of a channel is taken for a Gamma distribution too, with the mean and the curvature at the top that the true one has.
func (w *crowd) step() {
	guess, n := w.prior.Rate(), float64(len(w.sample))+crowdGuess
	if w.shape == 0 { // begin with the options' prior
		w.shape = float64(w.prior.prior) / priorUnit
		w.ticks = w.shape / guess
		w.mean, w.log = guess, math.Log(guess)+digamma(w.shape)-math.Log(w.shape)
	}
	mean, log := crowdGuess*guess/n, crowdGuess*math.Log(guess)/n
	for i := range w.sample {
		e := &w.sample[i]
		idle, _ := w.seen(e)
		k := e.root(w.shape, w.ticks+idle) // the whole belief, or the crowd would look the more varied, the less is known of each
		mean += e.Rate() / n
		log += (math.Log(e.Rate()) + digamma(k) - math.Log(k)) / n
	}
	w.mean += (mean - w.mean) / 2
	w.log += (log - w.log) / 2
	w.shape = min(max(gammaShape(math.Log(w.mean)-w.log), crowdLeast), crowdMost)
	w.ticks = w.shape / w.mean
}

// bringSome brings some estimates up to date with what the crowd tells.
func (s *Scheduler) bringSome(now Tick) {
	w := &s.crowd
	end := min(w.bring+crowdBring, s.cells.n)
	for i := w.bring; i < end; i++ {
		at := Slot(i)
		c := s.cells.at(at)
		if c.Flags&(gone|Known) != 0 {
			continue
		}
		old := c.Est.Interval()
		c.Est.solve(w)
		s.regroup(now, at, c, old)
		if c.Flags&inReady == 0 {
			s.place(at, c)
		}
	}
	if w.bring = end; end == s.cells.n {
		w.bring = -1
	}
}

// gammaShape is the shape of the Gamma distribution in which the logarithm of the mean exceeds the mean of the logarithm by so much (Minka, "Estimating a Gamma distribution", 2002).
func gammaShape(s float64) float64 {
	if !(s > 0) {
		return math.Inf(1)
	}
	return (3 - s + math.Sqrt((s-3)*(s-3)+24*s)) / (12 * s)
}

// digamma is the derivative of the logarithm of the Gamma function, of x above 0.
func digamma(x float64) (d float64) {
	for ; x < 6; x++ {
		d -= 1 / x
	}
	f := 1 / (x * x)
	return d + math.Log(x) - .5/x - f*(1./12-f*(1./120-f/252))
}
