package web

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func watched(log *bytes.Buffer) http.Handler {
	s := &server{cfg: Config{Token: "sesame", Log: slog.New(slog.NewTextHandler(log, nil))}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /login", func(w http.ResponseWriter, r *http.Request) {
		if !s.fits(strings.TrimSpace(r.PostFormValue("token"))) {
			w.WriteHeader(http.StatusUnauthorized)
		}
	})
	mux.HandleFunc("/api/v1/", func(w http.ResponseWriter, r *http.Request) {
		if !s.mayOperate(r) {
			unauthorized(w, r)
		}
	})
	return s.watch(mux)
}

func TestFailedLoginsAreLoggedAndLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		h := watched(&log)
		login := func(from, token string) int {
			r := httptest.NewRequest("POST", "/login", strings.NewReader(url.Values{"token": {token}}.Encode()))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.RemoteAddr = from
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w.Code
		}
		bearer := func(from, token string) int {
			r := httptest.NewRequest("GET", "/api/v1/peers", nil)
			r.Header.Set("Authorization", "Bearer "+token)
			r.RemoteAddr = from
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w.Code
		}
		for i := range loginBurst {
			if got := login(fmt.Sprintf("192.0.2.1:%d", 1000+i), "guess"); got != http.StatusUnauthorized {
				t.Fatalf("wrong token %d: %d", i, got)
			}
		}
		if got := login("192.0.2.1:99", "guess"); got != http.StatusTooManyRequests {
			t.Errorf("one too many: %d", got)
		}
		if got := bearer("192.0.2.1:99", "guess"); got != http.StatusTooManyRequests {
			t.Errorf("one too many for the interface: %d", got)
		}
		if got := bearer("192.0.2.1:99", "sesame"); got != http.StatusOK {
			t.Errorf("the right token from there: %d", got)
		}
		if got := login("192.0.2.1:99", " sesame\n"); got != http.StatusOK {
			t.Errorf("the right token in a form from there: %d", got)
		}
		if got := login("192.0.2.1:99", strings.Repeat("x", maxLogin)+"sesame"); got != http.StatusTooManyRequests {
			t.Errorf("a form that is too large: %d", got)
		}
		if got := login("192.0.2.2:99", "sesame"); got != http.StatusOK {
			t.Errorf("from elsewhere: %d", got)
		}
		if n := strings.Count(log.String(), "login failed"); n != loginBurst {
			t.Errorf("%d failures logged of %d", n, loginBurst)
		}
		if strings.Contains(log.String(), "guess") {
			t.Error("the log shows what was tried")
		}
		time.Sleep(loginEvery)
		if got := login("192.0.2.1:99", "guess"); got != http.StatusUnauthorized {
			t.Errorf("after a while: %d", got)
		}
	})
}

// TestFailuresAtOnce has more failures begin than the limit allows before the first one ends, as with bodies that never end. Beyond the limit none is
// counted or logged, so that the wait does not grow with them.
func TestFailuresAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, from := &logins{now: time.Now, free: map[netip.Addr]time.Time{}}, netip.MustParseAddr("192.0.2.1")
		counted := 0
		for range 2000 {
			if l.failed(from) {
				counted++
			}
		}
		if counted != loginBurst {
			t.Errorf("%d of 2000 failures are counted, want %d", counted, loginBurst)
		}
		if wait := l.wait(from); wait <= 0 || wait > loginEvery {
			t.Errorf("a wait of %v, want %v at most", wait, loginEvery)
		}
	})
}

func TestLoginsAreBounded(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	l := &logins{now: func() time.Time { return now }, free: map[netip.Addr]time.Time{}}
	for i := range 3 * maxLoginFrom {
		l.failed(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}))
		if len(l.free) > maxLoginFrom {
			t.Fatalf("%d addresses are remembered", len(l.free))
		}
	}
	a, b := httptest.NewRequest("GET", "/", nil), httptest.NewRequest("GET", "/", nil)
	a.RemoteAddr, b.RemoteAddr = "[2001:db8::1]:1", "[2001:db8::ffff:2]:2"
	if fromOf(a) != fromOf(b) {
		t.Error("addresses of one IPv6 network count apart")
	}
}

// A stranger's body that does not come is not waited for.
func TestSlowBodiesAreCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		ours, theirs := net.Pipe()
		l := &oneConn{conn: ours, closed: make(chan struct{})}
		srv := &http.Server{Handler: watched(&log)}
		done := make(chan struct{})
		go func() { srv.Serve(l); close(done) }()
		go io.WriteString(theirs, "POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 1000\r\n\r\ntoken=")
		began := time.Now()
		answer, _ := io.ReadAll(theirs)
		if took := time.Since(began); took > strangerBody+time.Second {
			t.Errorf("waited for %v: %q", took, answer)
		}
		srv.Close()
		<-done
	})
}

// oneConn is a listener of one connection.
type oneConn struct {
	conn   net.Conn
	closed chan struct{}
}

func (l *oneConn) Accept() (net.Conn, error) {
	if c := l.conn; c != nil {
		l.conn = nil
		return c, nil
	}
	<-l.closed
	return nil, net.ErrClosed
}

func (l *oneConn) Close() error {
	select {
	case <-l.closed:
	default:
		close(l.closed)
	}
	return nil
}

func (l *oneConn) Addr() net.Addr { return &net.TCPAddr{} }
