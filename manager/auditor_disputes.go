package manager

import (
	"context"
	"errors"
	"time"

	"shoal/channel"
	"shoal/manager/archive"
	"shoal/manager/archive/evidence"
	"shoal/manager/trust"
	"shoal/overlay"
)

// wanted is a page that another peer is to look at, with what its evidence needs.
type wanted struct {
	url     string
	hash    uint64
	c       trust.Case
	fetched time.Time // by the peer that is checked
	dated   bool      // the server says when the page changed
	rate    float64   // changes in a second
}

// dispute is a contested page on its way to a ruling. Owned by the loop; what does not change is read beside it.
type dispute struct {
	wanted
	origin string
	number uint64       // of the case in the evidence room; 0: it is an audit that no peer can make
	ruling trust.Ruling // of which record and host are missing
	needs  int          // fetches that are waited for
	until  time.Time    // when the arbiter need not look any more
	sides  []testimony  // that are not in the evidence room yet

	decides *archive.EvidenceFetch // the fetch that decides; nil: none has come
}

// testimony is what one more side of a case has seen.
type testimony struct {
	side  evidence.Side
	fetch *archive.EvidenceFetch
}

const disputeTime = 5 * time.Minute // in which other checkers decide

// answered takes in that a peer has looked at pages. Called on the loop.
func (au *auditor) answered(now time.Time, e *errand, id channel.ID, gen channel.Gen, peer string) {
	n := au.meet(overlay.ID(peer))
	au.clerk(e.pages[0].c.Channel, "what a checker has seen is lost", func(ctx context.Context) error { return au.look(ctx, e, id, gen, n) })
}

// clerk has a clerk do something. If that fails, or too much waits, what says what is lost. It reports whether a clerk will do it.
func (au *auditor) clerk(id channel.ID, what string, do func(ctx context.Context) error) bool {
	added := au.clerks.add(id, func(ctx context.Context) {
		if err := do(ctx); err != nil && ctx.Err() == nil {
			au.log.Warn(what, "channel", id, "err", err)
		}
	})
	if !added {
		au.log.Warn(what, "channel", id, "err", errTooMany)
	}
	return added
}

// look reads what a peer has seen, and hands it to the Machine, or to the dispute that wanted it. Clerks call it.
func (au *auditor) look(ctx context.Context, e *errand, id channel.ID, gen channel.Gen, by trust.Peer) error {
	answers, err := au.cfg.Evidence.Answers(ctx, id, gen)
	failed := []error{err}
	for _, w := range e.pages {
		var seen *archive.EvidenceFetch
		for _, f := range answers {
			if f.URL == w.url && f.Status != 0 {
				seen = f
			}
		}
		switch {
		case e.dispute != nil:
			au.post(ctx, func(now time.Time) { au.testified(now, e, seen) })
		case seen != nil:
			seen.By = by
			_, err := au.check(ctx, e.host, w, seen, by)
			failed = append(failed, err)
		}
	}
	return errors.Join(append(failed, au.cfg.Evidence.DropAnswers(ctx, id, gen))...)
}

// check hands a checker's fetch of a page to the Machine, and begins a dispute if that contests it. Clerks call it.
func (au *auditor) check(ctx context.Context, origin string, w wanted, seen *archive.EvidenceFetch, by trust.Peer) (*dispute, error) {
	said, err := au.said(ctx, w.url, w.c.Accused, w.c.At)
	if err != nil {
		return nil, err
	}
	ev := trust.Evidence{Case: w.c, Dated: w.dated, Said: seen.Modified(), Rate: w.rate, Delay: seen.Fetched.Sub(w.fetched)}
	ev.Delivered, ev.Checked = evidence.Both(said, seen)
	var t *dispute
	credit := func(was *trust.Page) (*archive.Worth, error) { return worth(ctx, au, w.url, said, seen, was) }
	err = au.withRecord(ctx, &w, credit, func(now time.Time, g *trust.Page) {
		ev.Page, ev.Host = g, au.learntOf(origin)
		acts := au.trust.Answered(now, by, &ev)
		if len(acts) > 0 && acts[0].Kind == trust.Arbitrate {
			t = &dispute{wanted: w, origin: origin, ruling: trust.Ruling{Evidence: ev}}
			t.c, t.ruling.Case = acts[0].Case, acts[0].Case
			return
		}
		au.follow(now, acts, delivered{})
	})
	if err != nil || t == nil {
		return nil, err
	}
	if t.number, err = au.cfg.Evidence.Open(ctx, t.c, t.url, seen); err != nil {
		return nil, err
	}
	if by != au.arbiter {
		au.post(ctx, func(now time.Time) { au.contest(now, t) })
	}
	return t, nil
}

