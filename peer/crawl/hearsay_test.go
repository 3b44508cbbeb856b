package crawl

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"shoal/channel"
)

// TestHearsay has other members tell hundreds of URLs that are not there, as links of other sites or as what an earlier claim left to do. The crawl stops asking
// for them soon, and fetches all that the host itself links to, also what was told among them. URLs that are mostly there are all fetched.
func TestHearsay(t *testing.T) {
	const lies, pages = 300, 12
	for _, tt := range []struct {
		name  string
		tell  func(cfg *Config, urls []string)
		there bool // what is told
	}{
		{"links of other sites", func(cfg *Config, urls []string) { cfg.Body.Inter = urls }, false},
		{"left to do", func(cfg *Config, urls []string) {
			cfg.Resume.Done = []uint64{channel.URLHash(cfg.Header.Host + "/first")}
			for _, u := range urls {
				cfg.Resume.Frontier = append(cfg.Resume.Frontier, channel.Frontier{URL: u, Depth: 1})
			}
		}, false},
		{"links that are there", func(cfg *Config, urls []string) { cfg.Body.Inter = urls }, true},
	} {
		asked, fetched := 0, 0
		cfg, _ := task(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var next int
			switch _, err := fmt.Sscanf(r.URL.Path, "/page/%d", &next); {
			case strings.HasPrefix(r.URL.Path, "/told/"):
				if asked++; !tt.there {
					http.NotFound(w, r)
					return
				}
				hypertext(strings.Repeat(r.URL.Path+" is a page of its own. ", 50))(w, r)
			case r.URL.Path == "/" || err == nil:
				if err == nil {
					fetched++
				}
				if next < pages {
					hypertext(fmt.Sprintf(`<a href="/page/%d">next</a>`, next+1)+strings.Repeat(r.URL.Path+" is a page of its own. ", 50))(w, r)
				}
			default:
				http.NotFound(w, r)
			}
		}))
		var told []string
		for n := range lies {
			told = append(told, fmt.Sprintf("%s/told/%d", cfg.Header.Host, n))
		}
		told = append(told, cfg.Header.Host+"/page/3") // which the host links to
		tt.tell(&cfg, told)
		run(t, cfg)
		if most := leastWrong + 1; !tt.there && asked > most || tt.there && asked != lies {
			t.Errorf("%s: %d of %d were asked for", tt.name, asked, lies)
		}
		if fetched != pages {
			t.Errorf("%s: %d of %d pages were fetched", tt.name, fetched, pages)
		}
	}
}

// TestHearsayWaits holds back what was told until the host turned out to have many pages, and forgets nothing for some that are not there among many that are.
func TestHearsayWaits(t *testing.T) {
	var h hearsay
	told := func(n uint64) item {
		h.listen(n)
		return item{hash: n}
	}
	for n := range uint64(leastWrong) {
		if h.holds(told(n)) {
			t.Fatalf("held back after %d", n)
		}
		h.heard(n, 404)
	}
	for n := uint64(100); n < 103; n++ {
		if !h.holds(told(n)) {
			t.Errorf("%d is fetched", n)
		}
	}
	h.heard(1000, 503)
	if _, held := h.seen(100); !held {
		t.Error("what the host links to was not held back")
	}
	if it, ok := h.next(); ok {
		t.Errorf("%d is fetched at the end of a small host", it.hash)
	}
	for range wrongShare * (leastWrong + 1) {
		h.heard(1000, 200)
	}
	if it, ok := h.next(); !ok || it.hash != 101 {
		t.Errorf("at the end of a larger host: %d, %v", it.hash, ok)
	}
	h.heard(101, 404)
	if it, ok := h.next(); ok {
		t.Errorf("%d is fetched after one more that is not there", it.hash)
	}

	h = hearsay{}
	for n := range uint64(1000) {
		if h.holds(told(n)) {
			t.Fatalf("one in three is not there: held back after %d", n)
		}
		h.heard(n, 200+204*(int(n)%3/2))
	}
}
