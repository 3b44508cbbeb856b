package board

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"shoal/manager"
)

// books is an archive that keeps a board.
type books struct {
	asked []time.Time
	fails bool
	board manager.Board
}

func (b *books) Board(_ context.Context, since time.Time, _ int) (manager.Board, error) {
	b.asked = append(b.asked, since)
	if b.fails {
		return manager.Board{}, errors.New("no disk")
	}
	out := b.board
	out.From = since
	return out, nil
}

func rowOf(name, team string, pages uint64) manager.BoardRow {
	r := manager.BoardRow{Name: name, Team: team, Account: "account of " + name}
	r.Pages, r.Bytes = pages, pages*1000
	return r
}

// site is a board over a few volunteers, with a clock that stands still.
type site struct {
	*books
	now time.Time
	h   http.Handler
}

func open1(t *testing.T) *site {
	t.Helper()
	s := &site{books: &books{}, now: time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)}
	s.board.Names = []manager.BoardRow{rowOf("Ali <b>", "Sharks", 1234567), rowOf("Bob/x", "", 7), rowOf("Cy", "Sharks", 7), rowOf("Dee", "", 6)}
	s.board.Teams = []manager.BoardRow{rowOf("Sharks", "", 1234574)}
	s.board.Others.Pages = 99
	h, err := Handler(Config{Source: s, Network: "net", Name: "Example", Contact: "https://example.org", Now: func() time.Time { return s.now }, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	s.h = h
	return s
}

func (s *site) get(method, path, from string) (code int, body string, head http.Header) {
	r := httptest.NewRequest(method, path, nil)
	r.RemoteAddr = from
	w := httptest.NewRecorder()
	s.h.ServeHTTP(w, r)
	b, _ := io.ReadAll(w.Result().Body)
	return w.Code, string(b), w.Result().Header
}

// TestPage shows ranks, escapes names, asks the archive once for many readers, and keeps browsers from doing anything with it.
func TestPage(t *testing.T) {
	s := open1(t)
	code, body, head := s.get("GET", "/?weeks=4", "192.0.2.1:1")
	if code != 200 {
		t.Fatal(code, body)
	}
	for _, want := range []string{"Ali &lt;b&gt;", "1,234,567", "Since Monday", "not listed brought 99 pages", `<code>net</code>`} {
		if !strings.Contains(body, want) {
			t.Errorf("the page has no %q", want)
		}
	}
	for _, bad := range []string{"<script", "<b>", "http://", "account of"} {
		if strings.Contains(body, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
	if head.Get("Set-Cookie") != "" || !strings.Contains(head.Get("Content-Security-Policy"), "default-src 'none'") || head.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("%v", head)
	}
	if s.get("GET", "/?weeks=4", "192.0.2.2:1"); len(s.asked) != 1 || s.now.Sub(s.asked[0]) != 21*24*time.Hour {
		t.Errorf("asked %v", s.asked)
	}
	s.now = s.now.Add(keptFor)
	if s.get("GET", "/", "192.0.2.2:1"); len(s.asked) != 2 || !s.asked[1].IsZero() {
		t.Errorf("asked %v", s.asked)
	}
	for path, want := range map[string]int{"/?weeks=2": 400, "/?from=-1": 400, "/?weeks=x": 400, "/else": 404, "/style.css": 200, "/badge/": 404} {
		if code, _, _ := s.get("GET", path, "192.0.2.3:1"); code != want {
			t.Errorf("%s: %d, want %d", path, code, want)
		}
	}
	for _, method := range []string{"POST", "PUT", "DELETE"} {
		if code, _, _ := s.get(method, "/", "192.0.2.4:1"); code != 405 {
			t.Errorf("%s: %d", method, code)
		}
	}
	s.fails, s.now = true, s.now.Add(keptFor)
	if code, body, _ := s.get("GET", "/", "192.0.2.3:1"); code != 503 || strings.Contains(body, "disk") {
		t.Errorf("%d %s", code, body)
	}
}

// TestJSON reads the lists as programs do, in parts.
func TestJSON(t *testing.T) {
	s := open1(t)
	_, body, head := s.get("GET", "/board.json?from=1", "192.0.2.1:1")
	if strings.Contains(body, "account") {
		t.Errorf("the public is told accounts: %s", body)
	}
	var a answer
	if err := json.Unmarshal([]byte(body), &a); err != nil || a.All != 4 || len(a.Names) != 3 || a.Names[1].Rank != 2 || a.Names[2].Rank != 4 || a.Others.Pages != 99 || !a.From.IsZero() {
		t.Errorf("%s, %v", body, err)
	}
	if head.Get("Access-Control-Allow-Origin") != "*" {
		t.Errorf("%v", head)
	}
	for i := range 3 * pageRows {
		s.board.Names = append(s.board.Names, rowOf(fmt.Sprint("n", i), "", 1))
	}
	s.now = s.now.Add(keptFor)
	_, page, _ := s.get("GET", "/?from=100", "192.0.2.1:1")
	if !strings.Contains(page, `"?weeks=0&amp;from=0"`) || !strings.Contains(page, `"?weeks=0&amp;from=200"`) || strings.Count(page, "<tr>") != pageRows+1 || strings.Contains(page, "Teams") {
		t.Errorf("a part of the page is wrong: %d rows", strings.Count(page, "<tr>"))
	}
}

// TestBadges draws badges of volunteers and teams; a name with markup stays a name.
func TestBadges(t *testing.T) {
	s := open1(t)
	for path, want := range map[string]string{"/badge/ali%20%3Cb%3E.svg": "1,234,567 pages verified", "/badge/Bob%2Fx.svg": "7 pages verified", "/team-badge/sharks.svg": "1,234,574 pages verified"} {
		code, body, head := s.get("GET", path, "192.0.2.1:1")
		if code != 200 || head.Get("Content-Type") != "image/svg+xml" || !strings.Contains(body, want) || strings.Contains(body, "<b>") {
			t.Errorf("%s: %d %s", path, code, body)
		}
		if err := xml.Unmarshal([]byte(body), new(struct{})); err != nil {
			t.Errorf("%s is no XML: %v", path, err)
		}
	}
	_, body, _ := s.get("GET", "/badge/Cy.json", "192.0.2.1:1")
	var b map[string]any
	if err := json.Unmarshal([]byte(body), &b); err != nil || len(b) != 4 || b["schemaVersion"] != 1. || b["message"] != "7 pages verified" {
		t.Errorf("%s, %v", body, err)
	}
	s.board.Names = append(s.board.Names, rowOf("Emma", "", 1))
	s.now = s.now.Add(keptFor)
	if _, body, _ := s.get("GET", "/badge/Emma.json", "192.0.2.1:1"); !strings.Contains(body, `"1 page verified"`) {
		t.Errorf("a badge of one page: %s", body)
	}
	for _, path := range []string{"/badge/Zoe.svg", "/badge/Cy.png", "/team-badge/Cy.svg", "/badge/" + strings.Repeat("x", 2*maxName) + ".json"} {
		if code, _, _ := s.get("GET", path, "192.0.2.1:1"); code != 404 {
			t.Errorf("%s: %d", path, code)
		}
	}
}

// TestLimits turns one address away that asks too much, and no other. What a proxy of this machine brings is counted by client.
func TestLimits(t *testing.T) {
	s := open1(t)
	ask := func(from string) int { code, _, _ := s.get("GET", "/style.css", from); return code }
	for i := range burst {
		if code := ask(fmt.Sprintf("[2001:db8::%x]:1", i+1)); code != 200 {
			t.Fatal(i, code)
		}
	}
	code, _, head := s.get("GET", "/", "[2001:db8::ffff]:1")
	if code != 429 || head.Get("Retry-After") == "" || head.Get("Cache-Control") != "no-store" {
		t.Errorf("%d %v", code, head)
	}
	if a, b := ask("[2001:db8:0:1::1]:1"), ask("192.0.2.1:1"); a != 200 || b != 200 {
		t.Error("others are turned away")
	}
	s.now = s.now.Add(time.Second)
	for range perSecond {
		if code := ask("[2001:db8::1]:1"); code != 200 {
			t.Error("it is not let in again")
		}
	}
	if ask("[2001:db8::1]:1") != 429 {
		t.Error("more than its share")
	}
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("X-Forwarded-For", "203.0.113.9, 198.51.100.7")
	for remote, want := range map[string]string{"127.0.0.1:9": "198.51.100.7", "192.0.2.1:9": "192.0.2.1", "nonsense": "invalid IP"} {
		if r.RemoteAddr = remote; addressOf(r).String() != want {
			t.Errorf("%s: %s, want %s", remote, addressOf(r), want)
		}
	}
	l := newLimits(func() time.Time { return s.now })
	for i := range 3 * maxAddresses {
		r.RemoteAddr = fmt.Sprintf("10.%d.%d.%d:1", i>>16, i>>8&255, i&255)
		if !l.take(r) {
			t.Fatal("turned away")
		}
	}
	if len(l.full) > maxAddresses {
		t.Errorf("%d addresses are remembered", len(l.full))
	}
}
