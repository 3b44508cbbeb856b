package e2e

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"shoal/internal/lab/pond"
	"shoal/internal/lab/rogue"
	"shoal/internal/wire/wirepb"
	"shoal/manager/api"
	"shoal/manager/desk"
)

// The environment of TestLiars, which `make trust` sets.
const (
	liarsEnv        = "SHOAL_LIARS"         // kinds of liars with commas between them, or all
	liarsFileEnv    = "SHOAL_TRUST"         // where the rows go, as JSON
	liarsMinutesEnv = "SHOAL_LIARS_MINUTES" // most that a run of four kinds takes; default 20
	liarsDefenceEnv = "SHOAL_LIARS_DEFENCE" // none: nothing is fetched again and nobody is suspended, and the judge must see what the liars wrote
)

// liarsArbiterEnv set to off has two more checkers decide what is contested.
const liarsArbiterEnv = "SHOAL_LIARS_ARBITER"

const (
	sybilEvery = 15 * time.Second
	mostSybils = 40
)

// findable tells whether liars of a kind must be suspended. One page in a thousand is below what honest peers lose by chance; of sybils none does enough; and one domain
// convicts nobody, so that who is after one host must be charged, and the host watched instead.
func findable(l rogue.Liar) bool { return l.Name != "subtle-.1" && !l.Targets() && !l.Sybil }

// deceit is a network some of whose peers lie.
type deceit struct {
	honest, hosts int
	kinds         []rogue.Liar
	gap           time.Duration // honest peers' between two requests to a host
	trouble       pond.Trouble
	most          time.Duration // until all must be found
	mend          time.Duration // after they are upheld, until the archive must be right
	undefended    bool
	shadowed      bool // scores count only once the archive has shown a forgery: the judge sees them
}

// liarRow is what became of the liars of one kind.
type liarRow struct {
	Kind      string  `json:"kind"`
	Peers     int     `json:"peers"`
	Liars     int     `json:"liars"`
	Found     int     `json:"found"`
	AfterS    float64 `json:"found_after_s"`     // the last one; 0: not all were found
	WatchedS  float64 `json:"watched_after_s"`   // the host that they are after, once one of them was charged; 0: never, or they are after none
	Tasks     int64   `json:"tasks"`             // that they ended, at most
	Forged    int64   `json:"forged"`            // pages that they forged
	Score     float64 `json:"score"`             // highest at the end
	Shown     int     `json:"forged_shown"`      // pages of the archive that show a forgery when all are found, or the time is over; of all kinds of the run
	Verified  int     `json:"forged_verified"`   // captures that are verified and were never served, likewise
	Left      int     `json:"forged_left"`       // pages that show a forgery at the end, likewise
	Honest    int     `json:"honest_suspended"`  // honest peers, likewise
	Asked     float64 `json:"asked_share"`       // of the delivered pages, that were fetched again, likewise
	Delivered int64   `json:"pages_delivered"`   // likewise
	MendedS   float64 `json:"mended_s"`          // from upholding until the archive showed no forgery; -1: not within the run
	Blank     int     `json:"blank"`             // pages at the end that the archive has seen and shows nothing of, though they are there; likewise
	Expected  bool    `json:"expected_be_found"` // see findable
	Targets   bool    `json:"one_host"`          // they are after one host
}

