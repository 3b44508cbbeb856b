package overlay

import (
	"slices"
	"time"

	"shoal/coords"
)

// A peer measures its own way to a Web host, and may lie about it: the peer that tells the shortest time would get all of the host's tasks. What other
// peers measured bounds the lie. If B is b from the host and A is d from B, then A is at least b-d from the host. A time that a peer tells counts no
// less than half of the median of these bounds: half, since coordinates err and since ways on the Internet are not always the shortest ones; the
// median, so that one other liar changes little.
//
// The distance d comes from coordinates. In the first seconds of a network all peers seem to be close together, and each honest short time seems to be a
// lie. So d counts as long as the errors of both coordinates allow, if one of them is above believeSettled: an error of e says that d may be only 1-e
// of the way. A peer with an error of believeErr or more is no witness. A peer cannot make its own bounds void with a great error: its error counts no
// more than the witnesses' median.
const (
	believeWitnesses = 3  // other peers that must have measured the host
	believeFactor    = .5 // of the median bound
	believeSettled   = .3 // the error up to which the half allows for it
	believeErr       = .9 // the error of a coordinate that says nothing of a distance yet
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
	if told == nil {
		var room [coords.MaxSamples]time.Duration
		told = room[:0]
		for k := range others {
			told = append(told, others[k].RTT)
		}
	}
	if unbounded(s, others, told) {
		return s.RTT
	}
	return max(s.RTT, bound(s, others, told))
}

// bound is half of the median bound of a sample that has witnesses; 0: that is no more than what was told.
func bound(s *coords.Sample, others []coords.Sample, told []time.Duration) time.Duration {
	own := 0.0
	if s.At.Err > believeSettled { // else the witnesses' errors alone tell
		own = min(s.At.Err, medianErr(s, others))
	}
	var room [coords.MaxSamples]float64
	bounds := room[:0]
	below := 0
	for k := range others {
		o := &others[k]
		if !testifies(o, s) {
			continue
		}
		d := coords.Distance(&s.At, &o.At)
		if e := max(own, o.At.Err); e > believeSettled {
			d /= 1 - e
		}
		b := milliseconds(told[k]) - d
		if bounds = append(bounds, b); counts(b) <= s.RTT {
			below++
		}
	}
	middle := (len(bounds) - 1) / 2
	if below > middle { // it is below what was told: there is no need to sort
		return 0
	}
	slices.Sort(bounds)
	return counts(bounds[middle])
}

// medianErr is the median error of a sample's witnesses.
func medianErr(s *coords.Sample, others []coords.Sample) float64 {
	var room [coords.MaxSamples]float64
	errs := room[:0]
	for k := range others {
		if o := &others[k]; testifies(o, s) {
			errs = append(errs, o.At.Err)
		}
	}
	slices.Sort(errs)
	return errs[(len(errs)-1)/2]
}

// unbounded reports whether a sample counts as it is told, as far as that can be seen without a distance: there are too few witnesses, or most of
// them told times so short that they bound nothing however near they are. That holds for most samples, and distances are most of the cost.
func unbounded(s *coords.Sample, others []coords.Sample, told []time.Duration) bool {
	witnesses, below := 0, 0
	for k := range others {
		if !testifies(&others[k], s) {
			continue
		}
		witnesses++
		if counts(milliseconds(told[k])) <= s.RTT {
			below++
		}
	}
	return witnesses < believeWitnesses || below > (witnesses-1)/2
}

// counts is the time that counts at least, by a bound in milliseconds.
func counts(ms float64) time.Duration { return duration(believeFactor * ms) }

// testifies reports whether what a peer measured bounds what another tells.
func testifies(o, s *coords.Sample) bool { return o.Vantage != s.Vantage && o.At.Err < believeErr }
