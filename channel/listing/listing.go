// Package listing reads and writes lists of channels: CSV, JSON lines, plain lists of URLs, sitemaps and OPML.
// Reading returns one channel.Line for each channel, with its line number, so that users can find mistakes. The
// package neither stores channels nor fetches lists.
//
// Every returned channel has a valid scope. The named limits bound what is held in memory.
package listing

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"path"
	"slices"
	"strings"
	"time"

	"shoal/channel"
)

// Format is the format of a list.
type Format string

// The formats. Sitemaps can be read only.
const (
	CSV     Format = "csv"     // a header line names the columns; only url is needed
	JSON    Format = "jsonl"   // one object a line, with the fields of Record
	List    Format = "list"    // one URL a line; # begins a comment
	Sitemap Format = "sitemap" // one channel for each host named, with its URLs as seeds
	OPML    Format = "opml"    // one channel for each outline with an htmlUrl or xmlUrl
)

// Formats returns all formats.
func Formats() []Format { return []Format{CSV, JSON, List, Sitemap, OPML} }

// Limits of what is read.
const (
	MaxLine = 1 << 20 // bytes of a line
	MaxBad  = 20      // bad lines that are named
)

// The errors of a list.
var (
	ErrFormat = errors.New("listing: unknown format")
	ErrLine   = errors.New("listing: bad line")
)

// Record is a channel as lists and the API write it. Zero fields select the network's defaults.
type Record struct {
	ID        channel.ID `json:"id,omitempty"`
	URL       string     `json:"url"`             // the first seed; without host it also sets the reach, as in `shoal up URL`
	Host      string     `json:"host,omitempty"`  // https://example.org
	Dirs      []string   `json:"dirs,omitempty"`  // with host: the directories; none: the whole host
	Seeds     []string   `json:"seeds,omitempty"` // further ones
	Filters   []string   `json:"filters,omitempty"`
	Exclude   []string   `json:"exclude,omitempty"`
	Depth     int        `json:"depth,omitempty"`
	Order     string     `json:"order,omitempty"`
	Pages     int        `json:"pages,omitempty"`
	PageBytes int        `json:"page_bytes,omitempty"`
	Weight    float32    `json:"weight,omitempty"`
	TextOnly  bool       `json:"text_only,omitempty"`
	Group     int        `json:"group,omitempty"`
	State     string     `json:"state,omitempty"` // active or paused
	Reason    string     `json:"reason,omitempty"`
}

// The words for states.
const (
	Active  = "active"
	Paused  = "paused"
	GivenUp = "given up"
)

// Of returns the record of a channel.
func Of(ch *channel.Channel) Record {
	s := &ch.Settings
	r := Record{
		ID: ch.ID, Host: ch.Scope.Host, Dirs: ch.Scope.Dirs, Filters: ch.Scope.Filters, Exclude: ch.Scope.Exclude, Depth: ch.Scope.MaxDepth,
		Order: s.Order, Pages: s.Pages, PageBytes: s.PageBytes, Weight: s.Weight, TextOnly: s.TextOnly, Group: s.Group, State: Word(ch.State), Reason: ch.Reason,
	}
	if len(ch.Seeds) > 0 {
		r.URL, r.Seeds = ch.Seeds[0], ch.Seeds[1:]
	}
	return r
}

// Word returns the word for a channel's state.
func Word(s channel.State) string {
	switch s {
	case channel.Paused:
		return Paused
	case channel.Marked:
		return GivenUp
	case channel.Removed:
		return "removed"
	}
	return Active
}

// Channel returns a new channel made from the record.
func (r *Record) Channel(now time.Time) (channel.Channel, error) {
	ch := channel.Channel{State: channel.Active, Added: now}
	if r.URL == "" && r.Host != "" {
		r.URL = r.Host + "/"
		if len(r.Dirs) > 0 {
			r.URL = r.Host + r.Dirs[0]
		}
	}
	if r.URL == "" {
		return ch, fmt.Errorf("%w: no url", ErrLine)
	}
	scope, seed, err := channel.ScopeOf(r.URL)
	if err != nil {
		return ch, err
	}
	if r.Host != "" {
		scope = channel.Scope{Host: r.Host}
	}
	if r.Host != "" || len(r.Dirs) > 0 {
		dirs := slices.Clone(r.Dirs)
		for i, d := range dirs {
			dirs[i] = channel.Respell(d) // a list may be of a version before 0.2.0
		}
		setDirs(&scope, dirs)
	}
	ch.Scope, ch.Seeds = scope, []string{seed}
	for _, raw := range r.Seeds {
		u, err := channel.Canonical(raw)
		if err != nil {
			return ch, fmt.Errorf("seed: %w", err)
		}
		if !slices.Contains(ch.Seeds, u) {
			ch.Seeds = append(ch.Seeds, u)
		}
	}
	if err := r.settle(&ch); err != nil {
		return ch, err
	}
	return ch, Check(&ch)
}

