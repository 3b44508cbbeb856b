// Package recrawl decides which channel is asked for again, and when. A Scheduler holds the facts of every channel by slot and a
// calendar over them; a Strategy ranks slots and says how many the swarm can take. The manager feeds it what became of tasks; the
// simulator runs the same code over 100,000 simulated minutes.
//
// It is pure: no clock, no goroutine, no randomness, no channel. It does not know hosts, politeness, peers or tasks: politeness lives in
// the admit function given to Scheduler.Next, placing and leases in the manager.
//
// Invariants: a slot is in the calendar, or ready, or parked (paused, removed, or as many tasks out as allowed), never in two of
// them; no slot is taken before its earliest tick, which follows from the cap on its recrawl rate and the minimum interval (after a
// refusal or a loss an eighth of its change interval: nobody crawled the channel); the same calls give the same decisions; at most 64 bytes of state a slot.
//
// Strategies fixed, iir and icr follow Xu, Zhang, Zhang, Fang, "Scale-Adaptable Recrawl Strategies for DHT-Based Distributed Web
// Crawling System" (NPC 2010); change rates are estimated from irregular visits as in Cho and Garcia-Molina, "Estimating
// Frequency of Change" (TOIT 2003).
package recrawl

import (
	"context"
	"math"
	"time"
)

// Slot names a channel within one Scheduler. Slots of removed channels are given out again.
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

// Flags of a slot.
const (
	Known  uint8 = 1 << iota // Est is given, not learnt
	Pinned                   // Group is given, not learnt
	Paused                   // never taken
	gone                     // removed, free for another channel
	inWheel
	inReady
	inNew  // with inReady: among those never crawled
	Denied // its last task that came to anything was refused or lost: nobody crawled it then
)

// Facts is what a strategy may know of a channel. It has 44 bytes; with the tick when it is due (4), entries in the calendar (4 to 7) and a place among the
// ready (8) a channel costs less than 64.
type Facts struct {
	Submitted Tick     // last task taken
	Updated   Tick     // last update
	Signalled Tick     // a sitemap or feed said that it changed then; 0: nothing since the last update
	Est       Estimate // change rate per tick
	Weight    float32  // importance; 0 counts as 1
	Service   Half     // learnt ticks that a task runs; 0: unknown
	Anchor    uint16   // ticks between the last update before the reassignment Epoch and that reassignment, saturating; or a strategy's own
	Epoch     uint16   // reassignment that Subs, Succ and Anchor belong to; or whose Anchor is
	Subs      uint8    // tasks submitted since, saturating
	Succ      uint8    // updates since, saturating
	Group     uint8    // priority group, 0 is the fastest
	Bucket    uint8    // change-rate bucket of the cycle model, kept at every report whatever the strategy
	Out       uint8    // tasks out
	Flags     uint8
}

// Half is a float32 without its lower half: 8 bits of precision.
type Half uint16

// ToHalf rounds to the nearest Half.
func ToHalf(v float32) Half { return Half((math.Float32bits(v) + 0x7fff) >> 16) }

// Float is the value.
func (h Half) Float() float32 { return math.Float32frombits(uint32(h) << 16) }

// Kind is what happened to a slot.
type Kind uint8

// The events. Those marked * come from outside through Scheduler.Observe, the others from the scheduler itself.
const (
	Added     Kind = iota + 1 // a slot came, or the strategy was changed
	Removed                   // a slot goes
	Moved                     // its group changed; Event.From is the old one
	Submitted                 // taken by Next
	Accepted                  // * a peer took the task and will start it after Event.Wait
	Refused                   // * no peer could start it in time; the task is over
	Updated                   // * the stored copy is up to date; the task is over
	Failed                    // * the task is over without an update
	Lost                      // * the task is over, as nobody was heard of for too long; never where leases hand it out again
	Lapsed                    // * a lease ended without progress; the same task is handed out again
	Signalled                 // * a sitemap, feed or lastmod says that the channel changed
)

// Event is one thing that happened to one slot.
type Event struct {
	Kind    Kind
	Changed bool    // Updated: content differed (near-unchanged pages count as unchanged)
	From    uint8   // Moved: the old group
	Wait    float32 // Accepted: expected ticks until the start; Updated: ticks from submission to start; < 0: unknown
	Service float32 // Updated: ticks from start to end; 0: unknown
}

// Load is what the caller knows of the swarm.
type Load struct {
	Room int     // tasks that may be submitted now; < 0: any number
	Out  int     // tasks out now
	Life float32 // mean life of a peer over the share of peers that vanish, in ticks; 0: unknown
	// New is the share of what is taken that goes to channels never crawled while others wait too; 0: what the strategy says if it is a Mixer,
	// else its order alone.
	New float64
}

