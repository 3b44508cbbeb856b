package trust

import (
	"slices"
	"time"

	"shoal/channel"
)

// Seen is what a delivery says of one page.
type Seen struct {
	URL     uint64 // channel.URLHash
	Page    *Page  // its record, which Deliver changes; the zero Page if there was none
	Digest  uint64 // of the content that the peer fetched; 0: it says "unchanged" and names no digest of its own
	Raw     uint64 // as Version.Raw
	Shingle uint64
	// Modified is when the page itself says that it last changed, Unix seconds: by Last-Modified or by dates in it. 0: it says nothing.
	Modified int64
	// Unlike says of a page that differs at each fetch, and whose text is nearly that of the current version, that it is another page all the same: by package compare
	// the two would be a conflict. A sentence or a link that somebody has added changes the Shingle too little. See Doubtful.
	// Of a page that was read otherwise it says that the two differ by more than that. See ReadOtherwise.
	Unlike bool
	// Alike says of a page whose bytes are others than those of the current version that it is the same page all the same: by package compare the two are the same, as where
	// a comment was added. The arbiter could not tell them apart, and is not asked. See Contests.
	Alike bool
}

// Doubtful tells whether it matters if a visit saw a page Unlike its current version: of a page that differs at each fetch nearly the same text would corroborate it.
func (p *Page) Doubtful(by Peer, digest, shingle uint64) bool {
	v := &p.Cur
	return p.IsDynamic() && digest != 0 && digest != v.Digest && v.By != by && (v.State == Provisional || v.State == Held) && channel.Near(v.Shingle, shingle)
}

// ReadOtherwise tells whether it matters if a visit saw a page Unlike its current version, since by what the two peers say of it one has only read the same page a little otherwise.
func (p *Page) ReadOtherwise(s *Seen) bool { return p.Cur.readOtherwise(s) && !p.IsDynamic() }

// Delivery is what one task brought: the pages that answered, in any order.
type Delivery struct {
	Peer    Peer
	Channel channel.ID
	Domain  uint64    // the registrable domain, as a hash
	At      time.Time // when the task was claimed: no page was fetched before
	Pages   []Seen
	Quiet   []Quiet // pages that are not among Pages
}

// Quiet are pages whose records are Settled, and which this visit saw as they were.
type Quiet struct {
	Last Peer     // the peer of the visit before
	URLs []uint64 // channel.URLHash
}

// Case names what is contested. It travels with the Act and comes back with the answer, so that nothing is lost if the Machine restarts.
type Case struct {
	Reason  Reason // what the accused will be charged with if it loses; LostAudit: it is an audit
	URL     uint64
	Channel channel.ID
	Domain  uint64
	Accused Peer  // whose delivery it is
	Also    Peer  // who had corroborated it; 0: nobody
	Accuser Peer  // who saw otherwise
	At      int64 // the accused's delivery
	Same    bool  // the accused had said that nothing changed
	Second  bool  // one more checker is wanted
	Old     bool  // of a look at older pages: all of them add no more than one task
	// Everywhere says that the accused delivered the same of other pages too.
	Everywhere bool
}

// Deliver takes in a delivery: it audits the crawl before, moves the pages' records on, and chooses what is audited of this one.
func (m *Machine) Deliver(now time.Time, d *Delivery) []Act {
	m.acts = m.acts[:0]
	p := m.peers[d.Peer]
	if p == nil {
		return nil
	}
	w := visit{m: m, now: now, d: d, p: p, at: d.At.Unix(), watched: m.Watched(now, d.Channel), believed: m.believed(p)}
	w.changed = m.choice[:0]
	w.saidEverywhere()
	for i := range d.Pages {
		w.page(i)
	}
	w.seenEverywhere()
	for _, q := range d.Quiet {
		w.quietly(&q)
	}
	w.confirm(nil, 0)
	m.choice = w.changed
	if w.dynamic >= manyDynamic && w.quiet == w.dynamic && w.dynamic > 0 {
		m.charge(now, charge{reason: NothingChanged, peer: d.Peer, channel: d.Channel, domain: d.Domain, task: w.at, url: w.still, amount: m.cfg.AllUnchanged})
	}
	p.tasks++
	m.touch(p.number)
	m.graduate(p)
	m.crawled(now, d.Channel, p)
	w.audits()
	return m.take()
}

// manyDynamic is how many pages must be known to differ at each fetch before a task that saw none of them differ is charged.
const manyDynamic = 5

// A delivery with another content of most of a channel's pages, and of so many, has one more page audited, by another checker: one who is after the whole
// channel must find two friends among them. So has the first crawl of a channel, which no version contradicts.
const (
	manyChanged = 5
	moreChecked = 1
)

