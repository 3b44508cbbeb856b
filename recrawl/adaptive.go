package recrawl

import "math"

// adaptive gives every channel an interval of its own that each visit changes by a factor, as the schedulers of two well-known
// crawlers do: Nutch's AdaptiveFetchSchedule (x0.8 when changed, x1.2 when not) and StormCrawler's adaptive scheduler (half way to the
// smallest when changed, x1.5 when not). It learns no rates and knows no capacity. A channel's interval is kept in Facts.Anchor.
type adaptive struct {
	storm bool
	base  Tick
}

const (
	adaptiveStart = 240   // ticks
	adaptiveMin   = 10    // ticks
	adaptiveMax   = 43200 // ticks
)

func (v *adaptive) Name() string                   { return "adaptive" }
func (v *adaptive) Start(now Tick, _ *Groups)      { v.base = now }
func (v *adaptive) Intervals() []float64           { return nil }
func (v *adaptive) Taken(Tick, int, float32, bool) {}
func (v *adaptive) AppendState(b []byte) []byte    { return b }

func (v *adaptive) Restore(b []byte) error {
	r := reader{b: b}
	return r.end()
}

func (v *adaptive) Quota(Tick, Load) Quota { return Quota{Max: -1, Floor: -math.MaxFloat32} }

// The epochs that mark an Anchor as a strategy's own, a Half. No reassignment has one so high.
const (
	waitEpoch     = math.MaxUint16 - 1 // price: how long the channel's tasks wait
	adaptiveEpoch = math.MaxUint16     // adaptive: the channel's interval
)

func (v *adaptive) interval(f *Facts) float64 {
	if f.Epoch != adaptiveEpoch {
		return adaptiveStart
	}
	return float64(Half(f.Anchor).Float())
}

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
