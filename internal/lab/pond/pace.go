package pond

import "time"

// How a pond is crawled. Its hosts change within seconds, so that whoever crawls it waits less than on the Web: a manager, its peers, and the simulator that
// foretells what these do. What is not named here is as on the Web.
const (
	Tick = time.Second            // of a manager's scheduler
	Gap  = 200 * time.Millisecond // politeness wait before each page

	MinTicks      = 2  // between two tasks of a channel
	PlanEvery     = 40 // ticks between two plans
	PriorTicks    = 30 // what a channel's change interval is taken for before anything is known of it
	PriorStrength = .5 // how many changes that counts for

	Term       = 20 * time.Second // of a lease
	Slack      = 2 * time.Second  // see lease.Terms
	Backoff    = 2 * time.Second
	MaxBackoff = 20 * time.Second
)

// Intervals are the mean times between changes of the hosts' classes, fastest first, in ticks.
func Intervals() (ticks []float64) {
	for _, c := range classes {
		ticks = append(ticks, c.Seconds()/Tick.Seconds())
	}
	return ticks
}
