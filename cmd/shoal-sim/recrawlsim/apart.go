package recrawlsim

import (
	"math/rand/v2"
	"time"

	"shoal/internal/sim"
	"shoal/overlay"
)

// apart has a channel's tasks in turn go to different crawlers where another one is about as near, by the rule of overlay.Judge, and tells what that costs.
type apart struct {
	rng  *rand.Rand
	wish bool    // they should
	last []int32 // who began each channel's last task; nothing: nobody yet

	begun, again, stayed int // tasks; those of channels that had one before; of these, those of the same crawler
	far                  [farthest*bins + 1]int32
}

// Round-trip times are counted in bins of 1/bins ms up to farthest, in ms.
const (
	bins     = 10
	farthest = 1000
)

func newApart(seed uint64, channels int, wish bool) *apart {
	a := &apart{rng: sim.Rand(seed, "apart"), wish: wish, last: make([]int32, channels)}
	for i := range a.last {
		a.last[i] = nothing
	}
	return a
}

// stays tells whether a channel's task should go to another crawler than this one, which had the last one.
func (a *apart) stays(ch, peer int32) bool { return a.wish && a.last[ch] == peer }

// reach is within which time of a host another one may be, where the best one is away from it.
func (a *apart) reach(away time.Duration) time.Duration {
	ms := overlay.OtherReach(float64(away)/float64(time.Millisecond), a.rng)
	return time.Duration(min(ms, farthest) * float64(time.Millisecond))
}

// begin counts a task that begins so far from its host.
func (a *apart) begin(ch, peer int32, away time.Duration) {
	a.begun++
	a.far[min(int(away*bins/time.Millisecond), farthest*bins)]++
	if a.last[ch] != nothing {
		a.again++
		if a.last[ch] == peer {
			a.stayed++
		}
	}
	a.last[ch] = peer
}

// median is the median round-trip time between a task's peer and its host, in ms.
func (a *apart) median() float64 {
	for i, n := 0, 0; i < len(a.far); i++ {
		if n += int(a.far[i]); 2*n >= a.begun && n > 0 {
			return (float64(i) + .5) / bins
		}
	}
	return 0
}
