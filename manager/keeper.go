package manager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"shoal/channel"
	"shoal/channel/lease"
	"shoal/internal/plain"
	"shoal/recrawl"
)

// effects are what a stretch of the feed changes, to be committed with its cursor.
type effects struct {
	from, to string
	at       time.Time
	slots    map[recrawl.Slot]*channel.Learnt // nil: only the issue and the facts changed
	crawled  map[recrawl.Slot]time.Time       // were issued then, or began, and took in the inter-site URLs found before
	inter    map[channel.ID][]string
	found    []channel.Found // inter-site URLs that no channel has
	room     int             // bytes that their hosts' records take, about
	counts   map[string]int64
	read     map[recrawl.Slot]*channel.Channel // as the database has those that report
	holders  map[string]channel.ID             // of inter-site URLs to hosts that may have channels; 0: none holds it
}

func newEffects(from, to string, at time.Time) *effects {
	return &effects{from: from, to: to, at: at, slots: map[recrawl.Slot]*channel.Learnt{}, crawled: map[recrawl.Slot]time.Time{},
		inter: map[channel.ID][]string{}, counts: map[string]int64{}, read: map[recrawl.Slot]*channel.Channel{}}
}

// keeper writes what the loop has learnt into the database, and knows what is not written yet. Owned by the loop.
type keeper struct {
	*core
	cursor              string                            // up to which the feed was taken in
	pending             *effects                          // could not be written yet
	dirty               map[recrawl.Slot]struct{}         // issues and facts to be written, not in a hurry
	issues              map[recrawl.Slot]lease.Issue      // of idle channels: to be written, or read of late
	states              map[recrawl.Slot]stateWrite       // to be written
	records             map[channel.HostKey]*channel.Host // to be written
	moved               moved
	savedAt, strategyAt time.Time
}

type stateWrite struct {
	state  channel.State
	reason string
}

func newKeeper(c *core) *keeper {
	return &keeper{core: c, dirty: map[recrawl.Slot]struct{}{}, issues: map[recrawl.Slot]lease.Issue{}, states: map[recrawl.Slot]stateWrite{}, records: map[channel.HostKey]*channel.Host{}}
}

// FeedName names the archive's feed in the database.
const FeedName = "archive"

// ErrElsewhere says that the database has taken the archive's feed in up to another place than this manager: as after a write whose answer was lost for good and
// that was made all the same, or a failover to a server that did not have the last ones. It must be opened anew.
var ErrElsewhere = errors.New("manager: the database has taken in more, or less, of what peers have crawled than this manager knew, as after a failover")

