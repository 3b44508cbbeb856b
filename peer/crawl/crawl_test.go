package crawl

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"shoal/channel"
)

// sink is an archive in memory: it keeps what is put, and rebuilds the state to resume from as an archive does.
type sink struct {
	mu     sync.Mutex
	chunks []channel.ChunkBody
	fail   int // puts until one fails; 0: none does
}

func (s *sink) Put(_ context.Context, body []byte, last bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail > 0 {
		if s.fail--; s.fail == 0 {
			return errors.New("archive is gone")
		}
	}
	b, err := channel.ParseChunkBody(body)
	if err != nil {
		return err
	}
	if last != (b.Report != nil) {
		return errors.New("the last chunk is the one with the report")
	}
	s.chunks = append(s.chunks, b)
	return nil
}

func (s *sink) pages() (all []channel.Page) {
	for _, c := range s.chunks {
		all = append(all, c.Pages...)
	}
	return all
}

func (s *sink) urls() (all []string) {
	for _, p := range s.pages() {
		all = append(all, p.URL)
	}
	slices.Sort(all)
	return all
}

func (s *sink) resume() (r channel.Resume) {
	done := map[string]bool{}
	for _, p := range s.pages() {
		done[p.URL] = true
		r.Done = append(r.Done, channel.URLHash(p.URL))
	}
	for _, c := range s.chunks {
		for _, f := range c.Frontier {
			if !done[f.URL] {
				r.Frontier = append(r.Frontier, f)
			}
		}
	}
	r.Seq = uint64(len(s.chunks))
	return r
}

// site is a Web host for one test.
func site(t testing.TB, h http.Handler) (origin string, dial func(context.Context, string, string) (net.Conn, error)) {
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return "http://site.test", func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", srv.Listener.Addr().String())
	}
}

func task(t testing.TB, h http.Handler) (Config, *sink) {
	origin, dial := site(t, h)
	return taskOf(t, origin, dial)
}

func taskOf(t testing.TB, origin string, dial func(context.Context, string, string) (net.Conn, error)) (Config, *sink) {
	s := &sink{}
	return Config{
		Header: channel.Header{Channel: 1, Gen: 1, Host: origin},
		Body:   channel.Body{Scope: channel.Scope{Kind: channel.WholeHost, Host: origin}, Seeds: []string{origin + "/"}},
		Dial:   dial, Sink: s, Spool: t.TempDir(), UserAgent: "Shoal/test (+http://contact.test/)", Unpaced: true, Peer: "peer",
	}, s
}

func hypertext(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, body)
	}
}

// noLeaks checks when a test has ended, its server included, that no goroutine is left. What ends by itself has a minute for it: goleak alone
// gives it half a second.
func noLeaks(t testing.TB) {
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() {
		err := goleak.Find(before)
		for end := time.Now().Add(time.Minute); err != nil && time.Now().Before(end); {
			err = goleak.Find(before)
		}
		if err != nil {
			t.Error(err)
		}
	})
}

func run(t testing.TB, cfg Config) channel.Report {
	t.Helper()
	r, err := Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestCrawl(t *testing.T) {
	noLeaks(t)
	mux := http.NewServeMux()
	mux.HandleFunc("/robots.txt", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "User-agent: *\nDisallow: /private\n")
	})
	mux.Handle("/{$}", hypertext(`<html><head><title>home</title></head><a href="a">a</a> <a href="/a#frag">again</a> <a href=b?x=1&amp;y=2>b</a> <a href="/private/x">no</a>
		<a rel="nofollow" href="/c">c</a> <a href="http://other.test/">out</a> <a href="HTTP://Other.test:80">out again</a> <a href="mailto:x@y">m</a> <script>"<a href='/s'>"</script>`))
	mux.Handle("/a", hypertext(`<base href="/dir/"><a href="x">x</a>`))
	mux.HandleFunc("/b", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery != "x=1&y=2" {
			t.Errorf("query %q", r.URL.RawQuery)
		}
		w.Header().Set("X-Robots-Tag", "nofollow")
		hypertext(`<a href="/never">n</a>`)(w, r)
	})
	mux.HandleFunc("/dir/x", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/moved?to=1", http.StatusMovedPermanently)
	})
	mux.Handle("/moved", hypertext(`<meta name="robots" content="noindex"><a href="/missing">m</a>`))
	cfg, s := task(t, mux)
	cfg.Body.KnownInter = []uint64{channel.URLHash("http://known.test/")}
	r := run(t, cfg)
	want := []string{"/", "/a", "/b?x=1&y=2", "/dir/x", "/missing", "/moved?to=1"}
	for i := range want {
		want[i] = "http://site.test" + want[i]
	}
	if got := s.urls(); !slices.Equal(got, want) {
		t.Errorf("fetched %q\nwant    %q", got, want)
	}
	if r.Outcome != channel.Updated || r.Pages != 6 || r.New != 5 || r.Robots != "allowed" || r.Left != 0 || r.Truncated {
		t.Errorf("report %+v", r)
	}
	if !slices.Equal(r.Inter, []string{"http://other.test/"}) {
		t.Errorf("inter-site %q", r.Inter)
	}
	for kind := range r.Errors {
		if channel.ErrorKind(kind) != kind {
			t.Errorf("an archive does not know %s", kind)
		}
	}
	if r.Errors["http-404"] != 1 || r.Errors["skipped-robots"] != 1 || r.Errors["noindex"] != 1 || r.Errors["skipped-nofollow"] != 2 {
		t.Errorf("errors %v", r.Errors)
	}
	last := s.chunks[len(s.chunks)-1]
	if last.Report == nil || last.Report.Outcome != channel.Updated {
		t.Error("the last chunk has no report")
	}
	for _, p := range s.pages() {
		switch p.URL[len("http://site.test"):] {
		case "/":
			if string(p.Header[:15]) != "HTTP/1.1 200 OK" || len(p.Links) != 4 || p.Shingle == 0 || p.Depth != 0 {
				t.Errorf("home: %q links %q", p.Header, p.Links)
			}
		case "/moved?to=1":
			if len(p.Body) != 0 || p.Error != "noindex" {
				t.Errorf("noindex: %+v", p)
			}
		}
	}
}

