package crawl

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"shoal/channel"
)

// maxHeaderLinks is how many links of a page's header count.
const maxHeaderLinks = 100

// headerLink is a link in a header (RFC 8288).
type headerLink struct {
	target              string
	rel, kind, language string
	anchor              bool // it is a link of something else than the page
}

// withHeader adds to the links and feeds of a page those to which its header leads: by Refresh as a <meta> of that name does, and by Link as <link> does.
// Alternate versions count there in another language or as a feed: many hosts name the data behind each page by the same word.
func withHeader(links, feeds []string, r *response) (allLinks, allFeeds []string) {
	links = withReference(links, r, refreshTarget(r.header.Get("Refresh")))
	for _, l := range headerLinks(r.header) {
		is := func(rel string) bool { return hasWord([]byte(l.rel), rel) }
		feed := false
		switch {
		case l.anchor:
			continue
		case is("canonical"), is("next"), is("prev"), is("previous"):
		case is("alternate") && !is("stylesheet"):
			if feed = isFeedType([]byte(l.kind)); !feed && l.language == "" {
				continue
			}
		default:
			continue
		}
		links = withReference(links, r, l.target)
		if feed && len(feeds) < maxFeeds {
			feeds = withReference(feeds, r, l.target)
		}
	}
	return links, feeds
}

// withReference adds a reference of a header, unless it is there or too much.
func withReference(links []string, r *response, to string) []string {
	if to == "" || len(links) >= channel.MaxPageLinks {
		return links
	}
	u, err := channel.Resolve(r.it.url, escaped(to))
	if u = withoutSession(u); err != nil || slices.Contains(links, u) {
		return links
	}
	return append(links, u)
}

// headerLinks reads the Link fields of a header (RFC 8288, appendix B.2). It passes over what is no link.
func headerLinks(h http.Header) (links []headerLink) {
	for _, s := range h.Values("Link") {
		for len(links) < maxHeaderLinks {
			s = strings.TrimLeft(s, " \t,")
			opened, is := strings.CutPrefix(s, "<")
			if s == "" {
				break
			}
			var l headerLink
			if is {
				target, rest, closed := strings.Cut(opened, ">")
				if !closed {
					break
				}
				l.target, s = strings.Trim(target, " \t"), rest
			}
			if s = l.parameters(s); is {
				links = append(links, l)
			}
		}
	}
	return links
}

// parameters reads the parameters behind a link's target, up to the comma that ends the link, and gives what comes behind it (appendix B.3). Of several with one
// name the first counts.
func (l *headerLink) parameters(s string) (rest string) {
	const space = " \t"
	s = strings.TrimLeft(s, space)
	for s != "" && s[0] != ',' {
		s = strings.TrimLeft(s, space+";")
		end := strings.IndexAny(s, space+"=;,")
		if end < 0 {
			end = len(s)
		}
		name, value := strings.ToLower(s[:end]), ""
		s = strings.TrimLeft(s[end:], space)
		if after, ok := strings.CutPrefix(s, "="); ok {
			value, s = parameterValue(strings.TrimLeft(after, space))
		}
		switch name {
		case "rel":
			l.rel = cmp.Or(l.rel, value)
		case "type":
			l.kind = cmp.Or(l.kind, value)
		case "hreflang":
			l.language = cmp.Or(l.language, value)
		case "anchor":
			l.anchor = true
		}
	}
	return s
}

// parameterValue reads a value, which may be in quotes, and gives what comes behind it.
func parameterValue(s string) (value, rest string) {
	if s == "" || s[0] != '"' {
		end := strings.IndexAny(s, ";,")
		if end < 0 {
			end = len(s)
		}
		return strings.TrimRight(s[:end], " \t"), s[end:]
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '"':
			return b.String(), strings.TrimLeft(s[i+1:], " \t")
		case s[i] == '\\' && i+1 < len(s):
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String(), ""
}
