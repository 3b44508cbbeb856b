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
func audit(t *testing.T, a *Archive, cl *clock, checker string, gen channel.Gen, path, body string, change ...func(*channel.Page)) {
	t.Helper()
	s, raw := taskOf(1, gen+10, "http://site-1.example", cl.now.Add(time.Hour))
	if err := a.DepositAside(t.Context(), s, raw, Errand{Rest: []channel.Frontier{{URL: "http://site-1.example" + path, Depth: channel.DefaultDepth}}, Lane: Lane{Channel: auditChannel, Gen: gen}}); err != nil {
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
	for _, f := range change {
		f(&p)
	}
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
	if all, more, err := a.Evidence.List(t.Context(), d.Deliverer); err != nil || more != 0 || len(all) != 1 || all[0].Number != n {
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

// noise cannot be packed.
func noise(n, size int) []byte {
	b := make([]byte, size)
	x := uint64(n + 1)
	for i := range b {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		b[i] = byte(x)
	}
	return b
}

// small opens an archive whose evidence room is small.
func small(t *testing.T, size int64) (*Archive, *clock, func(about trust.Case, size int) uint64) {
	cfg := testConfig(t.TempDir())
	cl := &clock{now: time.Now().Truncate(time.Microsecond)}
	cfg.Clock, cfg.EvidenceBytes, cfg.EvidenceKeep = cl.Now, size, 48*time.Hour
	a := open(t, cfg)
	seed := 0
	return a, cl, func(about trust.Case, size int) uint64 {
		t.Helper()
		seed++
		cl.now = cl.now.Add(time.Minute)
		n, err := a.Evidence.Open(t.Context(), about, "http://site-1.example/", &evidence.Fetch{URL: "http://site-1.example/", Status: 200, Body: noise(seed, size), Fetched: cl.now})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
}

// has tells of some cases whether each is there with its content (a digit), without it (-), or not at all (nothing).
func has(t *testing.T, a *Archive, numbers ...uint64) (s string) {
	t.Helper()
	for i, n := range numbers {
		c, err := a.Evidence.Read(t.Context(), n)
		switch {
		case err != nil:
		case c.Side(evidence.Checked) != nil && len(c.Side(evidence.Checked).Body) > 0:
			s += fmt.Sprint(i)
		default:
			s += "-"
		}
	}
	return s
}

// Closed cases and answers go with time, and the oldest closed cases where there is no room. Open ones stay; where they fill the room, the oldest gives its content up, and a new one is
// opened all the same.
func TestEvidenceIsBounded(t *testing.T) {
	const body = 8_000
	a, cl, put := small(t, 16*body+16*100)
	about := func(n int) trust.Case { // each of another peer, channel and domain
		return trust.Case{Accused: trust.Peer(100 + n), Accuser: trust.Peer(200 + n), Channel: channel.ID(n + 1), Domain: uint64(300 + n)}
	}
	var cases []uint64
	for n := range 16 {
		cases = append(cases, put(about(n), body))
	}
	if got := has(t, a, cases[:4]...); got != "0123" {
		t.Errorf("sixteen open cases: %s", got)
	}
	cases = append(cases, put(about(16), body))
	if got := has(t, a, cases[0], cases[1], cases[16]); got != "-12" {
		t.Errorf("one more open case: %s", got)
	}
	for _, n := range []int{3, 2} {
		cl.now = cl.now.Add(time.Minute)
		if err := a.Evidence.Close(t.Context(), cases[n]); err != nil {
			t.Fatal(err)
		}
	}
	cases = append(cases, put(about(17), body))
	if got := has(t, a, cases[1], cases[2], cases[3], cases[17]); got != "013" {
		t.Errorf("after two were closed: %s", got)
	}
	audit(t, a, cl, "p", 1, "/", home)
	if answers, err := a.Evidence.Answers(t.Context(), auditChannel, 1); err != nil || len(answers) != 1 || string(answers[0].Body) != home {
		t.Errorf("an answer in a full room: %+v, %v", answers, err)
	}
	cl.now = cl.now.Add(47 * time.Hour)
	if n, err := a.Evidence.Forget(t.Context()); err != nil || n != 1 { // the answer
		t.Errorf("%d, %v", n, err)
	}
	cl.now = cl.now.Add(2 * time.Hour)
	if _, err := a.Evidence.Forget(t.Context()); err != nil || has(t, a, cases[2]) != "" || has(t, a, cases[1]) == "" {
		t.Errorf("%v: the closed case is %q, an open one %q", err, has(t, a, cases[2]), has(t, a, cases[1]))
	}
	if left, err := a.Evidence.Answers(t.Context(), auditChannel, 1); err != nil || len(left) != 0 {
		t.Errorf("%d answers, %v", len(left), err)
	}
}

// TestNoiseOfOneKeepsNobodyOut has one peer, one channel, one domain or one checker cause open cases whose bodies cannot be packed, more than the room holds: each keeps its newest cases within its
// share, nothing of the others is given up, and every case is opened.
func TestNoiseOfOneKeepsNobodyOut(t *testing.T) {
	for name, of := range map[string]func(n uint64) trust.Case{
		"accused": func(n uint64) trust.Case {
			return trust.Case{Accused: 7, Accuser: trust.Peer(n), Channel: channel.ID(n), Domain: n}
		},
		"accuser": func(n uint64) trust.Case {
			return trust.Case{Accused: trust.Peer(n), Accuser: 7, Channel: channel.ID(n), Domain: n}
		},
		"channel": func(n uint64) trust.Case {
			return trust.Case{Accused: trust.Peer(n), Accuser: trust.Peer(n + 1e6), Channel: 7, Domain: n}
		},
		"domain": func(n uint64) trust.Case {
			return trust.Case{Accused: trust.Peer(n), Accuser: trust.Peer(n + 1e6), Channel: channel.ID(n), Domain: 7}
		},
	} {
		t.Run(name, func(t *testing.T) {
			const body = 8_000
			a, _, put := small(t, 64*body)
			first := put(trust.Case{Accused: 1, Accuser: 2, Channel: 3, Domain: 4}, body)
			var cases []uint64
			for n := range uint64(70) {
				cases = append(cases, put(of(1000+n), body))
			}
			if got := has(t, a, append([]uint64{first}, cases[65:]...)...); got != "0--345" {
				t.Errorf("the first case, and the last of the others: %s", got)
			}
			if all, err := a.Evidence.Unclosed(t.Context()); err != nil || len(all) != 71 {
				t.Errorf("%d open cases, %v", len(all), err)
			}
		})
	}
}

// TestNoiseIsCut has a case about a body of noise, and one about a long text: of the noise as much is kept as a text packs to, and the text whole.
func TestNoiseIsCut(t *testing.T) {
	a, _, put := small(t, 0)
	n := put(trust.Case{Accused: 1, Accuser: 2, Channel: 3}, 2<<20)
	c, err := a.Evidence.Read(t.Context(), n)
	if f := c.Side(evidence.Checked); err != nil || c.Bytes > evidence.MaxSide || len(f.Body) < evidence.MaxSide/2 || f.Size != 2<<20 {
		t.Errorf("%d bytes are kept, %v", c.Bytes, err)
	}
	text := []byte(strings.Repeat("a page of words ", evidence.MaxBody/16))
	if n, err = a.Evidence.Open(t.Context(), trust.Case{Accused: 3, Channel: 3}, "http://site-1.example/", &evidence.Fetch{URL: "http://site-1.example/", Status: 200, Body: text}); err != nil {
		t.Fatal(err)
	}
	if c, err := a.Evidence.Read(t.Context(), n); err != nil || len(c.Side(evidence.Checked).Body) != len(text) {
		t.Errorf("%+v, %v", c, err)
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
		{n, 7, "I saw\x1b " + strings.Repeat("this ", 1000), nil}, {n, 7, "I saw\x1b " + strings.Repeat("this ", 1000), nil}, {n, 7, "again", evidence.ErrObject}} {
		if err := a.Evidence.Object(t.Context(), o.number, o.by, o.text); !errors.Is(err, o.want) {
			t.Errorf("%d says %.10q: %v, want %v", o.by, o.text, err, o.want)
		}
	}
	c, err := a.Evidence.Read(t.Context(), n)
	if err != nil || !strings.HasPrefix(c.Objection, "I saw") || strings.ContainsRune(c.Objection, '\x1b') || len(c.Objection) > evidence.MaxObjection {
		t.Errorf("the objection is %q, %v", c.Objection, err)
	}
}

// TestRefusedObjectionWritesNothing has objections be refused, or made once more: nothing is written, as any member may ask for it.
func TestRefusedObjectionWritesNothing(t *testing.T) {
	store, a, _ := shared(t)
	about := trust.Case{Reason: trust.LostAudit, URL: 1, Channel: 1, Accused: 7, Accuser: 8, At: 5}
	n, err := a.Evidence.Open(t.Context(), about, "http://site-1.example/a", &EvidenceFetch{URL: "http://site-1.example/a", Status: 200, Body: []byte("x")})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(a.Evidence.Ruled(t.Context(), n, 7, 2, 2, "lost audit"), a.Evidence.Object(t.Context(), n, 7, "It was so.")); err != nil {
		t.Fatal(err)
	}
	writes := 0
	store.fails = func() bool { writes++; return false }
	for _, o := range []struct {
		by   trust.Peer
		text string
		want error
	}{{8, "mine", evidence.ErrObject}, {7, "", evidence.ErrObject}, {7, "It was otherwise.", evidence.ErrObject}, {7, "It was so.", nil}} {
		if err := a.Evidence.Object(t.Context(), n, o.by, o.text); !errors.Is(err, o.want) {
			t.Errorf("%d says %q: %v, want %v", o.by, o.text, err, o.want)
		}
	}
	if writes > 0 {
		t.Errorf("%d writes", writes)
	}
}

// TestShortBodies has bodies come without their end, from who delivers and from who checks: what is compared of them knows that, also when it is read from a case.
func TestShortBodies(t *testing.T) {
	a, cl, _ := strangers(t)
	cut := func(p *channel.Page) { p.Truncated, p.Error = true, "timeout: the body took too long" }
	large := func(p *channel.Page) { p.Truncated = true } // than the channel allows
	cl.crawl(t, a, "alice", 1, func(r *runner) []channel.Page {
		pages := []channel.Page{r.page("/cut", news, channel.New), r.page("/large", home, channel.New), r.page("/whole", forge, channel.New)}
		cut(&pages[0])
		large(&pages[1])
		return pages
	})
	d, err := a.Delivery(t.Context(), 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range d.Pages {
		c, err := a.CaptureBy(t.Context(), p.URL, d.Deliverer, d.Claimed.Unix())
		if err != nil {
			t.Fatal(err)
		}
		if got := evidence.Of(&c).Features().Short; got != strings.HasSuffix(p.URL, "/cut") {
			t.Errorf("%s, delivered: %v", p.URL, got)
		}
	}
	for i, f := range []func(*channel.Page){cut, large} {
		gen := channel.Gen(i + 1)
		audit(t, a, cl, "bob", gen, "/cut", home, f)
		answers, err := a.Evidence.Answers(t.Context(), auditChannel, gen)
		if err != nil || len(answers) != 1 || answers[0].Features().Short != (gen == 1) {
			t.Fatalf("%d, checked: %+v, %v", gen, answers, err)
		}
		n, err := a.Evidence.Open(t.Context(), trust.Case{Reason: trust.LostAudit, URL: 1, Channel: 1, Accused: d.Deliverer, Accuser: answers[0].By, At: int64(gen)}, answers[0].URL, answers[0])
		if err != nil {
			t.Fatal(err)
		}
		c, err := a.Evidence.Read(t.Context(), n)
		if err != nil || c.Fetches[evidence.Checked].Features().Short != (gen == 1) {
			t.Errorf("%d, in a case: %+v, %v", gen, c.Fetches[evidence.Checked], err)
		}
	}
}
