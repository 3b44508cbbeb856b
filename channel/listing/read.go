package listing

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/net/html/charset"

	"shoal/channel"
	"shoal/channel/sitemap"
)

func line(n int, r *Record, now time.Time) channel.Line {
	ch, err := r.Channel(now)
	return channel.Line{N: n, Channel: ch, Err: err}
}

// errBinary is said of a whole file, once: what its lines lack would be a screen full of odd signs.
var errBinary = fmt.Errorf("%w: this is no text in UTF-8: a list is CSV, JSON lines, URLs, a sitemap or OPML", ErrLine)

// binary reports whether a line is of a file that is no text. Letters in an older encoding than UTF-8 are text.
func binary(b []byte) bool {
	return bytes.ContainsFunc(b, func(r rune) bool { return r < ' ' && !strings.ContainsRune("\t\r\f\v", r) })
}

// scanLines yields the lines that are not empty, with their numbers. It returns the number of the last line and any
// error.
func scanLines(r io.Reader, f func(n int, s []byte) bool) (n int, err error) {
	sc := bufio.NewScanner(r)
	sc.Buffer(make([]byte, 64<<10), MaxLine)
	for sc.Scan() {
		n++
		b := sc.Bytes()
		if n == 1 {
			b = []byte(strings.TrimPrefix(string(b), "\ufeff"))
		}
		if s := strings.TrimSpace(string(b)); s == "" {
			continue
		}
		if binary(b) {
			return n, errBinary
		}
		if !f(n, b) {
			return n, nil
		}
	}
	if err := sc.Err(); errors.Is(err, bufio.ErrTooLong) {
		return n + 1, fmt.Errorf("%w: longer than %d bytes", ErrLine, MaxLine)
	} else if err != nil {
		return n + 1, err
	}
	return n, nil
}

func readList(r io.Reader, now time.Time) iter.Seq[channel.Line] {
	return func(yield func(channel.Line) bool) {
		stopped := false
		n, err := scanLines(r, func(n int, b []byte) bool {
			s := strings.TrimSpace(string(b))
			if strings.HasPrefix(s, "#") {
				return true
			}
			if cut := strings.IndexAny(s, " \t"); cut > 0 && strings.HasPrefix(strings.TrimSpace(s[cut:]), "#") {
				s = s[:cut]
			}
			l := line(n, &Record{URL: s}, now)
			if l.Err == nil && strings.ContainsAny(s, " \t") { // else the second URL would be a part of the first one's path
				l = channel.Line{N: n, Err: fmt.Errorf("%w: %.120q is more than one word: write one URL a line, and %%20 for a space in it", ErrLine, s)}
			}
			stopped = !yield(l)
			return !stopped
		})
		if err != nil && !stopped {
			yield(channel.Line{N: n, Err: err})
		}
	}
}

// errArray is said of a whole file, once, as errBinary is.
var errArray = fmt.Errorf("%w: this is a JSON array: write one object a line, without brackets around them and commas between", ErrLine)

func readJSON(r io.Reader, now time.Time) iter.Seq[channel.Line] {
	return func(yield func(channel.Line) bool) {
		stopped, first := false, true
		n, err := scanLines(r, func(n int, b []byte) bool {
			if first && beginsArray(bytes.TrimSpace(b)) {
				stopped = true
				yield(channel.Line{N: n, Err: errArray})
				return false
			}
			first = false
			var rec Record
			l := channel.Line{N: n}
			if err := Decode(b, &rec); err != nil {
				l.Err = err
			} else {
				l = line(n, &rec, now)
			}
			stopped = !yield(l)
			return !stopped
		})
		if err != nil && !stopped {
			yield(channel.Line{N: n, Err: err})
		}
	}
}