// TestLiars runs networks of forty peers of which four lie, four kinds at a time, on a Web that makes honest checks hard, and tells what became of them.
func TestLiars(t *testing.T) {
	names := os.Getenv(liarsEnv)
	if names == "" {
		t.Skipf("takes an hour: set %s to all or to kinds of liars, or run make trust", liarsEnv)
	}
	var kinds []rogue.Liar
	if names == "all" {
		kinds = rogue.Liars()
	} else {
		for name := range strings.SplitSeq(names, ",") {
			l, err := rogue.LiarNamed(name)
			if err != nil {
				t.Fatal(err)
			}
			kinds = append(kinds, l)
		}
	}
	most := 20 * time.Minute
	if m := os.Getenv(liarsMinutesEnv); m != "" {
		d, err := time.ParseDuration(m + "m")
		if err != nil {
			t.Fatalf("%s=%s: %v", liarsMinutesEnv, m, err)
		}
		most = d
	}
	var rows []liarRow
	for four := range slices.Chunk(kinds, 4) {
		d := deceit{honest: 36, hosts: 200, gap: 300 * time.Millisecond, most: most, mend: 2 * time.Minute, undefended: os.Getenv(liarsDefenceEnv) == "none",
			trouble: pond.Trouble{Dynamic: .1, Captchas: .003, Walls: .01, Stale: .03}}
		for i := range 4 {
			d.kinds = append(d.kinds, four[i%len(four)])
		}
		rows = append(rows, d.run(t)...)
		if path := os.Getenv(liarsFileEnv); path != "" {
			b, err := json.MarshalIndent(rows, "", "  ")
			if err == nil {
				err = os.WriteFile(path, append(b, '\n'), 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	for i := range rows {
		t.Log(rows[i].line())
	}
	for i := range rows {
		if os.Getenv(liarsDefenceEnv) == "none" {
			rows[i].judgeUndefended(t)
			continue
		}
		rows[i].judge(t)
	}
}

// judgeUndefended looks whether the judge sees lies at all, where nothing stops them. Liars of one gang vouch for each other.
func (r *liarRow) judgeUndefended(t *testing.T) {
	t.Helper()
	if r.Found > 0 || r.Left == 0 || r.Kind == "colluding" && r.Verified == 0 {
		t.Errorf("%s, undefended: %d found, %d forged are left, %d are verified", r.Kind, r.Found, r.Left, r.Verified)
	}
}

// TestLiarIsFound has one of seven peers make its pages up. It must be suspended, no other peer must, nothing that was never served may be verified,
// and after the operator upholds that, the archive shows what the pond served.
func TestLiarIsFound(t *testing.T) {
	t.Parallel()
	liar, err := rogue.LiarNamed("fabricating")
	if err != nil {
		t.Fatal(err)
	}
	d := deceit{honest: 6, hosts: 24, kinds: []rogue.Liar{liar}, gap: 50 * time.Millisecond, most: 4 * time.Minute, mend: 2 * time.Minute, shadowed: true,
		trouble: pond.Trouble{Dynamic: .05}}
	for _, r := range d.run(t) {
		t.Log(r.line())
		r.judge(t)
	}
}

func (r *liarRow) line() string {
	return fmt.Sprintf("%-12s %d of %d found after %.0f s, their host watched after %.0f s, %d tasks, %d pages forged, score %.1f; of the run: %d shown, %d verified, %d left, %d blank, mended after %.0f s, %d honest suspended, %.1f%% of %d pages fetched again",
		r.Kind, r.Found, r.Liars, r.AfterS, r.WatchedS, r.Tasks, r.Forged, r.Score, r.Shown, r.Verified, r.Left, r.Blank, r.MendedS, r.Honest, 100*r.Asked, r.Delivered)
}

func (r *liarRow) judge(t *testing.T) {
	t.Helper()
	if r.Expected && r.Found < r.Liars {
		t.Errorf("%s: %d of %d found", r.Kind, r.Found, r.Liars)
	}
	switch {
	case r.Targets && r.Forged == 0:
		t.Errorf("%s: no task of their host came to them in %d, so the run says nothing of them", r.Kind, r.Tasks)
	case r.Targets && r.Found == 0 && r.WatchedS == 0:
		t.Errorf("%s: none was charged with its host on watch", r.Kind)
	}
	if r.Verified > 0 || r.Left > 0 || r.Blank > 0 || r.Honest > 0 {
		t.Errorf("%s: %d forged are verified, %d are left, %d pages show nothing, %d honest peers are suspended", r.Kind, r.Verified, r.Left, r.Blank, r.Honest)
	}
}

// run lets the liars in, waits until they are found, upholds that, and judges the archive by what the pond has served.
func (d *deceit) run(t *testing.T) (rows []liarRow) {
	var flags []string
	if arbiter := os.Getenv(liarsArbiterEnv); arbiter != "" {
		flags = []string{"--arbiter", arbiter}
	}
	f := openFortress(t, siege{honest: d.honest, hosts: d.hosts, gap: d.gap, trouble: d.trouble, flags: flags})
	gang := &rogue.Gang{Target: f.busiest(), Wake: time.Now().Add(d.most / 4)}
	crew, leave := f.deceive(d.kinds, gang)
	f.gather(d.honest + len(crew))
	var members []desk.Peer
	if err := f.page.get("/api/v1/peers", &members); err != nil {
		t.Fatal(err)
	}
	vouched := map[string]bool{}
	for _, m := range members {
		if i := slices.IndexFunc(crew, func(v *rogue.Volunteer) bool { return v.ID() == m.ID }); i >= 0 && d.kinds[i].Sybil {
			continue // it is on probation
		}
		vouched[m.ID] = true
		if err := f.page.post("/api/v1/peers/vouch", api.OnePeer{Peer: m.ID}); err != nil {
			t.Fatal(err)
		}
	}
	if d.undefended {
		f.shoal("trust", "set", "--shadow", "--suspend-at", "1000", "--audits-a-task", "0", "--beside", "0")
	} else {
		if d.shadowed {
			f.manager.until("shows a forgery while scores do not count", func() bool {
				urls, _, _ := f.judged(false)
				return len(urls) > 0
			})
		}
		f.shoal("trust", "set", "--enforce")
	}
	began, found := time.Now(), map[string]time.Duration{}
	var peers map[string]desk.PeerTrust
	var watched time.Duration
	for time.Since(began) < d.most && !d.allFound(crew, found) {
		f.pause(2 * time.Second)
		peers = f.standings()
		for _, v := range crew {
			if _, known := found[v.ID()]; !known && gone(peers[v.ID()].Standing) {
				found[v.ID()] = time.Since(began)
			}
		}
		if watched == 0 && d.charged(crew, peers) && f.watches(gang.Target) {
			watched = time.Since(began)
		}
	}
	shown, _ := f.invented(false)
	for id := range found {
		if err := f.page.post("/api/v1/peers/uphold", api.OnePeer{Peer: id}); err != nil {
			t.Errorf("uphold: %v", err)
		}
	}
	if i := slices.IndexFunc(crew, func(v *rogue.Volunteer) bool { _, ok := found[v.ID()]; return ok }); i >= 0 {
		f.objects(crew[i])
	}
	leave()
	mended, upheld := -1., time.Now()
	left, blank := f.invented(false)
	for ; len(left)+len(blank) > 0 && time.Since(upheld) < d.mend && !d.undefended; left, blank = f.invented(false) {
		f.pause(2 * time.Second)
	}
	if len(left)+len(blank) == 0 {
		mended = time.Since(upheld).Seconds()
	}
	f.tell("blank", blank)
	verified, _ := f.invented(true)
	f.tell("verified, and never served", verified)
	peers = f.standings()
	honest := 0
	for id, p := range peers {
		if gone(p.Standing) && vouched[id] && !slices.ContainsFunc(crew, func(v *rogue.Volunteer) bool { return v.ID() == id }) {
			honest++
			t.Logf("%s, who is honest, is %s: %+v", id, p.Standing, p)
		}
	}
	var now desk.Trust
	f.manager.until("tells what it judged", func() bool { return f.page.get("/api/v1/trust", &now) == nil })
	t.Logf("%+v", now)
	of := liarRow{Peers: d.honest + len(crew), Shown: len(shown), Verified: len(verified), Left: len(left), Blank: len(blank), Honest: honest, Asked: now.OfPagesShare, Delivered: now.Pages, MendedS: mended}
	for i, v := range crew {
		at := slices.IndexFunc(rows, func(r liarRow) bool { return r.Kind == d.kinds[i].Name })
		if at < 0 {
			r := of
			r.Kind, r.Expected, r.Targets = d.kinds[i].Name, findable(d.kinds[i]), d.kinds[i].Targets()
			if r.Targets {
				r.WatchedS = watched.Seconds()
			}
			rows = append(rows, r)
			at = len(rows) - 1
		}
		r, p := &rows[at], peers[v.ID()]
		r.Liars++
		r.Tasks = max(r.Tasks, v.Stats.Updates.Load())
		r.Forged += v.Stats.Forged.Load()
		r.Score = max(r.Score, p.Forging, p.Laziness, p.Checking)
		if after, ok := found[v.ID()]; ok {
			r.Found++
			r.AfterS = max(r.AfterS, after.Seconds())
		}
	}
	return rows
}

// deliverers finds who delivered the captures that index lines name.
var deliverers = regexp.MustCompile(`"deliverer":"([^"]+)"`)

// tell says of pages what the archive has of them, and what is held against those that delivered them.
func (f *fortress) tell(what string, urls []string) {
	world, told := f.pond.World(), map[string]bool{}
	for _, at := range urls {
		at, _, _ := strings.Cut(at, " ") // without the digest
		u, err := url.Parse(at)
		if err != nil {
			f.t.Fatal(err)
		}
		host, _ := world.Host(u.Host)
		page, _ := world.Lookup(host, u.RequestURI())
		captures, err := f.page.read("/api/v1/archive/cdx?all=1&limit=1000&url=" + url.QueryEscape(at))
		f.t.Logf("%s: %s, differs at each fetch: %v, captures (%v):\n%s", at, what, world.Dynamic(host, page), err, captures)
		for _, found := range deliverers.FindAllSubmatch(captures, -1) {
			by := string(found[1])
			if told[by] {
				continue
			}
			told[by] = true
			evidence, err := f.page.read("/api/v1/peers/evidence?peer=" + by)
			f.t.Logf("of %s (%v): %s", by, err, evidence)
		}
	}
}

// busiest is the host that changes most often. Whoever is after one that is crawled seldom may not get it within a run.
func (f *fortress) busiest() string {
	w, best := f.pond.World(), 0
	hosts := w.Hosts()
	for h := range hosts {
		if every := hosts[h].Interval; every > 0 && (hosts[best].Interval == 0 || every < hosts[best].Interval) {
			best = h
		}
	}
	return w.Origin(best)
}

// objects has a suspended peer ask why, and object to the first case, which the operator must see there.
func (f *fortress) objects(v *rogue.Volunteer) {
	f.t.Helper()
	const says = "I only wrote what I saw."
	ask := func(number uint64, says string) (s *wirepb.Standing) {
		f.manager.until("tells a suspended peer why", func() (ok bool) { // its connection may close before the answer has come
			var err error
			s, err = v.Standing(f.t.Context(), number, says)
			return err == nil
		})
		return s
	}
	s := ask(0, says)
	if !gone(s.Standing) || !s.Enforced || s.Score < s.SuspendAt || len(s.Held) == 0 || s.Held[0].Reason == "" || s.Held[0].Url == "" {
		f.t.Errorf("a suspended peer is told %v", s)
		return
	}
	number := s.Held[0].Case
	ask(number, says)
	var k desk.Case
	if err := f.page.get(fmt.Sprintf("/api/v1/trust/case?number=%016x", number), &k); err != nil || k.Objection != says {
		f.t.Errorf("the operator sees case %016x with the objection %q, %v", number, k.Objection, err)
	}
	if again := ask(number, says); again.Refused != "" {
		f.t.Errorf("an objection that comes again, as after a lost answer, is refused: %s", again.Refused)
	}
	if again := ask(number, "And another thing."); again.Refused == "" {
		f.t.Error("a second objection to a case is taken")
	}
}

// gone tells whether a peer of this standing gets no tasks any more.
func gone(standing string) bool { return standing == "suspended" || standing == "banned" }

// allFound tells whether the run is over before its time: all liars are found. Those that cannot be found lie for the whole of it.
func (d *deceit) allFound(crew []*rogue.Volunteer, found map[string]time.Duration) bool {
	for _, v := range crew {
		if _, ok := found[v.ID()]; !ok {
			return false
		}
	}
	return true
}

// charged tells whether one that is after a host has lost a case.
func (d *deceit) charged(crew []*rogue.Volunteer, peers map[string]desk.PeerTrust) bool {
	for i, v := range crew {
		if d.kinds[i].Targets() && peers[v.ID()].Lost > 0 {
			return true
		}
	}
	return false
}

// watches tells whether the channel of an origin is on watch, as the operator sees it.
func (f *fortress) watches(origin string) bool {
	var now desk.Trust
	f.manager.until("tells which channels are on watch", func() bool { return f.page.get("/api/v1/trust", &now) == nil })
	return slices.ContainsFunc(now.Doubted, func(c desk.DoubtedChannel) bool { return c.Host == origin && !c.Watched.IsZero() })
}

// standings returns what the manager holds of each peer, by its id.
func (f *fortress) standings() map[string]desk.PeerTrust {
	f.t.Helper()
	var all api.TrustPeers
	f.manager.until("tells how far it believes its peers", func() bool { return f.page.get("/api/v1/trust/peers", &all) == nil })
	out := map[string]desk.PeerTrust{}
	for _, p := range all.Peers {
		out[p.Peer] = p
	}
	return out
}

// deceive lets a liar of each kind join. leave makes them go; it may be called twice.
func (f *fortress) deceive(kinds []rogue.Liar, gang *rogue.Gang) (crew []*rogue.Volunteer, leave func()) {
	ctx, cancel := context.WithCancel(f.t.Context())
	var wg sync.WaitGroup
	leave = func() { cancel(); wg.Wait() }
	f.t.Cleanup(leave)
	world := f.pond.World()
	for i, kind := range kinds {
		port := 1 + i // none listens there: it only says where the liar is
		world.Settle(port, 1000+i)
		client := pondClient(world, port)
		scene := f.scene
		scene.Account = fmt.Sprintf("mallory-%d", i)
		scene.Fetch = func(ctx context.Context, url string) (int, []byte, []byte, error) { return fetch(ctx, client, url) }
		v, err := rogue.Join(ctx, scene, kind.Attack(gang))
		if err != nil {
			f.t.Fatal(err)
		}
		crew = append(crew, v)
		wg.Go(func() {
			if err := v.Run(ctx); err != nil {
				f.t.Logf("liar %d: %v", i, err)
			}
		})
		if kind.Sybil {
			wg.Go(func() { f.sybils(ctx, scene, kind.Attack(gang)) })
		}
	}
	return crew, leave
}

// pondClient fetches from a pond as the node of a port does, and follows no redirects.
func pondClient(world *pond.World, port int) *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: world.HTTPDialer(port), DisableKeepAlives: true}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// sybils has one more identity join now and then, each of which lies as long as it is let in.
func (f *fortress) sybils(ctx context.Context, scene rogue.Scene, a rogue.Attack) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for n := range mostSybils {
		select {
		case <-ctx.Done():
			return
		case <-time.After(sybilEvery):
		}
		scene.Account = fmt.Sprintf("sybil-%d", n)
		v, err := rogue.Join(ctx, scene, a)
		if err != nil {
			continue // it is refused, which is as it should be
		}
		wg.Go(func() { _ = v.Run(ctx) })
	}
}

// invented returns the URLs for which the archive shows a body that the pond never served there; with verified set those of which a verified capture
// has such a body, shown or not. Blank are those of which it has captures and shows nothing, though the page is there.
func (f *fortress) invented(verified bool) (urls, blank []string) {
	f.t.Helper()
	urls, blank, judged := f.judged(verified)
	f.t.Logf("judged %d pages (verified alone: %v): %d were never served, %d show nothing", judged, verified, len(urls), len(blank))
	if judged == 0 && !verified { // few captures are verified in a short run
		f.t.Error("the archive shows nothing that could be judged")
	}
	return urls, blank
}

// judged does that, and tells of how many bodies it could say so.
func (f *fortress) judged(verified bool) (urls, blank []string, judged int) {
	f.t.Helper()
	client := pondClient(f.pond.World(), 1)
	var index []byte
	f.manager.until("reads its index", func() bool {
		var err error
		index, err = f.page.read("/api/v1/archive/cdx?limit=100000")
		return err == nil
	})
	world, seen := f.pond.World(), map[string]bool{}
	for line := range strings.Lines(string(index)) {
		fields := strings.SplitN(line, " ", 3)
		var c struct{ URL, State, Digest string }
		if len(fields) < 3 || json.Unmarshal([]byte(fields[2]), &c) != nil {
			continue
		}
		u, err := url.Parse(c.URL)
		if err != nil {
			f.t.Fatal(err)
		}
		host, ok := world.Host(u.Host)
		if !ok {
			continue
		}
		page, ok := world.Lookup(host, u.RequestURI())
		if !ok {
			continue
		}
		ask, key := url.Values{"url": {c.URL}}, c.URL
		if verified {
			at, err := time.Parse("20060102150405", fields[1][:14])
			if err != nil {
				f.t.Fatal(err)
			}
			ask.Set("at", at.Format(time.RFC3339)) // which is the whole second
			key = c.URL + " " + c.Digest
		}
		if seen[key] || verified && c.State != "verified" {
			continue
		}
		seen[key] = true
		was, body, err := f.page.captured(ask)
		if err != nil {
			if status, _, _, err := fetch(f.t.Context(), client, c.URL); !verified && err == nil && status == http.StatusOK {
				blank = append(blank, c.URL)
			}
			continue
		}
		if sum := sha256.Sum256(body); verified && c.Digest != "sha256:"+hex.EncodeToString(sum[:]) {
			continue // another version of the same second is shown
		}
		judged++
		if was == http.StatusOK && !f.pond.Showed(host, page, body) {
			urls = append(urls, key)
		}
	}
	return urls, blank, judged
}
