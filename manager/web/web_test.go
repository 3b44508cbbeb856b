package web

import (
	"context"
	"encoding/xml"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"shoal/channel"
	"shoal/manager"
	"shoal/manager/conduct"
	"shoal/manager/desk"
)

type fake struct {
	crawled  channel.ID
	paused   map[channel.ID]bool
	strategy string
	blocked  map[string]string
	split    []string
	added    []string
	removed  channel.ID
	purged   string
	banned   []string
	truth    *desk.Truth
	held     string
	unread   error     // why no channel can be read
	awaited  time.Time // until when a.example's task is, which a peer has; zero: it has none
}

func (f *fake) Overview() desk.Overview {
	t := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	o := desk.Overview{Network: strings.Repeat("ab", 32), Strategy: "icr", Since: t, Now: t.Add(time.Minute), Channels: 12345, Updates: 7,
		Intervals: []desk.Seconds{desk.Seconds(time.Second), desk.Seconds(2 * time.Second)}, GroupSizes: []int{3, 4}, Errors: map[string]int64{"<timeout>": 3}, Data: "/d", Truth: f.truth, HeldBack: f.held}
	for i := range 5 {
		o.History = append(o.History, desk.Point{At: t.Add(time.Duration(i) * time.Second), UpdatesMin: float64(i), Intervals: o.Intervals})
	}
	return o
}

func (f *fake) Rows(_ context.Context, find desk.Find) ([]desk.Row, int, error) {
	if f.unread != nil {
		return nil, 0, f.unread
	}
	rows := []desk.Row{{ID: 1, Host: "https://a.example", Out: !f.awaited.IsZero(), Awaited: f.awaited, Every: desk.Seconds(time.Hour), Visits: 2}, {ID: 2, Host: "https://<b>.example", Error: "no route", Reason: "given", State: "given up"}}
	var out []desk.Row
	for _, r := range rows {
		if strings.Contains(r.Host, find.Text) && (find.State == "" || find.State == r.State) {
			out = append(out, r)
		}
	}
	total := len(out)
	return out[min(find.From, total):min(find.From+find.N, total)], total, nil
}

func (f *fake) Row(_ context.Context, id channel.ID) (desk.Row, []desk.Event, error) {
	if f.unread != nil {
		return desk.Row{}, nil, f.unread
	}
	if id != 1 {
		return desk.Row{}, nil, channel.ErrUnknown
	}
	return desk.Row{ID: 1, Host: "https://a.example", State: "active", Out: !f.awaited.IsZero(), Awaited: f.awaited, Delivered: []manager.Credit{{Deliverer: "d-0123456789ab", Peer: "12D3<i>Kooabcdefghijkl", Pages: 3, Shows: 1}}}, []desk.Event{{What: "accepted", Gen: 4, Peer: "12D3KooWabcdefghijkl"}}, nil
}

func (f *fake) Peers() ([]desk.Peer, error) {
	return []desk.Peer{{ID: "12D3KooWabcdefghijkl", Coord: [2]float64{3, 4}, Running: 2}}, nil
}

func (f *fake) Suspects() ([]desk.Suspect, int, error) {
	m := conduct.Member{Peer: "12D3KooW<u>abcdefghijkl", Faults: []conduct.Fault{conduct.Stalls}}
	return []desk.Suspect{{Member: m, Says: "swallowed <u>52</u> tasks", Mend: "ban it"}}, 7, nil
}

func (f *fake) PurgeCount(_ context.Context, name string) (desk.PurgedPeer, error) {
	if name == "nobody" {
		return desk.PurgedPeer{}, errors.New("manager: nobody has delivered nothing")
	}
	return desk.PurgedPeer{Name: name, Withdrawn: manager.Withdrawn{Deliverers: 2, Pages: 1234, Captures: 5678}}, nil
}

func (f *fake) StartPurge(_ context.Context, name string) error { f.purged = name; return nil }
func (f *fake) Ban(_ context.Context, peer string, banned bool) error {
	if banned {
		f.banned = append(f.banned, peer)
	} else {
		f.banned = slices.DeleteFunc(f.banned, func(p string) bool { return p == peer })
	}
	return nil
}
func (f *fake) Refused(context.Context) ([]desk.Refused, error) {
	out := []desk.Refused{{Name: "12D3<u>KooWliar", Standing: "suspended", Deliverer: "d-0123456789ab"}}
	for _, name := range append(f.banned, "invite-<u>17") {
		out = append(out, desk.Refused{Name: name, Standing: "banned"})
	}
	return out, nil
}

