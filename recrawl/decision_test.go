package recrawl

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"shoal/internal/lab/processor"
)

// BenchmarkDecision is learn + next due: one update observed and one slot taken, among a million and ten million channels that all are crawled as
// often as the cap allows. Making the channels and the first 300 ticks, which rank them, are not counted. What is counted beside Observe and Next is a
// loop over a list of those taken: no random number is drawn, no clock read. Beside the wall clock it reports
// processor time, which other programs on the machine lengthen less, and bytes of the scheduler's heap for each channel.
func BenchmarkDecision(b *testing.B) {
	for _, name := range Names() {
		for _, n := range []int{1_000_000, 10_000_000} {
			var s *Scheduler // made once for all lengths of the run
			var run func(ticks, decisions int) int
			var each float64
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				if s == nil {
					before := heap()
					s, run = decider(b, name, n)
					run(300, 0)
					each = float64(heap()-before) / float64(n)
				}
				b.ReportAllocs()
				b.ResetTimer()
				begun := processor.Time(b)
				done := run(0, b.N)
				b.ReportMetric(float64((processor.Time(b)-begun).Nanoseconds())/float64(done), "cpu-ns/op")
				b.ReportMetric(each, "B/channel")
			})
		}
	}
}

// decider makes a scheduler of n channels, and a function that lets so many ticks pass and so many decisions, and tells how many there were.
func decider(b *testing.B, name string, n int) (*Scheduler, func(ticks, decisions int) int) {
	const begin = 2_000_000
	s := NewScheduler(begin, must(b, name, Params{}), DefaultOptions())
	rng := rand.New(rand.NewPCG(1, 1))
	for range n {
		iv := 60 * (1 << rng.IntN(5)) * max(1, n/1_000_000)
		s.Add(Facts{Est: Prior(float64(iv), 5), Submitted: Tick(begin - rng.IntN(iv)), Updated: begin - 1})
	}
	now := Tick(begin)
	var out []Slot
	return s, func(ticks, decisions int) (done int) {
		for tick := 0; tick < ticks || done < decisions; tick++ {
			for _, at := range out {
				s.Observe(now, at, Event{Kind: Updated, Changed: at&1 == 0, Wait: 3, Service: 20})
			}
			done += len(out)
			out = out[:0]
			now++
			s.Next(now, Load{Room: 20_000, Life: 1500}, func(at Slot) (Tick, bool) {
				out = append(out, at)
				return 0, true
			})
		}
		return done
	}
}

// heap is what is in use after all else was given back.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
