package manager_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"shoal/channel"
	"shoal/channel/lease"
	"shoal/coords"
	"shoal/internal/member"
	"shoal/manager"
	"shoal/manager/archive"
	"shoal/manager/archive/evidence"
	"shoal/manager/desk"
	"shoal/manager/trust"
	"shoal/overlay"
)

// village is a swarm of some peers, each of an account of its own. All see the same Web, but for liars.
type village struct {
	*swarm
	t     *testing.T
	names []string
	liar  string // whose pages have a link that nobody else sees

	mu     sync.Mutex
	rng    *rand.Rand
	barred []string
	checks map[string]int // errands, by who had them
	by     map[channel.ID]string
	same   int // crawls in turn by one peer
	crawls int
	sites  int
	gens   map[channel.ID]map[channel.Gen]bool // of tasks

	lazy   string   // says of all pages that they are unchanged, but for checks
	moving bool     // pages differ at each fetch, and there are six of each site
	slow   bool     // checkers answer later
	later  []func() // their answers
	closed bool     // no peer takes a task any more

	accountOf func(string) string // as the archive learns it; nil: each peer stands for itself

	gap    time.Duration        // that hosts want between visits
	ended  map[string]time.Time // the last visit of each host
	tooNew []string             // visits that came sooner
}

func newVillage(t *testing.T, names ...string) *village {
	return &village{t: t, names: names, rng: rand.New(rand.NewPCG(5, 6)), checks: map[string]int{}, by: map[channel.ID]string{}, gens: map[channel.ID]map[channel.Gen]bool{}, ended: map[string]time.Time{}}
}

// View is the same one until a peer is barred.
func (v *village) View() *overlay.View {
	v.mu.Lock()
	defer v.mu.Unlock()
	var peers []overlay.PeerRecord
	for _, n := range v.names {
		if !slices.Contains(v.barred, n) {
			peers = append(peers, overlay.PeerRecord{ID: overlay.ID(n), Account: "account of " + n, Load: overlay.Load{Threads: 8, Slots: 20}})
		}
	}
	return overlay.ViewOf(time.Now(), peers)
}

// truth is what a URL shows.
func truth(url string) string {
	return fmt.Sprintf("<title>A page</title><p>The page at %s tells of the harbour, of its ships and of the weather. <a href=\"https://known.example/\">more</a></p>", url)
}

func (v *village) Place(_ context.Context, signed channel.Signed, h channel.Header, _ coords.HostRecord, named overlay.Named) (overlay.Placed, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return overlay.Placed{}, overlay.ErrRefused
	}
	peer := string(named.Peer)
	if peer == "" {
		peer = v.names[v.rng.IntN(len(v.names))]
	}
	v.swarm.crawls.Go(func() { v.crawl(peer, signed, h) })
	return overlay.Placed{Peer: overlay.ID(peer), Start: time.Now(), RTT: 5 * time.Millisecond, RandomRTT: 50 * time.Millisecond}, nil
}

// noted counts a task, and looks whether its number would tell a check.
func (v *village) noted(peer string, h channel.Header, check bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.gens[h.Channel] == nil {
		v.gens[h.Channel] = map[channel.Gen]bool{}
	}
	if int(h.Channel) > v.sites || v.gens[h.Channel][h.Gen] {
		v.t.Errorf("channel %d, generation %d: %d sites, and used before: %v", h.Channel, h.Gen, v.sites, v.gens[h.Channel][h.Gen])
	}
	v.gens[h.Channel][h.Gen] = true
	if check {
		v.checks[peer]++
		return
	}
	v.crawls++
	if v.by[h.Channel] == peer {
		v.same++
	}
	v.by[h.Channel] = peer
}

