package pages

import (
	"testing"

	"shoal/channel"
)

// TestLeadsTo: a redirect leads to its Location. What has a body, or says no Location, leads nowhere: two versions of it differ by their content.
func TestLeadsTo(t *testing.T) {
	for _, c := range []struct {
		status               int
		location, body, want string
	}{
		{301, "/to", "", "http://a.test/to"}, {300, "http://b.test", "", "http://b.test/"}, {302, "http://[", "", ""}, {302, "mailto:a@b.test", "", ""},
		{300, "", "choices", ""}, {301, "", "", ""}, {305, "http://proxy.test/", "no proxy", ""}, {200, "/to", "page", ""}, {404, "/to", "", ""},
	} {
		p := channel.Page{URL: "http://a.test/d/p", Status: c.status, Header: []byte("HTTP/1.1 300 \r\nX: y\r\n\r\n"), Body: []byte(c.body)}
		if c.location != "" {
			p.Header = []byte("HTTP/1.1 300 \r\nLocation: " + c.location + "\r\n\r\n")
		}
		if got := leadsTo(&p); got != c.want {
			t.Errorf("%d, %q, %q: %q, want %q", c.status, c.location, c.body, got, c.want)
		}
		if v := versionDigest(&p, 7); (v == 7) != (c.want == "") {
			t.Errorf("%d, %q, %q: digest %x", c.status, c.location, c.body, v)
		}
	}
}
