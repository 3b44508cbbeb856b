package web

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"shoal/manager/desk"
)

// TestChannelsThatCannotBeRead has the database be away: no page says that a channel is not there, and each says why it is not shown.
func TestChannelsThatCannotBeRead(t *testing.T) {
	f, s := start(t, true)
	for _, path := range []string{"/channel/77", "/channel/77/split", "/channel/x"} {
		if code, body := ask(t, "GET", s.URL+path, nil); code != 404 || !strings.Contains(body, "There is no such channel") {
			t.Errorf("GET %s: %d", path, code)
		}
	}
	f.unread = errors.New("the database does not answer")
	for _, path := range []string{"/channel/1", "/channel/1?fragment=1", "/channel/1/split"} {
		code, body := ask(t, "GET", s.URL+path, nil)
		if code != 503 || strings.Contains(body, "no such channel") || !strings.Contains(path, "fragment") && !strings.Contains(body, "the database does not answer") {
			t.Errorf("GET %s: %d\n%s", path, code, body)
		}
	}
	code, body := ask(t, "GET", s.URL+"/channels/added?new=1&new=5&known=7", nil)
	for _, want := range []string{"2 sites are channels now", "the database does not answer", `<a href="/channel/5">channel 5</a>`, `<a href="/channel/7">channel 7</a>`} {
		if code != 200 || !strings.Contains(body, want) {
			t.Errorf("what was added: %d, wanted %q in\n%s", code, want, body)
		}
	}
}

// TestListsThatCannotBeRead: a list is not said to be empty if it cannot be read, and the part of a page that is brought up to date stays as it was.
func TestListsThatCannotBeRead(t *testing.T) {
	f, s := start(t, true)
	f.unread = errors.New("the database does not answer")
	for _, path := range []string{"/channels", "/channels?fragment=1", "/channels?q=zzz", "/hosts", "/hosts?blocked=1"} {
		code, body := ask(t, "GET", s.URL+path, nil)
		if code != 503 || strings.Contains(body, "No channel matches") || strings.Contains(body, "No such host") || strings.Contains(body, "No host like that") || !strings.Contains(body, "cannot be read now") {
			t.Errorf("GET %s: %d\n%s", path, code, body)
		}
	}
	f.unread = fmt.Errorf("%w: no state \"unwell\"", desk.ErrAsk)
	if code, body := ask(t, "GET", s.URL+"/channels?state=unwell", nil); code != 400 || !strings.Contains(body, "no state") {
		t.Errorf("a state that there is not: %d\n%s", code, body)
	}
}

// TestAddedIsCounted adds more sites than a page names: it says how many there are.
func TestAddedIsCounted(t *testing.T) {
	_, s := start(t, true)
	form := url.Values{"urls": {strings.Repeat("https://d.example/ ", 3000)}}
	r, err := http.NewRequest("POST", s.URL+"/channels", strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	token(r)
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Fatal(err)
	}
	_, body := ask(t, "GET", s.URL+resp.Header.Get("Location"), nil)
	for _, want := range []string{"2\u202f999 sites are channels now", "And 2\u202f998 more.", "/channel/1"} {
		if !strings.Contains(body, want) {
			t.Errorf("%s: no %q in\n%.3000s", resp.Header.Get("Location")[:60], want, body)
		}
	}
}
