package manager

import (
	"maps"
	"slices"
	"time"

	"shoal/coords"
	"shoal/internal/version"
	"shoal/manager/archive"
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
	Archive     archive.Stats
}

// publish makes what other goroutines may read. Called on the loop.
func (m *Manager) publish(now time.Time) {
	if now.Sub(m.published) < publishEvery {
		return
	}
	m.published = now
	if now.Sub(m.sampled) >= historyEvery {
		m.sampleHistory(now)
	}
	o := m.overview(now)
	m.shown.Store(&o)
}

const publishEvery = 250 * time.Millisecond

func (m *Manager) overview(now time.Time) Overview {
	n := m.counts()
	up, pg, _ := m.rates.last(now, m.updates, m.pages, n.Refused)
	g := m.sched.Groups()
	sizes := make([]int, g.K())
	for i := range sizes {
		sizes[i] = g.Count(i)
	}
	o := Overview{
		Version: version.String(), Strategy: m.sched.Strategy().Name(), Since: m.since, Started: m.started, Now: now,
		Unit: m.cfg.Tick, Channels: m.sched.Len(), Never: m.never(), Out: m.machine.Out(), Due: m.due, Peers: m.near.peers(),
		Submitted: n.Submitted, Accepted: n.Accepted, Refused: n.Refused, Updates: m.updates, Lapsed: n.Lapsed,
		Pages: m.pages, Unchanged: m.unchanged, BytesDown: m.bytesDown,
		UpdatesMin: up, PagesMin: pg, Freshness: m.fresh, Intervals: m.intervals(), GroupSizes: sizes,
		Errors: maps.Clone(m.errors), History: slices.Clone(m.history), Data: m.cfg.Data, Notices: slices.Sorted(maps.Values(m.notices)),
		Discovered: m.discovered, Archive: m.cfg.Archive.Stats(),
	}
	for _, key := range []string{noticeStore, noticeFeed, noticeDisk} {
		if text := m.notices[key]; text != "" {
			o.Blocking = append(o.Blocking, text)
		}
	}
	if m.rttN > 0 {
		o.Lookups, o.HopsMean = m.rttN, m.hopsSum/float64(m.rttN)
		o.RTTChosenMS, o.RTTRandomMS = m.rttChosen/float64(m.rttN), m.rttRandom/float64(m.rttN)
	}
	return o
}

func (m *Manager) intervals() []time.Duration {
	iv := m.sched.Intervals()
	out := make([]time.Duration, len(iv))
	for i, t := range iv {
		out[i] = time.Duration(t) * m.cfg.Tick
	}
	return out
}

// rtt notes how near a task landed: the chosen peer's predicted round-trip time to the host, and a random peer's.
func (m *Manager) rtt(p overlay.Placed) {
	m.rttN++
	m.hopsSum += float64(p.Hops)
	m.rttChosen += ms(p.RTT)
	m.rttRandom += ms(p.RandomRTT)
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func (m *Manager) never() int { return m.sched.Len() - m.visited }

// Overview is the state of the whole system, a quarter of a second old at most.
func (m *Manager) Overview() Overview { return *m.shown.Load() }

// Peers are the members that take tasks, and where the manager itself is.
func (m *Manager) Peers() ([]overlay.PeerRecord, coords.Coord) {
	takers := slices.DeleteFunc(slices.Clone(m.cfg.Swarm.View().Peers), func(p overlay.PeerRecord) bool { return p.Load.Threads == 0 })
	return takers, m.cfg.Swarm.Coord()
}
