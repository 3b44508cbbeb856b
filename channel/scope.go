package channel

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// ErrScope is returned for a scope that breaks a rule; the wrapping error says which.
var ErrScope = errors.New("channel: bad scope")

// maxDepth bounds Scope.MaxDepth.
const maxDepth = 1000

// maxProgram bounds the instructions of one compiled pattern, so that a short pattern full of repeats cannot exhaust
// a peer's memory.
const maxProgram = 10_000

// ScopeOf derives a scope from a URL alone. If the URL's path is "/", the scope is the whole host. Otherwise it is
// the directory that the path names, or the directory that holds it if the last part looks like a file
// ("index.html"). The URL itself becomes the seed. ScopeOf takes a word without a dot for a host name only if a
// scheme stands before it.
func ScopeOf(rawURL string) (s Scope, seed string, err error) {
	raw := strings.TrimSpace(rawURL)
	if !strings.Contains(raw, "@") && !strings.Contains(raw, "://") && !startsWithScheme(raw) {
		if why := noSite(raw); why != "" {
			return Scope{}, "", urlError(raw, why)
		}
		raw = "https://" + raw
	}
	seed, err = Canonical(raw)
	if err != nil {
		return Scope{}, "", err
	}
	origin, path := split(seed)
	path, _, _ = strings.Cut(path, "?")
	cut := strings.LastIndexByte(path, '/') + 1
	if last := path[cut:]; last != "" {
		if strings.Contains(last, ".") {
			path = path[:cut]
		} else {
			path += "/"
		}
	}
	s = Scope{Kind: Directory, Host: origin, Dirs: []string{path}}
	if path == "/" {
		s = Scope{Kind: WholeHost, Host: origin}
	}
	return s, seed, s.Validate()
}

// noSite says why text without a scheme names no site; "": it may name one. It proposes only what can be a host's name.
func noSite(raw string) string {
	host, rest, _ := strings.Cut(raw, "/")
	switch {
	case host == "" && raw != "" && !strings.HasPrefix(rest, "/"):
		return "this is a path, and no host stands before it"
	case host == "" || strings.ContainsAny(host, ".:。．｡ "):
		return ""
	case strings.EqualFold(host, "localhost"): // a name that everybody knows; whether it may be crawled, others say
		return ""
	case strings.HasPrefix(rest, "/") && (strings.EqualFold(host, "http") || strings.EqualFold(host, "https")):
		return "a colon is missing behind " + host
	case !utf8.ValidString(host) || len(host) > maxLabel || !strings.ContainsFunc(host, unicode.IsLetter) ||
		strings.ContainsFunc(host, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '-' && r != '_' }):
		return "this is no host's name"
	}
	return "a site's name has a dot: write it whole, as in " + host + ".org"
}

const maxLabel = 63 // bytes between the dots of a host's name (RFC 1035, 2.3.4)

