package manager

import (
	"context"
	"errors"
	"fmt"
	"time"

	"shoal/channel"
	"shoal/channel/lease"
	"shoal/coords"
	"shoal/manager/archive"
	"shoal/manager/dispatch"
	"shoal/overlay"
	"shoal/recrawl"
)

const feedBatch = 256 // feed entries taken in with one transaction

// feedback takes in what the archive's feed tells, each entry exactly once: its effects and the feed's cursor are committed in one
// transaction. What could not be committed is kept and tried again before anything more is read. It reports whether there was any.
func (m *Manager) feedback(ctx context.Context) (bool, error) {
	if m.pending != nil {
		if err := m.commit(ctx); err != nil {
			return false, err
		}
	}
	entries, next, err := m.cfg.Archive.Feed(ctx, m.cursor, feedBatch)
	if errors.Is(err, archive.ErrCursor) || errors.Is(err, archive.ErrTrimmed) { // rebuilt or replaced; what was applied is not applied again
		m.log.Warn("the archive does not know how far its feed was read; reading all of it", "err", err)
		entries, next, err = m.cfg.Archive.Feed(ctx, "", feedBatch)
	}
	if err != nil {
		return false, fmt.Errorf("read the archive's feed: %w", err)
	}
	if next == m.cursor {
		return false, nil
	}
	now := m.cfg.Now()
	effects := newEffects(m.cursor, next, now)
	if err := m.readFor(ctx, entries, effects); err != nil {
		return false, err
	}
	m.pending = effects
	for _, e := range entries {
		m.takeIn(now, e)
	}
	m.cursor = next
	return true, m.commit(ctx)
}

// readFor reads all that a stretch of the feed needs of the database, so that nothing of it is taken in while that cannot be read.
func (m *Manager) readFor(ctx context.Context, entries []archive.Entry, into *effects) error {
	for i := range entries {
		e := &entries[i]
		s, ok := m.table.Find(e.Channel)
		if !ok {
			continue // removed meanwhile
		}
		if _, ok := m.held(s); !ok {
			if _, err := (book{m}).Issue(s); err != nil {
				return err
			}
		}
		if e.Report == nil || into.read[s] != nil {
			continue
		}
		ch, err := m.cfg.Store.Channel(ctx, e.Channel)
		if errors.Is(err, channel.ErrUnknown) {
			return fmt.Errorf("channel %d has gone from the database, which must be damaged: stop the manager, and restore its folder from a backup", e.Channel)
		}
		if err != nil {
			return fmt.Errorf("read channel %d: %w", e.Channel, err)
		}
		into.read[s] = &ch
		if _, err := m.hostRecord(ch.Scope.Host); err != nil {
			return err
		}
	}
	return nil
}

// takeIn applies one entry to what the loop holds, and notes what must become durable.
func (m *Manager) takeIn(now time.Time, e archive.Entry) {
	s, ok := m.table.Find(e.Channel)
	if !ok {
		return // removed meanwhile
	}
	heard, err := m.machine.Hear(now, s, e.Event, dispatch.Peer(e.Peer))
	if err != nil { // what it needs was read before
		m.log.Error("event not taken in", "channel", e.Channel, "err", err)
		return
	}
	if heard.Effect&lease.Persist != 0 {
		if _, ok := m.pending.slots[s]; !ok {
			m.pending.slots[s] = nil
		}
	}
	switch e.Event.Kind {
	case lease.Claimed, lease.Revived:
		m.cfg.Swarm.Claimed(overlay.ID(e.Peer))
		m.event(s, e.When, e.Event.Gen, e.Event.Kind.String(), e.Peer, "")
	case lease.Lapsed, lease.Released:
		m.event(s, e.When, e.Event.Gen, e.Event.Kind.String(), e.Peer, "")
	}
	if heard.Effect&lease.Apply != 0 && e.Report != nil {
		m.learn(now, s, heard, e)
	}
	m.carryOut(now)
}

// learn takes in a report that counts.
func (m *Manager) learn(now time.Time, s recrawl.Slot, heard dispatch.Heard, e archive.Entry) {
	r := e.Report
	l, host := &m.pending.read[s].Learnt, m.pending.read[s].Scope.Host
	m.pending.slots[s] = l
	m.count(r)
	changed := r.New+r.Changed+r.Gone > 0
	l.Gen, l.Out = heard.Issue.Gen, heard.Issue.Out()
	l.LastOutcome, l.LastError = r.Outcome, r.Reason
	ev := recrawl.Event{Kind: recrawl.Failed, Wait: -1}
	switch r.Outcome {
	case channel.Updated:
		m.updates++
		l.Failed = 0
		if l.Visits == 0 {
			m.visited++
		}
		changed = changed && (l.Visits > 0 || r.Changed+r.Gone > 0)
		ev = recrawl.Event{Kind: recrawl.Updated, Changed: changed, Wait: -1, Service: m.ticks(r.Ended.Sub(r.Started))}
		if !heard.Issued.IsZero() {
			ev.Wait = m.ticks(r.Started.Sub(heard.Issued))
		}
		m.pending.crawled[s] = r.Started
		m.sizes.crawled(l, r.Pages)
		l.Updated, l.Visits, l.Pages = now, l.Visits+1, r.Pages
		m.weigh(s, Importance(&m.pending.read[s].Settings), r.Pages)
		l.Service = r.Ended.Sub(r.Started)
		if changed {
			l.Changed, l.Changes = now, l.Changes+1
		}
		if last := m.sched.Facts(s).Updated; last > 0 {
			l.History = recrawl.AppendVisit(l.History, float64(m.clock.At(now)-last), changed)
		}
		m.table.SetLinks(s, 0)
		grows := r.Truncated && r.Left > 0
		if m.table.SetGrows(s, grows); grows {
			l.Budget = min(max(l.Budget, m.cfg.FirstBudget)*budgetGrowth, m.cfg.MaxBudget)
		}
		if took := r.Ended.Sub(r.Started); took > 0 && r.Pages >= pacePages {
			m.perPage += (took/time.Duration(r.Pages) - m.perPage) / 8
		}
	case channel.HostBlocked:
		m.blockHost(now, host, r.Reason)
	case channel.Failed, channel.Refused:
		l.Failed, l.LastError = l.Failed+1, whatFailed(r)
	}
	m.learnHost(host, e)
	m.discover(s, r.Inter)
	m.event(s, now, e.Event.Gen, OutcomeWord(r.Outcome), e.Peer, reportNote(r))
	m.sched.Observe(m.clock.At(now), s, ev)
	if m.machine.NotBefore(s, time.Time{}); r.Outcome == channel.Failed || r.Outcome == channel.Refused {
		m.failed(now, s, l)
	}
}

