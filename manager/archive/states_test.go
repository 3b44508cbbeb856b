package archive

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sort"
	"strings"
	"testing"
	"time"

	"shoal/channel"
	"shoal/manager/archive/pages"
	"shoal/manager/trust"
)

// lines says what a filter wants of the page feed, as "event path state", and of the index, as "path state".
func lines(t *testing.T, a *Archive, f Filter) (feed, index string) {
	t.Helper()
	changes, _, err := a.ChangesOf(t.Context(), "", 1000, f)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, c := range changes {
		out = append(out, strings.TrimSpace(c.Event.String()+" "+strings.TrimPrefix(c.URL, "http://site-1.example")+" "+c.State))
	}
	feed = strings.Join(out, ", ")
	out = nil
	for _, l := range strings.Split(strings.TrimSpace(cdxLines(t, a, f)), "\n") {
		if _, js, ok := strings.Cut(l, "{"); ok {
			_, url, _ := strings.Cut(js, `"url":"http://site-1.example`)
			url, _, _ = strings.Cut(url, `"`)
			_, state, _ := strings.Cut(js, `"state":"`)
			state, _, _ = strings.Cut(state, `"`)
			out = append(out, url+" "+state)
		}
	}
	sort.Strings(out)
	return feed, strings.Join(out, ", ")
}

// Feed, index and exports say how far each version is believed, leave out what was withdrawn, and take what is verified alone where that is asked for.
func TestStatesAreTold(t *testing.T) {
	a, cl, _ := strangers(t)
	suspects(t, a, cl)
	for _, c := range []struct {
		f           Filter
		feed, index string
	}{
		{Filter{}, "created / provisional, created /a provisional, created /b verified, changed / verified, changed /a provisional, created /c provisional",
			"/ provisional, / verified, / verified, /a provisional, /a provisional, /b verified, /b verified, /c provisional"},
		{Filter{Verified: true}, "verified /b verified, verified / verified", "/ verified, / verified, /b verified, /b verified"},
	} {
		if feed, index := lines(t, a, c.f); feed != c.feed || index != c.index {
			t.Errorf("%+v:\nfeed  %s\nindex %s", c.f, feed, index)
		}
	}
	if err := a.Suspend(t.Context(), trust.Peer(a.DelivererNumber("mallory"))); err != nil {
		t.Fatal(err)
	}
	if err := a.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		f           Filter
		feed, index string
	}{
		{Filter{}, "created / provisional, created /a provisional, created /b provisional, changed / verified, withdrawn /c, withdrawn /a provisional",
			"/ provisional, / verified, / verified, /a provisional, /b provisional, /b provisional"},
		{Filter{Verified: true}, "verified / verified, withdrawn /c, withdrawn /a, unverified /b", "/ verified, / verified"},
		{Filter{All: true}, "created / provisional, created /a provisional, created /b provisional, changed / verified, changed /a withdrawn, created /c withdrawn, " +
			"verified /b provisional, verified / verified, withdrawn /c, withdrawn /a provisional, unverified /b provisional",
			"/ provisional, / verified, / verified, /a provisional, /a withdrawn, /b provisional, /b provisional, /c withdrawn"},
	} {
		if feed, index := lines(t, a, c.f); feed != c.feed || index != c.index {
			t.Errorf("suspended, %+v:\nfeed  %s\nindex %s", c.f, feed, index)
		}
	}
	for f, want := range map[Filter]string{{}: "provisional verified", {Verified: true}: "verified"} {
		var out bytes.Buffer
		if _, err := a.Export(t.Context(), &out, ExportOptions{Format: FormatWARC, Filter: f}); err != nil {
			t.Fatal(err)
		}
		text := unzipped(t, out.Bytes())
		if strings.Contains(text, "forged") {
			t.Errorf("%+v: an export has what was withdrawn", f)
		}
		for _, state := range []string{"provisional", "verified", "withdrawn"} {
			if got := strings.Contains(text, "Shoal-State: "+state+"\r\n"); got != strings.Contains(want, state) {
				t.Errorf("%+v: records that are %s: %v", f, state, got)
			}
		}
	}
}

