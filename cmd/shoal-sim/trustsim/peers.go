package trustsim

import (
	"fmt"
	"slices"

	"shoal/manager/trust"
)

// attack is a way to lie.
type attack struct {
	name    string
	rate    float64 // of pages that are forged
	from    int     // day on which the lies begin
	lazy    bool    // says "unchanged" where it was told a digest
	replace bool    // the lies replace the page; else they change a sentence
	collude bool    // liars make the same lie of a page, and vouch for each other
	slander bool    // as a checker, and of the crawl before
	target  bool    // one host only, all its pages
	hide    bool    // dynamic pages only
	storm   bool    // the liars are 200 new peers a day
}

var attacks = []attack{
	{name: "lazy", lazy: true},
	{name: "fabricating", rate: 1, replace: true},
	{name: "subtle-0.1", rate: .001},
	{name: "subtle-1", rate: .01},
	{name: "subtle-10", rate: .1},
	{name: "sleeping", rate: .1, from: 20},
	{name: "colluding", rate: .1, collude: true},
	{name: "slandering", slander: true},
	{name: "one-host", rate: 1, target: true, collude: true, replace: true},
	{name: "hiding", rate: .5, hide: true, replace: true},
	{name: "sybils", rate: .1, storm: true},
}

// Attacks names the attacks.
func Attacks() (names []string) {
	for _, a := range attacks {
		names = append(names, a.name)
	}
	return names
}

func attackOf(name string) (attack, error) {
	i := slices.IndexFunc(attacks, func(a attack) bool { return a.name == name })
	if i < 0 {
		return attack{}, fmt.Errorf("%w: attack %q; known: %v", ErrFlags, name, Attacks())
	}
	return attacks[i], nil
}

// defence is what the network does about it.
type defence struct {
	name  string
	rules func(*trust.Config)
}

var defences = []defence{
	{"none", func(c *trust.Config) { c.NextCrawl, c.Audits = false, false }},
	{"next-crawl", func(c *trust.Config) { c.Enforce, c.Audits = true, false }},
	{"audits", func(c *trust.Config) { c.Enforce, c.NextCrawl = true, false }},
	{"all", func(c *trust.Config) { c.Enforce = true }},
}

// Defences names the defences.
func Defences() (names []string) {
	for _, d := range defences {
		names = append(names, d.name)
	}
	return names
}

func defenceOf(name string) (defence, error) {
	i := slices.IndexFunc(defences, func(d defence) bool { return d.name == name })
	if i < 0 {
		return defence{}, fmt.Errorf("%w: defence %q; known: %v", ErrFlags, name, Defences())
	}
	return defences[i], nil
}

// member is a simulated peer.
type member struct {
	number trust.Peer
	region int
	liar   bool
	gone   bool // suspended
	joined int64
	ended  int64 // when it was suspended
	lied   int   // tasks since its first lie
	earned earned
	sites  []int32 // what it crawled or checked, perhaps twice
}

// Trouble that honest peers have.
const (
	captchaTask  = .006 // of tasks: from some page on, all are captchas
	captchaFetch = .003 // of single fetches: audits, and the arbiter's
)

// fetch is what a peer sees of a page at a moment, whatever it says afterwards. task: it is one of many of a crawl, and captchas come in a row.
func (r *run) fetch(m *member, s *site, i int, now int64, task bool) uint64 {
	p := &r.web.pages[i]
	r.web.at(p, now)
	if !task && r.rng.Float64() < captchaFetch*r.trouble {
		return digestOf(captcha, 0, 0)
	}
	version := p.version
	if s.cached && now-p.since < 3600 && r.rng.Float64() < .5 {
		version = p.before
	}
	return r.shown(p, s, m.region, version)
}

// shown is the digest of a version as a region is shown it now.
func (r *run) shown(p *page, s *site, region int, version uint32) uint64 {
	var n uint64
	if p.kind != still {
		n = r.rng.Uint64()
	}
	if s.geo && region > 0 {
		return digestOf(walled, uint64(region), version) // dynamic pages count as still behind a wall: the wall is what shows
	}
	return digestOf(real, n, version)
}

// says is what a liar says of a page that shows seen; 0: "unchanged".
func (r *run) says(m *member, s *site, i int, seen uint64, now int64) uint64 {
	a, p := r.attack, &r.web.pages[i]
	if now < int64(a.from)*86400 || a.storm && !r.lies(m) {
		return seen
	}
	switch {
	case a.lazy:
		if p.rec.Tells() {
			return 0
		}
		return seen
	case a.slander:
		if g := &p.rec; g.Prev.State.Shown() && g.Cur.State == trust.Provisional && !r.isLiar(g.Cur.By) && r.rng.Float64() < .05 {
			return g.Prev.Digest
		}
		return seen
	case a.collude && forged(p.rec.Cur.Digest) && p.rec.Cur.State != trust.Withdrawn && r.isLiar(p.rec.Cur.By):
		return p.rec.Cur.Digest // a comrade's
	case a.target && !s.target, a.hide && p.kind == still, r.rng.Float64() >= a.rate:
		return seen
	}
	return r.forge(p, now)
}

func (r *run) forge(p *page, now int64) uint64 {
	n := r.rng.Uint64()
	if r.attack.collude {
		n = uint64(now / 86400)
	}
	switch {
	case r.attack.replace:
		return digestOf(lie, n, p.version)
	case r.rng.Float64() < .3:
		return digestOf(linkedLie, n, p.version)
	}
	return digestOf(smallLie, n, p.version)
}

// lies tells whether a sybil lies already: half of them wait until they are established.
func (r *run) lies(m *member) bool {
	if m.number%2 == 0 {
		return true
	}
	i, _ := r.machine.Peer(m.number)
	return i.Standing == trust.Established
}

func (r *run) isLiar(n trust.Peer) bool {
	m := r.byNumber(n)
	return m != nil && m.liar
}

// checks is what a checker says that it saw of a page that another peer delivered as delivered.
func (r *run) checks(c *member, s *site, i int, delivered uint64, by trust.Peer, now int64) uint64 {
	seen := r.fetch(c, s, i, now, false)
	if !c.liar || now < int64(r.attack.from)*86400 || r.attack.storm && !r.lies(c) {
		return seen
	}
	switch {
	case r.attack.slander && !r.isLiar(by) && r.rng.Float64() < .3:
		return digestOf(lie, r.rng.Uint64(), r.web.pages[i].version)
	case r.attack.collude && r.isLiar(by):
		return delivered
	}
	return seen
}

// newMember adds a peer. Every account has a prefix of its own, but sybils, which share it by 4.
func (r *run) newMember(liar, established bool, now int64) *member {
	n := len(r.members) + 1
	m := &member{number: trust.Peer(n), region: pick(r.rng, .6, .2), liar: liar, joined: now}
	r.members = append(r.members, m)
	prefix := trust.Prefix(n)
	if r.attack.storm && liar {
		prefix = trust.Prefix(1<<40 + n/4)
	}
	r.machine.Join(m.number, trust.Account(n), prefix)
	if established {
		r.machine.Vouch(m.number)
	}
	return m
}

// byNumber returns a peer; nil: there is none.
func (r *run) byNumber(n trust.Peer) *member {
	if n == 0 || int(n) > len(r.members) {
		return nil
	}
	return r.members[n-1]
}
