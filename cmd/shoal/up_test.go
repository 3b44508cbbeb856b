package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	gowarc "github.com/internetarchive/gowarc"

	"shoal/channel/badgerdb"
	"shoal/internal/lab/standstill"
	"shoal/internal/lab/waiting"
)

// buffer is what a command wrote.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// call runs a command line as the program would.
func call(t *testing.T, args ...string) (code int, out, said string) {
	t.Helper()
	var o, e buffer
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	code = run(ctx, args, streams{&o, &e})
	return code, o.String(), e.String()
}

// must is call for a command line that has to succeed.
func must(t *testing.T, args ...string) (out, said string) {
	t.Helper()
	code, out, said := call(t, args...)
	if code != 0 {
		t.Fatalf("shoal %s: status %d\n%s", strings.Join(args, " "), code, said)
	}
	return out, said
}

// shownUpdates finds the updates in what `up` shows while it runs.
var shownUpdates = regexp.MustCompile(`updates (\d+)`)

// upUntil runs a small network until it shows so many updates, ends it as ctrl-C does, and reads the object that it ends with.
func upUntil(t *testing.T, data string, updates int, also ...string) summary {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var o, e buffer
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, append([]string{"up", "--json", "--peers", "3", "--hosts", "60", "--pages", "500", "--data", data, "--page", "127.0.0.1:0"}, also...), streams{&o, &e})
	}()
	for n := 0; n < updates; time.Sleep(20 * time.Millisecond) {
		if shown := shownUpdates.FindAllStringSubmatch(e.String(), -1); len(shown) > 0 {
			n, _ = strconv.Atoi(shown[len(shown)-1][1])
		}
		select {
		case c := <-code:
			t.Fatalf("it ended with status %d before it showed %d updates: %s", c, updates, e.String())
		default:
		}
	}
	cancel()
	if c := <-code; c != 0 {
		t.Fatalf("status %d\n%s", c, e.String())
	}
	out, said := o.String(), e.String()
	lines := strings.Split(strings.TrimSpace(out), "\n")
	last := lines[len(lines)-1]
	fields := map[string]any{}
	var s summary
	if err := errors.Join(json.Unmarshal([]byte(last), &fields), json.Unmarshal([]byte(last), &s)); err != nil {
		t.Fatalf("the last line is no JSON object: %v\n%s\n%s", err, out, said)
	}
	for _, f := range []string{"peers", "channels", "tasks_submitted", "tasks_refused", "updates", "pages_fetched", "pages_archived", "pages_unchanged", "bytes_down",
		"warc_files", "lookups", "hops_mean", "rtt_chosen_ms", "rtt_random_ms", "rtt_nearest_ms", "strategy", "intervals_s", "errors"} {
		if _, ok := fields[f]; !ok {
			t.Errorf("no field %q in %s", f, last)
		}
	}
	if s.Peers != 3 || s.Channels < 59 || s.Updates == 0 || s.PagesFetched == 0 || s.WARCFiles == 0 || s.Strategy != "icr" || len(s.IntervalsS) == 0 {
		t.Errorf("%s\n%s", last, said)
	}
	if s.MaxInFlight != 1 {
		t.Errorf("at most %d requests in flight to one host, want 1", s.MaxInFlight)
	}
	if !strings.Contains(said, data) || !strings.Contains(said, "start again") {
		t.Errorf("it does not say where the data is: %s", said)
	}
	return s
}

// visits reads the number of visits to each channel of a data folder.
func visits(t *testing.T, data string) map[string]int {
	t.Helper()
	db, err := badgerdb.Open(t.Context(), badgerdb.Default(filepath.Join(data, "up-pond", "channels")))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	chs, err := db.List(t.Context(), 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]int{}
	for _, c := range chs {
		out[c.Scope.Host] += c.Learnt.Visits
	}
	if len(out) != len(chs) {
		t.Errorf("%d channels of %d hosts", len(chs), len(out))
	}
	return out
}

