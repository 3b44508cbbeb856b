package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// served starts a control API whose handlers say which of them was reached.
func served(t *testing.T, addr string) (dir string, at access) {
	t.Helper()
	dir = t.TempDir()
	ctx, end := context.WithCancel(context.Background())
	done := make(chan error, 1)
	say := func(what string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, what, " ", Key(r)) })
	}
	go func() {
		done <- Serve(ctx, dir, addr, Handlers{API: say("api"), Page: say("page"), Enter: say("enter"), Shut: say("shut")})
	}()
	t.Cleanup(func() {
		end()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		b, err := os.ReadFile(accessFile(dir))
		if err == nil && json.Unmarshal(b, &at) == nil {
			return dir, at
		}
		if time.Now().After(end) {
			t.Fatal("never serves")
		}
	}
}

// send sends a request with headers, given in pairs, and returns the answer.
func send(t *testing.T, c *http.Client, method, url string, headers ...string) (status int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
			continue
		}
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, strings.TrimSpace(string(b))
}

// TestWhoMayAsk lets in a program with the token and a browser that has entered, and no one else: no other user, no page of another site, no name that
// resolves to this computer, no cookie without its key.
func TestWhoMayAsk(t *testing.T) {
	dir, at := served(t, "127.0.0.1:0")
	base := "http://" + at.Addr
	c, err := NewClient(dir)
	if err != nil {
		t.Fatal(err)
	}
	link, err := c.Link(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	inside := &http.Client{Jar: jar}
	_, entered := send(t, inside, http.MethodGet, link, "Sec-Fetch-Site", "none")
	key, ok := strings.CutPrefix(entered, "enter ")
	if !ok || len(key) != 32 {
		t.Fatalf("the link leads to %q", entered)
	}
	if _, again := send(t, http.DefaultClient, http.MethodGet, link); again != "shut" {
		t.Errorf("the link works twice: %q", again)
	}
	own := []string{"X-Shoal-Key", key, "Sec-Fetch-Site", "same-origin", "Origin", base}
	for name, x := range map[string]struct {
		client  *http.Client
		path    string
		headers []string
		status  int
		body    string
	}{
		"a program":                           {http.DefaultClient, "/v1/status", []string{"Authorization", "Bearer " + at.Token}, 200, "api"},
		"the page":                            {inside, "/v1/status", own, 200, "api"},
		"a bookmark":                          {inside, "/", []string{"Sec-Fetch-Site", "none"}, 200, "page"},
		"another user":                        {http.DefaultClient, "/v1/status", nil, 401, "no session"},
		"another user, at the page":           {http.DefaultClient, "/", nil, 200, "shut"},
		"another user with a guessed token":   {http.DefaultClient, "/v1/status", []string{"Authorization", "Bearer 00"}, 401, "wrong token"},
		"another user with an empty token":    {http.DefaultClient, "/v1/status", []string{"Authorization", "Bearer "}, 401, "no session"},
		"another user who makes links":        {http.DefaultClient, "/v1/once", nil, 401, "no session"},
		"another user who heard the cookie":   {inside, "/v1/status", nil, 401, "no session"},
		"the cookie with a guessed key":       {inside, "/v1/status", []string{"X-Shoal-Key", strings.Repeat("0", 32)}, 401, "no session"},
		"the key without the cookie":          {http.DefaultClient, "/v1/status", []string{"X-Shoal-Key", key}, 401, "no session"},
		"another site's page":                 {inside, "/v1/status", []string{"X-Shoal-Key", key, "Origin", "https://evil.example"}, 403, "not from another"},
		"another site's form":                 {inside, "/v1/do/leave", []string{"Origin", "null", "Sec-Fetch-Site", "cross-site"}, 403, "not from another"},
		"another site's picture":              {inside, "/icon.svg", []string{"Sec-Fetch-Site", "cross-site"}, 403, "not from another"},
		"another port of this computer":       {inside, "/v1/status", []string{"X-Shoal-Key", key, "Origin", "http://127.0.0.1:9999", "Sec-Fetch-Site", "same-site"}, 403, "not from another"},
		"a link to the API":                   {inside, "/v1/report", []string{"X-Shoal-Key", key, "Sec-Fetch-Site", "none"}, 403, "not from another"},
		"a name that resolves to here":        {inside, "/v1/status", append([]string{"Host", "evil.example:7781"}, own...), 421, "not under this name"},
		"the page under such a name":          {inside, "/", []string{"Host", "evil.example"}, 421, "not under this name"},
		"a program under such a name":         {http.DefaultClient, "/v1/status", []string{"Host", "evil.example", "Authorization", "Bearer " + at.Token}, 421, "not under this name"},
		"another address":                     {inside, "/", []string{"Host", "192.0.2.7:7781"}, 421, "not under this name"},
		"a page that has got hold of a token": {http.DefaultClient, "/v1/status", []string{"Authorization", "Bearer " + at.Token, "Origin", base}, 403, "not from a Web page"},
		"the token at the page":               {http.DefaultClient, "/", []string{"Authorization", "Bearer " + at.Token}, 404, ""},
	} {
		status, body := send(t, x.client, http.MethodGet, base+x.path, x.headers...)
		if status != x.status || !strings.HasPrefix(body, x.body) {
			t.Errorf("%s: %d %q, want %d %q", name, status, body, x.status, x.body)
		}
		if x.status != 200 && (body == "api" || body == "page" || strings.Contains(body, key)) {
			t.Errorf("%s got something: %q", name, body)
		}
	}
	if st, err := os.Stat(accessFile(dir)); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("others may read the token: %v %v", st.Mode(), err)
	}
	b, err := os.ReadFile(filepath.Join(dir, "sessions.json"))
	if err != nil || strings.Contains(string(b), key) {
		t.Errorf("the file of sessions opens one: %v %s", err, b)
	}
}