// setDirs sets the directories of a scope, each once, and its kind.
func setDirs(s *channel.Scope, dirs []string) {
	s.Kind, s.Dirs = channel.Directories, nil
	seen := make(map[string]bool, len(dirs))
	for _, d := range dirs {
		if !seen[d] {
			seen[d], s.Dirs = true, append(s.Dirs, d)
		}
	}
	switch len(s.Dirs) {
	case 0:
		s.Kind = channel.WholeHost
	case 1:
		s.Kind = channel.Directory
	}
}

// settle copies the record's settings to a channel.
func (r *Record) settle(ch *channel.Channel) error {
	ch.Scope.Filters, ch.Scope.Exclude, ch.Scope.MaxDepth = r.Filters, r.Exclude, r.Depth
	ch.Settings = channel.Settings{Order: r.Order, Pages: r.Pages, PageBytes: r.PageBytes, Weight: r.Weight, TextOnly: r.TextOnly, Group: r.Group}
	ch.Reason = ""
	switch r.State {
	case "", Active, GivenUp: // what was given up begins anew
		ch.State = channel.Active
	case Paused:
		ch.State, ch.Reason = channel.Paused, r.Reason
	default:
		return fmt.Errorf("%w: state %q: want %s or %s", ErrLine, r.State, Active, Paused)
	}
	return nil
}

// Apply changes a stored channel to match the record, except for its id and host. One that was given up stays so unless the record has it active or paused.
func (r *Record) Apply(ch *channel.Channel) error {
	if r.Host != "" && r.Host != ch.Scope.Host {
		return fmt.Errorf("%w: a channel stays on its host, %s; add another one for %s", ErrLine, ch.Scope.Host, r.Host)
	}
	setDirs(&ch.Scope, r.Dirs)
	var seeds []string
	for _, raw := range append([]string{r.URL}, r.Seeds...) {
		if raw == "" {
			continue
		}
		u, err := channel.Canonical(raw)
		if err != nil {
			return fmt.Errorf("seed: %w", err)
		}
		seeds = append(seeds, u)
	}
	ch.Seeds = seeds
	state, reason := ch.State, ch.Reason
	if err := r.settle(ch); err != nil {
		return err
	}
	if state == channel.Marked && r.State == GivenUp {
		ch.State, ch.Reason = state, reason
	}
	return Check(ch)
}

// Limits of settings.
const (
	maxPages     = 1_000_000
	minPageBytes = 512 // less is no page: probably megabytes or kilobytes were meant
	maxPageBytes = channel.MaxPage
	MaxWeight    = 1e6
	maxGroup     = 64
)

// Check reports what is wrong with a channel's scope and settings.
func Check(ch *channel.Channel) error {
	s := &ch.Settings
	switch {
	case s.Pages < 0 || s.Pages > maxPages:
		return fmt.Errorf("%w: %d pages: want 0 (learnt) to %d", ErrLine, s.Pages, maxPages)
	case s.PageBytes != 0 && (s.PageBytes < minPageBytes || s.PageBytes > maxPageBytes):
		return fmt.Errorf("%w: page_bytes %d: want 0 (2 MiB), or %d to %d", ErrLine, s.PageBytes, minPageBytes, maxPageBytes)
	case !(s.Weight >= 0 && s.Weight <= MaxWeight):
		return fmt.Errorf("%w: weight %v: want 0 (as all) to %d", ErrLine, s.Weight, int(MaxWeight))
	case s.Group < 0 || s.Group > maxGroup:
		return fmt.Errorf("%w: group %d: want 1, the fastest, to as many as the strategy has, or 0 for the learnt one", ErrLine, s.Group)
	case len(ch.Seeds) == 0:
		return fmt.Errorf("%w: no seed", ErrLine)
	case len(ch.Seeds) > channel.MaxSeeds:
		return fmt.Errorf("%w: %d seeds, at most %d", ErrLine, len(ch.Seeds), channel.MaxSeeds)
	}
	m, err := ch.Scope.Compile()
	if err != nil {
		return err
	}
	for _, u := range ch.Seeds {
		if channel.Origin(u) != ch.Scope.Host {
			return fmt.Errorf("%w: seed %s is on another host than %s", ErrLine, u, ch.Scope.Host)
		}
	}
	_ = m // compiled so that a bad pattern is found here
	return nil
}