// said is what a peer delivered of a page from a time on.
func (au *auditor) said(ctx context.Context, url string, by trust.Peer, at int64) (*archive.EvidenceFetch, error) {
	c, err := au.cfg.Archive.CaptureBy(ctx, url, by, at)
	if err != nil {
		return nil, err
	}
	return evidence.Of(&c), nil
}

// withRecord has the loop do something with a page's record, and stores it if it has changed. A page that is gone has none. credit tells what a version is credited for
// that is verified by it, whose record it was before; nil: what is stored.
func (au *auditor) withRecord(ctx context.Context, w *wanted, credit func(was *trust.Page) (*archive.Worth, error), do func(now time.Time, g *trust.Page)) error {
	p, err := au.cfg.Archive.Record(ctx, w.c.Channel, w.hash)
	gone := errors.Is(err, archive.ErrNotFound)
	if err != nil && !gone {
		return err
	}
	g := &p.Record
	if gone {
		g = nil
	}
	was := p.Record
	if err := au.do(ctx, func(now time.Time) { do(now, g) }); err != nil {
		return err
	}
	if gone || was == p.Record {
		return nil
	}
	j := archive.Judged{Hash: w.hash, Page: p.Record}
	if credit != nil && p.Record.Cur.State == trust.Verified && was.Cur.State != trust.Verified {
		if j.Worth, err = credit(&was); err != nil {
			return err
		}
	}
	return au.cfg.Archive.Judge(ctx, w.c.Channel, nil, []archive.Judged{j})
}

// contestLast begins the dispute of what the crawl before has said of a page. Called on the loop.
func (au *auditor) contestLast(c trust.Case, origin string, w wanted) {
	w.c = c
	au.clerk(c.Channel, "a contested page is not ruled on", func(ctx context.Context) error {
		said, err := au.said(ctx, w.url, c.Accused, c.At)
		if err != nil {
			return err
		}
		seen, err := au.said(ctx, w.url, c.Accuser, c.At)
		if err != nil {
			return err
		}
		t := &dispute{wanted: w, origin: origin, ruling: trust.Ruling{Evidence: trust.Evidence{
			Case: c, Delivered: said.Features(), Checked: seen.Features(), Dated: w.dated, Said: seen.Modified(), Rate: w.rate, Delay: max(seen.Fetched.Sub(time.Unix(c.At, 0)), 0)}}}
		if t.number, err = au.cfg.Evidence.Open(ctx, c, w.url, nil); err != nil {
			return err
		}
		au.post(ctx, func(now time.Time) { au.contest(now, t) })
		return nil
	})
}

// contest has a contested page looked at: by the arbiter, and by one more checker if one is wanted; without an arbiter by two more checkers. Called on
// the loop.
func (au *auditor) contest(now time.Time, t *dispute) {
	if au.courts[t.number] {
		return // it is before the court already
	}
	au.courts[t.number] = true
	au.counts.Arbitrations++
	t.needs = 1 // this call
	defer func() { au.ready(t) }()
	second := func(turn int) {
		e := &errand{host: t.origin, pages: []wanted{t.wanted}, apart: []trust.Peer{t.c.Accused, t.c.Accuser, t.c.Also}, dispute: t, turn: turn, until: now.Add(disputeTime)}
		if au.errands.ask(e) {
			t.needs++
		}
	}
	if !au.trust.Config().Arbiter {
		second(0)
		second(1)
		return
	}
	if au.visits.add(now, t) {
		t.needs++
	} else {
		au.log.Warn("the arbiter has too much to look at", "url", t.url)
	}
	if t.c.Second {
		second(0)
	}
}

// testified takes in what one more checker has seen of a contested page; nil: nothing. Called on the loop.
func (au *auditor) testified(_ time.Time, e *errand, seen *archive.EvidenceFetch) {
	if seen != nil {
		e.dispute.ruling.Others[e.turn] = seen.Features()
		if !au.trust.Config().Arbiter {
			e.dispute.decide(e.turn, seen)
		}
		e.dispute.sides = append(e.dispute.sides, testimony{evidence.Second + evidence.Side(e.turn), seen})
	}
	au.ready(e.dispute)
}

