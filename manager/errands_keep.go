package manager

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"shoal/channel"
	"shoal/channel/lease"
	"shoal/manager/archive"
	"shoal/manager/archive/evidence"
	"shoal/manager/trust"
	"shoal/recrawl"
)

// stateErrands names the audits that wait, or are out, in the database. Without them a restart would be the time to lie.
const stateErrands = "trust-errands"

const maxKeptErrands = 2048

// keptErrand is the stored form of an audit.
type keptErrand struct {
	Host  string       `json:"host"`
	Pages []keptWanted `json:"pages"`
	Apart []trust.Peer `json:"apart"`
	Until time.Time    `json:"until"`
	// One that is out has a place, and its issue there.
	Place int    `json:"place,omitempty"` // plus 1
	Issue []byte `json:"issue,omitempty"`
	// As which channel it is out, for a manager that goes on with it; Idle says that it has a place and was not handed out yet. Neither is known of versions before 0.2.0.
	ID   channel.ID `json:"id,omitempty"`
	Idle bool       `json:"idle,omitempty"`
	// Arbiter says that it is the arbiter's to make.
	Arbiter bool `json:"arbiter,omitempty"`
}

type keptWanted struct {
	URL     string     `json:"url"`
	Hash    uint64     `json:"hash"`
	Case    trust.Case `json:"case"`
	Fetched time.Time  `json:"fetched"`
	Dated   bool       `json:"dated,omitempty"`
	Rate    float64    `json:"rate,omitempty"`
}

// out reports whether a peer may be at it.
func (k *keptErrand) out() bool { return k.Place > 0 && !k.Idle }

// end is when it is of no use any more to a manager that goes on with it. Its host is left alone until a task by which it was out must have ended.
func (k *keptErrand) end(term, within time.Duration) time.Time {
	if k.out() {
		return k.Until.Add(2*term + within)
	}
	return k.Until
}

func (k *keptErrand) errand() *errand {
	e := &errand{host: k.Host, apart: k.Apart, until: k.Until}
	for _, w := range k.Pages {
		e.pages = append(e.pages, wanted{w.URL, w.Hash, w.Case, w.Fetched, w.Dated, w.Rate})
	}
	return e
}

// errandsState is the stored form of the audits that wait or are out. Disputes are in the evidence room, as open cases.
func (au *auditor) errandsState() ([]byte, error) {
	kept := []keptErrand{}
	keep := func(e *errand, place int, issue []byte) {
		if e == nil || e.dispute != nil || len(kept) >= maxKeptErrands {
			return
		}
		k := keptErrand{Host: e.host, Apart: e.apart, Until: e.until, Place: place, Issue: issue}
		if s := errandSlot + recrawl.Slot(place-1); place > 0 && au.machine.IsOut(s) {
			k.ID = au.errands.idOf(s)
		} else {
			k.Idle = place > 0
		}
		for _, w := range e.pages {
			k.Pages = append(k.Pages, keptWanted{w.url, w.hash, w.c, w.fetched, w.dated, w.rate})
		}
		kept = append(kept, k)
	}
	for i := range au.errands.places {
		issue, ok := au.machine.Issue(errandSlot + recrawl.Slot(i))
		if !ok {
			issue = au.errands.places[i].issue
		}
		keep(au.errands.places[i].errand, i+1, issue.Append(nil))
	}
	for _, e := range au.errands.waits {
		keep(e, 0, nil)
	}
	for _, t := range au.visits.waits {
		if n := len(kept); t.number == 0 {
			if keep(&errand{host: t.origin, pages: []wanted{t.wanted}, until: t.until}, 0, nil); len(kept) > n {
				kept[n].Arbiter = true
			}
		}
	}
	for _, k := range au.earlier {
		if len(kept) < maxKeptErrands && au.cfg.Now().Before(k.Until) {
			kept = append(kept, k)
		}
	}
	return json.Marshal(kept)
}

