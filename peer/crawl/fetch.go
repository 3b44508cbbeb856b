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
)

// response is what became of one request.
type response struct {
	it        item
	status    int
	header    http.Header
	raw       []byte // header as received, or as near as can be had
	body      []byte // decoded; valid until the next response, as raw is
	truncated bool
	err       error
	at        time.Time     // when it was sent
	rtt       time.Duration // until the header had come
	stopped   bool          // Before refused: nothing was sent
}

// fetcher sends one request at a time over one connection, at the pace that host and network may expect: begin, then end. In between,
// while the host is at work, its owner may do something else. The session owns it but for cancel.
type fetcher struct {
	cfg     *Config
	line    *line // nil: none is open
	request []byte
	fields  http.Header
	decoder decoder
	buf     []byte // of the body that was read last
	raw     []byte // of its header
	pace    pace
	rtt     atomic.Int64 // of the shortest TCP handshake, ns; 0: there was none
	read    atomic.Int64 // bytes that sockets brought
	now     response     // of the request that has begun
	asks    http.Header  // its fields

	validate map[uint64]*channel.Validator
	// conditional: no page is to be found by the links of another that may be unchanged.
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
	for i := range cfg.Body.Validators {
		v := &cfg.Body.Validators[i]
		f.validate[v.URL] = v
	}
	return f
}

func (f *fetcher) close() {
	f.hangUp()
	f.decoder.close()
}

func (f *fetcher) hangUp() {
	if f.line != nil {
		f.line.hangUp()
		f.line = nil
	}
}

// conditions gives the fields of a request for it. Links are not known of a page that answers 304, so validators are used only where the
// archive sent all that it has along.
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

// get waits for its turn and fetches one URL. It follows no redirect.
func (f *fetcher) get(ctx context.Context, it item, fields http.Header, limit int) response {
	f.begin(ctx, it, fields)
	return f.end(ctx, limit)
}

// overlaps tells whether a request may be sent now, without a wait, for its response to be read later.
func (f *fetcher) overlaps() bool {
	return f.line != nil && f.line.h2 == nil && (f.pace.off || time.Until(f.pace.next) <= 0)
}

// begin waits for its turn and sends the request for one URL. What goes wrong is in what end gives, which is to be called next.
func (f *fetcher) begin(ctx context.Context, it item, fields http.Header) {
	f.now, f.asks = response{it: it}, fields
	r := &f.now
	// The line is looked at within the wait, so that the gap stays exact.
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
	if !f.ready(ctx, r) {
		return
	}
	r.at = time.Now()
	if f.line.h2 == nil {
		f.request = appendRequest(f.request[:0], it.url, fields)
		r.err = f.line.send(f.request)
	}
}

// ready has a line and leave to use it. Leave is asked before the host is dialled, and again for the moment in which the request is sent:
// a dial may take half a minute.
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

// end gives the response to what was begun. Its body is valid until the end after.
func (f *fetcher) end(ctx context.Context, limit int) (r response) {
	r, f.now = f.now, response{}
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
	if r.err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) { // whatever that broke
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

// answer reads the header of the response to what was sent; over HTTP/2 it sends, too.
func (f *fetcher) answer(ctx context.Context, r *response) (resp *http.Response, err error) {
	l := f.line
	var first time.Time
	if l.h2 != nil {
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
	r.status, r.header = resp.StatusCode, resp.Header
	if l.h2 == nil && l.whole {
		f.raw = append(f.raw[:0], l.head...)
		r.raw = f.raw
	} else {
		r.raw = rebuild(resp)
	}
	return resp, nil
}

// take reads the body as far as it is of use. whole: nothing of it is left on the line.
func (f *fetcher) readBody(r *response, resp *http.Response, limit int) (whole bool) {
	if !hasBody(r.status) {
		return f.skip(resp)
	}
	if !r.it.any && !wanted(contentTypeOf(resp.Header)) {
		r.err = errType
		return resp.ContentLength >= 0 && resp.ContentLength <= maxSkip && f.skip(resp)
	}
	if cap(f.buf) > 512<<10 { // a big page does not keep its memory
		f.buf = nil
	}
	r.body, r.truncated, r.err = f.decoder.body(resp, f.buf[:0], limit)
	f.buf = r.body
	return r.err == nil && !r.truncated && f.skip(resp)
}

// maxSkip is how much of a body is read only to keep the connection.
const maxSkip = 64 << 10

// skip reads what is left of a body.
func (f *fetcher) skip(resp *http.Response) bool {
	n, err := io.CopyN(io.Discard, resp.Body, maxSkip)
	return errors.Is(err, io.EOF) && n < maxSkip
}

// hasBody tells whether the body of a status is of interest. That of a refusal is: it may be a challenge.
func hasBody(status int) bool {
	return status >= 200 && status < 300 || status == 403 || status == 429 || status == 503
}

// rebuild writes a header that was not seen as it came: HTTP/2 has no such form.
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