// Who reads what is verified from cursor to cursor meets each version once, after it was verified.
func TestVerifiedIsToldOnce(t *testing.T) {
	a, cl, _ := strangers(t)
	j := newJudge(t, a, false, "alice", "bob", "carol")
	cursor, seen := "", ""
	read := func() {
		t.Helper()
		changes, next, err := a.ChangesOf(t.Context(), cursor, 100, Filter{Verified: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range changes {
			content, err := a.Content(c)
			if err != nil {
				t.Fatal(err)
			}
			seen += string(content.Body[len(content.Body)-1:])
		}
		cursor = next
	}
	for i, c := range []struct{ peer, body string }{{"alice", "1"}, {"bob", "1"}, {"carol", "1"}, {"alice", "2"}, {"bob", "3"}, {"carol", "3"}, {"alice", "3"}} {
		cl.crawl(t, a, c.peer, channel.Gen(i+1), func(r *runner) []channel.Page { return []channel.Page{r.page("/", home+c.body, channel.Changed)} })
		j.deliver(cl, channel.Gen(i+1))
		read()
	}
	if seen != "13" {
		t.Errorf("verified versions %s", seen)
	}
}

// A version keeps its state when its page's record has no more room for it.
func TestStatesOutliveRecords(t *testing.T) {
	a, cl, _ := strangers(t)
	j := newJudge(t, a, false, "alice", "bob")
	gen := channel.Gen(0)
	for _, body := range []string{"1", "2", "3", "4"} {
		for _, peer := range []string{"alice", "bob"} {
			gen++
			cl.crawl(t, a, peer, gen, func(r *runner) []channel.Page { return []channel.Page{r.page("/", home+body, channel.Changed)} })
			j.deliver(cl, gen)
		}
	}
	_, index := lines(t, a, Filter{})
	if n := strings.Count(index, "verified"); n != 8 { // of each version, what was delivered first, and what confirmed it
		t.Errorf("%s", index)
	}
}

// A visit that repeats what the page had shown all the time is believed as that is, when the page's record has forgotten it and what was withdrawn in between.
func TestRepetitionsOutliveRecords(t *testing.T) {
	a, cl, _ := strangers(t)
	j := newJudge(t, a, false, "alice", "bob", "mallory")
	gen := channel.Gen(0)
	visit := func(peer, body string) {
		gen++
		cl.crawl(t, a, peer, gen, func(r *runner) []channel.Page { return []channel.Page{r.page("/", home+body, channel.Changed)} })
		j.deliver(cl, gen)
	}
	visit("alice", "1")
	visit("bob", "1")
	visit("mallory", "forged")
	if _, err := a.Review(t.Context(), 1, func(g *trust.Page) bool {
		g.Cur.State, g.Cur.Doubt = trust.Withdrawn, true // as a ruling does
		return true
	}); err != nil {
		t.Fatal(err)
	}
	visit("bob", "forged") // which is contested, as it was withdrawn before
	visit("alice", "1")
	for _, body := range []string{"2", "3", "4"} {
		visit("alice", body)
		visit("bob", body)
	}
	var states []string
	for _, l := range strings.Split(strings.TrimSpace(cdxLines(t, a, Filter{All: true})), "\n") {
		_, state, _ := strings.Cut(l, `"state":"`)
		state, _, _ = strings.Cut(state, `"`)
		states = append(states, state)
	}
	if got, want := strings.Join(states, " "), "verified verified withdrawn provisional verified"+strings.Repeat(" verified", 6); got != want {
		t.Errorf("captures are %s; want %s", got, want)
	}
}

// A page says over HTTP how far it is believed.
func TestPageSaysItsState(t *testing.T) {
	a, cl, _ := strangers(t)
	suspects(t, a, cl)
	h := a.Handler()
	for path, want := range map[string]string{"/": "verified", "/a": "provisional"} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/page?url=http://site-1.example"+path, nil))
		if got := w.Header().Get("Shoal-State"); w.Code != http.StatusOK || got != want {
			t.Errorf("%s: %d, %q", path, w.Code, got)
		}
		if p, err := a.Page(t.Context(), "http://site-1.example"+path); err != nil || p.State != want {
			t.Errorf("%s: %q, %v", path, p.State, err)
		}
	}
	if c, err := a.Get(t.Context(), "http://site-1.example/a", time.Time{}); err != nil || c.State != "provisional" {
		t.Errorf("%q, %v", c.State, err)
	}
}

// A peer is told digests and validators only of what another account in another network saw alike, whatever a forger says.
func TestOnlyVerifiedDigestsAreTold(t *testing.T) {
	a, cl, _ := strangers(t)
	suspects(t, a, cl)
	known := func() (out []string) {
		t.Helper()
		k, err := a.Known(t.Context(), 1, time.Time{})
		if err != nil || len(k.Digests) != len(k.Validators) {
			t.Fatalf("%+v, %v", k, err)
		}
		for _, d := range k.Digests {
			for _, path := range []string{"/", "/a", "/b", "/c"} {
				if channel.URLHash("http://site-1.example"+path) == d.URL {
					out = append(out, path)
				}
			}
		}
		sort.Strings(out)
		return out
	}
	if got := strings.Join(known(), " "); got != "/ /b" {
		t.Errorf("told of %s", got)
	}
	// A 304 names no digest: whoever says so confirms nothing.
	cl.crawl(t, a, "bob", 4, func(r *runner) []channel.Page {
		return []channel.Page{{URL: r.url("/a"), Status: 304, Change: channel.Unchanged, Digest: channel.ContentDigest([]byte(forge)), Fetched: cl.now}}
	})
	d, err := a.Delivery(t.Context(), 1, 4)
	if err != nil || len(d.Pages) != 1 || d.Pages[0].Digest != 0 || d.Pages[0].Record.Cur.State != trust.Provisional {
		t.Errorf("%+v, %v", d.Pages, err)
	}
	if err := a.Suspend(t.Context(), trust.Peer(a.DelivererNumber("mallory"))); err != nil {
		t.Fatal(err)
	}
	if err := a.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(known(), " "); got != "/" {
		t.Errorf("after the suspension told of %s", got)
	}
	k, err := a.Known(t.Context(), 1, cl.now.Add(-time.Hour))
	if err != nil || len(k.Missed) == 0 || k.Missed[0] != "http://site-1.example/c" {
		t.Errorf("what is not shown any more is not crawled again: %v, %v", k.Missed, err)
	}
}

// What pages are shown as is counted.
func TestCensus(t *testing.T) {
	a, cl, _ := strangers(t)
	suspects(t, a, cl)
	if c, err := a.Census(t.Context()); err != nil || c != (pages.Census{Provisional: 2, Verified: 2, At: cl.now}) {
		t.Errorf("%+v, %v", c, err)
	}
	if err := a.Suspend(t.Context(), trust.Peer(a.DelivererNumber("mallory"))); err != nil {
		t.Fatal(err)
	}
	if err := a.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c, err := a.Census(t.Context()); err != nil || c != (pages.Census{Provisional: 2, Verified: 1, Withdrawn: 1, Held: 1, At: cl.now}) {
		t.Errorf("%+v, %v", c, err)
	}
	if s := a.Stats(); s.Provisional != 2 || s.Verified != 1 || s.Withdrawn != 1 {
		t.Errorf("%+v", s)
	}
}

// Pages that were taken back are not counted as stored for another minute.
func TestCensusAfterAPurge(t *testing.T) {
	a, cl, _ := strangers(t)
	suspects(t, a, cl)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = a.Run(ctx) }()
	defer func() { stop(); <-ended }()
	if _, err := a.Census(ctx); err != nil {
		t.Fatal(err)
	}
	if n := a.Stats().Provisional; n != 2 {
		t.Fatalf("%d provisional", n)
	}
	hosts, err := channel.ParseHosts("site-1.example")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Purge(ctx, hosts); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(50 * time.Second); a.Stats().Provisional+a.Stats().Verified > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) { // a minute is how often pages are counted anyway
			t.Fatalf("after the purge %+v", a.Stats())
		}
	}
}

