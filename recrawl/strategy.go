package recrawl

import (
	"context"
	"math"
)

// Strategy ranks slots and says how many tasks the swarm can take. Embed Base to override only some methods.
//
// All methods are called from one goroutine, the owner of the scheduler. Only the function that Plan returns runs elsewhere.
type Strategy interface {
	// Name is the strategy's name in the table of New.
	Name() string

	// Start is called once, before any other method except Restore.
	Start(now Tick, in Setting)

	// Observe tells an event before the scheduler writes it into f.
	Observe(now Tick, s Slot, f *Facts, e Event)

	// Rank returns what the slot is worth, and when to look at it again. If that tick is now or past, the slot is ready with this value.
	// The scheduler takes the highest value first. It takes no slot before least, so any tick up to least is as good as least.
	Rank(now, least Tick, s Slot, f *Facts) (value float32, again Tick)

	// Quota is asked once at the start of each Scheduler.Next.
	Quota(now Tick, l Load) Quota

	// Taken tells at the end of each Scheduler.Next how many slots were taken, the value of the last known channel among them, 0 if there was
	// none, and whether more were wanted than allowed. What a channel never crawled is worth says nothing of what room is worth.
	Taken(now Tick, n int, last float32, short bool)

	// Plan is asked on every tick, but not while a plan is being made. It returns nil unless the strategy plans and the next plan is due.
	Plan(now Tick) Planning

	// Day is the length in ticks of what may repeat itself in a channel's history of visits; 0: the strategy has no use for histories.
	// A caller that finds a Day computes ChooseFast(history, facts, Day()) away from the loop and hands the outcome to Recall.
	Day() float64
	Recall(s Slot, f *Facts, history []byte, c Chosen)

	// Price is what the last crawl that was asked for was worth, in weighted freshness for its cost, by which several that share a swarm compare what
	// they need; 0: not known.
	Price() float64
	// Intervals are the present recrawl intervals by group in ticks, fastest first; nil: the strategy has none.
	Intervals() []float64
	// Report is what an operator sees of the plan in force; nil: there is none.
	Report() *PlanReport
	// Explain says in words how the strategy understands a channel; empty: it has nothing to say.
	Explain(s Slot, f *Facts, span Span) string

	// AppendState appends what must survive a restart; Restore reads it, before Start.
	AppendState(b []byte) []byte
	Restore(b []byte) error
}

// Base has all methods of a Strategy except Name and Rank. They take every slot that Rank calls ready, and keep nothing.
type Base struct{}

// Start implements Strategy: nothing to prepare.
func (Base) Start(Tick, Setting) {}

// Observe implements Strategy: nothing is learnt.
func (Base) Observe(Tick, Slot, *Facts, Event) {}

// Quota implements Strategy: no limit.
func (Base) Quota(Tick, Load) Quota { return Quota{Max: -1, Floor: -math.MaxFloat32} }

// Taken implements Strategy: nothing is learnt.
func (Base) Taken(Tick, int, float32, bool) {}

// Plan implements Strategy: no plan is ever due.
func (Base) Plan(Tick) Planning { return nil }

// Day implements Strategy: histories are of no use.
func (Base) Day() float64 { return 0 }

// Recall implements Strategy: histories are of no use.
func (Base) Recall(Slot, *Facts, []byte, Chosen) {}

// Price implements Strategy: it is not known.
func (Base) Price() float64 { return 0 }

// Intervals implements Strategy: groups have no intervals.
func (Base) Intervals() []float64 { return nil }

// Report implements Strategy: there is no plan.
func (Base) Report() *PlanReport { return nil }

// Explain implements Strategy: nothing to say.
func (Base) Explain(Slot, *Facts, Span) string { return "" }

// AppendState implements Strategy: no state.
func (Base) AppendState(b []byte) []byte { return b }

// Restore implements Strategy: it refuses any state, since Base has none.
func (Base) Restore(b []byte) error {
	r := reader{b: b}
	return r.end()
}

// Setting is what a strategy works with. The pointers stay valid, and what they point to changes with the scheduler.
type Setting struct {
	Groups *Groups
	Limits *Limits
	// Anew says that the facts of slots no longer hold what this strategy counted in them: another strategy was in force meanwhile, or this
	// one with other parameters. Restored state still holds.
	Anew bool
}

// Limits hold for every strategy.
type Limits struct {
	Cap   float64 // a channel is recrawled at most so many times its change rate; 0: no limit
	Least Tick    // and never more often than this; at least 1
}

// Load is what the caller knows of the swarm.
type Load struct {
	Room int     // tasks that may be submitted now; < 0: any number
	Out  int     // tasks out now
	Life float32 // mean life of a peer over the share of peers that vanish, in ticks; 0: unknown
	// Threads is how many tasks the peers offer to run at once, and Idle how many of these threads have none; 0 threads: unknown.
	Threads, Idle int
	// Share is the part of the swarm that the strategy may count on, where several share it, in (0, 1]; 0: all of it. It moves to who needs it most.
	Share float64
	// New overrides Quota.New: the share of what is taken that goes to channels never crawled while known ones wait too; 0: the strategy
	// decides.
	New float64
}

// Quota is a strategy's answer to a Load.
type Quota struct {
	Max    int     // take at most so many now; < 0: any number
	Floor  float32 // take none with a lower value
	Rerank bool    // ranks changed for all slots: rank them again
	Drift  bool    // values of ready slots change with time: refresh them
	Strict bool    // Scheduler.Spare takes nothing: no slot is crawled before the strategy wants it
	// Mixed says to take channels never crawled and known ones by share: New of what is taken is for those never crawled while both
	// wait. Otherwise the order of values alone decides.
	Mixed bool
	New   float64
}

// Kind is what happened to a slot.
type Kind uint8

// The events. Those marked * come from outside through Scheduler.Observe, the others from the scheduler itself.
const (
	Added     Kind = iota + 1 // a slot came, or another strategy took over
	Removed                   // a slot goes
	Moved                     // its group changed; Event.From is the old one
	Submitted                 // taken by Next
	Accepted                  // * a peer took the task and will start it after Event.Wait
	Refused                   // * no peer could start the task in time; the task is over
	Updated                   // * the stored copy is up to date; the task is over
	Failed                    // * the task is over without an update
	Lost                      // * the task is over because its peer was silent for too long; never where leases hand it out again
	Lapsed                    // * a lease ended without progress; the same task is handed out again
	Signalled                 // * a sitemap, feed or lastmod says that the channel changed
)

// Event is one thing that happened to one slot.
type Event struct {
	Kind    Kind
	Stays   bool    // Removed, and Added after it: the slot keeps its channel, whose facts change in between
	Changed bool    // Updated: content differed (near-unchanged pages count as unchanged)
	From    uint8   // Moved: the old group
	Wait    float32 // Accepted: expected ticks until the start; Updated: ticks from submission to start; < 0: unknown
	Service float32 // Updated: ticks from start to end; 0: unknown
}

// Planning makes a plan from a copy of all facts, indexed by slot. It may run on another goroutine: it uses only its arguments and what
// it measured before Plan returned it. The caller then calls adopt on the loop, unless the strategy was exchanged meanwhile, and
// Scheduler.Rerank after it.
type Planning func(ctx context.Context, facts []Facts) (adopt func(), err error)

// PlanReport is what an operator sees of a plan in force. Fields that a strategy does not have are zero.
type PlanReport struct {
	At       Tick    `json:"at"`
	Next     Tick    `json:"next"` // when the next plan is due
	Channels int     `json:"channels"`
	Capacity float64 `json:"capacity"` // threads: those that peers offer, as far as updates have shown that they work
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