// restoreErrands goes on with the audits that waited or were out when the manager before this one ended. One of several does not, as their hosts may be another
// manager's by now: it leaves the hosts alone at which they are, and who takes the hosts goes on with them (takeErrands). It finds them though this manager writes
// its own meanwhile.
func (au *auditor) restoreErrands(ctx context.Context, now time.Time) error {
	b, err := au.cfg.Store.State(ctx, stateErrands)
	if err != nil {
		return fmt.Errorf("read the audits that were under way: %w", err)
	}
	var kept []keptErrand
	if b == nil {
		return nil
	}
	if err := json.Unmarshal(b, &kept); err != nil {
		au.log.Warn("the audits that were under way cannot be read, and are lost", "err", err)
		return nil
	}
	for _, k := range kept {
		if len(k.Pages) == 0 || now.After(k.Until) {
			continue
		}
		ahead := max(k.Until.Sub(now.Add(au.trust.Config().WithinAudit)), 0) // the clock was, by as much at least
		k.Until = k.Until.Add(-ahead)
		if au.tenancy != nil {
			if au.earlier = append(au.earlier, k); k.out() {
				au.machine.Leave(channel.KeyOf(k.Host), au.soonest(now, now.Add(2*au.cfg.Terms.Term)))
			}
			continue
		}
		e := k.errand()
		if k.Arbiter && au.cfg.Arbiter == nil { // it was switched off meanwhile: a peer looks, if there is one that may
			k.Arbiter, e.apart = false, []trust.Peer{e.pages[0].c.Accused}
		}
		issue, err := lease.ParseIssue(k.Issue)
		switch {
		case k.Arbiter:
			au.visits.add(now, &dispute{wanted: e.pages[0], origin: e.host})
		case k.Place < 1 || k.Place > errandPlaces || err != nil || au.errands.places[k.Place-1].errand != nil:
			au.errands.waits = append(au.errands.waits, e)
		default:
			issue.Restore()
			issue.Advance(ahead)
			au.errands.places[k.Place-1] = errandPlace{errand: e, issue: issue}
			au.machine.Restore(now, errandSlot+recrawl.Slot(k.Place-1), issue)
			if !au.machine.IsOut(errandSlot + recrawl.Slot(k.Place-1)) {
				au.machine.Forget(errandSlot + recrawl.Slot(k.Place-1))
				au.errands.places[k.Place-1].errand = nil
				au.errands.waits = append(au.errands.waits, e)
			}
		}
	}
	return nil
}

// reopenEvery is how often is looked for cases of which a ruling broke off.
const reopenEvery = time.Hour

// ruleAgain has such cases ruled on now and then. Called on the loop.
func ruleAgain(au *auditor, now time.Time) {
	if now.Sub(au.reopened).Abs() < reopenEvery {
		return
	}
	au.reopened = now
	au.clerk(0, "contested pages are not ruled on", au.reopen)
}

// reopen has the cases ruled on that were open when the manager before this one ended, or when another one gave their hosts away, and those of which a ruling broke off. Clerks call it.
func (au *auditor) reopen(ctx context.Context) error {
	all, err := au.cfg.Evidence.Unclosed(ctx)
	if err != nil {
		return err
	}
	var failed []error
	for _, number := range all {
		if err := au.reopenOne(ctx, number); err != nil {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

func (au *auditor) reopenOne(ctx context.Context, number uint64) error {
	k, err := au.cfg.Evidence.Read(ctx, number)
	if err != nil {
		return err
	}
	origin, ours := channel.Origin(k.URL), false
	if err := au.do(ctx, func(time.Time) { ours = au.tenancy.mine(channel.KeyOf(origin)) && !au.courts[number] }); err != nil || !ours {
		return err
	}
	said, seen := k.Side(evidence.Delivered), k.Side(evidence.Checked)
	p, err := au.cfg.Archive.Record(ctx, k.About.Channel, k.About.URL)
	switch {
	case errors.Is(err, archive.ErrNotFound) || err == nil && (said.Features() == nil || seen.Features() == nil): // the page is gone, or there is nothing to compare
		return au.cfg.Evidence.Close(ctx, number)
	case err != nil:
		return err
	}
	w := (&delivered{}).wanted(&p, k.About)
	w.url = k.URL
	t := &dispute{wanted: w, origin: origin, number: number, ruling: trust.Ruling{Evidence: trust.Evidence{
		Case: k.About, Delivered: said.Features(), Checked: seen.Features(), Dated: w.dated, Said: seen.Modified(), Rate: w.rate, Delay: max(seen.Fetched.Sub(said.Fetched), 0)}}}
	au.post(ctx, func(now time.Time) { au.contest(now, t) })
	return nil
}