// A channel says of each deliverer how many of its pages are verified.
func TestVerifiedByDeliverer(t *testing.T) {
	a, cl, _ := strangers(t)
	suspects(t, a, cl)
	all, err := a.Credits(t.Context(), 1, 10)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, c := range all {
		got[c.Peer] = fmt.Sprintf("%d of %d", c.Verified, c.Pages)
	}
	if fmt.Sprint(got) != "map[alice:1 of 1 mallory:1 of 3]" {
		t.Error(got)
	}
}

// Who follows what is verified is told where the version that it holds is held, though the page shows a later one that nobody else has seen, and once.
func TestUnverifiedBehindAnother(t *testing.T) {
	a, cl, _ := strangers(t)
	j := newJudge(t, a, false, "alice", "bob", "mallory")
	for i, c := range []struct{ peer, body string }{{"alice", "1"}, {"bob", "1"}, {"mallory", "2"}} {
		cl.crawl(t, a, c.peer, channel.Gen(i+1), func(r *runner) []channel.Page { return []channel.Page{r.page("/", home+c.body, channel.Changed)} })
		j.deliver(cl, channel.Gen(i+1))
	}
	if feed, _ := lines(t, a, Filter{Verified: true}); feed != "verified / verified" {
		t.Fatal(feed)
	}
	for range 2 {
		if _, err := a.Review(t.Context(), 1, func(g *trust.Page) bool { g.Prev.State = trust.Held; return true }); err != nil {
			t.Fatal(err)
		}
	}
	if feed, _ := lines(t, a, Filter{Verified: true}); feed != "unverified /" {
		t.Errorf("%q", feed)
	}
	if feed, _ := lines(t, a, Filter{}); strings.Contains(feed, "unverified") {
		t.Errorf("who takes what is shown is told %q", feed)
	}
}
