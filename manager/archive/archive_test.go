package archive

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"shoal/channel"
	"shoal/channel/lease"
	"shoal/internal/wire/uplink"
	"shoal/manager/archive/warc"
)

var errForged = errors.New("test: forged")

// testVerify stands for the signature check: a header whose signature is "good" is good.
func testVerify(_ time.Time, s channel.Signed) (channel.Header, error) {
	if string(s.Sig) != "good" {
		return channel.Header{}, errForged
	}
	return channel.ParseHeader(s.Raw)
}

// clock is a clock that a test moves.
type clock struct{ now time.Time }

func (c *clock) Now() time.Time { return c.now }

func testConfig(dir string) Config {
	return Config{Dir: dir, Verify: testVerify, Operator: "https://example.org/contact", AccountOf: func(string) string { return "one account" }}
}

func open(t testing.TB, cfg Config) *Archive {
	t.Helper()
	a, err := Open(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	return a
}

// task makes a signed task of a channel whose host is site-N.example.
func task(id channel.ID, gen channel.Gen, latest time.Time) (channel.Signed, []byte) {
	return taskOf(id, gen, fmt.Sprintf("http://site-%d.example", id), latest)
}

func taskOf(id channel.ID, gen channel.Gen, host string, latest time.Time) (channel.Signed, []byte) {
	body := channel.Body{Scope: channel.Scope{Kind: channel.WholeHost, Host: host}, Seeds: []string{host + "/"}, Contact: "https://example.org/"}
	raw := body.Marshal()
	h := channel.Header{
		Network: [32]byte{1}, Channel: id, Gen: gen, Host: host, Pages: 10, Issued: latest.Add(-time.Hour), Latest: latest,
		BodySHA256: sha256.Sum256(raw), BodyBytes: len(raw), Archive: "archive",
	}
	return channel.Signed{Raw: h.Marshal(), Sig: []byte("good"), Delegation: []byte("d")}, raw
}

// runner is a peer's side of one crawl.
type runner struct {
	t    testing.TB
	a    *Archive
	peer string
	id   channel.ID
	gen  channel.Gen
	seq  uint64
	head [32]byte
	said map[string]bool // URLs of this crawl
}

// start deposits and claims a task.
func start(t testing.TB, a *Archive, peer string, id channel.ID, gen channel.Gen) (*runner, uplink.Claimed) {
	t.Helper()
	s, body := task(id, gen, a.cfg.Clock().Add(time.Hour))
	if err := a.Deposit(context.Background(), s, body); err != nil {
		t.Fatal(err)
	}
	c, err := a.Claim(context.Background(), peer, s)
	if err != nil || c.Status != lease.Granted {
		t.Fatalf("claim %d.%d: %v, %v", id, gen, c.Status, err)
	}
	if string(c.Body) != string(body) {
		t.Fatalf("claim %d.%d brought another body", id, gen)
	}
	return &runner{t, a, peer, id, gen, c.Resume.Seq, c.Resume.Head, nil}, c
}

func (r *runner) chunk(b channel.ChunkBody) channel.Chunk {
	r.t.Helper()
	body, err := channel.CompressBody(b.Marshal())
	if err != nil {
		r.t.Fatal(err)
	}
	return channel.Chunk{Channel: r.id, Gen: r.gen, Seq: r.seq + 1, Prev: r.head, Body: body}
}

// put sends a chunk, which must be stored. A page of which this crawl has said something before is of the next one.
func (r *runner) put(b channel.ChunkBody) channel.Chunk {
	r.t.Helper()
	if slices.ContainsFunc(b.Pages, func(p channel.Page) bool { return r.said[p.URL] }) {
		r.next()
		if b.Report != nil {
			b.Report.Gen = r.gen
		}
	}
	if r.said == nil {
		r.said = map[string]bool{}
	}
	for i := range b.Pages {
		r.said[b.Pages[i].URL] = true
	}
	return r.send(b)
}

// next ends this crawl, and begins the next one.
func (r *runner) next() {
	r.t.Helper()
	if _, err := r.a.Release(context.Background(), r.peer, r.id, r.gen); err != nil {
		r.t.Fatal(err)
	}
	next, _ := start(r.t, r.a, r.peer, r.id, r.gen+1)
	*r = *next
}

// send sends a chunk, which must be stored.
func (r *runner) send(b channel.ChunkBody) channel.Chunk {
	r.t.Helper()
	c := r.chunk(b)
	got, err := r.a.Put(context.Background(), r.peer, c)
	if err != nil || got.Status != lease.Stored || got.Seq != c.Seq || got.Head != c.Hash() {
		r.t.Fatalf("put %d.%d.%d: %v, seq %d, %v", c.Channel, c.Gen, c.Seq, got.Status, got.Seq, err)
	}
	r.seq, r.head = got.Seq, got.Head
	return c
}

func (r *runner) url(path string) string { return fmt.Sprintf("http://site-%d.example%s", r.id, path) }

func (r *runner) report(o channel.Outcome) *channel.Report {
	return &channel.Report{Channel: r.id, Gen: r.gen, Peer: "liar", Outcome: o, Pages: 1, Inter: []string{"http://other.example/"}}
}

// page is a page as a crawl sends it.
func (r *runner) page(path, body string, change channel.Change) channel.Page {
	return channel.Page{
		URL: r.url(path), Fetched: r.a.cfg.Clock(), Status: 200, Change: change, Digest: channel.ContentDigest([]byte(body)), Body: []byte(body),
		Header: []byte("HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nETag: \"" + path + "\"\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\n"),
		Links:  []string{r.url("/next"), "http://other.example/"}, RTT: 20 * time.Millisecond,
	}
}

func feedOf(t testing.TB, a *Archive) string {
	t.Helper()
	entries, _, err := a.Feed(context.Background(), "", MaxFeed)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		s := fmt.Sprintf("%v %d.%d %s", e.Event.Kind, e.Channel, e.Gen, e.Peer)
		if e.Report != nil {
			s += " by " + e.Report.Peer
		}
		out = append(out, s)
	}
	return strings.Join(out, "; ")
}