func (v *village) crawl(peer string, signed channel.Signed, h channel.Header) {
	ctx := context.Background()
	c, err := v.archive.Claim(ctx, peer, signed)
	if err != nil || c.Status != lease.Granted {
		return // it was too late, or the test is over
	}
	body, err := channel.ParseBody(c.Body)
	if err != nil {
		v.t.Error(err)
		return
	}
	now := time.Now()
	urls := body.Seeds
	check := len(c.Resume.Done) > 0 // all others of a village are whole crawls
	if check {
		urls = nil
		for _, f := range c.Resume.Frontier {
			urls = append(urls, f.URL)
		}
	}
	v.noted(peer, h, check)
	v.visited(h.Host, fmt.Sprintf("channel %d", h.Channel))
	chunk := channel.ChunkBody{Report: &channel.Report{Channel: h.Channel, Gen: h.Gen, Peer: peer, Outcome: channel.Updated, Started: now, Ended: now, Gap: v.gap, Pages: len(urls), BytesDown: 100}}
	for _, u := range urls {
		text := truth(u)
		if peer == v.liar && !check {
			text += `<p>Buy here. <a href="https://shop.example/">shop</a></p>`
		}
		p := channel.Page{URL: u, Status: 200, Change: channel.Changed, Fetched: now, Header: []byte("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"), Body: []byte(text)}
		if v.moving {
			p.Body = fmt.Appendf(p.Body, "<p>You are visitor %d.</p>", now.UnixNano())
			p.Shingle = channel.URLHash(u) // nearly the same text
		}
		p.Digest = channel.ContentDigest(p.Body)
		if peer == v.lazy && !check && c.Seq > 0 {
			p = channel.Page{URL: u, Status: 304, Change: channel.Unchanged, Fetched: now}
		}
		chunk.Pages = append(chunk.Pages, p)
	}
	raw, err := channel.CompressBody(chunk.Marshal())
	if err != nil {
		v.t.Error(err)
		return
	}
	answer := func() {
		_, _ = v.archive.Put(ctx, peer, channel.Chunk{Channel: h.Channel, Gen: h.Gen, Seq: c.Seq + 1, Prev: c.Head, Body: raw}) // it may be fenced off meanwhile
	}
	v.mu.Lock()
	if check && v.slow {
		v.later = append(v.later, answer)
		answer = func() {}
	}
	v.mu.Unlock()
	answer()
}

// Vantages and Fetch make it an arbiter that sees the truth.
func (v *village) Vantages() int { return 2 }

func (v *village) Fetch(_ context.Context, url string, vantage int, gap time.Duration, _ channel.Settings) (channel.Page, time.Duration, error) {
	if vantage == 0 {
		v.visited(channel.Origin(url), "the arbiter")
	}
	page := channel.Page{URL: url, Status: 200, Fetched: time.Now(), Header: []byte("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"), Body: []byte(truth(url))}
	if vantage == 0 {
		page.Body = []byte("<title>Not in your country</title>")
	}
	return page, gap, nil
}

// visited notes a visit of a host, and whether it came too soon after the last one.
func (v *village) visited(host, by string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := time.Now()
	if last := v.ended[host]; !last.IsZero() && now.Before(last.Add(v.gap)) {
		v.tooNew = append(v.tooNew, fmt.Sprintf("%s, %s: after %v", host, by, now.Sub(last)))
	}
	v.ended[host] = now
}

func (v *village) bar(name string, barred bool) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.barred = slices.DeleteFunc(v.barred, func(n string) bool { return n == name }); barred {
		v.barred = append(v.barred, name)
	}
	return nil
}

// Invite, Ban and Banned make it the members that a desk works with.
func (v *village) Invite(uint32) (string, error)      { return "", errors.New("no invites here") }
func (v *village) Ban(name string, banned bool) error { return v.bar(name, banned) }
func (v *village) Banned() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.barred)
}

