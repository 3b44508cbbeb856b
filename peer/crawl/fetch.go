package crawl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"shoal/channel"
	"shoal/channel/markup"
)

// response is the result of one request.
type response struct {
	it        item
	status    int
	header    http.Header
	raw       []byte // header as received, if the protocol has such a form
	body      []byte // decoded; valid until the next response, as raw is
	rest      packed // what comes behind body, if the request was for a long one
	truncated bool
	err       error
	at        time.Time     // when it was sent
	rtt       time.Duration // until the header had come
	stopped   bool          // Before refused: nothing was sent
	title     string        // of an HTML page
}

// fetcher sends one request at a time over one connection, and keeps the pace. A request has two halves: begin sends it, end reads the
// response. Between them, while the host works, the caller may do something else. Owned by the session.
type fetcher struct {
	cfg     *Config
	line    *line // nil: none
	request []byte
	fields  http.Header
	decoder decoder
	buf     []byte // the last body
	raw     []byte // the last header
	pace    pace
	at      string       // the host whose turn it has; empty: none
	rtt     atomic.Int64 // shortest TCP handshake, ns; 0: none yet
	read    atomic.Int64 // bytes received
	now     response     // the request that has begun
	asks    http.Header  // fields of that request

	validate map[uint64]*channel.Validator
	// conditional requests are allowed: no page is found only by the links of a page that may be unchanged.
	conditional bool
}

func newFetcher(cfg *Config) *fetcher {
	f := &fetcher{
		cfg: cfg,
		fields: http.Header{
			"User-Agent": {cfg.UserAgent}, "Accept-Encoding": {acceptEncoding},
			"Accept": {"text/html,application/xhtml+xml,application/xml;q=0.9,text/*;q=0.8,*/*;q=0.5"},
		},
		pace:     pace{off: cfg.Unpaced, gap: max(cfg.gap(), min(cfg.Header.Gap, MaxGap))},
		validate: make(map[uint64]*channel.Validator, len(cfg.Body.Validators)),
	}
	if !cfg.After.IsZero() {
		f.pace.next = cfg.After.Add(f.pace.gap)
	}
	for i := range cfg.Body.Validators {
		v := &cfg.Body.Validators[i]
		f.validate[v.URL] = v
	}
	return f
}

func (f *fetcher) close() {
	f.giveTurn()
	f.hangUp()
	f.decoder.close()
}

func (f *fetcher) hangUp() {
	if f.line != nil {
		f.line.hangUp()
		f.line = nil
	}
}

// conditions gives the fields of a request, with validators if there are any and conditional requests are allowed.
func (f *fetcher) conditions(it item) http.Header {
	v := f.validate[it.hash]
	if v == nil || !f.conditional {
		return f.fields
	}
	h := f.fields.Clone()
	if v.ETag != "" {
		h["If-None-Match"] = []string{v.ETag}
	}
	if v.LastModified != "" {
		h["If-Modified-Since"] = []string{v.LastModified}
	}
	return h
}

// get waits for its turn and fetches one URL. It does not follow redirects.
func (f *fetcher) get(ctx context.Context, it item, fields http.Header, limit int) response {
	f.begin(ctx, it, fields)
	return f.end(ctx, limit)
}

// overlaps reports whether begin may send a request now, without a wait, and end may read the response later.
func (f *fetcher) overlaps() bool {
	return f.line != nil && f.line.h2 == nil && (f.pace.off || time.Until(f.pace.next) <= 0)
}

// begin waits for its turn and sends the request for one URL. The caller calls end next, which reports errors of both halves.
func (f *fetcher) begin(ctx context.Context, it item, fields http.Header) {
	f.now, f.asks = response{it: it}, fields
	r := &f.now
	// Checking the connection takes a moment. That moment is part of the wait, so that the gap stays exact.
	err := f.pace.wait(ctx, f.cfg.Stop, aliveCheck)
	if origin := channel.Origin(it.url); err == nil && f.line != nil && (f.line.origin != origin || !f.line.alive()) {
		f.hangUp()
	}
	if err == nil {
		err = f.pace.wait(ctx, f.cfg.Stop, 0)
	}
	if err != nil {
		r.err, r.stopped = err, true
		return
	}
	r.at = time.Now()
	if !f.turn(ctx, r) {
		return
	}
	r.at = time.Now()
	if f.line.h2 == nil {
		f.request = appendRequest(f.request[:0], it.url, fields)
		r.err = f.line.send(f.request)
	}
}

