package recrawl

import "math"

// Flags of a slot.
const (
	Known  uint8 = 1 << iota // Est was given, not learnt
	Pinned                   // Group was given, not learnt
	Paused                   // the slot is never taken
	gone                     // the channel was removed; the slot is free for another one
	inWheel
	inReady
	inNew  // with inReady: the slot is among those never crawled
	Denied // its last task was refused or lost, so that nothing was crawled
)

// Facts is what a strategy may know of a channel. It has 44 bytes. With the tick when it is due (4), its entries in the calendar (4 to 7)
// and a place among the ready (8) a channel costs less than 64.
type Facts struct {
	Submitted Tick     // last task taken
	Updated   Tick     // last update
	Signalled Tick     // when a sitemap or feed first said that the channel had changed since the last update; 0: no such signal
	Est       Estimate // change rate per tick
	Weight    float32  // importance; 0 counts as 1
	Service   Half     // learnt ticks that a task runs; 0: unknown
	Anchor    uint16   // ticks between the last update before reassignment Epoch and that reassignment, saturating; or a strategy's own
	Epoch     uint16   // reassignment that Subs, Succ and Anchor belong to; or the strategy that owns Anchor
	Subs      uint8    // tasks submitted since, saturating
	Succ      uint8    // updates since, saturating
	Group     uint8    // priority group, 0 is the fastest
	Bucket    uint8    // change-rate bucket of the cycle model; every report sets it, whatever the strategy
	Out       uint8    // tasks out
	Flags     uint8
}

// The values of Facts.Epoch that give Anchor to a strategy, as a Half. No reassignment has a number so high.
const (
	waitEpoch     = math.MaxUint16 - 1 // price: how long the channel's tasks wait
	adaptiveEpoch = math.MaxUint16     // adaptive: the channel's interval
)

// Weighed is the slot's weight, 1 if none was set.
func (f *Facts) Weighed() float32 {
	if f.Weight > 0 {
		return f.Weight
	}
	return 1
}

// forget drops what a strategy counted.
func (f *Facts) forget() { f.Epoch, f.Subs, f.Succ, f.Anchor = 0, 0, 0, 0 }

// plannable says whether a plan has a place for the slot: it is in use, not paused, and its change rate is known.
func plannable(f *Facts) bool { return f.Est.valid() && f.Flags&(Paused|gone) == 0 }

// Half is a float32 without its lower half: 8 bits of precision.
type Half uint16

// ToHalf rounds to the nearest Half.
func ToHalf(v float32) Half { return Half((math.Float32bits(v) + 0x7fff) >> 16) }

// Float is the value.
func (h Half) Float() float32 { return math.Float32frombits(uint32(h) << 16) }
