package manager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"shoal/channel"
	"shoal/internal/plain"
	"shoal/recrawl"
)

// effects are what a stretch of the feed changes, to be committed with its cursor.
type effects struct {
	from, to string
	at       time.Time
	slots    map[recrawl.Slot]*channel.Learnt // nil: only the issue and the facts changed
	crawled  map[recrawl.Slot]time.Time       // began then, and took in the inter-site URLs found before
	inter    map[channel.ID][]string
	found    []channel.Found // inter-site URLs that no channel has
	counts   map[string]int64
	read     map[recrawl.Slot]*channel.Channel // as the database has those that report
}

func newEffects(from, to string, at time.Time) *effects {
	return &effects{from: from, to: to, at: at, slots: map[recrawl.Slot]*channel.Learnt{}, crawled: map[recrawl.Slot]time.Time{},
		inter: map[channel.ID][]string{}, counts: map[string]int64{}, read: map[recrawl.Slot]*channel.Channel{}}
}

// feedName names the archive's feed in the database.
const feedName = "archive"

// saveIssued makes generations durable before their offers leave. It runs beside the loop.
func (m *Manager) saveIssued(ctx context.Context, batch []job) ([]channel.Refusal, error) {
	issues := make([]channel.Issue, len(batch))
	for i, j := range batch {
		issues[i] = channel.Issue{ID: j.id, Gen: j.Gen, Lease: j.Issue.Append(nil), At: j.Issued}
	}
	return m.cfg.Store.Issue(ctx, m.epoch, issues)
}

// commit writes the pending effects of the feed with their cursor. On failure they stay pending.
func (m *Manager) commit(ctx context.Context) error {
	e := m.pending
	out := channel.Advance{From: e.from, To: e.to, At: e.at, Found: e.found, Counters: e.counts}
	if e.to != "" {
		out.Feed = feedName
	}
	for s, l := range e.slots {
		w := m.edit(s)
		w.Learnt, w.Crawled = l, e.crawled[s]
		w.Inter = e.inter[w.ID]
		delete(e.inter, w.ID)
		out.Edits = append(out.Edits, w)
	}
	for id, urls := range e.inter {
		out.Edits = append(out.Edits, channel.Edit{ID: id, Inter: urls})
	}
	for _, h := range m.records {
		out.Hosts = append(out.Hosts, *h)
	}
	slices.SortFunc(out.Edits, func(a, b channel.Edit) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(out.Hosts, func(a, b channel.Host) int { return cmp.Compare(a.Name, b.Name) })
	if err := m.cfg.Store.Apply(ctx, m.epoch, out); err != nil {
		return fmt.Errorf("write what reports have taught: %w", err)
	}
	for s := range e.slots {
		delete(m.dirty, s)
		delete(m.states, s)
	}
	clear(m.records)
	m.pending = nil
	return nil
}

// edit is a channel's issue, where it is held, and its facts, as they are now.
func (m *Manager) edit(s recrawl.Slot) channel.Edit {
	f := m.sched.Facts(s)
	w := channel.Edit{ID: m.table.ID(s), Facts: f.AppendState(nil)}
	if i, ok := m.held(s); ok {
		w.Gen, w.Lease = i.Gen, i.Append(nil)
	}
	if st, ok := m.states[s]; ok {
		w.State, w.Reason = st.state, st.reason
	}
	return w
}

// setState notes a channel's new state for the next write.
func (m *Manager) setState(s recrawl.Slot, state channel.State, reason string) {
	m.states[s] = stateWrite{state, reason}
	m.dirty[s] = struct{}{}
}

const (
	saveEvery     = time.Second      // changes that a crash may undo without harm
	strategyEvery = 30 * time.Second // the strategy's own state
	saveTimeout   = 10 * time.Second
	saveMost      = 1000 // channels written at a time
)

// keepState writes what need not be durable at once: issues that came to rest, operators' pauses, the strategy's state. final writes all.
func (m *Manager) keepState(now time.Time, final bool) {
	if !final && now.Sub(m.savedAt) < saveEvery {
		return
	}
	m.savedAt = now
	defer m.tidy()
	ctx, cancel := context.WithTimeout(context.Background(), saveTimeout)
	defer cancel()
	for m.pending == nil && len(m.dirty)+len(m.records) > 0 {
		e := newEffects("", "", now)
		for s := range m.dirty {
			if len(e.slots) == saveMost {
				break
			}
			e.slots[s] = nil
		}
		m.pending = e
		if err := m.commit(ctx); err != nil {
			m.setNotice(noticeStore, "Nothing new is taken in: "+plain.Error(err))
			m.log.Error("state not kept", "err", err)
			break
		}
		m.setNotice(noticeStore, "")
	}
	// While the database fails this is also how it is found out that it was mended.
	if !final && m.notices[noticeStore] == "" && now.Sub(m.strategyAt) < strategyEvery {
		return
	}
	m.strategyAt = now
	if err := errors.Join(m.cfg.Store.PutState(ctx, m.epoch, stateStrategy, m.sched.AppendState(nil)), m.keepSizes(ctx), m.keepShown(ctx, now, final)); err != nil {
		m.setNotice(noticeStore, "Nothing new is taken in: "+plain.Error(err))
		m.log.Error("strategy's state not kept", "err", err)
	} else if m.pending == nil && len(m.dirty)+len(m.records) == 0 {
		m.setNotice(noticeStore, "")
	}
}
