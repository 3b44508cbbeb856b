package cycle

import "math"

// The span of the scale: bucket 0 changes every FastestTicks or more often, the last bucket every SlowestTicks or less often, in the caller's
// unit of time (minutes in the manager: the paper's 15 minutes and a year).
const (
	FastestTicks = 15
	SlowestTicks = 525_600
	lastBucket   = MaxBuckets - 1
)

// BucketOf is the byte in which a channel carries its change rate. Rates are in geometric steps of about 4%, the fastest first.
func BucketOf(rate float64) uint8 {
	if !(rate > 0) {
		return lastBucket
	}
	return uint8(min(max(math.Round(place(rate)), 0), lastBucket))
}

// Update is the byte after a report, for the rate estimated by then. A channel keeps its bucket until the rate is clearly past the bucket's
// edge. A channel at an edge would otherwise change its bucket, and the means of both buckets, with every report.
func Update(bucket uint8, rate float64) uint8 {
	if !(rate > 0) {
		return lastBucket
	}
	if in := &within[bucket]; in[0] < rate && rate < in[1] {
		return bucket
	}
	q := place(rate)
	if math.Abs(q-float64(bucket)) <= stay {
		return bucket
	}
	return uint8(min(max(math.Round(q), 0), lastBucket))
}

// stay is how far from a bucket's middle, in buckets, a channel stays in it; its edge is at .5.
const stay = .75

// place is where a rate lies on the scale of buckets.
func place(rate float64) float64 {
	return lastBucket * math.Log(1/(rate*FastestTicks)) / logSpan
}

// within holds the rates between which a channel surely stays in each bucket, so that most updates need no logarithm.
var within = func() (w [MaxBuckets][2]float64) {
	for b := range w {
		for i, edge := range []float64{stay - 1e-6, 1e-6 - stay} {
			w[b][i] = math.Exp(-(float64(b)+edge)*logSpan/lastBucket) / FastestTicks
		}
	}
	return w
}()

var logSpan = math.Log(float64(SlowestTicks) / FastestTicks)

// RateOf is a bucket's change rate per tick.
func RateOf(bucket uint8) float64 {
	return math.Pow(float64(SlowestTicks)/FastestTicks, -float64(bucket)/lastBucket) / FastestTicks
}