func (f *fake) Purging() *manager.Withdrawing {
	return &manager.Withdrawing{Deliverers: []string{"d-0123456789ab"}, All: 3, Looked: 4321, Pages: 17, Captures: 19}
}

func (f *fake) CrawlNow(_ context.Context, id channel.ID) error { f.crawled = id; return nil }
func (f *fake) Pause(_ context.Context, id channel.ID, p bool) error {
	f.paused[id] = p
	return nil
}
func (f *fake) SetStrategy(_ context.Context, ask desk.StrategyAsk) (desk.Strategy, error) {
	if ask.Name == "nonsense" {
		return desk.Strategy{}, errors.New("no such strategy: want fixed or icr")
	}
	f.strategy = ask.Name
	return desk.Strategy{}, nil
}

func (f *fake) Strategy(context.Context) (desk.Strategy, error) {
	return desk.Strategy{StrategyChoice: manager.StrategyChoice{Name: "icr"}, Names: []string{"fixed", "icr"}, Sequencers: manager.Sequencers{By: "operator", Ratio: .25, Sites: 4}}, nil
}

func (f *fake) Add(_ context.Context, urls []string) ([]desk.Added, int, error) {
	if urls[0] == "nonsense://" {
		return nil, 0, errors.New("manager: that is no URL")
	}
	f.added = urls
	var added []desk.Added
	for i, u := range urls {
		added = append(added, desk.Added{URL: u, Channel: channel.ID(i + 1), New: i != 1})
	}
	return added, 0, nil
}

func (f *fake) Remove(_ context.Context, id channel.ID) error { f.removed = id; return nil }

func (f *fake) LeftOut(context.Context, channel.ID) ([]desk.LeftOut, error) {
	return []desk.LeftOut{{Dir: "/news/", Channel: 7, Pattern: "^x"}}, nil
}

func (f *fake) Banner(context.Context) []desk.Finding {
	return []desk.Finding{{Level: desk.Error, What: "No peer has <joined>."}, {Level: desk.Warning, What: "Keys.", Mend: "Back them up."},
		{Level: desk.Warning, What: "3 peers suspended.", Waits: true}}
}

func (f *fake) Tally(context.Context) (desk.Tally, error) { return desk.Tally{desk.GivenUp: 1}, nil }

func (f *fake) Proposals(context.Context, channel.ID) ([]desk.DirCount, int, error) {
	return []desk.DirCount{{Dir: "/news/", Pages: 120}, {Dir: "/<i>/", Pages: 30}}, 200, nil
}

func (f *fake) Split(_ context.Context, _ channel.ID, dirs []string) ([]channel.ID, []string, error) {
	f.split = dirs
	return nil, dirs, nil
}

func (f *fake) Hosts(_ context.Context, q string, blocked bool, n int) ([]desk.Host, error) {
	if f.unread != nil {
		return nil, f.unread
	}
	hosts := []desk.Host{{Name: "https://a.example", CrawlDelay: desk.Seconds(3 * time.Second)}}
	for _, name := range slices.Sorted(maps.Keys(f.blocked)) {
		hosts = append(hosts, desk.Host{Name: name, Blocked: f.blocked[name]})
	}
	return slices.DeleteFunc(hosts, func(h desk.Host) bool { return !strings.Contains(h.Name, q) || blocked && h.Blocked == "" }), nil
}

func (f *fake) KnownMember(_ context.Context, name string) error {
	if name == "typo" {
		return errors.New("no peer or account typo is known")
	}
	return nil
}

func (f *fake) KnownHost(_ context.Context, host string) error {
	if host == "typo.example" {
		return errors.New("nothing is known of typo.example")
	}
	return nil
}

func (f *fake) Block(_ context.Context, host, why string) error {
	if why == "" {
		delete(f.blocked, host)
	} else {
		f.blocked[host] = why
	}
	return nil
}

