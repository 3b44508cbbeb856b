package pond

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// TestServedIsWhatItSaid asks for a page many times while it changes. The log must name the content of each answer,
// and the pond must tell afterwards what it would have served then.
func TestServedIsWhatItSaid(t *testing.T) {
	s, _ := serve(t, Config{Seed: 3, Hosts: 4, Pages: 40})
	w := s.World()
	get := func(path string, host string) []byte {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.Addr().String()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		r, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		b, err := io.ReadAll(r.Body)
		if err != nil || r.StatusCode != http.StatusOK {
			t.Fatal(r.Status, err)
		}
		return b
	}
	for h := range w.Hosts() {
		for p := range w.Hosts()[h].Pages {
			body := get(w.Path(h, p), w.Hosts()[h].Name)
			entries := s.Log(0, maxServed)
			last := entries[len(entries)-1]
			if last.Host != h || last.Page != p || s.Served(h, p, time.Now()) != last.Text {
				t.Fatalf("the log's newest is %+v, asked for page %d of host %d", last, p, h)
			}
			var would wouldServe
			answer := get("/_pond/page?url="+url.QueryEscape(w.URL(h, p))+"&at="+url.QueryEscape(last.When.Format(time.RFC3339Nano)), "x")
			if err := json.Unmarshal(answer, &would); err != nil {
				t.Fatal(err)
			}
			if sum := sha256.Sum256(body); would.SHA256 != hex.EncodeToString(sum[:]) || would.Text != last.Text {
				t.Fatalf("served %x, and says that it would have served %+v", sum, would)
			}
		}
	}
	var part []Served
	if err := json.Unmarshal(get("/_pond/served?since=10", "x"), &part); err != nil || len(part) == 0 || part[0].N != 11 {
		t.Fatalf("since 10: %v, %v", part, err)
	}
	for _, since := range []string{fmt.Sprint(s.served.n), "1000000", fmt.Sprint(uint64(math.MaxUint64))} { // nothing is new
		if b := get("/_pond/served?since="+since, "x"); strings.TrimSpace(string(b)) != "[]" {
			t.Errorf("since %s: %.200s, want an empty list", since, b)
		}
	}
}

// TestServedIsBounded fills the log beyond its limit.
func TestServedIsBounded(t *testing.T) {
	var s Server
	at := time.Now()
	for i := range maxServed + 500 {
		s.served.add(Served{When: at.Add(time.Duration(i) * time.Second), Page: i % 3, Text: uint64(i)})
	}
	all := s.Log(0, 2*maxServed)
	if len(all) != maxServed || all[0].N != 501 || all[len(all)-1].N != maxServed+500 {
		t.Fatalf("%d kept, from %d to %d", len(all), all[0].N, all[len(all)-1].N)
	}
	if n := len(s.served.pages[Target{0, 1}]); n != lastOf {
		t.Errorf("%d answers of one page", n)
	}
	if got := s.Served(0, 1, at.Add(time.Duration(all[len(all)-5].Text)*time.Second)); got%3 != 1 {
		t.Errorf("content %d is another page's", got)
	}
}
