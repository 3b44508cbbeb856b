package pond

import (
	"cmp"
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Limits of a Server.
const (
	MaxViolations = 10_000                 // kept; more are counted
	MaxDrip       = 10 * time.Minute       // longest that a slow response goes on
	dripEvery     = 500 * time.Millisecond // between the bytes of a slow response
	hangUpNews    = 200                    // milliseconds by which the news that a client of a bad host hung up may follow its next request, as this process has turns in them
	maxWorld      = 64 << 20               // bytes of GET /_pond/world
	servedPart    = 10_000                 // answers of GET /_pond/served
	connectMost   = 30 * time.Second       // for a pond to say what it is: on a busy machine that many crawl it is slow
)

// Violation is an act that a polite crawler avoids.
type Violation struct {
	When time.Time `json:"when"`
	Host string    `json:"host"`
	Kind string    `json:"kind"` // "parallel", "robots", "crawl-delay"
	Path string    `json:"path"`
	From string    `json:"from"` // User-Agent
	// Beside is the request that was in flight beside a parallel one, and since when.
	Beside string    `json:"beside,omitempty"`
	Since  time.Time `json:"since,omitzero"`
}

// Stats is what a Server has counted. GET /_pond/stats returns it.
type Stats struct {
	Requests    int64          `json:"requests"` // robots.txt and everything else
	Pages       int64          `json:"pages"`    // 200 and 304 answers to pages of the World
	NotModified int64          `json:"not_modified"`
	NotFound    int64          `json:"not_found"`
	Robots      int64          `json:"robots"`
	Bytes       int64          `json:"bytes"` // of bodies
	MaxInFlight int            `json:"max_in_flight"`
	Hosts       map[string]int `json:"hosts"` // requests by host
	Violated    int            `json:"violated"`
	Violations  []Violation    `json:"violations"`
}

// hostState is the Server's state of one host.
type hostState struct {
	mu       sync.Mutex
	requests int
	inFlight int
	most     int
	began    Violation // what Beside and Since say of the request that came last
	last     time.Time // end of the last page request
	robots   int       // times that robots.txt was asked for
}

// Server serves a World on one TCP port over http and https. The Host header and the TLS server name select the host.
// The Server also works as an HTTP proxy, so that any crawler can resolve the pond's names.
type Server struct {
	w     *World
	ln    net.Listener
	log   *slog.Logger
	hosts []hostState

	requests, pages, notModified, notFound, robots, bytes atomic.Int64

	mu         sync.Mutex
	violated   int
	violations []Violation

	bombs  bombs
	served servedLog
}

// NewServer listens; Run serves. An empty address is a free loopback port. The World's time begins now unless its
// Config sets it.
func NewServer(w *World, addr string, log *slog.Logger) (*Server, error) {
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("pond: listen on %s: %w", addr, err)
	}
	if w.cfg.Start.IsZero() {
		w.cfg.Start = time.Now().Truncate(time.Second).UTC()
	}
	ap := ln.Addr().(*net.TCPAddr).AddrPort()
	w.addr.Store(&ap)
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Server{w: w, ln: ln, log: log, hosts: make([]hostState, len(w.hosts))}, nil
}

// Addr returns the Server's address.
func (s *Server) Addr() netip.AddrPort { return s.ln.Addr().(*net.TCPAddr).AddrPort() }

// World returns the World that is served.
func (s *Server) World() *World { return s.w }

// Close stops listening. Use it for a Server that never runs.
func (s *Server) Close() error { return s.ln.Close() }

// Run serves until ctx is done.
func (s *Server) Run(ctx context.Context) error {
	hs := &http.Server{Handler: s, ReadHeaderTimeout: time.Minute, IdleTimeout: 5 * time.Minute,
		ErrorLog:    slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
		BaseContext: func(net.Listener) context.Context { return ctx }}
	f := newFront(s)
	var serving sync.WaitGroup
	var err, lost error
	serving.Go(func() { lost = f.run() })
	serving.Go(func() { err = hs.Serve(f) })
	stop := context.AfterFunc(ctx, func() { hs.Close() })
	defer stop()
	serving.Wait()
	hs.Close()
	if ctx.Err() != nil && (errors.Is(err, http.ErrServerClosed) || errors.Is(err, net.ErrClosed)) {
		return nil
	}
	return fmt.Errorf("pond: serve: %w", errors.Join(err, lost))
}

