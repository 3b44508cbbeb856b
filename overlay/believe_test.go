package overlay

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"shoal/coords"
)

// slowlyBelieved is what counts of a sample, as the comment in believe.go says it: every bound, sorted.
func slowlyBelieved(s *coords.Sample, others []coords.Sample) time.Duration {
	var errs, bounds []float64
	for _, o := range others {
		if o.Vantage != s.Vantage && o.At.Err < believeErr {
			errs = append(errs, o.At.Err)
		}
	}
	if len(errs) < believeWitnesses {
		return s.RTT
	}
	slices.Sort(errs)
	own := min(s.At.Err, errs[(len(errs)-1)/2])
	for _, o := range others {
		if o.Vantage == s.Vantage || o.At.Err >= believeErr {
			continue
		}
		d := coords.Distance(&s.At, &o.At)
		if e := max(own, o.At.Err); e > believeSettled {
			d /= 1 - e
		}
		bounds = append(bounds, milliseconds(o.RTT)-d)
	}
	slices.Sort(bounds)
	return max(s.RTT, duration(believeFactor*bounds[(len(bounds)-1)/2]))
}

// What believe leaves out because it cannot matter does not matter.
func TestBelieveLeavesOutWhatDoesNotMatter(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	raised := 0
	for range 3000 {
		samples := make([]coords.Sample, 1+rng.IntN(coords.MaxSamples))
		most := []float64{.3, .6, 1.4}[rng.IntN(3)]
		for i := range samples {
			s := coords.Sample{Vantage: fmt.Sprint("p", i), RTT: time.Duration(rng.ExpFloat64() * float64(90*time.Millisecond)), At: coords.Coord{Height: rng.Float64(), Err: coords.MinErr + most*rng.Float64()}}
			for k := range s.At.Vec {
				s.At.Vec[k] = 10 * rng.NormFloat64()
			}
			samples[i] = s
		}
		var want []time.Duration
		for i := range samples {
			want = append(want, slowlyBelieved(&samples[i], samples))
			if want[i] > samples[i].RTT {
				raised++
			}
			if got := believed(&samples[i], samples, nil); got != want[i] {
				t.Fatalf("%d of %d: %v, want %v", i, len(samples), got, want[i])
			}
		}
		believe(samples)
		for i := range samples {
			if samples[i].RTT != want[i] {
				t.Fatalf("%d of %d: %v, want %v", i, len(samples), samples[i].RTT, want[i])
			}
		}
	}
	if raised < 1000 {
		t.Fatalf("only %d times were bounded: the samples try nothing", raised)
	}
}
