package channel

import "strings"

// errorKinds holds the kinds that a crawl counts, other than those that name a status.
var errorKinds = func() map[string]bool {
	m := map[string]bool{}
	for k := range strings.FieldsSeq(`
		bad-redirect bad-seed blocked bomb broken-chunks challenge content cut-off dns dns-not-found dns-timeout encoding expired forbidden-address h2-flood
		h2-goaway h2-protocol h2-reset hang-up header-too-large malformed no-lease noarchive noindex other proxy redirects refused reset robots sitemap
		signal-right signalled skipped-full skipped-nofollow skipped-robots skipped-rules skipped-trap skipped-visitor timeout tls tls-alert tls-certificate tls-expired tls-not-tls
		tls-not-yet-valid tls-self-signed tls-unknown-authority tls-version tls-wrong-name too-large type unreachable`) {
		m[k] = true
	}
	return m
}()

// Noted reports whether what a report counts under a kind is no failure: a page's own wish, what the crawl was to leave out, or news of changes.
func Noted(kind string) bool {
	switch kind {
	case "noindex", "noarchive", "expired", "signalled", "signal-right":
		return true
	}
	return strings.HasPrefix(kind, "skipped-")
}

// ErrorKind returns the kind under which an error of a report is counted: kind itself where peers of this version use it or it names an HTTP status,
// else "other". A member can thus not fill an operator's page with words of its own.
func ErrorKind(kind string) string {
	if errorKinds[kind] {
		return kind
	}
	for _, prefix := range []string{"http-", "robots-"} {
		status, ok := strings.CutPrefix(kind, prefix)
		if ok && len(status) == 3 && status[0] >= '1' && status[0] <= '9' && status[1] >= '0' && status[1] <= '9' && status[2] >= '0' && status[2] <= '9' {
			return kind
		}
	}
	return "other"
}
