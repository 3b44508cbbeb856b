package pages

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"shoal/channel"
	pb "shoal/manager/archive/archivepb"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/schema"
	"shoal/manager/archive/warc"
)

// cdxLine is the JSON of a CDXJ line, with the field names and types of CDXJ 0.1.0 (https://specs.webrecorder.net/cdxj/0.1.0/).
type cdxLine struct {
	URL      string `json:"url"`
	Mime     string `json:"mime"`
	Status   int    `json:"status"`
	Digest   string `json:"digest"`
	Length   int64  `json:"length"`
	Offset   int64  `json:"offset"`
	Filename string `json:"filename"`

	// Of our own; readers skip fields that they do not know.
	State        string `json:"state"`                   // provisional, verified or withdrawn: how far the version is believed
	Deliverer    string `json:"deliverer,omitempty"`     // number of the peer that delivered the capture
	ShowsVisitor bool   `json:"shows_visitor,omitempty"` // the page shows the address of a peer that fetched it
}

// Index is what a CDXJ index shall have.
type Index struct {
	URL    string // of one URL; empty: of everything
	Prefix bool   // of all that begin with URL
	Limit  int    // at most so many lines; 0: all
	Keys   Keys
	Filter // which captures
}

// CDXJ writes the index of captures as CDXJ, sorted. Captures are kept in an order that tells URLs apart which a searchable URL does not, so that they are
// sorted anew: in memory where they are few, in temporary files where they are many.
func (p *Pages) CDXJ(ctx context.Context, w io.Writer, x Index) error {
	if x.URL == "" && x.Prefix {
		return fmt.Errorf("%w: everything that begins with an address is asked for, and no address is named", channel.ErrURL)
	}
	keys, err := captures(x.URL, x.Prefix)
	if err != nil {
		return err
	}
	want, err := p.choose(ctx, x.Filter)
	if err != nil {
		return err
	}
	lines := lineSorter{run: maxSortRun}
	err = p.ledger.View(func(snap ledger.Snapshot) error {
		s, shown := standings{snap: snap}, statuses{}
		return scanAll(snap, keys, true, func(key, value []byte) (bool, error) {
			line, err := p.cdxLine(&s, shown, key, value, &want, x.Keys)
			if err != nil || line == nil {
				return true, err
			}
			return true, firstOf(lines.add(line), ctx.Err())
		})
	})
	if err == nil {
		err = lines.write(ctx, w, x.Limit)
	}
	if err = errors.Join(err, lines.close()); err != nil {
		return fmt.Errorf("write CDX index: %w", err)
	}
	return nil
}

// captures is how the keys of the captures begin: of one URL, of all that begin with it, or of everything if it is empty. A URL may be stored in more
// than one spelling.
func captures(rawURL string, prefix bool) (keys [][]byte, err error) {
	if rawURL == "" {
		return [][]byte{{schema.Capture}}, nil
	}
	urls, err := channel.Spellings(rawURL)
	if err != nil {
		return nil, err
	}
	for _, url := range urls {
		key := append([]byte{schema.Capture}, SURT(url)...)
		if !prefix {
			key = append(key, 0)
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// scanAll scans the keys that begin with one of some prefixes, prefix by prefix, until do says that it is enough.
func scanAll(snap ledger.Snapshot, prefixes [][]byte, values bool, do func(key, value []byte) (bool, error)) error {
	more := true
	for _, prefix := range prefixes {
		if !more {
			return nil
		}
		if err := snap.Scan(prefix, nil, values, func(key, value []byte) (bool, error) {
			var err error
			more, err = do(key, value)
			return more, err
		}); err != nil {
			return err
		}
	}
	return nil
}

// statuses tells by which status readers replay a capture. It is told of all captures in their order, in which those by http and https of the same host and
// path are mixed.
type statuses map[string]lastStatus // by scheme

type lastStatus struct {
	url    string
	status int // of the last capture of the page that was there
}

// of is the status of a capture. By 304 readers would replay no page, so that it is the status of what the host said is unchanged.
func (s statuses) of(url string, status int) int {
	scheme, _, _ := strings.Cut(url, ":")
	switch last := s[scheme]; {
	case status >= 200 && status < 300:
		s[scheme] = lastStatus{url, status}
	case status == http.StatusNotModified && last.url == url:
		return last.status
	case status == http.StatusNotModified: // the capture that it repeats was removed; only pages that are there are found unchanged
		return http.StatusOK
	}
	return status
}

// cdxLine makes one line; nil if its record was removed, or is not wanted.
func (p *Pages) cdxLine(s *standings, shown statuses, key, value []byte, want *chosen, keys Keys) ([]byte, error) {
	m := new(pb.Capture)
	if err := schema.Decode(value, m); err != nil {
		return nil, err
	}
	url := URLOfCapture(key)
	status := shown.of(url, int(m.Status))
	if !want.wants(m.Deliverer, m.ShowsVisitor) {
		return nil, nil
	}
	if err := s.look(url); err != nil {
		return nil, err
	}
	state, err := s.capture(key, m)
	if err != nil || !want.state(state) {
		return nil, err
	}
	at, err := p.Locate(s.snap, schema.Location(m.At))
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	place := p.segments.Place(at)
	_, when, _ := schema.CaptureOf(key)
	l := cdxLine{
		URL: url, Mime: m.Mime, Status: status, Digest: warc.Digest([32]byte(schema.Padded(m.Sha256))),
		Length: place.Length, Offset: place.Offset, Filename: place.Name,
		State: StateName(state), Deliverer: delivererOf(m.Deliverer), ShowsVisitor: m.ShowsVisitor,
	}
	if m.Revisit {
		l.Mime = "warc/revisit"
	}
	b, err := json.Marshal(l)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, "%s %s %s\n", keys.of(url), keys.time(when), b), nil
}

// EachURL calls do once for each URL that has a capture and begins with rawURL, until it has looked at most captures (0: at all). A URL that
// was fetched by both schemes may come more than once.
func (p *Pages) EachURL(ctx context.Context, rawURL string, most int, do func(url string)) error {
	keys, err := captures(rawURL, true)
	if err != nil {
		return err
	}
	err = p.ledger.View(func(snap ledger.Snapshot) error {
		last := ""
		return scanAll(snap, keys, false, func(key, _ []byte) (bool, error) {
			if url := URLOfCapture(key); url != last {
				last = url
				do(url)
			}
			most--
			return most != 0, ctx.Err()
		})
	})
	if err != nil {
		return fmt.Errorf("list stored pages below %s: %w", rawURL, err)
	}
	return nil
}
