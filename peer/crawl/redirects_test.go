package crawl

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	"shoal/channel"
)

// TestRedirectsThatLeadNowhere are pages, as in browsers: body and status are kept, and links are followed. Those without a body say nothing, and
// none of them ends a crawl.
func TestRedirectsThatLeadNowhere(t *testing.T) {
	const body = `<title>choices</title><a href="/next">next</a>`
	for _, c := range []struct {
		status         int
		location, body string
		kept           bool
		counted        string
	}{
		{300, "", body, true, ""}, {300, "http://[", body, true, ""}, {300, "/to", body, false, ""}, {300, "", "", false, "bad-redirect"},
		{305, "http://proxy.test/", body, true, ""}, {306, "/to", body, true, ""}, {305, "", "", false, "bad-redirect"}, {310, "", body, true, ""},
		{301, "", body, true, "bad-redirect"}, {302, "http://[", body, true, "bad-redirect"}, {303, "javascript:x", body, true, "bad-redirect"},
		{307, "mailto:a@b.test", body, true, "bad-redirect"}, {308, "", body, true, "bad-redirect"}, {302, "", "", false, "bad-redirect"},
		{302, "/to", body, false, ""}, {308, "/to", body, false, ""},
	} {
		t.Run(fmt.Sprint(c.status, c.location, len(c.body)), func(t *testing.T) {
			mux := http.NewServeMux()
			mux.Handle("/", http.NotFoundHandler())
			mux.Handle("/to", hypertext("to"))
			mux.Handle("/next", hypertext("next"))
			mux.Handle("/other", hypertext("other"))
			mux.HandleFunc("/{$}", func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/html")
				if c.location != "" {
					w.Header()["Location"] = []string{c.location}
				}
				w.WriteHeader(c.status)
				fmt.Fprint(w, c.body)
			})
			cfg, s := task(t, mux)
			cfg.Body.Seeds = append(cfg.Body.Seeds, "http://site.test/other")
			r := run(t, cfg)
			i := slices.IndexFunc(s.pages(), func(p channel.Page) bool { return p.URL == "http://site.test/" })
			p := s.pages()[i]
			if got := string(p.Body); p.Status != c.status || (got == c.body && got != "") != c.kept || r.Errors["bad-redirect"] != len(c.counted)/len("bad-redirect") {
				t.Errorf("status %d, %q, %v", p.Status, got, r.Errors)
			}
			if c.kept && (p.Change != channel.New || p.Digest != channel.ContentDigest(p.Body) || !slices.Contains(s.urls(), "http://site.test/next")) {
				t.Errorf("change %d, digest %x, fetched %q", p.Change, p.Digest, s.urls())
			}
			if to := slices.Contains(s.urls(), "http://site.test/to"); r.Outcome != channel.Updated || to != (c.location == "/to" && c.status != 306) {
				t.Errorf("outcome %d, target fetched %v", r.Outcome, to)
			}
		})
	}
}