// Detect guesses a list's format from its name and its first bytes.
func Detect(name string, head []byte) Format {
	switch ext := strings.ToLower(path.Ext(name)); ext {
	case ".csv":
		return CSV
	case ".jsonl", ".ndjson", ".json":
		return JSON
	case ".opml":
		return OPML
	}
	head = bytes.TrimSpace(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf")))
	first, _, _ := bytes.Cut(head, []byte("\n"))
	switch {
	case bytes.Contains(head, []byte("<opml")):
		return OPML
	case bytes.Contains(head, []byte("<urlset")), bytes.Contains(head, []byte("<sitemapindex")), bytes.HasPrefix(head, []byte("<")):
		return Sitemap
	case bytes.HasPrefix(head, []byte("{")), beginsArray(head):
		return JSON
	case slices.Contains(columnsOf(string(first)), "url"), slices.Contains(strings.FieldsFunc(strings.ToLower(string(first)), betweenColumns), "url"):
		return CSV
	}
	return List
}

// betweenColumns are what other programs than ours may separate columns with.
func betweenColumns(r rune) bool { return r == ';' || r == '\t' }

// beginsArray tells the beginning of a JSON array from an IPv6 address in brackets.
func beginsArray(head []byte) bool {
	rest, ok := bytes.CutPrefix(head, []byte("["))
	rest = bytes.TrimLeft(rest, " \t\r\n")
	return ok && (len(rest) == 0 || strings.IndexByte(`{"]`, rest[0]) >= 0)
}

func columnsOf(header string) []string {
	out := strings.Split(header, ",")
	for i := range out {
		out[i] = strings.ToLower(strings.Trim(strings.TrimSpace(out[i]), `"`))
	}
	return out
}

// Read reads a list. A bad line has an Err. If the format allows it, reading continues after that line.
func Read(r io.Reader, f Format, now time.Time) (iter.Seq[channel.Line], error) {
	switch f {
	case CSV:
		return readCSV(r, now), nil
	case JSON:
		return readJSON(r, now), nil
	case List:
		return readList(r, now), nil
	case Sitemap:
		return readSitemap(r, now), nil
	case OPML:
		return readOPML(r, now), nil
	}
	var names []string
	for _, known := range Formats() {
		names = append(names, string(known))
	}
	return nil, fmt.Errorf("%w %q: lists are read as one of %s", ErrFormat, f, strings.Join(names, ", "))
}

// AllOrNothing passes lines on up to the first bad one. From then on it only collects the bad lines, up to MaxBad,
// and ends with one line whose Err names them all.
func AllOrNothing(lines iter.Seq[channel.Line]) iter.Seq[channel.Line] {
	return func(yield func(channel.Line) bool) {
		first, bad := 0, []string(nil)
		more := 0
		for l := range lines {
			switch {
			case l.Err == nil && first == 0:
				if !yield(l) {
					return
				}
			case l.Err != nil:
				if first == 0 {
					first = l.N
				}
				if len(bad) < MaxBad {
					bad = append(bad, fmt.Sprintf("line %d: %v", l.N, l.Err))
				} else {
					more++
				}
			}
		}
		if len(bad) == 0 {
			return
		}
		_, bad[0], _ = strings.Cut(bad[0], ": ") // the caller that reports Err adds the line
		if more > 0 {
			bad = append(bad, fmt.Sprintf("and %d more bad lines", more))
		}
		yield(channel.Line{N: first, Err: errors.New(strings.Join(bad, "\n"))})
	}
}
