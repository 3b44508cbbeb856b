package archive

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shoal/channel"
	"shoal/channel/lease"
)

// What version 0.1.0 wrote is in testdata/v0.1.0: an archive of three channels that were crawled three times, with text and ranks; a page that
// went, a host that was taken down, files that were compacted, a crawl that is under way and a task that waits. It is there as it was closed, and
// as the process was killed. answers.txt.gz is what 0.1.0 itself answered to answersOf.
const oldData = "testdata/v0.1.0"

// answersOf tells what an archive answers, for comparison.
func answersOf(t *testing.T, a *Archive) []string {
	t.Helper()
	ctx := t.Context()
	var out []string
	say := func(name string, v any, err error) {
		if err != nil {
			out = append(out, fmt.Sprintf("%s: error %v", name, err))
			return
		}
		raw, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, fmt.Sprintf("%s: %s", name, raw))
	}
	entries, next, err := a.Feed(ctx, "", MaxFeed)
	say("feed", entries, err)
	say("feed next", next, nil)
	changes, next, err := a.Changes(ctx, "", MaxFeed)
	say("changes next", next, err)
	for _, c := range changes {
		say("change", c, nil)
		l, err := a.Line(c, true, true)
		say("line", l, err)
	}
	for id := channel.ID(1); id <= 5; id++ {
		k, err := a.Known(ctx, id, time.Unix(1_800_000_000, 0))
		say(fmt.Sprint("known ", id), k, err)
		for _, path := range []string{"/", "/copy", "/a", "/gone", "/dir/b", "/never"} {
			u := fmt.Sprintf("http://site-%d.example%s", id, path)
			p, err := a.Page(ctx, u)
			say("page "+u, p, err)
			for _, at := range []time.Time{{}, time.Unix(1_700_003_600, 0)} {
				c, err := a.Get(ctx, u, at)
				c.File, c.Offset = "", 0
				say("get "+u, c, err)
			}
		}
	}
	s := a.Stats()
	say("stats", map[string]any{"pages": s.Pages, "unchanged": s.Unchanged, "chunks": s.Chunks, "bytes": s.Bytes, "files": s.Files, "leases": s.Leases, "events": s.Events}, nil)
	v, err := a.Verify(ctx, nil)
	say("verified", map[string]any{"files": v.Files, "records": v.Records, "captures": v.Captures, "found": v.Found}, err)
	return out
}

// TestOldData opens what 0.1.0 wrote: the same answers, and the crawl goes on where it was.
func TestOldData(t *testing.T) {
	want := oldAnswers(t)
	for _, name := range []string{"closed", "killed"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			unpackOld(t, filepath.Join(oldData, name+".tar.gz"), dir)
			cl := &clock{time.Unix(1_700_040_000, 0).UTC()}
			cfg := testConfig(filepath.Join(dir, "archive"))
			cfg.Clock = cl.Now
			a := open(t, cfg)
			if n := a.Missing(); n > 0 {
				t.Errorf("%d files are missing", n)
			}
			got := answersOf(t, a)
			for n, line := range want {
				if n >= len(got) || !sameAnswer(t, line, got[n]) {
					t.Fatalf("answer %d\n%.600s\nand not as 0.1.0 did\n%.600s", n, got[min(n, len(got)-1)], line)
				}
			}
			goOn(t, a, cl)
			if err := a.Close(); err != nil {
				t.Fatal(err)
			}
			clean(t, open(t, cfg))
		})
	}
}

// sameAnswer tells whether an answer says all that the old one said. It may say more.
func sameAnswer(t *testing.T, old, now string) bool {
	t.Helper()
	if old == now {
		return true
	}
	oldName, oldJSON, _ := strings.Cut(old, ": {")
	name, nowJSON, ok := strings.Cut(now, ": {")
	if strings.HasPrefix(old, "feed: [") {
		oldName, oldJSON, _ = strings.Cut(old, ": [")
		name, nowJSON, ok = strings.Cut(now, ": [")
		oldJSON, nowJSON = "["+oldJSON, "["+nowJSON
	} else {
		oldJSON, nowJSON = "{"+oldJSON, "{"+nowJSON
	}
	if !ok || oldName != name {
		return false
	}
	var a, b any
	if err := errors.Join(json.Unmarshal([]byte(oldJSON), &a), json.Unmarshal([]byte(nowJSON), &b)); err != nil {
		t.Fatal(err)
	}
	return covers(a, b)
}

