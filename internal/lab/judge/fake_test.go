package judge

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"
)

var t0 = time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)

func at(s float64) time.Time { return t0.Add(time.Duration(s * float64(time.Second))) }

// fake is a manager and a pond that say what a test wants. Page p of host h is http://hH.test/P; its content is its version's number.
type fake struct {
	hosts    []host
	served   []answer
	stats    stats
	rows     []row
	feed     []change
	captures []capture
	bodies   map[string]string // by page and second: see bodyAt
	metrics  string
	trusted  trusted
	strategy string
	blocked  []string
	down     bool // the manager
	dropped  int  // the first answers of the pond, from its log
}

// trusted is whose deliveries the manager judges.
type trusted struct {
	Peers []map[string]string `json:"peers"`
	More  int                 `json:"more"`
}

func content(u string, version uint64) string { return fmt.Sprintf("%s version %d", u, version) }

func digest(body string) string {
	sum := sha256.Sum256([]byte(body))
	return "sha256:" + hex.EncodeToString(sum[:])
}

func bodyAt(u string, when time.Time) string { return u + " " + when.Format(stamp) }

func pageURL(h, p int) string { return fmt.Sprintf("http://h%d.test/%d", h, p) }

// fetch is a crawl of a page at a moment as an honest network does it.
func (f *fake) fetch(h, p int, when time.Time, version uint64) {
	u := pageURL(h, p)
	f.served = append(f.served, answer{N: int64(len(f.served) + 1), When: when, Host: h, Page: p, Version: version})
	f.captures = append(f.captures, capture{URL: u, Status: 200, Digest: digest(content(u, version)), at: when.Truncate(time.Second)})
	f.feed = append(f.feed, change{URL: u, Event: "created", Fetched: when, Status: 200, Digest: strconv.Itoa(int(version))})
	f.bodies[bodyAt(u, when)] = content(u, version)
}

// newest is the body of the newest version of a page.
func (f *fake) newest(u string) (key string) {
	for k := range f.bodies {
		if strings.HasPrefix(k, u+" ") && k > key {
			key = k
		}
	}
	return key
}

// honest is a network in which all is well: two hosts of two pages, each crawled twice.
func honest() *fake {
	f := &fake{bodies: map[string]string{}, strategy: "icr", metrics: "# HELP\nprocess_resident_memory_bytes 1e+08\nprocess_open_fds 40\ngo_goroutines 300\n",
		hosts: []host{{Name: "h0.test", Pages: 2, CrawlDelay: 2 * time.Second}, {Name: "h1.test", Pages: 2, Private: true}, {Name: "h2.test", Pages: 1}}}
	for round := range 2 {
		for h := range 2 {
			for p := range 2 {
				f.fetch(h, p, at(float64(100*round+3*p+h)), uint64(round+1))
			}
		}
	}
	f.rows = []row{{ID: 1, Host: "http://h0.test", State: "active", Updates: 2, Updated: at(110)}, {ID: 2, Host: "http://h1.test", State: "active", Updates: 2, Updated: at(110)}}
	return f
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	since, _ := strconv.Atoi(r.FormValue("since"))
	path, api := strings.CutPrefix(r.URL.Path, "/api/v1")
	switch {
	case (api || path == "/metrics") && (f.down || r.Header.Get("Authorization") != "Bearer secret"):
		http.Error(w, "no", http.StatusServiceUnavailable)
	case path == "/_pond/hosts":
		answerJSON(w, f.hosts)
	case path == "/_pond/world":
		answerJSON(w, map[string]any{"bad": map[string]string{"h2.test": "gzip-bomb"}})
	case path == "/_pond/stats":
		answerJSON(w, f.stats)
	case path == "/_pond/served":
		answerJSON(w, f.served[min(max(since, f.dropped), len(f.served)):])
	case path == "/_pond/page":
		f.page(w, r)
	case path == "/metrics":
		fmt.Fprint(w, f.metrics)
	case path == "/channels":
		answerJSON(w, map[string]any{"channels": f.rows, "total": len(f.rows)})
	case path == "/archive/changes":
		cursor, _ := strconv.Atoi(r.FormValue("cursor"))
		from := min(cursor, len(f.feed))
		part := f.feed[from:min(from+3, len(f.feed))]
		w.Header().Set("Shoal-Cursor", strconv.Itoa(from+len(part)))
		for _, c := range part {
			answerJSON(w, c)
		}
	case path == "/hosts" && r.FormValue("blocked") == "1":
		var all []map[string]string
		for _, name := range f.blocked {
			all = append(all, map[string]string{"name": name})
		}
		answerJSON(w, map[string]any{"hosts": all})
	case path == "/strategy":
		answerJSON(w, map[string]string{"name": f.strategy})
	case path == "/trust/peers":
		answerJSON(w, f.trusted)
	case path == "/archive/cdx":
		if of := r.FormValue("deliverer"); of != "" && of != "liar" {
			http.NotFound(w, r)
			return
		}
		for _, c := range f.captures {
			if r.Form.Has("deliverer") && c.Deliverer == "" || r.Form.Has("url") && c.URL != r.FormValue("url") {
				continue
			}
			b, _ := json.Marshal(c)
			fmt.Fprintf(w, "key %s %s\n", c.at.Format(stamp), b)
		}
	case path == "/archive/page":
		body, ok := f.bodies[r.FormValue("url")+" "+r.FormValue("at")]
		if !ok {
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, body)
	default:
		http.NotFound(w, r)
	}
}

