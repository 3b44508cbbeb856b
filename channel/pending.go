package channel

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Pending is one inter-site URL that waits for the next crawl of its channel.
type Pending struct {
	Found time.Time
	URL   string
}

// pendingOverhead is the number of bytes that count for a pending URL beside its text.
const pendingOverhead = 9

// Pend returns a channel's pending URLs after an edit at a time: without those that the crawl took in, and with those
// that were found, each once. It also returns how many were added.
func (e *Edit) Pend(at time.Time, have []Pending) (now []Pending, added int) {
	now = have
	if !e.Crawled.IsZero() {
		now = slices.DeleteFunc(now, func(p Pending) bool { return !p.Found.After(e.Crawled) })
	}
	seen := make(map[string]bool, len(now))
	size := 0
	for _, p := range now {
		seen[p.URL] = true
		size += len(p.URL) + pendingOverhead
	}
	for _, u := range e.Inter {
		size += len(u) + pendingOverhead
		if len(now) >= MaxInter || size > MaxInterBytes {
			break
		}
		if len(u) <= MaxURL && !seen[u] {
			seen[u] = true
			now = append(now, Pending{at, u})
			added++
		}
	}
	return now, added
}

// Origin returns the host of the URL that was found, or an error if it is no canonical URL.
func (f *Found) Origin() (string, error) {
	origin := Origin(f.URL)
	if origin == f.URL || len(f.URL) > MaxURL || !strings.HasPrefix(origin, "http") {
		return "", fmt.Errorf("%w: found %.80q, which is not a canonical URL", ErrMalformed, f.URL)
	}
	return origin, nil
}

// Link counts one more URL that was found on the candidate's host.
func (c *Candidate) Link(at time.Time, url string) {
	c.Links++
	c.Last = at
	if len(c.Seeds) < MaxCandidateSeeds && !slices.Contains(c.Seeds, url) {
		c.Seeds = append(c.Seeds, url)
	}
}

// Check reports the first thing about an Advance that every database refuses.
func (a *Advance) Check() error {
	switch n := a.Size(); {
	case n > MaxAdvance:
		return fmt.Errorf("%w: %d records, at most %d: take in less of the feed at a time", ErrTooLarge, n, MaxAdvance)
	case len(a.Feed) > MaxName:
		return fmt.Errorf("%w: feed's name of %d bytes", ErrMalformed, len(a.Feed))
	case a.Feed == "" && a.From == "" && a.To == "": // of no feed
	case a.Feed == "":
		return fmt.Errorf("%w: a cursor of no feed", ErrMalformed)
	case a.To == a.From || len(a.To) > MaxText:
		return fmt.Errorf("%w: cursor from %.40q to %.40q", ErrMalformed, a.From, a.To)
	}
	for name := range a.Counters {
		if name == "" || len(name) > MaxName {
			return fmt.Errorf("%w: counter's name of %d bytes", ErrMalformed, len(name))
		}
	}
	return nil
}

// Taken is the Refusal's error for a scope that another channel has.
func (s *Scope) Taken(by ID) error {
	return fmt.Errorf("%w: %s is channel %d", ErrDuplicate, strings.ReplaceAll(strings.TrimSpace(s.Key()), "\n", " "), by)
}

// Text cuts a text that a person reads to what databases keep.
func Text(s string) string { return text(strings.ReplaceAll(s, "\x00", "\uFFFD")) }