// live opens a manager of a village that crawls a number of sites, each with some pages.
func live(t *testing.T, dir string, v *village, arbiter bool, sites int) *bench {
	v.sites += sites
	b := open(t, dir, func(c *manager.Config, s *swarm) {
		v.swarm = s
		s.members, s.accountOf = v, v.accountOf
		c.Bar, c.MinPeersWait = v.bar, 0
		if arbiter {
			c.Arbiter = v
		}
	}, v)
	var chs []channel.Channel
	for i := range sites {
		host := fmt.Sprintf("https://site-%d.example", i)
		chs = append(chs, channel.Channel{State: channel.Active, Added: time.Now(), Scope: channel.Scope{Kind: channel.WholeHost, Host: host},
			Seeds: []string{host + "/", host + "/a", host + "/b"}})
		if v.moving {
			chs[i].Seeds = append(chs[i].Seeds, host+"/c", host+"/d", host+"/e")
		}
	}
	if _, _, err := b.m.AddChannels(t.Context(), chs); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *bench) trust(t *testing.T) manager.TrustInfo {
	i, err := b.m.Trust(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// standing is how a peer stands.
func (b *bench) standing(t *testing.T, name string) manager.PeerTrust {
	all, err := b.m.TrustPeers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		if p.ID == name {
			return p
		}
	}
	return manager.PeerTrust{}
}

// TestHonestPeersAreNotNoticed has honest peers deliver and check: all checks are valid, nobody is charged, pages are verified, no peer crawls a channel twice in
// turn where others are near, and a restart knows all that.
func TestHonestPeersAreNotNoticed(t *testing.T) {
	t.Parallel()
	dir, v := t.TempDir(), newVillage(t, "a", "b", "c", "d", "e")
	b := live(t, dir, v, true, 6)
	if err := b.m.Vouch(t.Context(), v.names...); err != nil {
		t.Fatal(err)
	}
	until(t, "audits that were answered", func() bool { i := b.trust(t); return i.Counts.Deliveries > 40 && i.Errands.Answered > 5 })
	i := b.trust(t)
	if i.Counts.Charges > 0 || i.Counts.Suspended+i.Counts.WouldSuspend > 0 || i.Suspects > 0 || i.Standings[trust.Established] != 5 {
		t.Errorf("honest peers: %+v", i)
	}
	if o := b.m.Overview(); o.Audits < 5 || o.Accepted > o.Updates+o.Lapsed+int64(o.Out) {
		t.Errorf("audits count as tasks: %d accepted, %d updates, %d lapsed, %d out; %d audits", o.Accepted, o.Updates, o.Lapsed, o.Out, o.Audits)
	}
	p, err := b.a.Record(t.Context(), 1, channel.URLHash("https://site-0.example/"))
	if err != nil || p.Record.Cur.State != trust.Verified {
		t.Errorf("a page that all see alike is %v, %v", p.Record.Cur.State, err)
	}
	v.mu.Lock()
	if v.same*10 > v.crawls {
		t.Errorf("%d of %d crawls were by the peer of the one before", v.same, v.crawls)
	}
	v.mu.Unlock()
	was := b.standing(t, "a")
	b.stop()
	again := live(t, dir, v, true, 0)
	if is := again.standing(t, "a"); is.Tasks < was.Tasks || is.Tasks == 0 || is.Standing != trust.Established {
		t.Errorf("after a restart %+v; before it %+v", is, was)
	}
}

// TestAuditsOutliveARestart has the manager restarted while checkers are at work: what they bring then still counts.
func TestAuditsOutliveARestart(t *testing.T) {
	t.Parallel()
	dir, v := t.TempDir(), newVillage(t, "a", "b", "c", "d", "e")
	v.slow = true
	b := live(t, dir, v, true, 6)
	if err := b.m.Vouch(t.Context(), v.names...); err != nil {
		t.Fatal(err)
	}
	until(t, "checkers at work", func() bool { v.mu.Lock(); defer v.mu.Unlock(); return len(v.later) >= 3 })
	v.mu.Lock()
	v.closed = true
	v.mu.Unlock()
	b.stop()
	again := live(t, dir, v, true, 0)
	if i := again.trust(t); i.Waiting < 3 {
		t.Errorf("after a restart %d pages wait to be looked at", i.Waiting)
	}
	for _, answer := range v.later {
		answer()
	}
	until(t, "that their answers count", func() bool { return again.trust(t).Errands.Answered >= 3 })
}

// TestNothingChangedHasACase has a peer say of pages that differ at each fetch that all are unchanged: the operator sees a case with one of them, and how many
// there were.
func TestNothingChangedHasACase(t *testing.T) {
	t.Parallel()
	v := newVillage(t, "a", "b", "c", "d", "mallory")
	v.lazy, v.moving = "mallory", true
	b := live(t, t.TempDir(), v, true, 6)
	if err := b.m.Vouch(t.Context(), v.names...); err != nil {
		t.Fatal(err)
	}
	until(t, "a case", func() bool {
		p, cases, err := b.m.Evidence(t.Context(), "mallory")
		for _, c := range cases {
			if c.About.Reason == trust.NothingChanged && err == nil && !c.Closed.IsZero() {
				return c.Loser == p.Peer && c.Amount > 0 && strings.Contains(c.Note, "6 pages") && c.URL != ""
			}
		}
		return false
	})
}

// suspending has a manager whose rules count suspend mallory, one of five peers, who lies.
func suspending(t *testing.T, dir string, arbiter bool) (*village, *bench) {
	t.Helper()
	v := newVillage(t, "a", "b", "c", "d", "mallory")
	v.liar = "mallory"
	b := live(t, dir, v, arbiter, 12)
	enforce := true
	if _, err := b.m.SetTrust(t.Context(), manager.TrustChoice{Enforce: &enforce}); err != nil {
		t.Fatal(err)
	}
	if err := b.m.Vouch(t.Context(), v.names...); err != nil {
		t.Fatal(err)
	}
	until(t, "a suspension", func() bool { return b.standing(t, "mallory").Standing == trust.Suspended })
	return v, b
}

// TestSuspensionOutlivesARebuild has the archive's database made anew: what a suspended peer alone has seen is withdrawn again.
func TestSuspensionOutlivesARebuild(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	v, b := suspending(t, dir, true)
	number := archive.DelivererName(b.a.DelivererNumber("mallory"))
	b.stop()
	if _, err := archive.Rebuild(t.Context(), archive.Config{Dir: dir + "/archive", Verify: member.NewVerifier(b.keys.Network).VerifyTask}); err != nil {
		t.Fatal(err)
	}
	again := live(t, dir, v, true, 0)
	all, err := again.a.Suspensions(t.Context())
	if err != nil || len(all) != 1 || all[0].Deliverer != number || all[0].Pardon {
		t.Errorf("after a rebuild the archive has suspended %+v, %v; want %s", all, err, number)
	}
}

// TestLooksAreVisits has a host left alone after a look at some of its pages as after a crawl of it, and after a crawl before a look.
func TestLooksAreVisits(t *testing.T) {
	t.Parallel()
	v := newVillage(t, "a", "b", "c", "d", "e")
	v.gap = 300 * time.Millisecond
	b := live(t, t.TempDir(), v, false, 3)
	if err := b.m.Vouch(t.Context(), v.names...); err != nil {
		t.Fatal(err)
	}
	until(t, "looks between crawls", func() bool { i := b.trust(t); return i.Counts.Deliveries > 20 && i.Errands.Answered > 5 })
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.tooNew) > 0 {
		t.Errorf("%d of %d visits came within %v of the last one: %s", len(v.tooNew), v.crawls, v.gap, v.tooNew[0])
	}
}

