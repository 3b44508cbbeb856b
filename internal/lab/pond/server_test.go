package pond

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"shoal/internal/lab/waiting"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve runs a pond until the test ends and returns a client at a node near the first host.
func serve(t testing.TB, cfg Config) (*Server, *http.Client) {
	t.Helper()
	w, err := NewWorld(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewServer(w, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := s.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	port := 4001
	for w.HostRTT(port, 0) > 10*time.Millisecond {
		port++
	}
	tr := &http.Transport{DialContext: w.HTTPDialer(port), DisableCompression: true}
	t.Cleanup(func() {
		tr.CloseIdleConnections()
		cancel()
		running.Wait()
	})
	return s, &http.Client{Transport: tr, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

func get(t testing.TB, c *http.Client, url string, header ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := c.Do(req)
	if err != nil {
		t.Fatalf("GET %s: %v", url, err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("GET %s: %v", url, err)
	}
	return res, string(b)
}

func find(t testing.TB, w *World, want func(Host) bool) int {
	t.Helper()
	for i, h := range w.Hosts() {
		if want(h) {
			return i
		}
	}
	t.Fatal("no such host in this world")
	return 0
}

func TestServesItsPages(t *testing.T) {
	s, c := serve(t, Config{Seed: 1, Hosts: 20, Pages: 200, Static: true})
	w := s.World()
	i := find(t, w, func(h Host) bool { return h.Pages > 5 && h.Validators && h.Robots && h.Private && h.CrawlDelay == 0 })
	h := w.Hosts()[i]
	for p := range 5 {
		res, body := get(t, c, w.URL(i, p))
		want := string(w.AppendPage(nil, i, p, w.Version(i, p, time.Now())))
		if res.StatusCode != 200 || body != want {
			t.Fatalf("%s: %s, %d bytes; want %d", w.URL(i, p), res.Status, len(body), len(want))
		}
		res2, _ := get(t, c, w.URL(i, p), "If-None-Match", res.Header.Get("ETag"))
		res3, _ := get(t, c, w.URL(i, p), "If-Modified-Since", res.Header.Get("Last-Modified"))
		res4, _ := get(t, c, w.URL(i, p), "If-None-Match", `"other"`, "If-Modified-Since", res.Header.Get("Last-Modified"))
		if res2.StatusCode != 304 || res3.StatusCode != 304 || res4.StatusCode != 200 {
			t.Errorf("conditional requests: %d %d %d, want 304 304 200", res2.StatusCode, res3.StatusCode, res4.StatusCode)
		}
	}
	if res, body := get(t, c, "http://"+h.Name+"/robots.txt"); res.StatusCode != 200 || !strings.Contains(body, "Disallow: /private/") {
		t.Errorf("robots.txt: %s %q", res.Status, body)
	}
	if res, _ := get(t, c, "http://"+h.Name+"/item-77777.html"); res.StatusCode != 404 {
		t.Errorf("a page that is not there: %s", res.Status)
	}
	if st := s.Stats(); st.MaxInFlight != 1 || st.Violated != 0 || st.NotModified != 10 || st.Hosts[h.Name] != 22 {
		t.Errorf("stats %+v", st)
	}
	get(t, c, "http://"+h.Name+"/private/")
	if st := s.Stats(); st.Violated != 1 || st.Violations[0].Kind != "robots" {
		t.Errorf("violations %+v", st.Violations)
	}
}

func TestPagesChange(t *testing.T) {
	// The pond's time began long enough ago for pages to have changed.
	start := time.Now().Add(-100 * time.Hour)
	s, c := serve(t, Config{Seed: 1, Hosts: 20, Pages: 200, Start: start})
	w := s.World()
	var i int
	for i = range w.Hosts() {
		if h := w.Hosts()[i]; h.Validators && h.CrawlDelay == 0 && w.Version(i, 0, time.Now()).Text != 0 {
			break
		}
	}
	res, body := get(t, c, w.URL(i, 0))
	if first := string(w.AppendPage(nil, i, 0, w.Version(i, 0, start))); first == body {
		t.Error("the page has not changed in a hundred hours")
	}
	if lm, err := http.ParseTime(res.Header.Get("Last-Modified")); err != nil || lm.After(time.Now()) || lm.Before(start) {
		t.Errorf("Last-Modified %v %v", lm, err)
	}
}

func TestParallelRequestsAreSeen(t *testing.T) {
	s, c := serve(t, Config{Seed: 1, Hosts: 2, Pages: 4, Plain: true, Bad: map[string]Mode{"site-0000.pond.test": Silent}})
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			req, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://site-0000.pond.test/", nil)
			if _, err := c.Do(req); !errors.Is(err, context.Canceled) {
				t.Errorf("a silent host answered: %v", err)
			}
		})
	}
	waiting.Until(t, "two requests in flight", func() bool { return s.Stats().MaxInFlight >= 2 })
	cancel()
	wg.Wait()
	if st := s.Stats(); st.Violated != 1 || st.Violations[0].Kind != "parallel" {
		t.Errorf("violations %+v", st.Violations)
	}
}

func TestConnect(t *testing.T) {
	s, _ := serve(t, Config{Seed: 4, Hosts: 20, Pages: 200, BadShare: .5})
	w, err := Connect(context.Background(), s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if w.ServedAt() != s.Addr() || !w.Config().Start.Equal(s.World().Config().Start) {
		t.Errorf("config %+v, want %+v", w.Config(), s.World().Config())
	}
	for i := range w.Hosts() {
		if w.Mode(i) != s.World().Mode(i) {
			t.Errorf("host %d is %q here and %q there", i, w.Mode(i), s.World().Mode(i))
		}
	}
	tr := &http.Transport{DialContext: w.HTTPDialer(4002)}
	defer tr.CloseIdleConnections()
	good := find(t, w, func(h Host) bool { i, _ := w.Host(h.Name); return w.Mode(i) == "" })
	if res, _ := get(t, &http.Client{Transport: tr}, w.URL(good, 0)); res.StatusCode != 200 {
		t.Error(res.Status)
	}
}

func TestDialerStaysInThePond(t *testing.T) {
	s, _ := serve(t, Config{Seed: 4, Hosts: 2, Pages: 2})
	dial := s.World().HTTPDialer(1)
	for _, addr := range []string{"127.0.0.1:22", "example.org:80", "site-9999.pond.test:80", "site-0001.pond.test:22", "nonsense", "[::1]:80"} {
		if c, err := dial(context.Background(), "tcp", addr); err == nil {
			c.Close()
			t.Errorf("%s was dialled", addr)
		}
	}
}

// TestLatency checks that a round trip costs one RTT whichever side begins, a connection one more, and that bytes
// stream.
func TestLatency(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	w := world(t, Config{Seed: 1})
	there := ln.Addr().(*net.TCPAddr).Port
	self := 1
	for w.NodeRTT(self, there) < 50*time.Millisecond {
		self++
	}
	rtt := w.NodeRTT(self, there)
	accepted := make(chan net.Conn, 1)
	go func() {
		c, err := ln.Accept()
		if err == nil {
			accepted <- c
		}
	}()
	began := time.Now()
	c, err := w.NodeDialer(self).DialContext(context.Background(), "tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if d := time.Since(began); d < rtt {
		t.Errorf("connected in %v, RTT is %v", d, rtt)
	}
	far := <-accepted
	defer far.Close()
	for name, ends := range map[string][2]net.Conn{"dialler": {c, far}, "acceptor": {far, c}} {
		best := time.Hour // a busy machine adds, and takes nothing away
		for end := time.Now().Add(time.Minute); best > rtt+rtt/2 && time.Now().Before(end); {
			began = time.Now()
			ping(t, ends[0], ends[1])
			ping(t, ends[1], ends[0])
			d := time.Since(began)
			if best = min(best, d); d < rtt {
				t.Errorf("round trip of the %s: %v, RTT is %v", name, d, rtt)
			}
		}
		if best > rtt+rtt/2 {
			t.Errorf("round trip of the %s: at best %v, RTT is %v", name, best, rtt)
		}
	}
	const total = 16 << 20
	best, wait := time.Hour, time.Duration(total/MaxQueued+1)*rtt
	for end := time.Now().Add(time.Minute); best > 2*wait && time.Now().Before(end); {
		began = time.Now()
		go func() {
			block := make([]byte, 1<<20)
			for range total / len(block) {
				c.Write(block)
			}
		}()
		if _, err := io.CopyN(io.Discard, far, total); err != nil {
			t.Fatal(err)
		}
		best = min(best, time.Since(began))
	}
	if best > 2*wait {
		t.Errorf("16 MiB took %v at best", best)
	}
}

func ping(t *testing.T, a, b net.Conn) {
	t.Helper()
	if _, err := a.Write([]byte("ping")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(b, make([]byte, 4)); err != nil {
		t.Fatal(err)
	}
}

// TestDelayedClosesAndTimesOut checks that closing delivers what was written and frees readers at once, and that
// deadlines hold while the queue is full.
func TestDelayedClosesAndTimesOut(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	dial := func(rtt time.Duration) (near, far net.Conn) {
		c, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		f, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		return delay(c, rtt), f
	}
	near, far := dial(50 * time.Millisecond)
	defer far.Close()
	read := make(chan error, 1)
	go func() {
		_, err := near.Read(make([]byte, 1))
		read <- err
	}()
	if _, err := near.Write([]byte("last words")); err != nil {
		t.Fatal(err)
	}
	if err := near.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-read; !errors.Is(err, net.ErrClosed) {
		t.Errorf("read after close: %v", err)
	}
	if _, err := near.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("write after close: %v", err)
	}
	if b, err := io.ReadAll(far); err != nil || string(b) != "last words" {
		t.Errorf("the far end read %q, %v", b, err)
	}

	slow, far2 := dial(300 * time.Millisecond)
	defer far2.Close()
	full := make([]byte, MaxQueued)
	if n, err := slow.Write(full); n != len(full) || err != nil {
		t.Errorf("an empty queue took %d bytes, %v", n, err)
	}
	slow.SetWriteDeadline(time.Now().Add(20 * time.Millisecond))
	var ne net.Error
	if n, err := slow.Write(full[:1]); n != 0 || !errors.As(err, &ne) || !ne.Timeout() {
		t.Errorf("a full queue took %d bytes, %v", n, err)
	}
	if err := slow.SetDeadline(time.Now()); err != nil {
		t.Error(err)
	}
	if _, err := slow.Read(make([]byte, 1)); !errors.As(err, &ne) || !ne.Timeout() {
		t.Errorf("read past its deadline: %v", err)
	}
	slow.Close()
}
