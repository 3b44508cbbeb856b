package archive

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"shoal/channel"
	"shoal/channel/lease"
	"shoal/manager/archive/evidence"
	"shoal/manager/trust"
)

const auditChannel = channel.ID(1 << 62) // the lane

// audit has a peer run the task of an audit of channel 1's host, and bring one page.
func audit(t *testing.T, a *Archive, cl *clock, checker string, gen channel.Gen, path, body string) {
	t.Helper()
	s, raw := taskOf(1, gen+10, "http://site-1.example", cl.now.Add(time.Hour))
	if err := a.DepositAside(t.Context(), s, raw, []channel.Frontier{{URL: "http://site-1.example" + path, Depth: channel.DefaultDepth}}, Lane{Channel: auditChannel, Gen: gen}); err != nil {
		t.Fatal(err)
	}
	c, err := a.Claim(t.Context(), checker, s)
	if err != nil || c.Status != lease.Granted {
		t.Fatalf("%v, %v", c.Status, err)
	}
	if want := (channel.Frontier{URL: "http://site-1.example" + path, Depth: channel.DefaultDepth}); len(c.Resume.Frontier) != 1 || c.Resume.Frontier[0] != want || len(c.Resume.Done) == 0 || slices.Contains(c.Resume.Done, channel.URLHash(want.URL)) {
		t.Errorf("an audit's rest is %+v", c.Resume)
	}
	cl.now = cl.now.Add(time.Second)
	r := &runner{t, a, checker, 1, gen + 10, c.Resume.Seq, c.Resume.Head, nil}
	p := r.page("/", body, channel.New)
	p.URL = "http://site-1.example" + path
	more := r.page("/not-asked-for", body, channel.New)
	more.URL = "http://site-1.example/not-asked-for"
	r.put(channel.ChunkBody{Pages: []channel.Page{p, more}, Report: r.report(channel.Updated)})
}