// visit is one delivery being taken in.
type visit struct {
	m        *Machine
	now      time.Time
	d        *Delivery
	p        *peer
	at       int64
	watched  bool
	believed bool
	changed  []int // pages with new content, and new pages
	dynamic  int   // pages known to be dynamic, and those of them that did not differ
	quiet    int
	still    uint64 // the first of these
	reverts  int    // sent to the arbiter
	alike    uint64 // the shingle of the last version among them
	stale    int
	last     *peer // whose pages were just confirmed, and how many of them
	fine     int
	settled  int  // pages of Delivery.Quiet
	known    Peer // whom peer was asked for last, and its answer
	knew     *peer
	// everywhere is what this delivery shows on most of the pages that changed, and before what the versions that it contradicts showed; see everywhere.
	everywhere, before uint64
}

// page takes in one page.
func (w *visit) page(i int) {
	s := &w.d.Pages[i]
	g := s.Page
	last := w.peer(g.LastBy)
	if g.IsDynamic() {
		w.dynamic++
		if s.Digest == 0 || s.Digest == g.Cur.Digest && g.Tells() { // who names a digest that it was not told has looked: the page differs no more
			if w.quiet++; w.quiet == 1 {
				w.still = s.URL
			}
		}
	}
	known := s.Digest == 0 && g.Cur.State != None
	otherwise := g.ReadOtherwise(s) && !s.Unlike
	same, unlike := known, s.Unlike && g.IsDynamic() && s.Digest != g.Cur.Digest || otherwise
	if !known {
		w.vary(g, s)
		same = !unlike && g.alike(&g.Cur, s.Digest, s.Shingle)
		if g.Cur.State == Held && s.Digest != g.Cur.Digest && w.believed {
			same = false // nearly the same is not enough to vouch for a version in doubt
		}
	}
	if same && g.Cur.State != Withdrawn && g.Cur.State != Contested {
		if s.Digest != 0 {
			w.m.corroborate(g, w.p, s.Digest != g.Cur.Digest)
		}
		if g.Cur.State == Held && !g.Cur.Doubt && s.Digest == g.Cur.Digest && !w.watched && !w.m.inDoubt(w.p) {
			g.Cur.State = Provisional // held because the same was on other pages too, or its deliverer was in doubt: it is still there
		}
		if last != nil && apart(w.p, last) && w.believed {
			w.confirm(last, 1)
		}
		g.LastBy, g.LastAt, g.Same = w.d.Peer, w.at, true
		return
	}
	if s.Digest == 0 {
		return // "unchanged" of nothing
	}
	if !g.IsDynamic() {
		w.changed = append(w.changed, i)
	}
	if otherwise && g.Prev.State == Verified && s.Digest == g.Prev.Digest { // others read it so before
		g.Cur, g.Prev = g.Prev, g.Cur
		w.m.corroborate(g, w.p, false)
		g.LastBy, g.LastAt, g.Same = w.d.Peer, w.at, false
		return
	}
	if unlike { // which of the two was there is for others to see: nobody is charged for so little
	} else if w.m.cfg.NextCrawl && last != nil && w.believed && apart(w.p, last) {
		if w.goesBack(s) {
			return
		}
	} else if !g.Cur.State.Shown() && g.Prev.State.Shown() && g.alike(&g.Prev, s.Digest, s.Shingle) { // what is shown is still there
		g.Cur, g.Prev = g.Prev, g.Cur
		g.LastBy, g.LastAt, g.Same = w.d.Peer, w.at, false
		return
	}
	v := Version{Digest: s.Digest, Raw: s.Raw, Shingle: s.Shingle, By: w.d.Peer, At: w.at, State: Provisional}
	lost := func(o *Version) bool { return o.State == Withdrawn && o.Doubt && g.alike(o, s.Digest, s.Shingle) }
	v.Doubt = same && g.Cur.State == Withdrawn && g.Cur.Doubt || lost(&g.Prev) // an arbiter saw otherwise
	if v.Doubt && w.m.cfg.Enforce || w.m.inDoubt(w.p) || w.watched && w.m.cfg.Enforce {
		v.State = Held
	}
	if v.Doubt && w.m.cfg.Enforce {
		w.m.view(w.d.Channel, w.d.Peer)
	}
	w.displace(g)
	g.push(v)
	g.LastBy, g.LastAt, g.Same = w.d.Peer, w.at, false
}