// commit writes the pending effects of the feed with their cursor. On failure they stay pending. Channels of which nothing changed but that others
// link to them may be too many for one write: they go first, and do no harm if they are written again.
func (k *keeper) commit(ctx context.Context) error {
	e := k.pending
	out := channel.Advance{From: e.from, To: e.to, At: e.at, Found: e.found, Counters: e.counts}
	if e.to != "" {
		out.Feed = FeedName
	}
	edited := make(map[channel.ID]bool, len(e.slots))
	for s, l := range e.slots {
		w := k.edit(s)
		w.Learnt, w.Crawled = l, e.crawled[s]
		w.Inter = e.inter[w.ID]
		out.Edits = append(out.Edits, w)
		edited[w.ID] = true
	}
	var stretches []channel.Advance
	linked := slices.DeleteFunc(slices.Sorted(maps.Keys(e.inter)), func(id channel.ID) bool { return edited[id] })
	for ids := range slices.Chunk(linked, linkedAtOnce) {
		first := channel.Advance{At: e.at}
		for _, id := range ids {
			first.Edits = append(first.Edits, channel.Edit{ID: id, Inter: e.inter[id]})
		}
		stretches = append(stretches, first)
	}
	for _, h := range k.records {
		out.Hosts = append(out.Hosts, *h)
	}
	slices.SortFunc(out.Edits, func(a, b channel.Edit) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(out.Hosts, func(a, b channel.Host) int { return cmp.Compare(a.Name, b.Name) })
	if err := k.cfg.Store.Apply(ctx, k.epoch, append(stretches, out)...); err != nil {
		return fmt.Errorf("write what reports have taught: %w", err)
	}
	for s := range e.slots {
		delete(k.dirty, s)
		delete(k.states, s)
	}
	clear(k.records)
	k.pending = nil
	return nil
}

// linkedAtOnce is how many channels that are linked to go into one write.
const linkedAtOnce = 1000

// edit is a channel's issue, where it is held, and its facts, as they are now.
func (k *keeper) edit(s recrawl.Slot) channel.Edit {
	f := k.sched.Facts(s)
	w := channel.Edit{ID: k.table.ID(s), Facts: f.AppendState(nil)}
	if i, ok := k.held(s); ok {
		i = i.Resting(k.machine.Until(s))
		w.Gen, w.Lease = i.Gen, i.Append(nil)
	}
	if st, ok := k.states[s]; ok {
		w.State, w.Reason = st.state, st.reason
	}
	return w
}

// setState notes a channel's new state for the next write.
func (k *keeper) setState(s recrawl.Slot, state channel.State, reason string) {
	k.states[s] = stateWrite{state, reason}
	k.dirty[s] = struct{}{}
}

// hurry has everything written as soon as possible.
func (k *keeper) hurry() { k.savedAt, k.strategyAt = time.Time{}, time.Time{} }

const (
	saveEvery     = time.Second      // changes that a crash may undo without harm
	strategyEvery = 30 * time.Second // the strategy's own state
	saveTimeout   = 10 * time.Second
	saveMost      = 1000 // channels written at a time
)

// notTaken says why nothing is written to the database.
func notTaken(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Sprintf("Nothing new is taken in: the database has not answered for %v; this goes on by itself when it does", saveTimeout)
	}
	return "Nothing new is taken in: " + plain.Error(err)
}

// keepState writes what need not be durable at once: issues that came to rest, operators' pauses, the strategy's state. final writes all.
func (k *keeper) save(now time.Time, final bool) {
	ctx, cancel := context.WithTimeout(context.Background(), saveTimeout)
	defer cancel()
	k.saveWithin(ctx, now, final)
}

// saveStates writes the channels' states that wait behind what cannot be written: a manager that the database has overtaken begins anew, and an operator's order was
// answered.
func (k *keeper) saveStates(ctx context.Context) {
	var all error
	for s, st := range k.states {
		err := k.cfg.Store.Update(ctx, k.epoch, k.table.ID(s), func(ch *channel.Channel) {
			if ch.State != channel.Removed {
				ch.State, ch.Reason = st.state, st.reason
			}
		})
		if err == nil {
			delete(k.states, s)
		} else if !errors.Is(err, channel.ErrUnknown) {
			all = errors.Join(all, err)
		}
	}
	if all != nil {
		k.log.Error("channels that were paused, resumed or given up of late may not be so after the restart", "err", all)
	}
}

func (k *keeper) saveWithin(ctx context.Context, now time.Time, final bool) {
	if !final && now.Sub(k.savedAt) < saveEvery {
		return
	}
	k.savedAt = now
	defer k.tidy()
	for k.pending == nil && len(k.dirty)+len(k.records) > 0 {
		e := newEffects("", "", now)
		for s := range k.dirty {
			if len(e.slots) == saveMost {
				break
			}
			e.slots[s] = nil
		}
		k.pending = e
		if err := k.commit(ctx); err != nil {
			k.tally.notice(noticeStore, notTaken(err))
			k.log.Error("state not kept", "err", err)
			break
		}
		k.tally.notice(noticeStore, "")
	}
	// While the database fails this is also how it is found out that it was mended.
	if !final && k.tally.notices[noticeStore] == "" && now.Sub(k.strategyAt) < strategyEvery {
		return
	}
	k.strategyAt = now
	if err := errors.Join(k.cfg.Store.PutState(ctx, k.epoch, stateStrategy, k.sched.AppendState(nil)), k.sizes.keep(ctx, k.cfg.Store, k.epoch), k.keepShown(ctx, now, final)); err != nil {
		k.tally.notice(noticeStore, notTaken(err))
		k.log.Error("strategy's state not kept", "err", err)
	} else if k.pending == nil && len(k.dirty)+len(k.records) == 0 {
		k.tally.notice(noticeStore, "")
	}
}
