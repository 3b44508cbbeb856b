package manager

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"shoal/coords"
	"shoal/internal/version"
	"shoal/manager/archive"
	"shoal/manager/conduct"
	"shoal/manager/dispatch"
	"shoal/overlay"
)

// Overview is the state of the whole system at one moment.
type Overview struct {
	Version     string
	Strategy    string
	Since       time.Time // the network's first start, with which the counters begin
	Started     time.Time // this manager's
	Now         time.Time
	Unit        time.Duration // a scheduler tick
	Channels    int
	Never       int // channels not crawled yet
	Out         int // tasks out
	Due         int // channels due that wait for room or politeness
	Peers       int
	Submitted   int64
	Accepted    int64
	Refused     int64
	Updates     int64
	Lapsed      int64
	Audits      int64 // looks at stored pages that peers accepted; they are not among the tasks
	Pages       int64
	Unchanged   int64
	BytesDown   int64
	UpdatesMin  float64
	PagesMin    float64
	Freshness   float64 // expected share of fresh channels, from learnt change rates
	Intervals   []time.Duration
	GroupSizes  []int
	Errors      map[string]int64
	History     []Point
	Data        string
	Notices     []string // what an operator should know: disk full, no contact
	Blocking    []string // of the Notices, those because of which nothing is handed out
	Discovered  int      // channels that discovery has added
	HopsMean    float64
	RTTChosenMS float64
	RTTRandomMS float64
	Lookups     int64
	Threads     int            // that the peers offer
	Idle        int            // of them without a task of this manager's
	Holds       Holds          // some seconds old
	Usage       dispatch.Usage // of their time, since the manager's start
	Archive     archive.Stats
	Suspects    []conduct.Member // members that an operator should look at, the worst first
	AllSuspects int
	Trust       TrustInfo // some seconds old
}

// status publishes the overview of a running manager.
type status struct {
	*core
	near      *nearness
	auditor   *auditor
	find      *discovery
	published time.Time
	trusted   TrustInfo // as of trustedAt
	trustedAt time.Time
	shown     atomic.Pointer[Overview]
}

// publish makes what other goroutines may read. Called on the loop.
func (st *status) publish(now time.Time) {
	if now.Sub(st.published) < publishEvery {
		return
	}
	st.published = now
	if now.Sub(st.history.sampled) >= historyEvery {
		st.sampleHistory(now)
	}
	st.members.look(now, st.near.judge)
	o := st.overview(now)
	st.shown.Store(&o)
}

const trustedEvery = 5 * time.Second // it goes through all peers

const publishEvery = 250 * time.Millisecond

func (st *status) overview(now time.Time) Overview {
	n := st.counts()
	up, pg, _ := st.history.rates.last(now, st.tally.updates, st.tally.pages, n.Refused)
	g := st.sched.Groups()
	sizes := make([]int, g.K())
	for i := range sizes {
		sizes[i] = g.Count(i)
	}
	o := Overview{
		Version: version.String(), Strategy: st.sched.Strategy().Name(), Since: st.tally.since, Started: st.tally.started, Now: now,
		Unit: st.cfg.Tick, Channels: st.sched.Len(), Never: st.never(), Out: st.machine.Out(), Due: st.due(), Peers: st.near.peers(),
		Submitted: n.Submitted, Accepted: n.Accepted, Refused: n.Refused, Updates: st.tally.updates, Lapsed: n.Lapsed, Audits: st.audits(),
		Pages: st.tally.pages, Unchanged: st.tally.unchanged, BytesDown: st.tally.bytesDown,
		UpdatesMin: up, PagesMin: pg, Freshness: st.history.fresh, Intervals: st.intervals(), GroupSizes: sizes,
		Errors: maps.Clone(st.tally.errors), History: slices.Clone(st.history.points), Data: st.cfg.Data, Notices: slices.Sorted(maps.Values(st.tally.notices)),
		Discovered: st.find.discovered, Archive: st.cfg.Archive.Stats(), Blocking: st.tally.blocking(),
	}
	c := st.near.Capacity(now)
	o.Threads, o.Idle, o.Usage, o.Holds = c.Threads, c.Idle, st.machine.Usage(), st.history.holds
	if len(o.Blocking) > 0 {
		o.Holds = o.Holds.halted()
	}
	o.Suspects, o.AllSuspects = st.members.suspects(now)
	if now.Sub(st.trustedAt) >= trustedEvery {
		st.trustedAt, st.trusted = now, st.auditor.info(now)
	}
	o.Trust = st.trusted
	if n := st.tally.placed; n > 0 {
		o.Lookups, o.HopsMean = n, st.tally.hops/float64(n)
		o.RTTChosenMS, o.RTTRandomMS = st.tally.chosenMS/float64(n), st.tally.randomMS/float64(n)
	}
	return o
}

// Overview is the state of the whole system, a quarter of a second old at most.
func (st *status) Overview() Overview { return *st.shown.Load() }

// Peers are the members that take tasks, and where the manager itself is.
func (st *status) Peers() ([]overlay.PeerRecord, coords.Coord) {
	takers := slices.DeleteFunc(slices.Clone(st.cfg.Swarm.View().Peers), func(p overlay.PeerRecord) bool { return p.Load.Threads == 0 })
	return takers, st.cfg.Swarm.Coord()
}

// Ready reports whether tasks are handed out; the error says why not.
func (st *status) Ready(ctx context.Context) error {
	if err := st.Alive(ctx); err != nil {
		return err
	}
	if n := st.Overview().Blocking; len(n) > 0 {
		return fmt.Errorf("manager: %s", slices.Min(n))
	}
	return nil
}
