// Package recrawl decides which channel to ask for again, and when.
//
// A Scheduler holds the facts of every channel by slot and a calendar over them. A Strategy ranks slots and says how many tasks the
// swarm can take. The manager tells the scheduler what became of each task; the simulator runs the same code over 100,000 simulated
// minutes.
//
// The package is pure: no clock, no goroutine, no global randomness. It does not know channels, hosts, politeness, peers or tasks.
// Politeness lives in the admit function that the caller gives to Scheduler.Next; placing and leases live in the manager.
//
// # Invariants
//
//   - A slot is in the calendar, or ready, or parked (paused, removed, or with as many tasks out as allowed), and never in two of them.
//   - No slot is taken before its earliest tick, which follows from the cap on its recrawl rate and the minimum interval. After a refusal
//     or a loss the earliest tick comes sooner, after an eighth of the change interval, an hour at most, because nothing was crawled.
//   - Next takes what the strategy wants. Spare takes for threads that would stand idle what is missing or probably stale, within the limits.
//   - The same calls give the same decisions.
//   - A slot costs at most 64 bytes.
//
// # How to add a strategy
//
// Write a type that embeds Base and overrides what it needs. Name and Rank are the only methods that Base does not have. Rank compares
// slots: it returns a value, higher first, and the tick from which the slot is wanted. The example of Strategy is a whole one.
//
//   - To limit how many tasks go out, override Quota. To learn from what was taken, override Taken.
//   - To learn from results, override Observe; keep what must survive a restart in AppendState and Restore.
//   - To plan ahead with all facts at hand, override Plan; package allocate and package cycle are such planners.
//   - To show an operator what it does, override Intervals, Report and Explain.
//
// Then add one line to the table in registry.go: the name, the parameters that it reads, and how to make it. From then on New makes it,
// `shoal strategy set` accepts it, and `shoal-sim recrawl --strategy all` compares it with the others. The package's tests run every
// strategy in the table through restarts, plans of nothing and random worlds.
//
// # Sources
//
// Strategies fixed, iir and icr follow Xu, Zhang, Zhang, Fang, "Scale-Adaptable Recrawl Strategies for DHT-Based Distributed Web
// Crawling System" (NPC 2010). Change rates are estimated from irregular visits as in Cho and Garcia-Molina, "Estimating Frequency of
// Change" (TOIT 2003).
package recrawl

import (
	"math"
	"time"
)

// Slot names a channel within one Scheduler. The scheduler gives the slots of removed channels to new ones.
type Slot uint32

// Tick is scheduler time: a minute in the manager, a second in the pond. Zero is "never"; real ticks begin at 1.
type Tick int32

// Far is a tick that never comes.
const Far Tick = math.MaxInt32

// Clock turns times into ticks. Times before Epoch are tick 1.
type Clock struct {
	Epoch time.Time
	Step  time.Duration // length of a tick; > 0
}

// At returns the tick of t.
func (c Clock) At(t time.Time) Tick {
	if t.IsZero() {
		return 0
	}
	n := int64(t.Sub(c.Epoch)/c.Step) + 1
	return Tick(min(max(n, 1), int64(Far)-1))
}

// Time returns when tick t begins; the zero time for 0.
func (c Clock) Time(t Tick) time.Time {
	if t == 0 {
		return time.Time{}
	}
	return c.Epoch.Add(time.Duration(t-1) * c.Step)
}

// wholeTicks rounds up. It forgives the last digits of a float32.
func wholeTicks(t float64) Tick {
	return Tick(min(max(math.Ceil(t*(1-1e-5)), 1), float64(Far/4)))
}
