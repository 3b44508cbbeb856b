// Package control serves a volunteer's control API and page on a loopback address, and keeps everyone else out: other users of the computer, pages of other
// sites, and names that resolve to this computer. It is not for what the API answers; handlers that are passed in do that.
//
// Who may ask. A program of the same user reads a token from a file in the peer's folder that only this user can read. A browser enters by a link that is
// good once and for a minute, which a program with the token asks for. It gets a session of two halves: a cookie, which scripts cannot read and other
// sites' requests do not carry, and a key in the storage of the page's own origin, which the page sends in a header. A request to the API needs both. A
// cookie alone is not enough, because browsers send it to every port of the computer, and another user may listen at one.
package control

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"shoal/internal/member"
)

// DefaultAddr is where API and page listen.
const DefaultAddr = "127.0.0.1:7781"

// Limits of the control API.
const (
	timeout    = 30 * time.Second
	maxRequest = 256 << 10 // bytes of a request
)

// Paths that the package answers itself.
const (
	pathOnce  = "/v1/once" // POST with the token: a new one-time link
	pathEnter = "/enter"
	apiPrefix = "/v1/"
)

// HeaderKey is the header with which a page shows its half of the session. No form of another site can send it.
const HeaderKey = "X-Shoal-Key"

// access is the file through which a client finds the API of a folder's peer.
type access struct {
	Addr  string `json:"addr"`
	Token string `json:"token"`
}

func accessFile(dir string) string { return filepath.Join(dir, "control.json") }

// Handlers answer what the package lets through.
type Handlers struct {
	API   http.Handler // everything below /v1/
	Page  http.Handler // everything else, for browsers with a session
	Enter http.Handler // for a browser that has just got its session; Key gives the half that its page keeps
	Ready func()       // called once clients can find the API, or at once where they cannot; nil: nothing
	Lost  func(error)  // called with why clients cannot find the API, and with nil once they can; nil: nothing
	Shut  http.Handler // for a browser without a session: says how to get one. It gets no secrets
}

// Serve serves on a loopback address until ctx ends. If addr is empty and the default port is taken, another one is used; clients find it
// through a file in dir that only this user can read.
func Serve(ctx context.Context, dir, addr string, h Handlers) error {
	l, err := listen(addr)
	if err != nil {
		return err
	}
	defer l.Close()
	a := access{Addr: l.Addr().String(), Token: secret()}
	b, err := json.Marshal(a)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer os.Remove(accessFile(dir))
	var writing sync.WaitGroup
	defer func() { cancel(); writing.Wait() }()
	if err := writeAccess(dir, b); err != nil { // a full disk, perhaps: browsers need no file
		if h.Lost != nil {
			h.Lost(err)
		}
		writing.Go(func() { rewrite(ctx, dir, b, h.Lost) })
	}
	if h.Ready != nil {
		h.Ready()
	}
	g := &guard{token: a.Token, h: h, sessions: openSessions(filepath.Join(dir, "sessions.json"), a.Addr, time.Now)}
	srv := &http.Server{Handler: g, ReadTimeout: timeout, WriteTimeout: timeout, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10}
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

// writeAccess writes the file through which clients find the API. On a disk without room it writes over what a process that was killed has left, which takes none.
func writeAccess(dir string, b []byte) error {
	err := member.WriteFile(accessFile(dir), b)
	if err == nil {
		return nil
	}
	f, missing := os.OpenFile(accessFile(dir), os.O_WRONLY, 0)
	if missing != nil {
		return fmt.Errorf("peer: control API: %w", err)
	}
	_, failed := f.WriteAt(b, 0)
	if errors.Join(failed, f.Truncate(int64(len(b))), f.Close()) != nil {
		return fmt.Errorf("peer: control API: %w", err)
	}
	return nil
}

// rewriteEvery is how often a file that could not be written is tried again.
const rewriteEvery = 2 * time.Second

// rewrite writes the file as soon as the disk takes it.
func rewrite(ctx context.Context, dir string, b []byte, lost func(error)) {
	t := time.NewTicker(rewriteEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		if writeAccess(dir, b) == nil {
			if lost != nil {
				lost(nil)
			}
			return
		}
	}
}

func listen(addr string) (net.Listener, error) {
	wanted := addr
	if addr == "" {
		addr = DefaultAddr
	}
	l, err := net.Listen("tcp", addr)
	if err != nil && wanted == "" {
		l, err = net.Listen("tcp", "127.0.0.1:0")
	}
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("peer: control API: another program, perhaps another user's peer, uses %s; set control to another port, or leave it out to have one chosen", addr)
	}
	if err != nil {
		return nil, fmt.Errorf("peer: control API: %w", err)
	}
	at, err := netip.ParseAddrPort(l.Addr().String())
	if err != nil || !at.Addr().Unmap().IsLoopback() {
		l.Close()
		return nil, fmt.Errorf("peer: control API: %v is not a loopback address; it must not be reached from elsewhere", l.Addr())
	}
	return l, nil
}

