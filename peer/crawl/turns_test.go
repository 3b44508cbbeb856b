package crawl

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Crawls of three networks at the same hosts never overlap there, and each keeps the longest wait of both neighbours.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := NewTurns()
		type last struct {
			owner string
			next  time.Time
			ended time.Time
		}
		const hosts, rounds = 3, 40
		var under [hosts]atomic.Int32
		var mu sync.Mutex
		var before [hosts]last
		count := map[string]int{}
		var wg sync.WaitGroup
		for n, gap := range []time.Duration{time.Second, 5 * time.Second, 200 * time.Millisecond} {
			owner := fmt.Sprint("network ", n)
			for host := range hosts {
				wg.Go(func() {
					rng := rand.New(rand.NewPCG(uint64(n), uint64(host)))
					for range rounds {
						if _, err := turns.take(context.Background(), nil, owner, fmt.Sprint(host), gap); err != nil {
							t.Error(err)
							return
						}
						if under[host].Add(1) != 1 {
							t.Error("two requests at one host")
						}
						now := time.Now()
						mu.Lock()
						b := before[host]
						if b.owner != "" && b.owner != owner && (now.Before(b.next) || now.Before(b.ended.Add(gap))) {
							t.Errorf("%s asks host %d too soon after %s", owner, host, b.owner)
						}
						count[owner]++
						mu.Unlock()
						time.Sleep(time.Duration(rng.IntN(3000)) * time.Millisecond)
						now = time.Now()
						mu.Lock()
						before[host] = last{owner, now.Add(gap), now}
						mu.Unlock()
						under[host].Add(-1)
						turns.give(fmt.Sprint(host), now, now.Add(gap))
						time.Sleep(gap)
					}
				})
			}
		}
		wg.Wait()
		for owner, n := range count {
			if n != hosts*rounds {
				t.Errorf("%s had %d turns", owner, n)
			}
		}
	})
}

// Whoever stops waiting lets the next one through, and a network alone never waits.
func TestTurnsLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns, ctx := NewTurns(), context.Background()
		if waited, err := turns.take(ctx, nil, "a", "x", time.Second); waited || err != nil {
			t.Fatal(waited, err)
		}
		stop, second := make(chan struct{}), make(chan error)
		go func() {
			_, err := turns.take(ctx, stop, "b", "x", time.Second)
			second <- err
		}()
		synctest.Wait()
		third := make(chan error)
		go func() {
			_, err := turns.take(ctx, nil, "c", "x", time.Second)
			third <- err
		}()
		synctest.Wait()
		close(stop)
		if err := <-second; !errors.Is(err, errStop) {
			t.Fatal(err)
		}
		turns.give("x", time.Now(), time.Now().Add(time.Second))
		begun := time.Now()
		if err := <-third; err != nil || time.Since(begun) != time.Second {
			t.Fatal(err, time.Since(begun))
		}
		turns.give("x", time.Now(), time.Now())
		for range 3 * manyTurns { // hosts are forgotten
			host := fmt.Sprint(rand.Uint64())
			if waited, _ := turns.take(ctx, nil, "a", host, 0); waited {
				t.Fatal("waits for itself")
			}
			if waited, _ := turns.take(ctx, nil, "a", host, 0); waited {
				t.Fatal("waits for itself")
			}
			turns.give(host, time.Now(), time.Now())
			turns.give(host, time.Now(), time.Now())
			time.Sleep(time.Second)
		}
		if n := len(turns.hosts); n > manyTurns {
			t.Fatalf("%d hosts", n)
		}
	})
}

// TestTurnsOfOneName has one network's crawls of two origins of a name run at a time, as of http and https: the host sees one visitor, who waits between any two requests.
func TestTurnsOfOneName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &watch{h: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			time.Sleep(300 * time.Millisecond)
			tree(5, 2).ServeHTTP(rw, r)
		})}
		l, turns := newPipes(), NewTurns()
		srv := &http.Server{Handler: w}
		go srv.Serve(l)
		var wg sync.WaitGroup
		for _, origin := range []string{"http://site.test", "http://site.test:8080"} {
			cfg, _ := taskOf(t, origin, l.dial)
			cfg.Unpaced, cfg.Turns, cfg.Network = false, turns, "one"
			wg.Go(func() {
				if r, err := Run(t.Context(), cfg); err != nil || r.Pages != 5 {
					t.Errorf("%s: %d pages, %v", origin, r.Pages, err)
				}
			})
		}
		wg.Wait()
		srv.Close()
		synctest.Wait()
		if w.parallel != 1 || slices.Min(w.gaps) < time.Second {
			t.Errorf("%d requests at a time at one host, and %v between two", w.parallel, slices.Min(w.gaps))
		}
	})
}

func TestHostOf(t *testing.T) {
	for u, want := range map[string]string{"https://Example.org/a?b": "example.org", "http://example.org:8080/": "example.org", "http://[2001:db8::1]:80/": "2001:db8::1", "http://192.0.2.1/": "192.0.2.1"} {
		if got := hostOf(u); got != want {
			t.Errorf("%s: %q, want %q", u, got, want)
		}
	}
}
