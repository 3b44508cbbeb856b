package trust

import (
	"math"
	"slices"
	"time"

	"shoal/channel"
)

// Reason is what a peer is charged with. The numbers are stored with the evidence.
type Reason uint8

// The reasons.
const (
	NoReason             Reason = iota
	LostAudit                   // the arbiter saw what the checker saw
	LostCheck                   // the arbiter saw what the delivery says, and not what this checker gave
	Reverted                    // the crawls before and after agree, and the arbiter with them
	Contradicted                // the page was older than the delivery, and said something else
	ImplausiblyUnchanged        // "unchanged" after the change
	NothingChanged              // dynamic pages that were all "unchanged"
	SlanderedNext               // gave a false page where the crawl before gave the true one
)

func (r Reason) String() string {
	return [...]string{"none", "lost audit", "lost check", "reverted", "contradicted", "implausibly unchanged", "nothing changed", "slandered"}[min(r, SlanderedNext)]
}

// Means says in a sentence what a reason is, to operators and to who is charged; empty: of no reason.
func (r Reason) Means() string {
	return [...]string{"",
		"Another peer fetched the page soon after this one delivered it, and saw something else; a third look agreed with that peer.",
		"This peer fetched the page to check what another one had delivered, and gave something else; a third look agreed with the other one.",
		"The crawls before and after this one agree with each other and not with it, and so did a third look.",
		"By its own date the page was older than this delivery, which said something else than the page does.",
		"This peer said that the page is unchanged, after the page had changed.",
		"This peer said of all pages of a task that they are unchanged, though at least five of them differ at each fetch.",
		"This peer delivered something else than the crawl before it, and a third look agreed with that crawl.",
	}[min(r, SlanderedNext)]
}

// scoreOf says which score a reason counts in.
func scoreOf(r Reason) Score {
	switch r {
	case ImplausiblyUnchanged, NothingChanged:
		return Laziness
	case LostCheck:
		return Checking
	}
	return Forging
}

// charge is one piece of evidence against a peer.
type charge struct {
	reason  Reason
	peer    Peer
	channel channel.ID
	domain  uint64
	task    int64 // when the task's page was fetched: with the channel it names the task
	url     uint64
	amount  float64
	second  bool // a second checker agreed
	strong  bool // links for profit
	old     bool // found by a look at older pages
	// everywhere: the task showed the same on other pages too
	everywhere bool
}

// taskKey names a task in a peer's table.
func taskKey(c channel.ID, hour int64) uint32 {
	x := (uint64(c) ^ uint64(hour)<<40) * 0x9e3779b97f4a7c15
	return uint32(x >> 32)
}

// domainKey names a domain in a peer's table.
func domainKey(domain uint64) uint32 { return uint32(domain>>32 ^ domain) }

// oldTasks is the key in a peer's table of all older pages that were looked at.
const oldTasks = 1

// charge adds evidence to a score, within the caps, and says what follows.
func (m *Machine) charge(now time.Time, c charge) float64 {
	p := m.peers[c.peer]
	if p == nil || p.standing == Banned {
		return 0
	}
	x := c.amount
	if m.manyLost(now, c.channel) {
		x *= m.cfg.ManyLost
	}
	key := taskKey(c.channel, c.task)
	if c.old { // who met captchas on some days is looked at because of the last of them: the others are no new evidence
		key = oldTasks
	}
	task, domain := added(p.charged[:], key), added(p.domains[:], domainKey(c.domain))
	most := m.cfg.DomainCap
	if c.second {
		most = m.cfg.DomainCap2
	}
	ofTask := m.cfg.TaskCap
	if c.everywhere {
		x, ofTask = x*everywhereShare, ofTask*everywhereShare
	}
	x = max(min(x, ofTask-float64(task.by), most-float64(domain.by)), 0)
	task.by += float32(x)
	domain.by += float32(x)
	s := scoreOf(c.reason)
	p.score[s] = min(p.score[s]+float32(x), maxScore)
	p.peak = max(p.peak, p.highest())
	p.lost++
	m.touch(p.number)
	// A checker's trouble says nothing about the channel, and one page that goes back is as often the page's own doing.
	if s != Checking && (c.reason == LostAudit || c.strong || float64(task.by) > m.cfg.Revert) {
		m.loser(now, c.channel, c.peer, c.strong)
	}
	m.do(Act{Kind: Charge, Peer: c.peer, Channel: c.channel, URL: c.url, At: c.task, Reason: c.reason, Amount: x, Score: float64(p.score[s])})
	if (c.amount > m.cfg.Hold || c.everywhere) && s != Checking && m.cfg.Enforce {
		m.doubt(Act{Kind: Hold, Peer: c.peer, Channel: c.channel, At: c.task})
	}
	m.follow(p)
	return x
}

