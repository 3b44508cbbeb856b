package manager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"shoal/channel"
	"shoal/channel/lease"
	"shoal/coords"
	"shoal/internal/plain"
	"shoal/manager/archive"
	"shoal/manager/conduct"
	"shoal/manager/dispatch"
	"shoal/overlay"
	"shoal/recrawl"
)

// learner takes in what the archive's feed tells. Owned by the loop.
type learner struct {
	*core
	keep    *keeper
	near    *nearness
	tune    *tuning
	pace    *pace
	errands *errands
	auditor *auditor

	accused accused
	parties parties
	heard   time.Time // up to when the feed was read; zero: not to its end yet since the start
}

const feedBatch = 256 // feed entries taken in with one transaction

// feedback takes in what the archive's feed tells, each entry exactly once: its effects and the feed's cursor are committed in one
// transaction. What could not be committed is kept and tried again before anything more is read. It reports whether there was any.
func (le *learner) feedback(ctx context.Context) (bool, error) {
	if le.keep.pending != nil {
		if err := le.keep.commit(ctx); err != nil {
			return false, err
		}
	}
	if le.tenancy.resting() {
		return false, nil
	}
	began := le.cfg.Now()
	entries, next, err := le.cfg.Archive.Feed(ctx, le.keep.cursor, feedBatch)
	if errors.Is(err, archive.ErrCursor) || errors.Is(err, archive.ErrTrimmed) { // rebuilt or replaced; what was applied is not applied again
		le.log.Warn("the archive does not know how far its feed was read; reading all of it", "err", err)
		entries, next, err = le.cfg.Archive.Feed(ctx, "", feedBatch)
	}
	if err != nil {
		return false, fmt.Errorf("read the archive's feed: %w", err)
	}
	if next == le.keep.cursor {
		le.heard = began
		le.tenancy.arrived()
		return false, nil
	}
	now := le.keep.now()
	effects := newEffects(le.keep.cursor, next, now)
	if err := errors.Join(le.readFor(ctx, entries, effects), le.readHolders(ctx, entries, effects)); err != nil {
		return false, err
	}
	le.keep.pending = effects
	before := effects.from
	for _, e := range entries {
		le.takeIn(now, before, e)
		before = e.Cursor
	}
	le.keep.cursor = next
	le.crawlWhole(now)
	le.crawlAsked(now)
	return true, le.keep.commit(ctx)
}

// readFor reads all that a stretch of the feed needs of the database, so that nothing of it is taken in while that cannot be read: at once, since the loop waits
// for it.
func (le *learner) readFor(ctx context.Context, entries []archive.Entry, into *effects) error {
	var ids []channel.ID
	var hosts []string
	for i := range entries {
		e := &entries[i]
		if host := le.errands.hostOf(e.Channel); host != "" && leaves(&e.Event) {
			hosts = append(hosts, host)
		}
		if s, ok := le.table.Find(e.Channel); ok && (leaves(&e.Event) || !le.keep.holds(s)) { // else an errand, or removed meanwhile
			ids = append(ids, e.Channel)
		}
	}
	chs, err := le.keep.channels(ctx, ids)
	if err != nil {
		return err
	}
	for i := range entries {
		e := &entries[i]
		s, ok := le.table.Find(e.Channel)
		if !ok || !leaves(&e.Event) || into.read[s] != nil {
			continue
		}
		ch := chs[e.Channel]
		if ch == nil && le.tenancy != nil { // another manager has removed it, and its note is under way
			if until, out := le.machine.StandOff(le.keep.now(), s); out { // who has its task may be at the host until it hears
				le.machine.Leave(le.table.Host(s), until)
			}
			le.tenancy.roster.release(s)
			continue
		}
		if ch == nil {
			return fmt.Errorf("channel %d has gone from the database, which must be damaged: stop the manager, and restore its folder from a backup", e.Channel)
		}
		into.read[s] = &ch.Channel
		hosts = append(hosts, ch.Scope.Host)
	}
	return le.keep.hostRecords(ctx, hosts)
}