// Stats returns the counts so far.
func (s *Server) Stats() Stats {
	st := Stats{Requests: s.requests.Load(), Pages: s.pages.Load(), NotModified: s.notModified.Load(), NotFound: s.notFound.Load(),
		Robots: s.robots.Load(), Bytes: s.bytes.Load(), Hosts: map[string]int{}}
	for i := range s.hosts {
		h := &s.hosts[i]
		h.mu.Lock()
		if h.requests > 0 {
			st.Hosts[s.w.hosts[i].Name] = h.requests
		}
		st.MaxInFlight = max(st.MaxInFlight, h.most)
		h.mu.Unlock()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	st.Violated = s.violated
	st.Violations = append([]Violation{}, s.violations...)
	return st
}

func (s *Server) violate(r *http.Request, v Violation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.violated++
	if len(s.violations) < MaxViolations {
		s.violations = append(s.violations, Violation{time.Now(), r.Host, v.Kind, r.URL.RequestURI(), r.UserAgent(), v.Beside, v.Since})
	}
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/_pond/") {
		s.serveMeta(rw, r)
		return
	}
	s.requests.Add(1)
	host, ok := s.w.Host(r.Host)
	if !ok {
		s.notFound.Add(1)
		http.Error(rw, "no such host in this pond", http.StatusNotFound)
		return
	}
	defer s.enter(host, r, s.w.hosts[host].CrawlDelay)()
	cw := &counted{ResponseWriter: rw, n: &s.bytes}
	if m := s.w.Mode(host); m != "" && s.misbehave(m, cw, r, host) {
		return
	}
	s.serveHost(cw, r, host)
}

// enter counts a request and returns the function that ends it. A client that hung up counts as gone. The delay is what the host's robots.txt asks for, 0 where it has none.
func (s *Server) enter(host int, r *http.Request, delay time.Duration) (leave func()) {
	st := &s.hosts[host]
	robots := r.URL.Path == "/robots.txt"
	bad := s.w.Mode(host) != ""
	now := time.Now()
	st.mu.Lock()
	for waited := 0; bad && st.inFlight > 0 && waited < hangUpNews; waited++ { // on a busy computer a millisecond's sleep takes longer, and so does the news
		st.mu.Unlock()
		time.Sleep(time.Millisecond)
		st.mu.Lock()
	}
	st.requests++
	st.inFlight++
	st.most = max(st.most, st.inFlight)
	many, beside := st.inFlight > 1, st.began
	st.began = Violation{Kind: "parallel", Beside: r.RemoteAddr + " " + r.URL.RequestURI(), Since: now}
	// Allow a tenth for clocks and transmission.
	early := !robots && delay > 0 && !st.last.IsZero() && now.Sub(st.last) < delay*9/10
	st.mu.Unlock()
	if many {
		s.violate(r, beside)
	}
	if early {
		s.violate(r, Violation{Kind: "crawl-delay"})
	}
	var once sync.Once
	out := func() {
		once.Do(func() {
			st.mu.Lock()
			st.inFlight--
			if !robots {
				st.last = time.Now()
			}
			st.mu.Unlock()
		})
	}
	if !bad {
		return out
	}
	stop := context.AfterFunc(r.Context(), out)
	return func() { stop(); out() }
}

// serveHost serves a host that behaves.
func (s *Server) serveHost(rw http.ResponseWriter, r *http.Request, host int) {
	h := &s.w.hosts[host]
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		http.Error(rw, "only GET and HEAD", http.StatusMethodNotAllowed)
		return
	}
	path := r.URL.RequestURI()
	switch {
	case path == "/robots.txt" && h.Robots:
		s.robots.Add(1)
		send(rw, "text/plain; charset=utf-8", s.w.AppendRobots(nil, host))
		return
	case path == "/sitemap.xml" && h.Sitemap:
		send(rw, "application/xml", s.w.AppendSitemap(nil, host, time.Now()))
		return
	case path == "/style.css":
		send(rw, "text/css", []byte("body { font-family: serif; max-width: 40em; margin: auto }\n"))
		return
	case strings.HasPrefix(path, "/private/") && h.Private:
		s.violate(r, Violation{Kind: "robots"})
		send(rw, "text/html; charset=utf-8", []byte(`<!DOCTYPE html><title>private</title><p>You should not be here. <a href="/private/more.html">more</a></p>`))
		return
	}
	page, ok := s.w.Lookup(host, path)
	if !ok {
		if path == "/robots.txt" {
			s.robots.Add(1)
		}
		s.notFound.Add(1)
		http.Error(rw, "no such page", http.StatusNotFound)
		return
	}
	now := time.Now()
	s.pages.Add(1)
	if s.w.cfg.Trouble != (Trouble{}) {
		s.troubled(rw, r, host, page, now)
		return
	}
	v := s.w.Version(host, page, now)
	answer := Served{When: now, Host: host, Page: page, Version: v.ID, Text: v.Text, From: r.RemoteAddr}
	if h.Validators {
		tag := fmt.Sprintf(`"%x-%x"`, page, v.Text)
		rw.Header().Set("ETag", tag)
		rw.Header().Set("Last-Modified", v.Since.UTC().Format(http.TimeFormat))
		if unmodified(r, tag, v.Since) {
			s.notModified.Add(1)
			answer.NotModified = true
			s.served.add(answer)
			rw.WriteHeader(http.StatusNotModified)
			return
		}
	}
	s.served.add(answer)
	buf := buffers.Get().(*[]byte)
	*buf = s.w.AppendPage((*buf)[:0], host, page, v)
	send(rw, "text/html; charset=utf-8", *buf)
	buffers.Put(buf)
}

