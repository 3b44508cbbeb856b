package overlay

import (
	"slices"
	"time"

	"shoal/coords"
)

// A peer measures its own way to a Web host, and may lie about it: the peer that tells the shortest time would get all of the host's tasks. What other
// peers measured bounds the lie. If B is b from the host and A is d from B, then A is at least b-d from the host. A time that a peer tells counts no
// less than half of the median of these bounds: half, since coordinates err and since ways on the Internet are not always the shortest ones; the median, so
// that one other liar changes little.
const (
	believeWitnesses = 3  // other peers that must have measured the host
	believeFactor    = .5 // of the median bound
)

// believe replaces what samples tell by what counts of it. The samples are the caller's to change.
func believe(samples []coords.Sample) {
	if len(samples) <= believeWitnesses {
		return
	}
	told := make([]time.Duration, len(samples))
	for i := range samples {
		told[i] = samples[i].RTT
	}
	for i := range samples {
		samples[i].RTT = believed(&samples[i], samples, told)
	}
}

// believed is what counts of one sample, by what others tell. told holds their times; nil: they are in the samples.
func believed(s *coords.Sample, others []coords.Sample, told []time.Duration) time.Duration {
	var room [coords.MaxSamples]float64
	bounds := room[:0]
	for k := range others {
		o := &others[k]
		if o.Vantage == s.Vantage {
			continue
		}
		rtt := o.RTT
		if told != nil {
			rtt = told[k]
		}
		bounds = append(bounds, milliseconds(rtt)-coords.Distance(&s.At, &o.At))
	}
	if len(bounds) < believeWitnesses {
		return s.RTT
	}
	slices.Sort(bounds)
	return max(s.RTT, duration(believeFactor*bounds[(len(bounds)-1)/2]))
}