func changesOf(t testing.TB, a *Archive) string {
	t.Helper()
	changes, _, err := a.Changes(context.Background(), "", MaxFeed)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, c := range changes {
		_, path, _ := strings.Cut(c.URL, ".example")
		out = append(out, fmt.Sprintf("%v %s", c.Event, path))
	}
	return strings.Join(out, "; ")
}

var long = strings.Repeat("a page of some length ", 20)

// TestCircle follows a channel over three crawls: new, unchanged and changed pages, a copy of another, one that goes and comes back.
func TestCircle(t *testing.T) {
	ctx := context.Background()
	a := open(t, testConfig(t.TempDir()))
	r, c := start(t, a, "alice", 7, 1)
	if c.Left != lease.Default().Term || c.Resume.Seq != 0 {
		t.Errorf("claim: left %v, seq %d", c.Left, c.Resume.Seq)
	}
	r.put(channel.ChunkBody{Pages: []channel.Page{
		r.page("/", "home "+long, channel.New), r.page("/copy", "home "+long, channel.New), r.page("/a", "a "+long, channel.New),
		{URL: r.url("/dead"), Status: 404, Change: channel.Gone, Header: []byte("HTTP/1.1 404 Not Found\r\n\r\n")},
		{URL: "http://elsewhere.example/", Status: 200, Change: channel.New, Body: []byte("x")},
		{URL: r.url("/slow"), Error: "timeout", Change: channel.Errored},
	}})
	r.put(channel.ChunkBody{Report: r.report(channel.Updated)})
	if got, want := changesOf(t, a), "created /; created /copy; created /a"; got != want {
		t.Errorf("changes %q, want %q", got, want)
	}
	k, err := a.Known(ctx, 7, time.Time{})
	if err != nil || k.Pages != 3 || len(k.Digests) != 3 || len(k.Validators) != 3 || len(k.Inter) != 1 {
		t.Errorf("known: %+v, %v", k, err)
	}

	r, c = start(t, a, "bob", 7, 2)
	if c.Resume.Seq != 2 || len(c.Resume.Done) != 0 || len(c.Resume.Frontier) != 3 { // what is stored comes along
		t.Errorf("a new crawl resumes %+v", c.Resume)
	}
	same := r.page("/", "home "+long, channel.Unchanged)
	same.Body = nil
	lie := r.page("/copy", "what we never saw", channel.Unchanged)
	lie.Body = nil
	r.put(channel.ChunkBody{Pages: []channel.Page{same, lie, r.page("/a", "b "+long, channel.Changed)}})
	r.put(channel.ChunkBody{Report: r.report(channel.Updated)})
	if k, err = a.Known(ctx, 7, time.Time{}); err != nil || k.Pages != 3 || len(k.Digests) != 2 {
		t.Errorf("known after a false unchanged: %+v, %v", k, err)
	}

	r, _ = start(t, a, "carol", 7, 3)
	r.put(channel.ChunkBody{Pages: []channel.Page{{URL: r.url("/a"), Status: 410, Change: channel.Gone, Header: []byte("HTTP/1.1 410 Gone\r\n\r\n")}}, Report: r.report(channel.Updated)})
	r, _ = start(t, a, "carol", 7, 4)
	r.put(channel.ChunkBody{Pages: []channel.Page{r.page("/a", "b "+long, channel.New)}, Report: r.report(channel.Updated)})
	if got, want := changesOf(t, a), "created /; created /copy; created /a; changed /a; gone /a; created /a"; got != want {
		t.Errorf("changes %q, want %q", got, want)
	}
	if got, want := feedOf(t, a), "claimed 7.1 alice; reported 7.1 alice by alice; claimed 7.2 bob; reported 7.2 bob by bob; claimed 7.3 carol; reported 7.3 carol by carol; claimed 7.4 carol; reported 7.4 carol by carol"; got != want {
		t.Errorf("feed %q, want %q", got, want)
	}
	s := a.Stats()
	if s.Pages != 4 || s.Unchanged != 3 || s.Foreign != 1 || s.Mismatched != 1 || s.Chunks != 6 || s.Leases != 0 {
		t.Errorf("stats %+v", s)
	}
	got, err := a.Get(ctx, r.url("/copy"), time.Time{})
	if err != nil || string(got.Body) != "home "+long || !got.Revisit {
		t.Errorf("get /copy: %.20q, revisit %v, %v", got.Body, got.Revisit, err)
	}
	if h := string(got.Header); !strings.Contains(h, "X-Archive-Orig-Content-Encoding: gzip\r\n") || strings.Contains(h, "\nContent-Encoding") {
		t.Errorf("header %q would have a reader decode what is decoded", h)
	}
	if _, err := a.Get(ctx, r.url("/never"), time.Time{}); !errors.Is(err, ErrNotFound) {
		t.Errorf("get of what was never fetched: %v", err)
	}
}