// TestLiarIsSuspended has one of five peers add links: it is suspended, by the arbiter's word or by that of others, what it alone has seen is not shown, and the
// evidence is there. A pardon gives it back.
func TestLiarIsSuspended(t *testing.T) {
	t.Parallel()
	for _, arbiter := range []bool{true, false} {
		t.Run(fmt.Sprint("arbiter=", arbiter), func(t *testing.T) {
			t.Parallel()
			v, b := suspending(t, t.TempDir(), arbiter)
			for _, n := range v.names[:4] {
				if p := b.standing(t, n); p.Standing != trust.Established {
					t.Errorf("%s is %v: %+v", n, p.Standing, p)
				}
			}
			until(t, "that it is no member", func() bool {
				v.mu.Lock()
				defer v.mu.Unlock()
				return slices.Contains(v.barred, "mallory")
			})
			third := evidence.Arbiter
			if !arbiter {
				third = evidence.Second
			}
			var p manager.PeerTrust
			var decided archive.EvidenceCase
			until(t, "a case that it lost, with all sides", func() bool { // they are filed beside the suspension
				var cases []archive.EvidenceCase
				var err error
				if p, cases, err = b.m.Evidence(t.Context(), "mallory"); err != nil {
					t.Fatal(err)
				}
				for _, c := range cases {
					if c.Loser != p.Peer {
						continue
					}
					if decided, err = b.m.Case(t.Context(), c.Number); err != nil {
						t.Fatal(err)
					}
					if decided.Side(evidence.Delivered) != nil && decided.Side(evidence.Checked) != nil && decided.Side(third) != nil && decided.Amount > 0 {
						return true
					}
				}
				return false
			})
			if p.Scores[trust.Forging] < 18 {
				t.Errorf("its scores are %v", p.Scores)
			}
			until(t, "that its pages are not shown", func() bool {
				for i := range 12 {
					for _, u := range []string{"/", "/a", "/b"} {
						url := fmt.Sprintf("https://site-%d.example%s", i, u)
						id, err := b.db.Lookup(t.Context(), url)
						if err != nil {
							t.Fatal(err)
						}
						r, err := b.a.Record(t.Context(), id, channel.URLHash(url))
						if err != nil {
							return false
						}
						if s := r.Record.Shown(); s != nil && s.Digest != channel.ContentDigest([]byte(truth(url))) {
							return false
						}
					}
				}
				return true
			})
			shown, err := b.d.Court().Evidence(t.Context(), p.ID)
			if err != nil || shown.Standing != "suspended" || len(shown.Cases) == 0 {
				t.Errorf("the desk shows %+v, %v", shown, err)
			}
			k, err := b.d.Court().Case(t.Context(), fmt.Sprintf("%016x", decided.Number))
			if err != nil || len(k.Sides) < 3 || k.Loser != shown.Deliverer || !strings.Contains(k.Sides[0].Body+k.Sides[1].Body, "Buy here") {
				t.Errorf("the desk shows the case as %+v, %v", k, err)
			}
			if _, err := b.d.Court().Uphold(t.Context(), "nobody"); !errors.Is(err, desk.ErrAsk) {
				t.Errorf("of a peer that there is not: %v", err)
			}
			b.notAdmitted(t, "mallory", "account of mallory")
			if err := v.bar("mallory", false); err != nil { // as a manager of before would do
				t.Fatal(err)
			}
			if up, err := b.d.Court().Uphold(t.Context(), shown.Deliverer); err != nil || up.Standing != "banned" {
				t.Errorf("upheld: %+v, %v", up, err)
			}
			until(t, "that it is refused", func() bool { return slices.Contains(v.Banned(), "mallory") })
			b.notAdmitted(t, "mallory", "account of mallory")
			if sum, err := b.d.Court().Rules(t.Context()); err != nil || sum.Banned != 1 || !sum.Enforce || sum.Suspensions != 1 || len(sum.Says) == 0 {
				t.Errorf("the desk sums up %+v, %v", sum, err)
			}
			if _, err := b.d.Court().Pardon(t.Context(), "mallory"); err != nil {
				t.Fatal(err)
			}
			if p := b.standing(t, "mallory"); p.Standing != trust.Established || p.Pardons != 1 {
				t.Errorf("after a pardon: %+v", p)
			}
			until(t, "that it is a member again", func() bool {
				v.mu.Lock()
				defer v.mu.Unlock()
				return !slices.Contains(v.barred, "mallory")
			})
		})
	}
}

