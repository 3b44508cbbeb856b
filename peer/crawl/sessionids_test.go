package crawl

import "testing"

// TestSessionIDs tells session ids, which are left out of URLs, from names of stories and stations under the same parameters, without which a whole site would be one page.
func TestSessionIDs(t *testing.T) {
	for u, want := range map[string]string{
		"http://h.test/a?PHPSESSID=12345678&x=1":               "http://h.test/a?x=1",
		"http://h.test/a?sid=0123456789abcdef0123456789abcdef": "http://h.test/a",
		"http://h.test/a?sessionid=AbCdEfGhIjKlMnO1&x":         "http://h.test/a?x",
		"http://h.test/article.pl?sid=25/11/26/1234567":        "",
		"http://h.test/article.pl?sid=2025/11/26/12345678":     "",
		"http://h.test/play?sid=BBC-20240101&p=1":              "",
		"http://h.test/program?session_id=20240101":            "",
		"http://h.test/a?sid=12345678":                         "",
		"http://h.test/a?sid=the-longest-name-of-a-station":    "",
		"http://h.test/a;jsessionid=AB12/b?q":                  "http://h.test/a/b?q",
		"http://h.test/a;JSESSIONID=AB12?q=1":                  "http://h.test/a?q=1",
		"http://h.test/a;x=1;jsessionid=AB12;y=2":              "http://h.test/a;x=1;y=2",
		"http://h.test/a/..;jsessionid=1":                      "",
		"http://h.test/a?q=;jsessionid=AB12":                   "",
	} {
		if want == "" {
			want = u
		}
		if got := withoutSession(u); got != want {
			t.Errorf("%s became %s, want %s", u, got, want)
		}
	}
}

// TestFeedCalledHTML reads a feed whose server calls it HTML, as browsers' standard has it. A page that only shows a feed's elements is a page.
func TestFeedCalledHTML(t *testing.T) {
	const rss = `<?xml version="1.0"?><!-- news --><rss version="2.0"><channel><link>http://site.test/</link><item><link>http://site.test/x</link></item></channel></rss>`
	for _, kind := range []string{"text/html", "text/html; charset=utf-8"} {
		if got := feedEntries(kind, []byte(rss), "http://site.test/feed"); len(got) != 2 || got[1].url != "http://site.test/x" || isHTML(kind, []byte(rss)) {
			t.Errorf("%s: %+v, HTML %v", kind, got, isHTML(kind, []byte(rss)))
		}
		page := []byte("<!doctype html><p>" + rss)
		if got := feedEntries(kind, page, "http://site.test/feed"); len(got) != 0 || !isHTML(kind, page) {
			t.Errorf("%s: a page gives %+v", kind, got)
		}
	}
}
