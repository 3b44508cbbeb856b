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
		if most := maxWrong + 1; !tt.there && asked > most || tt.there && asked != lies {
			t.Errorf("%s: %d of %d were asked for", tt.name, asked, lies)
		}
		if fetched != pages {
			t.Errorf("%s: %d of %d pages were fetched", tt.name, fetched, pages)
		}
	}
}
