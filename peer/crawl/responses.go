package crawl

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"shoal/channel"
	"shoal/channel/markup"
	"shoal/peer/crawl/redact"
)

// askedAway notes that a host wants to be left alone for longer than a crawl waits. It returns the reason, or "".
func (s *session) askedAway(r *response) string {
	asked := retryAfter(r)
	if asked <= MaxRetryAfter {
		return ""
	}
	s.comeBack = min(asked, channel.MostRest)
	return fmt.Sprintf("the host asks to come back in %v", asked)
}

// handle turns a response into a page, follows its links, and says whether it ends the crawl.
func (s *session) handle(r *response) (end channel.Outcome, why string, err error) {
	if why := s.refused.note(r); why != "" {
		s.count("blocked")
		s.visited(r, channel.Errored, "blocked")
		return channel.HostBlocked, why, nil
	}
	if why := s.askedAway(r); why != "" {
		s.count(fmt.Sprintf("http-%d", r.status))
		return channel.HostBlocked, why, nil
	}
	kind := kindOf(r.err)
	if kind == "" && r.status >= 400 {
		kind = fmt.Sprintf("http-%d", r.status)
	}
	s.count(kind)
	if r.status == 0 && unreachable(kind) {
		s.failures++
	} else {
		s.failures = 0
	}
	if s.failures >= MaxFailures {
		s.visited(r, channel.Errored, kind)
		return channel.Failed, fmt.Sprintf("%d failures in a row, the last: %v", s.failures, r.err), nil
	}
	if r.status == 0 || r.status >= 500 || kind == "timeout" {
		s.broken++
	} else {
		s.broken = 0
	}
	if s.broken >= MaxBroken {
		s.visited(r, channel.Errored, kind)
		return channel.Failed, fmt.Sprintf("%d responses in a row were server errors or never ended, the last: %s", s.broken, kind), nil
	}
	if s.retry(r, kind) {
		s.visited(r, channel.Errored, kind)
		return 0, "", nil
	}
	p := channel.Page{URL: r.it.url, Depth: r.it.depth, Fetched: r.at, Status: r.status, Header: r.raw, RTT: r.rtt, Truncated: r.truncated}
	if len(p.Header) > channel.MaxPageHeader {
		p.Header = nil
	}
	duplicate := false
	switch {
	case r.err != nil && r.status == 0, r.err != nil && len(r.body) == 0:
		p.Error, p.Change = kind+": "+r.err.Error(), channel.Errored
	case r.status == http.StatusNotModified:
		p.Change = channel.Unchanged
	case r.status >= 300 && r.status < 400 && len(r.body) == 0:
		err = s.redirect(r, &p)
	case r.status == http.StatusNotFound || r.status == http.StatusGone:
		p.Error, p.Change = kind, channel.Errored
		if s.known.has(r.it.hash) {
			p.Change = channel.Gone
		}
	case r.status >= 400 || r.status < 200:
		p.Error, p.Change = kind, channel.Errored
	default:
		s.blemish(r, &p, kind)
		duplicate, err = s.content(r, &p)
	}
	if err != nil {
		return 0, "", err
	}
	s.tally(&p)
	s.hearsay.heard(r.it.hash, p.Status)
	s.countSignal(&p, r.it.hash)
	s.visited(r, p.Change, kind)
	s.redact(&p)
	if err := s.spool.page(&p); err != nil {
		return 0, "", err
	}
	s.frontier.done(r.it, s.hashes, duplicate)
	s.hashes = s.hashes[:0]
	return 0, "", nil
}

// blemish notes what is wrong with a page that is worth keeping all the same: only a part of it came, or its status is a redirect's and it leads nowhere.
func (s *session) blemish(r *response, p *channel.Page, kind string) {
	switch _, err := location(r); {
	case r.err != nil:
		p.Error, p.Truncated = kind+": "+r.err.Error(), !errors.Is(r.err, errCheck)
	case mustRedirect(r.status) && err != nil:
		s.noteBadRedirect(p, err)
	}
}

// redact takes this computer's own addresses out of what a host answered, as far as that can be done without changing the page.
func (s *session) redact(p *channel.Page) {
	own := s.own()
	p.Header, p.Error = own.Header(p.Header), string(own.Header([]byte(p.Error)))
	told := slices.DeleteFunc(slices.Clone(p.Links), s.tells)
	p.ShowsVisitor = own.Shows(p.Body) || s.tells(p.URL) || len(told) < len(p.Links) && len(p.Body) > 0
	if len(told) < len(p.Links) {
		p.Links = told
	}
}

// own finds this computer's own addresses; nil: it finds none.
func (s *session) own() *redact.Finder {
	if s.cfg.Own == nil {
		return nil
	}
	return s.cfg.Own()
}

// tells reports whether a URL shows an address of this computer. A host that makes such URLs would have them stored as the addresses of pages. That
// the crawled site is at the same address, as one at the volunteer's home is, says nothing of who visits it.
func (s *session) tells(url string) bool {
	s.spelt = append(s.spelt[:0], strings.TrimPrefix(url, s.cfg.Body.Scope.Host+"/")...)
	return s.own().Shows(s.spelt)
}