// TestGetAt reads what a page was at earlier times.
func TestGetAt(t *testing.T) {
	cl := &clock{time.Unix(1_700_000_000, 0).UTC()}
	cfg := testConfig(t.TempDir())
	cfg.Clock, cfg.Own = cl.Now, cl.Now
	a := open(t, cfg)
	var times []time.Time
	for gen := range 3 {
		r, _ := start(t, a, "p", 1, channel.Gen(gen+1))
		r.put(channel.ChunkBody{Pages: []channel.Page{r.page("/x", fmt.Sprint(gen, long), channel.Changed)}, Report: r.report(channel.Updated)})
		times = append(times, cl.now)
		cl.now = cl.now.Add(time.Hour)
	}
	for n, at := range times {
		for _, d := range []time.Duration{0, time.Minute} {
			got, err := a.Get(context.Background(), "http://site-1.example/x", at.Add(d))
			if err != nil || !strings.HasPrefix(string(got.Body), fmt.Sprint(n)) || !got.Fetched.Equal(at) {
				t.Errorf("at %v: %.5q of %v, %v", at.Add(d), got.Body, got.Fetched, err)
			}
		}
	}
	if _, err := a.Get(context.Background(), "http://site-1.example/x", times[0].Add(-1)); !errors.Is(err, ErrNotFound) {
		t.Errorf("before the first visit: %v", err)
	}
	if _, err := a.Get(context.Background(), "https://site-1.example/x", times[0]); !errors.Is(err, ErrNotFound) {
		t.Errorf("the other scheme: %v", err)
	}
}

