package coords

import (
	"math/rand/v2"
	"slices"
	"time"
)

// Limits of what makes a host look anycast.
const (
	anycastSamples = 6    // samples needed to tell
	anycastNear    = 12.0 // ms: most samples are nearer than this ...
	anycastApart   = 60.0 // ms: ... though vantage points lie this far from one another
)

// Add keeps a sample, unless it is out of range. A vantage point has one sample: the shortest of those taken while it was about where it
// is now, since the shortest round trip has the least queueing. When there are too many samples, the oldest of the far half goes: it
// says least.
func (r *HostRecord) Add(s Sample) bool {
	if !s.At.Valid() || s.RTT <= 0 || s.RTT > MaxRTT || s.Vantage == "" {
		return false
	}
	if i := slices.IndexFunc(r.Samples, func(o Sample) bool { return o.Vantage == s.Vantage }); i >= 0 {
		old := &r.Samples[i]
		if s.When < old.When {
			return false
		}
		if old.RTT < s.RTT && s.When-old.When < int64(sampleAge/time.Second) {
			old.At, old.When = s.At, s.When // the new place, the shorter time
		} else {
			*old = s
		}
	} else {
		r.Samples = append(r.Samples, s)
	}
	if len(r.Samples) > MaxSamples {
		r.drop()
	}
	r.summarise()
	return true
}

// sampleAge is how long an older, shorter round-trip time of the same vantage point stands against a newer one.
const sampleAge = 24 * time.Hour

// drop removes the oldest sample of the far half.
func (r *HostRecord) drop() {
	byRTT := make([]int, len(r.Samples))
	for i := range byRTT {
		byRTT[i] = i
	}
	slices.SortStableFunc(byRTT, func(a, b int) int { return compareSamples(&r.Samples[a], &r.Samples[b]) })
	oldest := byRTT[len(byRTT)/2]
	for _, i := range byRTT[len(byRTT)/2:] {
		if r.Samples[i].When < r.Samples[oldest].When {
			oldest = i
		}
	}
	r.Samples = slices.Delete(r.Samples, oldest, oldest+1)
}

func compareSamples(a, b *Sample) int {
	if a.RTT != b.RTT {
		return int(min(max(a.RTT-b.RTT, -1), 1))
	}
	if a.Vantage < b.Vantage {
		return -1
	}
	return 1
}

func (r *HostRecord) summarise() {
	sorted := slices.Clone(r.Samples)
	slices.SortFunc(sorted, func(a, b Sample) int { return compareSamples(&a, &b) })
	r.Best = r.Best[:0:0]
	for i := range sorted[:min(len(sorted), MaxBest)] {
		r.Best = append(r.Best, sorted[i].Vantage)
	}
	r.Anycast = anycast(sorted)
}

// anycast says whether a host looks near from places that are far from one another: three quarters of the samples are short, and two of
// their vantage points are much further apart than a path through one place could explain.
func anycast(sorted []Sample) bool {
	if len(sorted) < anycastSamples {
		return false
	}
	near := sorted[:len(sorted)*3/4]
	if near[len(near)-1].RTT > time.Duration(anycastNear*float64(time.Millisecond)) {
		return false
	}
	for i := range near {
		for j := range near[:i] {
			if Distance(&near[i].At, &near[j].At) > anycastApart {
				return true
			}
		}
	}
	return false
}

// Moved gives the record with each vantage point at its present place, as now tells it. The whole swarm drifts together, so even old
// samples give a fresh coordinate once their vantage points are looked up again.
func (r *HostRecord) Moved(now func(vantage string) (Coord, bool)) HostRecord {
	out := HostRecord{Samples: slices.Clone(r.Samples), Best: slices.Clone(r.Best), Anycast: r.Anycast}
	for i := range out.Samples {
		if c, ok := now(out.Samples[i].Vantage); ok && c.Valid() {
			out.Samples[i].At = c
		}
	}
	return out
}

// Valid says whether a record from elsewhere is within its bounds.
func (r *HostRecord) Valid() bool {
	if len(r.Samples) > MaxSamples || len(r.Best) > MaxBest {
		return false
	}
	for i := range r.Samples {
		if s := &r.Samples[i]; !s.At.Valid() || s.RTT <= 0 || s.RTT > MaxRTT {
			return false
		}
	}
	return true
}

// Fit solves for the host's coordinate from its samples; it returns false if there are none. The coordinate's Err tells how well the
// samples agree.
func (r *HostRecord) Fit(rng *rand.Rand) (Coord, bool) { return fit(r.Samples, rng) }
