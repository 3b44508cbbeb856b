package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"

	"shoal/channel"
	"shoal/channel/badgerdb"
	"shoal/channel/listing"
	"shoal/manager"
	"shoal/manager/desk"
)

// noFiles stands in for an archive.
type noFiles struct{ purged, revoked, recalled int }

func (n *noFiles) Withdraw(context.Context, string) (manager.Withdrawn, error) {
	return manager.Withdrawn{}, nil
}

func (n *noFiles) Purge(context.Context, channel.Hosts) (int, error) { n.purged++; return 3, nil }
func (n *noFiles) Recall(context.Context, channel.ID) error          { n.recalled++; return nil }
func (n *noFiles) Forget(context.Context, channel.ID) error          { n.revoked++; return nil }

// database is an empty one, which is closed in the end.
func database(t *testing.T) *badgerdb.DB {
	t.Helper()
	cfg := badgerdb.Default(t.TempDir())
	cfg.MinFree = 0
	db, err := badgerdb.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func start(t *testing.T) (*Client, *noFiles) {
	t.Helper()
	files := &noFiles{}
	d, err := desk.Open(t.Context(), desk.Config{Store: database(t), Archive: files, Orders: []string{"bfs", "opic"}})
	if err != nil {
		t.Fatal(err)
	}
	h, err := Handler(Config{Desk: d})
	if err != nil {
		t.Fatal(err)
	}
	return Local(h), files
}

func (c *Client) list(t *testing.T, text string, f listing.Format) (Imported, error) {
	t.Helper()
	var out Imported
	err := c.Do(t.Context(), "POST", "/channels/import", url.Values{"format": {string(f)}}, strings.NewReader(text), &out)
	return out, err
}

func TestChannelsOfAStoppedManager(t *testing.T) {
	c, files := start(t)
	in, err := c.list(t, "https://a.example/\nhttps://b.example/news/\nhttps://a.example/\n", listing.List)
	if err != nil || in.Added != 2 || in.Duplicates != 1 || in.Refused[0].Line != 3 {
		t.Fatalf("import: %+v, %v", in, err)
	}
	if _, err := c.list(t, "https://c.example/\nftp://x\nhttps://d.example/\n", listing.List); err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("a bad line: %v", err)
	}
	if _, err := c.list(t, `{"url":"https://c.example/","order":"sideways"}`, listing.JSON); err == nil || !strings.Contains(err.Error(), "sideways") {
		t.Errorf("an ordering that is none: %v", err)
	}
	var rows Rows
	do(t, c, "GET", "/channels", nil, &rows)
	if rows.Total != 2 {
		t.Fatalf("after bad lists there are %d channels, want 2", rows.Total)
	}
	id := rows.Channels[1].ID
	at := fmt.Sprintf("/channels/%d", id)
	var after listing.Record
	do(t, c, "PATCH", at, map[string]any{"weight": 2, "exclude": []string{"x$"}}, &after)
	do(t, c, "PATCH", at, map[string]any{"pages": 9}, &after)
	if after.Weight != 2 || after.Pages != 9 || len(after.Exclude) != 1 || after.Dirs[0] != "/news/" {
		t.Errorf("edited in two steps: %+v", after)
	}
	for _, bad := range []map[string]any{{"weight": -1}, {"filters": []string{"("}}, {"wieght": 1}, {"host": "https://z.example"}, {"order": "sideways"}, {"id": 77}} {
		if err := c.Do(t.Context(), "PATCH", at, nil, bad, nil); err == nil {
			t.Errorf("edit %v was accepted", bad)
		}
	}
	do(t, c, "POST", at+"/pause", nil, nil)
	var d Detail
	do(t, c, "GET", at, nil, &d)
	if d.Row.State != "paused" || d.Channel.Weight != 2 {
		t.Errorf("paused: %+v", d)
	}
	if err := c.Do(t.Context(), "POST", at+"/crawl-now", nil, nil, nil); err == nil || !strings.Contains(err.Error(), "shoal manager") {
		t.Errorf("crawl now without a manager: %v", err)
	}
	var done SplitDone
	do(t, c, "POST", "/channels/1/split", Split{Dirs: []string{"/x/", "/y/"}}, &done)
	do(t, c, "GET", "/channels/1", nil, &d)
	if len(done.Channels) != 2 || len(d.Channel.Exclude) != 2 {
		t.Errorf("split: %+v, rest %+v", done, d.Channel)
	}
	if err := c.Do(t.Context(), "POST", at+"/split", nil, Split{Dirs: []string{"/other/"}}, nil); err == nil {
		t.Error("a directory outside of the channel was split off")
	}
	var p desk.Purged
	do(t, c, "POST", "/hosts/purge", HostAsk{Host: "a.example"}, &p)
	if p.Channels != 3 || files.purged != 1 || files.revoked != 3 {
		t.Errorf("purged: %+v, %+v", p, files)
	}
	var hosts Hosts
	do(t, c, "GET", "/hosts?blocked=1", nil, &hosts)
	do(t, c, "DELETE", at, nil, nil)
	do(t, c, "GET", "/channels", nil, &rows)
	if rows.Total != 0 {
		t.Errorf("%d channels are left", rows.Total)
	}
	if err := c.Do(t.Context(), "GET", at, nil, nil, nil); err == nil {
		t.Error("a removed channel is still shown")
	}
}