// buffers save one allocation of a page per request.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// unmodified follows RFC 9110, section 13.2.2: If-None-Match wins over If-Modified-Since.
func unmodified(r *http.Request, tag string, since time.Time) bool {
	if inm := r.Header.Get("If-None-Match"); inm != "" {
		for t := range strings.SplitSeq(inm, ",") {
			if t = strings.TrimSpace(t); t == "*" || strings.TrimPrefix(t, "W/") == tag {
				return true
			}
		}
		return false
	}
	ims, err := http.ParseTime(r.Header.Get("If-Modified-Since"))
	return err == nil && !since.After(ims)
}

// send answers with a body. Its last byte goes by itself: net/http keeps so little until the handler has returned and the request counts as over. Whoever has the
// whole body may send the next request at once, and on a busy computer a handler may stand still for long after the write that has sent it.
func send(rw http.ResponseWriter, kind string, body []byte) {
	rw.Header().Set("Content-Type", kind)
	rw.Header().Set("Content-Length", strconv.Itoa(len(body)))
	last := max(len(body)-1, 0)
	_, _ = rw.Write(body[:last]) // a client that hung up
	_, _ = rw.Write(body[last:])
}

// counted counts the bytes of bodies.
type counted struct {
	http.ResponseWriter
	n *atomic.Int64
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p)
	c.n.Add(int64(n))
	return n, err
}

// Unwrap serves http.ResponseController.
func (c *counted) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// serveMeta answers questions about the pond itself, on any host.
func (s *Server) serveMeta(rw http.ResponseWriter, r *http.Request) {
	var v any
	switch r.URL.Path {
	case "/_pond/ca":
		der, err := s.w.Authority()
		if err != nil {
			http.Error(rw, err.Error(), http.StatusInternalServerError)
			return
		}
		send(rw, "application/x-pem-file", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
		return
	case "/_pond/world":
		v = s.w.Config()
	case "/_pond/stats":
		v = s.Stats()
	case "/_pond/hosts":
		v = s.w.hosts
	case "/_pond/served":
		since, err := strconv.ParseUint(cmp.Or(r.FormValue("since"), "0"), 10, 64)
		if err != nil {
			http.Error(rw, "since: want the number of an answer", http.StatusBadRequest)
			return
		}
		v = s.Log(since, servedPart)
	case "/_pond/page":
		at := time.Now()
		var err error
		if text := r.FormValue("at"); text != "" {
			if at, err = time.Parse(time.RFC3339, text); err != nil {
				http.Error(rw, "at: want a time as 2026-05-06T07:08:09Z", http.StatusBadRequest)
				return
			}
		}
		if v, err = s.w.wouldServe(r.FormValue("url"), at); err != nil {
			http.Error(rw, err.Error(), http.StatusNotFound)
			return
		}
	default:
		http.NotFound(rw, r)
		return
	}
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		http.Error(rw, err.Error(), http.StatusInternalServerError)
		return
	}
	send(rw, "application/json", append(b, '\n'))
}

// Connect returns the World that another process serves at addr ("127.0.0.1:port").
func Connect(ctx context.Context, addr string) (*World, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/_pond/world", nil)
	if err != nil {
		return nil, fmt.Errorf("pond: connect to %s: %w", addr, err)
	}
	tr := &http.Transport{DisableKeepAlives: true}
	res, err := (&http.Client{Transport: tr, Timeout: connectMost}).Do(req)
	if err != nil {
		return nil, fmt.Errorf("pond: connect to %s: is `shoal pond` or `shoal up` running there? %w", addr, err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("pond: connect to %s: %s", addr, res.Status)
	}
	b, err := io.ReadAll(io.LimitReader(res.Body, maxWorld))
	if err != nil {
		return nil, fmt.Errorf("pond: connect to %s: %w", addr, err)
	}
	var cfg Config
	if err := json.Unmarshal(b, &cfg); err != nil {
		return nil, fmt.Errorf("pond: connect to %s: not a pond: %w", addr, err)
	}
	cfg.BadShare = 0 // Bad names them all
	cfg.Addr = addr
	return NewWorld(cfg)
}