func (f *fake) TryStrategy(_ context.Context, ask desk.StrategyAsk) (desk.Trial, error) {
	if ask.Name == "nonsense" {
		return desk.Trial{}, errors.New("recrawl: no such strategy: want fixed or icr")
	}
	return desk.Trial{Ahead: desk.Seconds(time.Hour), Channels: 12, Of: 34, Now: desk.Outlook{Strategy: "icr", Tasks: 77, ByGroup: []int{70, 7}, Intervals: []desk.Seconds{desk.Seconds(time.Second), desk.Seconds(time.Minute)}},
		Then: desk.Outlook{Strategy: ask.Name, Tasks: 55, ByGroup: []int{55}, Freshness: .5}}, nil
}

func start(t *testing.T, open bool) (*fake, *httptest.Server) {
	t.Helper()
	f := &fake{paused: map[channel.ID]bool{}, blocked: map[string]string{}}
	h, err := Handler(Config{Desk: f, Token: "s3cret", OpenView: open, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return f, s
}

func ask(t *testing.T, method, at string, edit func(*http.Request)) (int, string) {
	t.Helper()
	r, err := http.NewRequest(method, at, nil)
	if err != nil {
		t.Fatal(err)
	}
	if edit != nil {
		edit(r)
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func token(r *http.Request) { r.Header.Set("Authorization", "Bearer s3cret") }

func TestPages(t *testing.T) {
	_, s := start(t, true)
	for path, want := range map[string]string{
		"/": "12\u202f345", "/channels": "https://&lt;b&gt;.example", "/channel/1": "accepted", "/channel/1?fragment=1": "d-0123456789ab", "/peers": "12D3…ghijkl", "/peers?": "swallowed &lt;u&gt;52&lt;/u&gt; tasks", "/peers?a": "4\u202f321 versions of pages looked at", "/peers?b": "invite-&lt;u&gt;17", "/peers/purge?peer=%3Cu%3E": "5\u202f678 versions of 1\u202f234 pages",
		"/peers?fragment=1": "7 more are not listed",
		"/hosts":            "https://a.example", "/strategy": "Show what it would change", "/strategy?": "New and old are mixed 25% new while both wait, as an operator set it. 4 sites have", "/strategy?try=fixed": "55", "/channel/1/split": "/&lt;i&gt;/",
		"/style.css": "--sea", "/live.js": "fragment", "/login": "operator.token", "/?fragment=1": "Updates a minute",
	} {
		code, body := ask(t, "GET", s.URL+path, nil)
		if code != 200 || !strings.Contains(body, want) {
			t.Errorf("GET %s: %d, wanted %q in\n%.600s", path, code, want, body)
		}
		if strings.Contains(body, "<b>.example") || strings.Contains(body, "<i>Koo") || strings.Contains(body, "<u>") || strings.Contains(body, "ZgotmplZ") || strings.Contains(body, "<no value>") {
			t.Errorf("GET %s: a name from outside was not escaped, or a value is missing", path)
		}
	}
	if code, _ := ask(t, "GET", s.URL+"/channel/77", nil); code != 404 {
		t.Errorf("a channel that is not there answers %d", code)
	}
	if _, body := ask(t, "GET", s.URL+"/channels?q=zzz", nil); !strings.Contains(body, "No channel matches") {
		t.Error("an empty search says nothing")
	}
}

func TestMounts(t *testing.T) {
	var asked []string
	note := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { asked = append(asked, r.Method+" "+r.URL.Path) })
	h, err := Handler(Config{Desk: &fake{}, Token: "s3cret", API: note, Probes: note, Debug: note, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(h)
	defer s.Close()
	for _, x := range []struct {
		method, path string
		with         func(*http.Request)
		code         int
	}{
		{"GET", "/api/v1/channels", nil, 401}, {"GET", "/api/v1/channels", token, 200}, {"DELETE", "/api/v1/channels/1", nil, 401},
		{"DELETE", "/api/v1/channels/1", token, 200}, {"GET", "/metrics", nil, 200}, {"GET", "/readyz", nil, 200}, {"POST", "/healthz", token, 405},
		{"GET", "/debug/pprof/", nil, 401}, {"GET", "/debug/pprof/", token, 200},
	} {
		before := len(asked)
		if code, _ := ask(t, x.method, s.URL+x.path, x.with); code != x.code || (code == 200) != (len(asked) > before) {
			t.Errorf("%s %s: %d, want %d; served: %v", x.method, x.path, code, x.code, asked[before:])
		}
	}
}

func TestOperatingNeedsToken(t *testing.T) {
	f, s := start(t, true)
	if code, _ := ask(t, "POST", s.URL+"/channel/1/crawl-now", nil); code != http.StatusSeeOther || f.crawled != 0 {
		t.Errorf("without a token: %d, crawled %d", code, f.crawled)
	}
	if code, _ := ask(t, "POST", s.URL+"/channel/1/crawl-now", token); code != http.StatusSeeOther || f.crawled != 1 {
		t.Errorf("with it: %d, crawled %d", code, f.crawled)
	}
	ask(t, "POST", s.URL+"/channel/1/pause", token)
	if !f.paused[1] {
		t.Error("not paused")
	}
	if code, body := ask(t, "POST", s.URL+"/channel/x/pause", token); code != 400 || !strings.Contains(body, "no channel&#39;s number") {
		t.Errorf("a channel number that is none: %d %q", code, body)
	}
}

// A token that does not fit is refused, also where looking needs none: who shows it takes this for another manager. A browser's cookie may be left
// from one; it just opens nothing.
func TestTokenThatDoesNotFit(t *testing.T) {
	wrong := func(r *http.Request) { r.Header.Set("Authorization", "Bearer other") }
	stale := func(r *http.Request) { r.AddCookie(&http.Cookie{Name: cookieFor(""), Value: "other"}) }
	for _, open := range []bool{true, false} {
		note := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
		h, err := Handler(Config{Desk: &fake{}, Token: "s3cret", OpenView: open, API: note, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		s := httptest.NewServer(h)
		t.Cleanup(s.Close)
		for _, path := range []string{"/", "/api/v1/channels"} {
			for _, method := range []string{"GET", "POST"} {
				if method == "POST" && path == "/" {
					continue
				}
				if code, body := ask(t, method, s.URL+path, wrong); code != 401 || !strings.Contains(body, "does not fit") {
					t.Errorf("open %v: %s %s with a wrong token: %d %q", open, method, path, code, body)
				}
			}
			if code, _ := ask(t, "GET", s.URL+path, token); code != 200 {
				t.Errorf("open %v: GET %s with the token: %d", open, path, code)
			}
		}
		if code, body := ask(t, "GET", s.URL+"/?token=other", nil); code != 401 || !strings.Contains(body, "does not fit") {
			t.Errorf("open %v: a link with a wrong token: %d %q", open, code, body)
		}
		want := map[bool]int{true: 200, false: http.StatusSeeOther}[open]
		for name, with := range map[string]func(*http.Request){"no token": nil, "a stale cookie": stale} {
			if code, body := ask(t, "GET", s.URL+"/", with); code != want || strings.Contains(body, "Log out") {
				t.Errorf("open %v: GET / with %s: %d, want %d", open, name, code, want)
			}
		}
		if code, body := ask(t, "POST", s.URL+"/api/v1/channels/1/pause", nil); code != 401 || !strings.Contains(body, "needs the operator's token") {
			t.Errorf("open %v: changing without a token: %d %q", open, code, body)
		}
	}
}

// TestDeeds posts what the pages' forms do, without a token and with one.
func TestDeeds(t *testing.T) {
	f, s := start(t, true)
	send := func(path string, form url.Values, with func(*http.Request)) (int, string, string) {
		r, err := http.NewRequest("POST", s.URL+path, strings.NewReader(form.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Referer", s.URL+"/hosts?q=x")
		if with != nil {
			with(r)
		}
		client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, resp.Header.Get("Location"), string(b)
	}
	for _, x := range []struct {
		path string
		form url.Values
		to   string // with a token
		done func() bool
	}{
		{"/hosts/block", url.Values{"host": {"b.example"}}, "/hosts?done=block", func() bool { return f.blocked["b.example"] == "by an operator" }},
		{"/hosts/block", url.Values{"host": {"c.example"}, "why": {" asked to "}}, "/hosts?done=block", func() bool { return f.blocked["c.example"] == "asked to" }},
		{"/hosts/block", url.Values{"host": {"typo.example"}, "unknown": {"1"}}, "/hosts?done=block", func() bool { defer delete(f.blocked, "typo.example"); return len(f.blocked) == 3 }},
		{"/hosts/unblock", url.Values{"host": {"c.example"}}, "/hosts?done=unblock", func() bool { return len(f.blocked) == 1 }},
		{"/channel/1/split", url.Values{"dir": {"/news/"}, "more": {"/shop/ /x/"}}, "/channel/1?done=split", func() bool { return slices.Equal(f.split, []string{"/news/", "/shop/", "/x/"}) }},
		{"/channels", url.Values{"urls": {"https://d.example/\r\nhttps://e.example/"}}, "/channels/added?known=2&new=1", func() bool { return len(f.added) == 2 }},
		{"/channel/1/remove", nil, "/channels?done=remove", func() bool { return f.removed == 1 }},
		{"/strategy", url.Values{"name": {"fixed"}}, "/strategy?done=strategy", func() bool { return f.strategy == "fixed" }},
		{"/channel/1/pause", url.Values{"paused": {"false"}}, "/channel/1?done=pause", func() bool { p, ok := f.paused[1]; return ok && !p }},
	} {
		if code, to, _ := send(x.path, x.form, nil); code != http.StatusSeeOther || to != "/login" {
			t.Errorf("%s without a token: %d, to %s", x.path, code, to)
		}
		if x.path == "/strategy" && f.strategy != "" || x.path == "/channels" && f.added != nil {
			t.Errorf("%s was done without a token", x.path)
		}
		if code, to, body := send(x.path, x.form, token); code != http.StatusSeeOther || to != x.to || !x.done() {
			t.Errorf("%s with a token: %d, to %s, done: %v\n%s", x.path, code, to, x.done(), body)
		}
	}
	if code, _, body := send("/strategy", nil, token); code != http.StatusBadRequest || !strings.Contains(body, "no strategy was chosen") || f.strategy != "fixed" {
		t.Errorf("no strategy: %d, %s is set\n%s", code, f.strategy, body)
	}
	if code, _, body := send("/channels", url.Values{"urls": {strings.Repeat("https://d.example/ ", 20_000)}}, token); code != http.StatusBadRequest || !strings.Contains(body, "shoal channel import") {
		t.Errorf("a form that is too long: %d\n%s", code, body)
	}
	for path, form := range map[string]url.Values{"/strategy": {"name": {"nonsense"}}, "/channels": {"urls": {"nonsense://"}}, "/channel/1/split": {}, "/hosts/block": {"host": {"typo.example"}}} {
		code, _, body := send(path, form, token)
		if code != http.StatusBadRequest || !strings.Contains(body, "That was not done") || !strings.Contains(body, `href="/hosts"`) || strings.Contains(body, "manager: ") {
			t.Errorf("%s with %v: %d\n%s", path, form, code, body)
		}
	}
	if code, body := ask(t, "GET", s.URL+"/strategy?try=nonsense", token); code != http.StatusBadRequest || !strings.Contains(body, "want fixed or icr") {
		t.Errorf("a preview of nothing: %d", code)
	}
	if _, body := ask(t, "GET", s.URL+"/hosts?done=block&blocked=1", token); !strings.Contains(body, "Nothing more is crawled there") || strings.Contains(body, "https://a.example") {
		t.Error("the hosts after a block do not say so, or show others")
	}
	if _, body := ask(t, "GET", s.URL+"/hosts?done=%3Cb%3E", token); strings.Contains(body, "said") {
		t.Error("a link puts words on the page")
	}
}

// TestLookingShowsNoDeeds checks that a client that may only look sees no form that changes anything.
func TestLookingShowsNoDeeds(t *testing.T) {
	_, s := start(t, true)
	for _, path := range []string{"/", "/channels", "/channel/1", "/channel/1/split", "/hosts", "/peers", "/strategy?try=fixed"} {
		if _, body := ask(t, "GET", s.URL+path, nil); strings.Contains(body, `method="post" action="/c`) && path != "/channel/1/split" || strings.Contains(body, `<button>Make`) || strings.Contains(body, `action="/hosts/`) ||
			strings.Contains(body, "from now on") || !strings.Contains(body, "Log in") {
			t.Errorf("%s shows deeds to whoever may only look:\n%s", path, body)
		}
	}
	if _, body := ask(t, "GET", s.URL+"/", token); !strings.Contains(body, "Log out") {
		t.Error("an operator cannot log out")
	}
}

func TestForeignPagesAreRefused(t *testing.T) {
	f, s := start(t, true)
	code, _ := ask(t, "GET", s.URL+"/", func(r *http.Request) { r.Host = "evil.example:7780" })
	if code != http.StatusMisdirectedRequest {
		t.Errorf("a foreign Host name answers %d", code)
	}
	code, _ = ask(t, "POST", s.URL+"/channel/1/crawl-now", func(r *http.Request) { token(r); r.Header.Set("Origin", "https://evil.example") })
	if code != http.StatusForbidden || f.crawled != 0 {
		t.Errorf("a foreign page's post: %d, crawled %d", code, f.crawled)
	}
}

func TestChartsAreWellFormed(t *testing.T) {
	f := &fake{}
	h := f.Overview().History
	for kind := range plots {
		svg := string(chart(kind, h))
		if err := xml.Unmarshal([]byte(svg), new(struct{})); err != nil || !strings.HasPrefix(svg, "<svg") {
			t.Errorf("%s: %v in %.200s", kind, err, svg)
		}
	}
	if got := string(chart("updates", nil)); !strings.Contains(got, "after two samples") {
		t.Errorf("an empty history draws %q", got)
	}
	peers, _ := f.Peers()
	if err := xml.Unmarshal([]byte(swarm(peers)), new(struct{})); err != nil {
		t.Error(err)
	}
}

func TestWords(t *testing.T) {
	for v, want := range map[float64]float64{0: 1, .3: .5, 1: 1, 1.1: 2, 23: 25, 26: 50, 99: 100} {
		if got := niceTop(v); got != want {
			t.Errorf("niceTop(%v) = %v, want %v", v, got, want)
		}
	}
	for n, want := range map[int64]string{0: "0 B", 999: "999 B", 1500: "1.5 kB", 2_000_000: "2.0 MB"} {
		if got := size(n); got != want {
			t.Errorf("size(%d) = %q, want %q", n, got, want)
		}
	}
	n := int64(1234567)
	for _, v := range []any{1234567, n, &n} {
		if got := count(v); got != "1\u202f234\u202f567" {
			t.Errorf("count(%T) = %q", v, got)
		}
	}
}

// Every page begins with what the check finds, with the worst open to all and the rest behind it.
func TestBannerOnEveryPage(t *testing.T) {
	_, s := start(t, true)
	for _, path := range []string{"/", "/channels", "/channel/1", "/channel/1/split", "/hosts", "/peers", "/strategy", "/nowhere", "/?fragment=1"} {
		if _, body := ask(t, "GET", s.URL+path, nil); !strings.Contains(body, "No peer has &lt;joined&gt;.") || !strings.Contains(body, "and 2 more") || !strings.Contains(body, "Back them up.") {
			t.Errorf("%s begins without what is wrong:\n%.900s", path, body)
		}
	}
	if _, body := ask(t, "GET", s.URL+"/", nil); !strings.Contains(body, "No peer has &lt;joined&gt;. 3 peers suspended. <span") {
		t.Errorf("what waits for a decision is hidden by other troubles:\n%.900s", body)
	}
	code, body := ask(t, "GET", s.URL+"/nowhere", nil)
	if code != 404 || !strings.Contains(body, "There is no such page") || !strings.Contains(body, `href="/channels"`) {
		t.Errorf("a page that is none: %d\n%.600s", code, body)
	}
}

// The state comes first, with its reason; the list can be narrowed to it; and pages of it keep the choice.
func TestChannelsByState(t *testing.T) {
	_, s := start(t, true)
	_, body := ask(t, "GET", s.URL+"/channels?state=given+up&sort=state&n=1&q=b", nil)
	head, _, _ := strings.Cut(body[strings.Index(body, "<thead>"):], "</thead>")
	if !strings.HasPrefix(head, "<thead><tr><th>State</th><th>Channel</th><th>Last result</th><th>Reason</th>") {
		t.Errorf("the columns are %s", head)
	}
	if !strings.Contains(body, `class="state s-given-up"`) || !strings.Contains(body, ">given<") || strings.Contains(body, "https://a.example") || !strings.Contains(body, `value="given up" selected>given up (1)`) {
		t.Errorf("given up channels:\n%s", body)
	}
	_, body = ask(t, "GET", s.URL+"/channels?sort=state&n=1", nil)
	if !strings.Contains(body, `href="/channels?from=1&amp;n=1&amp;sort=state"`) {
		t.Errorf("the next page forgets the order:\n%s", body)
	}
}

// Words are explained where they stand, once for every place, and no two explanations share an id.
func TestGlossary(t *testing.T) {
	_, s := start(t, true)
	seen := map[string]bool{}
	for _, path := range []string{"/", "/channel/1", "/hosts", "/peers", "/strategy"} {
		_, body := ask(t, "GET", s.URL+path, nil)
		parts := strings.Split(body, `popovertarget="`)
		if len(parts) < 2 {
			t.Errorf("%s explains nothing", path)
		}
		for _, p := range parts[1:] {
			id, _, _ := strings.Cut(p, `"`)
			if seen[id] || strings.Count(body, `id="`+id+`"`) != 1 {
				t.Errorf("%s: the explanation %s is there %d times", path, id, strings.Count(body, `id="`+id+`"`))
			}
			seen[id] = true
		}
	}
	for word, g := range glossary {
		if termOf(word).Text != g.text || len(g.text) < 20 {
			t.Errorf("%s: %q", word, g.text)
		}
	}
}

// A long name wraps in its place, and does not push state and reason out of sight; no column is without a name.
func TestLongNamesWrap(t *testing.T) {
	_, s := start(t, true)
	for path, cell := range map[string]string{"/channels": `<td class="name"><a href="/channel/1">`, "/hosts": `<td class="name">`, "/strategy?try=price": `<th><span class="skip">`} {
		if _, body := ask(t, "GET", s.URL+path, token); !strings.Contains(body, cell) || strings.Contains(body, "<th></th>") {
			t.Errorf("%s is without %s:\n%s", path, cell, body)
		}
	}
	_, css := ask(t, "GET", s.URL+"/style.css", nil)
	for _, rule := range []string{"main { overflow-wrap: anywhere; }", "table { overflow-wrap: break-word; }", "td.reason, td.name { white-space: normal; max-width: 26rem; }"} {
		if !strings.Contains(css, rule) {
			t.Errorf("no rule %s", rule)
		}
	}
}

// TestTruthIsShown has the pond's page tell what was true on average, and how far the estimate was off.
func TestTruthIsShown(t *testing.T) {
	f, s := start(t, true)
	f.truth = &desk.Truth{Channels: .41, Mean: &desk.TrueFreshness{Channels: .32, Pages: .53, Weight: .34, EstimateError: .17}}
	_, body := ask(t, "GET", s.URL+"/", nil)
	for _, want := range []string{"<dd>41%</dd>", "<dd>32%</dd>", "<dd>53%, 34%</dd>", "<dd>17%</dd>"} {
		if !strings.Contains(body, want) {
			t.Errorf("no %s in\n%s", want, body)
		}
	}
}

// TestWhyThreadsAreIdleIsShown has the overview tell what holds the crawl back, where there is something to tell.
func TestWhyThreadsAreIdleIsShown(t *testing.T) {
	f, s := start(t, true)
	const mark = "heldback"
	if _, body := ask(t, "GET", s.URL+"/", nil); strings.Contains(body, mark) {
		t.Error("a reason is explained where there is none")
	}
	f.held = "44 of 48 threads are idle: no channel is missing."
	if _, body := ask(t, "GET", s.URL+"/", nil); !strings.Contains(body, f.held) {
		t.Errorf("not told in\n%s", body)
	}
}

// TestTaskThatNoPeerHasBegun: a channel whose task waits at a peer is not shown as being crawled, and it is told until when it waits and how to give it to another.
func TestTaskThatNoPeerHasBegun(t *testing.T) {
	f, s := start(t, true)
	f.awaited = f.Overview().Now.Add(3 * time.Hour)
	for path, want := range map[string]string{"/channels": "at a peer, begins in 3 h at the latest", "/channel/1": "<em>Crawl now</em> gives it to another at once"} {
		if _, body := ask(t, "GET", s.URL+path, nil); !strings.Contains(body, want) || !strings.Contains(body, "at a peer that has not begun") || strings.Contains(body, "crawled now") {
			t.Errorf("GET %s: wanted %q in\n%.9000s", path, want, body)
		}
	}
}