// ready opens a connection if there is none, and asks Before. It asks before it dials and again before the request is sent, since a dial may
// take half a minute.
func (f *fetcher) ready(ctx context.Context, r *response) bool {
	for {
		if f.cfg.Before != nil {
			asked := time.Now()
			if err := f.cfg.Before(ctx); err != nil {
				r.err, r.stopped = err, true
				return false
			}
			if f.line != nil && time.Since(asked) >= idleCheck && !f.line.alive() {
				f.hangUp()
			}
		}
		if f.line != nil {
			return true
		}
		if f.line, r.err = f.connect(ctx, channel.Origin(r.it.url)); r.err != nil {
			f.line = nil
			r.rtt = time.Since(r.at)
			return false
		}
		if f.cfg.Before == nil {
			return true
		}
	}
}

// end reads the response to the request that begin has sent. Its body is valid until the next call.
func (f *fetcher) end(ctx context.Context, limit int) (r response) {
	r, f.now = f.now, response{}
	defer f.giveTurn()
	if r.stopped {
		return r
	}
	if r.err == nil {
		f.exchange(ctx, &r, limit)
	} else if f.line != nil {
		f.hangUp()
	}
	f.pace.ended(time.Now(), r.rtt, retryAfter(&r))
	return r
}

func (f *fetcher) exchange(ctx context.Context, r *response, limit int) {
	ctx, done := f.line.bound(ctx, limit)
	defer done()
	resp, err := f.answer(ctx, r)
	if err != nil {
		r.err = err
		f.hangUp()
		return
	}
	whole := f.readBody(r, resp, limit)
	if r.err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) { // the error may name what the deadline broke instead
		r.err = ctx.Err()
	}
	if !whole || resp.Close {
		if f.line.h2 != nil && ctx.Err() == nil {
			resp.Body.Close() // ends the stream only
		} else {
			f.hangUp()
		}
	}
	if f.line != nil {
		f.line.used = time.Now()
	}
}

// answer reads the header of the response. Over HTTP/2 it also sends the request.
func (f *fetcher) answer(ctx context.Context, r *response) (resp *http.Response, err error) {
	l := f.line
	var first time.Time
	if l.h2 != nil {
		l.pending.Store(true)
		resp, err = l.h2.RoundTrip(request(ctx, r.it.url, f.asks))
		first = time.Now()
	} else {
		resp, first, err = l.answer()
	}
	if first.IsZero() {
		first = time.Now()
	}
	r.rtt = first.Sub(r.at)
	if err != nil {
		return nil, err
	}
	l.pending.Store(false)
	r.status, r.header = resp.StatusCode, resp.Header
	if l.h2 == nil {
		f.raw = append(f.raw[:0], l.head...)
		r.raw = f.raw
	} else {
		r.raw = rebuild(resp)
	}
	return resp, nil
}

// readBody reads the body if it is of use. It returns true if nothing of the response is left on the connection.
func (f *fetcher) readBody(r *response, resp *http.Response, limit int) (whole bool) {
	if !hasBody(r) {
		return f.skip(resp)
	}
	if !r.it.any && !wanted(contentTypeOf(resp.Header)) {
		r.err = errType
		return resp.ContentLength >= 0 && resp.ContentLength <= maxSkip && f.skip(resp)
	}
	if cap(f.buf) > 512<<10 { // do not keep the memory of a big page
		f.buf = nil
	}
	first := limit
	if r.it.long {
		first = min(limit, maxSitemap)
	}
	r.body, r.rest, r.truncated, r.err = f.decoder.long(resp, f.buf[:0], first, limit)
	f.buf = r.body
	if r.rest.n == 0 && (r.truncated || r.err != nil) {
		r.body = markup.WholeCharacters(r.body)
	}
	return r.err == nil && !r.truncated && f.skip(resp)
}

// maxSkip is how much of a body the fetcher reads only to keep the connection.
const maxSkip = 64 << 10

// skip reads the rest of a body, and tells whether it has reached the end.
func (f *fetcher) skip(resp *http.Response) bool {
	n, err := io.CopyN(io.Discard, resp.Body, maxSkip)
	return errors.Is(err, io.EOF) && n < maxSkip
}

// rebuild writes a header for a response over HTTP/2, which has no such text.
func rebuild(resp *http.Response) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s\r\n", strings.TrimSuffix(resp.Proto, ".0"), resp.Status)
	names := make([]string, 0, len(resp.Header))
	for name := range resp.Header {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		for _, v := range resp.Header[name] {
			b.WriteString(name + ": " + v + "\r\n")
		}
	}
	b.WriteString("\r\n")
	return b.Bytes()
}
