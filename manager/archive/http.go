package archive

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"shoal/channel"
	"shoal/manager/archive/pages"
	"shoal/manager/archive/warc"
)

// Limits of the HTTP side.
const (
	maxHTTPChanges = 1000
	maxHTTPWait    = 55 * time.Second // below what proxies allow
)

// Headers of answers.
const (
	CursorHeader = "Shoal-Cursor" // the cursor for the next request
	MimeHeader   = "Shoal-Mime"   // the type that a page was taken for, without parameters; empty: its header names none
)

// Handler serves what the archive holds to indexers and operators; who may ask is the caller's to decide. Paths:
//
//	GET /changes?cursor=&limit=&wait=30s&text=1&body=1   the change feed, one JSON Line a line; the next cursor is in Shoal-Cursor
//	GET /page?url=&at=                                   a page as it was, with its own Content-Type
//	GET /export?since=&format=warc|json|text&limit=      an export; the next cursor is in the trailer Shoal-Cursor
//	GET /cdx?url=&prefix=1&limit=&keys=                  the CDX index as CDXJ lines
//	GET /stats                                           what it holds, as JSON
//	POST /verify                                         reads everything; Checking lines as it goes on, the last one with Verified
//	POST /compact?captures=&age=&feed=&share=&dry=       forgets, then rewrites files; a Tidied as JSON. With dry=1 it only counts
//
// Of changes, export and cdx deliverer= wants only what that peer or account has delivered, and without_visitors=1 leaves out pages that show the address of
// a peer that fetched them. What was withdrawn is left out. verified=1 wants only what another account in another network saw alike: of the feed the verified
// events, in place of created and changed, and unverified when that is so no more. all=1 wants everything: what was withdrawn, and verified and unverified events too.
//
// Without a cursor changes and export begin with the oldest change; or, where retention has taken some from the feed, with all pages that are there.
// A cursor lasts as long as the feed keeps entries (Retention.Feed); a client that commits the cursor together with what it did sees
// every change exactly once.
func (a *Archive) Handler() http.Handler {
	m := http.NewServeMux()
	m.HandleFunc("GET /changes", a.serveChanges)
	m.HandleFunc("GET /page", a.servePage)
	m.HandleFunc("GET /export", a.serveExport)
	m.HandleFunc("GET /cdx", a.serveCDX)
	m.HandleFunc("GET /stats", a.serveStats)
	m.HandleFunc("POST /verify", a.serveVerify)
	m.HandleFunc("POST /compact", a.serveCompact)
	return m
}

// refuse answers an error, as JSON like the rest of the operator's interface.
func refuse(w http.ResponseWriter, err error) {
	code := http.StatusInternalServerError
	switch {
	case errors.Is(err, ErrNotFound):
		code = http.StatusNotFound
	case errors.Is(err, ErrCursor), errors.Is(err, ErrFormat), errors.Is(err, pages.ErrNoBody), errors.Is(err, ErrDeliverer), errors.Is(err, channel.ErrURL), errors.Is(err, errParam):
		code = http.StatusBadRequest
	case errors.Is(err, ErrTrimmed):
		code = http.StatusGone
	case errors.Is(err, ErrClosed), errors.Is(err, ErrBehind):
		code = http.StatusServiceUnavailable
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": err.Error()}) // the client may be gone
}

// filterOf reads which captures or changes are wanted.
func filterOf(r *http.Request) Filter {
	q := r.URL.Query()
	return Filter{Deliverer: q.Get("deliverer"), WithoutVisitors: q.Get("without_visitors") == "1", Verified: q.Get("verified") == "1", All: q.Get("all") == "1"}
}

// errParam is wrapped for a request's parameters.
var errParam = errors.New("archive: bad parameter")

// number reads a parameter that is a number from 1 to most.
func number(r *http.Request, name string, most int) (int, error) {
	s := r.URL.Query().Get(name)
	if s == "" {
		return most, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%w: %s=%.20q is no positive number", errParam, name, s)
	}
	return min(n, most), nil
}

func (a *Archive) serveChanges(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	limit, err := number(r, "limit", maxHTTPChanges)
	var wait time.Duration
	if s := q.Get("wait"); s != "" && err == nil {
		if wait, err = time.ParseDuration(s); err != nil || wait < 0 {
			err = fmt.Errorf("%w: wait=%.20q is no duration, as in 30s", errParam, s)
		}
	}
	if err != nil {
		refuse(w, err)
		return
	}
	timeout := time.NewTimer(min(wait, maxHTTPWait))
	defer timeout.Stop()
	for cursor := q.Get("cursor"); ; {
		more := a.Notify()
		changes, next, err := a.ChangesOf(r.Context(), cursor, limit, filterOf(r))
		if err != nil {
			refuse(w, err)
			return
		}
		if len(changes) == 0 && wait > 0 {
			cursor = next // what is not wanted need not be looked at again
			select {
			case <-more:
				continue
			case <-r.Context().Done():
				return
			case <-timeout.C:
			}
		}
		lines := make([]Line, 0, len(changes))
		for _, c := range changes {
			l, err := a.Line(c, q.Get("text") == "1", q.Get("body") == "1")
			if err != nil {
				refuse(w, err)
				return
			}
			lines = append(lines, l)
		}
		w.Header().Set("Content-Type", "application/x-ndjson")
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set(CursorHeader, next)
		enc := json.NewEncoder(w)
		for _, l := range lines {
			if enc.Encode(l) != nil {
				return // the client is gone
			}
		}
		return
	}
}

func (a *Archive) servePage(w http.ResponseWriter, r *http.Request) {
	at, err := ParseTime(r.URL.Query().Get("at"))
	if err != nil {
		refuse(w, err)
		return
	}
	c, err := a.Get(r.Context(), r.URL.Query().Get("url"), at)
	if err != nil {
		refuse(w, err)
		return
	}
	h := w.Header()
	h.Set("Content-Type", contentType(&c))
	h.Set("Memento-Datetime", c.Fetched.Format(http.TimeFormat))
	h.Set("Shoal-Status", strconv.Itoa(c.Status))
	h.Set("Shoal-Fetched", c.Fetched.Format(time.RFC3339Nano))
	h.Set("Shoal-State", c.State)
	h.Set(MimeHeader, c.Mime)
	if c.Deliverer != "" {
		h.Set("Shoal-Deliverer", c.Deliverer)
	}
	if c.ShowsVisitor {
		h.Set("Shoal-Shows-Visitor", "true")
	}
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "sandbox") // a stored page must not act as the operator
	h.Set("Content-Disposition", "attachment")
	_, _ = w.Write(c.Body) // the client may be gone
}