// spent tells whether one more loss by a delivery would add nothing to a peer's score, because what one task may add is reached. The delivery is held for it. Older
// pages that are looked at count as one task and are of many deliveries, most of them of domains that had the peer looked at.
func (m *Machine) spent(p *peer, c *Case) bool {
	full := func(table []sum, key uint32, most float64) bool {
		return slices.ContainsFunc(table, func(s sum) bool { return s.key == key && float64(s.by) >= most-.01 })
	}
	if c.Old {
		return full(p.charged[:], oldTasks, m.cfg.TaskCap) || full(p.domains[:], domainKey(c.Domain), m.cfg.DomainCap)
	}
	most := m.cfg.TaskCap
	if c.Everywhere {
		most *= everywhereShare
	}
	return full(p.charged[:], taskKey(c.Channel, c.At), most)
}

// follow says what follows from a peer's scores.
func (m *Machine) follow(p *peer) {
	top := float64(p.highest())
	if p.standing == Suspended || p.standing == Banned {
		return
	}
	if top >= m.cfg.T {
		if !m.cfg.Enforce {
			m.do(Act{Kind: WouldSuspend, Peer: p.number, Score: top})
			return
		}
		m.suspend(p, top)
		return
	}
	if suspect := float64(p.crawling()) >= m.cfg.Suspect; suspect != p.suspect {
		p.suspect = suspect
		if suspect {
			m.do(Act{Kind: Suspect, Peer: p.number, Score: top})
		}
	}
	if float64(p.crawling()) > m.cfg.TaskCap && !p.looked && m.cfg.LookBack > 0 && m.cfg.Audits { // more than one task's trouble
		p.looked = true
		m.do(Act{Kind: LookBack, Peer: p.number, N: m.cfg.LookBack})
	}
}

func (m *Machine) suspend(p *peer, top float64) {
	m.leave(p)
	p.standing = Suspended
	m.occupy(p)
	m.convicted[p.account]++
	m.tags[tag(p.number)]++
	m.do(Act{Kind: Suspend, Peer: p.number, Score: top})
	m.do(Act{Kind: Withdraw, Peer: p.number})
}

// leave takes a peer out of the counts of those who work.
func (m *Machine) leave(p *peer) {
	switch p.standing {
	case Newcomer:
		m.newcomers--
	case Established:
		m.established--
	}
}

// credit lowers scores for what was confirmed: of deliveries the two about crawling, of a check the third. A peer whose scores are all zero has no history of
// charges either. Who is suspended keeps the scores for which that was, as it and the operator are told them, though pages of before are still confirmed.
func (m *Machine) credit(p *peer, by float64, which ...Score) {
	if p.highest() == 0 || p.standing >= Suspended {
		return
	}
	for _, s := range which {
		p.score[s] = max(p.score[s]-float32(by), 0)
	}
	m.touch(p.number)
	if p.highest() == 0 {
		m.tail.end(float64(p.peak))
		p.peak, p.looked, p.domains, p.charged = 0, false, [domainsKept]sum{}, [tasksKept]sum{}
	}
	if p.suspect {
		m.follow(p)
	}
}

// loss is what a lost arbitration adds: the logarithm of how much likelier it is of a liar than of an honest peer.
func (m *Machine) loss(r *Ruling) (amount float64, strong bool) {
	q := m.cfg.Q
	if r.Seconded {
		q = m.cfg.Q2
	}
	if r.Outside { // honest peers see no links that others do not
		q = q/20 + 1e-4
		if r.Page != nil && r.Page.IsDynamic() {
			q += 5e-4
		}
		return math.Log((q + m.cfg.Lie) / q), true
	}
	if !r.Dated || r.Modified == 0 { // the fetch that decides does not say that the page was the same all the time
		q += r.Rate * max(r.Delay, 0).Seconds() * m.cfg.Busy
	}
	if r.Page != nil && r.Page.IsDynamic() {
		q += m.cfg.Dynamic
	}
	q = min(q, .5)
	return math.Log((q + m.cfg.Lie) / q), false
}