// columns are the columns of a CSV file and how they are read and written. A cell holds a list with one item per
// line.
var columns = []struct {
	name string
	read func(*Record, string) error
	text func(*Record) string
}{
	{"id", func(r *Record, s string) error { return nil }, func(r *Record) string { return strconv.FormatUint(uint64(r.ID), 10) }},
	{"url", func(r *Record, s string) error { r.URL = s; return nil }, func(r *Record) string { return r.URL }},
	{"host", func(r *Record, s string) error { r.Host = s; return nil }, func(r *Record) string { return r.Host }},
	{"dirs", texts(func(r *Record) *[]string { return &r.Dirs }), joined(func(r *Record) []string { return r.Dirs })},
	{"state", func(r *Record, s string) error { r.State = s; return nil }, func(r *Record) string { return r.State }},
	{"weight", func(r *Record, s string) error {
		w, err := strconv.ParseFloat(s, 32)
		r.Weight = float32(w)
		return err
	}, func(r *Record) string {
		if r.Weight == 0 {
			return ""
		}
		return strconv.FormatFloat(float64(r.Weight), 'g', -1, 32)
	}},
	{"order", func(r *Record, s string) error { r.Order = s; return nil }, func(r *Record) string { return r.Order }},
	{"pages", number(func(r *Record) *int { return &r.Pages }), digits(func(r *Record) int { return r.Pages })},
	{"page_bytes", number(func(r *Record) *int { return &r.PageBytes }), digits(func(r *Record) int { return r.PageBytes })},
	{"depth", number(func(r *Record) *int { return &r.Depth }), digits(func(r *Record) int { return r.Depth })},
	{"group", number(func(r *Record) *int { return &r.Group }), digits(func(r *Record) int { return r.Group })},
	{"text_only", func(r *Record, s string) (err error) { r.TextOnly, err = strconv.ParseBool(s); return err }, func(r *Record) string {
		if r.TextOnly {
			return "true"
		}
		return ""
	}},
	{"filters", texts(func(r *Record) *[]string { return &r.Filters }), joined(func(r *Record) []string { return r.Filters })},
	{"exclude", texts(func(r *Record) *[]string { return &r.Exclude }), joined(func(r *Record) []string { return r.Exclude })},
	{"seeds", texts(func(r *Record) *[]string { return &r.Seeds }), joined(func(r *Record) []string { return r.Seeds })},
	{"reason", func(r *Record, s string) error { r.Reason = s; return nil }, func(r *Record) string { return r.Reason }},
}

// wantedIn words what a column holds that does not take every text.
func wantedIn(column string) string {
	switch column {
	case "weight":
		return "a number"
	case "text_only":
		return "true or false"
	}
	return "a whole number"
}

func texts(at func(*Record) *[]string) func(*Record, string) error {
	return func(r *Record, s string) error {
		for _, part := range strings.Split(s, "\n") {
			if part = strings.TrimSpace(part); part != "" {
				*at(r) = append(*at(r), part)
			}
		}
		return nil
	}
}

func joined(of func(*Record) []string) func(*Record) string {
	return func(r *Record) string { return strings.Join(of(r), "\n") }
}

func number(at func(*Record) *int) func(*Record, string) error {
	return func(r *Record, s string) (err error) { *at(r), err = strconv.Atoi(s); return err }
}

func digits(of func(*Record) int) func(*Record) string {
	return func(r *Record) string {
		if of(r) == 0 {
			return ""
		}
		return strconv.Itoa(of(r))
	}
}

func readCSV(r io.Reader, now time.Time) iter.Seq[channel.Line] {
	return func(yield func(channel.Line) bool) {
		c := csv.NewReader(r)
		c.FieldsPerRecord, c.ReuseRecord = -1, true
		header, err := c.Read()
		if err != nil {
			yield(channel.Line{N: 1, Err: fmt.Errorf("%w: no header line: %w", ErrLine, err)})
			return
		}
		if first := strings.Join(header, ""); strings.ContainsRune(first, 0) || !utf8.ValidString(first) {
			yield(channel.Line{N: 1, Err: errBinary})
			return
		}
		at := make([]int, len(header)) // column by place
		for i, h := range header {
			name := strings.ToLower(strings.TrimSpace(strings.TrimPrefix(h, "\ufeff")))
			at[i] = -1
			for k := range columns {
				if columns[k].name == name {
					at[i] = k
				}
			}
			if at[i] >= 0 && slices.Contains(at[:i], at[i]) {
				yield(channel.Line{N: 1, Err: fmt.Errorf("%w: the header line names the column %s twice", ErrLine, name)})
				return
			}
			if at[i] < 0 {
				why := fmt.Errorf("%w: no such column %.120q; there are %s", ErrLine, name, columnNames())
				if strings.ContainsAny(name, ";\t") {
					why = fmt.Errorf("%w: the header line %.120q has no commas: columns are separated by commas", ErrLine, name)
				}
				yield(channel.Line{N: 1, Err: why})
				return
			}
		}
		if !slices.ContainsFunc(at, func(k int) bool { return columns[k].name == "url" || columns[k].name == "host" }) {
			yield(channel.Line{N: 1, Err: fmt.Errorf("%w: the header line names no column url", ErrLine)})
			return
		}
		for {
			cells, err := c.Read()
			if errors.Is(err, io.EOF) {
				return
			}
			var bad *csv.ParseError
			if errors.As(err, &bad) {
				yield(channel.Line{N: bad.StartLine, Err: fmt.Errorf("%w: %w", ErrLine, bad.Err)})
				return // quotes that do not match make nonsense of what follows
			}
			n, _ := c.FieldPos(0)
			if err != nil {
				yield(channel.Line{N: n, Err: err})
				return
			}
			if !yield(csvLine(n, cells, at, now)) {
				return
			}
		}
	}
}

