// Package again paces retries. Each wait is longer than the one before, up to a bound, and is drawn at random, so
// that many clients that lost the same server do not come back together (exponential backoff with jitter: RFC 8085,
// section 3.1; AWS Architecture Blog, "Exponential Backoff And Jitter", 2015).
//
// It does not decide what is worth another try, or how long to try: the caller looks at the error and at the clock.
//
// A wait is never shorter than half of its step and never longer than the step. A step never exceeds Bounds.Last.
package again

import (
	"context"
	"math/rand/v2"
	"time"
)

// Bounds are the steps of a pace. Both must be above zero.
type Bounds struct {
	First time.Duration // the first step; each next one is twice as long
	Last  time.Duration // the longest step
}

// Pace returns the waits between tries. Use Every to make one; the zero value is of no use. A Pace belongs to one
// goroutine.
type Pace struct {
	bounds Bounds
	step   time.Duration // of the last wait; 0: none was asked for since Reset
	chance func() float64
	after  func(time.Duration) (<-chan time.Time, func())
}

// Every returns a Pace on the machine's clock.
func Every(b Bounds) *Pace { return with(b, rand.Float64, timer) }

// with returns a Pace with the caller's own source of chance, in [0, 1), and clock.
func with(b Bounds, chance func() float64, after func(time.Duration) (<-chan time.Time, func())) *Pace {
	return &Pace{bounds: b, chance: chance, after: after}
}

func timer(d time.Duration) (<-chan time.Time, func()) {
	t := time.NewTimer(d)
	return t.C, func() { t.Stop() }
}

// Next returns the next wait: half of its step, plus up to the other half at random.
func (p *Pace) Next() time.Duration {
	p.step = min(max(2*p.step, p.bounds.First), p.bounds.Last)
	return p.step/2 + time.Duration(p.chance()*float64(p.step-p.step/2))
}

// Reset starts again with the first step. Call it after a success.
func (p *Pace) Reset() { p.step = 0 }

// Wait waits for the next wait to pass. It returns the context's error if ctx ends first, and returns early without
// an error when one of the channels, which may be nil, is closed or has a value: the caller is to stop, or has reason to try now.
func (p *Pace) Wait(ctx context.Context, stop, sooner <-chan struct{}) error {
	return p.wait(ctx, p.Next(), stop, sooner)
}

// WaitFor is like Wait for a wait that the caller names, kept within the bounds. The pace goes on as after a wait of
// that length.
func (p *Pace) WaitFor(ctx context.Context, d time.Duration, stop, sooner <-chan struct{}) error {
	p.step = min(max(d, p.bounds.First), p.bounds.Last)
	return p.wait(ctx, p.step, stop, sooner)
}

func (p *Pace) wait(ctx context.Context, d time.Duration, stop, sooner <-chan struct{}) error {
	c, end := p.after(d)
	defer end()
	select {
	case <-c:
		return nil
	case <-stop:
		return nil
	case <-sooner:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
