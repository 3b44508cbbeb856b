// Package robots decides by a host's robots.txt which URLs may be fetched, and reads the Crawl-delay and the sitemaps that the file
// names. It follows RFC 9309: the group of the most specific product token, the longest matching rule, Allow on a tie, "*" and "$",
// comparison after percent-encoding is brought to one form.
//
// One broken line never spoils the others. The tests hold the package beside temoto/robotstxt; why that library does not read files
// here is in docs/decisions/0020-robots-read-by-ourselves.md. Package robots does not fetch: peer/crawl does.
package robots

import (
	"regexp"
	"sort"
	"strconv"
	"strings"
	"time"
)

// Limits of a file.
const (
	MaxBytes    = 500 << 10        // what lies beyond does not count (RFC 9309, section 2.5); give Parse one more, so that it can tell
	MaxSitemaps = 50_000           // sitemaps named, as many as an index may list: hardly a file of MaxBytes names more
	MaxDelay    = 30 * time.Second // a longer Crawl-delay is kept as this
)

// Rules is a parsed robots.txt for one product token. The zero value allows everything. It may be used by several goroutines.
type Rules struct {
	CrawlDelay time.Duration
	Sitemaps   []string // as written, absolute or not
	rules      []rule   // longest first
}

// group collects what the groups of one product token say. A file may have several; they count together.
type group struct {
	named bool // the file has such a group
	rules []rule
	delay time.Duration
}

// membership says to which groups the next lines belong.
type membership struct {
	ours, others bool // the group of the token; the group of "*"
	ended        bool // the next User-agent line begins a new list of tokens
}

// join handles a User-agent line: it adds a token to the list, or begins a new list.
func (m *membership) join(ours, others bool) {
	if m.ended {
		*m = membership{}
	}
	m.ours = m.ours || ours
	m.others = m.others || others
}

// Parse reads a file for a product token, as "Shoal". No input is an error: what is not understood is passed over.
//
// A rule ends a list of User-agent lines, and other lines do not (RFC 9309, section 2.2). Crawl-delay is no part of the RFC: it holds
// for the tokens listed so far, and ends the list for delays only, since many files give each token its delay and nothing else.
func Parse(body []byte, token string) *Rules {
	token = strings.ToLower(token)
	var ours, others group
	var sitemaps []string
	var forRules, forDelay membership
	for line := range lines(cut(body)) {
		key, value, ok := split(line)
		if !ok {
			continue
		}
		switch key {
		case "user-agent":
			name := strings.ToLower(product(value))
			forRules.join(name == token, name == "*")
			forDelay.join(name == token, name == "*")
			ours.named = ours.named || name == token
		case "allow", "disallow":
			forRules.ended, forDelay.ended = true, true
			if value == "" {
				continue
			}
			r := compile(value, key == "allow")
			if forRules.ours {
				ours.rules = append(ours.rules, r)
			}
			if forRules.others {
				others.rules = append(others.rules, r)
			}
		case "crawl-delay":
			forDelay.ended = true
			d, ok := delay(value)
			if ok && forDelay.ours {
				ours.delay = d
			}
			if ok && forDelay.others {
				others.delay = d
			}
		case "sitemap":
			sitemaps = append(sitemaps, sitemapsIn(value, MaxSitemaps-len(sitemaps))...)
		}
	}
	g := &others
	if ours.named {
		g = &ours
	}
	sort.SliceStable(g.rules, func(i, j int) bool {
		a, b := &g.rules[i], &g.rules[j]
		if a.length != b.length {
			return a.length > b.length
		}
		return a.allow && !b.allow
	})
	return &Rules{CrawlDelay: g.delay, Sitemaps: sitemaps, rules: g.rules}
}

// sitemapsIn gives the sitemaps that a line names, at most n. The first word is one; others are if they are whole URLs.
func sitemapsIn(value string, n int) (urls []string) {
	words := strings.Fields(value)
	for i, w := range words {
		if w = strings.Trim(w, `"'<>`); len(words) > 1 {
			w = strings.Trim(w, ",;")
		}
		whole := len(w) > 7 && strings.EqualFold(w[:7], "http://") || len(w) > 8 && strings.EqualFold(w[:8], "https://")
		if len(urls) < n && w != "" && (i == 0 || whole) {
			urls = append(urls, w)
		}
	}
	return urls
}

// delay reads the value of Crawl-delay: seconds, perhaps in quotes or brackets, with words before them, and with a unit or words behind them ("10s",
// "2,5 seconds", "1 minute"). It refuses values that no host can mean.
func delay(value string) (time.Duration, bool) {
	value = strings.ToLower(value)
	from := strings.IndexAny(value, "0123456789")
	if from < 0 {
		return 0, false
	}
	if from > 0 && value[from-1] == '.' {
		from--
	}
	if from > 0 && (value[from-1] == '-' || isLetter(value[from-1])) {
		return 0, false
	}
	number := number.FindString(value[from:])
	seconds, err := strconv.ParseFloat(strings.Replace(strings.TrimRight(number, ".,"), ",", ".", 1), 64)
	if err != nil || !(seconds < maxSeconds) {
		return 0, false
	}
	switch unit := strings.TrimLeft(value[from+len(number):], " \t"); {
	case strings.HasPrefix(unit, "ms"), strings.HasPrefix(unit, "milli"):
		seconds /= 1000
	case strings.HasPrefix(unit, "m"):
		seconds *= 60
	case strings.HasPrefix(unit, "h"):
		seconds *= 3600
	case strings.HasPrefix(unit, "d"):
		seconds *= 24 * 3600
	}
	return time.Duration(min(seconds, MaxDelay.Seconds()) * float64(time.Second)), true
}

// number is a number as people write it.
var number = regexp.MustCompile(`^[0-9.,]+(e[+-]?[0-9]+)?`)

const maxSeconds = 1e6 // a Crawl-delay of more is a mistake

// Allowed reports whether a path with its query ("/a?b") may be fetched.
func (r *Rules) Allowed(path string) bool {
	if len(r.rules) == 0 || path == "/robots.txt" {
		return true
	}
	path = normal(path)
	for i := range r.rules {
		if r.rules[i].match(path) {
			return r.rules[i].allow
		}
	}
	return true
}

// Cost is the time of a verdict, measured in rules with wildcards.
func (r *Rules) Cost() int {
	n := 0
	for i := range r.rules {
		if len(r.rules[i].parts) > 1 {
			n += prefixes
		}
	}
	return (n + len(r.rules)) / prefixes
}

// prefixes is how many rules without wildcards take the time of one with wildcards.
const prefixes = 16