func TestChanges(t *testing.T) {
	version := "one"
	mux := http.NewServeMux()
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, r *http.Request) {
		hypertext(`<a href="/same">s</a><a href="/gone">g</a> `+version)(w, r)
	})
	mux.Handle("/same", hypertext("same"))
	mux.HandleFunc("/gone", func(w http.ResponseWriter, r *http.Request) {
		if version != "one" {
			http.NotFound(w, r)
			return
		}
		hypertext("here")(w, r)
	})
	cfg, s := task(t, mux)
	if r := run(t, cfg); r.New != 3 || r.Robots != "none" {
		t.Errorf("first: %+v", r)
	}
	for _, p := range s.pages() {
		cfg.Body.Digests = append(cfg.Body.Digests, channel.PageDigest{URL: channel.URLHash(p.URL), Content: p.Digest})
	}
	version = "two"
	again := &sink{}
	cfg.Sink = again
	if r := run(t, cfg); r.New != 0 || r.Changed != 1 || r.Unchanged != 1 || r.Gone != 1 || r.Pages != 3 {
		t.Errorf("second: %+v", r)
	}
	for _, p := range again.pages() {
		if (p.Change == channel.Unchanged || p.Change == channel.Gone) && len(p.Body) > 0 {
			t.Errorf("%s was sent though it is unchanged or gone", p.URL)
		}
	}
	// Back to earlier content: known by pair, so unchanged.
	version = "one"
	cfg.Body.Digests = append(cfg.Body.Digests, channel.PageDigest{URL: channel.URLHash("http://site.test/"), Content: again.pages()[0].Digest})
	cfg.Sink = &sink{}
	if r := run(t, cfg); r.Unchanged != 3 {
		t.Errorf("third: %+v", r)
	}
}

// TestConditional asks with validators only where a 304 hides nothing: all that is known to be stored is on the list.
func TestConditional(t *testing.T) {
	for _, c := range []struct {
		name  string
		known []string // to have been stored
		list  []string // that the archive sends along
		asked bool
	}{
		{"all", []string{"/", "/a", "/b"}, []string{"/", "/a", "/b"}, true},
		{"a seed need not be on it", []string{"/", "/a", "/b"}, []string{"/a", "/b"}, true},
		{"none", []string{"/", "/a", "/b"}, nil, false},
		{"not /b", []string{"/", "/a", "/b"}, []string{"/", "/a"}, false},
	} {
		mux := http.NewServeMux()
		asked := 0
		page := func(path, body string) {
			mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("If-None-Match") == `"v1"` {
					asked++
					w.WriteHeader(http.StatusNotModified)
					return
				}
				hypertext(body)(w, r)
			})
		}
		page("/{$}", `<a href="/a">a</a>`)
		page("/a", `<a href="/b">b</a>`)
		page("/b", "b")
		cfg, s := task(t, mux)
		for _, path := range c.known {
			h := channel.URLHash("http://site.test" + path)
			cfg.Body.Validators = append(cfg.Body.Validators, channel.Validator{URL: h, ETag: `"v1"`})
			cfg.Body.Digests = append(cfg.Body.Digests, channel.PageDigest{URL: h, Content: 1})
		}
		for i, path := range c.list {
			cfg.Resume.Frontier = append(cfg.Resume.Frontier, channel.Frontier{URL: "http://site.test" + path, Depth: i})
		}
		r := run(t, cfg)
		want := 0
		if c.asked {
			want = 3
		}
		if r.Pages != 3 || asked != want || r.Unchanged != want || r.Changed != 3-want || s.pages()[0].Depth != 0 {
			t.Errorf("%s: asked %d with validators, %+v", c.name, asked, r)
		}
	}
}

