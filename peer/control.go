package peer

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"shoal/internal/member"
	"shoal/peer/queue"
)

// DefaultControl is where the control API and, one day, the volunteer's page listen.
const DefaultControl = "127.0.0.1:7781"

// Limits of the control API.
const (
	controlTimeout = 30 * time.Second
	maxControl     = 64 << 10 // bytes of a request
	maxAnswer      = 16 << 20 // bytes of an answer that the client reads
)

// ErrNoAgent is returned by a client when no agent runs in a folder.
var ErrNoAgent = errors.New("peer: no peer runs")

func noAgent(dir, why string) error {
	return fmt.Errorf("%w in %s%s; start one with `shoal-peer run`, or name another folder with --data", ErrNoAgent, dir, why)
}

// Controls is what the control API may do. An *Agent is one; a program that has more to offer wraps it.
type Controls interface {
	Status() any
	// Do carries out an order: "pause" with an optional duration, "resume", "finish", "drain", "leave", and what a program adds.
	Do(order string, args map[string]string) error
	// Log returns entries of the record of fetches.
	Log(w Want) ([]Entry, error)
}

// access is the file through which a client finds the API of a folder's agent.
type access struct {
	Addr  string `json:"addr"`
	Token string `json:"token"`
}

func accessFile(dir string) string { return filepath.Join(dir, "control.json") }

// ServeControl serves the control API on a loopback address until ctx ends. If the port is taken and not asked for by name, another
// one is used; clients find it through a file in dir that only this user can read.
func ServeControl(ctx context.Context, dir, addr string, c Controls) error {
	wanted := addr
	if addr == "" {
		addr = DefaultControl
	}
	l, err := net.Listen("tcp", addr)
	if err != nil && wanted == "" {
		l, err = net.Listen("tcp", "127.0.0.1:0")
	}
	if err != nil {
		return fmt.Errorf("peer: control API: %w", err)
	}
	defer l.Close()
	at, err := netip.ParseAddrPort(l.Addr().String())
	if err != nil || !at.Addr().Unmap().IsLoopback() {
		return fmt.Errorf("peer: control API: %v is not a loopback address; it must not be reached from elsewhere", l.Addr())
	}
	var secret [16]byte
	rand.Read(secret[:])
	a := access{Addr: l.Addr().String(), Token: hex.EncodeToString(secret[:])}
	b, err := json.Marshal(a)
	if err != nil {
		return err
	}
	if err := member.WriteFile(accessFile(dir), b); err != nil {
		return fmt.Errorf("peer: control API: %w", err)
	}
	defer os.Remove(accessFile(dir))
	srv := &http.Server{Handler: &control{token: a.Token, c: c}, ReadTimeout: controlTimeout, WriteTimeout: controlTimeout, MaxHeaderBytes: 16 << 10}
	done := make(chan struct{})
	go func() {
		defer close(done)
		<-ctx.Done()
		grace, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if srv.Shutdown(grace) != nil {
			srv.Close()
		}
	}()
	err = srv.Serve(l)
	if !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	<-done
	return nil
}

type control struct {
	token string
	c     Controls
}

// ServeHTTP answers GET /v1/status, GET /v1/log and POST /v1/do/ORDER to clients with the token. It checks Host and
// Origin, so that no Web page can reach it under a name that resolves to this computer.
func (s *control) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = r.Host
	}
	if addr, err := netip.ParseAddr(strings.Trim(host, "[]")); (err != nil || !addr.IsLoopback()) && host != "localhost" {
		http.Error(w, "not under this name", http.StatusMisdirectedRequest)
		return
	}
	if r.Header.Get("Origin") != "" {
		http.Error(w, "not from a Web page", http.StatusForbidden)
		return
	}
	given := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	if subtle.ConstantTimeCompare([]byte(given), []byte(s.token)) != 1 {
		http.Error(w, "wrong token", http.StatusUnauthorized)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxControl)
	switch order, isOrder := strings.CutPrefix(r.URL.Path, "/v1/do/"); {
	case isOrder && r.Method == http.MethodPost:
		args := map[string]string{}
		if err := json.NewDecoder(r.Body).Decode(&args); err != nil && err != io.EOF {
			http.Error(w, "arguments: "+err.Error(), http.StatusBadRequest)
			return
		}
		if err := s.c.Do(order, args); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	case r.URL.Path == "/v1/status" && r.Method == http.MethodGet:
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(s.c.Status()) // a client that has gone needs no answer
	case r.URL.Path == "/v1/log" && r.Method == http.MethodGet:
		s.log(w, r)
	default:
		http.NotFound(w, r)
	}
}

