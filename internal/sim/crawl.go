package sim

import (
	"math"
	"math/rand/v2"
)

// The crawlers and channels of the recrawl paper (Xu, Zhang, Zhang, Fang, NPC 2010, section 4). A page takes its
// wait, its transfer on a fifth of the crawler's bandwidth, and two round trips.
const (
	Threads   = 5  // of a crawler
	SoftQueue = 5  // tasks that wait for one before it forwards
	PageWait  = .2 // seconds
	MeanPages = 8738.
	MaxPages  = 60_000
	pageBits  = 16 * 1024 * 8
)

// Pages draws the size of a channel: lognormal, of the given mean.
func Pages(mean float64, rng *rand.Rand) float64 {
	return min(max(math.Round(mean*math.Exp(rng.NormFloat64()-.5)), 1), MaxPages)
}

// PageTime draws a crawler's bandwidth and returns what a page costs it in seconds, without round trips.
func PageTime(rng *rand.Rand) float64 {
	bandwidth := 1e6
	switch u := rng.Float64(); {
	case u < .25:
		bandwidth = .5e6
	case u >= .75:
		bandwidth = 2e6
	}
	return PageWait + pageBits/(bandwidth/Threads)
}
