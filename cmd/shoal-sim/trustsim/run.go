package trustsim

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"shoal/channel"
	"shoal/internal/sim"
	"shoal/manager/trust"
)

// epoch is when simulated time begins.
var epoch = time.Unix(1_800_000_000, 0)

func clock(now int64) time.Time { return epoch.Add(time.Duration(now) * time.Second) }

// run is one simulation.
type run struct {
	web      *world
	rng      *rand.Rand
	machine  *trust.Machine
	attack   attack
	trouble  float64
	members  []*member
	fresh    []*member // newcomers, who wait for tasks
	events   sim.Queue[event]
	kept     kept
	last     int64
	arbiter  member
	evidence []uint64 // digests before the delivery, by page of the task
	seen     []trust.Seen
}

// event is what comes next: a crawl of a site, or an audit's answer.
type event struct {
	site  int32
	page  int32 // -1: a crawl
	turn  int
	audit *trust.Case
	said  uint64 // what the accused delivered
}

// setup is what is simulated.
type setup struct {
	attack  attack
	defence defence
	f       float64
	seed    uint64
	peers   int
	sites   int
	pages   int
	days    int
	trouble float64
	rules   func(*trust.Config)
}

func newRun(s setup) (*run, error) {
	cfg := trust.Default()
	s.defence.rules(&cfg)
	if s.rules != nil {
		s.rules(&cfg)
	}
	m, err := trust.New(cfg, sim.Rand(s.seed, "trust machine"))
	if err != nil {
		return nil, err
	}
	r := &run{web: newWorld(s.seed, s.sites, s.pages), rng: sim.Rand(s.seed, "trust run"), machine: m, attack: s.attack, trouble: s.trouble, last: int64(s.days) * 86400}
	liars := int(s.f * float64(s.peers))
	if s.attack.storm {
		liars = 0
	}
	for i := range s.peers {
		r.newMember(i < liars, true, 0)
	}
	r.place(s)
	for i := range r.web.sites {
		r.events.Push(int64(r.rng.Float64()*r.web.sites[i].gap), event{site: int32(i), page: -1})
	}
	return r, nil
}

// place says who is near each site. Liars who are after a host are near it: they are half of those.
func (r *run) place(s setup) {
	for i := range r.web.sites {
		for range min(nearPeers, s.peers) {
			r.web.sites[i].near = append(r.web.sites[i].near, int32(r.rng.IntN(s.peers)))
		}
	}
	if s.attack.target && s.f > 0 {
		t := &r.web.sites[slices.IndexFunc(r.web.sites, func(s site) bool { return s.pages >= 30 && !s.geo && !s.cached })]
		t.target = true
		for i := range t.near {
			if i%2 == 0 {
				t.near[i] = int32(r.rng.IntN(max(int(s.f*float64(s.peers)), 1)))
			}
		}
	}
}

// simulate runs to the end.
func (r *run) simulate(ctx context.Context, storm int) error {
	day := int64(0)
	for {
		now, ok := r.events.Next()
		if !ok || now >= r.last {
			break
		}
		if now/86400 >= day {
			if err := ctx.Err(); err != nil {
				return err
			}
			r.newDay(day*86400, storm)
			day++
		}
		_, e := r.events.Pop()
		if e.page < 0 {
			r.crawl(now, e)
		} else {
			r.check(now, e)
		}
	}
	for i := range r.web.pages {
		r.settle(i, r.last)
	}
	return nil
}

// newDay lets peers join: five honest ones in a thousand, and in a storm the sybils.
func (r *run) newDay(now int64, storm int) {
	for range max(len(r.members)/1000, 1) * 5 {
		if now > 0 && len(r.fresh) < 5000 {
			r.fresh = append(r.fresh, r.newMember(false, false, now))
		}
	}
	if r.attack.storm {
		for range storm {
			r.fresh = append(r.fresh, r.newMember(true, false, now))
		}
	}
	worked := 0
	for _, m := range r.members {
		if !m.gone {
			worked++
		}
	}
	r.machine.Worked(float64(worked))
	r.fresh = slices.DeleteFunc(r.fresh, func(m *member) bool {
		i, _ := r.machine.Peer(m.number)
		if i.Standing == trust.Established {
			for range 5 * nearPeers { // it is near some sites
				s := &r.web.sites[r.rng.IntN(len(r.web.sites))]
				s.near[r.rng.IntN(len(s.near))] = int32(m.number - 1)
			}
		}
		return i.Standing != trust.Newcomer
	})
}