func do(t *testing.T, c *Client, method, path string, in, out any) {
	t.Helper()
	path, query, _ := strings.Cut(path, "?")
	q, err := url.ParseQuery(query)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Do(t.Context(), method, path, q, in, out); err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
}

func TestExportIsImport(t *testing.T) {
	c, _ := start(t)
	if _, err := c.list(t, "{\"url\":\"https://a.example/\",\"weight\":2}\n{\"url\":\"https://b.example/d/\",\"state\":\"paused\"}\n", listing.JSON); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{"jsonl", "csv", "list", "opml"} {
		var b bytes.Buffer
		if err := c.Do(t.Context(), "GET", "/channels/export", url.Values{"format": {f}}, nil, &b); err != nil {
			t.Fatal(err)
		}
		other, _ := start(t)
		if in, err := other.list(t, b.String(), listing.Format(f)); err != nil || in.Added != 2 {
			t.Errorf("%s: %+v, %v from\n%s", f, in, err, b.String())
		}
	}
}

// Every operation of the document is served, and everything served is in the document.
func TestDocumentMatchesRoutes(t *testing.T) {
	cfg := badgerdb.Default(t.TempDir())
	cfg.MinFree = 0
	db, err := badgerdb.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	d, err := desk.Open(t.Context(), desk.Config{Store: database(t), Archive: &noFiles{}})
	if err != nil {
		t.Fatal(err)
	}
	archived := 0
	h, err := Handler(Config{Desk: d, Archive: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { archived++ })})
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", Prefix+"/openapi.json", nil))
	var doc struct {
		OpenAPI string
		Paths   map[string]map[string]struct{ Summary string }
	}
	if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil || !strings.HasPrefix(doc.OpenAPI, "3.") {
		t.Fatalf("%v in %.200s", err, w.Body)
	}
	n := 0
	for path, ops := range doc.Paths {
		for method, op := range ops {
			n++
			if op.Summary == "" {
				t.Errorf("%s %s says nothing of itself", method, path)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(strings.ToUpper(method), strings.ReplaceAll(path, "{id}", "1"), strings.NewReader("{}")))
			if w.Code == http.StatusMethodNotAllowed || w.Code == http.StatusNotFound && strings.Contains(w.Body.String(), "there is nothing at") {
				t.Errorf("%s %s is described but not served: %d %s", method, path, w.Code, w.Body)
			}
		}
	}
	if served := len((&server{}).routes()); n != served || archived != 7 {
		t.Errorf("%d operations described, %d in the table; %d of the archive's", n, served, archived)
	}
}

func TestSchema(t *testing.T) {
	b, err := json.Marshal(schema(reflect.TypeFor[desk.Overview](), 0))
	if err != nil || !strings.Contains(string(b), `"channels":{"type":"integer"}`) || !strings.Contains(string(b), "date-time") {
		t.Errorf("%s, %v", b, err)
	}
}

// What is asked at a wrong address, or with a wrong method, is answered like everything else: as JSON that says what to do.
func TestStray(t *testing.T) {
	c, _ := start(t)
	for _, x := range []struct{ method, path, says string }{
		{"GET", "/chanels", "there is nothing at /api/v1/chanels: /api/v1/openapi.json says what there is"},
		{"DELETE", "/channels", "/api/v1/channels takes GET, not DELETE"},
	} {
		if err := c.Do(t.Context(), x.method, x.path, nil, nil, nil); err == nil || err.Error() != x.says {
			t.Errorf("%s %s: %v, want %s", x.method, x.path, err, x.says)
		}
	}
}

