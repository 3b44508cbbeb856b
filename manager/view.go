package manager

import (
	"cmp"
	"container/list"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"shoal/channel"
	"shoal/coords"
	"shoal/internal/version"
	"shoal/manager/web"
	"shoal/overlay"
	"shoal/recrawl"
)

const (
	historyEvery  = 2 * time.Second
	historyPoints = 600
	eventsKept    = 64   // of one channel
	eventsInAll   = 1024 // channels with events; the least recently touched is forgotten
	freshSample   = 4096 // channels looked at for the freshness estimate
	rateWindow    = time.Minute
)

// rates turns counters into what happened in the last minute.
type rates struct {
	at                      []time.Time
	updates, pages, refused []int64
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

func (m *Manager) overview(now time.Time) web.Overview {
	a := m.cfg.Archive.Stats()
	up, pg, _ := m.rates.last(now, m.updates, m.pages, m.refused)
	g := m.sched.Groups()
	sizes := make([]int, g.K())
	for i := range sizes {
		sizes[i] = g.Count(i)
	}
	o := web.Overview{
		Network: fmt.Sprintf("%x", m.cfg.Network), Version: version.String(), Strategy: m.sched.Strategy().Name(), Since: m.since, Now: now,
		Unit: m.cfg.Tick, Channels: m.sched.Len(), Never: m.never(), Out: m.out(), Due: m.due, Peers: len(crawlers(m.cfg.Swarm.Peers())),
		Submitted: m.submitted, Accepted: m.accepted, Refused: m.refused, Updates: m.updates, Lapsed: m.lapsed,
		Pages: m.pages, Unchanged: m.unchanged, Archived: int64(a.Pages), BytesDown: m.bytesDown, WARCFiles: a.Files,
		UpdatesMin: up, PagesMin: pg, Freshness: m.fresh, Intervals: m.intervals(), GroupSizes: sizes,
		Errors: maps.Clone(m.errors), History: slices.Clone(m.history), Data: m.cfg.Data, Notices: slices.Sorted(maps.Values(m.notices)),
		Import: m.imports.words(), Discovered: m.discovered, ArchiveLag: a.TextDelay,
	}
	for _, key := range []string{noticeStore, noticeFeed, noticeDisk} {
		if n := m.notices[key]; n != "" {
			o.Blocking = append(o.Blocking, n)
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

// crawlers are the members that take tasks.
func crawlers(all []overlay.PeerRecord) []overlay.PeerRecord {
	return slices.DeleteFunc(all, func(p overlay.PeerRecord) bool { return p.Load.Threads == 0 })
}

// rtt notes how near a task landed: the chosen peer's predicted round-trip time to the host, and a random peer's.
func (m *Manager) rtt(p overlay.Placed) {
	m.rttN++
	m.hopsSum += float64(p.Hops)
	m.rttChosen += ms(p.RTT)
	m.rttRandom += ms(p.RandomRTT)
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// sampleHistory takes a point of the plots, and the freshness estimate with it.
func (m *Manager) sampleHistory(now time.Time) {
	m.sampled = now
	m.fresh = m.freshness(now)
	up, pg, ref := m.rates.sample(now, m.updates, m.pages, m.refused)
	m.history = append(m.history, web.Point{At: now, UpdatesMin: up, PagesMin: pg, RefusedMin: ref, Out: m.out(),
		Peers: len(crawlers(m.cfg.Swarm.Peers())), Freshness: m.fresh, Intervals: m.intervals()})
	if len(m.history) > historyPoints { // halve the resolution of what is old, keep all of its span
		kept := m.history[:0]
		for i, p := range m.history {
			if i%2 == 0 || i > len(m.history)-historyPoints/4 {
				kept = append(kept, p)
			}
		}
		m.history = kept
	}
}

// freshness is the expected share of channels whose stored copy is still current, from the learnt change rates: the mean of e^(-rate*age).
func (m *Manager) freshness(now time.Time) float64 {
	n := m.table.Len()
	if n == 0 {
		return 0
	}
	step := max(n/freshSample, 1)
	sum, seen := 0.0, 0
	tick := m.clock.At(now)
	for s := 0; s < n; s += step {
		if !m.table.Used(recrawl.Slot(s)) {
			continue
		}
		f := m.sched.Facts(recrawl.Slot(s))
		seen++
		if f.Updated > 0 {
			sum += math.Exp(-f.Est.Rate() * float64(max(tick-f.Updated, 0)))
		}
	}
	if seen == 0 {
		return 0
	}
	return sum / float64(seen)
}

func (m *Manager) never() int { return m.sched.Len() - m.visited }

// sample adds the counters of now and answers with what the last minute brought.
func (r *rates) sample(now time.Time, updates, pages, refused int64) (up, pg, ref float64) {
	r.at = append(r.at, now)
	r.updates, r.pages, r.refused = append(r.updates, updates), append(r.pages, pages), append(r.refused, refused)
	for len(r.at) > 2 && now.Sub(r.at[1]) >= rateWindow {
		r.at, r.updates, r.pages, r.refused = r.at[1:], r.updates[1:], r.pages[1:], r.refused[1:]
	}
	return r.last(now, updates, pages, refused)
}

func (r *rates) last(now time.Time, updates, pages, refused int64) (up, pg, ref float64) {
	if len(r.at) == 0 {
		return 0, 0, 0
	}
	minutes := now.Sub(r.at[0]).Minutes()
	if minutes <= 0 {
		return 0, 0, 0
	}
	return float64(updates-r.updates[0]) / minutes, float64(pages-r.pages[0]) / minutes, float64(refused-r.refused[0]) / minutes
}

// Overview is the state of the whole system, a quarter of a second old at most.
func (m *Manager) Overview() web.Overview { return *m.shown.Load() }

// Peers are the members that the manager knows of.
func (m *Manager) Peers() []web.Peer {
	var out []web.Peer
	own := m.cfg.Swarm.Coord()
	for _, p := range crawlers(m.cfg.Swarm.Peers()) {
		out = append(out, web.Peer{
			ID: string(p.ID), Coord: [2]float64{p.Coord.Vec[0], p.Coord.Vec[1]}, Err: p.Coord.Err, Running: int(p.Load.Running),
			Queued: int(p.Load.Queued), Seen: p.Seen, RTT: coords.Predict(own, p.Coord),
		})
	}
	slices.SortFunc(out, func(a, b web.Peer) int { return strings.Compare(a.ID, b.ID) })
	return out
}

// Channels lists those whose host or directory holds the query, n from the from-th on, and how many there are.
func (m *Manager) Channels(query string, from, n int) (rows []web.Row, total int) {
	ctx, cancel := context.WithTimeout(context.Background(), viewTimeout)
	defer cancel()
	var ids []channel.ID
	var err error
	if query != "" {
		ids, total, err = m.cfg.Store.Matching(ctx, query, from, n)
	} else {
		err = m.do(ctx, func(time.Time) {
			total = m.sched.Len()
			for s, seen := recrawl.Slot(0), 0; int(s) < m.table.Len() && len(ids) < n; s++ {
				if !m.table.Used(s) {
					continue
				}
				if seen++; seen > from {
					ids = append(ids, m.table.ID(s))
				}
			}
		})
	}
	if err != nil {
		return nil, 0
	}
	for _, id := range ids {
		if r, _, ok := m.row(ctx, id); ok {
			rows = append(rows, r)
		}
	}
	return rows, total
}

const viewTimeout = 20 * time.Second // names of millions of hosts are looked through

// Channel shows one channel and what happened to it since this manager started.
func (m *Manager) Channel(id channel.ID) (web.Row, []web.Event, bool) {
	ctx, cancel := context.WithTimeout(context.Background(), viewTimeout)
	defer cancel()
	r, events, ok := m.row(ctx, id)
	if ok && r.Model == "" { // the strategy in force does not ask
		r.Model = m.describe(ctx, id)
	}
	return r, events, ok
}

// describe says which update model a channel's stored history speaks for.
func (m *Manager) describe(ctx context.Context, id channel.ID) string {
	ch, err := m.cfg.Store.Channel(ctx, id)
	if err != nil {
		return ""
	}
	var f recrawl.Facts
	var day float64
	known := false
	if err := m.do(ctx, func(time.Time) {
		var s recrawl.Slot
		if s, known = m.table.Find(id); known {
			f, day = m.sched.Facts(s), m.modelDay()
		}
	}); err != nil || !known {
		return ""
	}
	return recrawl.DescribeModel(ch.Learnt.History, &f, day)
}

// modelDay is the time after which a channel's changes may repeat themselves, in ticks, as strategy optimal takes it. Called on the loop.
func (m *Manager) modelDay() float64 {
	return cmp.Or(m.choice.Params.PlanEvery, m.cfg.PlanEvery, recrawl.PlanDay)
}

// row reads one channel: what the loop holds, and the database for the rest.
func (m *Manager) row(ctx context.Context, id channel.ID) (web.Row, []web.Event, bool) {
	var r web.Row
	var events []web.Event
	ok := false
	ch, err := m.cfg.Store.Channel(ctx, id)
	if err != nil {
		return r, nil, false
	}
	err = m.do(ctx, func(now time.Time) {
		var s recrawl.Slot
		if s, ok = m.table.Find(id); !ok {
			return
		}
		f := m.sched.Facts(s)
		r = web.Row{ID: id, Host: ch.Scope.Host, Group: int(f.Group), Updated: m.clock.Time(f.Updated), Out: m.isOut(s), State: "active"}
		if f.Updated > 0 {
			r.Every = time.Duration(f.Est.Interval() * float64(m.cfg.Tick))
		}
		if f.Submitted > 0 {
			if iv := m.sched.Intervals(); int(f.Group) < len(iv) {
				r.Due = m.clock.Time(f.Submitted + iv[f.Group])
			}
		}
		if at, ok := m.failing[s]; ok && at.After(r.Due) {
			r.Due = at
		}
		if r.Due.Before(now) {
			r.Due = time.Time{}
		}
		state, reason := m.stateOf(s, &ch), ch.Reason
		if st, ok := m.states[s]; ok {
			reason = st.reason
		}
		switch b := m.hostNow(m.table.Host(s)).blocked; {
		case state == channel.Marked:
			r.State, r.Reason = "given up", reason
		case b != "":
			r.State, r.Reason = "blocked", b
		case f.Flags&recrawl.Paused != 0:
			r.State, r.Reason = "paused", reason
		}
		events = m.events.of(id)
		r.Model = m.sched.Strategy().Explain(s, &f)
	})
	if err != nil || !ok {
		return r, nil, false
	}
	r.Scope = scopeWords(ch.Scope)
	l := ch.Learnt
	r.Pages, r.Visits, r.Changes, r.Error, r.Failed = l.Pages, l.Visits, l.Changes, l.LastError, l.Failed
	if r.Failed > 0 && r.State == "active" && m.cfg.Failing.Limit > 0 {
		r.Left = m.cfg.Failing.Limit - r.Failed%m.cfg.Failing.Limit
	}
	if l.LastOutcome != 0 {
		r.Last = outcomeWord(l.LastOutcome)
	}
	slices.Reverse(events)
	return r, events, true
}

func scopeWords(s channel.Scope) string {
	switch s.Kind {
	case channel.WholeHost:
		return ""
	case channel.Directory:
		return s.Dirs[0]
	default:
		return fmt.Sprintf("%d directories", len(s.Dirs))
	}
}

// event notes what happened to a channel. Called on the loop.
func (m *Manager) event(s recrawl.Slot, at time.Time, gen channel.Gen, what, peer, note string) {
	m.events.add(m.table.ID(s), web.Event{At: at, Gen: gen, What: what, Peer: peer, Note: note})
}

// events are what happened of late to the channels touched last.
type events struct {
	by  map[channel.ID]*list.Element
	lru *list.List // of *told, the one touched last in front
}

type told struct {
	id   channel.ID
	what []web.Event
}

func newEvents() events { return events{map[channel.ID]*list.Element{}, list.New()} }

func (e *events) add(id channel.ID, ev web.Event) {
	at, ok := e.by[id]
	if !ok {
		at = e.lru.PushFront(&told{id: id})
		e.by[id] = at
		if e.lru.Len() > eventsInAll {
			e.drop(e.lru.Back().Value.(*told).id)
		}
	}
	e.lru.MoveToFront(at)
	t := at.Value.(*told)
	if t.what = append(t.what, ev); len(t.what) > eventsKept {
		t.what = slices.Delete(t.what, 0, len(t.what)-eventsKept)
	}
}

// of are a channel's events, in their order.
func (e *events) of(id channel.ID) []web.Event {
	if at, ok := e.by[id]; ok {
		return slices.Clone(at.Value.(*told).what)
	}
	return nil
}

func (e *events) drop(id channel.ID) {
	if at, ok := e.by[id]; ok {
		e.lru.Remove(at)
		delete(e.by, id)
	}
}