// displace has a version whose deliverer lost on this channel go down as verified only if two more accounts saw it. Another content takes its place, so that no crawl can
// contradict it any more, and one account is a friend of a liar who is after one host as often as not.
func (w *visit) displace(g *Page) {
	for _, v := range []*Version{&g.Cur, &g.Prev} {
		if v.State == Verified && v.Seen() < settledBy && w.m.cfg.Enforce && w.m.lostHere(w.now, w.d.Channel, v.By) {
			v.State = Provisional
		}
	}
}

// peer returns a peer by its number. Most pages of a delivery were visited last by the same peer.
func (w *visit) peer(n Peer) *peer {
	if n != w.known {
		w.known, w.knew = n, w.m.peers[n]
	}
	return w.knew
}

// vary learns whether each fetch of the page differs a little.
func (w *visit) vary(g *Page, s *Seen) {
	switch {
	case !w.believed || g.Cur.State == None:
	case s.Digest == g.Cur.Digest || s.Digest == g.Prev.Digest || g.Cur.readOtherwise(s) && !s.Unlike:
		g.Dynamic -= min(g.Dynamic, 1)
	case s.Unlike && !g.IsDynamic(): // the fingerprints are near as somebody said so
	case channel.Near(g.Cur.Shingle, s.Shingle):
		g.Dynamic = min(g.Dynamic+1, 3)
	}
}

// quietly takes in pages of which nothing is new.
func (w *visit) quietly(q *Quiet) {
	if last := w.m.peers[q.Last]; last != nil && apart(w.p, last) && w.believed {
		w.confirm(last, len(q.URLs))
	}
	w.settled += len(q.URLs)
}

// confirm counts pages that this crawl confirms of the one before, and credits them when another peer's come, or with nil at the end.
func (w *visit) confirm(last *peer, pages int) {
	if last != w.last {
		if w.last != nil && w.m.cfg.NextCrawl {
			w.m.credit(w.last, w.m.cfg.DriftNext*float64(w.fine), Forging, Laziness)
		}
		w.last, w.fine = last, 0
	}
	w.fine += pages
}

// goesBack looks whether what the last crawl said of a page that differs now can have been true. It reports whether the record is done with.
func (w *visit) goesBack(s *Seen) bool {
	g, m := s.Page, w.m
	old := s.Modified > 0 && s.Modified < g.visited(w.at)-int64(m.cfg.Slack/time.Second) // it looked like this at the last visit already
	since := s.Modified > 0 && !old
	c := Case{URL: s.URL, Channel: w.d.Channel, Domain: w.d.Domain, Accuser: w.d.Peer, Second: w.watched}
	if g.alike(&g.Prev, s.Digest, s.Shingle) && g.Prev.State.Shown() {
		if since || g.Cur.Seen() > 1 {
			return false // it went back by itself, or is said to have: that is this peer's word, and not of who delivered the version once
		}
		c.Reason, c.Accused, c.Also, c.At = Reverted, g.Cur.By, g.Cur.Also[0], g.Cur.At
		if !g.Same && (g.LastBy != g.Cur.By || g.LastAt != g.Cur.At) { // who came last had said the current version again
			c.Accused, c.Also, c.At = g.LastBy, 0, g.LastAt
		}
		by, before := m.peers[c.Accused], m.peers[g.Prev.By]
		if by != nil && apart(w.p, by) && (before == nil || apart(by, before)) && w.reverts < m.cfg.MostReverts && !s.Alike && !w.repeats(&g.Cur) {
			c.Everywhere = channel.Near(w.before, g.Cur.Shingle)
			if !m.spent(by, &c) {
				w.reverts++
				w.alike = g.Cur.Shingle
				m.do(Act{Kind: Arbitrate, Peer: c.Accused, Channel: c.Channel, URL: c.URL, At: c.At, Reason: c.Reason, Case: c})
			}
		}
		g.goBack()
		m.corroborate(g, w.p, s.Digest != g.Cur.Digest)
		g.LastBy, g.LastAt, g.Same = w.d.Peer, w.at, false
		return true
	}
	if !old || s.Alike || g.Cur.State == None {
		return false
	}
	c.Accused, c.At, c.Same = g.LastBy, g.LastAt, g.Same
	c.Everywhere = !c.Same && channel.Near(w.before, g.Cur.Shingle)
	c.Reason = Contradicted
	most, count := m.cfg.MostReverts, &w.reverts
	if c.Same {
		c.Reason, most, count = ImplausiblyUnchanged, m.cfg.MostStale, &w.stale
	}
	if last := m.peers[c.Accused]; *count < most && last != nil && !m.spent(last, &c) {
		*count++
		m.do(Act{Kind: Arbitrate, Peer: c.Accused, Channel: c.Channel, URL: c.URL, At: c.At, Reason: c.Reason, Case: c})
	}
	if !c.Same && g.Cur.By == g.LastBy && g.Cur.Seen() == 0 && g.Cur.State == Provisional {
		g.Cur.State = Contested
	}
	return false
}