// startsWithScheme reports whether a URL has a scheme but fewer than two slashes, as in http:/example.org. Browsers read that as if it had two.
func startsWithScheme(raw string) bool {
	scheme, _, ok := strings.Cut(raw, ":")
	return ok && (strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https"))
}

// Key returns a string that identifies the reach of s, and the spelling of its directories. Two channels of one network
// must not have the same key. Filters and depth are not part of it.
func (s *Scope) Key() string {
	dirs := slices.Compact(slices.Sorted(slices.Values(s.Dirs)))
	return s.Host + "\n" + strings.Join(dirs, "\n")
}

// Validate reports whether the scope is well formed: host and directories in canonical form, patterns small and valid
// RE2.
func (s *Scope) Validate() error {
	_, err := s.Compile()
	return err
}

// Compile validates the scope and returns a Matcher for it.
func (s *Scope) Compile() (*Matcher, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	m := &Matcher{host: s.Host, dirs: slices.Clone(s.Dirs)}
	for i, d := range m.dirs {
		m.dirs[i] = Respell(d)
	}
	var err error
	if m.filters, err = compilePatterns(s.Filters); err != nil {
		return nil, err
	}
	if m.exclude, err = compilePatterns(s.Exclude); err != nil {
		return nil, err
	}
	return m, nil
}

// Matcher decides which URLs a scope contains. Several goroutines may use it at once.
type Matcher struct {
	host             string
	dirs             []string // nil: the whole host
	filters, exclude []*regexp.Regexp
}

// Contains reports whether a canonical URL is in the scope. A directory "/a/" contains everything below it, and "/a"
// itself, because servers redirect "/a" to "/a/".
func (m *Matcher) Contains(canonicalURL string) bool {
	rest, ok := strings.CutPrefix(canonicalURL, m.host)
	if !ok || rest == "" || rest[0] != '/' {
		return false
	}
	return m.inDirs(rest) && (len(m.filters) == 0 || anyMatch(m.filters, canonicalURL)) && !anyMatch(m.exclude, canonicalURL)
}

func (m *Matcher) inDirs(tail string) bool {
	if m.dirs == nil {
		return true
	}
	path, _, _ := strings.Cut(Respell(tail), "?")
	for _, d := range m.dirs {
		if strings.HasPrefix(path, d) || path == d[:len(d)-1] {
			return true
		}
	}
	return false
}

// anyMatch reports whether a pattern matches a canonical URL, in the spelling of today or of versions before 0.2.0: a pattern may be written for either.
func anyMatch(patterns []*regexp.Regexp, url string) bool {
	if len(patterns) == 0 {
		return false
	}
	other := FormerSpelling(url)
	if other == url {
		other = Respell(url)
	}
	for _, p := range patterns {
		if p.MatchString(url) || other != url && p.MatchString(other) {
			return true
		}
	}
	return false
}

// check does what Validate does, except for compiling the patterns. It serves scopes that were validated before they
// were stored or signed.
func (s *Scope) check() error {
	if !isOrigin(s.Host) {
		return fmt.Errorf("%w: host %q is not of the form https://example.org", ErrScope, short(s.Host))
	}
	if s.MaxDepth < 0 || s.MaxDepth > maxDepth {
		return fmt.Errorf("%w: maximum depth %d is not between 0 and %d", ErrScope, s.MaxDepth, maxDepth)
	}
	if err := s.checkDirs(); err != nil {
		return err
	}
	for _, patterns := range [][]string{s.Filters, s.Exclude} {
		if len(patterns) > MaxFilters {
			return fmt.Errorf("%w: %d patterns, at most %d", ErrScope, len(patterns), MaxFilters)
		}
		for _, p := range patterns {
			if len(p) > MaxFilterBytes {
				return fmt.Errorf("%w: a pattern of %d bytes, at most %d", ErrScope, len(p), MaxFilterBytes)
			}
		}
	}
	return nil
}

func (s *Scope) checkDirs() error {
	switch {
	case s.Kind == WholeHost && len(s.Dirs) == 0:
	case s.Kind == Directory && len(s.Dirs) == 1:
	case s.Kind == Directories && len(s.Dirs) >= 1 && len(s.Dirs) <= MaxDirs:
	default:
		return fmt.Errorf("%w: kind %d with %d directories", ErrScope, s.Kind, len(s.Dirs))
	}
	for _, d := range s.Dirs {
		if !strings.HasPrefix(d, "/") || !strings.HasSuffix(d, "/") || strings.Contains(d, "?") {
			return fmt.Errorf("%w: directory %q does not begin and end with a slash, or has a query", ErrScope, short(d))
		}
		if d == "/" {
			return fmt.Errorf("%w: the directory \"/\" is the whole host", ErrScope)
		}
		if c, err := Canonical(s.Host + d); err != nil || c != Respell(s.Host+d) {
			return fmt.Errorf("%w: directory %q is not in canonical form", ErrScope, short(d))
		}
	}
	return nil
}

// isOrigin reports whether s is scheme and authority in canonical form.
func isOrigin(s string) bool {
	if strings.HasSuffix(s, "/") {
		return false
	}
	c, err := Canonical(s + "/")
	return err == nil && c == s+"/" && Origin(c) == s
}

func compilePatterns(patterns []string) ([]*regexp.Regexp, error) {
	out := make([]*regexp.Regexp, 0, len(patterns))
	for _, p := range patterns {
		tree, err := syntax.Parse(p, syntax.Perl)
		if err != nil {
			return nil, fmt.Errorf("%w: pattern %q: %w", ErrScope, short(p), err)
		}
		if n := programSize(tree); n > maxProgram {
			return nil, fmt.Errorf("%w: pattern %q repeats too much: %d steps, at most %d", ErrScope, short(p), n, maxProgram)
		}
		re, err := regexp.Compile(p)
		if err != nil {
			return nil, fmt.Errorf("%w: pattern %q: %w", ErrScope, short(p), err)
		}
		out = append(out, re)
	}
	return out, nil
}

// programSize estimates how many instructions a pattern compiles to. It stops counting beyond maxProgram.
func programSize(re *syntax.Regexp) int {
	n := 1
	if re.Op == syntax.OpLiteral {
		n = len(re.Rune)
	}
	for _, sub := range re.Sub {
		if n += programSize(sub); n > maxProgram {
			return maxProgram + 1
		}
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Min+1, re.Max)
	}
	return min(n, maxProgram+1)
}

func short(s string) string {
	const show = 120
	if len(s) > show {
		return s[:show] + "..."
	}
	return s
}