// takeIn applies one entry to what the loop holds, and notes what must become durable.
func (le *learner) takeIn(now time.Time, before string, e archive.Entry) {
	s, ok := le.errands.slotOf(e.Channel)
	if !ok {
		s, ok = le.table.Find(e.Channel)
	}
	if !ok { // removed meanwhile, or of another manager
		le.errands.heardElsewhere(now, e.Channel, e.Event, e.Peer)
		return
	}
	le.holder(&e)
	if ch := le.keep.pending.read[s]; ch != nil && leaves(&e.Event) {
		le.leaveHost(now, ch.Scope.Host, &e)
	}
	heard, err := le.machine.Hear(now, s, e.Event, dispatch.Peer(e.Peer))
	if err != nil { // what it needs was read before
		le.log.Error("event not taken in", "channel", e.Channel, "err", err)
		return
	}
	if isErrand(s) {
		le.weighPeer(now, heard, &e)
		if host := le.errands.hostOf(e.Channel); host != "" && leaves(&e.Event) {
			le.leaveHost(now, host, &e)
		} else if at := le.errands.at(s); host == "" && at.host != 0 && leaves(&e.Event) { // its errand was answered by another one's task
			le.machine.Leave(at.host, le.rested(now, &e, le.cfg.Gap))
		}
		le.errands.heard(now, s, e.Event, e.Peer, heard.Effect)
		le.after(now)
		return
	}
	if n := brought(&e); n > 0 && heard.Effect != 0 {
		le.auditor.reported(before, &e, n)
	}
	if heard.Effect&lease.Persist != 0 {
		if _, ok := le.keep.pending.slots[s]; !ok {
			le.keep.pending.slots[s] = nil
		}
	}
	switch e.Event.Kind {
	case lease.Claimed, lease.Revived:
		deliveries{le.auditor}.claimEnded(e.Channel)
		le.event(s, e.When, e.Event.Gen, e.Event.Kind.String(), e.Peer, "")
	case lease.Lapsed, lease.Released:
		le.event(s, e.When, e.Event.Gen, e.Event.Kind.String(), e.Peer, "")
	case lease.Brought:
		le.again(s, e.When, e.Event.Gen, e.Event.Kind.String(), e.Peer, "pages, after its lease was over")
	}
	le.weighPeer(now, heard, &e)
	if heard.Effect&lease.Apply != 0 && e.Report != nil {
		le.learn(now, s, heard, e)
	}
	le.after(now)
}

// weighPeer tells the overlay what a peer made of its task: that it brought pages, or that it wasted the task. A claim tells nothing: a peer can claim
// every task and crawl none. Nor does what comes after the lapse, which was told.
func (le *learner) weighPeer(now time.Time, heard dispatch.Heard, e *archive.Entry) {
	if e.Peer == "" || heard.Effect == 0 || e.Event.Kind == lease.Brought {
		return
	}
	took := heard.Issued
	if took.IsZero() {
		took = e.When
	}
	wasted := e.Wrong > 0 || e.Fault != ""
	switch e.Event.Kind {
	case lease.Lapsed:
		wasted = true
		le.noteWaste(now, took, e.Peer, conduct.Lapsed)
	case lease.Released:
		if e.Event.By != 0 && heard.Ran { // else the archive took it back, or the peer is back from where it was when the lease lapsed
			le.cfg.Swarm.GaveBack(overlay.ID(e.Peer))
		}
		if !e.Event.Progress && e.Event.By != 0 {
			wasted = true
			if e.Fault == "" { // the archive tells of what it refused itself
				le.noteWaste(now, took, e.Peer, conduct.Empty)
			}
		}
	case lease.Reported:
		if e.Report != nil && e.Report.Pages > 0 {
			le.noteDeed(now, e.Peer, conduct.Delivered, 1)
			le.noteDeed(now, e.Peer, conduct.Pages, e.Report.Pages)
		}
		if !wasted && e.Report != nil && e.Report.Outcome == channel.Updated && e.Report.Pages > 0 {
			le.cfg.Swarm.Delivered(overlay.ID(e.Peer))
		}
	}
	if !wasted {
		return
	}
	le.cfg.Swarm.Wasted(overlay.ID(e.Peer), took)
}