// TestBodiesThatSayNothing: what clients write that have nothing to send is no body.
func TestBodiesThatSayNothing(t *testing.T) {
	h := served(t)
	for _, body := range []string{"", "{}", "null", " {}\n"} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost"+Prefix+"/channels", strings.NewReader(body)))
		if w.Code != http.StatusOK {
			t.Errorf("with the body %q: status %d, %s", body, w.Code, w.Body)
		}
	}
}

// TestMisspeltAsks: what a request has that the interface does not know is refused, and in words that need no knowledge of Go. What was meant would not be
// done; a compaction with a misspelt dry would forget.
func TestMisspeltAsks(t *testing.T) {
	h := served(t)
	for _, x := range []struct{ method, path, body, says string }{
		{"GET", "/channels?stat=failing", "", `no parameter "stat": there are q, state, sort, from, n`},
		{"GET", "/channels?n=1&n=2", "", "parameter n is there twice"},
		{"GET", "/hosts?blocked=yes", "", `blocked="yes": want 1 for yes, or 0 for no`},
		{"GET", "/peers?x=1", "", `no parameter "x": there is none here`},
		{"GET", "/channels?q=%zz", "", "cannot be read"},
		{"POST", "/archive/compact?dry=true", "", `dry="true": want 1 for yes, or 0 for no`},
		{"POST", "/archive/compact?dryrun=1", "", `no parameter "dryrun": there are captures, age, feed, share, dry`},
		{"PATCH", "/channels/1", "", "nothing to change is named"},
		{"PATCH", "/channels/1", "{}", "nothing to change is named"},
		{"PATCH", "/channels/1", "null", "nothing to change is named"},
		{"PATCH", "/channels/1", `{"weight":"x"}`, "weight: want a number, not string"},
		{"PATCH", "/channels/1", `{"weight":1,"weight":2}`, `"weight" is there twice`},
		{"PATCH", "/channels/1", `[]`, "this is a JSON array: want an object"},
		{"PUT", "/strategy", `{"limits":{"cap":"2"}}`, "limits.cap: want a number, not string"},
		{"PUT", "/strategy", `{}`, "nothing to change is named"},
		{"POST", "/hosts/block", `{"hosts":"x"}`, `no field "hosts": there are host, why, unknown`},
		{"POST", "/peers/invite", `{"uses":-1}`, "uses: want a whole number from 0 on, not -1"},
		{"GET", "/channels", `{"q":"a"}`, "GET /api/v1/channels takes no body: write its parameters behind the question mark: q, state, sort, from, n"},
		{"POST", "/archive/compact", `{"dry":1}`, "takes no body: write its parameters behind the question mark: captures, age"},
		{"POST", "/channels/1/crawl-now", `{"now":true}`, "POST /api/v1/channels/1/crawl-now takes no body"},
		{"POST", "/channels/import", "", "the list names no site"},
		{"POST", "/channels/import", "# nothing yet\n", "the list names no site"},
		{"POST", "/channels/import", "<opml><body></body></opml>", "the list names no site"},
	} {
		r := httptest.NewRequest(x.method, "http://localhost"+Prefix+x.path, strings.NewReader(x.body))
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		var p Problem
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || w.Code != http.StatusBadRequest || !strings.Contains(p.Error, x.says) || strings.Contains(p.Error, "Go ") || strings.Contains(p.Error, "bad line") {
			t.Errorf("%s %s %s: %d %s, want %s", x.method, x.path, x.body, w.Code, w.Body, x.says)
		}
	}
}