// TestFence goes through what is refused, and what may be repeated.
func TestFence(t *testing.T) {
	ctx := context.Background()
	cl := &clock{time.Unix(1_700_000_000, 0)}
	cfg := testConfig(t.TempDir())
	cfg.Clock, cfg.Own = cl.Now, cl.Now
	a := open(t, cfg)
	r, _ := start(t, a, "alice", 1, 5)
	s5, body := task(1, 5, cl.now.Add(time.Hour))

	bad := s5
	bad.Sig = []byte("bad")
	if err := a.Deposit(ctx, bad, body); !errors.Is(err, errForged) {
		t.Errorf("forged deposit: %v", err)
	}
	later, _ := task(1, 5, cl.now.Add(2*time.Hour))
	if _, err := a.Claim(ctx, "bob", later); !errors.Is(err, ErrBadTask) {
		t.Errorf("claim with an altered header: %v", err)
	}
	if _, err := a.Renew(ctx, "bob", channel.Signed{Raw: []byte{1}}); !errors.Is(err, ErrBadTask) {
		t.Errorf("renewal without a header: %v", err)
	}
	if err := a.Deposit(ctx, s5, append(body, 0)); !errors.Is(err, ErrBadTask) {
		t.Errorf("altered body: %v", err)
	}
	var fenced *FencedError
	s4, body4 := task(1, 4, cl.now.Add(time.Hour))
	if err := a.Deposit(ctx, s4, body4); !errors.As(err, &fenced) || fenced.Highest != 5 {
		t.Errorf("deposit behind the fence: %v", err)
	}
	if c, err := a.Claim(ctx, "bob", s5); err != nil || c.Status != lease.Fenced || c.Body != nil {
		t.Errorf("second claimer: %v, %v", c.Status, err)
	}
	stale := r.chunk(channel.ChunkBody{Report: &channel.Report{Channel: 1, Gen: 5, Outcome: channel.Updated}})
	c, err := a.Claim(ctx, "alice", s5)
	if err != nil || c.Status != lease.Granted || string(c.Body) != string(body) {
		t.Errorf("first claimer again: %v, %v", c.Status, err)
	}
	if got, err := a.Put(ctx, "alice", stale); err != nil || got.Status != lease.Behind || got.Seq != c.Seq {
		t.Errorf("a report that the second claim has overtaken: %v, %v", got.Status, err)
	}
	r.seq, r.head = c.Resume.Seq, c.Resume.Head
	first := r.put(channel.ChunkBody{Pages: []channel.Page{r.page("/", long, channel.New)}})
	if got, err := a.Put(ctx, "alice", first); err != nil || got.Status != lease.Stored {
		t.Errorf("chunk again: %v, %v", got.Status, err)
	}
	if got, err := a.Put(ctx, "bob", first); err != nil || got.Status != lease.Fenced {
		t.Errorf("chunk of another: %v, %v", got.Status, err)
	}
	skip := r.chunk(channel.ChunkBody{})
	skip.Seq++
	if got, err := a.Put(ctx, "alice", skip); err != nil || got.Status != lease.Behind || got.Seq != first.Seq {
		t.Errorf("chunk beyond the head: %v, %v", got.Status, err)
	}
	for name, c := range map[string]channel.Chunk{
		"no zstd":        {Channel: 1, Gen: 5, Seq: first.Seq + 1, Prev: r.head, Body: []byte("no")},
		"foreign report": r.chunk(channel.ChunkBody{Report: &channel.Report{Channel: 2, Gen: 5, Outcome: channel.Updated}}),
	} {
		if _, err := a.Put(ctx, "alice", c); !errors.Is(err, ErrBadChunk) {
			t.Errorf("%s: %v", name, err)
		}
	}
	s6, body6 := task(1, 6, cl.now.Add(time.Hour))
	if err := a.Deposit(ctx, s6, body6); err != nil {
		t.Fatal(err)
	}
	if err := a.Deposit(ctx, s6, body6); err != nil {
		t.Errorf("deposit again: %v", err)
	}
	if c, err := a.Claim(ctx, "bob", s6); err != nil || c.Status != lease.Held {
		t.Errorf("claim while an older lease runs: %v, %v", c.Status, err)
	}
	if got, err := a.Release(ctx, "alice", 1, 5); err != nil || got.Status != lease.Ended {
		t.Errorf("release: %v, %v", got.Status, err)
	}
	if c, err := a.Claim(ctx, "bob", s6); err != nil || c.Status != lease.Held { // alice claimed twice: an earlier life of hers may have released it
		t.Errorf("claim after the release of who claimed again: %v, %v", c.Status, err)
	}
	cl.now = cl.now.Add(a.cfg.Terms.Term)
	if c, err := a.Claim(ctx, "bob", s6); err != nil || c.Status != lease.Granted || c.Resume.Seq != first.Seq || len(c.Resume.Done) != 1 {
		t.Errorf("claim after release: %v, %+v, %v", c.Status, c.Resume, err)
	}
	cl.now = cl.now.Add(2 * time.Hour)
	if err := a.Expire(ctx); err != nil {
		t.Fatal(err)
	}
	s7, body7 := task(1, 7, cl.now.Add(-time.Second))
	if err := a.Deposit(ctx, s7, body7); err != nil {
		t.Fatal(err)
	}
	if c, err := a.Claim(ctx, "bob", s7); err != nil || c.Status != lease.Late {
		t.Errorf("late claim: %v, %v", c.Status, err)
	}
	s8, _ := task(1, 8, cl.now.Add(time.Hour))
	if c, err := a.Claim(ctx, "bob", s8); err != nil || c.Status != lease.Unclaimed {
		t.Errorf("claim without a deposit: %v, %v", c.Status, err)
	}
	if got, want := feedOf(t, a), "claimed 1.5 alice; released 1.5 alice; claimed 1.6 bob; lapsed 1.6 bob"; got != want {
		t.Errorf("feed %q, want %q", got, want)
	}
}

