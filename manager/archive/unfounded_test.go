package archive

import (
	"context"
	"crypto/sha256"
	"testing"
	"time"

	"shoal/channel"
	"shoal/channel/lease"
)

// startTold is start of a task that tells a peer what is stored.
func startTold(t *testing.T, a *Archive, peer string, gen channel.Gen, told []channel.PageDigest, asked ...channel.Validator) *runner {
	t.Helper()
	return startWith(t, a, peer, gen, func(b *channel.Body) { b.Digests, b.Validators = told, asked })
}

// startWith is start of a task whose body is otherwise.
func startWith(t *testing.T, a *Archive, peer string, gen channel.Gen, otherwise func(*channel.Body)) *runner {
	t.Helper()
	signed, raw := task(1, gen, a.cfg.Clock().Add(time.Hour))
	body, err := channel.ParseBody(raw)
	if err != nil {
		t.Fatal(err)
	}
	h, err := channel.ParseHeader(signed.Raw)
	if err != nil {
		t.Fatal(err)
	}
	otherwise(&body)
	raw = body.Marshal()
	h.BodySHA256, h.BodyBytes = sha256.Sum256(raw), len(raw)
	signed.Raw = h.Marshal()
	if err := a.Deposit(context.Background(), signed, raw); err != nil {
		t.Fatal(err)
	}
	c, err := a.Claim(context.Background(), peer, signed)
	if err != nil || c.Status != lease.Granted {
		t.Fatalf("claim 1.%d: %v, %v", gen, c.Status, err)
	}
	return &runner{t, a, peer, 1, gen, c.Resume.Seq, c.Resume.Head, nil}
}

// lastOf is the last entry of the feed.
func lastOf(t *testing.T, a *Archive) Entry {
	t.Helper()
	entries, _, err := a.Feed(t.Context(), "", MaxFeed)
	if err != nil || len(entries) == 0 {
		t.Fatalf("the feed has %d entries, %v", len(entries), err)
	}
	return entries[len(entries)-1]
}

// same is a page that a peer says is as it is stored, by a digest.
func same(r *runner, path string, digest uint64) channel.Page {
	return channel.Page{URL: r.url(path), Status: 200, Change: channel.Unchanged, Digest: digest, Fetched: r.a.cfg.Clock()}
}

// TestMadeUpDigestsBringNothing has a lazy peer say of all pages that they are unchanged, with a digest that it made up. No page counts as crawled, in one chunk or in
// two; the report is one of failure, and the peer is named.
func TestMadeUpDigestsBringNothing(t *testing.T) {
	for _, chunks := range []int{1, 2} {
		a, _, told := watched(t)
		r, _ := start(t, a, "alice", 1, 1)
		r.put(channel.ChunkBody{Pages: []channel.Page{r.page("/", home, channel.New), r.page("/a", long, channel.New)}, Report: r.report(channel.Updated)})
		r, _ = start(t, a, "lazy", 1, 2)
		lies := channel.ChunkBody{Pages: []channel.Page{same(r, "/", 1), same(r, "/a", 1), same(r, "/never", 0)}}
		report := r.report(channel.Updated)
		report.Pages, report.Unchanged = 3, 3
		if chunks == 2 {
			r.put(lies)
			lies = channel.ChunkBody{}
		}
		lies.Report = report
		r.put(lies)
		e := lastOf(t, a)
		if e.Report.Outcome != channel.Failed || e.Report.Pages != 0 || e.Report.Unchanged != 0 || e.Report.Reason == "" || e.Wrong != 3 {
			t.Errorf("in %d chunks: %d findings, and reported %+v", chunks, e.Wrong, e.Report)
		}
		if got := told(); got != "lazy false_digests 3" {
			t.Errorf("in %d chunks: told %q", chunks, got)
		}
	}
}

// TestSomeMadeUpDigests has a peer fetch one page, and make the others up: the one counts.
func TestSomeMadeUpDigests(t *testing.T) {
	a, _, told := watched(t)
	r, _ := start(t, a, "alice", 1, 1)
	r.put(channel.ChunkBody{Pages: []channel.Page{r.page("/", home, channel.New), r.page("/a", long, channel.New)}, Report: r.report(channel.Updated)})
	r, _ = start(t, a, "lazy", 1, 2)
	report := r.report(channel.Updated)
	report.Pages, report.New, report.Unchanged = 2, 1, 1
	r.put(channel.ChunkBody{Pages: []channel.Page{r.page("/", news, channel.New), same(r, "/a", 1)}, Report: report})
	if r := lastOf(t, a).Report; r.Outcome != channel.Updated || r.Pages != 1 || r.Changed != 1 || r.Unchanged != 0 {
		t.Errorf("reported %+v", r)
	}
	if got := told(); got != "lazy false_digests 1" {
		t.Errorf("told %q", got)
	}
}

// TestToldDigestsAreNoDeed has a page become another version between a task and what its peer says of it, as by a ruling: the page does not count as crawled, and nothing is
// held against the peer.
func TestToldDigestsAreNoDeed(t *testing.T) {
	a, _, told := watched(t)
	r, _ := start(t, a, "alice", 1, 1)
	r.put(channel.ChunkBody{Pages: []channel.Page{r.page("/", home, channel.New), r.page("/a", long, channel.New)}, Report: r.report(channel.Updated)})
	before, now := channel.ContentDigest([]byte("before "+long)), channel.ContentDigest([]byte(home))
	r = startTold(t, a, "bob", 2, []channel.PageDigest{{URL: channel.URLHash(r.url("/")), Content: now}, {URL: channel.URLHash(r.url("/a")), Content: before}})
	report := r.report(channel.Updated)
	report.Pages, report.Unchanged = 2, 2
	r.put(channel.ChunkBody{Pages: []channel.Page{same(r, "/", now), same(r, "/a", before)}, Report: report})
	if e := lastOf(t, a); e.Report.Outcome != channel.Updated || e.Report.Pages != 1 || e.Report.Unchanged != 1 || e.Wrong != 0 {
		t.Errorf("%d findings, and reported %+v", e.Wrong, e.Report)
	}
	if got := told(); got != "" {
		t.Errorf("told %q", got)
	}
}

