package crawl

import (
	"strings"

	"github.com/cespare/xxhash/v2"
)

// Bounds that keep a crawl out of endless sites.
const (
	maxSegment    = 3       // times that a URL may have the same path segment
	maxSegments   = 40      // segments of a path
	maxQueries    = 10_000  // URLs of one path that differ in the query only
	maxDirectory  = 250_000 // URLs of one directory
	maxCounted    = 20_000  // paths and directories that are counted
	maxSameText   = 30      // pages of the same text whose links are followed
	maxTextKinds  = 20_000  // texts that are counted
	sessionDigits = 8       // shortest session id
	sessionDrawn  = 16      // the same under a name that may be of something else
)

// traps counts things of which endless sites have too many. Owned by the session.
type traps struct {
	queries, dirs map[uint64]int
	texts         map[uint64]int
}

func newTraps() *traps {
	return &traps{queries: map[uint64]int{}, dirs: map[uint64]int{}, texts: map[uint64]int{}}
}

// trap says why a new URL looks like part of a trap; "": it does not. It counts the URL, so call it once for each.
func (t *traps) trap(u string) string {
	origin := strings.Index(u, "://") + 3
	if i := strings.IndexByte(u[origin:], '/'); i >= 0 {
		origin += i
	}
	path, query, dynamic := strings.Cut(u[origin:], "?")
	if repeats(path) {
		return "segments"
	}
	if dynamic && query != "" && over(t.queries, xxhash.Sum64String(path), maxQueries) {
		return "queries"
	}
	if over(t.dirs, xxhash.Sum64String(path[:strings.LastIndexByte(path, '/')+1]), maxDirectory) {
		return "directory"
	}
	return ""
}

func over(counts map[uint64]int, key uint64, limit int) bool {
	n, ok := counts[key]
	if !ok && len(counts) >= maxCounted {
		return false
	}
	if n >= limit {
		return true
	}
	counts[key] = n + 1
	return false
}

// repeats reports whether a path has too many segments, or has one segment too often: /a/b/a/b/a/b/a/b.
func repeats(path string) bool {
	n := strings.Count(path, "/")
	if n > maxSegments {
		return true
	}
	if n <= maxSegment {
		return false
	}
	rest := path
	for rest != "" {
		var seg string
		seg, rest, _ = strings.Cut(strings.TrimPrefix(rest, "/"), "/")
		if seg == "" {
			continue
		}
		again := 1
		for other := range strings.SplitSeq(rest, "/") {
			if other == seg {
				again++
			}
		}
		if again > maxSegment {
			return true
		}
	}
	return false
}

// exhausted counts a text and tells whether it has come before, and whether it has come so often that the links of its pages lead nowhere new.
// Zero is no text.
func (t *traps) exhausted(text uint64) (duplicate, worn bool) {
	if text == 0 {
		return false, false
	}
	n, ok := t.texts[text]
	if !ok && len(t.texts) >= maxTextKinds {
		return false, false
	}
	t.texts[text] = n + 1
	return n > 0, n >= maxSameText
}

// withoutSession removes session ids from a URL: ";jsessionid=..." and the query parameters that are known to hold one.
func withoutSession(u string) string {
	if strings.IndexByte(u, ';') >= 0 {
		u = withoutPathSession(u)
	}
	path, query, ok := strings.Cut(u, "?")
	if !ok || !strings.Contains(query, "=") {
		return u
	}
	changed := false
	var b strings.Builder
	for p := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(p, "=")
		if isSession(name, value) {
			changed = true
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('&')
		}
		b.WriteString(p)
	}
	if !changed {
		return u
	}
	if b.Len() == 0 {
		return path
	}
	return path + "?" + b.String()
}

// withoutPathSession removes ";jsessionid=..." from a path. A segment of dots is left alone: without it it would be none.
func withoutPathSession(u string) string {
	i := strings.Index(strings.ToLower(u), ";jsessionid=")
	if i < 0 || strings.IndexByte(u[:i], '?') >= 0 || strings.HasSuffix(u[:i], "/.") || strings.HasSuffix(u[:i], "/..") {
		return u
	}
	end := len(u)
	if j := strings.IndexAny(u[i+1:], ";/?"); j >= 0 {
		end = i + 1 + j
	}
	return u[:i] + u[end:]
}

func isSession(name, value string) bool {
	switch strings.ToLower(name) {
	case "phpsessid", "jsessionid", "aspsessionid", "asp.net_sessionid", "cfid", "cftoken", "zenid", "oscsid":
		return len(value) >= sessionDigits && strings.ContainsAny(value, "0123456789")
	case "sessionid", "session_id", "sid": // these name stories, stations and sites as well
		return len(value) >= sessionDrawn && strings.ContainsAny(value, "0123456789") && strings.Trim(value, drawnFrom) == ""
	}
	return false
}

// drawnFrom is what session ids are made of that are drawn at random.
const drawnFrom = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ,-"
