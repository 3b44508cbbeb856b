package crawl

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"unicode/utf8"

	"shoal/channel"
)

var errNoLocation = errors.New("crawl: redirect without Location")

// redirect puts the target on the to-do list. The target counts as the page's content.
func (s *session) redirect(r *response, p *channel.Page) error {
	to, err := location(r)
	if err != nil {
		s.noteBadRedirect(p, err)
		p.Change = channel.Errored
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

// noteBadRedirect notes that a redirect leads nowhere.
func (s *session) noteBadRedirect(p *channel.Page, err error) {
	s.count("bad-redirect")
	p.Error = "bad-redirect: " + err.Error()
}

// hasBody reports whether the body of a response is of interest. The body of a refusal is: it may be a challenge. So is that of a redirect which
// leads nowhere, or of 300, which may list what there is to choose from: browsers show it.
func hasBody(r *response) bool {
	switch {
	case r.status >= 200 && r.status < 300, r.status == http.StatusForbidden, r.status == http.StatusTooManyRequests, r.status == http.StatusServiceUnavailable:
		return true
	case r.status < 300 || r.status >= 400 || r.status == http.StatusNotModified:
		return false
	}
	_, err := location(r)
	return err != nil
}

// mustRedirect reports whether a status says nothing but that the page is elsewhere.
func mustRedirect(status int) bool {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return false
}

// location resolves a redirect's target. As in browsers the first field counts that says something. With 305 the field names a proxy, and 306 is not
// used any more (RFC 9110, sections 15.4.6 and 15.4.7): neither leads anywhere.
func location(r *response) (string, error) {
	if r.status == http.StatusUseProxy || r.status == 306 {
		return "", fmt.Errorf("crawl: status %d is no redirect", r.status)
	}
	for _, to := range r.header.Values("Location") {
		if to != "" {
			return channel.Resolve(r.it.url, escaped(to))
		}
	}
	return "", errNoLocation
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