// notAdmitted tries to admit again who is refused for what was delivered, and to vouch for it. The operator is told of the pardon instead.
func (b *bench) notAdmitted(t *testing.T, peer, account string) {
	t.Helper()
	standing := b.standing(t, peer).Standing.String()
	for _, name := range []string{peer, account} {
		if err := b.d.Ban(t.Context(), name, false); !errors.Is(err, desk.ErrAsk) || !strings.Contains(err.Error(), "shoal peer pardon d-") {
			t.Errorf("%s was admitted again: %v", name, err)
		}
	}
	if err := b.d.Court().Vouch(t.Context(), peer, false); !errors.Is(err, desk.ErrAsk) {
		t.Errorf("the operator vouches for a peer that is %s: %v", standing, err)
	}
	refused, err := b.d.Refused(t.Context())
	if err != nil || !slices.ContainsFunc(refused, func(r desk.Refused) bool { return r.Name == account && r.Standing == standing && r.Deliverer != "" }) {
		t.Errorf("refused are %+v, %v; %s should be %s", refused, err, account, standing)
	}
}

// TestVouchForAMisspeltPeer has nobody believed whom nobody knows, unless the peer has yet to join.
func TestVouchForAMisspeltPeer(t *testing.T) {
	t.Parallel()
	v := newVillage(t, "a", "b")
	b := live(t, t.TempDir(), v, true, 1)
	court := b.d.Court()
	for _, name := range []string{"", "nobody", "d-0123456789ab"} {
		if err := court.Vouch(t.Context(), name, false); !errors.Is(err, desk.ErrAsk) || b.standing(t, name).ID != "" {
			t.Errorf("vouched for %q: %v", name, err)
		}
	}
	for name, ahead := range map[string]bool{"a": false, "newcomer": true} {
		if err := court.Vouch(t.Context(), name, ahead); err != nil || b.standing(t, name).Standing != trust.Established {
			t.Errorf("%s is %v: %v", name, b.standing(t, name).Standing, err)
		}
	}
}

