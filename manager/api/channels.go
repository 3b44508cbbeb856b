package api

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"time"

	"shoal/channel"
	"shoal/channel/listing"
	"shoal/manager/desk"
)

// Rows is a part of the list of channels.
type Rows struct {
	Channels []desk.Row `json:"channels"`
	Total    int        `json:"total"`
	From     int        `json:"from"`
}

func (s *server) channels(_ http.ResponseWriter, r *http.Request) (any, error) {
	from, err := number(r, "from", 0, math.MaxInt32)
	n, err2 := number(r, "n", 50, maxList)
	if err = errors.Join(err, err2); err != nil {
		return nil, err
	}
	q := r.URL.Query()
	rows, total, err := s.cfg.Desk.Rows(r.Context(), desk.Find{Text: q.Get("q"), State: q.Get("state"), Sort: q.Get("sort"), From: from, N: n})
	return Rows{rows, total, from}, err
}

// Imported is what became of an import.
type Imported struct {
	Added      int     `json:"added"`
	Duplicates int     `json:"duplicates"`
	Blocked    int     `json:"blocked,omitempty"` // of those added, on blocked hosts
	Refused    []Taken `json:"refused"`           // the first of the duplicates
	New        []Taken `json:"new"`               // the first of those added
}

// Taken is a line whose scope a channel has already.
type Taken struct {
	Line    int        `json:"line"`
	Channel channel.ID `json:"channel"`
}

func (s *server) importList(_ http.ResponseWriter, r *http.Request) (any, error) {
	in := bufio.NewReaderSize(r.Body, 64<<10)
	f := listing.Format(r.URL.Query().Get("format"))
	if f == "" {
		head, err := in.Peek(1024)
		switch {
		case len(head) > 0:
		case errors.Is(err, io.EOF):
			return nil, errEmpty
		default:
			return nil, fmt.Errorf("%w: the list cannot be read: %w", errAsk, err)
		}
		f = listing.Detect(r.URL.Query().Get("name"), head)
	}
	lines, err := listing.Read(in, f, time.Now())
	if err != nil {
		return nil, err
	}
	var first []channel.Line
	done, err := s.cfg.Desk.Import(r.Context(), func(yield func(channel.Line) bool) {
		for l := range lines {
			if l.Err == nil && len(first) < mostNamed {
				first = append(first, l)
			}
			if !yield(l) {
				return
			}
		}
	})
	if err != nil {
		if strings.HasPrefix(err.Error(), "line ") { // of the list: the asker's to mend
			err = badList{fmt.Errorf("nothing was imported: %w", err)}
		}
		return nil, err
	}
	if done.Added+done.Duplicates == 0 {
		return nil, errEmpty
	}
	out := Imported{Added: done.Added, Duplicates: done.Duplicates, Blocked: done.Blocked, Refused: []Taken{}, New: []Taken{}}
	there := map[int]bool{}
	for _, d := range done.Refused {
		out.Refused = append(out.Refused, Taken{d.N, d.ID})
		there[d.N] = true
	}
	for _, l := range first {
		if there[l.N] {
			continue
		}
		id, err := s.cfg.Desk.Lookup(r.Context(), &l.Channel.Scope)
		if err != nil {
			return nil, err
		}
		out.New = append(out.New, Taken{l.N, id})
	}
	return out, nil
}

// errEmpty is an import that asks for nothing.
var errEmpty = fmt.Errorf("%w: nothing was imported: the list names no site", errAsk)

// mostNamed is how many new channels of an import are named.
const mostNamed = 100

// badList is an error that the sender of the list can mend.
type badList struct{ error }

func (b badList) Unwrap() []error { return []error{errAsk, b.error} }

var listTypes = map[listing.Format]string{
	listing.CSV: "text/csv; charset=utf-8", listing.JSON: "application/x-ndjson", listing.List: "text/plain; charset=utf-8", listing.OPML: "text/x-opml; charset=utf-8",
}