func csvLine(n int, cells []string, at []int, now time.Time) channel.Line {
	if len(cells) > len(at) {
		return channel.Line{N: n, Err: fmt.Errorf("%w: %d cells under %d columns", ErrLine, len(cells), len(at))}
	}
	var rec Record
	for i, cell := range cells {
		if cell = strings.TrimSpace(cell); cell == "" {
			continue
		}
		if err := columns[at[i]].read(&rec, cell); err != nil {
			return channel.Line{N: n, Err: fmt.Errorf("%w: %s: want %s, not %.40q", ErrLine, columns[at[i]].name, wantedIn(columns[at[i]].name), cell)}
		}
	}
	return line(n, &rec, now)
}

func columnNames() string {
	names := make([]string, len(columns))
	for i := range columns {
		names[i] = columns[i].name
	}
	return strings.Join(names, ", ")
}

// readOPML reads outlines at any depth.
func readOPML(r io.Reader, now time.Time) iter.Seq[channel.Line] {
	return func(yield func(channel.Line) bool) {
		d := xml.NewDecoder(io.LimitReader(r, maxXML))
		d.CharsetReader = charset.NewReaderLabel
		for {
			t, err := d.Token()
			n, _ := d.InputPos()
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(channel.Line{N: n, Err: fmt.Errorf("%w: %w", ErrLine, err)})
				return
			}
			s, ok := t.(xml.StartElement)
			if !ok || !strings.EqualFold(s.Name.Local, "outline") {
				continue
			}
			var html, feed string
			for _, a := range s.Attr {
				switch strings.ToLower(a.Name.Local) {
				case "htmlurl", "url":
					html = strings.TrimSpace(a.Value)
				case "xmlurl":
					feed = strings.TrimSpace(a.Value)
				}
			}
			if html == "" && feed == "" {
				continue // a folder
			}
			rec := Record{URL: html}
			if html == "" {
				rec.URL = feed
			}
			if feed != "" && html != "" && sameOrigin(feed, html) {
				rec.Seeds = []string{feed}
			}
			if !yield(line(n, &rec, now)) {
				return
			}
		}
	}
}

func sameOrigin(a, b string) bool {
	x, errX := channel.Canonical(a)
	y, errY := channel.Canonical(b)
	return errX == nil && errY == nil && channel.Origin(x) == channel.Origin(y)
}

const (
	maxXML     = 1 << 30   // bytes of an OPML file
	maxSitemap = 100 << 20 // bytes of a sitemap, which is read as a whole; the protocol allows 50 MiB
)

// readSitemap returns one channel for each host in a sitemap. It covers the whole host and has the first URLs as
// seeds.
func readSitemap(r io.Reader, now time.Time) iter.Seq[channel.Line] {
	return func(yield func(channel.Line) bool) {
		fail := func(n int, why string) { yield(channel.Line{N: n, Err: fmt.Errorf("%w: %s", ErrLine, why)}) }
		text, err := io.ReadAll(io.LimitReader(r, maxSitemap+1))
		if err != nil {
			yield(channel.Line{N: 1, Err: err})
			return
		}
		if len(text) > maxSitemap {
			fail(1, fmt.Sprintf("a sitemap of more than %d MiB: cut it into several", maxSitemap>>20))
			return
		}
		doc := sitemap.Open(text, "")
		switch doc.Kind {
		case sitemap.Index:
			fail(1, "this is an index of sitemaps: fetch the sitemaps that it names, and import them")
			return
		case sitemap.Feed:
			fail(1, "this is a feed: add its site instead")
			return
		}
		type site struct {
			n     int
			seeds []string
		}
		sites := map[string]*site{}
		var order []string
		var torn, bad bool
		for e := range doc.Entries(&torn) {
			u, err := channel.Canonical(e.URL)
			if err != nil {
				bad = true
				if !yield(channel.Line{N: e.Line, Err: err}) {
					return
				}
				continue
			}
			host := channel.Origin(u)
			x := sites[host]
			if x == nil {
				x = &site{n: e.Line}
				sites[host] = x
				order = append(order, host)
			}
			if len(x.seeds) < channel.MaxSeeds {
				x.seeds = append(x.seeds, u)
			}
		}
		if torn {
			fail(1+bytes.Count(text, []byte("\n")), "the sitemap ends within an entry: fetch it again")
			return
		}
		for _, host := range order {
			x := sites[host]
			if !yield(line(x.n, &Record{URL: x.seeds[0], Host: host, Seeds: x.seeds[1:]}, now)) {
				return
			}
		}
		switch {
		case len(order) > 0 || bad:
		case isHTML(text):
			fail(1, "this is a page of the Web, and no list: a list is CSV, JSON lines, URLs, a sitemap or OPML")
		default:
			fail(1, "no <loc> in it: is it a sitemap?")
		}
	}
}

// isHTML reports whether a text begins as pages of the Web do.
func isHTML(text []byte) bool {
	head := bytes.ToLower(bytes.TrimSpace(text[:min(len(text), 1024)]))
	return bytes.HasPrefix(head, []byte("<!doctype html")) || bytes.HasPrefix(head, []byte("<html"))
}