// log answers GET /v1/log?n=100&match=TEXT&since=RFC3339 with JSON lines.
func (s *control) log(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	n, err := strconv.Atoi(q.Get("n"))
	if err != nil || n < 1 {
		n = 100
	}
	want := Want{Newest: n, Match: q.Get("match")}
	if text := q.Get("since"); text != "" {
		if want.Since, err = time.Parse(time.RFC3339, text); err != nil {
			http.Error(w, "since: want a time such as 2026-11-22T08:00:00Z", http.StatusBadRequest)
			return
		}
	}
	entries, err := s.c.Log(want)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/jsonl")
	for out := json.NewEncoder(w); len(entries) > 0; entries = entries[1:] {
		if out.Encode(entries[0]) != nil {
			return // a client that has gone needs no answer
		}
	}
}

// Client talks to the agent of a folder.
type Client struct {
	dir string
	at  access
}

// NewClient finds the agent of a folder.
func NewClient(dir string) (*Client, error) {
	b, err := os.ReadFile(accessFile(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, noAgent(dir, "")
	}
	if errors.Is(err, fs.ErrPermission) {
		return nil, fmt.Errorf("peer: the peer in %s is another user's; only that user may ask it: %w", dir, err)
	}
	if err != nil {
		return nil, fmt.Errorf("peer: control API: %w", err)
	}
	c := &Client{dir: dir}
	if err := json.Unmarshal(b, &c.at); err != nil {
		return nil, fmt.Errorf("peer: control API: %s: %w", accessFile(dir), err)
	}
	return c, nil
}

func (c *Client) ask(ctx context.Context, method, path string, body io.Reader) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://"+c.at.Addr+path, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+c.at.Token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, noAgent(c.dir, fmt.Sprintf(" (its last one cannot be reached: %v)", err))
	}
	if resp.StatusCode >= 300 {
		defer resp.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 4096))
		return nil, errors.New(strings.TrimSpace(string(text)))
	}
	return resp.Body, nil
}

// Status decodes the agent's status into v.
func (c *Client) Status(ctx context.Context, v any) error {
	r, err := c.ask(ctx, http.MethodGet, "/v1/status", nil)
	if err != nil {
		return err
	}
	defer r.Close()
	return json.NewDecoder(io.LimitReader(r, maxAnswer)).Decode(v)
}

// Do gives an order.
func (c *Client) Do(ctx context.Context, order string, args map[string]string) error {
	b, err := json.Marshal(args)
	if err != nil {
		return err
	}
	r, err := c.ask(ctx, http.MethodPost, "/v1/do/"+order, strings.NewReader(string(b)))
	if err != nil {
		return err
	}
	return r.Close()
}

// Do carries out the orders that every agent knows.
func (a *Agent) Do(order string, args map[string]string) error {
	switch order {
	case "pause":
		until := time.Time{}
		if v := args["for"]; v != "" {
			d, err := time.ParseDuration(v)
			if err != nil || d <= 0 {
				return fmt.Errorf("peer: a pause of %q; say 30m or 2h", v)
			}
			until = a.now().Add(d)
		}
		a.SetMode(queue.Paused, until)
	case "resume":
		a.SetMode(queue.Open, time.Time{})
	case "finish":
		a.SetMode(queue.Finish, time.Time{})
	case "drain":
		a.SetMode(queue.Drain, time.Time{})
	default:
		return fmt.Errorf("%w: unknown order %q", ErrConfig, order)
	}
	return nil
}

// now is the network's time.
func (a *Agent) now() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.wire == nil {
		return time.Now()
	}
	return a.wire.Now()
}

// Undelivered is what an archive has not taken.
type Undelivered struct {
	Tasks int   // claimed, and neither reported nor released
	Bytes int64 // of pages
}

// Forget makes a folder a member of no network any more, and forgets other members' addresses and what was not delivered, which it tells.
// Its identity and its record of fetches stay.
func Forget(dir string) (lost Undelivered, err error) {
	unlock, err := lock(filepath.Join(dir, "lock"))
	if err != nil {
		return lost, err
	}
	defer unlock()
	for _, pattern := range []string{"membership", "members.json", "tasks/*", "spool/*"} {
		names, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return lost, err
		}
		for _, name := range names {
			st, err := os.Stat(name)
			if err == nil {
				err = os.Remove(name)
			}
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return lost, err
			}
			switch {
			case strings.HasSuffix(name, claimedSuffix):
				lost.Tasks++
			case strings.HasPrefix(filepath.Base(name), "pages-"):
				lost.Bytes += st.Size()
			}
		}
	}
	return lost, nil
}
