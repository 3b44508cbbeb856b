package archive

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"shoal/channel"
	"shoal/manager/archive/pages"
	"shoal/peer/crawl"
)

// TestTextOnlySwitched has a channel keep pages as they come, then their text alone, then all again, of a host whose pages never change. Every capture has the type of what is
// stored, and the second crawl after a change of the setting brings what it asks for.
func TestTextOnlySwitched(t *testing.T) {
	t.Parallel()
	for _, validators := range []bool{false, true} {
		host := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/":
				w.Header().Set("Content-Type", "text/html; charset=utf-8")
			case "/plain":
				w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			default:
				http.NotFound(w, r)
				return
			}
			if validators {
				w.Header().Set("ETag", `"1"`)
				if r.Header.Get("If-None-Match") != "" {
					w.WriteHeader(http.StatusNotModified)
					return
				}
			}
			fmt.Fprint(w, "<html><a href=/plain>Words of ", r.URL.Path, "</a>", strings.Repeat("<p>of a page", 20))
		}))
		defer host.Close()
		cl := &clock{time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)}
		cfg := testConfig(t.TempDir())
		cfg.Clock = cl.Now
		a := open(t, cfg)
		for gen := channel.Gen(1); gen <= 9; gen++ {
			task := crawl.Config{Header: channel.Header{Channel: 1, Gen: gen, Host: "http://site.example"}}
			task.Body.Settings.TextOnly = gen > 3 && gen <= 6
			crawlInto(t, a, cl, task, host.Listener.Addr().String())
			for path, text := range map[string]bool{"/": gen > 4 && gen <= 7, "/plain": false} {
				c, err := a.Get(t.Context(), "http://site.example"+path, time.Time{})
				if err != nil {
					t.Fatal(err)
				}
				want := "text/html"
				if text || path == "/plain" {
					want = "text/plain"
				}
				if strings.Contains(string(c.Body), "<p>") == text || c.Mime != want || pages.MediaType(c.Header) != want {
					t.Errorf("validators %v, crawl %d: %s is %.30q, its type %q, its header %q", validators, gen, path, c.Body, c.Mime, c.Header)
				}
			}
		}
		entries, _, err := a.Feed(t.Context(), "", MaxFeed)
		if err != nil {
			t.Fatal(err)
		}
		reports := 0
		for _, e := range entries {
			if e.Report == nil {
				continue
			}
			reports++
			if e.Report.Outcome != channel.Updated || e.Report.Pages != 2 { // peers do what the tasks say, and none is to blame
				t.Errorf("validators %v: crawl %d is told as %v, %d pages: %s", validators, e.Gen, e.Report.Outcome, e.Report.Pages, e.Report.Reason)
			}
		}
		if reports != 9 {
			t.Errorf("validators %v: %d reports", validators, reports)
		}
		if n := len(indexed(t, a)); n != 9+9-2 {
			t.Errorf("validators %v: %d captures: only the crawls after a change of the setting say nothing of the page", validators, n)
		}
		clean(t, a)
		everythingReplays(t, a)
	}
}