// learn takes in a report that counts.
func (le *learner) learn(now time.Time, s recrawl.Slot, heard dispatch.Heard, e archive.Entry) {
	r := e.Report
	l, host := &le.keep.pending.read[s].Learnt, le.keep.pending.read[s].Scope.Host
	le.keep.pending.slots[s] = l
	le.tally.report(r)
	changed := r.New+r.Changed+r.Gone > 0
	l.Gen, l.Out = heard.Issue.Gen, heard.Issue.Out()
	l.LastOutcome, l.LastError = r.Outcome, r.Reason
	ev := recrawl.Event{Kind: recrawl.Failed, Wait: -1}
	said := counts
	switch r.Outcome {
	case channel.Updated:
		le.tally.updates++
		if r.Pages > 0 {
			delete(le.accused, channel.KeyOf(host))
			le.succeeded(s, e.Peer)
		}
		l.Failed = 0
		if l.Visits == 0 {
			le.tally.visited++
		}
		// Of a first visit, and of one that had more room than the last one, new pages are mostly none of the channel's.
		changed = changed && (l.Visits > 0 && !le.table.Grows(s) || r.Changed+r.Gone > 0)
		took := max(0, r.Ended.Sub(r.Started)) // by the peer's clock, which may have been set back meanwhile
		ev = recrawl.Event{Kind: recrawl.Updated, Changed: changed, Wait: -1, Service: le.ticks(took)}
		if !heard.Issued.IsZero() {
			ev.Wait = le.ticks(r.Started.Sub(heard.Issued))
		}
		le.keep.pending.crawled[s] = tookIn(r, l)
		le.sizes.crawled(l, r.Pages)
		l.Updated, l.Visits, l.Pages = now, l.Visits+1, r.Pages
		le.tune.weigh(s, Importance(&le.keep.pending.read[s].Settings), r.Pages)
		l.Service = took
		if changed {
			l.Changed, l.Changes = now, l.Changes+1
		}
		if last := le.sched.Facts(s).Updated; last > 0 {
			l.History = recrawl.AppendVisit(l.History, float64(le.clock.At(now)-last), changed)
		}
		le.table.SetLinks(s, 0)
		grows := r.Truncated && r.Left > 0
		if le.table.SetGrows(s, grows); grows {
			l.Budget = min(max(l.Budget, le.cfg.FirstBudget)*budgetGrowth, le.cfg.MaxBudget)
		}
		le.pace.learn(r)
	case channel.HostBlocked:
		le.refusedBy(now, host, &e, le.failing(now, s, &e))
	case channel.Failed, channel.Refused:
		l.LastError = whatFailed(r)
		if said = le.failing(now, s, &e); said != repeated {
			l.Failed++
		}
	}
	le.learnHost(host, e)
	le.discover(s, r.Inter)
	le.event(s, now, e.Event.Gen, OutcomeWord(r.Outcome), e.Peer, reportNote(r))
	le.sched.Observe(le.clock.At(now), s, ev)
	le.machine.NotBefore(s, time.Time{})
	switch {
	case r.Outcome == channel.Failed, r.Outcome == channel.Refused:
		le.failed(now, s, l, said)
	case r.Outcome == channel.HostBlocked:
		le.asNew(s) // the host waits, or is blocked
	}
}

// tookIn is the time up to which a crawl has taken in the URLs that other crawls found: when its task was issued, as its body was made then, or little later.
// The peer may have begun hours after, but its clock may also have been behind.
func tookIn(r *channel.Report, l *channel.Learnt) time.Time {
	if !l.Submitted.IsZero() && l.Submitted.Before(r.Started) {
		return l.Submitted
	}
	return r.Started
}

// learnHost keeps what a report tells of the host: where it is, how often it may be visited.
func (le *learner) learnHost(name string, e archive.Entry) {
	if e.Report.RTT > 0 {
		key := channel.KeyOf(name)
		if p := le.cfg.Swarm.View().Find(overlay.ID(e.Peer)); p != nil {
			le.near.learn(key)
			le.keep.records[key].Record.Add(coords.Sample{Vantage: e.Peer, At: p.Coord, RTT: e.Report.RTT, When: e.Report.Ended.Unix()})
		}
	}
}

// leaves reports whether a peer leaves a host with an event: it ends its crawl, or its lease has ended.
func leaves(e *lease.Event) bool {
	return e.Kind == lease.Reported || e.Kind == lease.Released || e.Kind == lease.Lapsed
}

