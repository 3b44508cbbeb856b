package crawl

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"shoal/channel"
)

// redirect puts the target on the to-do list. The target counts as the page's content.
func (s *session) redirect(r *response, p *channel.Page) error {
	to, err := location(r)
	if err != nil {
		s.count("bad-redirect")
		p.Error, p.Change = "bad-redirect: "+err.Error(), channel.Errored
		return nil
	}
	p.Digest = channel.ContentDigest(s.own().Header([]byte(to)))
	p.Change = s.known.change(r.it.hash, p.Digest)
	p.Links = []string{to}
	if r.it.hops >= MaxRedirects {
		s.count("redirects")
		p.Error, p.Change = "redirects: more than 10 in a chain", channel.Errored
		return nil
	}
	return s.follow(to, r.it.depth, r.it.hops+1)
}

// location resolves a redirect's target. As in browsers the first field counts that says something.
func location(r *response) (string, error) {
	for _, to := range r.header.Values("Location") {
		if to != "" {
			return channel.Resolve(r.it.url, escaped(to))
		}
	}
	return "", fmt.Errorf("crawl: redirect without Location")
}

// withRefresh adds the URL to which a header sends browsers on, as a <meta> of that name does.
func withRefresh(links []string, r *response) []string {
	to := refreshTarget(r.header.Get("Refresh"))
	if to == "" || len(links) >= channel.MaxPageLinks {
		return links
	}
	u, err := channel.Resolve(r.it.url, escaped(to))
	if u = withoutSession(u); err != nil || slices.Contains(links, u) {
		return links
	}
	return append(links, u)
}

// escaped percent-encodes the octets beyond ASCII if a text is not UTF-8, as browsers do before they follow it.
func escaped(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for i := range len(s) {
		if s[i] < utf8.RuneSelf {
			b.WriteByte(s[i])
		} else {
			fmt.Fprintf(&b, "%%%02X", s[i])
		}
	}
	return b.String()
}