// crawl hands a site's task out, has it crawled, and plans the next one.
func (r *run) crawl(now int64, e event) {
	s := &r.web.sites[e.site]
	if e.turn != s.turn {
		return // crawled out of turn meanwhile
	}
	s.turn++
	s.soon = false
	r.events.Push(now+1+int64(s.gap*(.8+.4*r.rng.Float64())), event{site: e.site, page: -1, turn: s.turn})
	m := r.choose(now, int(e.site))
	if m == nil {
		return
	}
	r.machine.Handed(m.number)
	s.last = int32(m.number)
	m.sites = append(m.sites, e.site)
	r.deliver(now, int(e.site), m)
}

// choose draws who crawls a site: a newcomer now and then, else a peer near it that is apart from the last one, or one to whom pages that are held are to be shown, else
// any.
func (r *run) choose(now int64, site int) *member {
	s := &r.web.sites[site]
	of := channel.ID(site + 1)
	watched, viewed := r.machine.Watched(clock(now), of), r.machine.Viewed(of)
	r.kept.tasks++
	last := trust.Peer(max(s.last, 0))
	fits := func(m *member) bool {
		switch {
		case m.gone || !r.machine.MayTake(m.number, watched):
			return false
		case viewed:
			return r.machine.Sees(clock(now), m.number, of)
		}
		return m.number != last && r.machine.Apart(m.number, last)
	}
	if len(r.fresh) > 0 && r.rng.Float64() < .1 { // they ask for work more often than they get it
		if m := r.fresh[r.rng.IntN(len(r.fresh))]; fits(m) {
			return m
		}
	}
	for range 40 {
		if m := r.members[s.near[r.rng.IntN(len(s.near))]]; !watched && fits(m) {
			return m
		}
	}
	r.kept.anywhere++
	for range 200 {
		if m := r.members[r.rng.IntN(len(r.members))]; m.established(r) && fits(m) {
			return m
		}
	}
	return nil
}

// established tells whether a peer is past its probation, so that it is drawn like the others.
func (m *member) established(r *run) bool {
	i, _ := r.machine.Peer(m.number)
	return i.Standing == trust.Established
}

// deliver has a peer crawl a site, and the machine take it in.
func (r *run) deliver(now int64, site int, m *member) {
	s := &r.web.sites[site]
	r.seen, r.evidence = r.seen[:0], r.evidence[:0]
	captchas := s.pages // from here on
	if r.rng.Float64() < captchaTask*r.trouble {
		captchas = r.rng.IntN(s.pages)
	}
	lied := false
	for n := range s.pages {
		i := s.first + n
		p := &r.web.pages[i]
		r.settle(i, now)
		d := r.fetch(m, s, i, now, true)
		if n >= captchas {
			d = digestOf(captcha, 0, 0)
		}
		truth := d
		if m.liar {
			d = r.says(m, s, i, d, now)
			lied = lied || d != truth
		}
		seen := trust.Seen{URL: uint64(i) + 1, Page: &p.rec, Digest: d}
		switch {
		case d == 0:
			p.stale = p.stale || uint32(p.rec.Cur.Digest) != uint32(truth)
		case p.kind == still && p.rec.Tells() && d == p.rec.Cur.Digest && d == truth: // by the validators that it was told
			seen.Digest, p.stale = 0, false
		default:
			seen.Shingle, p.stale = shingleOf(p, i, d), false
		}
		if p.dated && d == truth && d != 0 && sourceOf(d) == real && uint32(d) == p.version {
			seen.Modified = clock(p.since).Unix()
		}
		r.evidence = append(r.evidence, p.rec.Cur.Digest)
		r.seen = append(r.seen, seen)
	}
	r.kept.fetches += s.pages
	if m.liar && (lied || m.lied > 0) {
		m.lied++
	}
	acts := r.machine.Deliver(clock(now), &trust.Delivery{Peer: m.number, Channel: channel.ID(site + 1), Domain: s.domain, At: clock(now), Pages: r.seen})
	acts = slices.Clone(acts)
	for n := range s.pages {
		r.credit(s.first + n)
	}
	r.follow(now, acts, r.seen)
}
