package manager

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"shoal/channel"
	"shoal/channel/lease"
	"shoal/coords"
	"shoal/manager/archive"
	"shoal/manager/dispatch"
	"shoal/overlay"
	"shoal/recrawl"
)

// TestLateReportOfAnErrandFreesItsHost has the first peer of an errand report when a second one has it: the errand is answered, its host stays occupied while the second
// one may be there, and is free then.
func TestLateReportOfAnErrandFreesItsHost(t *testing.T) {
	const name = "https://a.example"
	now := time.Unix(1e9, 0)
	terms := lease.Terms{Term: time.Minute}
	c := &core{cfg: Config{Terms: terms}, table: dispatch.NewTable()}
	er := &errands{core: c, first: errandID, answers: func(time.Time, *errand, channel.ID, channel.Gen, string) {}, gaveUp: func(time.Time, *errand) {}}
	c.machine = dispatch.New(now, dispatch.Config{Terms: terms, Beside: errandSlot}, dues{}, book{c.table, nil, nil, er}, nil)
	s, e := errandSlot, &errand{host: name, until: now.Add(time.Hour), pages: []wanted{{}}}
	p := er.at(s)
	var issue lease.Issue
	for range 2 {
		if _, err := issue.Next(now, now.Add(10*time.Minute), terms); err != nil {
			t.Fatal(err)
		}
		if issue.Gen == 1 { // it lapsed, and the errand went again
			issue.Apply(now, lease.Event{Seq: 1, Kind: lease.Claimed, Gen: 1}, terms)
			issue.Apply(now, lease.Event{Seq: 2, Kind: lease.Lapsed, Gen: 1}, terms)
			issue.Tick(now, terms)
		}
	}
	*p = errandPlace{errand: e, issue: issue}
	c.machine.Restore(now, s, issue)
	hear := func(ev lease.Event) {
		t.Helper()
		h, err := c.machine.Hear(now, s, ev, "")
		if err != nil {
			t.Fatal(err)
		}
		er.heard(now, s, ev, "a", h.Effect)
	}
	hear(lease.Event{Seq: 3, Kind: lease.Reported, Gen: 1})
	if p.errand != nil || !c.machine.IsOut(s) || c.machine.Visit(now, channel.KeyOf(name)) {
		t.Fatalf("after the first report: errand %v, a task is out: %v", p.errand, c.machine.IsOut(s))
	}
	hear(lease.Event{Seq: 4, Kind: lease.Claimed, Gen: 2})
	hear(lease.Event{Seq: 5, Kind: lease.Reported, Gen: 2})
	if c.machine.IsOut(s) || !c.machine.Visit(now, channel.KeyOf(name)) {
		t.Error("the host stays occupied though nobody is there")
	}
}

// TestHostOfAnErrandThatNothingIsHeardOf has an errand's time be over, and the feed tell nothing of its task: the place is free, and the host is left alone until no peer can
// be there.
func TestHostOfAnErrandThatNothingIsHeardOf(t *testing.T) {
	const name = "https://a.example"
	now := time.Unix(1e9, 0)
	terms := lease.Terms{Term: time.Minute}
	c := &core{cfg: Config{Terms: terms}, table: dispatch.NewTable()}
	er := &errands{core: c, first: errandID, gaveUp: func(time.Time, *errand) {}}
	c.machine = dispatch.New(now, dispatch.Config{Terms: terms, Beside: errandSlot}, dues{}, book{c.table, nil, nil, er}, nil)
	s, e := errandSlot, &errand{host: name, until: now.Add(time.Minute), pages: []wanted{{}}}
	var issue lease.Issue
	if _, err := issue.Next(now, e.until, terms); err != nil {
		t.Fatal(err)
	}
	issue.Apply(now, lease.Event{Seq: 1, Kind: lease.Claimed, Gen: 1}, terms)
	*er.at(s) = errandPlace{errand: e, issue: issue}
	c.machine.Restore(now, s, issue)
	over := e.until.Add(terms.Term + errandGap + time.Second)
	if er.tick(over); er.at(s).errand != nil || c.machine.IsOut(s) {
		t.Fatal("the place is not free")
	}
	if c.machine.Visit(over, channel.KeyOf(name)) || !c.machine.Visit(over.Add(terms.Term), channel.KeyOf(name)) {
		t.Error("the host is visited while a peer may be there, or not at all")
	}
}