// TestSessions checks the bounds of sessions and links in time and number, and that a restart keeps them.
func TestSessions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sessions.json")
	synctest.Test(t, func(t *testing.T) {
		s := openSessions(path, DefaultAddr, time.Now)
		once := s.once()
		time.Sleep(OnceFor)
		if s.use(once) {
			t.Error("a link outlives its minute")
		}
		once = s.once()
		for range maxOnce {
			s.once()
		}
		if s.use(once) || s.use("") {
			t.Error("too many links")
		}
		half, key := s.make()
		if !s.has(half, key, true) || s.has(half, "", true) || !s.has(half, "", false) || s.has("", key, true) {
			t.Error("halves")
		}
		s = openSessions(path, DefaultAddr, time.Now)
		for range 20 {
			time.Sleep(sessionFor - time.Hour)
			if !s.has(half, key, true) {
				t.Fatal("a session that is used ends")
			}
		}
		for range maxSessions {
			time.Sleep(time.Hour)
			s.make()
		}
		if s.has(half, key, true) || len(s.list) != maxSessions {
			t.Error("too many sessions")
		}
		half, key = s.make()
		time.Sleep(sessionFor + time.Second)
		if s.has(half, key, true) {
			t.Error("a session that is not used does not end")
		}
	})
	if err := os.WriteFile(path, []byte("["), 0o600); err != nil {
		t.Fatal(err)
	}
	if s := openSessions(path, DefaultAddr, time.Now); len(s.list) != 0 {
		t.Error("a damaged file")
	}
}

// TestSessionsEndWithTheirAddress: where another address had to be taken, all sessions are forgotten, also once the first one is free again: who listened
// there meanwhile has been shown them.
func TestSessionsEndWithTheirAddress(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sessions.json")
	half, key := openSessions(path, DefaultAddr, time.Now).make()
	if !openSessions(path, DefaultAddr, time.Now).has(half, key, true) {
		t.Fatal("a restart ends a session")
	}
	if openSessions(path, "127.0.0.1:45678", time.Now).has(half, key, true) {
		t.Error("a session is good at another address")
	}
	if openSessions(path, DefaultAddr, time.Now).has(half, key, true) {
		t.Error("a session is good again after the address was another's")
	}
}

// TestEntersFromAFile: a file in the volunteer's folder may lead a browser to the link, though the browser calls that another site. Nothing else may.
func TestEntersFromAFile(t *testing.T) {
	dir, at := served(t, "127.0.0.1:0")
	c, err := NewClient(dir)
	if err != nil {
		t.Fatal(err)
	}
	link, err := c.Link(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	there := []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}
	if code, _ := send(t, http.DefaultClient, http.MethodGet, link, "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "image"); code != http.StatusForbidden {
		t.Errorf("another site's picture enters: %d", code)
	}
	if code, _ := send(t, http.DefaultClient, http.MethodGet, "http://"+at.Addr+"/", there...); code != http.StatusForbidden {
		t.Errorf("another site leads to the page: %d", code)
	}
	if code, body := send(t, http.DefaultClient, http.MethodGet, link, there...); code != http.StatusOK || !strings.HasPrefix(body, "enter ") {
		t.Errorf("the file's link: %d %s", code, body)
	}
}

// TestTakenPort says what to do where a port that was asked for is another's, and finds another one where none was.
func TestTakenPort(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	err = Serve(t.Context(), t.TempDir(), l.Addr().String(), Handlers{})
	if err == nil || !strings.Contains(err.Error(), "another user's peer") || !strings.Contains(err.Error(), "set control to another port") {
		t.Error(err)
	}
	if err := Serve(t.Context(), t.TempDir(), "0.0.0.0:0", Handlers{}); err == nil || !strings.Contains(err.Error(), "not a loopback") {
		t.Error(err)
	}
	d, err := net.Listen("tcp", DefaultAddr)
	if err == nil {
		defer d.Close()
	}
	held := err == nil // else another program has it, which may let go of it at any moment
	if _, at := served(t, ""); held && at.Addr == DefaultAddr || !strings.HasPrefix(at.Addr, "127.0.0.1:") {
		t.Error(at.Addr)
	}
}

func TestNoAgent(t *testing.T) {
	dir := t.TempDir()
	if _, err := NewClient(dir); !errors.Is(err, ErrNoAgent) {
		t.Error(err)
	}
	if err := os.WriteFile(accessFile(dir), []byte(`{"addr":"127.0.0.1:1","token":"x"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := NewClient(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Status(t.Context(), nil); !errors.Is(err, ErrNoAgent) {
		t.Error(err)
	}
}

// TestServesWithoutItsFile: on a disk that takes no file the API is served all the same, and clients find it once there is
// room.
func TestServesWithoutItsFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "later")
	ctx, end := context.WithCancel(t.Context())
	ready, lost, done := make(chan bool, 1), make(chan error, 2), make(chan error, 1)
	go func() {
		done <- Serve(ctx, dir, "127.0.0.1:0", Handlers{API: http.NotFoundHandler(), Ready: func() { ready <- true }, Lost: func(err error) { lost <- err }})
	}()
	if err := <-lost; err == nil {
		t.Error("it does not say that clients cannot find it")
	}
	<-ready
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := <-lost; err != nil {
		t.Error(err)
	}
	if _, err := NewClient(dir); err != nil {
		t.Error(err)
	}
	end()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(accessFile(dir)); err == nil {
		t.Error("its file outlives it")
	}
}
