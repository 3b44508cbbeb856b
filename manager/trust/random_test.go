package trust

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"shoal/channel"
)

// chaos is a stage on which anything may happen: peers that lie in their own ways, an arbiter that meets captchas, and hosts of the Machine that forget.
type chaos struct {
	*stage
	t        *testing.T
	truth    map[uint64]string // what a page shows
	liars    map[Peer]bool
	upheld   map[Peer]map[uint64]float64 // charged, by domain, since all scores of the peer were zero
	accusers map[Peer]map[Account]bool   // accounts whose word stood against a peer
	open     []Case
}

// TestRandomWorlds lets anything happen and looks at what must always hold after each step.
func TestRandomWorlds(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			c := &chaos{stage: newStage(t, seed), t: t, truth: map[uint64]string{}, liars: map[Peer]bool{}, upheld: map[Peer]map[uint64]float64{}, accusers: map[Peer]map[Account]bool{}}
			for n := range 12 {
				p := Peer(n + 1)
				c.m.Join(p, Account(n+1), Prefix(n/2*2+n%2))
				if n < 9 {
					c.m.Vouch(p)
				}
				c.liars[p] = c.rng.IntN(3) == 0
			}
			for range 400 {
				c.move()
				c.check()
			}
		})
	}
}

func (c *chaos) move() {
	site := channel.ID(1 + c.rng.IntN(8))
	p := Peer(1 + c.rng.IntN(12))
	switch c.rng.IntN(14) {
	case 0, 1:
		c.now = c.now.Add(time.Duration(c.rng.IntN(48)) * time.Hour)
	case 2:
		c.truth[url(site, c.rng.IntN(6))] = fmt.Sprint("text", c.rng.IntN(4))
	case 3, 4, 5, 6, 7:
		c.deliverAny(site, p)
	case 8, 9, 10:
		c.answer()
	case 11:
		if i, _ := c.m.Peer(p); i.Standing == Suspended && c.rng.IntN(2) == 0 {
			if c.rng.IntN(2) == 0 {
				c.m.Uphold(p)
			} else {
				c.m.Pardon(p)
				for s, n := range c.each() {
					c.page(s, n).Restore(p)
				}
				delete(c.upheld, p)
				delete(c.accusers, p)
			}
		}
	case 12:
		if c.rng.IntN(4) == 0 {
			c.restart(c.t)
		}
	case 13:
		c.m.Worked(float64(c.rng.IntN(9)))
	}
}

// seen is what a peer gives of a page: the truth, now and then a captcha, and of a liar a lie that its comrades tell too.
func (c *chaos) seen(p Peer, u uint64) string {
	switch {
	case c.liars[p] && c.rng.IntN(3) == 0:
		return fmt.Sprint("lie", u, []string{"", "+"}[u%2])
	case c.rng.IntN(60) == 0:
		return "captcha"
	case c.truth[u] == "":
		return "first"
	}
	return c.truth[u]
}

func (c *chaos) deliverAny(site channel.ID, p Peer) {
	if !c.m.MayTake(p, c.m.Watched(c.now, site)) {
		return
	}
	d := &Delivery{Peer: p, Channel: site, Domain: uint64(site) * 7919 << 20, At: c.now}
	for n := range 6 {
		s := Seen{URL: url(site, n), Page: c.page(site, n)}
		if word := c.seen(p, s.URL); c.rng.IntN(5) > 0 || !s.Page.Tells() {
			s.Digest, s.Shingle = c.digest(word), shingle(word)
		}
		if c.rng.IntN(4) == 0 {
			s.Modified = c.now.Add(-time.Duration(c.rng.IntN(90)) * time.Hour).Unix()
		}
		d.Pages = append(d.Pages, s)
	}
	c.hear(c.m.Deliver(c.now, d))
}