// TestToldValidatorsAreNoDeed has a host say that a page is as its task's validator names it, which is not stored any more. Of a large channel a task may have no digest of it.
func TestToldValidatorsAreNoDeed(t *testing.T) {
	a, _, told := watched(t)
	r, _ := start(t, a, "alice", 1, 1)
	r.put(channel.ChunkBody{Pages: []channel.Page{r.page("/", home, channel.New)}, Report: r.report(channel.Updated)})
	r = startTold(t, a, "bob", 2, nil, channel.Validator{URL: channel.URLHash(r.url("/gone")), ETag: `"1"`})
	report := r.report(channel.Updated)
	report.Pages, report.New, report.Unchanged = 2, 1, 1
	r.put(channel.ChunkBody{Pages: []channel.Page{r.page("/", news, channel.New), same(r, "/gone", 0)}, Report: report})
	if e := lastOf(t, a); e.Wrong != 0 || e.Report.Pages != 1 {
		t.Errorf("%d findings, and reported %+v", e.Wrong, e.Report)
	}
	if got := told(); got != "" {
		t.Errorf("told %q", got)
	}
}

// TestUnchangedInAnotherForm has a peer say of pages that are stored whole that they are unchanged, where their text alone is kept now. It brings nothing if it made that up, and
// nothing is held against one whose task had told it.
func TestUnchangedInAnotherForm(t *testing.T) {
	for _, change := range []channel.Change{channel.Unchanged, channel.NearUnchanged} {
		for _, told := range []bool{false, true} {
			a, _, deeds := watched(t)
			r, _ := start(t, a, "alice", 1, 1)
			r.put(channel.ChunkBody{Pages: []channel.Page{r.page("/", home, channel.New)}, Report: r.report(channel.Updated)})
			r = startWith(t, a, "bob", 2, func(b *channel.Body) {
				b.Settings.TextOnly = true
				if told {
					b.Digests = []channel.PageDigest{{URL: channel.URLHash(r.url("/")), Content: channel.ContentDigest([]byte(home))}}
				}
			})
			report := r.report(channel.Updated)
			report.Pages, report.Unchanged, report.NearUnchanged = 1, 1, 0
			p := same(r, "/", 0)
			if p.Change = change; change == channel.NearUnchanged {
				report.Unchanged, report.NearUnchanged = 0, 1
			}
			r.put(channel.ChunkBody{Pages: []channel.Page{p}, Report: report})
			e := lastOf(t, a)
			if got := e.Report.Outcome == channel.Updated; got != told || e.Report.Pages == 1 != told {
				t.Errorf("%v, told %v: reported %+v", change, told, e.Report)
			}
			if got, want := deeds() != "", !told && change == channel.Unchanged; got != want {
				t.Errorf("%v, told %v: it is held against it: %v", change, told, got)
			}
		}
	}
}

// TestErrorsAloneAreNoUpdate has a peer say of all pages that they could not be had, though they were answered, or say nothing of any, and report an update. It failed, as an
// honest peer says then.
func TestErrorsAloneAreNoUpdate(t *testing.T) {
	a, _, _ := watched(t)
	r, _ := start(t, a, "lazy", 1, 1)
	errored := channel.Page{URL: r.url("/"), Status: 200, Change: channel.Errored, Error: "timeout", Fetched: a.cfg.Clock()}
	r.put(channel.ChunkBody{Pages: []channel.Page{errored}, Report: r.report(channel.Updated)})
	if r := lastOf(t, a).Report; r.Outcome != channel.Failed {
		t.Errorf("reported %+v", r)
	}
	r, _ = start(t, a, "lazy", 1, 2)
	r.put(channel.ChunkBody{Report: r.report(channel.Updated)})
	if r := lastOf(t, a).Report; r.Outcome != channel.Failed {
		t.Errorf("without a page: reported %+v", r)
	}
}

// TestReportOfNothingIsAFailure has a peer report that it stopped, or that its lease was over, and bring nothing. An honest one gives its task back then. It kept the channel back until its next interval, on the
// word of one peer, and was held against nobody.
func TestReportOfNothingIsAFailure(t *testing.T) {
	for _, said := range []channel.Outcome{channel.Stopped, channel.Lapsed, channel.Updated} {
		a := open(t, testConfig(t.TempDir()))
		r, _ := start(t, a, "mallory", 1, 1)
		r.put(channel.ChunkBody{Report: r.report(said)})
		if is := lastOf(t, a).Report; is == nil || is.Outcome != channel.Failed || is.Reason == "" {
			t.Errorf("who says %v and brings nothing: %+v", said, is)
		}
		r, _ = start(t, a, "alice", 1, 2)
		r.put(channel.ChunkBody{Pages: []channel.Page{r.page("/", long, channel.New)}, Report: r.report(said)})
		if is := lastOf(t, a).Report; is == nil || is.Outcome != said {
			t.Errorf("who says %v and brings a page: %+v", said, is)
		}
	}
}