// TestResume lets another peer go on: what was fetched is done, what was found is to do, once each, in order.
func TestResume(t *testing.T) {
	a := open(t, testConfig(t.TempDir()))
	r, _ := start(t, a, "alice", 1, 1)
	f := func(paths ...string) (out []channel.Frontier) {
		for _, p := range paths {
			out = append(out, channel.Frontier{URL: r.url(p), Depth: len(p)})
		}
		return out
	}
	r.put(channel.ChunkBody{Pages: []channel.Page{r.page("/", long, channel.New)}, Frontier: f("/a", "/b", "/c")})
	r.put(channel.ChunkBody{Pages: []channel.Page{r.page("/a", long, channel.New), {URL: r.url("/b"), Error: "reset", Change: channel.Errored}}, Frontier: f("/c", "/d", "/")})
	r.put(channel.ChunkBody{Report: r.report(channel.Stopped)})
	r2, c := start(t, a, "bob", 1, 2)
	if got, want := fmt.Sprint(c.Resume.Frontier), fmt.Sprint(f("/c", "/d")); got != want || len(c.Resume.Done) != 3 || c.Resume.Seq != 3 {
		t.Errorf("resume: %v, %d done, seq %d, want %v", got, len(c.Resume.Done), c.Resume.Seq, want)
	}
	r2.put(channel.ChunkBody{Pages: []channel.Page{r.page("/c", long, channel.New)}})
	r2.put(channel.ChunkBody{Report: r2.report(channel.Updated)})
	// After an update there is nothing to go on from; what is stored comes along, since it can be asked for with validators.
	stored := f("/", "/a", "/c")
	for i := range stored {
		stored[i].Depth = 0
	}
	r3, c := start(t, a, "bob", 1, 3)
	if got, want := fmt.Sprint(c.Resume.Frontier), fmt.Sprint(stored); got != want || len(c.Resume.Done) != 0 {
		t.Errorf("after an update: %+v, want %s", c.Resume, want)
	}
	var plain []channel.Page // of which half have validators no more
	for _, path := range []string{"/", "/a", "/e", "/f"} {
		p := r3.page(path, long, channel.New)
		p.Header = []byte("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n")
		plain = append(plain, p)
	}
	r3.put(channel.ChunkBody{Pages: plain, Report: r3.report(channel.Updated)})
	if _, c = start(t, a, "bob", 1, 4); len(c.Resume.Done)+len(c.Resume.Frontier) != 0 {
		t.Errorf("without validators: %+v", c.Resume)
	}
}

