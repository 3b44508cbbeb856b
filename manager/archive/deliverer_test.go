package archive

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shoal/channel"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/pages"
	"shoal/manager/trust"
)

// delivered fills an archive with what three peers delivered. Mallory's page shows an address; carol's copy of the same page, and her word that another is
// unchanged, lean on it.
func delivered(t *testing.T, a *Archive, cl *clock) {
	cl.crawl(t, a, "alice", 1, func(r *runner) []channel.Page {
		return []channel.Page{r.page("/", home, channel.New), r.page("/news", news, channel.New)}
	})
	cl.crawl(t, a, "mallory", 2, func(r *runner) []channel.Page {
		p := r.page("/echo", "you come from 192.0.2.7, and this is "+long, channel.New)
		p.ShowsVisitor = true
		return []channel.Page{p, r.page("/news", forge, channel.Changed)}
	})
	cl.crawl(t, a, "carol", 3, func(r *runner) []channel.Page {
		return []channel.Page{
			{URL: r.url("/echo"), Status: 304, Change: channel.Unchanged, Fetched: cl.now},
			r.page("/echo-too", "you come from 192.0.2.7, and this is "+long, channel.New),
		}
	})
}

// lines are the lines of the CDX index that a filter wants, each as URL, deliverer and whether it shows a visitor.
func cdxLines(t *testing.T, a *Archive, f Filter) string {
	t.Helper()
	var out bytes.Buffer
	if err := a.CDXJ(t.Context(), &out, pages.Index{Filter: f}); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// Feed, index, pages and exports say who delivered what, and can be narrowed to it.
func TestDelivererIsShown(t *testing.T) {
	a, cl, _ := strangers(t)
	delivered(t, a, cl)
	name := func(peer string) string { return ledger.DelivererName(a.DelivererNumber(peer)) }
	for _, nobody := range []string{"d-000000000001", "d-1", "eve"} { // well-formed or not
		if _, _, err := a.ChangesOf(t.Context(), "", 100, Filter{Deliverer: nobody}); !errors.Is(err, pages.ErrDeliverer) {
			t.Errorf("changes by %s: %v", nobody, err)
		}
		if err := a.CDXJ(t.Context(), io.Discard, pages.Index{Filter: Filter{Deliverer: nobody}}); !errors.Is(err, pages.ErrDeliverer) {
			t.Errorf("the index of %s: %v", nobody, err)
		}
	}
	for _, c := range []struct {
		f           Filter
		feed, index int
	}{
		{Filter{}, 5, 6}, {Filter{Deliverer: "alice"}, 2, 2}, {Filter{Deliverer: "mallory"}, 2, 2}, {Filter{Deliverer: name("carol")}, 1, 2},
		{Filter{WithoutVisitors: true}, 3, 3}, {Filter{Deliverer: "mallory", WithoutVisitors: true}, 1, 1},
	} {
		changes, next, err := a.ChangesOf(t.Context(), "", 100, c.f)
		if err != nil || len(changes) != c.feed {
			t.Errorf("%+v: %d changes, want %d, %v", c.f, len(changes), c.feed, err)
		}
		if more, _, err := a.ChangesOf(t.Context(), next, 100, c.f); err != nil || len(more) > 0 {
			t.Errorf("%+v: behind its own cursor there are %d changes more, %v", c.f, len(more), err)
		}
		for _, ch := range changes {
			l, err := a.Line(ch, false, false)
			if err != nil || l.Deliverer == "" || l.ShowsVisitor != strings.Contains(ch.URL, "echo") {
				t.Errorf("%+v: %+v, %v", c.f, l, err)
			}
		}
		if got := strings.Count(cdxLines(t, a, c.f), "\n"); got != c.index {
			t.Errorf("%+v: %d lines of the index, want %d", c.f, got, c.index)
		}
	}
	// one by one, each from the cursor of the one before
	var one []string
	for cursor := ""; ; {
		changes, next, err := a.ChangesOf(t.Context(), cursor, 1, Filter{WithoutVisitors: true})
		if err != nil {
			t.Fatal(err)
		}
		if len(changes) == 0 {
			break
		}
		one, cursor = append(one, changes[0].URL), next
	}
	if got := strings.Join(one, " "); got != "http://site-1.example/ http://site-1.example/news http://site-1.example/news" {
		t.Errorf("one by one: %s", got)
	}
	if _, _, err := a.ChangesOf(t.Context(), "", 1, Filter{Deliverer: "nobody"}); !errors.Is(err, ErrDeliverer) {
		t.Errorf("of one who never was: %v", err)
	}
	if index := cdxLines(t, a, Filter{Deliverer: "carol"}); strings.Count(index, `"deliverer":"`+name("carol")+`","shows_visitor":true`) != 2 {
		t.Errorf("carol's captures in the index:\n%s", index)
	}
	if c, err := a.Get(t.Context(), "http://site-1.example/echo", time.Time{}); err != nil || c.Deliverer != name("carol") || !c.ShowsVisitor {
		t.Errorf("the page: %s, shows %v, %v", c.Deliverer, c.ShowsVisitor, err)
	}
	if c, err := a.Get(t.Context(), "http://site-1.example/", time.Time{}); err != nil || c.Deliverer != name("alice") || c.ShowsVisitor {
		t.Errorf("alice's page: %s, shows %v, %v", c.Deliverer, c.ShowsVisitor, err)
	}
	for format, want := range map[Format]string{FormatWARC: "Shoal-Deliverer: " + name("mallory") + "\r\n", FormatJSON: `"deliverer":"` + name("mallory")} {
		for _, without := range []bool{false, true} {
			var out bytes.Buffer
			if _, err := a.Export(t.Context(), &out, ExportOptions{Format: format, Body: true, Filter: Filter{WithoutVisitors: without}}); err != nil {
				t.Fatal(err)
			}
			text := out.String()
			if format == FormatWARC {
				text = unzipped(t, out.Bytes())
			}
			if !strings.Contains(text, want) || strings.Contains(text, "Shoal-Shows-Visitor: true\r\n") != (format == FormatWARC && !without) || strings.Contains(text, "/echo") == without {
				t.Errorf("%s without visitors %v:\n%s", format, without, text)
			}
		}
	}
}

func unzipped(t *testing.T, b []byte) string {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The marks are in the WARC files: an archive that is made anew from them still names who delivered, and what they delivered can still be taken back.
func TestDelivererOutlivesTheDatabase(t *testing.T) {
	a, cl, cfg := strangers(t)
	delivered(t, a, cl)
	mallory, before := ledger.DelivererName(a.DelivererNumber("mallory")), cdxLines(t, a, Filter{WithoutVisitors: true})
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(cfg.Dir, "state", "MANIFEST"), []byte("broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Rebuild(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	a = open(t, cfg)
	if after := cdxLines(t, a, Filter{WithoutVisitors: true}); after != before {
		t.Errorf("the index was\n%s and is\n%s", before, after)
	}
	if out, err := a.Withdraw(t.Context(), mallory); err != nil || out.Captures != 3 { // two, and carol's word for one of them
		t.Errorf("%+v, %v", out, err)
	}
	if got := shown(t, a, "http://site-1.example/news"); got != news {
		t.Errorf("after the purge it shows %q", got)
	}
	changes, _, err := a.Changes(t.Context(), "", 100)
	if err != nil {
		t.Fatal(err)
	}
	withdrawn := 0
	for _, c := range changes {
		if c.Event == pages.Withdrawn {
			withdrawn++
		}
	}
	if withdrawn != 2 {
		t.Errorf("%d pages are told as withdrawn, want 2", withdrawn)
	}
}

// Who has a version that is withdrawn is told so, also if the filter leaves out what the page shows instead. That a page is gone is told whatever the answer shows.
func TestFiltersTellWhatIsWithdrawn(t *testing.T) {
	a, cl, _ := strangers(t)
	cl.crawl(t, a, "alice", 1, func(r *runner) []channel.Page {
		p := r.page("/", home, channel.New)
		p.ShowsVisitor = true
		return []channel.Page{p, r.page("/goes", news, channel.New)}
	})
	cl.crawl(t, a, "mallory", 2, func(r *runner) []channel.Page { return []channel.Page{r.page("/", forge, channel.Changed)} })
	gone := func(r *runner) []channel.Page {
		return []channel.Page{{URL: r.url("/goes"), Status: 404, Change: channel.Gone, Fetched: cl.now, Header: []byte("HTTP/1.1 404 Not Found\r\n\r\n"), Body: []byte("nothing here for you"), ShowsVisitor: true}}
	}
	cl.crawl(t, a, "bob", 3, gone)
	cl.crawl(t, a, "carol", 4, gone)
	if err := a.Suspend(t.Context(), trust.Peer(a.DelivererNumber("mallory"))); err != nil {
		t.Fatal(err)
	}
	if err := a.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	for want, f := range map[string]Filter{
		"created /, created /goes, gone /goes, withdrawn / by alice": {},
		"withdrawn /":                            {Deliverer: "mallory"},
		"created /goes, gone /goes, withdrawn /": {WithoutVisitors: true},
	} {
		changes, _, err := a.ChangesOf(t.Context(), "", 100, f)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, c := range changes {
			line := c.Event.String() + strings.TrimPrefix(c.URL, "http://site-1.example")
			if c.Event == pages.Withdrawn && c.Deliverer == ledger.DelivererName(a.DelivererNumber("alice")) {
				line += " by alice"
			}
			if f != (Filter{}) && c.Event == pages.Withdrawn && (c.ShowsVisitor || c.Digest != 0 || c.Deliverer != "") {
				t.Errorf("%+v tells what is not wanted: %+v", f, c)
			}
			got = append(got, strings.Replace(line, "/", " /", 1))
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%+v: %v, want %s", f, got, want)
		}
	}
}