// retry puts a URL back if another request is worth it: the host asked for time, or the connection broke.
func (s *session) retry(r *response, kind string) bool {
	if r.it.tries+1 >= MaxTries {
		return false
	}
	busy := r.status == http.StatusTooManyRequests || r.status == http.StatusServiceUnavailable
	broken := r.status == 0 && unreachable(kind)
	if !busy && !broken {
		return false
	}
	it := r.it
	it.tries++
	s.again = append(s.again, it)
	return true
}

func (s *session) tally(p *channel.Page) {
	if p.Status != 0 {
		s.report.Pages++
	}
	if p.Change != channel.Errored {
		s.good++
	}
	switch p.Change {
	case channel.New:
		s.report.New++
	case channel.Changed:
		s.report.Changed++
	case channel.Unchanged:
		s.report.Unchanged++
	case channel.NearUnchanged:
		s.report.NearUnchanged++
	case channel.Gone:
		s.report.Gone++
	}
}

// content reads a body: its directives for robots, its links, and how it compares with the stored copy.
func (s *session) content(r *response, p *channel.Page) (duplicate bool, err error) {
	p.Digest = channel.ContentDigest(r.body)
	p.Change = s.known.change(r.it.hash, p.Digest)
	contentType := markup.ByRoot(contentTypeOf(r.header), r.body)
	s.asked = 0
	asks := headerDirectives(r.header, s.product)
	body := r.body
	var links, feeds []string
	var entries []listed
	if isHTML(contentType, r.body) {
		textOnly := s.cfg.Body.Settings.TextOnly
		s.page.read(r.it.url, r.body, contentType, s.product, textOnly)
		asks = asks.and(s.page.robots)
		if s.cfg.OnVisit != nil {
			r.title = s.page.name()
		}
		p.Shingle = s.page.shingle
		links, feeds = withHeader(s.page.links, s.page.feeds, r)
		var worn bool
		if duplicate, worn = s.traps.exhausted(s.page.same); worn {
			s.count("skipped-trap")
			links = nil
		}
		if s.page.skipped > 0 {
			s.report.Errors["skipped-nofollow"] += s.page.skipped
		}
		if textOnly {
			body, p.Header = s.page.text, textHeader(p.Header, p.Status)
		}
	} else {
		for _, e := range feedEntries(contentType, r.body, r.it.url) {
			e.says = s.newsOf(&e)
			links, entries = append(links, e.url), append(entries, e)
		}
		links, feeds = withHeader(links, nil, r)
	}
	if asks.nofollow {
		s.report.Errors["skipped-nofollow"] += len(links)
		links, feeds, entries = nil, nil, nil
	}
	if err := s.admitFeeds(feeds, r.it.depth+1); err != nil {
		return duplicate, err
	}
	for i := range entries {
		if s.overRuleBudget() {
			break
		}
		if err := s.admitEntry(&entries[i], r.it.depth+1); err != nil {
			return duplicate, err
		}
	}
	followed := links
	if len(entries) > 0 {
		followed = followed[len(entries):] // the entries are the others
	}
	for _, u := range followed {
		if s.overRuleBudget() {
			break
		}
		if err := s.follow(u, r.it.depth+1, 0); err != nil {
			return duplicate, err
		}
	}
	switch {
	case asks.unstored != "":
		s.count(asks.unstored)
		p.Error = asks.unstored
	case p.Change != channel.Unchanged:
		p.Body, p.Links = body, links // in use until the page is spooled
	}
	return duplicate, nil
}

// textHeader makes the header of a page of which only the text is kept: it is plain and in UTF-8, whatever the host sent. What the host said of it
// has the name that the archive gives to what it said of the body's coding. A header that would be too long keeps its status alone.
func textHeader(received []byte, status int) []byte {
	const orig, says = "X-Archive-Orig-", "Content-Type: text/plain; charset=utf-8\r\n\r\n"
	out := make([]byte, 0, len(received)+len(orig)+len(says))
	for line := range bytes.SplitAfterSeq(received, []byte("\n")) {
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		if name, _, _ := bytes.Cut(line, []byte(":")); markup.EqualFold(bytes.TrimSpace(name), "content-type") {
			out = append(out, orig...)
		}
		out = append(out, line...)
	}
	if len(out) == 0 || len(out)+len(says) > channel.MaxPageHeader {
		out = fmt.Appendf(out[:0], "HTTP/1.1 %d \r\n", status)
	}
	return append(out, says...)
}

// leadsOut notes a link to a URL out of scope for the report, if it is new.
func (s *session) leadsOut(u string) {
	if len(s.report.Inter) < channel.MaxReportInter && s.interBytes+len(u) <= maxInterBytes && s.inter.add(urlHash(u)) {
		s.report.Inter = append(s.report.Inter, u)
		s.interBytes += len(u) + 4
	}
}

// follow puts one link on the to-do list, or among the inter-site URLs. One that leads to http of a host at https is both: many sites have moved and
// have links as before, but there may be a channel of the other. One that shows this computer's address is neither.
func (s *session) follow(u string, depth, hops int) error {
	if s.tells(u) {
		s.count("skipped-visitor")
		return nil
	}
	if !s.scope.Contains(u) {
		s.leadsOut(u)
		if u = s.moved(u); !s.scope.Contains(u) {
			return nil
		}
	}
	h := urlHash(u)
	s.hashes = append(s.hashes, h)
	if it, held := s.hearsay.seen(h); held {
		s.soon = append(s.soon, it)
	}
	return s.enlist(item{url: u, hash: h, depth: depth, hops: hops}, true, false)
}
