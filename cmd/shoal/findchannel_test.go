package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestHostAmongManyAlike names a channel by its host where thousands of others have that name within theirs.
func TestHostAmongManyAlike(t *testing.T) {
	t.Parallel()
	hosts := []string{"http://both.example", "https://both.example"}
	for i := range 2300 {
		hosts = append(hosts, fmt.Sprintf("https://x.com.site-%d.example", i), fmt.Sprintf("https://site-%d.x.com", i))
	}
	hosts = append(hosts, "https://x.com", "http://old.x.com")
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if r.Method != http.MethodGet {
			return
		}
		var rows []string
		for i, h := range hosts {
			if strings.Contains(h, q.Get("q")) {
				rows = append(rows, fmt.Sprintf(`{"id":%d,"host":%q}`, i+1, h))
			}
		}
		from, _ := strconv.Atoi(q.Get("from"))
		n, _ := strconv.Atoi(q.Get("n"))
		from = min(from, len(rows))
		fmt.Fprintf(w, `{"total":%d,"from":%d,"channels":[%s]}`, len(rows), from, strings.Join(rows[from:min(from+n, len(rows))], ","))
	}))
	defer s.Close()
	number := func(host string) string { return fmt.Sprint(slices.Index(hosts, host) + 1) }
	for name, want := range map[string]string{
		"x.com": "channel " + number("https://x.com") + " paused", "https://x.com/": "channel " + number("https://x.com") + " paused",
		"old.x.com": "channel " + number("http://old.x.com") + " paused", "both.example": "may be any of channels [2 1]: give a number",
		"x.co": "this manager has none", "http://x.com": "this manager has none", "x.com/news/": "this manager has none",
	} {
		if _, out, said := call(t, "channel", "pause", name, "--manager", s.URL, "--token", "t"); !strings.Contains(out+said, want) {
			t.Errorf("%s: wanted %q in %s%s", name, want, out, said)
		}
	}
}

// TestChannelNamedInEitherSpelling names channels by directories with "^", which versions before 0.2.0 stored as they are: where there is one of each spelling, that of today.
func TestChannelNamedInEitherSpelling(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			fmt.Fprint(w, `{"total":4,"channels":[{"id":5,"host":"https://x.com","scope":"/a^b/"},{"id":6,"host":"https://x.com","scope":"/c%5Ed/"},{"id":7,"host":"https://x.com","scope":"/^/"},{"id":8,"host":"https://x.com","scope":"/%5E/"}]}`)
		}
	}))
	defer s.Close()
	for name, want := range map[string]string{
		"https://x.com/a^b/": "channel 5 paused", "https://x.com/a%5Eb/": "channel 5 paused", "https://x.com/c^d/": "channel 6 paused", "https://x.com/^/": "channel 8 paused", "https://x.com/%5e/": "channel 8 paused",
		"https://x.com/e^f/": "this manager has none", "https://x.com": "this manager has none",
	} {
		if _, out, said := call(t, "channel", "pause", name, "--manager", s.URL, "--token", "t"); !strings.Contains(out+said, want) {
			t.Errorf("%s: wanted %q in %s%s", name, want, out, said)
		}
	}
}

// TestRemovedDirectoryIsLeftOut: who removes the channel of a directory that a split has made is told that nothing crawls it then, and what to do.
func TestRemovedDirectoryIsLeftOut(t *testing.T) {
	t.Parallel()
	data := noChannels(t)
	must(t, "channel", "add", "https://example.org/", "--data", data)
	must(t, "channel", "split", "1", "/news/", "--data", data)
	const says = "nothing crawls /news/: channel 1 leaves it out"
	if code, _, said := call(t, "channel", "remove", "2", "--data", data); code != 1 || !strings.Contains(said, says) || !strings.Contains(said, "add --yes") {
		t.Errorf("without --yes: status %d, %q", code, said)
	}
	if out, said := must(t, "channel", "remove", "2", "--yes", "--data", data); out != "channel 2 removed\n" || !strings.Contains(said, says) {
		t.Errorf("with --yes: %q, %q", out, said)
	}
	must(t, "channel", "edit", "1", "--exclude", "", "--data", data)
	if code, _, said := call(t, "channel", "remove", "1", "--data", data); code != 1 || strings.Contains(said, "nothing crawls") {
		t.Errorf("of a whole host: status %d, %q", code, said)
	}
}
