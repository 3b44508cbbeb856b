package manager

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"shoal/channel"
	"shoal/channel/lease"
	"shoal/manager/archive"
	"shoal/manager/trust"
	"shoal/overlay"
)

// pondNames end the names of hosts of a synthetic Web. Each counts as a domain of its own, since all are of one.
const pondNames = ".pond.test"

// domainOf is the registrable domain of an origin, as a number.
func domainOf(origin string) uint64 {
	site := siteOf(origin)
	if strings.HasSuffix("."+site, pondNames) {
		_, site, _ = strings.Cut(origin, "://")
	}
	return channel.URLHash(site)
}

// brought is how many pages an entry of the feed says that a claim brought, about.
func brought(e *archive.Entry) int {
	switch e.Event.Kind {
	case lease.Reported:
		if e.Report != nil {
			return e.Report.Pages
		}
	case lease.Lapsed, lease.Released, lease.Brought: // what was stored of it stays
		if e.Event.Progress && e.Event.By != 0 {
			return 1
		}
	}
	return 0
}

// judge hands a delivery to the Machine, and stores what that makes of its pages. Clerks call it.
func (au *auditor) judge(ctx context.Context, by overlay.ID, id channel.ID, gen channel.Gen) error {
	d, err := au.cfg.Archive.Delivery(ctx, id, gen)
	if err != nil || d.Size() == 0 {
		return err
	}
	origin := d.Host
	records := make([]archive.Judged, len(d.Pages))
	td := trust.Delivery{Peer: d.Deliverer, Channel: id, Domain: domainOf(origin), At: d.Claimed, Quiet: d.Quiet}
	if td.Pages, err = seen(ctx, au, &d, records); err != nil {
		return err
	}
	err = au.do(ctx, func(now time.Time) {
		au.meet(by) // it may have been forgotten since
		acts := au.trust.Deliver(now, &td)
		au.counts.Deliveries++
		au.counts.Pages += int64(d.Size())
		au.follow(now, acts, delivered{&d, records, origin})
	})
	if err != nil {
		return err
	}
	if err := crawlsWorth(ctx, au, &d, records); err != nil {
		return err
	}
	if err := au.cfg.Archive.Judge(ctx, id, &d, records); err != nil {
		return fmt.Errorf("store what became of the pages of channel %d: %w", id, err)
	}
	return nil
}

// delivered is a delivery whose records are in hand.
type delivered struct {
	*archive.Delivery
	records []archive.Judged
	origin  string
}

// find is a page of the delivery by its hash; nil: it is none.
func (d *delivered) find(hash uint64) *archive.Delivered {
	if d.Delivery == nil {
		return nil
	}
	for i := range d.Pages {
		if d.Pages[i].Hash == hash {
			return &d.Pages[i]
		}
	}
	return nil
}

// wanted is what a page's audit needs to know of it.
func (d *delivered) wanted(p *archive.Delivered, c trust.Case) wanted {
	w := wanted{url: p.URL, hash: p.Hash, c: c, fetched: p.Fetched, dated: p.Modified > 0}
	if lived := p.Fetched.Sub(p.First); lived > 0 && p.Visits > 1 {
		w.rate = float64(p.Changes) / lived.Seconds()
	}
	return w
}

// follow does what the Machine asks for. d is the delivery that it follows from, if its records are in hand. Called on the loop.
func (au *auditor) follow(now time.Time, acts []trust.Act, d delivered) {
	var asked []wanted
	var quiet []trust.Case
	separate := false
	for i := range acts {
		a := &acts[i]
		switch a.Kind {
		case trust.Audit:
			au.counts.Audits++
			separate = a.Apart
			if p := d.find(a.URL); p != nil {
				asked = append(asked, d.wanted(p, a.Case))
			} else {
				quiet = append(quiet, a.Case)
			}
		case trust.Arbitrate:
			if p := d.find(a.URL); p != nil {
				au.contestLast(a.Case, d.origin, d.wanted(p, a.Case))
			}
		case trust.Hold, trust.Accept:
			au.mark(a, d)
		case trust.Watch:
			au.log.Info("a channel is on watch", "channel", a.Channel)
			heir{au}.onWatch(a.Channel)
		case trust.Suspect, trust.WouldSuspend, trust.Graduate:
			au.told(a)
		case trust.LookBack:
			au.lookBack(a)
		case trust.Charge:
			au.counts.Charges++
			if a.Reason == trust.NothingChanged {
				au.fileStill(a, &d)
			}
		case trust.Suspend:
			au.suspended(now, a)
		case trust.Withdraw:
			au.withdraw(now, a.Peer, true)
		case trust.Restore:
			au.withdraw(now, a.Peer, false)
		}
	}
	au.audit(now, d.origin, asked, separate)
	if len(quiet) > 0 {
		au.auditQuiet(d.origin, quiet, separate)
	}
}

// auditQuiet has pages audited of which a delivery said nothing new: their records are not in hand.
func (au *auditor) auditQuiet(origin string, cases []trust.Case, separate bool) {
	id := cases[0].Channel
	au.clerk(id, "pages are not audited", func(ctx context.Context) error {
		var asked []wanted
		for _, c := range cases {
			p, err := au.cfg.Archive.Record(ctx, id, c.URL)
			if errors.Is(err, archive.ErrNotFound) { // it has gone since
				continue
			} else if err != nil {
				return err
			}
			asked = append(asked, (&delivered{}).wanted(&p, c))
		}
		au.post(ctx, func(now time.Time) { au.audit(now, origin, asked, separate) })
		return nil
	})
}

// fileStill files the one charge that needs no second fetch: pages that differ at each fetch were all called unchanged. The case shows the first of them, as it
// was delivered, and names how many there were.
func (au *auditor) fileStill(a *trust.Act, d *delivered) {
	p := d.find(a.URL)
	if p == nil {
		return
	}
	dynamic := 0
	for i := range d.records {
		if d.records[i].Was.IsDynamic() {
			dynamic++
		}
	}
	c := trust.Case{Reason: a.Reason, URL: a.URL, Channel: a.Channel, Domain: domainOf(d.origin), Accused: a.Peer, At: a.At, Same: true}
	url, loser, amount, score := p.URL, a.Peer, a.Amount, a.Score
	note := fmt.Sprintf("%s: %d pages of the task differ at each fetch, by visits of several accounts; all of them were said to be as they were", a.Reason, dynamic)
	au.clerk(a.Channel, "a case is not filed", func(ctx context.Context) error {
		number, err := au.cfg.Evidence.Open(ctx, c, url, nil)
		if err == nil {
			err = au.cfg.Evidence.Ruled(ctx, number, loser, amount, score, note)
		}
		if err != nil {
			return err
		}
		return au.cfg.Evidence.Close(ctx, number)
	})
}

// audit has pages of a delivery looked at by other peers: one looks at several, unless each page is to be looked at by another one.
func (au *auditor) audit(now time.Time, origin string, pages []wanted, separate bool) {
	if len(pages) == 0 {
		return
	}
	most := errandURLs
	if separate {
		most = 1
	}
	of, _ := au.trust.Peer(pages[0].c.Accused)
	for len(pages) > 0 {
		n := min(most, len(pages))
		e := &errand{host: origin, fresh: of.Standing == trust.Newcomer, pages: pages[:n:n], apart: []trust.Peer{pages[0].c.Accused}, until: now.Add(au.trust.Config().WithinAudit)}
		if au.hasChecker(e.apart[0]) {
			au.errands.ask(e)
		} else {
			au.arbiterChecks(now, e)
		}
		pages = pages[n:]
	}
}
