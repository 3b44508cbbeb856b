package archive

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"shoal/channel"
	"shoal/manager/archive/pages"
	"shoal/manager/trust"
)

// earned is an account's credit, as "pages/bytes" of each week, the latest first.
func earned(t *testing.T, a *Archive, account string) (s string) {
	t.Helper()
	c, err := a.CreditOf(t.Context(), account)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range c.Weeks {
		s += fmt.Sprintf("%s %d/%d ", w.Name, w.Pages, w.Bytes)
	}
	if c.Withheld {
		s += "withheld"
	}
	return s
}

// Credit is what others corroborated before they were told of it, by ISO week, and outlives a restart.
func TestCredit(t *testing.T) {
	a, cl, cfg := strangers(t)
	cl.now = time.Date(2026, 12, 31, 12, 0, 0, 0, time.UTC) // a Thursday of 2026-W53
	j := newJudge(t, a, true, "alice", "bob", "carol", "mallory")
	gen := channel.Gen(0)
	say := func(peer string, pages func(r *runner) []channel.Page) {
		gen++
		cl.crawl(t, a, peer, gen, pages)
		j.deliver(cl, gen)
	}
	one := func(body string) func(r *runner) []channel.Page {
		return func(r *runner) []channel.Page { return []channel.Page{r.page("/", body, channel.Changed)} }
	}
	say("alice", one(home))
	if got := earned(t, a, "alice"); got != "" {
		t.Errorf("nobody has seen it: %s", got)
	}
	// A word without a digest, a repetition of one's own, and other content corroborate nothing.
	say("bob", func(r *runner) []channel.Page {
		return []channel.Page{{URL: r.url("/"), Status: 304, Change: channel.Unchanged, Fetched: cl.now}}
	})
	say("alice", one(home))
	if got := earned(t, a, "alice") + earned(t, a, "bob"); got != "" {
		t.Errorf("nobody has seen it: %s", got)
	}
	say("bob", one(home))
	want := fmt.Sprintf("2026-W53 1/%d ", len(home))
	if a, b := earned(t, a, "alice"), earned(t, a, "bob"); a != want || b != want {
		t.Errorf("alice %s, bob %s, want %s", a, b, want)
	}
	// Who repeats a digest that its task told it earns nothing, nor do those who were there before.
	say("mallory", func(r *runner) []channel.Page {
		return []channel.Page{{URL: r.url("/"), Status: 200, Change: channel.Unchanged, Digest: channel.ContentDigest([]byte(home)), Fetched: cl.now}}
	})
	if a, m := earned(t, a, "alice"), earned(t, a, "mallory"); a != want || m != "" {
		t.Errorf("alice %s, mallory %s", a, m)
	}
	cl.now = cl.now.Add(4 * 24 * time.Hour)
	say("alice", one(news))
	say("carol", one(news))
	want = fmt.Sprintf("2027-W01 1/%d ", len(news)) + want
	if got := earned(t, a, "alice"); got != want {
		t.Errorf("alice %s, want %s", got, want)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	a = open(t, cfg)
	if got := earned(t, a, "alice"); got != want {
		t.Errorf("after a restart alice %s, want %s", got, want)
	}
}

// TestEmptyBoard: a board on which nobody is has empty lists, which JSON has as such.
func TestEmptyBoard(t *testing.T) {
	a, _, _ := strangers(t)
	b, err := a.Board(t.Context(), time.Time{}, 10)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := json.Marshal(b); err != nil || !strings.Contains(string(text), `"names":[],"teams":[]`) {
		t.Errorf("%s, %v", text, err)
	}
}

// Accounts are on the board by their nickname if they want to, alone and by team; a suspended one is not, until it is pardoned.
func TestBoard(t *testing.T) {
	a, cl, cfg := strangers(t)
	j := newJudge(t, a, true, "alice", "bob", "carol")
	for i, c := range []struct{ peer, body string }{{"alice", home}, {"bob", home}, {"alice", news}, {"carol", news}} {
		cl.crawl(t, a, c.peer, channel.Gen(i+1), func(r *runner) []channel.Page { return []channel.Page{r.page("/", c.body, channel.Changed)} })
		j.deliver(cl, channel.Gen(i+1))
	}
	for account, f := range map[string]pages.Profile{"alice": {Nickname: "Ali", Team: "Sharks", Public: true}, "bob": {Nickname: "Bob", Team: "Sharks", Public: true}, "carol": {Nickname: "Carol", Team: "Rays"}} {
		if err := a.SetProfile(account, f); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []pages.Profile{{Public: true}, {Nickname: " a"}, {Nickname: "a\nb"}, {Team: string(make([]byte, 100))}} {
		if err := a.SetProfile("alice", f); !errors.Is(err, pages.ErrProfile) {
			t.Errorf("%+v: %v", f, err)
		}
	}
	// An account without credit takes no place on the board, and no nickname twice. Alice and the others may change their own.
	for account, f := range map[string]pages.Profile{"dave": {Nickname: "Dave", Public: true}, "carol": {Nickname: "aLI", Public: true}} {
		if err := a.SetProfile(account, f); !errors.Is(err, pages.ErrProfile) {
			t.Errorf("%s as %+v: %v", account, f, err)
		}
	}
	if err := a.SetProfile("alice", pages.Profile{Nickname: "Ali", Team: "Sharks", Public: true}); err != nil {
		t.Error(err)
	}
	places := func(account string) string {
		t.Helper()
		c, err := a.CreditOf(t.Context(), account)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%d of %d, team %d of %d with %d", c.Rank, c.Ranked, c.Team.Rank, c.Team.Teams, c.Team.Pages)
	}
	for account, want := range map[string]string{"alice": "1 of 3, team 1 of 1 with 3", "bob": "2 of 3, team 1 of 1 with 3", "carol": "2 of 3, team 0 of 0 with 0", "dave": "0 of 3, team 0 of 0 with 0"} {
		if got := places(account); got != want {
			t.Errorf("%s: %s, want %s", account, got, want)
		}
	}
	if alice := a.Holder("alice"); alice == a.DelivererNumber("alice") || alice != a.Holder(strings.Clone("alice")) || alice == a.Holder("bob") {
		t.Error("a certificate's holder is told by captures, or is none")
	}
	board := func(since time.Time) string {
		t.Helper()
		b, err := a.Board(t.Context(), since, 10)
		if err != nil {
			t.Fatal(err)
		}
		s := ""
		for _, r := range b.Names {
			s += fmt.Sprintf("%s %d ", r.Name, r.Pages)
		}
		for _, r := range b.Teams {
			s += fmt.Sprintf("team %s %d ", r.Name, r.Pages)
		}
		return s + fmt.Sprintf("others %d", b.Others.Pages)
	}
	if got := board(time.Time{}); got != "Ali 2 Bob 1 team Sharks 3 others 1" {
		t.Error(got)
	}
	if got := board(cl.now.Add(8 * 24 * time.Hour)); got != "others 0" {
		t.Error(got)
	}
	alice := trust.Peer(a.DelivererNumber("alice"))
	if err := a.Suspend(t.Context(), alice); err != nil {
		t.Fatal(err)
	}
	if got := board(time.Time{}); got != "Bob 1 team Sharks 1 others 1" {
		t.Errorf("suspended: %s", got)
	}
	if c, err := a.CreditOf(t.Context(), "alice"); err != nil || !c.Withheld || c.Sum.Pages != 0 || c.Rank != 0 || c.Profile.Nickname != "Ali" {
		t.Errorf("%+v, %v", c, err)
	}
	if err := a.Pardon(t.Context(), alice); err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	a = open(t, cfg)
	if got := board(time.Time{}); got != "Ali 2 Bob 1 team Sharks 3 others 1" {
		t.Errorf("after the pardon: %s", got)
	}
	if err := a.SetProfile("alice", pages.Profile{}); err != nil {
		t.Fatal(err)
	}
	if got := board(time.Time{}); got != "Bob 1 team Sharks 1 others 3" {
		t.Errorf("without a profile: %s", got)
	}
}

// Whom an operator has banned is on no board and has no credit until it is admitted again: a banned account, and one of which each peer is banned. An account goes on with
// the peers that are left to it.
func TestBannedAccountIsOnNoBoard(t *testing.T) {
	cl := &clock{now: time.Date(2026, 12, 31, 12, 0, 0, 0, time.UTC)}
	var banned []string
	cfg := testConfig(t.TempDir())
	cfg.Clock = cl.Now
	cfg.AccountOf = func(peer string) string { return map[string]string{"alice": "club", "anna": "club"}[peer] }
	cfg.Banned = func() []string { return banned }
	a := open(t, cfg)
	j := newJudge(t, a, true, "alice", "anna", "bob", "carol")
	for i, c := range []struct{ peer, body string }{{"alice", home}, {"bob", home}, {"anna", news}, {"carol", news}} {
		cl.crawl(t, a, c.peer, channel.Gen(i+1), func(r *runner) []channel.Page { return []channel.Page{r.page("/", c.body, channel.Changed)} })
		j.deliver(cl, channel.Gen(i+1))
	}
	for account, name := range map[string]string{"club": "Club", "bob": "Bob", "carol": "Carol"} {
		if err := a.SetProfile(account, pages.Profile{Nickname: name, Team: "T" + name, Public: true}); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		banned string
		want   string
	}{
		{"", "Club 2, Bob 1, Carol 1, others 0"},
		{"bob", "Club 2, Carol 1, others 0"},
		{"club", "Bob 1, Carol 1, others 0"},
		{"alice", "Club 2, Bob 1, Carol 1, others 0"},
		{"alice anna", "Bob 1, Carol 1, others 0"},
		{"", "Club 2, Bob 1, Carol 1, others 0"},
	} {
		banned = strings.Fields(c.banned)
		b, err := a.Board(t.Context(), time.Time{}, 10)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, r := range b.Names {
			got += fmt.Sprintf("%s %d, ", r.Name, r.Pages)
		}
		if got += fmt.Sprintf("others %d", b.Others.Pages); got != c.want || len(b.Teams) != len(b.Names) {
			t.Errorf("banned %q: %s, %d teams, want %s", c.banned, got, len(b.Teams), c.want)
		}
		k, err := a.CreditOf(t.Context(), "bob")
		if err != nil || k.Withheld != (c.banned == "bob") || k.Withheld != (k.Sum.Pages == 0) {
			t.Errorf("banned %q: bob has %+v, %v", c.banned, k, err)
		}
	}
}

// TestNamesThatReadersTakeForOne has teams that differ in case alone be one, on the board and by rank, and no two accounts have such nicknames: a badge's address has
// one owner.
func TestNamesThatReadersTakeForOne(t *testing.T) {
	a, cl, _ := strangers(t)
	j := newJudge(t, a, true, "alice", "bob", "carol")
	for i, c := range []struct{ peer, body string }{{"alice", home}, {"bob", home}, {"alice", news}, {"carol", news}} {
		cl.crawl(t, a, c.peer, channel.Gen(i+1), func(r *runner) []channel.Page { return []channel.Page{r.page("/", c.body, channel.Changed)} })
		j.deliver(cl, channel.Gen(i+1))
	}
	for _, c := range []struct{ account, nickname, team string }{{"alice", "K i", "Sharks"}, {"bob", "Bob", "sHARKS"}, {"carol", "Carol", "ſhark"}} {
		if err := a.SetProfile(c.account, pages.Profile{Nickname: c.nickname, Team: c.team, Public: true}); err != nil {
			t.Fatal(err)
		}
	}
	b, err := a.Board(t.Context(), time.Time{}, 10)
	if err != nil || len(b.Teams) != 2 || b.Teams[0].Name != "Sharks" || b.Teams[0].Pages != 3 {
		t.Errorf("%+v, %v", b.Teams, err)
	}
	if k, err := a.CreditOf(t.Context(), "bob"); err != nil || k.Team.Rank != 1 || k.Team.Teams != 2 || k.Team.Pages != 3 {
		t.Errorf("%+v, %v", k.Team, err)
	}
	for _, name := range []string{"k i", "\u212a  \u0130"} {
		if err := a.SetProfile("carol", pages.Profile{Nickname: name, Public: true}); !errors.Is(err, pages.ErrProfile) {
			t.Errorf("%q beside %q: %v", name, "K i", err)
		}
	}
}

// Verdicts of many channels at once lose no credit.
func TestCreditIsAddedUp(t *testing.T) {
	a, cl, _ := strangers(t)
	const channels = 12
	for id := channel.ID(1); id <= channels; id++ {
		r, _ := start(t, a, "alice", id, 1)
		r.put(channel.ChunkBody{Pages: []channel.Page{r.page("/", home, channel.New)}, Report: r.report(channel.Updated)})
	}
	r, _ := start(t, a, "bob", channels+1, 1) // so that bob is known
	r.put(channel.ChunkBody{Report: r.report(channel.Updated)})
	var all sync.WaitGroup
	for id := channel.ID(1); id <= channels; id++ {
		all.Go(func() {
			d, err := a.Delivery(t.Context(), id, 1)
			if err != nil || len(d.Pages) != 1 {
				t.Errorf("%+v, %v", d, err)
				return
			}
			p := d.Pages[0]
			g := trust.Page{Cur: trust.Version{Digest: p.Digest, By: d.Deliverer, At: cl.now.Unix(), State: trust.Verified}, LastBy: d.Deliverer, LastAt: cl.now.Unix()}
			g.Cur.Also[0] = trust.Peer(a.DelivererNumber("bob"))
			if err := a.Judge(t.Context(), id, &d, []Judged{{Hash: p.Hash, Page: g}}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, account := range []string{"alice", "bob"} {
		if c, err := a.CreditOf(t.Context(), account); err != nil || c.Sum.Pages != channels || c.Sum.Bytes != uint64(channels*len(home)) {
			t.Errorf("%s: %+v, %v", account, c, err)
		}
	}
}

// TestPaddingEarnsNothing has a version be verified by a look that saw the same page with other bytes: no more is credited than the smaller of the two has, and nothing for
// what was there before.
func TestPaddingEarnsNothing(t *testing.T) {
	for name, c := range map[string]struct {
		worth *Worth
		want  string
	}{
		"the same bytes":      {nil, fmt.Sprint("1/", len(forge))},
		"a long comment":      {&Worth{Bytes: 7}, "1/7"},
		"a short comment":     {&Worth{Bytes: 1 << 20}, fmt.Sprint("1/", len(forge))},
		"a comment, and only": {&Worth{Bytes: 7, Nothing: true}, ""},
	} {
		a, cl, _ := strangers(t)
		j := newJudge(t, a, true, "alice", "bob")
		cl.crawl(t, a, "alice", 1, func(r *runner) []channel.Page { return []channel.Page{r.page("/", forge, channel.New)} })
		d, _ := j.deliver(cl, 1)
		hash := d.Pages[0].Hash
		p, err := a.Record(t.Context(), 1, hash)
		if err != nil {
			t.Fatal(err)
		}
		p.Record.Cur.State, p.Record.Cur.Also[0] = trust.Verified, trust.Peer(a.DelivererNumber("bob"))
		for range 2 { // as after a kill
			if err := a.Judge(t.Context(), 1, nil, []Judged{{Hash: hash, Page: p.Record, Worth: c.worth}}); err != nil {
				t.Fatal(err)
			}
		}
		_, got, _ := strings.Cut(strings.TrimSpace(earned(t, a, "alice")), " ")
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
