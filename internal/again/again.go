// Package again paces what is tried until it works: each wait is longer than the one before, up to a bound, and each is drawn at random
// so that many who lost the same server do not come back together (exponential backoff with jitter: RFC 8085, section 3.1; AWS
// Architecture Blog, "Exponential Backoff And Jitter", 2015).
//
// It is not for deciding what is worth another try, nor for how long: its caller looks at the error and at the clock.
//
// Invariants: a wait is never shorter than half of its step and never longer than the step; a step never exceeds Bounds.Last.
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

// Pace hands out the waits between tries. The zero value is of no use; Every makes one. It belongs to one goroutine.
type Pace struct {
	bounds Bounds
	step   time.Duration // of the last wait; 0: none was asked for since Reset
	chance func() float64
	after  func(time.Duration) (<-chan time.Time, func())
}

// Every starts a pace on the machine's clock.
func Every(b Bounds) *Pace { return with(b, rand.Float64, timer) }

// with starts a pace with the caller's own chance, in [0, 1), and clock.
func with(b Bounds, chance func() float64, after func(time.Duration) (<-chan time.Time, func())) *Pace {
	return &Pace{bounds: b, chance: chance, after: after}
}

func timer(d time.Duration) (<-chan time.Time, func()) {
	t := time.NewTimer(d)
	return t.C, func() { t.Stop() }
}

// Next is the next wait: half of its step, and up to the other half by chance.
func (p *Pace) Next() time.Duration {
	p.step = min(max(2*p.step, p.bounds.First), p.bounds.Last)
	return p.step/2 + time.Duration(p.chance()*float64(p.step-p.step/2))
}

// Reset starts again with the first step, as after a success.
func (p *Pace) Reset() { p.step = 0 }

// Failing tells whether a wait was handed out since the start or the last Reset.
func (p *Pace) Failing() bool { return p.step > 0 }

// Wait waits for the next wait to pass. It returns early, with the context's error, when ctx ends; and early without one when sooner is
// closed or has something to say.
func (p *Pace) Wait(ctx context.Context, sooner <-chan struct{}) error {
	return p.wait(ctx, p.Next(), sooner)
}

// WaitFor is Wait for a time that somebody else has named, kept within the bounds. The pace goes on as after a wait of that length.
func (p *Pace) WaitFor(ctx context.Context, d time.Duration, sooner <-chan struct{}) error {
	p.step = min(max(d, p.bounds.First), p.bounds.Last)
	return p.wait(ctx, p.step, sooner)
}

func (p *Pace) wait(ctx context.Context, d time.Duration, sooner <-chan struct{}) error {
	c, stop := p.after(d)
	defer stop()
	select {
	case <-c:
		return nil
	case <-sooner:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