// tree is a site of pages in a tree, each linking to fan children.
func tree(pages, fan int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := 0
		if r.URL.Path != "/" {
			if _, err := fmt.Sscanf(r.URL.Path, "/p%d", &n); err != nil || n >= pages {
				http.NotFound(w, r)
				return
			}
		}
		body := fmt.Sprintf("<title>page %d</title>", n)
		for c := n*fan + 1; c <= n*fan+fan && c < pages; c++ {
			body += fmt.Sprintf(`<a href="/p%d">x</a>`, c)
		}
		hypertext(body)(w, r)
	})
}

func TestBudgetAndDepth(t *testing.T) {
	cfg, _ := task(t, tree(100, 3))
	cfg.Header.Budget = 10
	if r := run(t, cfg); r.Pages != 10 || !r.Truncated || r.Left == 0 || r.Outcome != channel.Updated {
		t.Errorf("budget: %+v", r)
	}
	cfg, _ = task(t, tree(100, 3))
	cfg.Body.Scope.MaxDepth = 2
	if r := run(t, cfg); r.Pages != 1+3+9 || !r.Truncated || r.Left != 0 {
		t.Errorf("depth: %+v", r)
	}
}

// TestResume kills a crawl at each checkpoint and goes on from what the archive has: all pages are had, none twice.
func TestResume(t *testing.T) {
	const pages = 300
	for _, ordering := range []string{"", "opic"} {
		for kill := 1; kill <= 8; kill++ {
			cfg, s := task(t, tree(pages, 4))
			cfg.Body.Settings.Order = ordering
			cfg.Checkpoint = time.Nanosecond
			s.fail = kill
			_, err := Run(t.Context(), cfg)
			if err == nil {
				t.Fatalf("order %q: put %d failed, and the crawl did not", ordering, kill)
			}
			cfg.Resume = s.resume()
			stored := len(s.pages())
			if r := run(t, cfg); r.Outcome != channel.Updated || r.Pages != pages {
				t.Errorf("order %q, killed at put %d with %d pages stored: %+v", ordering, kill, stored, r)
			}
			urls := s.urls()
			if n := len(urls); n != pages || len(slices.Compact(urls)) != pages {
				t.Errorf("order %q, killed at put %d: %d pages, %d different", ordering, kill, n, len(slices.Compact(urls)))
			}
		}
	}
}

func TestStop(t *testing.T) {
	cfg, s := task(t, tree(200, 3))
	stop := make(chan struct{})
	cfg.Stop = stop
	n := 0
	cfg.OnVisit = func(Visit) {
		if n++; n == 20 {
			close(stop)
		}
	}
	r := run(t, cfg)
	if r.Outcome != channel.Stopped || r.Left == 0 {
		t.Errorf("report %+v", r)
	}
	for _, c := range s.chunks {
		if c.Report != nil {
			t.Error("a stopped crawl is not over: no chunk may hold a report")
		}
	}
	cfg.Stop, cfg.Resume, cfg.OnVisit = nil, s.resume(), nil
	if r := run(t, cfg); r.Pages != 200 || r.Outcome != channel.Updated {
		t.Errorf("resumed: %+v", r)
	}
	if urls := s.urls(); len(slices.Compact(urls)) != len(s.pages()) {
		t.Error("pages fetched twice")
	}
}

func TestCancel(t *testing.T) {
	noLeaks(t)
	cfg, _ := task(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/robots.txt" {
			<-r.Context().Done()
		}
	}))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := Run(ctx, cfg); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

func TestRobotsAnswers(t *testing.T) {
	for _, c := range []struct {
		status  int
		body    string
		outcome channel.Outcome
		robots  string
	}{
		{200, "User-agent: *\nDisallow: /", channel.Failed, "disallowed"},
		{200, "<html>not robots</html>", channel.Updated, "allowed"},
		{404, "", channel.Updated, "none"},
		{421, "", channel.Failed, "unreachable"},
		{410, "", channel.Updated, "none"},
		{401, "", channel.HostBlocked, "unreachable"},
		{403, "", channel.HostBlocked, "unreachable"},
		{429, "", channel.HostBlocked, "unreachable"},
		{500, "", channel.Failed, "unreachable"},
		{503, "", channel.Failed, "unreachable"},
	} {
		asked := 0
		cfg, _ := task(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/robots.txt" {
				w.Header().Set("Content-Type", "application/octet-stream") // as some servers call it
				w.WriteHeader(c.status)
				fmt.Fprint(w, c.body)
				return
			}
			asked++
			hypertext("page")(w, r)
		}))
		r := run(t, cfg)
		if r.Outcome != c.outcome || r.Robots != c.robots || (asked > 0) != (c.outcome == channel.Updated) {
			t.Errorf("robots.txt %d %q: outcome %d, robots %q, %d pages asked for, %s", c.status, c.body, r.Outcome, r.Robots, asked, r.Reason)
		}
	}
}