// Quota is a strategy's answer to a Load.
type Quota struct {
	Max    int     // take at most so many now; < 0: any number
	Floor  float32 // take none with a lower value
	Rerank bool    // ranks changed for all slots: rank them again
	Drift  bool    // values of ready slots change with time: refresh them
}

// Strategy ranks slots. Its methods are called from one goroutine, the scheduler's owner.
type Strategy interface {
	// Name is the name that New knows it by.
	Name() string
	// Start hands over the groups before any other call.
	Start(now Tick, g *Groups)
	// Observe tells an event, before it is written into f.
	Observe(now Tick, s Slot, f *Facts, e Event)
	// Rank says when the slot should be looked at again; if that is now or past, it is ready with this value. It will not be before least, so that any tick up to there
	// is as good as another.
	Rank(now, least Tick, s Slot, f *Facts) (value float32, again Tick)
	// Quota is asked once at the start of each Next.
	Quota(now Tick, l Load) Quota
	// Taken tells how many were taken, the value of the last one, and whether more were wanted than allowed. Where new and old are mixed by a share, it is the value of
	// the last old one, 0 if there was none: what the share has let in says nothing of what room is worth.
	Taken(now Tick, n int, last float32, short bool)
	// Intervals are the present recrawl intervals by group, fastest first, for display.
	Intervals() []float64
	// AppendState and Restore carry what must survive a restart.
	AppendState(b []byte) []byte
	Restore(b []byte) error
}

// Planner is a strategy that plans on a copy of all facts (indexed by slot), off the loop. adopt is then called on the loop, and after it
// Scheduler.Rerank.
type Planner interface {
	PlanDue(now Tick) bool
	Plan(ctx context.Context, now Tick, facts []Facts) (adopt func(), err error)
}

// Mixer is a strategy that says by which share channels never crawled go before others while both wait; false: its order alone.
type Mixer interface {
	Ratio() (share float64, ok bool)
}

// Recaller is a strategy that learns more from a channel's visits than its facts tell. Before a Recall, ChooseFast(history, facts, Day()) may be computed off the loop.
type Recaller interface {
	Day() float64
	Recall(s Slot, f *Facts, history []byte, c Chosen)
}

// Resumer is a strategy that is told when it is in force again, with a state of its own, after another one was, or with other parameters: what it counts, it
// counts anew from now on, since it did not see what happened meanwhile.
type Resumer interface {
	Resume(now Tick)
}

// Limited is a strategy that plans within the limits that hold for all: cap times the change rate (0: no limit), and a minimum interval.
type Limited interface {
	Limits(capRate float64, minTicks Tick)
}

// Reporter is a strategy that can say what it has planned; false: nothing yet.
type Reporter interface {
	Report() (PlanReport, bool)
}

// PlanReport is what an operator sees of a plan in force. Fields that a strategy does not have are zero.
type PlanReport struct {
	At       Tick    `json:"at"`
	Next     Tick    `json:"next"` // when the next one is due
	Channels int     `json:"channels"`
	Capacity float64 `json:"capacity"` // busy threads that updates have shown
	// of optimal
	Updates   float64        `json:"updates,omitempty"`   // a tick
	Freshness float64        `json:"freshness,omitempty"` // expected, by weight
	Plain     float64        `json:"plain,omitempty"`     // expected, all channels alike
	Price     float64        `json:"price,omitempty"`     // weighted freshness for the last crawl bought
	Moves     float64        `json:"moves,omitempty"`     // mean ticks that the timetable moves a crawl
	AtCap     int            `json:"at_cap,omitempty"`    // channels that get all that the cap allows
	Models    map[string]int `json:"models,omitempty"`    // channels by the model chosen for them
	// of cycle
	Strategy int       `json:"strategy,omitempty"` // the paper's 1, 2 or 3
	Cycle    int       `json:"cycle,omitempty"`    // from 1
	Period   int       `json:"period,omitempty"`   // of the cycle, from 1
	Periods  int       `json:"periods,omitempty"`
	Old      int       `json:"old,omitempty"` // known channels to be crawled in this period
	New      int       `json:"new,omitempty"` // channels never crawled
	Ratio    float64   `json:"ratio,omitempty"`
	Gap      float64   `json:"gap,omitempty"`     // of the cycle's plan to its bound
	Buckets  []int     `json:"buckets,omitempty"` // buckets in use
	Shares   []float64 `json:"shares,omitempty"`  // of each, in this period
}

// Explainer is a strategy that can say how a channel changes, as far as it has understood, and why it thinks so.
type Explainer interface {
	Explain(s Slot, f *Facts) string
}

// Weighed is the slot's weight, 1 if none was set.
func (f *Facts) Weighed() float32 {
	if f.Weight > 0 {
		return f.Weight
	}
	return 1
}
