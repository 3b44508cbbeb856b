package archive

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"shoal/channel"
	"shoal/manager/trust"
)

// textOf is a page of which each fetch differs in one word, and its fingerprint.
func textOf(about string, fetch int) (string, uint64) {
	words := make([]string, 400)
	for i := range words {
		words[i] = fmt.Sprint(about, i)
	}
	words[7] = fmt.Sprint("fetch", fetch)
	text := strings.Join(words, " ")
	return text, fingerprintOf("", "", []byte(text))
}

func fingerprintOf(_, _ string, body []byte) uint64 {
	var s channel.Shingler
	s.Add(body)
	return s.Sum()
}

// TestForgedFingerprint has a page that differs at each fetch, as the archive knows. It changes, and the first who says so sends a forgery with the
// fingerprint of the true text. Three honest visits see nearly the text of that fingerprint: they must not confirm the forgery.
func TestForgedFingerprint(t *testing.T) {
	cfg := testConfig(t.TempDir())
	cl := &clock{now: time.Now().Truncate(time.Microsecond)}
	cfg.AccountOf, cfg.Clock, cfg.Fingerprint = nil, cl.Now, fingerprintOf
	a := open(t, cfg)
	j := newJudge(t, a, true, "alice", "bob", "carol", "dave", "mallory")
	gen := channel.Gen(0)
	visit := func(peer, body string, told uint64) {
		t.Helper()
		gen++
		cl.crawl(t, a, peer, gen, func(r *runner) []channel.Page {
			p := r.page("/", body, channel.Changed)
			p.Shingle = told
			return []channel.Page{p}
		})
		j.deliver(cl, gen)
	}
	honest := func(peer, about string) {
		t.Helper()
		text, told := textOf(about, int(gen))
		visit(peer, text, told)
	}
	for _, peer := range []string{"alice", "bob", "carol", "dave", "alice"} {
		honest(peer, "old")
	}
	_, told := textOf("new", 1000)
	lie := strings.Repeat("buy this now ", 200)
	visit("mallory", lie, told)
	for _, peer := range []string{"bob", "carol", "dave", "alice"} {
		honest(peer, "new")
	}
	d, err := a.Record(t.Context(), 1, channel.URLHash("http://site-1.example/"))
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []trust.Version{d.Record.Cur, d.Record.Prev} {
		if v.Digest == channel.ContentDigest([]byte(lie)) && (v.State == trust.Verified || v.Seen() > 0) {
			t.Errorf("%d honest visits confirmed a forgery, which is %v", v.Seen(), v.State)
		}
	}
	if d.Record.Cur.State != trust.Verified || d.Record.Cur.By == trust.Peer(a.DelivererNumber("mallory")) {
		t.Errorf("the true text is %v", d.Record.Cur.State)
	}
}

// TestNearIsComputed has a rewritten page come with the fingerprint of the text before, and another that is said to be nearly unchanged. Both are changes.
func TestNearIsComputed(t *testing.T) {
	cfg := testConfig(t.TempDir())
	cfg.Fingerprint = fingerprintOf
	a := open(t, cfg)
	old, told := textOf("old", 1)
	for gen, change := range []channel.Change{channel.New, channel.Changed, channel.NearUnchanged} {
		r, _ := start(t, a, "alice", 1, channel.Gen(gen+1))
		p := r.page("/", old, change)
		if gen > 0 {
			p.Body = []byte(strings.Repeat(fmt.Sprint("other ", gen, " "), 400))
			p.Digest = channel.ContentDigest(p.Body)
		}
		p.Shingle = told
		r.put(channel.ChunkBody{Pages: []channel.Page{p}, Report: r.report(channel.Updated)})
	}
	changes, _, err := a.Changes(t.Context(), "", MaxFeed)
	if err != nil || len(changes) != 3 || changes[1].Near || changes[2].Near {
		t.Errorf("changes %+v, %v", changes, err)
	}
}