// TestRestart closes and opens: fences, deposits, feed and pages are there, and every lease has a full term again.
func TestRestart(t *testing.T) {
	ctx := context.Background()
	cl := &clock{time.Unix(1_700_000_000, 0)}
	cfg := testConfig(t.TempDir())
	cfg.Clock, cfg.Own = cl.Now, cl.Now
	a := open(t, cfg)
	r, _ := start(t, a, "alice", 1, 1)
	r.put(channel.ChunkBody{Pages: []channel.Page{r.page("/", long, channel.New)}})
	if _, err := Open(ctx, cfg); !errors.Is(err, ErrLocked) {
		t.Errorf("opened twice: %v", err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Put(ctx, "alice", r.chunk(channel.ChunkBody{})); err == nil {
		t.Error("a closed archive took a chunk")
	}
	name := onlyFile(t, cfg.Dir)
	size := fileSize(t, name)
	appendTo(t, name, "torn record")

	cl.now = cl.now.Add(25 * time.Minute)
	a = open(t, cfg)
	r.a = a
	if got := fileSize(t, name); got != size {
		t.Errorf("a torn tail was left: %d bytes of %d", got, size)
	}
	cl.now = cl.now.Add(25 * time.Minute)
	if err := a.Expire(ctx); err != nil {
		t.Fatal(err)
	}
	r.put(channel.ChunkBody{Pages: []channel.Page{r.page("/a", "a"+long, channel.New)}})
	if got := onlyFile(t, cfg.Dir); got != name {
		t.Errorf("a new file %s was begun", got)
	}
	cl.now = cl.now.Add(30 * time.Minute)
	if err := a.Expire(ctx); err != nil {
		t.Fatal(err)
	}
	if got, want := feedOf(t, a), "claimed 1.1 alice; lapsed 1.1 alice"; got != want {
		t.Errorf("feed %q, want %q", got, want)
	}
	r.put(channel.ChunkBody{Report: r.report(channel.Updated)})
	if got, want := feedOf(t, a), "claimed 1.1 alice; lapsed 1.1 alice; reported 1.1 alice by alice"; got != want {
		t.Errorf("feed %q, want %q", got, want)
	}
	if n := scanFile(t, name); n != 5 { // warcinfo, two responses with metadata
		t.Errorf("%d records, want 5", n)
	}
}

// TestCursors reads the feed in parts, and refuses cursors of another feed or archive.
func TestCursors(t *testing.T) {
	ctx := context.Background()
	a := open(t, testConfig(t.TempDir()))
	more := a.Notify()
	for gen := range 5 {
		r, _ := start(t, a, "p", 1, channel.Gen(gen+1))
		r.put(channel.ChunkBody{Pages: []channel.Page{r.page("/x", fmt.Sprint(gen, long), channel.Changed)}, Report: r.report(channel.Updated)})
	}
	select {
	case <-more:
	default:
		t.Error("nobody rang")
	}
	var got []string
	cursor := ""
	for {
		entries, next, err := a.Feed(ctx, cursor, 3)
		if err != nil {
			t.Fatal(err)
		}
		if len(entries) == 0 {
			break
		}
		if last := entries[len(entries)-1]; last.Cursor != next {
			t.Errorf("next is %q, the last entry's cursor %q", next, last.Cursor)
		}
		for _, e := range entries {
			got = append(got, fmt.Sprintf("%v %d", e.Event.Kind, e.Gen))
		}
		cursor = next
	}
	if len(got) != 10 || got[0] != "claimed 1" || got[9] != "reported 5" {
		t.Errorf("feed in parts: %v", got)
	}
	if _, _, err := a.Changes(ctx, cursor, 3); !errors.Is(err, ErrCursor) {
		t.Errorf("a cursor of the other feed: %v", err)
	}
	b := open(t, testConfig(t.TempDir()))
	for _, c := range []string{cursor, "!", "AAAA", cursor + "AAAA"} {
		if _, _, err := b.Feed(ctx, c, 3); !errors.Is(err, ErrCursor) {
			t.Errorf("cursor %q: %v", c, err)
		}
	}
}

func onlyFile(t testing.TB, dir string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "warc", "*.warc.gz"))
	if err != nil || len(names) != 1 {
		t.Fatalf("WARC files %v, %v", names, err)
	}
	return names[0]
}