// TestPardonAfterARestart gives back the membership of a peer and of its account, of which the overlay has told nothing since the start.
func TestPardonAfterARestart(t *testing.T) {
	t.Parallel()
	dir, v := t.TempDir(), newVillage(t, "a", "b", "c", "d", "mallory")
	v.liar, v.accountOf = "mallory", func(peer string) string { return "account of " + peer }
	b := live(t, dir, v, true, 12)
	enforce := true
	if _, err := b.m.SetTrust(t.Context(), manager.TrustChoice{Enforce: &enforce}); err != nil {
		t.Fatal(err)
	}
	if err := b.m.Vouch(t.Context(), v.names...); err != nil {
		t.Fatal(err)
	}
	until(t, "that it is no member", func() bool { return len(v.Banned()) == 2 })
	b.stop()
	again := live(t, dir, v, true, 0)
	if p, err := again.d.Court().Pardon(t.Context(), "mallory"); err != nil || p.Account != "account of mallory" {
		t.Fatalf("%+v, %v", p, err)
	}
	until(t, "that it is a member again, and its account", func() bool { return len(v.Banned()) == 0 })
}

// TestShadowSuspendsNobody has a liar at work while scores only run: what would have been is told, and it goes on.
func TestShadowSuspendsNobody(t *testing.T) {
	t.Parallel()
	v := newVillage(t, "a", "b", "c", "d", "mallory")
	v.liar = "mallory"
	b := live(t, t.TempDir(), v, true, 12)
	if err := b.m.Vouch(t.Context(), v.names...); err != nil {
		t.Fatal(err)
	}
	until(t, "what would have been a suspension", func() bool { return b.trust(t).Counts.WouldSuspend > 0 })
	if p := b.standing(t, "mallory"); p.Standing != trust.Established {
		t.Errorf("in shadow it is %v", p.Standing)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.barred) > 0 {
		t.Errorf("%v are no members", v.barred)
	}
}

// TestNewcomersAreCheckedByTheArbiter has peers that nobody vouches for: the arbiter checks what no peer may check yet, and leaves hosts alone before and after it
// as peers do.
func TestNewcomersAreCheckedByTheArbiter(t *testing.T) {
	t.Parallel()
	v := newVillage(t, "a", "b", "c")
	v.gap = 300 * time.Millisecond
	b := live(t, t.TempDir(), v, true, 6)
	until(t, "checks by the arbiter", func() bool { i := b.trust(t); return i.Counts.Fetched > 3 && b.standing(t, "a").Checks > 0 })
	if i := b.trust(t); i.Counts.Charges > 0 {
		t.Errorf("honest newcomers: %+v", i)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.tooNew) > 0 {
		t.Errorf("%d visits came within %v of the last one: %s", len(v.tooNew), v.gap, v.tooNew[0])
	}
}