// repeats tells whether a version is the one that was sent to the arbiter last, on another page: a captcha is the same on all pages of a task. To ask
// about each of them would cost the arbiter as many fetches, and charge an honest peer as often, for one thing that happened.
func (w *visit) repeats(v *Version) bool {
	return w.alike != 0 && v.Shingle != 0 && channel.Near(w.alike, v.Shingle)
}

// corroborate counts that a peer saw the current version with its own eyes, or nearly that.
func (m *Machine) corroborate(g *Page, p *peer, nearly bool) {
	v := &g.Cur
	if v.Seen() == len(v.Also) || g.Settled() || v.By == p.number || !m.believed(p) {
		return
	}
	if o := m.peers[v.By]; o != nil && !apart(p, o) {
		return
	}
	for _, n := range v.Also[:v.Seen()] {
		if o := m.peers[n]; n == p.number || o != nil && !apart(p, o) {
			return
		}
	}
	g.see(p.number, nearly)
}

// graduate ends a probation that was passed.
func (m *Machine) graduate(p *peer) {
	if p.standing == Newcomer && int(p.tasks) >= m.cfg.Tasks && int(p.checks) >= m.cfg.Checks && !p.suspect {
		m.establish(p)
		m.do(Act{Kind: Graduate, Peer: p.number})
	}
}

// audits chooses the pages of the delivery that are fetched again.
func (w *visit) audits() {
	m, n, separate := w.m, 0, w.watched
	all := len(w.d.Pages) + w.settled
	if all == 0 {
		return
	}
	if m.cfg.Audits {
		n = m.cfg.PerTask + m.chance(m.cfg.Beside*float64(all))
		if s := m.sites[w.d.Channel]; s != nil {
			n += int(s.times()) // it had an alert: one more checker, who would have to be of the liars too
			separate = separate || s.times() > 0
		}
		if len(w.changed) >= manyChanged && 2*len(w.changed) > all {
			n, separate = n+moreChecked, true
		}
		if w.watched {
			n = max(n, m.cfg.PerWatch)
		}
		if w.p.suspect {
			n = max(n, m.chance(m.cfg.SuspectShare*float64(all)))
		}
	}
	if w.p.standing == Newcomer {
		n = max(n, m.cfg.PerNew)
	}
	for _, i := range m.choose(all, w.changed, min(n, all)) {
		url, same, alike := uint64(0), true, false
		if i < len(w.d.Pages) {
			s := &w.d.Pages[i]
			if s.Page.Blind >= blindFrom {
				continue
			}
			url, same = s.URL, s.Page.Same && (s.Digest == 0 || s.Digest == s.Page.Cur.Digest) // else it sent a content of its own, nearly the same
			alike = !same && channel.Near(w.everywhere, s.Shingle)
		} else {
			url = w.d.quiet(i - len(w.d.Pages))
		}
		c := Case{Reason: LostAudit, URL: url, Channel: w.d.Channel, Domain: w.d.Domain, Accused: w.d.Peer, At: w.at, Same: same, Second: w.watched || w.p.suspect, Everywhere: alike}
		m.do(Act{Kind: Audit, Peer: w.d.Peer, Channel: w.d.Channel, URL: url, At: w.at, N: n, Apart: separate, Case: c})
	}
}

// quiet is the n-th of the pages in Quiet.
func (d *Delivery) quiet(n int) uint64 {
	for i := range d.Quiet {
		if q := d.Quiet[i].URLs; n < len(q) {
			return q[n]
		}
		n -= len(d.Quiet[i].URLs)
	}
	return 0
}

// chance rounds an expected number to a whole one.
func (m *Machine) chance(x float64) int {
	n := int(x)
	if m.rng.Float64() < x-float64(n) {
		n++
	}
	return n
}

// choose draws k of n pages, no page twice. Those that changed weigh Config.Weight, the others 1.
func (m *Machine) choose(n int, changed []int, k int) (chosen []int) {
	heavy := len(changed) * m.cfg.Weight
	for tries := 0; len(chosen) < k && tries < 20*k; tries++ {
		i := m.rng.IntN(heavy + n - len(changed))
		if i < heavy {
			i = changed[i/m.cfg.Weight]
		} else if i = m.rng.IntN(n); slices.Contains(changed, i) {
			continue
		}
		if !slices.Contains(chosen, i) {
			chosen = append(chosen, i)
		}
	}
	return chosen
}