const pacePages = 8 // pages of a crawl that tells how long a page takes

func (m *Manager) ticks(d time.Duration) float32 {
	return float32(max(d, 0).Seconds() / m.cfg.Tick.Seconds())
}

// learnHost keeps what a report tells of the host: where it is, how often it may be visited.
func (m *Manager) learnHost(name string, e archive.Entry) {
	key := channel.KeyOf(name)
	h := m.records[key]
	if e.Report.Gap > 0 {
		h.CrawlDelay = e.Report.Gap
	}
	next := e.Report.Ended.Add(max(e.Report.Gap, m.cfg.Gap))
	if next.After(h.NextVisit) {
		h.NextVisit = next
	}
	m.machine.Leave(key, h.NextVisit)
	if e.Report.RTT > 0 {
		if p := m.cfg.Swarm.View().Find(overlay.ID(e.Peer)); p != nil {
			m.near.learn(key)
			h.Record.Add(coords.Sample{Vantage: e.Peer, At: p.Coord, RTT: e.Report.RTT, When: e.Report.Ended.Unix()})
		}
	}
}

func (m *Manager) blockHost(now time.Time, name, why string) {
	if why == "" {
		why = "it answers crawlers with refusals"
	}
	m.records[channel.KeyOf(name)].Blocked = why
	m.machine.Block(channel.KeyOf(name), why)
	m.countError("host blocked")
	m.log.Warn("host blocked", "host", name, "why", why, "at", now)
}

// discover routes inter-site URLs to the channels that hold them; what no channel holds is kept as a candidate.
func (m *Manager) discover(from recrawl.Slot, urls []string) {
	if m.cfg.Discover == DiscoverOff {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), saveTimeout)
	defer cancel()
	for _, u := range urls {
		id, more := m.table.First(channel.KeyOf(channel.Origin(u)))
		if id == 0 {
			if len(m.pending.found) < maxFound && !m.isBlocked(channel.Origin(u)) {
				m.pending.found = append(m.pending.found, channel.Found{URL: u, From: m.table.ID(from)})
			}
			continue
		}
		if more { // the one whose directory it lies in, if any
			var err error
			if id, err = m.cfg.Store.Lookup(ctx, u); err != nil {
				continue
			}
		}
		m.linkTo(id, u)
	}
}

// linkTo gives a URL to a channel; the database bounds and deduplicates what is kept.
func (m *Manager) linkTo(id channel.ID, u string) {
	if len(m.pending.inter[id]) >= channel.MaxInter {
		return
	}
	m.pending.inter[id] = append(m.pending.inter[id], u)
	m.linked(id, 1)
}

// linked counts what is known of a channel that may never have been crawled: larger sites go first.
func (m *Manager) linked(id channel.ID, n int) {
	if s, ok := m.table.Find(id); ok && n > 0 {
		m.table.SetLinks(s, m.table.Links(s)+n)
		m.sched.Found(s)
	}
}

const maxFound = 4096 // URLs of unknown hosts noted with one transaction

// OutcomeWord says how a task ended.
func OutcomeWord(o channel.Outcome) string {
	switch o {
	case channel.Updated:
		return "updated"
	case channel.Failed:
		return "failed"
	case channel.HostBlocked:
		return "blocked by its host"
	case channel.Stopped:
		return "stopped"
	case channel.Refused:
		return "refused by its peer"
	case channel.Lapsed:
		return "lapsed"
	}
	return fmt.Sprintf("outcome %d", o)
}

func reportNote(r *channel.Report) string {
	if r.Pages == 0 && r.Outcome != channel.Updated {
		return whatFailed(r)
	}
	note := fmt.Sprintf("%d pages: %d new, %d changed, %d unchanged, %d gone", r.Pages, r.New, r.Changed, r.Unchanged+r.NearUnchanged, r.Gone)
	if r.Truncated {
		note += fmt.Sprintf("; %d URLs left by the page budget", r.Left)
	}
	if r.Reason != "" {
		note += "; " + r.Reason
	}
	return note
}
