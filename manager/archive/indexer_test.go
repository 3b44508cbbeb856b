package archive

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"shoal/channel"
	"shoal/channel/lease"
)

// indexer follows the change feed as a search engine does: what it has done and its cursor are one commit; it is stopped in the middle of
// answers, with all that it had not committed.
type indexer struct {
	t      *testing.T
	cursor string
	seen   []Line // committed
}

// read asks once, and is stopped after some lines of the answer: keep says how many it still commits.
func (x *indexer) read(base string, limit int, keep func(n int) int) (more bool) {
	x.t.Helper()
	r, err := http.Get(base + "/changes?" + url.Values{"cursor": {x.cursor}, "limit": {fmt.Sprint(limit)}}.Encode())
	if err != nil {
		return true // the archive is being opened again
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		b, _ := io.ReadAll(r.Body)
		if r.StatusCode != http.StatusServiceUnavailable && r.StatusCode != http.StatusInternalServerError {
			x.t.Errorf("changes after %q: %s %s", x.cursor, r.Status, b)
		}
		return true
	}
	var lines []Line
	for d := json.NewDecoder(r.Body); ; {
		var l Line
		if err := d.Decode(&l); err != nil {
			break // its end, or the archive's
		}
		lines = append(lines, l)
	}
	n := len(lines)
	for _, l := range lines[:keep(n)] {
		x.seen, x.cursor = append(x.seen, l), l.Cursor
	}
	return n > 0
}

// TestIndexerStopsAndResumes has an indexer that is stopped and goes on at random, while peers send and the archive is closed and opened
// again: it sees every change exactly once, in order per URL.
func TestIndexerStopsAndResumes(t *testing.T) {
	t.Parallel()
	const channels, versions, pages = 5, 12, 3
	dir := t.TempDir()
	var mu sync.RWMutex // of a, which is closed and opened again meanwhile
	a := open(t, testConfig(dir))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.RLock()
		defer mu.RUnlock()
		a.Handler().ServeHTTP(w, r)
	}))
	defer s.Close()
	var writers sync.WaitGroup
	for id := channel.ID(1); id <= channels; id++ {
		r, _ := start(t, a, fmt.Sprint("peer", id), id, 1)
		writers.Go(func() {
			for v := range versions {
				b := channel.ChunkBody{}
				if v > 0 {
					mu.RLock()
					r.a = a
					r.next()
					mu.RUnlock()
				}
				for p := range pages {
					change := channel.Changed
					if v == 0 {
						change = channel.New
					}
					b.Pages = append(b.Pages, r.page(fmt.Sprint("/", p), fmt.Sprintf("version %d of page %d %s", v, p, strings.Repeat(fmt.Sprint(v*p), 500)), change))
				}
				chunk := r.chunk(b)
				for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
					mu.RLock()
					got, err := a.Put(t.Context(), r.peer, chunk)
					mu.RUnlock()
					if err == nil && got.Status == lease.Stored {
						r.seq, r.head = got.Seq, got.Head
						break
					}
					if time.Now().After(end) {
						t.Errorf("chunk %d of channel %d: %v %v", chunk.Seq, id, got.Status, err)
						return
					}
				}
			}
		})
	}
	rng := rand.New(rand.NewPCG(7, 7))
	done := make(chan struct{})
	go func() { writers.Wait(); close(done) }()
	x := &indexer{t: t}
	for over, n := false, 0; ; n++ {
		select {
		case <-done:
			over = true
		default:
		}
		if n%40 == 39 && !over {
			mu.Lock()
			if err := a.Close(); err != nil {
				t.Error(err)
			}
			a = open(t, testConfig(dir))
			mu.Unlock()
		}
		if more := x.read(s.URL, 1+rng.IntN(9), func(n int) int { return rng.IntN(n + 1) }); over && !more {
			break
		}
	}
	if len(x.seen) != channels*versions*pages {
		t.Errorf("%d changes seen, %d made", len(x.seen), channels*versions*pages)
	}
	at := map[string]int{} // by URL, the next version
	for _, l := range x.seen {
		want := "changed"
		if at[l.URL] == 0 {
			want = "created"
		}
		p := int(l.URL[len(l.URL)-1] - '0')
		body := fmt.Sprintf("version %d of page %d %s", at[l.URL], p, strings.Repeat(fmt.Sprint(at[l.URL]*p), 500))
		if got := fmt.Sprintf("%016x", channel.ContentDigest([]byte(body))); l.Digest != got || l.Event != want {
			t.Fatalf("%s: %s with digest %s, want version %d", l.URL, l.Event, l.Digest, at[l.URL])
		}
		at[l.URL]++
	}
	// What is exported in parts is what is exported at once, in every format.
	for _, f := range []Format{FormatJSON, FormatText, FormatWARC} {
		var whole, parts bytes.Buffer
		end, err := a.Export(t.Context(), &whole, ExportOptions{Format: f})
		if err != nil {
			t.Fatal(err)
		}
		records := 0
		for cursor := ""; cursor != end; {
			var part bytes.Buffer
			if cursor, err = a.Export(t.Context(), &part, ExportOptions{Format: f, Since: cursor, Limit: 1 + rng.IntN(50)}); err != nil {
				t.Fatal(err)
			}
			if f == FormatWARC {
				records += scanBytes(t, part.String()) - 1 // each has a warcinfo
			}
			parts.Write(part.Bytes())
		}
		if f == FormatWARC && records != scanBytes(t, whole.String())-1 {
			t.Errorf("%s: %d records in parts, %d at once", f, records, scanBytes(t, whole.String())-1)
		}
		if f != FormatWARC && whole.String() != parts.String() || whole.Len() == 0 {
			t.Errorf("%s: parts of %d bytes, the whole has %d", f, parts.Len(), whole.Len())
		}
	}
}