// answer settles an open case: an audit by a checker, then the arbiter.
func (c *chaos) answer() {
	if len(c.open) == 0 {
		return
	}
	i := c.rng.IntN(len(c.open))
	k := c.open[i]
	c.open = slices.Delete(c.open, i, i+1)
	lie := c.seen(k.Accused, k.URL)
	if k.Accuser == 0 {
		checker := Peer(1 + c.rng.IntN(12))
		e := c.evidence(k, lie, c.seen(checker, k.URL))
		c.hear(c.m.Answered(c.now, checker, &e))
		return
	}
	r := Ruling{Evidence: c.evidence(k, lie, c.seen(k.Accuser, k.URL))}
	r.Arbiter = content(c.seen(0, k.URL))
	r.Modified = c.now.Add(-time.Duration(c.rng.IntN(90)) * time.Hour).Unix()
	c.hear(c.m.Ruled(c.now, &r))
	for _, a := range []Peer{k.Accused, k.Accuser} { // the arbiter stands behind each charge
		if c.accusers[a] == nil {
			c.accusers[a] = map[Account]bool{}
		}
		c.accusers[a][0] = true
	}
}

// hear does what the Machine wants, and keeps books of charges.
func (c *chaos) hear(acts []Act) {
	for _, a := range slices.Clone(acts) {
		switch a.Kind {
		case Audit, Arbitrate:
			c.open = append(c.open, a.Case)
		case Charge:
			if a.Amount < 0 || a.Score < a.Amount-1e-5 {
				c.t.Fatalf("a charge of %v to %v", a.Amount, a.Score)
			}
			if c.upheld[a.Peer] == nil {
				c.upheld[a.Peer] = map[uint64]float64{}
			}
			c.upheld[a.Peer][uint64(a.Channel)] += a.Amount
		case Suspend:
			c.suspended(a.Peer)
		case Hold, Accept, Restore:
			c.say([]Act{a})
		case Withdraw:
			for s, n := range c.each() {
				c.page(s, n).Withdraw(a.Peer)
			}
			for s, n := range c.each() {
				if v := c.page(s, n).Shown(); v != nil && v.By == a.Peer && v.Seen() == 0 {
					c.t.Fatalf("page %d of channel %d still shows what suspended peer %d alone saw", n, s, a.Peer)
				}
			}
		}
	}
}

// suspended looks whether a suspension rests on enough: several domains, and an arbiter.
func (c *chaos) suspended(p Peer) {
	domains := 0
	for _, x := range c.upheld[p] {
		if x > 0 {
			domains++
		}
	}
	if least := int(math.Ceil(c.m.cfg.T / c.m.cfg.DomainCap2)); domains < least {
		c.t.Fatalf("peer %d is suspended by charges on %d domains; %d are the least: %v", p, domains, least, c.upheld[p])
	}
	if !c.accusers[p][0] {
		c.t.Fatalf("peer %d is suspended, and no arbiter ever looked", p)
	}
}

// check looks at what must hold in every state.
func (c *chaos) check() {
	for _, i := range c.m.Peers() {
		for s, x := range i.Scores {
			if x < 0 || x > maxScore {
				c.t.Fatalf("peer %d has %v as its score of %v", i.Peer, x, Score(s))
			}
		}
		if top := slices.Max(i.Scores[:]); top == 0 {
			if p := c.m.peers[i.Peer]; p.peak != 0 || p.suspect || p.domains != [domainsKept]sum{} || p.charged != [tasksKept]sum{} {
				c.t.Fatalf("peer %d has a history at score zero: %+v", i.Peer, p)
			}
		} else if top >= c.m.cfg.T && i.Standing == Established {
			c.t.Fatalf("peer %d works on with a score of %v", i.Peer, top)
		}
		if (i.Standing == Suspended || i.Standing == Banned) && (c.m.MayTake(i.Peer, false) || c.m.MayCheck(i.Peer)) {
			c.t.Fatalf("peer %d is %v, and may work", i.Peer, i.Standing)
		}
	}
	for s, n := range c.each() {
		p := c.page(s, n)
		for _, v := range []*Version{&p.Cur, &p.Prev} {
			if v.State != Verified {
				continue
			}
			if v.Seen() < 1 || slices.Contains(v.Also[:], v.By) {
				c.t.Fatalf("page %d of channel %d is verified: %+v", n, s, v)
			}
			for _, by := range v.Also[:v.Seen()] {
				if a, b := c.m.peers[by], c.m.peers[v.By]; !apart(a, b) || a.standing == Newcomer {
					c.t.Fatalf("page %d of channel %d is verified by peer %d, %v, who is not apart from %d", n, s, by, a.standing, v.By)
				}
			}
		}
	}
}