// What an audit brings is not in the channel's copy, and both sides of a conflict can be read side by side, also after a restart.
func TestEvidence(t *testing.T) {
	a, cl, cfg := strangers(t)
	cl.crawl(t, a, "mallory", 1, func(r *runner) []channel.Page { return []channel.Page{r.page("/", forge, channel.New)} })
	d, err := a.Delivery(t.Context(), 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	audit(t, a, cl, "alice", 1, "/", home)
	audit(t, a, cl, "bob", 2, "/other", news)
	if got := shown(t, a, "http://site-1.example/"); got != forge {
		t.Errorf("an audit changed the copy: %q", got)
	}
	if got := shown(t, a, "http://site-1.example/other"); got != "nothing" {
		t.Errorf("an audit's page is in the copy: %q", got)
	}
	answers, err := a.Evidence.Answers(t.Context(), auditChannel, 1)
	if err != nil || len(answers) != 1 || string(answers[0].Body) != home || answers[0].By != trust.Peer(a.DelivererNumber("alice")) || answers[0].Status != 200 || answers[0].Features() == nil {
		t.Fatalf("%+v, %v", answers, err)
	}
	about := trust.Case{Reason: trust.LostAudit, URL: d.Pages[0].Hash, Channel: 1, Accused: d.Deliverer, Accuser: answers[0].By, At: d.Claimed.Unix(), Old: true, Second: true}
	n, err := a.Evidence.Open(t.Context(), about, d.Pages[0].URL, answers[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Evidence.DropAnswers(t.Context(), auditChannel, 1); err != nil {
		t.Fatal(err)
	}
	for gen, want := range map[channel.Gen]int{1: 0, 2: 1} {
		if left, err := a.Evidence.Answers(t.Context(), auditChannel, gen); err != nil || len(left) != want {
			t.Errorf("%d answers of %d, %v", len(left), gen, err)
		}
	}
	if err := a.Evidence.Put(t.Context(), n, evidence.Arbiter, &evidence.Fetch{URL: d.Pages[0].URL, Status: 200, Body: []byte(home), Fetched: cl.now}); err != nil {
		t.Fatal(err)
	}
	if err := a.Evidence.Ruled(t.Context(), n, d.Deliverer, 2.7, 3.1, "the arbiter saw what the checker saw"); err != nil {
		t.Fatal(err)
	}
	if again, err := a.Evidence.Open(t.Context(), about, d.Pages[0].URL, nil); err != nil || again != n {
		t.Errorf("opened again: %d, %v", again, err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	a = open(t, cfg)
	c, err := a.Evidence.Read(t.Context(), n)
	if err != nil || c.Loser != d.Deliverer || c.Amount != 2.7 || c.Score != 3.1 || !c.Closed.IsZero() || c.About != about {
		t.Fatalf("%+v, %v", c, err)
	}
	for s, want := range map[evidence.Side]string{evidence.Delivered: forge, evidence.Checked: home, evidence.Arbiter: home} {
		if f := c.Side(s); f == nil || string(f.Body) != want {
			t.Errorf("%v: %+v", s, f)
		}
	}
	if c.Side(evidence.Second) != nil {
		t.Error("a second checker that never was")
	}
	if all, err := a.Evidence.List(t.Context(), d.Deliverer); err != nil || len(all) != 1 || all[0].Number != n {
		t.Errorf("%+v, %v", all, err)
	}
	if err := a.Evidence.Purge(t.Context(), about.Accuser); err != nil {
		t.Fatal(err)
	}
	if c, err := a.Evidence.Read(t.Context(), n); err != nil || c.Loser != d.Deliverer || c.Side(evidence.Checked) != nil || c.Side(evidence.Delivered) == nil || c.Side(evidence.Arbiter) == nil {
		t.Errorf("after a purge of the checker the case of another peer is %+v, %v", c, err)
	}
	if err := a.Evidence.Purge(t.Context(), d.Deliverer); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Evidence.Read(t.Context(), n); !errors.Is(err, evidence.ErrNoCase) {
		t.Errorf("after the purge: %v", err)
	}
}

// Closed cases and answers go with time, and the oldest closed cases where there is no room; open ones stay, and then the room is full.
func TestEvidenceIsBounded(t *testing.T) {
	cfg := testConfig(t.TempDir())
	cl := &clock{now: time.Now().Truncate(time.Microsecond)}
	cfg.Clock, cfg.EvidenceBytes, cfg.EvidenceKeep = cl.Now, 30_000, 48*time.Hour
	a := open(t, cfg)
	body := func(n int) []byte { // cannot be packed
		b := make([]byte, 8_000)
		x := uint64(n + 1)
		for i := range b {
			x ^= x << 13
			x ^= x >> 7
			x ^= x << 17
			b[i] = byte(x)
		}
		return b
	}
	about := func(n int) trust.Case { return trust.Case{Accused: 1, Accuser: trust.Peer(n + 2), Channel: 1} }
	put := func(n int) (uint64, error) {
		cl.now = cl.now.Add(time.Minute)
		return a.Evidence.Open(t.Context(), about(n), "http://site-1.example/", &evidence.Fetch{URL: "http://site-1.example/", Status: 200, Body: body(n), Fetched: cl.now})
	}
	there := func() (s string) {
		for n := range 8 {
			if _, err := a.Evidence.Read(t.Context(), evidence.Number(about(n))); err == nil {
				s += fmt.Sprint(n)
			}
		}
		return s
	}
	for n := range 3 {
		if _, err := put(n); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := put(3); !errors.Is(err, evidence.ErrFull) {
		t.Errorf("four open cases: %v", err)
	}
	for _, n := range []int{1, 0} {
		cl.now = cl.now.Add(time.Minute)
		if err := a.Evidence.Close(t.Context(), evidence.Number(about(n))); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := put(3); err != nil || there() != "023" {
		t.Errorf("%v: %s", err, there())
	}
	audit(t, a, cl, "p", 1, "/", home)
	cl.now = cl.now.Add(47 * time.Hour)
	if n, err := a.Evidence.Forget(t.Context()); err != nil || n != 1 || there() != "023" { // the answer
		t.Errorf("%d, %v: %s", n, err, there())
	}
	cl.now = cl.now.Add(2 * time.Hour)
	if n, err := a.Evidence.Forget(t.Context()); err != nil || n != 1 || there() != "23" {
		t.Errorf("%d, %v: %s", n, err, there())
	}
	if left, err := a.Evidence.Answers(t.Context(), auditChannel, 1); err != nil || len(left) != 0 {
		t.Errorf("%d answers, %v", len(left), err)
	}
}

// TestObjectOnce has peers object to a case: only its loser may, once, and the text is bounded.
func TestObjectOnce(t *testing.T) {
	a, _, _ := strangers(t)
	about := trust.Case{Reason: trust.LostAudit, URL: 1, Channel: 1, Accused: 7, Accuser: 8, At: 5}
	n, err := a.Evidence.Open(t.Context(), about, "http://site-1.example/a", &EvidenceFetch{URL: "http://site-1.example/a", Status: 200, Body: []byte("x")})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Evidence.Ruled(t.Context(), n, 7, 2, 2, "lost audit"); err != nil {
		t.Fatal(err)
	}
	for _, o := range []struct {
		number uint64
		by     trust.Peer
		text   string
		want   error
	}{{n, 8, "mine", evidence.ErrObject}, {n, 7, "\n", evidence.ErrObject}, {n + 1, 7, "x", evidence.ErrNoCase},
		{n, 7, "I saw\x1b " + strings.Repeat("this ", 1000), nil}, {n, 7, "again", evidence.ErrObject}} {
		if err := a.Evidence.Object(t.Context(), o.number, o.by, o.text); !errors.Is(err, o.want) {
			t.Errorf("%d says %.10q: %v, want %v", o.by, o.text, err, o.want)
		}
	}
	c, err := a.Evidence.Read(t.Context(), n)
	if err != nil || !strings.HasPrefix(c.Objection, "I saw") || strings.ContainsRune(c.Objection, '\x1b') || len(c.Objection) > evidence.MaxObjection {
		t.Errorf("the objection is %q, %v", c.Objection, err)
	}
}