func secret() string {
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// guard decides who may ask what.
type guard struct {
	token    string
	h        Handlers
	sessions *sessions
}

// policy lets a page use its own files alone.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// ServeHTTP implements http.Handler.
func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	if !ownName(r.Host) {
		http.Error(w, "not under this name", http.StatusMisdirectedRequest)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxRequest)
	if given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		g.program(w, r, given)
		return
	}
	g.browser(w, r)
}

// ownName reports whether a Host header is an address of this computer. A name that another site made resolve to it is not.
func ownName(hostPort string) bool {
	host, _, err := net.SplitHostPort(hostPort)
	if err != nil {
		host = hostPort
	}
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && addr.IsLoopback() || host == "localhost"
}

// program answers a program of the same user.
func (g *guard) program(w http.ResponseWriter, r *http.Request, token string) {
	switch {
	case r.Header.Get("Origin") != "":
		http.Error(w, "not from a Web page", http.StatusForbidden)
	case !same(token, g.token):
		http.Error(w, "wrong token", http.StatusUnauthorized)
	case r.URL.Path == pathOnce && r.Method == http.MethodPost:
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]string{"once": g.sessions.once()}) // a client that has gone needs no answer
	case strings.HasPrefix(r.URL.Path, apiPrefix):
		g.api(w, r)
	default:
		http.NotFound(w, r)
	}
}

func (g *guard) api(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	g.h.API.ServeHTTP(w, r)
}

const cookie = "shoal-peer"

// browser answers a browser. Requests that another site caused get nothing, not even with a session.
func (g *guard) browser(w http.ResponseWriter, r *http.Request) {
	if o := r.Header.Get("Origin"); o != "" && o != "http://"+r.Host {
		http.Error(w, "not from another site's page", http.StatusForbidden)
		return
	}
	isAPI := strings.HasPrefix(r.URL.Path, apiPrefix)
	enters := r.URL.Path == pathEnter
	switch site := r.Header.Get("Sec-Fetch-Site"); {
	case site == "" || site == "same-origin":
	case enters && r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document": // from the file that open writes; the link's secret says who comes
	case site == "none" && !isAPI: // typed, a bookmark, or another program's link
	default:
		http.Error(w, "not from another site's page", http.StatusForbidden)
		return
	}
	if enters {
		g.enter(w, r)
		return
	}
	c, err := r.Cookie(cookie)
	known := err == nil && g.sessions.has(c.Value, r.Header.Get(HeaderKey), isAPI)
	switch {
	case !known && isAPI:
		http.Error(w, "no session; open the page with: shoal-peer open", http.StatusUnauthorized)
	case !known:
		w.Header().Set("Cache-Control", "no-store")
		g.h.Shut.ServeHTTP(w, r)
	case isAPI:
		g.api(w, r)
	default:
		g.h.Page.ServeHTTP(w, r)
	}
}

// enter makes a session of a one-time link.
func (g *guard) enter(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	if r.Method != http.MethodGet || !g.sessions.use(r.URL.Query().Get("once")) {
		g.h.Shut.ServeHTTP(w, r)
		return
	}
	half, key := g.sessions.make()
	http.SetCookie(w, &http.Cookie{Name: cookie, Value: half, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode, MaxAge: int(sessionFor / time.Second)})
	g.h.Enter.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), keyOf{}, key)))
}

type keyOf struct{}

// Key returns the half of a new session that the page keeps, within Handlers.Enter.
func Key(r *http.Request) string {
	k, _ := r.Context().Value(keyOf{}).(string)
	return k
}
