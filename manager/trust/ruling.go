package trust

import (
	"time"

	"shoal/manager/trust/compare"
)

// Evidence is a Case with what was fetched of its page.
type Evidence struct {
	Case      Case
	Page      *Page             // the record, which answers and rulings change; nil: the page is gone
	Host      *compare.Host     // what is learnt of the host, which rulings change
	Delivered *compare.Features // the accused's
	Checked   *compare.Features // the accuser's
	Dated     bool              // the server says when the page changed
	Said      int64             // as Seen.Modified, by the accuser's fetch
	Rate      float64           // changes of the page in a second
	Delay     time.Duration     // between the two fetches; negative: by their dates the accuser's was the first, though it was not
}

// misdated tells whether the delivery is dated later than what came after it, so that its clock was ahead and has been set right since. How long after the delivery somebody
// else looked is not known then, nor whether the page changed in between. The time of the claim is the archive's. The deliverer may choose the time of the fetch between the claim
// and when the page arrived, and the checker's claim comes after that: only the clocks of several archives can be apart, by no more than Slack.
func (e *Evidence) misdated(now time.Time, slack time.Duration) bool {
	return now.Unix() < e.Case.At || e.Delay < -slack
}

// Ruling is what decides a Case.
type Ruling struct {
	Evidence
	Arbiter  *compare.Features // nil: the arbiter could not fetch, or there is none
	Modified int64             // as Seen.Modified, by the arbiter's fetch; without one, by those of both others
	// Others are what two more checkers saw, of other accounts and prefixes than all that are involved. Without an arbiter both are needed; with one the
	// first seconds it. nil: could not be had.
	Others [2]*compare.Features
	// Unmoved says of an accused that had said that nothing changed that it may have been told so: by the fetch that decides, the page still has the validator or the digest
	// that came with the version before.
	Unmoved bool

	Seconded, Outside bool // found by Ruled
}

// Answered takes in a checker's fetch of a page that was to be audited.
func (m *Machine) Answered(now time.Time, checker Peer, e *Evidence) []Act {
	m.acts = m.acts[:0]
	p, c := m.peers[e.Case.Accused], m.peers[checker]
	if p == nil || c == nil || !m.believed(c) || !apart(p, c) || e.Delivered == nil || e.Checked == nil {
		return nil
	}
	r := e.tolerance().Compare(e.Delivered, e.Checked)
	if r.Verdict == compare.Conflict {
		if p.standing > Established {
			return nil // withdrawn already
		}
		if e.misdated(now, m.cfg.Slack) {
			return nil
		}
		if m.spent(p, &e.Case) { // the arbiter's fetch could add nothing
			if e.Case.Old && m.cfg.Enforce {
				m.doubt(Act{Kind: Hold, Peer: p.number, Channel: e.Case.Channel, At: e.Case.At})
			}
			return m.take()
		}
		k := e.Case
		k.Accuser = checker
		m.do(Act{Kind: Arbitrate, Peer: k.Accused, Channel: k.Channel, URL: k.URL, At: k.At, Reason: k.Reason, Case: k})
		return m.take()
	}
	m.valid(p, e)
	if e.Page != nil {
		e.Page.Blind = 0
	}
	if e.Page != nil && (r.Verdict == compare.Same || e.Page.IsDynamic() && !r.Begun) && e.Page.shows(p.number, e.Case.At) {
		m.corroborate(e.Page, c, e.Page.IsDynamic() && (compare.Host{}).Compare(e.Delivered, e.Checked).Verdict != compare.Same)
	}
	m.credit(c, m.cfg.DriftCheck, Checking)
	return m.take()
}

// tolerance is how much two honest fetches of the page may differ. What was learnt of the host holds for its dynamic pages alone: it must not hide
// a small forgery in a page that stays the same.
func (e *Evidence) tolerance() compare.Host {
	switch {
	case e.Page == nil || !e.Page.IsDynamic():
		return compare.Host{}
	case e.Host.Learnt == 0:
		return compare.Unlearnt // a page is dynamic by its shingles, which tell how much it differs at most
	}
	return *e.Host
}

// valid counts an audit that a peer passed.
func (m *Machine) valid(p *peer, e *Evidence) {
	if p.checks < 1<<31 {
		p.checks++
	}
	m.touch(p.number)
	m.tail.checks++
	m.credit(p, m.cfg.DriftValid, Forging, Laziness)
	m.graduate(p)
	if s := m.sites[e.Case.Channel]; s != nil && s.until > 0 && e.Page != nil && e.Page.shows(p.number, e.Case.At) { // not of a delivery before the one that is held
		if s.valid = min(s.valid+1, 254); int(s.valid) == m.cfg.WatchValid && !m.inDoubt(p) {
			m.do(Act{Kind: Accept, Peer: p.number, Channel: e.Case.Channel, At: e.Case.At})
		}
		m.touchSite(e.Case.Channel)
	}
}

