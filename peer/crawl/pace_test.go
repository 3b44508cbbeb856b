package crawl

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"shoal/channel"
)

// pipes is a listener of connections in memory, which synctest can follow.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), done: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { p.once.Do(func() { close(p.done) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	a, b := net.Pipe()
	select {
	case p.conns <- b:
		return a, nil
	case <-p.done:
		return nil, errors.New("closed")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// watch serves h in a synctest bubble and records when each request came and its response went.
type watch struct {
	mu       sync.Mutex
	h        http.Handler
	inFlight int
	parallel int
	ended    time.Time
	gaps     []time.Duration
	begun    []time.Time
}

func (w *watch) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	w.inFlight++
	w.parallel = max(w.parallel, w.inFlight)
	w.begun = append(w.begun, time.Now())
	if !w.ended.IsZero() {
		w.gaps = append(w.gaps, time.Since(w.ended))
	}
	w.mu.Unlock()
	w.h.ServeHTTP(rw, r)
	w.mu.Lock()
	w.inFlight--
	w.ended = time.Now()
	w.mu.Unlock()
}

func paced(t *testing.T, h http.Handler, change func(*Config)) (*watch, channel.Report) {
	w := &watch{h: h}
	l := newPipes()
	srv := &http.Server{Handler: w}
	go srv.Serve(l)
	cfg, _ := taskOf(t, "http://site.test", l.dial)
	cfg.Unpaced = false
	change(&cfg)
	r, err := Run(t.Context(), cfg)
	if err != nil {
		t.Error(err)
	}
	srv.Close()
	synctest.Wait()
	return w, r
}

// TestPace keeps the wait to within a millisecond over 10,000 requests, never two of them at a time.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, r := paced(t, tree(10_000, 9), func(c *Config) { c.MinGap = 750 * time.Millisecond })
		if r.Pages != 10_000 || w.parallel != 1 || len(w.gaps) != 10_000 {
			t.Fatalf("%d pages, %d at a time, %d gaps", r.Pages, w.parallel, len(w.gaps))
		}
		for i, g := range w.gaps {
			if g < 750*time.Millisecond || g > 751*time.Millisecond {
				t.Fatalf("gap %d is %v", i, g)
			}
		}
	})
}

func TestPaceOfOthers(t *testing.T) {
	for _, c := range []struct {
		name   string
		robots string
		change func(*Config)
		slow   time.Duration
		want   time.Duration
	}{
		{"default", "", func(*Config) {}, 0, time.Second},
		{"the manager knows of more", "", func(c *Config) { c.Header.Gap = 4 * time.Second }, 0, 4 * time.Second},
		{"crawl-delay", "User-agent: *\nCrawl-delay: 7", func(*Config) {}, 0, 7 * time.Second},
		{"crawl-delay of a day", "User-agent: *\nCrawl-delay: 86400", func(*Config) {}, 0, 30 * time.Second},
		{"smaller crawl-delay", "User-agent: *\nCrawl-delay: 0.1", func(*Config) {}, 0, time.Second},
		{"slow answers", "", func(*Config) {}, 5 * time.Second, 5 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pages := tree(20, 3)
				w, r := paced(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
					if r.URL.Path == "/robots.txt" && c.robots != "" {
						fmt.Fprint(rw, c.robots)
						return
					}
					time.Sleep(c.slow)
					pages.ServeHTTP(rw, r)
				}), c.change)
				if r.Pages != 20 {
					t.Fatalf("report %+v", r)
				}
				for i, g := range w.gaps {
					if g < c.want || g > c.want+time.Millisecond {
						t.Errorf("gap %d is %v, want %v", i, g, c.want)
					}
				}
			})
		})
	}
}

func TestRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		pages := tree(10, 3)
		w, r := paced(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/p3" {
				if asked++; asked == 1 {
					rw.Header().Set("Retry-After", "90")
					rw.WriteHeader(http.StatusServiceUnavailable)
					return
				}
			}
			pages.ServeHTTP(rw, r)
		}), func(*Config) {})
		if r.Pages != 10 || asked != 2 || r.Errors["http-503"] != 1 {
			t.Errorf("asked %d times, %+v", asked, r)
		}
		longest := time.Duration(0)
		for _, g := range w.gaps {
			longest = max(longest, g)
		}
		if longest != 90*time.Second {
			t.Errorf("longest gap %v, want the 90 s asked for", longest)
		}
	})
}

func TestRetryAfterTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, r := paced(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/robots.txt" {
				http.NotFound(rw, r)
				return
			}
			rw.Header().Set("Retry-After", "7200")
			rw.WriteHeader(http.StatusTooManyRequests)
		}), func(*Config) {})
		if r.Outcome != channel.HostBlocked {
			t.Errorf("%+v", r)
		}
	})
}

// TestSilentHost is one that takes requests and never answers: no thread is stuck for longer than its limits.
func TestSilentHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		_, r := paced(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/" || r.URL.Path == "/robots.txt" {
				tree(50, 49).ServeHTTP(rw, r)
				return
			}
			<-r.Context().Done()
		}), func(*Config) {})
		if r.Outcome != channel.Failed || r.Errors["timeout"] != MaxFailures {
			t.Errorf("%+v", r)
		}
		if d := time.Since(start); d > (MaxFailures+1)*(RequestTimeout+MaxGap) {
			t.Errorf("took %v", d)
		}
	})
}

// TestDrippingHost is one whose header fields come a byte at a time.
func TestDrippingHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		_, r := paced(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/" || r.URL.Path == "/robots.txt" {
				tree(50, 49).ServeHTTP(rw, r)
				return
			}
			c, _, err := http.NewResponseController(rw).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			_, err = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n")
			for ; err == nil; time.Sleep(time.Second) {
				_, err = io.WriteString(c, "X")
			}
		}), func(*Config) {})
		took := time.Since(start)
		time.Sleep(2 * time.Second) // so that the last handler notices that the client is gone
		if r.Outcome != channel.Failed || r.Errors["timeout"] != MaxFailures {
			t.Errorf("%+v", r)
		}
		if took > (MaxFailures+1)*(RequestTimeout+MaxGap) {
			t.Errorf("took %v", took)
		}
	})
}

// TestCheckpointInTime sees a page put within the time for checkpoints, though the next one is long in coming.
func TestCheckpointInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sink{}
		var stored []int
		_, r := paced(t, tree(60, 3), func(c *Config) {
			c.Sink, c.MinGap, c.Checkpoint = s, 20*time.Second, 5*time.Minute
			c.OnVisit = func(Visit) {
				s.mu.Lock()
				stored = append(stored, len(s.pages()))
				s.mu.Unlock()
			}
		})
		if r.Pages != 60 || len(s.chunks) < 4 {
			t.Errorf("%d checkpoints of %d pages in 20 minutes", len(s.chunks), r.Pages)
		}
		for i, n := range stored {
			if i-n > 18 {
				t.Errorf("after %d pages %d were stored: a page stays here for more than 5 minutes", i, n)
			}
		}
	})
}

// TestLeaveWhenSent has leave run out while the host is dialled, which takes long: no request begins without it.
func TestLeaveWhenSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		leave := func() bool { return time.Since(start)%time.Minute < 30*time.Second }
		closing := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Connection", "close") // each request has its own dial
			tree(30, 3).ServeHTTP(rw, r)
		})
		w, r := paced(t, closing, func(c *Config) {
			dial := c.Dial
			c.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
				time.Sleep(25 * time.Second)
				return dial(ctx, network, addr)
			}
			c.Before = func(context.Context) error {
				for !leave() {
					time.Sleep(time.Second)
				}
				return nil
			}
		})
		if r.Pages != 30 || len(w.begun) != 31 {
			t.Fatalf("%d requests, %+v", len(w.begun), r)
		}
		for i, at := range w.begun {
			if d := at.Sub(start) % time.Minute; d >= 30*time.Second {
				t.Errorf("request %d begins %v after leave ran out", i, d-30*time.Second)
			}
		}
	})
}

