package archive

import (
	"crypto/sha256"
	"testing"
	"time"

	"shoal/channel"
	"shoal/channel/lease"
	pb "shoal/manager/archive/archivepb"
	"shoal/manager/archive/evidence"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/pages"
	"shoal/manager/trust"
)

// textTask is task where only the text is kept.
func textTask(t *testing.T, id channel.ID, gen channel.Gen, latest time.Time) (channel.Signed, []byte) {
	t.Helper()
	s, raw := task(id, gen, latest)
	body, err := channel.ParseBody(raw)
	if err != nil {
		t.Fatal(err)
	}
	body.Settings.TextOnly = true
	raw = body.Marshal()
	h, err := channel.ParseHeader(s.Raw)
	if err != nil {
		t.Fatal(err)
	}
	h.BodySHA256, h.BodyBytes = sha256.Sum256(raw), len(raw)
	s.Raw = h.Marshal()
	return s, raw
}

// crawlText is crawl of a channel of which only the text is kept.
func (c *clock) crawlText(t *testing.T, a *Archive, peer string, gen channel.Gen, p func(r *runner) channel.Page) {
	t.Helper()
	c.now = c.now.Add(time.Minute)
	s, raw := textTask(t, 1, gen, c.now.Add(time.Hour))
	if err := a.Deposit(t.Context(), s, raw); err != nil {
		t.Fatal(err)
	}
	got, err := a.Claim(t.Context(), peer, s)
	if err != nil || got.Status != lease.Granted {
		t.Fatal(got.Status, err)
	}
	r := &runner{t, a, peer, 1, gen, got.Resume.Seq, got.Resume.Head, nil}
	c.now = c.now.Add(time.Second)
	r.put(channel.ChunkBody{Pages: []channel.Page{p(r)}, Report: r.report(channel.Updated)})
}

// TestDigestIsNotBelievedWithoutItsBody has a liar send the digest of the true page, and something else or nothing as what it is of: where a channel keeps the text only, of a
// page that is said not to be archived, and as nearly unchanged. Who sends the true page with that digest vouches for none of these.
func TestDigestIsNotBelievedWithoutItsBody(t *testing.T) {
	const raw = "<html><body>the page as it came, of which only the text is sent</body></html>"
	text := func(body string) func(r *runner) channel.Page {
		return func(r *runner) channel.Page {
			p := r.page("/", body, channel.New)
			p.Digest = channel.ContentDigest([]byte(raw))
			return p
		}
	}
	t.Run("text", func(t *testing.T) {
		a, cl, _ := strangers(t)
		j := newJudge(t, a, true, "alice", "bob", "carol", "mallory")
		for i, step := range []struct{ peer, body, want, shown string }{
			{"mallory", forge, "provisional+0 none", forge}, {"alice", home, "provisional+0 provisional", home}, {"bob", home, "verified+1 provisional", home},
		} {
			gen := channel.Gen(i + 1)
			cl.crawlText(t, a, step.peer, gen, text(step.body))
			j.deliver(cl, gen)
			if got := j.record("/"); got != step.want {
				t.Errorf("after %s: %s, want %s", step.peer, got, step.want)
			}
			if got := shown(t, a, "http://site-1.example/"); got != step.shown {
				t.Errorf("after %s %q is shown", step.peer, got)
			}
		}
		k, err := a.Known(t.Context(), 1, time.Time{})
		if err != nil || len(k.Digests) != 1 || k.Digests[0].Content != channel.ContentDigest([]byte(raw)) {
			t.Errorf("the next peer is told %+v, %v: nothing that it could compare", k.Digests, err)
		}
		cl.crawlText(t, a, "carol", 4, func(r *runner) channel.Page {
			p := text("")(r)
			p.Change = channel.Unchanged
			return p
		})
		j.deliver(cl, 4)
		if got := j.record("/"); got != "verified+1 provisional" {
			t.Errorf("carol has seen the same page, and not what was sent of it: the record is %s", got)
		}
	})
	t.Run("nothing", func(t *testing.T) {
		a, cl, _ := strangers(t)
		j := newJudge(t, a, true, "alice", "bob", "carol", "mallory")
		withheld := func(r *runner) []channel.Page {
			p := r.page("/", home, channel.New)
			p.Body, p.Error = nil, "noarchive"
			return []channel.Page{p}
		}
		cl.crawl(t, a, "mallory", 1, withheld)
		j.deliver(cl, 1)
		cl.crawl(t, a, "alice", 2, func(r *runner) []channel.Page { return []channel.Page{r.page("/", home, channel.New)} })
		j.deliver(cl, 2)
		if got := j.record("/"); got != "provisional+0 provisional" {
			t.Errorf("a page without content, and with it: %s", got)
		}
		cl.crawl(t, a, "bob", 3, withheld)
		j.deliver(cl, 3)
		cl.crawl(t, a, "carol", 4, withheld)
		j.deliver(cl, 4)
		if got := j.record("/"); got != "verified+2 contested" {
			t.Errorf("three peers say that it is not to be archived: %s", got)
		}
	})
	t.Run("nearly unchanged", func(t *testing.T) {
		a, cl, _ := strangers(t)
		j := newJudge(t, a, true, "alice", "bob", "mallory")
		for i, peer := range []string{"alice", "bob"} {
			cl.crawl(t, a, peer, channel.Gen(i+1), func(r *runner) []channel.Page { return []channel.Page{r.page("/", home, channel.New)} })
			j.deliver(cl, channel.Gen(i+1))
		}
		cl.crawl(t, a, "mallory", 3, func(r *runner) []channel.Page {
			p := r.page("/", forge, channel.NearUnchanged)
			p.Body = nil
			return []channel.Page{p}
		})
		j.deliver(cl, 3)
		if got := j.record("/"); got != "verified+1 none" {
			t.Errorf("a version of which nothing came is in the record: %s", got)
		}
	})
}