// contentType is the type of a page as its server told it, with the charset, without which the page's text is unreadable. A field that names no type, or another than the
// page was taken for, is not passed on.
func contentType(c *Capture) string {
	own := warc.FieldList(c.Header, "Content-Type")
	switch {
	case c.Mime == "":
		return "application/octet-stream"
	case pages.MediaType(c.Header) != c.Mime || !channel.IsFieldValue(own):
		return c.Mime
	}
	return own
}

// ParseTime reads a time as people give it: RFC 3339, a date, or the 14 digits of web archives, or 17 with milliseconds. Empty: zero. A time without a fraction is the whole second,
// as the index tells it: what was fetched within that second was there then. So it is with minutes and days.
func ParseTime(s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if digits := "20060102150405"; len(s) == len(digits)+3 && !strings.ContainsAny(s, ".,") {
		if t, err := time.Parse(digits+".000", s[:len(digits)]+"."+s[len(digits):]); err == nil {
			return t.UTC().Add(time.Millisecond - time.Microsecond), nil
		}
	}
	for _, form := range []struct {
		layout string
		whole  time.Duration
	}{
		{time.RFC3339Nano, time.Second}, {"2006-01-02T15:04:05", time.Second}, {"2006-01-02 15:04:05", time.Second}, {"2006-01-02 15:04", time.Minute},
		{"20060102150405", time.Second}, {time.DateOnly, 24 * time.Hour},
	} {
		t, err := time.Parse(form.layout, s)
		switch {
		case err != nil:
		case strings.Contains(s, "."): // as exact as it is written
			return t.UTC(), nil
		default:
			return t.UTC().Add(form.whole - time.Microsecond), nil
		}
	}
	return time.Time{}, fmt.Errorf("%w: %.40q is no time: write 2026-05-01, 2026-05-01T12:00:00Z or 20260501120000", errParam, s)
}

func (a *Archive) serveExport(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	o := ExportOptions{Since: q.Get("since"), Format: Format(q.Get("format")), Body: q.Get("body") == "1", Filter: filterOf(r)}
	if o.Format == "" {
		o.Format = FormatJSON
	}
	var err error
	if q.Get("limit") != "" {
		o.Limit, err = number(r, "limit", 1<<30)
	}
	if err == nil { // before anything is written
		_, err = a.Export(r.Context(), io.Discard, ExportOptions{Since: o.Since, Format: o.Format, Body: o.Body, Limit: 1, Filter: Filter{Deliverer: o.Deliverer}})
	}
	if err != nil {
		refuse(w, err)
		return
	}
	w.Header().Set("Trailer", CursorHeader)
	w.Header().Set("Content-Type", map[Format]string{
		FormatWARC: "application/warc", FormatJSON: "application/x-ndjson", FormatText: "text/plain; charset=utf-8",
	}[o.Format])
	next, err := a.Export(r.Context(), w, o)
	w.Header().Set(CursorHeader, next)
	if err != nil && r.Context().Err() == nil {
		a.cfg.Log.Error("an export broke off", "since", o.Since, "whole up to", next, "err", err)
		panic(http.ErrAbortHandler) // the client must see that it is not whole
	}
}

func (a *Archive) serveCDX(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	limit := 0
	var err error
	if q.Get("limit") != "" {
		limit, err = number(r, "limit", 1<<30)
	}
	if err != nil {
		refuse(w, err)
		return
	}
	keys, err := pages.ParseKeys(q.Get("keys"))
	if err != nil {
		refuse(w, fmt.Errorf("%w: keys: %w", errParam, err))
		return
	}
	w.Header().Set("Content-Type", "text/x-cdxj")
	lines := begun{to: w}
	err = a.CDXJ(r.Context(), &lines, pages.Index{URL: q.Get("url"), Prefix: q.Get("prefix") == "1", Limit: limit, Keys: keys, Filter: filterOf(r)})
	switch {
	case err == nil || r.Context().Err() != nil:
	case lines.any:
		a.cfg.Log.Error("an index broke off", "url", q.Get("url"), "err", err)
		panic(http.ErrAbortHandler) // the client must see that it is not whole
	default:
		refuse(w, err)
	}
}

// begun knows whether anything was written: an answer's status can no longer be chosen then.
type begun struct {
	to  io.Writer
	any bool
}

func (b *begun) Write(p []byte) (int, error) {
	b.any = true
	return b.to.Write(p)
}
