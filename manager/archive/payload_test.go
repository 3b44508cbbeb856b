package archive

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"

	"shoal/channel"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/pages"
	"shoal/manager/archive/schema"
	"shoal/manager/archive/warc"
)

// indexed are the records that the index names, by URL and second.
func indexed(t *testing.T, a *Archive) map[string]*warc.Read {
	t.Helper()
	var index bytes.Buffer
	if err := a.CDXJ(t.Context(), &index, pages.Index{}); err != nil {
		t.Fatal(err)
	}
	out := map[string]*warc.Read{}
	for line := range strings.Lines(index.String()) {
		var l struct {
			URL, Filename string
			Offset        int64
		}
		if err := json.Unmarshal([]byte(line[strings.Index(line, " {"):]), &l); err != nil {
			t.Fatal(err)
		}
		raw, err := os.ReadFile(filepath.Join(a.cfg.Dir, "warc", l.Filename))
		if err != nil {
			t.Fatal(err)
		}
		r, err := warc.ReadRecord(bytes.NewReader(raw[l.Offset:]))
		if err != nil {
			t.Fatal(err)
		}
		at, err := time.Parse(time.RFC3339Nano, r.Field("WARC-Date"))
		if err != nil {
			t.Fatal(err)
		}
		out[l.URL+" "+at.Format(time.RFC3339)] = r
	}
	return out
}

// everythingReplays checks that the index names what each of its revisits refers to, as readers need it.
func everythingReplays(t *testing.T, a *Archive) (revisits int) {
	t.Helper()
	all := indexed(t, a)
	for name, r := range all {
		if r.Field("WARC-Type") != warc.Revisit {
			continue
		}
		revisits++
		original := all[r.Field("WARC-Refers-To-Target-URI")+" "+r.Field("WARC-Refers-To-Date")]
		if original == nil || original.Field("WARC-Type") != warc.Response {
			t.Errorf("the index does not name what %s refers to: %s of %s", name, r.Field("WARC-Refers-To-Target-URI"), r.Field("WARC-Refers-To-Date"))
		}
	}
	return revisits
}

// TestRetentionKeepsWhatOthersRestOn: the visit whose record holds the content of another page's visit, or of a later one of the same page, stays with it. What
// is forgotten is not found by its digest any more.
func TestRetentionKeepsWhatOthersRestOn(t *testing.T) {
	cl := &clock{time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)}
	cfg := testConfig(t.TempDir())
	cfg.Clock, cfg.Roll = cl.Now, 4<<10
	a := open(t, cfg)
	visit := func(id channel.ID, gen channel.Gen, path, body string) {
		t.Helper()
		cl.now = cl.now.Add(time.Hour)
		r, _ := start(t, a, "p", id, gen)
		r.put(channel.ChunkBody{Pages: []channel.Page{r.page(path, body, channel.Changed)}, Report: r.report(channel.Updated)})
	}
	for gen := channel.Gen(1); gen <= 5; gen++ {
		visit(1, 2*gen, "/x", version(1, gen))
		visit(1, 2*gen+1, "/turns", version(2, gen%2))
	}
	visit(2, 1, "/copy", version(1, 2))
	for gen := channel.Gen(2); gen <= 3; gen++ {
		if _, err := a.Retain(t.Context(), Retention{Captures: 1}); err != nil {
			t.Fatal(err)
		}
		visit(2, gen, "/late", version(1, 3))
		if _, err := a.Compact(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		clean(t, a)
		if n := everythingReplays(t, a); n != int(gen) {
			t.Errorf("%d revisits", n)
		}
		if all := indexed(t, a); len(all) != 4+int(gen) {
			t.Errorf("%d captures are kept, want the last of three pages, and what two of them rest on, and of a fourth", len(all))
		}
	}
	if c, err := a.Get(t.Context(), "http://site-2.example/late", time.Time{}); err != nil || string(c.Body) != version(1, 3) {
		t.Errorf("a copy of what is forgotten: %+v, %v", c, err)
	}
}

// TestTakedownOfACopy: of a page whose content is in the record of a visit that is forgotten, a takedown leaves as little as of others. What another host
// has, too, stays there.
func TestTakedownOfACopy(t *testing.T) {
	a := open(t, testConfig(t.TempDir()))
	other, _ := start(t, a, "p", 2, 1)
	other.put(channel.ChunkBody{Pages: []channel.Page{other.page("/", "shared "+long, channel.New)}, Report: other.report(channel.Updated)})
	r, _ := start(t, a, "p", 1, 1)
	r.put(channel.ChunkBody{Pages: []channel.Page{r.page("/a", "secret "+long, channel.New)}, Report: r.report(channel.Updated)})
	if _, err := a.Compact(t.Context(), 1); err != nil { // seals
		t.Fatal(err)
	}
	r, _ = start(t, a, "p", 1, 2)
	r.put(channel.ChunkBody{Pages: []channel.Page{r.page("/b", "secret "+long, channel.New), r.page("/shared", "shared "+long, channel.New)}, Report: r.report(channel.Updated)})
	for n := 1; n > 0; {
		var err error
		if n, err = a.ExtractText(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	forget(t, a, r.url("/a"))
	if _, err := a.Purge(t.Context(), hostsOf(t, "site-1.example")); err != nil {
		t.Fatal(err)
	}
	if _, err := a.CompactSparingly(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	left := unpacked(t, a)
	if strings.Contains(left, "secret") || !strings.Contains(left, "shared "+long) {
		t.Errorf("what was taken down is left, or what was not is gone:\n%.2000s", left)
	}
	if c, err := a.Get(t.Context(), other.url("/"), time.Time{}); err != nil || string(c.Body) != "shared "+long {
		t.Errorf("the page of another host: %q, %v", c.Body, err)
	}
	for _, table := range []byte{schema.Content, schema.Text} {
		err := a.Ledger.View(func(s ledger.Snapshot) error {
			return s.Scan([]byte{table}, nil, true, func(key, value []byte) (bool, error) {
				if bytes.Contains(value, []byte("secret")) || bytes.Contains(value, []byte("site-1.example")) {
					t.Errorf("%c %x is left: %q", table, key[1:], value)
				}
				return true, nil
			})
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	clean(t, a)
}

// forget deletes the captures of pages, as an older version did when other pages rested on them, and as purges of peers do.
func forget(t *testing.T, a *Archive, urls ...string) {
	t.Helper()
	var gone []ledger.Change
	err := a.Ledger.View(func(s ledger.Snapshot) error {
		return s.Scan([]byte{schema.Capture}, nil, false, func(key, _ []byte) (bool, error) {
			for _, url := range urls {
				if pages.URLOfCapture(key) == url {
					gone = append(gone, ledger.Change{Key: bytes.Clone(key)})
				}
			}
			return true, nil
		})
	})
	if err != nil || len(gone) != len(urls) {
		t.Fatalf("%d captures, %v", len(gone), err)
	}
	if err := a.Ledger.Change(gone...); err != nil {
		t.Fatal(err)
	}
}

// unpacked is what the WARC files hold.
func unpacked(t *testing.T, a *Archive) string {
	t.Helper()
	var out bytes.Buffer
	for _, name := range warcFiles(t, a) {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		z, err := gzip.NewReader(f)
		if err == nil {
			_, err = out.ReadFrom(z)
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}