// TestRobotsKept: a crawl uses what another read of robots.txt within a day, its Crawl-delay too, and reads it again after that; what a
// host could not say is not kept.
func TestRobotsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kept, pages := NewRobots(), tree(5, 3)
		for i, c := range []struct {
			after  time.Duration
			status int
			read   int
			pages  int
		}{{0, 500, 1, 0}, {0, 200, 1, 5}, {time.Hour, 200, 0, 5}, {22 * time.Hour, 200, 0, 5}, {time.Hour, 200, 1, 5}, {25 * time.Hour, 404, 1, 5}, {time.Hour, 500, 0, 5}} {
			time.Sleep(c.after)
			read := 0
			w, r := paced(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/robots.txt" {
					read++
					rw.WriteHeader(c.status)
					fmt.Fprint(rw, "User-agent: *\nCrawl-delay: 3\n")
					return
				}
				pages.ServeHTTP(rw, r)
			}), func(cfg *Config) { cfg.Robots = kept })
			if read != c.read || r.Pages != c.pages {
				t.Errorf("crawl %d: robots.txt read %d times, want %d; %+v", i, read, c.read, r)
			}
			for _, g := range w.gaps {
				if i < 5 && g < 3*time.Second {
					t.Errorf("crawl %d: a gap of %v", i, g)
				}
			}
		}
	})
}

// TestAfterAnotherCrawl: a crawl that follows another one's requests waits as long as the host wants, which it may know from earlier.
func TestAfterAnotherCrawl(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kept, pages := NewRobots(), tree(5, 3)
		host := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/robots.txt" {
				fmt.Fprint(rw, "User-agent: *\nCrawl-delay: 3\n")
				return
			}
			pages.ServeHTTP(rw, r)
		})
		for i, want := range []time.Duration{0, time.Second, 3 * time.Second, 2500 * time.Millisecond, 0} { // without a wait; robots.txt not known; known
			if i == 1 {
				kept = NewRobots()
			}
			began := time.Now()
			after := []time.Time{{}, began, began, began.Add(-500 * time.Millisecond), {}}[i]
			w, r := paced(t, host, func(cfg *Config) { cfg.Robots, cfg.After = kept, after })
			if r.Pages != 5 || w.begun[0].Sub(began) != want {
				t.Errorf("crawl %d: the first request came after %v, want %v; %+v", i, w.begun[0].Sub(began), want, r)
			}
		}
	})
}

// TestStalledHandshake has hosts that do not come to the end of a handshake, or allow no stream of HTTP/2 afterwards.
func TestStalledHandshake(t *testing.T) {
	srv := httptest.NewTLSServer(http.NotFoundHandler())
	certificate, trusted := srv.TLS.Certificates[0], srv.Certificate()
	srv.Close()
	for name, host := range map[string]func(c net.Conn){
		"silent": func(c net.Conn) { io.Copy(io.Discard, c) },
		"dripping": func(c net.Conn) {
			drip(c, []byte{22, 3, 3, 0, 1, 0})
			io.Copy(io.Discard, c)
		},
		"settings": func(c net.Conn) {
			tc := tls.Server(c, &tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: []string{"h2"}})
			if err := tc.Handshake(); err != nil {
				t.Error(err)
				return
			}
			go tc.Write([]byte{0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0}) // no stream at a time; a pipe takes it when it is read
			io.Copy(io.Discard, tc)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				var ends []net.Conn
				cfg, _ := taskOf(t, "https://example.com", func(context.Context, string, string) (net.Conn, error) {
					a, b := net.Pipe()
					ends = append(ends, b)
					go host(b)
					return a, nil
				})
				cfg.Roots = x509.NewCertPool()
				cfg.Roots.AddCert(trusted)
				r, err := Run(t.Context(), cfg)
				if err != nil || r.Outcome != channel.Failed || r.Errors["timeout"] != 1 || time.Since(start) > RequestTimeout+5*time.Second {
					t.Errorf("%v, outcome %d, %v after %v", err, r.Outcome, r.Errors, time.Since(start))
				}
				for _, c := range ends {
					c.Close()
				}
				synctest.Wait()
			})
		})
	}
}

// drip repeats b until the client is gone.
func drip(c net.Conn, b []byte) {
	for _, err := c.Write(b); err == nil; _, err = c.Write(b) {
		time.Sleep(time.Second)
	}
}
