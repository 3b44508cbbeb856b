package web

import (
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Failed logins are logged and limited per address: an address that has sent that many wrong tokens must wait. The right
// token is served all the same, in a form as in a header: behind a proxy all clients have one address, and a stranger could
// keep the operator out. So the limit keeps the log short and does not stop guessing. The token's length does: 128 random
// bits, or 16 characters at least.
const (
	loginBurst   = 10              // wrong tokens at once
	loginEvery   = 6 * time.Second // one more
	maxLoginFrom = 4096            // addresses of which failures are remembered

	// strangerBody is how long the body of a request may take that does not come from the operator, and strangerAnswer how long the answer to one may.
	strangerBody   = 10 * time.Second
	strangerAnswer = 30 * time.Second
	maxLogin       = 4 << 10 // bytes of a login form
)

// logins counts failures.
type logins struct {
	now func() time.Time

	mu   sync.Mutex
	free map[netip.Addr]time.Time // when an address has all its tries again
}

// wait is how long an address has to wait for another try.
func (l *logins) wait(from netip.Addr) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	at, known := l.free[from]
	if !known {
		return 0
	}
	return max(0, at.Sub(l.now())-(loginBurst-1)*loginEvery)
}

// failed counts one. It reports false for one beyond the limit, which is neither counted nor worth a line: many requests may have come before the first failed.
func (l *logins) failed(from netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	if len(l.free) >= maxLoginFrom {
		for a, at := range l.free {
			if !at.After(now) {
				delete(l.free, a)
			}
		}
		if len(l.free) >= maxLoginFrom { // an attack from everywhere: what it has tried does not count any more
			clear(l.free)
		}
	}
	at := l.free[from]
	if at.Before(now) {
		at = now
	}
	if at.Sub(now) > (loginBurst-1)*loginEvery {
		return false
	}
	l.free[from] = at.Add(loginEvery)
	return true
}

// fromOf is what counts as one address: of IPv6 a /64.
func fromOf(r *http.Request) netip.Addr {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	a := at.Addr().Unmap().WithZone("")
	if a.Is6() {
		p, err := a.Prefix(64)
		if err == nil {
			return p.Addr()
		}
	}
	return a
}

// hurry bounds how long a stranger may hold a connection. What an operator asks may take as long as it does, such as an export or a wait for changes.
func (s *server) hurry(w http.ResponseWriter, r *http.Request) {
	c := http.NewResponseController(w) // its errors say that nothing comes from a network
	operates := s.mayOperate(r) || s.fits(r.URL.Query().Get("token"))
	if !operates && r.ContentLength != 0 { // of whatever method: the rest of a body is waited for before the next request
		_ = c.SetReadDeadline(time.Now().Add(strangerBody))
	}
	till := time.Time{} // a stranger may have sent the request before on this connection, as a browser does that logs in
	if !operates && !s.mayView(r) {
		till = time.Now().Add(strangerAnswer)
	}
	_ = c.SetWriteDeadline(till)
}

// watch limits and logs failed logins.
func (s *server) watch(next http.Handler) http.Handler {
	l := &logins{now: time.Now, free: map[netip.Addr]time.Time{}}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.mayOperate(r) || s.fits(r.URL.Query().Get("token")) {
			next.ServeHTTP(w, r)
			return
		}
		if !tries(r) {
			next.ServeHTTP(w, r)
			return
		}
		from := fromOf(r)
		if wait := l.wait(from); wait > 0 && !s.formFits(w, r) {
			in := strconv.Itoa(int(wait/time.Second) + 1)
			w.Header().Set("Retry-After", in)
			http.Error(w, "Too many wrong tokens came from your address. Try again in "+in+" s. The right token is let in at once.", http.StatusTooManyRequests)
			return
		}
		seen := &status{ResponseWriter: w}
		next.ServeHTTP(seen, r)
		if seen.code == http.StatusUnauthorized && l.failed(from) {
			s.cfg.Log.Warn("login failed: wrong token", "from", from, "path", r.URL.Path)
		}
	})
}

// formFits reports whether a login form has the right token.
func (s *server) formFits(w http.ResponseWriter, r *http.Request) bool {
	if r.Method != http.MethodPost || r.URL.Path != "/login" {
		return false
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxLogin)
	return s.fits(strings.TrimSpace(r.PostFormValue("token")))
}

// tries reports whether a request shows a token, right or wrong. A cookie may be left from another manager, and does not count.
func tries(r *http.Request) bool {
	_, any := shown(r)
	return any || r.Method == http.MethodPost && r.URL.Path == "/login" || r.Method == http.MethodGet && r.URL.Query().Get("token") != ""
}

// status notes how a request was answered.
type status struct {
	http.ResponseWriter
	code int
}

// WriteHeader implements http.ResponseWriter.
func (s *status) WriteHeader(code int) {
	s.code = code
	s.ResponseWriter.WriteHeader(code)
}

// Unwrap is for http.ResponseController.
func (s *status) Unwrap() http.ResponseWriter { return s.ResponseWriter }
