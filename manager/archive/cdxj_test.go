package archive

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"shoal/channel"
	"shoal/manager/archive/pages"
	"shoal/manager/archive/warc"
)

// TestIndexNamesTheStatusThatIsReplayed has pages of several statuses found unchanged by a visit without a header, and by a 304: readers replay them by the
// status that the index names. Such visits say little in WARC files, and yet an archive that is made anew from these has the same pages and index.
func TestIndexNamesTheStatusThatIsReplayed(t *testing.T) {
	cl := &clock{time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)}
	cfg := testConfig(t.TempDir())
	cfg.Clock = cl.Now
	a := open(t, cfg)
	r, _ := start(t, a, "p", 1, 1)
	var want []string
	statuses := []int{200, 201, 202, 203, 205, 226} // a 204 has no content
	for round := range 3 {
		for _, status := range statuses {
			cl.now = cl.now.Add(time.Second)
			p := r.page(fmt.Sprintf("/%d", status), fmt.Sprint(long, status), channel.New)
			p.Status, p.Header = status, []byte(fmt.Sprintf("HTTP/1.1 %d Fine\r\nContent-Type: text/html\r\n\r\n", status))
			if round > 0 {
				p.Change, p.Header, p.Body = channel.Unchanged, nil, nil
			}
			if round > 1 {
				p.Status, p.Header, p.Digest = 304, []byte("HTTP/1.1 304 Not Modified\r\n\r\n"), 0
			}
			r.put(channel.ChunkBody{Pages: []channel.Page{p}})
			want = append(want, fmt.Sprintf("/%d %d %t", status, status, round > 0))
		}
	}
	slices.Sort(want)
	var out bytes.Buffer
	if err := a.CDXJ(t.Context(), &out, pages.Index{}); err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(out.String()) {
		var l struct {
			URL, Mime string
			Status    int
		}
		if err := json.Unmarshal([]byte(line[strings.Index(line, " {"):]), &l); err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%s %d %t", strings.TrimPrefix(l.URL, r.url("")), l.Status, l.Mime == "warc/revisit"))
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("the index has %q, want %q", got, want)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(cfg.Dir, "state", "MANIFEST"), []byte("broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Rebuild(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	a = open(t, cfg)
	before := out.String()
	out.Reset()
	if err := a.CDXJ(t.Context(), &out, pages.Index{}); err != nil || out.String() != before {
		t.Errorf("the index was\n%s and is\n%s %v", before, out.String(), err)
	}
	if changes, _, err := a.Changes(t.Context(), "", 100); err != nil || len(changes) != 6 {
		t.Errorf("%d pages of 6 are there: %v", len(changes), err)
	} else {
		for n, c := range changes {
			if c.Event != pages.Created || c.Status != statuses[n] {
				t.Errorf("%s is %s with status %d", c.URL, c.Event, c.Status)
			}
		}
	}
}

// TestIndexHasTheTypesOfTheSpecification: a line has the fields of CDXJ 0.1.0 with the JSON types of its example: status, offset and length are
// numbers. The last two tell where the record is.
func TestIndexHasTheTypesOfTheSpecification(t *testing.T) {
	cfg := testConfig(t.TempDir())
	a := open(t, cfg)
	r, _ := start(t, a, "p", 1, 1)
	r.put(channel.ChunkBody{Pages: []channel.Page{r.page("/", long, channel.New), r.page("/copy", long, channel.New)}})
	r.put(channel.ChunkBody{Pages: []channel.Page{r.page("/more", "more "+long, channel.New)}, Report: r.report(channel.Updated)})
	var out bytes.Buffer
	if err := a.CDXJ(t.Context(), &out, pages.Index{}); err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(out.String()) {
		n++
		var fields map[string]any
		if err := json.Unmarshal([]byte(line[strings.Index(line, " {"):]), &fields); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"url", "digest", "mime", "filename"} {
			if text, ok := fields[name].(string); !ok || text == "" {
				t.Errorf("%s: %T %[2]v", name, fields[name])
			}
		}
		for _, name := range []string{"status", "offset", "length"} {
			if number, ok := fields[name].(float64); !ok || number != float64(int64(number)) || number <= 0 {
				t.Errorf("%s: %T %[2]v", name, fields[name])
			}
		}
		if t.Failed() {
			continue
		}
		var l struct {
			URL, Filename  string
			Offset, Length int64
		}
		if err := json.Unmarshal([]byte(line[strings.Index(line, " {"):]), &l); err != nil {
			t.Fatal(err)
		}
		raw, err := os.ReadFile(filepath.Join(cfg.Dir, "warc", l.Filename))
		if err != nil || l.Offset+l.Length > int64(len(raw)) {
			t.Fatalf("%s: %d bytes, %v", line, len(raw), err)
		}
		s := warc.NewScanner(bytes.NewReader(raw[l.Offset : l.Offset+l.Length]))
		if !s.Scan() || s.Record().Field("WARC-Target-URI") != l.URL || s.Scan() || s.Err() != nil {
			t.Errorf("no record of %s alone is at %d of %s: %v", l.URL, l.Offset, l.Filename, s.Err())
		}
	}
	if n != 3 {
		t.Errorf("%d lines", n)
	}
}