// TestSeedsOutsideOfTheScope: where an operator's filters leave out all seeds, the reason says so, unless something else was found and failed.
func TestSeedsOutsideOfTheScope(t *testing.T) {
	for _, c := range []struct {
		name, sitemap string
		outcome       channel.Outcome
		says          string
	}{
		{"no other way", "", channel.Failed, "leave out all its seeds"},
		{"a sitemap leads to a page", "/news/1", channel.Updated, ""},
		{"a sitemap leads to a page that is broken", "/news/broken", channel.Failed, "nothing could be fetched"},
	} {
		cfg, _ := task(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/robots.txt":
				if c.sitemap != "" {
					fmt.Fprintf(w, "Sitemap: http://%s/list.txt\n", r.Host)
				}
			case "/list.txt":
				fmt.Fprintf(w, "http://%s%s\n", r.Host, c.sitemap)
			case "/news/broken":
				w.WriteHeader(http.StatusInternalServerError)
			default:
				hypertext("page")(w, r)
			}
		}))
		cfg.Body.Scope.Filters = []string{"/news/"}
		if r := run(t, cfg); r.Outcome != c.outcome || !strings.Contains(r.Reason, c.says) {
			t.Errorf("%s: outcome %d, %q, errors %v; want %d, %q", c.name, r.Outcome, r.Reason, r.Errors, c.outcome, c.says)
		}
	}
}

func TestRobotsRedirects(t *testing.T) {
	for hops, forbidden := range map[int]bool{5: true, 6: false} {
		cfg, _ := task(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			n := 0
			fmt.Sscanf(r.URL.Path, "/robots-%d", &n)
			switch {
			case r.URL.Path == "/":
				hypertext("page")(w, r)
			case n < hops:
				http.Redirect(w, r, fmt.Sprintf("/robots-%d", n+1), http.StatusFound)
			default:
				fmt.Fprint(w, "User-agent: *\nDisallow: /")
			}
		}))
		if r := run(t, cfg); (r.Outcome == channel.Failed) != forbidden {
			t.Errorf("%d redirects: outcome %d, robots %s", hops, r.Outcome, r.Robots)
		}
	}
}

// TestRobotsWhereTheVolunteerDoesNotGo has a host send on for its robots.txt to another one. If the volunteer wants no requests there, none is sent, and the task goes back.
func TestRobotsWhereTheVolunteerDoesNotGo(t *testing.T) {
	for _, denied := range []bool{false, true} {
		asked := 0
		cfg, _ := task(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.Host == "www.site.test":
				asked++
			case r.URL.Path == "/robots.txt":
				http.Redirect(w, r, "http://www.site.test/robots.txt", http.StatusMovedPermanently)
			default:
				hypertext("page")(w, r)
			}
		}))
		cfg.Refuse = func(origin string) error {
			if denied || origin != "http://www.site.test" {
				return fmt.Errorf("this volunteer does not fetch %s", origin)
			}
			return nil
		}
		r := run(t, cfg)
		if denied && (asked > 0 || r.Outcome != channel.Refused || r.Pages > 0) || !denied && (asked != 1 || r.Outcome != channel.Updated) {
			t.Errorf("denied %v: asked %d times, outcome %d, %q", denied, asked, r.Outcome, r.Reason)
		}
	}
}

// TestUserAgentIsOneLine has a User-Agent that would end its line: a network's contact is part of it.
func TestUserAgentIsOneLine(t *testing.T) {
	for agent, good := range map[string]bool{"Shoal/1 (+http://contact.test/)": true, "": false, "Shoal/1\r\nX-Forged: 1": false, "Shoal/1\rX": false, "Shoal/1\x00": false} {
		cfg := Config{UserAgent: agent, Sink: &sink{}, Dial: (&net.Dialer{}).DialContext}
		cfg.Body.Scope.Host = "http://a.example"
		if err := cfg.Validate(); (err == nil) != good || err != nil && !errors.Is(err, ErrConfig) {
			t.Errorf("%q: %v", agent, err)
		}
	}
}
