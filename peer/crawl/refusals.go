package crawl

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
)

// refusals watches whether a host refuses us: by challenges, or by many 401, 403 and 429 among the last responses. Owned by the session.
type refusals struct {
	last    [20]bool
	n       int
	refused int
}

// A host refuses us if, among the last 20 responses, there are
const (
	refusedAtLeast = 5 // so many refusals at least,
	refusedShare   = 2 // and one in so many is one
)

// note counts a response. It returns the reason if the host refuses us.
func (f *refusals) note(r *response) (why string) {
	if r.err == nil && challenge(r) {
		return "the host answers with a challenge page"
	}
	if r.status == 0 {
		return ""
	}
	i := f.n % len(f.last)
	if f.n >= len(f.last) && f.last[i] {
		f.refused--
	}
	bad := r.status == http.StatusUnauthorized || r.status == http.StatusForbidden || r.status == http.StatusTooManyRequests
	f.last[i] = bad
	f.n++
	if bad {
		f.refused++
	}
	if bad && f.refused >= refusedAtLeast && f.refused*refusedShare >= min(f.n, len(f.last)) {
		return fmt.Sprintf("the host refuses most requests, the last with status %d", r.status)
	}
	return ""
}

var challengeMarks = [][]byte{
	[]byte("/cdn-cgi/challenge-platform/"), []byte("_cf_chl_opt"), []byte("cf-browser-verification"), []byte("/_Incapsula_Resource"),
	[]byte("captcha-delivery.com"), []byte("px-captcha"), []byte("awsWafCookieDomainList"), []byte("challenges.cloudflare.com"),
	[]byte("Anubis_challenge"), []byte("anubis_challenge"), []byte("sgcaptcha"), []byte("ddos-guard"),
}

// challenge recognises a page that wants to see a browser, or a human, before it shows its content.
func challenge(r *response) bool {
	h := r.header
	if strings.EqualFold(h.Get("Cf-Mitigated"), "challenge") || h.Get("X-Amzn-Waf-Action") != "" || h.Get("X-Datadome-Cid") != "" && r.status == 403 ||
		h.Get("Sg-Captcha") != "" {
		return true
	}
	// Marks count only if nothing else is on the page: a form on an ordinary page may hold one too.
	refused := r.status == http.StatusForbidden || r.status == http.StatusTooManyRequests || r.status == http.StatusServiceUnavailable
	if len(r.body) > 64<<10 || !refused && (len(r.body) > 8<<10 || bytes.Contains(r.body, []byte("<a "))) {
		return false
	}
	for _, m := range challengeMarks {
		if bytes.Contains(r.body, m) {
			return true
		}
	}
	return false
}