// decide takes in what one of two checkers has seen that decide without an arbiter. The first one's fetch does, where they agree. When the page changed is only known where
// they agree on that, too: it is what excuses, and what charges.
func (t *dispute) decide(turn int, seen *archive.EvidenceFetch) {
	if turn == 0 {
		t.decides = seen
	}
	if t.ruling.Modified = seen.Modified(); len(t.sides) > 0 && t.sides[0].fetch.Modified() != t.ruling.Modified {
		t.ruling.Modified = 0
	}
}

// unanswered takes in that no peer has looked at pages in time. Called on the loop.
func (au *auditor) unanswered(_ time.Time, e *errand) {
	if e.dispute != nil {
		au.ready(e.dispute)
	}
}

// ready has a dispute ruled on once all has come that is waited for. Called on the loop.
func (au *auditor) ready(t *dispute) {
	if t.needs--; t.needs == 0 && !au.clerk(t.c.Channel, "a contested page is not ruled on", func(ctx context.Context) error { return au.rule(ctx, t) }) {
		delete(au.courts, t.number) // reopen comes back to it
	}
}

// rule has the Machine rule on a dispute, and files what came of it. Clerks call it.
func (au *auditor) rule(ctx context.Context, t *dispute) error {
	defer au.post(ctx, func(time.Time) { delete(au.courts, t.number) })
	var charged []trust.Act
	var err error
	ruled := false
	if t.ruling.Unmoved, err = unmoved(ctx, au, t); err != nil {
		return err
	}
	err = au.withRecord(ctx, &t.wanted, nil, func(now time.Time, g *trust.Page) {
		ruled = true
		h := au.learntOf(t.origin)
		t.ruling.Page, t.ruling.Host = g, h
		acts := au.trust.Ruled(now, &t.ruling)
		au.learnt(t.origin, h)
		for _, a := range acts {
			if a.Kind == trust.Charge {
				charged = append(charged, a)
			}
		}
		au.follow(now, acts, delivered{})
	})
	if !ruled {
		return err
	}
	return errors.Join(err, t.file(ctx, au.cfg.Evidence, charged)) // who was charged must see for what, whether the page's record could be stored or not
}

// unmoved tells whether who said that nothing has changed may have been told so by the host. Clerks call it.
func unmoved(ctx context.Context, au *auditor, t *dispute) (bool, error) {
	if !t.c.Same || t.decides == nil {
		return false, nil
	}
	said, err := au.said(ctx, t.url, t.c.Accused, t.c.At)
	if errors.Is(err, archive.ErrNotFound) { // it is not kept any more
		return false, nil
	}
	return err == nil && said.Unmoved(t.decides), err
}

// file files what came of a dispute. Who is charged beside the two sides, having vouched for what lost, has a case of its own: it is told of that, and can object.
func (t *dispute) file(ctx context.Context, room Evidence, charged []trust.Act) error {
	end := func(number uint64, loser trust.Peer, amount, score float64, note string) error {
		for _, s := range t.sides {
			if err := room.Put(ctx, number, s.side, s.fetch); err != nil {
				return err
			}
		}
		if err := room.Ruled(ctx, number, loser, amount, score, note); err != nil {
			return err
		}
		return room.Close(ctx, number)
	}
	ruled := false
	for _, a := range charged {
		number := t.number
		if a.Peer != t.c.Accused && a.Peer != t.c.Accuser {
			about := t.c
			about.Accused, about.Also = a.Peer, 0
			var err error
			if number, err = room.Open(ctx, about, t.url, nil); err != nil {
				return err
			}
		} else {
			ruled = true
		}
		if err := end(number, a.Peer, a.Amount, a.Score, a.Reason.String()); err != nil {
			return err
		}
	}
	if ruled {
		return nil
	}
	why := "no evidence: what was seen differs at each look, or could not be seen again"
	if t.ruling.Unmoved {
		why = "no evidence: the host still names what came with the version that was delivered before, so that it may have said itself that nothing has changed"
	}
	return end(t.number, 0, 0, 0, why)
}

// hasChecker tells whether a peer is known that may check what another one delivered. Called on the loop.
func (au *auditor) hasChecker(of trust.Peer) bool {
	v := au.cfg.Swarm.View()
	for i := range v.Peers {
		if v.Peers[i].Load.Threads > 0 && au.trust.MayCheck(au.meet(v.Peers[i].ID), of) {
			return true
		}
	}
	return false
}