// Ruled takes in what the arbiter saw of a contested page.
func (m *Machine) Ruled(now time.Time, r *Ruling) []Act {
	m.acts = m.acts[:0]
	accused, accuser := m.peers[r.Case.Accused], m.peers[r.Case.Accuser]
	if accused == nil || accuser == nil || r.Delivered == nil || r.Checked == nil {
		return nil
	}
	truth := r.truth(m.cfg.Arbiter)
	if truth == nil {
		return nil
	}
	if r.Said != 0 && r.Said != r.Modified && (compare.Host{}).Compare(r.Checked, truth).Verdict == compare.Same {
		r.Modified = 0 // the same page, with another date each time: the server says when it made that up
	}
	conflict := func(f *compare.Features) bool { return r.tolerance().Compare(f, truth).Verdict == compare.Conflict }
	switch p, c := conflict(r.Delivered), conflict(r.Checked); {
	case p && c: // the page differs at each look: no evidence, but the three tell how much it does
		if m.cfg.Arbiter {
			r.Host.Learn(truth, r.Delivered, r.Checked)
		}
		if r.Page != nil {
			r.Page.Dynamic, r.Page.Blind = min(r.Page.Dynamic+1, 3), min(r.Page.Blind+1, 3)
		}
	case p:
		m.lost(now, r, truth)
	case c:
		m.slandered(now, r, truth)
	default:
		if r.Case.Reason == LostAudit {
			m.valid(accused, &r.Evidence)
		}
	}
	return m.take()
}

// truth is the fetch that decides.
func (r *Ruling) truth(arbiter bool) *compare.Features {
	if arbiter {
		if r.Arbiter != nil && r.Others[0] != nil {
			r.Seconded = r.tolerance().Compare(r.Others[0], r.Arbiter).Verdict != compare.Conflict
		}
		return r.Arbiter
	}
	if r.Others[0] == nil || r.Others[1] == nil || r.tolerance().Compare(r.Others[0], r.Others[1]).Verdict == compare.Conflict {
		return nil
	}
	return r.Others[0]
}

// lost charges the accused, unless it was misled: it said that nothing has changed, as the host had said to it, since who delivered the version before had named the true
// page's validator with another content. That version is told to nobody any more, so that the next crawl sees the whole page.
func (m *Machine) lost(now time.Time, r *Ruling, truth *compare.Features) {
	k := &r.Case
	if k.Same && r.Unmoved {
		if r.Page != nil && m.cfg.Enforce {
			r.Page.mistrust(k)
		}
		return
	}
	d := r.tolerance().Compare(r.Delivered, truth)
	r.Outside = !k.Same && d.Differ&compare.Outside != 0 && d.OnlyA > 0
	g := r.Page
	c := charge{reason: k.Reason, peer: k.Accused, channel: k.Channel, domain: k.Domain, task: k.At, url: k.URL, second: r.Seconded, old: k.Old, everywhere: k.Everywhere && !r.Outside}
	switch k.Reason {
	case Reverted, Contradicted:
		c.amount = m.cfg.Revert
		if r.Outside {
			c.amount, c.strong = m.cfg.RevertLinks, true
		} else if g != nil && g.Flaps > 0 {
			c.amount *= m.cfg.ManyLost
		}
		if g != nil && !r.Outside && k.Reason == Reverted {
			g.Flaps = min(g.Flaps+1, 3)
		}
	case ImplausiblyUnchanged:
		if r.misdated(now, m.cfg.Slack) || r.Modified == 0 || r.Modified >= k.At-int64(m.cfg.Slack/time.Second) {
			return // by the fetch that decides it may have changed since
		}
		c.amount = m.cfg.Implausible
	default:
		if r.misdated(now, m.cfg.Slack) || r.Modified >= k.At && r.Modified > 0 {
			return // it may have changed since, or it has changed since, by the fetch that decides
		}
		c.amount, c.strong = m.loss(r)
		if k.Same {
			c.reason = ImplausiblyUnchanged
		}
		m.tail.lost++
	}
	if g != nil {
		for _, v := range []*Version{&g.Cur, &g.Prev} {
			if v.By == k.Accused && v.At == k.At && v.State != None && !k.Same && m.cfg.Enforce {
				v.State, v.Doubt = Withdrawn, true
			}
		}
	}
	m.charge(now, c)
	if k.Also != 0 && k.Reason == Reverted { // who said to have seen the same
		c.peer, c.amount = k.Also, c.amount/2
		m.charge(now, c)
	}
}

// slandered charges the accuser: what the delivery says is what the arbiter saw. An accuser that crawled the page next has lost with what it delivered itself.
func (m *Machine) slandered(now time.Time, r *Ruling, truth *compare.Features) {
	k := &r.Case
	d := r.tolerance().Compare(r.Checked, truth)
	r.Outside = d.Differ&compare.Outside != 0 && d.OnlyA > 0
	c := charge{reason: LostCheck, peer: k.Accuser, channel: k.Channel, domain: k.Domain, task: now.Unix(), url: k.URL, second: r.Seconded}
	if c.amount = m.cfg.LostCheck; k.Reason == LostAudit {
		m.valid(m.peers[k.Accused], &r.Evidence)
	} else {
		c.reason = SlanderedNext
		c.amount, c.strong = m.loss(r)
		if r.Page != nil {
			c.task = r.Page.after(k, c.task)
			if m.cfg.Enforce {
				r.Page.disbelieve(k.Accuser, c.task)
			}
		}
		if g := r.Page; g != nil && g.Prev.By == k.Accused && g.Prev.At == k.At && g.Prev.State == Contested {
			g.Cur, g.Prev = g.Prev, g.Cur
			g.Cur.State = Provisional
		}
	}
	m.charge(now, c)
}
