package manager

import (
	"log/slog"
	"slices"
	"sync"
	"time"

	"shoal/channel"
	"shoal/manager/dispatch"
	"shoal/recrawl"
)

// core is what all parts of a manager stand on. The loop owns it, but for cfg, log and the inbox.
type core struct {
	*inbox
	cfg     Config
	log     *slog.Logger
	beside  *sync.WaitGroup // what runs beside the loop
	epoch   channel.Epoch   // the manager's in its database
	clock   recrawl.Clock
	gain    clockGain
	sched   *recrawl.Scheduler
	table   *dispatch.Table
	machine *dispatch.Machine
	tally   tally
	events  events
	history history
	members *members
	sizes   sizes
	tenancy *tenancy // nil: no other manager works on the database
	whole   wholes
	asked   wholes
}

// Epoch is the manager's in its database; writes that go together with its own carry it.
func (c *core) Epoch() channel.Epoch { return c.epoch }

// event notes what happened to a channel.
func (c *core) event(s recrawl.Slot, at time.Time, gen channel.Gen, what, peer, note string) {
	if isErrand(s) {
		return // it is of no channel
	}
	c.events.add(c.table.ID(s), Event{At: at, Gen: gen, What: what, Peer: peer, Note: note})
}

// again is event of what happens many times of one task, which is told once, as it happened last.
func (c *core) again(s recrawl.Slot, at time.Time, gen channel.Gen, what, peer, note string) {
	if id := c.table.ID(s); !c.events.repeat(id, at, gen, what, peer) {
		c.event(s, at, gen, what, peer, note)
	}
}

// ticks is a length of time in ticks.
func (c *core) ticks(d time.Duration) float32 {
	return float32(max(d, 0).Seconds() / c.cfg.Tick.Seconds())
}

// intervals are the recrawl intervals by group, fastest first.
func (c *core) intervals() []time.Duration {
	iv := c.sched.Intervals()
	out := make([]time.Duration, len(iv))
	for i, t := range iv {
		out[i] = time.Duration(t) * c.cfg.Tick
	}
	return out
}

// due is how many channels are due and wait for room, politeness or a near peer. One that waits for a near peer may be ready, too: they are no more than those that are not out.
func (c *core) due() int {
	return min(c.sched.Ready()+c.machine.Near(), max(c.sched.Len()-c.machine.Out(), 0))
}

// never is how many channels were never crawled.
func (c *core) never() int { return c.sched.Len() - c.tally.visited }

// isBlocked tells whether nothing of an origin is crawled, by what the loop knows: it is blocked, or its host is, whatever the port.
func (c *core) isBlocked(origin string) bool {
	blocked := func(origin string) bool { return c.machine.Blocked(channel.KeyOf(origin)) != "" }
	if blocked(origin) {
		return true
	}
	hosts, port := channel.HostsOf(origin)
	return port && !slices.ContainsFunc(hosts.Origins(), func(o string) bool { return !blocked(o) })
}
