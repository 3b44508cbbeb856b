package trustsim

import (
	"slices"
	"time"

	"shoal/channel"
	"shoal/manager/trust"
	"shoal/manager/trust/compare"
)

// facts are a page's change rate and whether it shows dates, as its archive knows them.
func (p *page) facts(e *trust.Evidence, delay int64) {
	e.Dated, e.Rate, e.Delay = p.dated, float64(p.rate), time.Duration(delay)*time.Second
}

// follow does what the machine wants. seen is the delivery that it follows from, if it does.
func (r *run) follow(now int64, acts []trust.Act, seen []trust.Seen) {
	for _, a := range acts {
		switch a.Kind {
		case trust.Audit:
			i := int32(a.URL - 1)
			said := r.web.pages[i].rec.Cur.Digest
			for n := range seen {
				if seen[n].URL == a.URL && seen[n].Digest != 0 {
					said = seen[n].Digest
				}
			}
			c := a.Case
			r.events.Push(now+60+int64(r.rng.IntN(240)), event{site: int32(a.Channel - 1), page: i, audit: &c, said: said})
		case trust.Arbitrate: // of the crawl before; those of audits are asked in check
			s := &r.web.sites[a.Channel-1]
			i := int(a.URL - 1)
			n := i - s.first
			d := seen[n].Digest
			r.arbitrate(now, a.Case, r.evidence[n], d, now-(a.At-clock(0).Unix()))
		case trust.Hold, trust.Accept:
			r.mark(now, a)
		case trust.Suspend:
			if m := r.byNumber(a.Peer); m != nil {
				m.gone, m.ended = true, now
			}
		case trust.Withdraw:
			r.withdraw(now, r.byNumber(a.Peer))
		case trust.LookBack:
			r.lookBack(now, r.byNumber(a.Peer), a.N)
		}
	}
}

// mark holds or accepts a delivery.
func (r *run) mark(now int64, a trust.Act) {
	s := &r.web.sites[a.Channel-1]
	for i := s.first; i < s.first+s.pages; i++ {
		r.settle(i, now)
		if a.Kind == trust.Hold {
			r.web.pages[i].rec.Hold(a.Peer, a.At)
		} else {
			r.web.pages[i].rec.Accept(a.Peer, a.At)
		}
	}
}

// withdraw takes back what a peer delivered, and crawls those sites first.
func (r *run) withdraw(now int64, m *member) {
	slices.Sort(m.sites)
	m.sites = slices.Compact(m.sites)
	for _, n := range m.sites {
		s, again := &r.web.sites[n], 0
		for i := s.first; i < s.first+s.pages; i++ {
			r.settle(i, now)
			g := &r.web.pages[i].rec
			if g.Withdraw(m.number) {
				again++
			}
			for _, by := range [...]trust.Peer{g.Cur.By, g.Prev.By} { // for which m may have been the last to vouch
				if o := r.byNumber(by); o != nil && o.gone {
					g.Withdraw(by)
				}
			}
		}
		if again > 0 && !s.soon {
			s.soon = true
			s.turn++
			r.events.Push(now+600+int64(r.rng.IntN(7200)), event{site: n, page: -1, turn: s.turn})
		}
	}
}

// lookBack audits older pages of a new suspect.
func (r *run) lookBack(now int64, m *member, n int) {
	if len(m.sites) == 0 {
		return
	}
	for tries := 0; n > 0 && tries < 300; tries++ {
		x := m.sites[r.rng.IntN(len(m.sites))]
		s := &r.web.sites[x]
		i := s.first + r.rng.IntN(s.pages)
		g := &r.web.pages[i].rec
		if g.Cur.By != m.number || g.Cur.State == trust.Verified || g.Cur.State == trust.Withdrawn {
			continue
		}
		n--
		r.events.Push(now+60+int64(r.rng.IntN(1200)), event{site: x, page: int32(i), said: g.Cur.Digest,
			audit: &trust.Case{Reason: trust.LostAudit, URL: uint64(i) + 1, Channel: channel.ID(x + 1), Domain: s.domain, Accused: m.number, At: g.Cur.At, Old: true}})
	}
}

// check has a checker fetch an audited page.
func (r *run) check(now int64, e event) {
	s, i := &r.web.sites[e.site], int(e.page)
	c := r.checker(e.audit.Accused, 0)
	if c == nil {
		return
	}
	c.sites = append(c.sites, e.site)
	p := &r.web.pages[i]
	r.settle(i, now)
	d := r.checks(c, s, i, e.said, e.audit.Accused, now)
	r.kept.audits++
	ev := trust.Evidence{Case: *e.audit, Page: &p.rec, Host: &s.host, Delivered: features(p, i, e.said)}
	if ev.Checked = ev.Delivered; d != e.said { // most audits see what the delivery says
		ev.Checked = features(p, i, d)
	}
	age := now - (e.audit.At - clock(0).Unix())
	p.facts(&ev, age)
	acts := slices.Clone(r.machine.Answered(clock(now), c.number, &ev))
	r.credit(i)
	if m := r.byNumber(e.audit.Accused); m != nil && !m.liar && !c.liar {
		r.kept.honest++
	}
	for _, a := range acts {
		if a.Kind == trust.Arbitrate {
			r.arbitrate(now, a.Case, e.said, d, age)
		}
	}
	r.follow(now, slices.DeleteFunc(acts, func(a trust.Act) bool { return a.Kind == trust.Arbitrate }), nil)
}

// checker draws an established peer that may check two others.
func (r *run) checker(a, b trust.Peer) *member {
	for range 200 {
		if m := r.members[r.rng.IntN(len(r.members))]; !m.gone && r.machine.MayCheck(m.number, a, b) {
			return m
		}
	}
	return nil
}

// arbitrate has the arbiter fetch a contested page.
func (r *run) arbitrate(now int64, c trust.Case, delivered, checked uint64, age int64) {
	i := int(c.URL - 1)
	s, p := &r.web.sites[c.Channel-1], &r.web.pages[c.URL-1]
	r.settle(i, now)
	truth := r.fetch(&r.arbiter, s, i, now+60, false)
	r.kept.arbiter++
	ru := trust.Ruling{Evidence: trust.Evidence{Case: c, Page: &p.rec, Host: &s.host, Delivered: features(p, i, delivered), Checked: features(p, i, checked)}, Arbiter: features(p, i, truth)}
	p.facts(&ru.Evidence, age)
	if p.dated && sourceOf(truth) == real {
		ru.Modified = clock(p.since).Unix()
	}
	if c.Second {
		if k := r.checker(c.Accused, c.Accuser); k != nil {
			ru.Others = [2]*compare.Features{features(p, i, r.checks(k, s, i, delivered, c.Accused, now+60)), nil}
			r.kept.audits++
		}
	}
	acts := slices.Clone(r.machine.Ruled(clock(now), &ru))
	r.credit(i)
	for _, a := range acts {
		if m := r.byNumber(a.Peer); a.Kind == trust.Charge && a.Reason == trust.LostAudit && m != nil && !m.liar {
			r.kept.honestLost++
		}
	}
	r.follow(now, acts, nil)
}
