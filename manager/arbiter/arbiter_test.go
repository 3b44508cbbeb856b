package arbiter

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"shoal/channel"
	"shoal/internal/lab/pond"
	"shoal/peer/limit"
)

// serve runs a pond, and makes an arbiter with as many vantages that fetches from it.
func serve(t *testing.T, cfg pond.Config, vantages int) (*pond.World, *pond.Server, *Arbiter) {
	t.Helper()
	w, err := pond.NewWorld(cfg)
	if err != nil {
		t.Fatal(err)
	}
	srv, err := pond.NewServer(w, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- srv.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	to, err := limit.ToPond(netip.MustParseAddrPort(srv.Addr().String()))
	if err != nil {
		t.Fatal(err)
	}
	roots, err := w.Roots()
	if err != nil {
		t.Fatal(err)
	}
	c := Config{UserAgent: "Shoal/test (+http://contact.test/)", Roots: roots, Dir: t.TempDir(), Every: 20 * time.Millisecond}
	for range vantages {
		c.Vantages = append(c.Vantages, (&limit.Guard{Pond: to}).DialContext)
	}
	a, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return w, srv, a
}

// TestFetch fetches pages of a pond, and sees what the pond serves, with no request but for robots.txt and the pages.
func TestFetch(t *testing.T) {
	w, srv, a := serve(t, pond.Config{Seed: 3, Hosts: 2, Pages: 40, MaxHost: 30, Static: true}, 2)
	for p := range 3 {
		url := w.URL(0, p)
		page, _, err := a.Fetch(t.Context(), url, p%a.Vantages(), 0, channel.Settings{})
		if err != nil {
			t.Fatal(err)
		}
		want := w.AppendPage(nil, 0, p, w.Version(0, p, time.Now()))
		if page.URL != url || page.Status != 200 || page.Digest != channel.ContentDigest(want) || len(page.Body) != len(want) {
			t.Errorf("%s: status %d, %d bytes with digest %x; want %d with %x", url, page.Status, len(page.Body), page.Digest, len(want), channel.ContentDigest(want))
		}
	}
	if n := srv.Stats().Requests; n != 5 { // robots.txt from each vantage, and three pages
		t.Errorf("%d requests for 3 pages from 2 vantages", n)
	}
}

// TestAsTheChannelWants fetches a page for channels of which only the text, or a part, is kept: peers send no more of it, with which it is compared.
func TestAsTheChannelWants(t *testing.T) {
	w, _, a := serve(t, pond.Config{Seed: 3, Hosts: 2, Pages: 40, MaxHost: 30, Static: true}, 1)
	whole, _, err := a.Fetch(t.Context(), w.URL(0, 1), 0, 0, channel.Settings{})
	if err != nil || len(whole.Body) < 200 {
		t.Fatal(err, len(whole.Body))
	}
	text, _, err := a.Fetch(t.Context(), w.URL(0, 1), 0, 0, channel.Settings{TextOnly: true, Pages: 7})
	if err != nil || len(text.Body) == 0 || bytes.Contains(text.Body, []byte("<p>")) || !bytes.Contains(text.Header, []byte("text/plain")) || text.Digest != whole.Digest {
		t.Errorf("text only: %q, %q, %v", text.Body, text.Header, err)
	}
	part, _, err := a.Fetch(t.Context(), w.URL(0, 1), 0, 0, channel.Settings{PageBytes: 150})
	if err != nil || !bytes.Equal(part.Body, whole.Body[:150]) {
		t.Errorf("150 bytes: %q, %v", part.Body, err)
	}
}

// TestUnseen asks for what cannot be fetched, or must not.
func TestUnseen(t *testing.T) {
	w, _, a := serve(t, pond.Config{Seed: 3, Hosts: 2, Pages: 40, MaxHost: 30, Static: true}, 1)
	for _, url := range []string{"http://127.0.0.1/", "http://[::1]/", "https://192.168.1.1/x"} {
		if _, _, err := a.Fetch(t.Context(), url, 0, 0, channel.Settings{}); !errors.Is(err, ErrUnseen) {
			t.Errorf("%s: %v", url, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := a.Fetch(ctx, w.URL(0, 0), 0, 0, channel.Settings{}); err == nil {
		t.Error("a fetch went on after its context had ended")
	}
	if _, _, err := a.Fetch(t.Context(), w.URL(0, 0), 1, 0, channel.Settings{}); !errors.Is(err, ErrConfig) {
		t.Errorf("a vantage that there is not: %v", err)
	}
	if _, _, err := a.Fetch(t.Context(), w.URL(0, 0), 0, 0, channel.Settings{}); err != nil {
		t.Errorf("after all this a good page: %v", err)
	}
}

// TestCrawlDelay fetches pages of hosts of which some want a wait between two: the pond sees none that comes sooner.
func TestCrawlDelay(t *testing.T) {
	w, srv, a := serve(t, pond.Config{Seed: 3, Hosts: 60, Pages: 600, MaxHost: 10, Static: true}, 2)
	waits := 0
	for h, host := range w.Hosts() {
		if host.CrawlDelay == 0 || waits == 2 {
			continue
		}
		waits++
		for p := range 3 {
			if _, _, err := a.Fetch(t.Context(), w.URL(h, p), p%a.Vantages(), 0, channel.Settings{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if waits == 0 {
		t.Fatal("no host wants a wait")
	}
	if st := srv.Stats(); st.Violated != 0 {
		t.Errorf("%d breaches, %+v", st.Violated, st.Violations[0])
	}
}

// TestPace has two fetches wait for each other, though they are of different hosts.
func TestPace(t *testing.T) {
	dialled := make(chan time.Time, 10)
	broken := func(context.Context, string, string) (net.Conn, error) {
		dialled <- time.Now()
		return nil, &net.OpError{Op: "dial", Err: errors.New("nothing there")}
	}
	const every = 50 * time.Millisecond
	a, err := New(Config{Vantages: []Dial{broken}, UserAgent: "Shoal/test", Dir: t.TempDir(), Every: every})
	if err != nil {
		t.Fatal(err)
	}
	for _, url := range []string{"http://a.example/", "http://b.example/"} {
		if _, _, err := a.Fetch(t.Context(), url, 0, 0, channel.Settings{}); !errors.Is(err, ErrUnseen) {
			t.Fatalf("%s: %v", url, err)
		}
	}
	first, second := <-dialled, <-dialled
	if d := second.Sub(first); d < every {
		t.Errorf("%v between two requests, want %v", d, every)
	}
}

// TestSweep finds what a process left that was killed while a page was on its way, and removes that alone.
func TestSweep(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"arbiter-123/spool", "archive"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := New(Config{Vantages: []Dial{nil}, UserAgent: "Shoal/test", Dir: dir}); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 || left[0].Name() != "archive" {
		t.Errorf("left are %v, %v; want archive", left, err)
	}
}

func TestConfig(t *testing.T) {
	for name, c := range map[string]Config{
		"no vantage": {UserAgent: "Shoal/test"}, "no name": {Vantages: []Dial{nil}}, "negative": {Vantages: []Dial{nil}, UserAgent: "x", Every: -1},
	} {
		if _, err := New(c); !errors.Is(err, ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
