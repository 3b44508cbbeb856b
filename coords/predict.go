package coords

import (
	"math"
	"time"
)

// Bounds of a coordinate that is believed. A coordinate outside them is refused, never clipped: its sender is broken or lying.
const (
	MaxNorm   = 3000.0 // ms, length of Vec
	MaxHeight = 1500.0 // ms
	MaxAdjust = 300.0  // ms, either sign
	MinErr    = 0.05
	MaxErr    = 1.5
)

// MaxRTT is the longest round-trip time that is believed.
const MaxRTT = 10 * time.Second

// Distance is the predicted round-trip time between a and b in milliseconds. Like serf's, it falls back to the distance without
// adjustments where these would make it negative.
func Distance(a, b *Coord) float64 {
	d := raw(a, b)
	if adjusted := d + a.Adjust + b.Adjust; adjusted > 0 {
		return adjusted
	}
	return d
}

// Predict is the predicted round-trip time between a and b.
func Predict(a, b Coord) time.Duration {
	return time.Duration(Distance(&a, &b) * float64(time.Millisecond))
}

func raw(a, b *Coord) float64 { return Apart(a, b) + a.Height + b.Height }

// Apart is the distance between two places in milliseconds, their access links left aside.
func Apart(a, b *Coord) float64 {
	sum := 0.0
	for i := range a.Vec {
		d := a.Vec[i] - b.Vec[i]
		sum += d * d
	}
	return math.Sqrt(sum)
}

// Valid says whether c is within the bounds that are believed. NaN and infinities are not.
func (c *Coord) Valid() bool {
	sum := 0.0
	for _, v := range c.Vec {
		sum += v * v
	}
	// Written so that a NaN fails every comparison.
	return sum <= MaxNorm*MaxNorm &&
		c.Height >= 0 && c.Height <= MaxHeight &&
		c.Adjust >= -MaxAdjust && c.Adjust <= MaxAdjust &&
		c.Err >= MinErr && c.Err <= MaxErr
}

// clamp brings a coordinate of our own making into the bounds.
func (c *Coord) clamp() {
	norm := 0.0
	for _, v := range c.Vec {
		norm += v * v
	}
	if norm = math.Sqrt(norm); norm > MaxNorm {
		for i := range c.Vec {
			c.Vec[i] *= MaxNorm * 0.999 / norm
		}
	}
	c.Height = min(max(c.Height, 0), MaxHeight)
	c.Adjust = min(max(c.Adjust, -MaxAdjust), MaxAdjust)
	c.Err = min(max(c.Err, MinErr), MaxErr)
}
