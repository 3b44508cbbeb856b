package web

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// A browser that has shown the token gets a session of two halves: a cookie, and a key in the storage of the page's own origin, which the page's forms send.
// Browsers send a cookie to every port of a machine, so that another user who listens at one may learn it. It lets look, and changes nothing without the key.
// Neither half says anything of the token.
const (
	sessionFor  = 30 * 24 * time.Hour
	maxSessions = 64 // a new one ends the one that would end next
)

// cookieFor is the name of the cookie of the manager that listens at an address: several on one machine have one each.
func cookieFor(address string) string {
	_, port, _ := net.SplitHostPort(address)
	return "shoal_session_" + cmp.Or(port, "page")
}

// oldCookie is what versions before 0.2.0 kept the token itself in.
const oldCookie = "shoal_token"

// session is kept as hashes, so that who reads what is kept can open nothing with it.
type session struct {
	Cookie string    `json:"cookie"`
	Key    string    `json:"key"`
	Till   time.Time `json:"till"`
}

// keptSessions are the sessions as they outlive a restart. They end with the token and with the address.
type keptSessions struct {
	Of       string    `json:"of"` // token and address
	Sessions []session `json:"sessions"`
}

// sessions are those of the operator's browsers. It is safe for concurrent use.
type sessions struct {
	of   string
	now  func() time.Time
	keep func([]byte) // may be nil

	mu   sync.Mutex
	list []session
}

func newSessions(token, address string, kept []byte, keep func([]byte)) *sessions {
	s := &sessions{of: hashed(token + "\n" + address), now: time.Now, keep: keep}
	var k keptSessions
	if len(kept) > 0 && json.Unmarshal(kept, &k) == nil && k.Of == s.of { // what is damaged opens nothing
		s.list = k.Sessions
	}
	return s
}

func hashed(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

func secret() string {
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// begin makes a session and returns its halves.
func (s *sessions) begin() (half, key string) {
	half, key = secret(), secret()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire()
	if len(s.list) >= maxSessions {
		s.list = slices.Delete(s.list, 0, 1)
	}
	s.list = append(s.list, session{hashed(half), hashed(key), s.now().Add(sessionFor)})
	s.save()
	return half, key
}

// find returns the session of a cookie. The caller holds s.mu.
func (s *sessions) find(half string) int {
	h := hashed(half)
	s.expire()
	return slices.IndexFunc(s.list, func(x session) bool { return subtle.ConstantTimeCompare([]byte(x.Cookie), []byte(h)) == 1 })
}

// looks reports whether a cookie is of a session.
func (s *sessions) looks(half string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.find(half) >= 0
}

// changes reports whether cookie and key are of one session.
func (s *sessions) changes(half, key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.find(half)
	return i >= 0 && subtle.ConstantTimeCompare([]byte(s.list[i].Key), []byte(hashed(key))) == 1
}

// end ends the session of a cookie.
func (s *sessions) end(half string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := s.find(half); i >= 0 {
		s.list = slices.Delete(s.list, i, i+1)
		s.save()
	}
}

func (s *sessions) expire() {
	now := s.now()
	s.list = slices.DeleteFunc(s.list, func(x session) bool { return !now.Before(x.Till) })
}

// save keeps the sessions over a restart.
func (s *sessions) save() {
	if s.keep == nil {
		return
	}
	if b, err := json.Marshal(keptSessions{s.of, s.list}); err == nil {
		s.keep(b)
	}
}

// cookieOf is the browser's half of its session; empty: it has none.
func (s *server) cookieOf(r *http.Request) string {
	c, err := r.Cookie(s.cookie)
	if err != nil {
		return ""
	}
	return c.Value
}

// mayOperate reports whether the client has shown the token, now or when its session began.
func (s *server) mayOperate(r *http.Request) bool {
	if t, any := shown(r); any {
		return s.fits(t)
	}
	c := s.cookieOf(r)
	return c != "" && s.sessions.looks(c)
}

// mayChange reports whether the client may change something: with the token, or with both halves of a session, of which a form brings one.
func (s *server) mayChange(r *http.Request) bool {
	if t, any := shown(r); any {
		return s.fits(t)
	}
	c := s.cookieOf(r)
	return c != "" && s.sessions.changes(c, r.PostFormValue("key"))
}

// enter begins a session, and has the browser keep the key before it goes on.
func (s *server) enter(w http.ResponseWriter, to string) {
	half, key := s.sessions.begin()
	http.SetCookie(w, &http.Cookie{Name: s.cookie, Value: half, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode, MaxAge: int(sessionFor / time.Second)})
	s.render(w, "entered", map[string]any{"Key": key, "To": to})
}

// forgetToken has a browser forget the cookie in which an earlier version kept the token.
func (s *server) forgetToken(w http.ResponseWriter, r *http.Request) {
	if c, err := r.Cookie(oldCookie); err == nil && s.fits(c.Value) {
		http.SetCookie(w, &http.Cookie{Name: oldCookie, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode, MaxAge: -1})
	}
}

func (s *server) login(w http.ResponseWriter, r *http.Request) {
	s.render(w, "login", map[string]any{"Title": "Log in", "To": ownPage(r.URL.Query().Get("to"))})
}

func (s *server) loginPost(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxLogin)
	if !s.fits(strings.TrimSpace(r.PostFormValue("token"))) {
		s.loginAgain(w, r.PostFormValue("to"))
		return
	}
	s.enter(w, ownPage(r.PostFormValue("to")))
}

func (s *server) logout(w http.ResponseWriter, r *http.Request) {
	s.sessions.end(s.cookieOf(r))
	http.SetCookie(w, &http.Cookie{Name: s.cookie, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode, MaxAge: -1})
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}