// TestPeersThatReadAPageOtherwiseContradictNobody has peers of two programs send the text of the same page, which they read a little differently, of a page that says that it
// has not changed for long. None is sent to the arbiter, and a text counts as verified where two have read it so. Who sends quite another text is.
func TestPeersThatReadAPageOtherwiseContradictNobody(t *testing.T) {
	a, cl, _ := strangers(t)
	j := newJudge(t, a, true, "alice", "bob", "carol", "dave", "mallory")
	gen := channel.Gen(0)
	say := func(peer, body string, shingle uint64) (contested int) {
		gen++
		cl.crawlText(t, a, peer, gen, func(r *runner) channel.Page {
			p := r.page("/", body, channel.Changed)
			p.Header = append([]byte("HTTP/1.1 200 OK\r\nLast-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\n"), "Content-Type: text/html\r\n\r\n"...)
			p.Digest, p.Shingle = 77, shingle
			return p
		})
		_, acts := j.deliver(cl, gen)
		for _, act := range acts {
			if act.Kind == trust.Arbitrate {
				contested++
			}
		}
		return contested
	}
	for _, step := range []struct{ peer, body, want string }{
		{"alice", home, "provisional+0 none"}, {"bob", home + " Menu", "provisional+0 provisional"}, {"carol", home, "provisional+0 provisional"},
		{"dave", home, "verified+1 provisional"}, {"bob", home + " Menu", "provisional+0 verified"}, {"alice", home, "verified+2 provisional"},
	} {
		shingle := uint64(1 << 40)
		if step.body != home {
			shingle++
		}
		if n := say(step.peer, step.body, shingle); n > 0 {
			t.Errorf("%s is the cause of %d cases", step.peer, n)
		}
		if got := j.record("/"); got != step.want {
			t.Errorf("after %s the record is %s, want %s", step.peer, got, step.want)
		}
	}
	if say("mallory", forge, 0xffff)+say("carol", home, 1<<40) == 0 {
		t.Error("a forged text is no case")
	}
}

// TestVisitThatSawTheSameKeepsTheDigestOfWhatCame has a visit find a page unchanged of which only the text is kept: should the page return to that visit, the next peer compares
// what comes with what came then.
func TestVisitThatSawTheSameKeepsTheDigestOfWhatCame(t *testing.T) {
	a, cl, _ := strangers(t)
	for i, step := range []struct {
		peer, body string
		change     channel.Change
	}{{"alice", home, channel.New}, {"bob", "", channel.Unchanged}} {
		var p channel.Page
		cl.crawlText(t, a, step.peer, channel.Gen(i+1), func(r *runner) channel.Page {
			p = r.page("/", step.body, step.change)
			p.Digest = 77
			return p
		})
		var c pb.Capture
		err := a.Ledger.View(func(snap ledger.Snapshot) error {
			_, err := ledger.Get(snap, pages.CaptureKey(p.URL, p.Fetched), &c)
			return err
		})
		if err != nil || c.Raw != 77 || c.Said != (i == 1) {
			t.Errorf("the visit of %s: %v, %v", step.peer, &c, err)
		}
	}
}

// TestCheckerTellsWhatCameOfATextPage has a peer look at a page of which only the text is sent: what it has seen knows the page as it came. So, where two checkers decide without an
// arbiter, a peer that was told by that page's digest that nothing has changed is excused as by an arbiter's look.
func TestCheckerTellsWhatCameOfATextPage(t *testing.T) {
	a, cl, _ := strangers(t)
	s, raw := textTask(t, 1, 11, cl.now.Add(time.Hour))
	url := "http://site-1.example/"
	if err := a.DepositAside(t.Context(), s, raw, Errand{Rest: []channel.Frontier{{URL: url, Depth: channel.DefaultDepth}}, Lane: Lane{Channel: auditChannel, Gen: 1}}); err != nil {
		t.Fatal(err)
	}
	c, err := a.Claim(t.Context(), "bob", s)
	if err != nil || c.Status != lease.Granted {
		t.Fatalf("%v, %v", c.Status, err)
	}
	cl.now = cl.now.Add(time.Second)
	r := &runner{t, a, "bob", 1, 11, c.Resume.Seq, c.Resume.Head, nil}
	p := r.page("/", home, channel.New)
	p.URL, p.Digest = url, 77
	r.put(channel.ChunkBody{Pages: []channel.Page{p}, Report: r.report(channel.Updated)})
	seen, err := a.Evidence.Answers(t.Context(), auditChannel, 1)
	if err != nil || len(seen) != 1 {
		t.Fatalf("%+v, %v", seen, err)
	}
	for came, want := range map[uint64]bool{77: true, 78: false} {
		if said := evidence.Of(&pages.Capture{URL: url, Status: 200, Raw: came}); said.Unmoved(seen[0]) != want {
			t.Errorf("told by digest %d: excused %v, want %v", came, !want, want)
		}
	}
}