// page tells what was served last before a moment.
func (f *fake) page(w http.ResponseWriter, r *http.Request) {
	when, err := time.Parse(time.RFC3339, r.FormValue("at"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	for h := range f.hosts {
		for p := range f.hosts[h].Pages {
			u := pageURL(h, p)
			if u != r.FormValue("url") {
				continue
			}
			version := uint64(1)
			for _, a := range f.served {
				if a.Host == h && a.Page == p && !a.When.After(when) {
					version = a.Version
				}
			}
			answerJSON(w, shown{h, p, strings.TrimPrefix(digest(content(u, version)), "sha256:")})
			return
		}
	}
	http.NotFound(w, r)
}

func answerJSON(w http.ResponseWriter, v any) {
	_ = json.NewEncoder(w).Encode(v) // the judge sees what is missing
}

func judgeOf(t *testing.T, f *fake) *Judge {
	t.Helper()
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	j, err := New(t.Context(), Config{Manager: s.URL, Token: "secret", Pond: s.URL, Slack: 10 * time.Second, BlockGrace: 5 * time.Second, Whole: 40, Strategy: "icr", Endless: []string{"h2.test"}, Alias: map[string]string{"alias.test": "h1.test"}})
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func (j *Judge) mustLook(t *testing.T) {
	t.Helper()
	if err := j.Look(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func block(j *Judge, from, to time.Time) {
	if err := j.Blocked("http://h0.test", from); err != nil {
		panic(err)
	}
	if to.IsZero() {
		return
	}
	if err := j.Unblocked("h0.test", to); err != nil {
		panic(err)
	}
}

// purge has the first host taken down at 250 s: all that was told of it goes, and its captures if done.
func (f *fake) purge(j *Judge, done bool) {
	var feed []change
	for _, c := range f.feed {
		if !strings.Contains(c.URL, "h0.test") {
			feed = append(feed, c)
		}
	}
	f.feed = feed
	f.rows[0].ID, f.rows[0].Updates = 9, 0
	for p := range 2 {
		if done {
			f.takeDown(pageURL(0, p))
		}
	}
	if err := j.Purged("h0.test", at(250)); err != nil {
		panic(err)
	}
}

func (f *fake) violate(kind string) {
	f.stats.Violated++
	f.stats.Violations = append(f.stats.Violations, violation{When: at(50), Host: "h1.test", Kind: kind, Path: "/x"})
}

// late changes the time that was told of the last fetch.
func (f *fake) late(by time.Duration) {
	c, e := &f.captures[len(f.captures)-1], &f.feed[len(f.feed)-1]
	f.bodies[bodyAt(c.URL, c.at.Add(by))] = f.bodies[bodyAt(c.URL, c.at)]
	c.at, e.Fetched = c.at.Add(by), e.Fetched.Add(by)
}

// overlap has the pond see a second request to a host at 50 s.
func (f *fake) overlap(host string) {
	f.violate("parallel")
	f.stats.Violations[0].Host, f.stats.MaxInFlight = host, 2
}

// lie adds a capture of what was never served, by a member of whom the judge knows that it lies.
func (f *fake) lie(j *Judge, state string) {
	j.Lies("liar")
	f.invent(pageURL(0, 0))
	c := &f.captures[len(f.captures)-1]
	c.Deliverer, c.State = "d-1", state
	f.trusted.Peers = []map[string]string{{"peer": "honest", "deliverer": "d-0"}, {"peer": "liar", "deliverer": "d-1"}}
	f.bodies[bodyAt(c.URL, c.at)] = content(c.URL, 2)
}

// rename has all that is told of the second host bear its other name.
func (f *fake) rename() {
	const old, name = "h1.test", "alias.test"
	for i := range f.captures {
		f.captures[i].URL = strings.Replace(f.captures[i].URL, old, name, 1)
	}
	for i := range f.feed {
		f.feed[i].URL = strings.Replace(f.feed[i].URL, old, name, 1)
	}
	for u, b := range f.bodies {
		f.bodies[strings.Replace(u, old, name, 1)] = b
	}
	f.rows[1].Host = "http://" + name
}

// invent adds a capture of what the pond's log does not have.
func (f *fake) invent(u string) {
	f.captures = append(f.captures, capture{URL: u, Status: 200, Digest: digest("made up"), at: at(20)})
	f.bodies[bodyAt(u, at(20))] = "made up"
}

func (f *fake) takeDown(u string) {
	f.feed = append(f.feed, change{URL: u, Event: "gone", Fetched: at(180)})
	var left []capture
	for _, c := range f.captures {
		if c.URL != u {
			left = append(left, c)
		}
	}
	f.captures = left
	for k := range f.bodies {
		if strings.HasPrefix(k, u+" ") {
			delete(f.bodies, k)
		}
	}
}