// covers tells whether b has all that a has.
func covers(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		for k, v := range a {
			if w, there := b[k]; !ok || !there || !covers(v, w) {
				return false
			}
		}
		return ok
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for n := range a {
			if !covers(a[n], b[n]) {
				return false
			}
		}
		return true
	default:
		return a == b
	}
}

// goOn sends the next chunk of the crawl that is under way, has the task claimed that waits, and tidies.
func goOn(t *testing.T, a *Archive, cl *clock) {
	t.Helper()
	ctx := t.Context()
	var head channel.Chunk
	fence, err := fenceOf(a, 2)
	if err != nil {
		t.Fatal(err)
	}
	r := &runner{t, a, "peer-2", 2, fence.Gen, fence.Seq, fence.Head, nil}
	head = r.put(channel.ChunkBody{Pages: []channel.Page{r.page("/to-do", "found later "+long, channel.New)}, Report: r.report(channel.Updated)})
	if got, err := a.Put(ctx, "peer-2", head); err != nil || got.Status != lease.Stored {
		t.Errorf("the chunk again: %v, %v", got.Status, err)
	}
	signed, body := task(4, 1, time.Unix(1_700_032_400, 0).UTC().Add(1000*time.Hour))
	if c, err := a.Claim(ctx, "peer-4", signed); err != nil || c.Status != lease.Granted || string(c.Body) != string(body) {
		t.Errorf("claim of the task that waits: %v, %d bytes, %v", c.Status, len(c.Body), err)
	}
	cl.now = cl.now.Add(time.Hour)
	for id := channel.ID(1); id <= 2; id++ {
		r, c := start(t, a, "p", id, 20)
		if len(c.Resume.Frontier) == 0 {
			t.Errorf("channel %d: nothing to go on with", id)
		}
		r.put(channel.ChunkBody{Pages: []channel.Page{r.page("/a", "a "+long, channel.Unchanged)}, Report: r.report(channel.Updated)})
	}
	if _, err := a.Tidy(ctx, Retention{Captures: 1}, 1); err != nil {
		t.Error(err)
	}
	for id := channel.ID(1); id <= 2; id++ {
		if got, err := a.Get(ctx, fmt.Sprintf("http://site-%d.example/a", id), time.Time{}); err != nil || string(got.Body) != "a "+long {
			t.Errorf("a page of old: %.20q, %v", got.Body, err)
		}
	}
}

func oldAnswers(t *testing.T) (out []string) {
	t.Helper()
	f, err := os.Open(filepath.Join(oldData, "answers.txt.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	gz, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(gz)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(raw), "\n"), "\n")
}

// unpackOld unpacks a tar file. Holes stay holes: Badger's files are mostly that.
func unpackOld(t *testing.T, name, dir string) {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	gz, err := gzip.NewReader(bufio.NewReader(f))
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(gz); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(dir, filepath.FromSlash(h.Name))
		if h.FileInfo().IsDir() {
			if err := os.MkdirAll(to, 0o750); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := unpackFile(to, r, h.Size); err != nil {
			t.Fatal(err)
		}
	}
}

func unpackFile(name string, r io.Reader, size int64) (err error) {
	out, err := os.Create(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if err := out.Truncate(size); err != nil {
		return err
	}
	buf := make([]byte, 64<<10)
	for at := int64(0); at < size; {
		n, err := io.ReadFull(r, buf[:min(int64(len(buf)), size-at)])
		if err != nil {
			return err
		}
		if strings.Trim(string(buf[:n]), "\x00") != "" {
			if _, err := out.WriteAt(buf[:n], at); err != nil {
				return err
			}
		}
		at += int64(n)
	}
	return nil
}