// lateTaker is a swarm in which a peer takes each task, to begin it in an hour.
type lateTaker struct {
	Swarm
	now time.Time
}

func (l lateTaker) Place(context.Context, channel.Signed, channel.Header, coords.HostRecord, overlay.Named) (overlay.Placed, error) {
	return overlay.Placed{Start: l.now.Add(time.Hour)}, nil
}

// keepsTasks is an archive that takes tasks back, or cannot.
type keepsTasks struct {
	Archive
	away error
}

func (k keepsTasks) TakeBack(ctx context.Context, id channel.ID, gen channel.Gen) error {
	if k.away != nil {
		return k.away
	}
	return k.Archive.TakeBack(ctx, id, gen)
}

// TestErrandThatIsNotTakenBack has a peer take an audit that it would begin too late. If the archive takes the task back, no peer has it, and it is offered again; if that
// fails, the peer may claim it still, and it counts as out.
func TestErrandThatIsNotTakenBack(t *testing.T) {
	for _, away := range []error{nil, errors.New("the archive is away")} {
		a, p, now := audited(t)
		p.cfg.Archive, p.cfg.Swarm = keepsTasks{a, away}, lateTaker{now: *now}
		p.tally = newTally(*now)
		p.log, p.inbox = slog.New(slog.DiscardHandler), newInbox(func() time.Time { return *now })
		p.machine = dispatch.New(*now, dispatch.Config{Beside: errandSlot}, dues{}, nil, nil)
		er := &errands{core: p.core, first: errandID}
		p.hand = &handout{core: p.core, errands: er}
		j := anAudit(*now, 3, "/4")
		j.Slot = errandSlot
		er.at(errandSlot).errand = j.errand
		p.place(t.Context(), j)
		(<-p.requests)(*now)
		if is := er.at(errandSlot).errand != nil; is != (away != nil) {
			t.Errorf("taken back: %v; it counts as out: %v", away == nil, is)
		}
	}
}

// TestHostOfAnAnsweredErrandRestsWhileTheHolderMayNotKnow has a peer be banned that has the task of an errand which another one has answered: the host is left alone until that peer
// has stopped for certain.
func TestHostOfAnAnsweredErrandRestsWhileTheHolderMayNotKnow(t *testing.T) {
	key, now := channel.KeyOf("https://a.example"), time.Unix(1e9, 0)
	terms := lease.Terms{Term: time.Minute}
	c := &core{cfg: Config{Terms: terms, Gap: time.Second}, table: dispatch.NewTable(), inbox: newInbox(func() time.Time { return now })}
	c.inbox.after = func(time.Time) {}
	er := &errands{core: c, first: errandID, answers: func(time.Time, *errand, channel.ID, channel.Gen, string) {}}
	c.machine = dispatch.New(now, dispatch.Config{Clock: recrawl.Clock{Epoch: now, Step: time.Second}, Terms: terms, Beside: errandSlot}, dues{}, book{c.table, nil, nil, er}, nil)
	le := &learner{core: c, keep: newKeeper(c), errands: er}
	le.keep.pending = newEffects("", "", now)
	var issue lease.Issue
	if _, err := issue.Next(now, now.Add(time.Minute), terms); err != nil {
		t.Fatal(err)
	}
	issue.Apply(now, lease.Event{Seq: 1, Kind: lease.Claimed, Gen: 1}, terms)
	*er.at(errandSlot) = errandPlace{host: key, issue: issue}
	c.machine.Restore(now, errandSlot, issue)
	until := now.Add(40 * time.Second)
	le.takeIn(now, "", archive.Entry{Channel: errandID, When: now, Event: lease.Event{Seq: 2, Kind: lease.Released, Gen: 1, Until: until}})
	if c.machine.Visit(until.Add(-time.Millisecond), key) {
		t.Fatal("the host is visited while a peer may be there")
	}
	if !c.machine.Visit(until, key) {
		t.Error("the host is not visited though nobody is there")
	}
}
