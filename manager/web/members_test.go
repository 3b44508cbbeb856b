package web

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// post sends a form with the operator's token, or without.
func post(t *testing.T, at string, values url.Values, withToken bool) (int, string) {
	t.Helper()
	r, err := http.NewRequest(http.MethodPost, at, strings.NewReader(values.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if withToken {
		token(r)
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	return resp.StatusCode, resp.Header.Get("Location")
}

// An operator bans, admits and takes back on the page; what cannot be undone is counted and asked for first, and nobody else can do it.
func TestMembersOnThePage(t *testing.T) {
	f, s := start(t, true)
	const evil = "12D3KooWevil"
	for _, path := range []string{"/peers/purge", "/peers/ban", "/peers/unban"} {
		if code, at := post(t, s.URL+path, url.Values{"peer": {evil}}, false); code != http.StatusSeeOther || at != "/login" || f.purged != "" || len(f.banned) > 0 {
			t.Errorf("%s without a token: %d to %s", path, code, at)
		}
	}
	_, before := ask(t, "GET", s.URL+"/peers", nil)
	if strings.Contains(before, `action="/peers/ban"`) || strings.Contains(before, "Take back") {
		t.Error("who may only look is offered deeds")
	}
	_, page := ask(t, "GET", s.URL+"/peers", token)
	if !strings.Contains(page, `action="/peers/ban"`) || !strings.Contains(page, `href="/peers/purge?peer=12D3KooWabcdefghijkl"`) {
		t.Errorf("the operator is offered no deeds:\n%s", page)
	}
	if !strings.Contains(page, "<h2>1 peer</h2>") {
		t.Errorf("one peer is not counted as one:\n%s", page)
	}
	if !strings.Contains(page, `suspended for <a href="/trust/peer?peer=d-0123456789ab">`) || strings.Contains(page, "Admit 12D3&lt;u&gt;KooWliar again") {
		t.Errorf("a suspended peer is not told of, or is offered to be admitted without a pardon:\n%s", page)
	}
	code, page := ask(t, "GET", s.URL+"/peers/purge?peer="+evil, token)
	if code != 200 || !strings.Contains(page, `data-confirm="Take back 5`) || !strings.Contains(page, "cannot be undone") || f.purged != "" {
		t.Errorf("before a purge: %d, purged %q:\n%s", code, f.purged, page)
	}
	if code, page := ask(t, "GET", s.URL+"/peers/purge?peer=nobody", token); code != 400 || !strings.Contains(page, "nobody has delivered nothing") || strings.Contains(page, "<button data-confirm=\"Take") {
		t.Errorf("of one who never was: %d\n%s", code, page)
	}
	if code, at := post(t, s.URL+"/peers/purge", url.Values{"peer": {evil}}, true); code != 303 || at != "/peers?done=purge" || f.purged != evil {
		t.Errorf("purge: %d to %s, purged %q", code, at, f.purged)
	}
	if code, _ := post(t, s.URL+"/peers/ban", url.Values{"peer": {"typo"}}, true); code != 400 || slices.Contains(f.banned, "typo") {
		t.Errorf("a misspelt name: %d, banned %v", code, f.banned)
	}
	if code, at := post(t, s.URL+"/peers/ban", url.Values{"peer": {evil}}, true); code != 303 || at != "/peers?done=ban" || !slices.Contains(f.banned, evil) {
		t.Errorf("ban: %d to %s, %v", code, at, f.banned)
	}
	if _, page := ask(t, "GET", s.URL+"/peers?done=ban", token); !strings.Contains(page, "refused from now on") || !strings.Contains(page, "Admit "+evil+" again") {
		t.Errorf("after a ban:\n%s", page)
	}
	if code, _ := post(t, s.URL+"/peers/unban", url.Values{"peer": {evil}}, true); code != 303 || slices.Contains(f.banned, evil) {
		t.Errorf("unban: %d, %v", code, f.banned)
	}
}