func fileSize(t testing.TB, name string) int64 {
	t.Helper()
	st, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	return st.Size()
}

func appendTo(t testing.TB, name, s string) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteString(s)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// scanFile reads a whole WARC file and counts its records.
func scanFile(t testing.TB, name string) (n int) {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s := warc.NewScanner(f)
	for s.Scan() {
		n++
	}
	if s.Err() != nil {
		t.Errorf("%s: %v", name, s.Err())
	}
	return n
}

// warcFiles are the paths of an archive's files.
func warcFiles(t testing.TB, a *Archive) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(filepath.Join(a.cfg.Dir, "warc"), "*.warc.gz"))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// sorted gives the keys of a map in order.
func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// TestValidatorsThatEndTheirLine has a page come with an ETag and a Last-Modified that hold a lone CR, which some servers take for the end of a line. No
// peer is told them: what one member sent must not write lines of another's requests.
func TestValidatorsThatEndTheirLine(t *testing.T) {
	a := open(t, testConfig(t.TempDir()))
	r, _ := start(t, a, "alice", 7, 1)
	bad := r.page("/bad", "bad "+long, channel.New)
	bad.Header = []byte("HTTP/1.1 200 OK\r\nETag: \"x\"\rX-Forged: 1\r\nLast-Modified: now\rX-Forged: 2\r\n\r\n")
	r.put(channel.ChunkBody{Pages: []channel.Page{r.page("/good", "good "+long, channel.New), bad}})
	r.put(channel.ChunkBody{Report: r.report(channel.Updated)})
	k, err := a.Known(t.Context(), 7, time.Time{})
	if err != nil || len(k.Digests) != 2 || len(k.Validators) != 1 || k.Validators[0].URL != channel.URLHash(r.url("/good")) {
		t.Errorf("validators %+v of %d pages, want those of the good one; %v", k.Validators, len(k.Digests), err)
	}
}