// served is an interface before a database with one channel, and an archive that takes everything.
func served(t *testing.T) http.Handler {
	t.Helper()
	d, err := desk.Open(t.Context(), desk.Config{Store: database(t), Archive: &noFiles{}})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := d.Add(t.Context(), []string{"https://a.example/"}); err != nil {
		t.Fatal(err)
	}
	h, err := Handler(Config{Desk: d, Archive: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// TestSchemaOfEmbedded: the document names fields as they are asked for.
func TestSchemaOfEmbedded(t *testing.T) {
	b, err := json.Marshal(schema(reflect.TypeFor[ProfileAsk](), 0))
	if err != nil || strings.Contains(string(b), "Profile") || !strings.Contains(string(b), `"nickname"`) {
		t.Errorf("%s, %v", b, err)
	}
}

// TestAddAgain adds more sites, all of them there already, than an import names one by one: none of them is told as new.
func TestAddAgain(t *testing.T) {
	d, err := desk.Open(t.Context(), desk.Config{Store: database(t), Archive: &noFiles{}})
	if err != nil {
		t.Fatal(err)
	}
	var urls []string
	for i := range channel.MaxRefusals + 50 {
		urls = append(urls, fmt.Sprintf("https://site-%d.example/", i))
	}
	if _, _, err := d.Add(t.Context(), urls); err != nil {
		t.Fatal(err)
	}
	urls = append(urls, "https://new.example/", "https://new.example/")
	added, _, err := d.Add(t.Context(), urls)
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range added {
		if a.Channel == 0 || a.New != (i == len(urls)-2) {
			t.Fatalf("%s, the %d-th of %d: %+v", a.URL, i+1, len(urls), a)
		}
	}
}

// TestMoreHosts asks for fewer hosts than there are: the answer says so.
func TestMoreHosts(t *testing.T) {
	c, _ := start(t)
	for _, host := range []string{"a.example", "b.example"} {
		do(t, c, http.MethodPost, "/hosts/block", HostAsk{Host: host, Why: "x", Unknown: true}, nil)
	}
	var all, one, none map[string]any
	do(t, c, http.MethodGet, "/hosts", nil, &all)
	do(t, c, http.MethodGet, "/hosts?n=1", nil, &one)
	do(t, c, http.MethodGet, "/hosts?q=c.example", nil, &none)
	if all["more"] != false || one["more"] != true || none["more"] != false || len(one["hosts"].([]any)) != 1 {
		t.Errorf("all %v, one %v, none %v", all, one, none)
	}
}

// TestUnblockedPortStaysSo blocks a host whatever its port and lifts that of one port: neither a look at a stopped manager's channels nor another channel there
// blocks it again. Blocking the host again does, and what else is new there is blocked as the host is.
func TestUnblockedPortStaysSo(t *testing.T) {
	d, err := desk.Open(t.Context(), desk.Config{Store: database(t), Archive: &noFiles{}})
	if err != nil {
		t.Fatal(err)
	}
	add := func(urls ...string) {
		t.Helper()
		if _, _, err := d.Add(t.Context(), urls); err != nil {
			t.Fatal(err)
		}
	}
	block := func(host, why string) {
		t.Helper()
		if err := d.Block(t.Context(), host, why); err != nil {
			t.Fatal(err)
		}
	}
	blocked := func(want ...string) {
		t.Helper()
		rows, _, err := d.Rows(t.Context(), desk.Find{State: desk.Blocked, N: 100})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range rows {
			got = append(got, r.Host+r.Scope)
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("blocked are %v, want %v", got, want)
		}
	}
	add("https://p.example/", "https://p.example:8443/a/")
	block("p.example", "asked to")
	blocked("https://p.example", "https://p.example:8443/a/")
	block("p.example:8443", "")
	blocked("https://p.example")
	add("https://p.example:8443/b/", "https://p.example:8444/")
	blocked("https://p.example", "https://p.example:8444")
	block("p.example", "asked to again")
	blocked("https://p.example", "https://p.example:8443/a/", "https://p.example:8443/b/", "https://p.example:8444")
	if n, stays, err := d.ResetHost(t.Context(), "https://p.example:8444"); n != 1 || stays != "asked to again" || err != nil {
		t.Errorf("%d hosts forgotten, which stay blocked for %q, %v", n, stays, err)
	}
	blocked("https://p.example", "https://p.example:8443/a/", "https://p.example:8443/b/", "https://p.example:8444")
}

// TestTooLargeARequest: who sends too much is told how much is taken.
func TestTooLargeARequest(t *testing.T) {
	c, _ := start(t)
	err := c.Do(t.Context(), http.MethodPost, "/hosts/block", nil, HostAsk{Host: strings.Repeat("a", maxBody)}, nil)
	if err == nil || !strings.Contains(err.Error(), "larger than the 1048576 bytes that are taken here") {
		t.Error(err)
	}
}