// TestNoCredit shows that good conduct buys nothing: a peer that was good for long is suspended by the same charges as one that was not.
func TestNoCredit(t *testing.T) {
	m, err := New(Default(), rand.New(rand.NewPCG(1, 1)))
	if err != nil {
		t.Fatal(err)
	}
	m.cfg.Enforce = true
	now := time.Unix(1_800_000_000, 0)
	after := map[Peer]int{}
	for _, n := range []Peer{1, 2} {
		m.Join(n, Account(n), Prefix(n))
		m.Vouch(n)
		p := m.peers[n]
		if n == 2 {
			for range 10_000 {
				m.credit(p, m.cfg.DriftValid, Forging, Laziness)
			}
		}
		for c := 1; p.standing == Established; c++ {
			m.charge(now, charge{reason: LostAudit, peer: n, channel: channel.ID(c), domain: uint64(c) << 32, task: int64(c), amount: 2.77})
			after[n]++
		}
	}
	if after[1] != after[2] || after[1] != 7 {
		t.Errorf("suspended after %v lost audits, want 7 each", after)
	}
}

// TestNewcomersShare hands out tasks to one established peer and two hundred newcomers behind one prefix: they get what two accounts may have, and 3%.
func TestNewcomersShare(t *testing.T) {
	m, err := New(Default(), rand.New(rand.NewPCG(1, 1)))
	if err != nil {
		t.Fatal(err)
	}
	m.cfg.Enforce = true
	m.Join(1, 1, 1)
	m.Vouch(1)
	got := map[Peer]int{}
	for n := range 200 {
		m.Join(Peer(n+2), Account(n+2), 77)
	}
	all := 0
	for i := range 20_000 {
		p := Peer(i%200 + 2)
		if !m.MayTake(p, false) {
			p = 1
		}
		m.Handed(p)
		got[p]++
		if p != 1 {
			all++
		}
	}
	if len(got) != 3 {
		t.Errorf("%d peers got tasks, want the established one and two of the prefix", len(got))
	}
	if share := float64(all) / 20_000; share > .031 || all == 0 {
		t.Errorf("newcomers got %.2f%% of the tasks, want at most 3", 100*share)
	}
}

// TestPropose draws scores of honest peers, and looks whether the T that they teach is kept as often as promised.
func TestPropose(t *testing.T) {
	m, err := New(Default(), rand.New(rand.NewPCG(1, 1)))
	if err != nil {
		t.Fatal(err)
	}
	if p := m.Propose(); p.T != 0 {
		t.Errorf("T is %v by no evidence at all", p.T)
	}
	rng := rand.New(rand.NewPCG(2, 2))
	const years, excursions, slope = 100, 5000, .8
	for range excursions {
		m.tail.end(rng.ExpFloat64() / slope)
	}
	m.Worked(365.25 * years)
	want := math.Log(excursions/(years*perYear)) / slope // exceeded once in a thousand years
	if p := m.Propose(); math.Abs(p.T-want) > 2.5 || p.Excursions != excursions || math.Abs(p.PeerYears-years) > 1e-6 {
		t.Errorf("proposed %+v, want T near %.1f", p, want)
	}
}
