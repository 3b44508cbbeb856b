package web

import (
	"bufio"
	"bytes"
	"fmt"
	"html"
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
	s := &server{cfg: Config{Token: "sesame", Hosts: []string{"example.com"}, Log: slog.New(slog.NewTextHandler(log, nil))}}
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
	return s.guard(s.watch(mux))
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

// connected serves one connection, and returns the client's end of it and a channel that is closed when the server has closed its own.
func connected(t *testing.T, h http.Handler) (theirs net.Conn, closed chan struct{}) {
	t.Helper()
	ours, theirs := net.Pipe()
	l := &oneConn{conn: ours, closed: make(chan struct{})}
	closed = make(chan struct{})
	srv := &http.Server{Handler: h, IdleTimeout: time.Minute, ConnState: func(_ net.Conn, st http.ConnState) {
		if st == http.StateClosed {
			close(closed)
		}
	}}
	done := make(chan struct{})
	go func() { srv.Serve(l); close(done) }()
	t.Cleanup(func() { srv.Close(); theirs.Close(); <-done })
	return theirs, closed
}

// TestSlowBodiesAreCutOff: a stranger's body that does not come is not waited for, whatever the method, and whether the request is answered or refused.
func TestSlowBodiesAreCutOff(t *testing.T) {
	for name, request := range map[string]string{
		"a login":                "POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 1000\r\n\r\ntoken=",
		"a GET with a body":      "GET /api/v1/peers HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\n",
		"a HEAD in chunks":       "HEAD /login HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n",
		"another host's name":    "POST /login HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 1\r\n\r\n",
		"another site's request": "POST /login HTTP/1.1\r\nHost: localhost\r\nOrigin: https://evil.example\r\nContent-Length: 1\r\n\r\n",
	} {
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			theirs, closed := connected(t, watched(&log))
			go io.WriteString(theirs, request)
			go io.Copy(io.Discard, theirs)
			select {
			case <-closed:
			case <-time.After(strangerBody + time.Minute + 2*time.Second): // the next request is waited for as well
				t.Errorf("%s holds its connection", name)
			}
		})
	}
}

// TestStrangersMustRead: a stranger who does not read the answer is not waited for. An operator's request on the same connection may take its time.
func TestStrangersMustRead(t *testing.T) {
	slow := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(5 * time.Minute):
			io.WriteString(w, "a change")
		case <-r.Context().Done():
		}
	})
	h, err := Handler(Config{Desk: &fake{}, Token: "s3cret", API: slow, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		theirs, closed := connected(t, h)
		go io.WriteString(theirs, "GET /login HTTP/1.1\r\nHost: localhost\r\n\r\n")
		select {
		case <-closed:
		case <-time.After(strangerAnswer + 2*time.Second):
			t.Error("a stranger who reads nothing holds a connection")
		}
	})
	synctest.Test(t, func(t *testing.T) {
		theirs, _ := connected(t, h)
		in := bufio.NewReader(theirs)
		for i, request := range []string{"GET /login HTTP/1.1\r\nHost: localhost\r\n\r\n",
			"GET /api/v1/archive/changes?wait=5m HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer s3cret\r\n\r\n"} {
			go io.WriteString(theirs, request)
			resp, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Fatalf("request %d: %v", i, err)
			}
			b, err := io.ReadAll(resp.Body)
			if err != nil || i == 1 && string(b) != "a change" {
				t.Errorf("request %d: %q %v", i, b, err)
			}
		}
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

func TestLogin(t *testing.T) {
	_, s := start(t, false)
	resp, err := http.Get(s.URL + "/login")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if got := resp.Header.Get("Referrer-Policy"); got == "no-referrer" || got == "" {
		t.Errorf("Referrer-Policy %q: browsers then say that our own forms come from nowhere", got)
	}
	if code, _ := ask(t, "GET", s.URL+"/", nil); code != http.StatusSeeOther {
		t.Errorf("a stranger sees the overview: %d", code)
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for given, want := range map[string]int{"wrong": http.StatusUnauthorized, "": http.StatusUnauthorized, " s3cret\n": http.StatusOK} {
		resp, err := client.PostForm(s.URL+"/login", url.Values{"token": {given}})
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want || (want == http.StatusOK) != (len(resp.Cookies()) == 1) {
			t.Errorf("token %q: %d, cookies %v", given, resp.StatusCode, resp.Cookies())
		}
	}
	if code, _ := ask(t, "GET", s.URL+"/?token=s3cret", nil); code != http.StatusOK {
		t.Errorf("the printed link answers %d", code)
	}
	for at, want := range map[string]string{"/?token=s3cret": "/", "/channels?host=a%26b&token=s3cret&page=2": "/channels?host=a%26b&page=2", "/no%3Fwhere/?token=s3cret": "/no%3Fwhere/"} {
		resp, err := client.Get(s.URL + at)
		if err != nil {
			t.Fatal(err)
		}
		if got := leadsTo(t, resp); got != want {
			t.Errorf("%s leads to %s, want %s", at, got, want)
		}
	}
}

// TestLoginLeadsBack has an operator follow a link, as from a note to a colleague, without being logged in: after the token the page is shown that the link named.
// A link to a login leads nowhere else than to this manager's pages.
func TestLoginLeadsBack(t *testing.T) {
	_, s := start(t, false)
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Get(s.URL + "/channels?state=failing&q=a%26b&done=crawl")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	at := resp.Header.Get("Location")
	if at != "/login?to=%2Fchannels%3Fq%3Da%2526b%26state%3Dfailing" {
		t.Errorf("it leads to %q", at)
	}
	if _, page := ask(t, "GET", s.URL+at, nil); !strings.Contains(page, `name="to" value="/channels?q=a%26b&amp;state=failing"`) {
		t.Errorf("the login does not know where to:\n%s", page)
	}
	for to, want := range map[string]string{
		"/channels?q=a%26b&state=failing": "/channels?q=a%26b&state=failing", "": "/", "/login": "/", "https://evil.example/": "/", "//evil.example/": "/", `/\evil.example/`: "/",
		`\\evil.example`: "/", "/%5Cevil.example": "/", "/%2Fevil.example": "/", "javascript:alert(1)": "/", "channels": "/", "/peers?token=x": "/peers",
	} {
		resp, err := client.PostForm(s.URL+"/login", url.Values{"token": {"s3cret"}, "to": {to}})
		if err != nil {
			t.Fatal(err)
		}
		if got := leadsTo(t, resp); resp.StatusCode != http.StatusOK || got != want {
			t.Errorf("to %q: %d, leads to %q, want %q", to, resp.StatusCode, got, want)
		}
	}
	resp, err = client.PostForm(s.URL+"/login", url.Values{"token": {"wrong"}, "to": {"/peers"}})
	if err != nil {
		t.Fatal(err)
	}
	page, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || !strings.Contains(string(page), `name="to" value="/peers"`) {
		t.Errorf("after a wrong token it is forgotten: %v\n%s", err, page)
	}
}

// leadsTo is where the page after a login leads.
func leadsTo(t *testing.T, resp *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), `<a href="`)
	to, _, _ := strings.Cut(rest, `"`)
	return html.UnescapeString(to)
}