// leaveHost leaves a host alone after a visit for as long as its robots.txt, its last answers and the network's own gap want. A look at some pages of it counts as a
// visit, too, and so does a crawl that another peer is to go on with. The archive's clock counts, since a peer's may be wrong.
func (le *learner) leaveHost(now time.Time, name string, e *archive.Entry) {
	h := le.keep.records[channel.KeyOf(name)]
	if e.Report != nil && e.Report.Gap > 0 {
		h.CrawlDelay = e.Report.Gap
	}
	gap := max(h.CrawlDelay, le.cfg.Gap)
	if e.Report != nil { // this once: it is no delay between any two requests
		gap = max(gap, min(e.Report.Rest, channel.UsualRest)) // more takes the word of two: see refusedBy
	}
	le.leave(now, h, le.rested(now, e, gap))
}

// rested is when a host has rested for some time after an event by which a peer leaves it. The event was before now, whatever the clock showed.
func (c *core) rested(now time.Time, e *archive.Entry, gap time.Duration) time.Time {
	next := e.When.Add(gap)
	if e.Event.Kind == lease.Released && e.Event.Until.After(next) { // its holder may not have heard that it is over
		next = e.Event.Until
	}
	return c.soonest(now, next.Add(c.gain.after(e.When)-max(e.When.Sub(now), 0)))
}

// leave has a host left alone until then, or for longer if it is already, and its record say so.
func (c *core) leave(now time.Time, h *channel.Host, until time.Time) {
	key := channel.KeyOf(h.Name)
	c.machine.Leave(key, until)
	left(now, h, dispatch.LeftUntil(c.machine, key))
}

// left has a host's record say until when it is left alone.
func left(now time.Time, h *channel.Host, until time.Time) {
	h.NextVisit, h.Rest = until, max(until.Sub(now), time.Millisecond) // less is kept as not known
}

// reportedBlock begins the reason of a block that follows from what peers report.
const reportedBlock = "peers report: "

// Stays tells whether a host with this reason stays blocked when what reports have told of it is forgotten: the operator blocked it, or took it down.
func Stays(blocked string) bool { return blocked != "" && !strings.HasPrefix(blocked, reportedBlock) }

func (le *learner) blockHost(now time.Time, name, why string) {
	if le.machine.Blocked(channel.KeyOf(name)) != "" {
		return // the operator's reason stays
	}
	why = channel.Text(reportedBlock + cmp.Or(why, "it answers crawlers with refusals")) // a peer's reason may be as long as any may be
	le.keep.records[channel.KeyOf(name)].Blocked = why
	le.machine.Block(channel.KeyOf(name), why)
	le.tally.fault(kindHostBlocked)
	le.log.Warn("host blocked", "host", name, "why", why, "at", now)
}

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
	note := fmt.Sprintf("%s: %d new, %d changed, %d unchanged, %d gone", plain.Count(r.Pages, "page"), r.New, r.Changed, r.Unchanged+r.NearUnchanged, r.Gone)
	if r.Truncated {
		note += fmt.Sprintf("; %d URLs left by the page budget", r.Left)
	}
	if r.Reason != "" {
		note += "; " + r.Reason
	}
	return note
}

// failed has a channel wait whose crawl brought nothing, or gives it up if that counts. Called on the loop, after the scheduler was told.
func (le *learner) failed(now time.Time, s recrawl.Slot, l *channel.Learnt, said verdict) {
	if said != repeated && le.cfg.Failing.spent(l.Failed) {
		le.mark(now, s, fmt.Sprintf("%d crawls in a row failed, the last one: %s", l.Failed, l.LastError))
		return
	}
	le.asNew(s)
	if p := le.pause(said, l.Failed); p > 0 {
		le.machine.NotBefore(s, now.Add(p))
	}
}

// asNew lets a channel that was never crawled be due as soon as its pause is over: only that holds it back, not an interval of which nothing is known.
func (le *learner) asNew(s recrawl.Slot) {
	if le.sched.Facts(s).Updated == 0 {
		le.sched.Edit(s, func(f *recrawl.Facts) { f.Submitted = 0 })
	}
}

// mark gives a channel up.
func (le *learner) mark(now time.Time, s recrawl.Slot, reason string) {
	le.sched.Edit(s, func(f *recrawl.Facts) { f.Flags |= recrawl.Paused })
	le.tally.fault(kindGivenUp)
	le.event(s, now, le.keep.gen(s), "given up", "", reason)
	le.keep.setState(s, channel.Marked, reason)
	le.machine.NotBefore(s, time.Time{})
}
