package recrawl

import "math"

// adaptive gives every channel its own interval, and every visit changes it by a factor, as the schedulers of two well-known crawlers
// do: Nutch's AdaptiveFetchSchedule (x0.8 when changed, x1.2 when not) and StormCrawler's adaptive scheduler (half way to the smallest
// when changed, x1.5 when not). It learns no rates and knows no capacity. Facts.Anchor holds a channel's interval.
type adaptive struct {
	Base
	storm bool
	base  Tick
}

const (
	adaptiveStart = 240   // ticks
	adaptiveMin   = 10    // ticks
	adaptiveMax   = 43200 // ticks
)

func (v *adaptive) Name() string { return "adaptive" }

func (v *adaptive) Start(now Tick, _ Setting) { v.base = now }

func (v *adaptive) Observe(_ Tick, _ Slot, f *Facts, e Event) {
	if e.Kind != Updated {
		return
	}
	t := v.interval(f)
	switch {
	case v.storm && e.Changed:
		t = .5*t + .5*adaptiveMin
	case v.storm:
		t *= 1.5
	case e.Changed:
		t *= .8
	default:
		t *= 1.2
	}
	f.Epoch = adaptiveEpoch
	f.Anchor = uint16(ToHalf(float32(min(max(t, adaptiveMin), adaptiveMax))))
}

func (v *adaptive) Rank(now, _ Tick, _ Slot, f *Facts) (float32, Tick) {
	if f.Submitted == 0 {
		return math.MaxFloat32, now
	}
	due := f.Submitted + wholeTicks(v.interval(f))
	return -float32(due - v.base), due
}

func (v *adaptive) interval(f *Facts) float64 {
	if f.Epoch != adaptiveEpoch {
		return adaptiveStart
	}
	return float64(Half(f.Anchor).Float())
}