// records counts the records of a data folder's WARC files by kind, with a reader that is not ours, and the pages among them.
func records(t *testing.T, data string) (kinds map[string]int, urls map[string]bool) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(data, "archive", "warc", "*.warc.gz"))
	if err != nil || len(files) == 0 {
		t.Fatalf("WARC files: %v, %v", files, err)
	}
	kinds, urls = map[string]int{}, map[string]bool{}
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		r, err := gowarc.NewReader(f)
		if err != nil {
			t.Fatal(err)
		}
		for n := 0; ; n++ {
			rec, err := r.ReadRecord()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s, record %d: %v", name, n, err)
			}
			kind := rec.Header.Get("WARC-Type")
			kinds[kind]++
			if kind == "response" {
				urls[rec.Header.Get("WARC-Target-URI")] = true
			}
			if err := rec.Content.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	return kinds, urls
}

func sum(m map[string]int) (n int) {
	for _, v := range m {
		n += v
	}
	return n
}

// TestUp runs a whole network, twice with one data folder: the second run goes on from the first.
func TestUp(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	first := upUntil(t, data, 15)
	before := visits(t, data)
	kinds, urls := records(t, filepath.Join(data, "up-pond"))
	if len(before) != 60 || int64(sum(before)) != first.Updates {
		t.Errorf("the channel database has %d visits to %d channels, the run reported %d updates", sum(before), len(before), first.Updates)
	}
	if int64(kinds["response"]) != first.PagesArchived || len(urls) == 0 || kinds["warcinfo"] != first.WARCFiles {
		t.Errorf("records %v of %d pages, the run reported %d in %d files", kinds, len(urls), first.PagesArchived, first.WARCFiles)
	}

	var o, e buffer
	if code := run(t.Context(), []string{"channel", "remove", "1", "--yes", "--data", filepath.Join(data, "up-pond")}, streams{&o, &e}); code != 0 {
		t.Fatalf("channel remove: %d: %s", code, e.String())
	}
	left := visits(t, data)
	maps.DeleteFunc(before, func(host string, _ int) bool { _, ok := left[host]; return !ok })
	second := upUntil(t, data, 1)
	after := visits(t, data)
	if len(before) != 59 || len(after) != 59 {
		t.Errorf("%d channels before the second run, %d after it; want the 59 of the first that were not removed", len(before), len(after))
	}
	for host, n := range before {
		if after[host] < n {
			t.Errorf("%s: %d visits after the second run, %d before", host, after[host], n)
		}
	}
	if sum(after) <= sum(before) {
		t.Errorf("%d visits, %d before: the second run did nothing", sum(after), sum(before))
	}
	again, _ := records(t, filepath.Join(data, "up-pond"))
	if again["response"] < kinds["response"] || second.PagesArchived < first.PagesArchived {
		t.Errorf("records %v, before %v", again, kinds)
	}
}

// TestUpEnds ends a run as ctrl-C does, within the 5 s that README.md promises.
func TestUpEnds(t *testing.T) {
	data := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	var o, e buffer
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, []string{"up", "--peers", "2", "--hosts", "3", "--data", data, "--page", ""}, streams{&o, &e})
	}()
	waiting.Until(t, "it starts", func() bool { return strings.Contains(e.String(), "end with") }, e.String)
	w := standstill.Of(os.Getpid())
	cancel()
	for ended := false; !ended; {
		select {
		case c := <-code:
			if ended = true; c != 0 || !strings.Contains(e.String(), "Stopped. The data is in "+data) {
				t.Errorf("status %d: %s", c, e.String())
			}
		case <-time.After(20 * time.Millisecond):
			if d := w.For(); d > 5*time.Second {
				t.Fatalf("it has not ended, and has stood still for %v", d)
			}
		}
	}
	if got := len(visits(t, data)); got != 3 {
		t.Errorf("%d channels, want 3", got)
	}
}

// TestReasonIsToldWhenItLasts has what holds the crawl back change, for a moment and for good.
func TestReasonIsToldWhenItLasts(t *testing.T) {
	var r reason
	var told []string
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for s, kind := range strings.Split("aaaaaabaaaaabbbbbbbb..aaaa.bbb", "") {
		if kind == "." {
			kind = ""
		}
		if said := r.said(start.Add(time.Duration(s)*3*time.Second), kind, kind); said != "" {
			told = append(told, fmt.Sprint(s, said))
		}
	}
	if got := strings.Join(told, " "); got != "4a 16b" {
		t.Errorf("told %q", got)
	}
}