func (s *server) exportList(w http.ResponseWriter, r *http.Request) (any, error) {
	f := listing.Format(r.URL.Query().Get("format"))
	if f == "" {
		f = listing.JSON
	}
	kind, ok := listTypes[f]
	if !ok {
		return nil, fmt.Errorf("%w %q: lists are written as csv, jsonl, list or opml", listing.ErrFormat, f)
	}
	w.Header().Set("Content-Type", kind)
	out, err := listing.NewWriter(w, f)
	if err == nil {
		err = s.cfg.Desk.Each(r.Context(), r.URL.Query().Get("q"), out.Write)
	}
	if err == nil {
		err = out.Close()
	}
	if err != nil {
		s.cfg.Log.Warn("export broke off", "err", err)
		panic(http.ErrAbortHandler) // the reader must see that it is not complete
	}
	return streamed{}, nil
}

// Detail is one channel.
type Detail struct {
	Channel listing.Record `json:"channel"`
	Row     desk.Row       `json:"now"`
	Inter   []string       `json:"found_elsewhere,omitempty"` // URLs into it that other sites' crawls found
	Events  []desk.Event   `json:"events"`

	// LeftOut are directories of it that nothing crawls once it is removed.
	LeftOut []desk.LeftOut `json:"others_leave_out,omitempty"`
}

func (s *server) channel(_ http.ResponseWriter, r *http.Request) (any, error) {
	id, err := idOf(r)
	if err != nil {
		return nil, err
	}
	ch, err := s.cfg.Desk.Channel(r.Context(), id)
	if err != nil {
		return nil, err
	}
	row, events, err := s.cfg.Desk.Row(r.Context(), id)
	if err != nil {
		return nil, err
	}
	left, err := s.cfg.Desk.LeftOut(r.Context(), id)
	return Detail{listing.Of(&ch), row, ch.Inter, events, left}, err
}

// edit changes the fields that the body names, and no others.
func (s *server) edit(_ http.ResponseWriter, r *http.Request) (any, error) {
	id, err := idOf(r)
	if err != nil {
		return nil, err
	}
	ch, err := s.cfg.Desk.Channel(r.Context(), id)
	if err != nil {
		return nil, err
	}
	rec := listing.Of(&ch)
	if err := changes(r, &rec); err != nil {
		return nil, err
	}
	if rec.ID != id {
		return nil, fmt.Errorf("%w: a channel's number cannot be changed", errAsk)
	}
	after, err := s.cfg.Desk.Edit(r.Context(), id, rec.Apply)
	return listing.Of(&after), err
}

func (s *server) remove(_ http.ResponseWriter, r *http.Request) (any, error) {
	id, err := idOf(r)
	if err != nil {
		return nil, err
	}
	return nil, s.cfg.Desk.Remove(r.Context(), id)
}

func (s *server) crawlNow(_ http.ResponseWriter, r *http.Request) (any, error) {
	id, err := idOf(r)
	if err != nil {
		return nil, err
	}
	return nil, s.cfg.Desk.CrawlNow(r.Context(), id)
}

func (s *server) pause(paused bool) handler {
	return func(_ http.ResponseWriter, r *http.Request) (any, error) {
		id, err := idOf(r)
		if err != nil {
			return nil, err
		}
		return nil, s.cfg.Desk.Pause(r.Context(), id, paused)
	}
}

// Proposal is what a large channel could be split into.
type Proposal struct {
	Dirs []desk.DirCount `json:"dirs"`
	All  int             `json:"pages"` // of the channel, that the archive knows
}

func (s *server) proposeSplit(_ http.ResponseWriter, r *http.Request) (any, error) {
	id, err := idOf(r)
	if err != nil {
		return nil, err
	}
	dirs, all, err := s.cfg.Desk.Proposals(r.Context(), id)
	if dirs == nil {
		dirs = []desk.DirCount{}
	}
	return Proposal{dirs, all}, err
}

// Split names the directories that become channels of their own; none: those that are proposed.
type Split struct {
	Dirs []string `json:"dirs"`
}

// SplitDone names the new channels.
type SplitDone struct {
	Channels []channel.ID `json:"channels"`
	Dirs     []string     `json:"dirs"`
}

func (s *server) split(_ http.ResponseWriter, r *http.Request) (any, error) {
	id, err := idOf(r)
	if err != nil {
		return nil, err
	}
	var ask Split
	if err := body(r, &ask); err != nil {
		return nil, err
	}
	ids, dirs, err := s.cfg.Desk.Split(r.Context(), id, ask.Dirs)
	if ids == nil {
		ids, dirs = []channel.ID{}, []string{}
	}
	return SplitDone{ids, dirs}, err
}
