package crawl

import (
	"slices"
	"testing"
	"time"
)

// TestRefreshes are the forms of <meta http-equiv=refresh>, and what a link's rel says of it.
func TestRefreshes(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"0;url=/r", "/r"}, {"5; URL='/r'", "/r"}, {"0,/r", "/r"}, {"0;/r", "/r"}, {"0 url = /r?a=b", "/r?a=b"}, {"10", ""}, {"0;url=/r?x=1;y=2", "/r?x=1;y=2"},
		{`0;url="/r" x`, "/r"}, {"url=/r", ""}, {"0;urls/", "urls/"}, {" 1.5 ; url = /r ", "/r"}, {"5x;/r", ""}, {"", ""}, {"0;", ""}, {"0;url", "url"}, {"0;url=", ""},
	} {
		if got := refreshTarget(c.in); got != c.want {
			t.Errorf("refresh %q: %q, want %q", c.in, got, c.want)
		}
	}
	for _, c := range []struct {
		html    string
		links   []string
		skipped int
	}{
		{"<a href=/a rel=\"external\tnofollow\">", nil, 1}, {"<a href=/a rel='x\nNOFOLLOW\ny'>", nil, 1}, {"<a href=/a rel=nofollows>", []string{"http://h.test/a"}, 0},
		{"<a href=/a href=/b>", []string{"http://h.test/a"}, 0}, {`<a href="/p?id=1&lang=en&section=4&page=2">`, []string{"http://h.test/p?id=1&lang=en&section=4&page=2"}, 0},
		{"<meta http-equiv=refresh content='0; /next'>", []string{"http://h.test/next"}, 0},
	} {
		var p page
		p.read("http://h.test/", []byte(c.html), "text/html", "shoal", false)
		if !slices.Equal(p.links, c.links) || p.skipped != c.skipped {
			t.Errorf("%s: %q, %d skipped", c.html, p.links, p.skipped)
		}
	}
}

// TestMomentsOfZones reads times as they are written, and takes what names no zone that is known for a time of any.
func TestMomentsOfZones(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, c := range []struct {
		text       string
		from, to   time.Duration // from at
		understood bool
	}{
		{"2026-01-02T03:04:05Z", 0, 0, true}, {"2026-01-02T04:04:05+0100", 0, 0, true}, {"Fri, 02 Jan 26 03:04:05 GMT", 0, 0, true}, {"Fri, 02 Jan 2026 03:04:05 UT", 0, 0, true},
		{"Fri, 02 Jan 2026 03:04:05 UTC", 0, 0, true}, {"Fri, 02 Jan 2026 05:04:05 +0200", 0, 0, true}, {"Fri, 02 Jan 2026 03:04:05 XYZ", -anywhere, anywhere, true},
		{"2026-01-02 03:04:05", -anywhere, anywhere, true}, {"2026-01-02T03:04:05", -anywhere, anywhere, true}, {"yesterday", 0, 0, false},
	} {
		m := momentOf(c.text)
		if c.understood == m.from.IsZero() || c.understood && (!m.from.Equal(at.Add(c.from)) || !m.to.Equal(at.Add(c.to))) {
			t.Errorf("%s: %v to %v", c.text, m.from, m.to)
		}
	}
}
