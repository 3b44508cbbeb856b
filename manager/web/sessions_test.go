package web

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"shoal/channel"
)

// browsing is a browser that has logged in, with the cookie and the key that it got.
type browsing struct {
	t      *testing.T
	at     string
	cookie *http.Cookie
	key    string
}

// serving is a manager that listens at an address and keeps sessions in kept.
func serving(t *testing.T, token, address string, kept *[]byte) (*fake, string) {
	t.Helper()
	f := &fake{paused: map[channel.ID]bool{}, blocked: map[string]string{}}
	note := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			f.crawled = 99
		}
	})
	h, err := Handler(Config{Desk: f, Token: token, Address: address, Kept: *kept, Keep: func(b []byte) { *kept = b }, API: note, Debug: note, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return f, s.URL
}

func logIn(t *testing.T, at, token string) *browsing {
	t.Helper()
	resp, err := http.PostForm(at+"/login", url.Values{"token": {token}})
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || len(resp.Cookies()) != 1 {
		t.Fatalf("%v %v %s", err, resp.Cookies(), body)
	}
	found := regexp.MustCompile(`<meta name="key" content="([0-9a-f]{32})">`).FindStringSubmatch(string(body))
	if found == nil {
		t.Fatalf("no key:\n%s", body)
	}
	return &browsing{t, at, resp.Cookies()[0], found[1]}
}

// send sends a form with the cookie, and returns the status.
func (b *browsing) send(method, path string, form url.Values) int {
	b.t.Helper()
	code, _ := ask(b.t, method, b.at+path, func(r *http.Request) {
		r.AddCookie(b.cookie)
		if form != nil {
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.Body = io.NopCloser(strings.NewReader(form.Encode()))
		}
	})
	return code
}

// TestCookieIsNotTheToken: a browser shows its cookie to every port of the manager's machine, at which other users of it may listen. It has nothing of the
// token, and changes nothing without the key that the page's forms send.
func TestCookieIsNotTheToken(t *testing.T) {
	var kept []byte
	f, at := serving(t, "s3cret-token-of-the-operator", "127.0.0.1:7780", &kept)
	b := logIn(t, at, "s3cret-token-of-the-operator")
	if strings.Contains(b.cookie.Value, "s3cret") || strings.Contains(b.cookie.Value, b.key) || !b.cookie.HttpOnly || b.cookie.SameSite != http.SameSiteStrictMode {
		t.Errorf("the cookie is %v", b.cookie)
	}
	for _, secret := range []string{"s3cret", b.cookie.Value, b.key} {
		if strings.Contains(string(kept), secret) {
			t.Errorf("what is kept opens the page: %s", kept)
		}
	}
	if code := b.send("GET", "/", nil); code != http.StatusOK {
		t.Errorf("the browser cannot look: %d", code)
	}
	for name, form := range map[string]url.Values{"no key": {}, "an empty key": {"key": {""}}, "a guessed key": {"key": {strings.Repeat("0", 32)}}, "the cookie as key": {"key": {b.cookie.Value}}} {
		if code := b.send("POST", "/channel/1/crawl-now", form); code != http.StatusForbidden || f.crawled != 0 {
			t.Errorf("with %s: %d, crawled %d", name, code, f.crawled)
		}
		if code := b.send("POST", "/channel/1/crawl-now?key="+b.key, form); code != http.StatusForbidden || f.crawled != 0 {
			t.Errorf("with %s, and a key in the address: %d, crawled %d", name, code, f.crawled)
		}
	}
	if code := b.send("POST", "/api/v1/channels/1/pause", url.Values{"key": {b.key}}); code != http.StatusUnauthorized || f.crawled != 0 {
		t.Errorf("a browser changes something by the interface: %d", code)
	}
	other := logIn(t, at, "s3cret-token-of-the-operator")
	if code := b.send("POST", "/channel/1/crawl-now", url.Values{"key": {other.key}}); code != http.StatusForbidden || f.crawled != 0 {
		t.Errorf("with another browser's key: %d, crawled %d", code, f.crawled)
	}
	if code := b.send("POST", "/channel/1/crawl-now", url.Values{"key": {b.key}}); code != http.StatusSeeOther || f.crawled != 1 {
		t.Errorf("the operator's own form: %d, crawled %d", code, f.crawled)
	}
}

// TestOldCookieIsForgotten: a browser that still has the token as a cookie, from a version before, is told to forget it, and logs in once more.
func TestOldCookieIsForgotten(t *testing.T) {
	var kept []byte
	_, at := serving(t, "s3cret", "127.0.0.1:7780", &kept)
	for value, forgotten := range map[string]bool{"s3cret": true, "another manager's": false} {
		r, err := http.NewRequest("GET", at+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.AddCookie(&http.Cookie{Name: "shoal_token", Value: value})
		resp, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if got := len(resp.Cookies()) == 1 && resp.Cookies()[0].Name == "shoal_token" && resp.Cookies()[0].MaxAge < 0; resp.StatusCode != http.StatusSeeOther || got != forgotten {
			t.Errorf("%s: %d %v", value, resp.StatusCode, resp.Cookies())
		}
	}
}

// TestSessionsOutliveARestart keeps a login over a restart, and ends it by logging out, with another token, and at another address.
func TestSessionsOutliveARestart(t *testing.T) {
	var kept []byte
	_, at := serving(t, "s3cret", "127.0.0.1:7780", &kept)
	b := logIn(t, at, "s3cret")
	looks := func(token, address string) bool {
		mine := kept
		_, at := serving(t, token, address, &mine)
		again := *b
		again.at = at
		return again.send("GET", "/", nil) == http.StatusOK
	}
	if !looks("s3cret", "127.0.0.1:7780") {
		t.Error("a restart ends the login")
	}
	if looks("another", "127.0.0.1:7780") || looks("s3cret", "127.0.0.1:7790") {
		t.Error("the login is good with another token, or at another address")
	}
	if code := b.send("POST", "/logout", nil); code != http.StatusSeeOther {
		t.Errorf("logging out: %d", code)
	}
	if code := b.send("GET", "/", nil); code != http.StatusSeeOther || looks("s3cret", "127.0.0.1:7780") {
		t.Errorf("the session goes on after the logout: %d", code)
	}
	if a, b := cookieFor("127.0.0.1:7780"), cookieFor("[::1]:7790"); a == b {
		t.Errorf("two managers on one machine have one cookie, %s, and log each other out", a)
	}
	kept = []byte(`{"of":`)
	if looks("s3cret", "127.0.0.1:7780") {
		t.Error("a damaged file opens the page")
	}
}

// TestSessionsAreBounded checks their bounds in time and number.
func TestSessionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSessions("s3cret", "", nil, nil)
		first, key := s.begin()
		if !s.changes(first, key) || s.changes(first, "") || s.changes("", key) || s.looks("") {
			t.Error("halves")
		}
		for range maxSessions {
			s.begin()
		}
		if s.looks(first) || len(s.list) != maxSessions {
			t.Errorf("%d sessions", len(s.list))
		}
		last, key := s.begin()
		time.Sleep(sessionFor - time.Second)
		if !s.changes(last, key) {
			t.Error("a session ends early")
		}
		time.Sleep(time.Second)
		if s.looks(last) {
			t.Error("a session never ends")
		}
	})
}
