package e2e

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	libp2ppeer "github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/transport/tcp"
	ma "github.com/multiformats/go-multiaddr"

	"shoal/internal/lab/pond"
	"shoal/internal/lab/rogue"
	"shoal/internal/member"
	"shoal/peer"
	"shoal/peer/limit"
)

// fortress is a network under attack: a manager in a process of its own, a pond, and honest peers in this process.
type fortress struct {
	t       *testing.T
	data    string
	manager *process
	page    page
	pond    *pond.Server
	scene   rogue.Scene
}

const siegePages = 8 // of each host

func openFortress(t *testing.T, s siege) *fortress {
	t.Helper()
	cfg := pond.Config{Seed: 7, Hosts: s.hosts, Pages: s.hosts * siegePages, MaxHost: siegePages, Bytes: cmp.Or(s.bytes, 2000), Plain: true, Start: time.Now().Add(-time.Hour), Trouble: s.trouble}
	if len(s.sizes) > 0 {
		cfg.Sizes, cfg.BadShare = s.sizes, s.odd
	}
	w, err := pond.NewWorld(cfg)
	if err != nil {
		t.Fatal(err)
	}
	f := &fortress{t: t, data: t.TempDir(), pond: servePond(t, w)}
	flags := []string{"manager", "--data", f.data, "--listen", fmt.Sprintf("/ip4/127.0.0.1/tcp/%d", unusedPort(t)), "--page", "127.0.0.1:0", "--pond", f.pond.Addr().String(), "--lease", cmp.Or(s.lease, "12s")}
	f.manager = start(t, "shoal", append(flags, s.flags...)...)
	f.page = pageOf(f.manager, "Page ")
	join := f.manager.word("shoal-peer join ")
	js, err := member.ParseJoinString(join)
	if err != nil {
		t.Fatal(err)
	}
	var boss libp2ppeer.AddrInfo = target(t, js.Addrs...)
	f.scene = rogue.Scene{Network: js.Network[:], Boss: boss, Page: strings.TrimPrefix(f.page.base, "http://"), Log: func(format string, args ...any) {}}
	f.honest(s, join)
	f.gather(s.honest)
	return f
}

// gather waits until the manager has so many peers. On a busy machine that takes as long as it takes: only if none has come for a while it never will be.
func (f *fortress) gather(n int) {
	f.t.Helper()
	for most := 0; most < n; {
		f.manager.until(fmt.Sprintf("has more than %d of its %d peers", most, n), func() bool {
			now := f.page.overview().Peers
			more := now > most
			most = max(most, now)
			return more
		})
	}
}

// honest starts honest peers that run until the test ends.
func (f *fortress) honest(s siege, join string) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	f.t.Cleanup(func() { cancel(); wg.Wait() })
	dir := f.t.TempDir()
	world := f.pond.World()
	for i := range s.honest {
		port := unusedPort(f.t)
		world.Settle(port, i+1)
		cfg := peer.Default()
		cfg.Dir, cfg.Join, cfg.Grace, cfg.DHT, cfg.QUIC = filepath.Join(dir, fmt.Sprint(i)), join, time.Second, false, false
		cfg.Listen = []string{fmt.Sprintf("/ip4/127.0.0.1/tcp/%d", port)}
		cfg.Checkpoint, cfg.MinGap = 2*time.Second, s.gap
		cfg.Threads, cfg.Queue = cmp.Or(s.threads, cfg.Threads), cmp.Or(s.threads, cfg.Queue)
		guard := &limit.Guard{Pond: world.HTTPDialer(port)}
		cfg.Dial = guard.DialContext
		cfg.Dialer = func(ma.Multiaddr) (tcp.ContextDialer, error) { return world.NodeDialer(port), nil }
		cfg.Log = slog.New(slog.DiscardHandler)
		agent, err := peer.New(cfg)
		if err != nil {
			f.t.Fatal(err)
		}
		wg.Go(func() {
			if err := agent.Run(ctx); err != nil && ctx.Err() == nil {
				f.t.Errorf("peer %d: %v", i, err)
			}
		})
	}
}

// invade lets attackers join. leave makes them go; it may be called twice.
func (f *fortress) invade(n int, attacks []rogue.Attack) (crew []*rogue.Volunteer, leave func()) {
	ctx, cancel := context.WithCancel(f.t.Context())
	var wg sync.WaitGroup
	leave = func() { cancel(); wg.Wait() }
	f.t.Cleanup(leave)
	client := &http.Client{Transport: &http.Transport{DialContext: f.pond.World().HTTPDialer(1)}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	f.scene.Fetch = func(ctx context.Context, url string) (int, []byte, []byte, error) { return fetch(ctx, client, url) }
	for i := range n {
		scene := f.scene
		scene.Account = fmt.Sprintf("mallory-%d", i)
		v, err := rogue.Join(ctx, scene, attacks[i%len(attacks)])
		if err != nil {
			f.t.Fatal(err)
		}
		crew = append(crew, v)
		wg.Go(func() {
			if err := v.Run(ctx); err != nil {
				f.t.Logf("attacker %d: %v", i, err)
			}
		})
	}
	return crew, leave
}

// fetch fetches a page with its unchanged header.
func fetch(ctx context.Context, client *http.Client, url string) (status int, header, body []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, nil, nil, err
	}
	res, err := client.Do(req)
	if err != nil {
		return 0, nil, nil, err
	}
	defer res.Body.Close()
	var h bytes.Buffer
	fmt.Fprintf(&h, "HTTP/1.1 %s\r\n", res.Status)
	if err := res.Header.Write(&h); err != nil {
		return 0, nil, nil, err
	}
	h.WriteString("\r\n")
	body, err = io.ReadAll(io.LimitReader(res.Body, 4<<20))
	return res.StatusCode, h.Bytes(), body, err
}

// pause lets time pass while the network lives.
func (f *fortress) pause(d time.Duration) {
	f.t.Helper()
	select {
	case <-f.manager.done:
		f.t.Fatalf("the manager ended:\n%s", f.manager.said())
	case <-time.After(d):
	}
}

// updates counts the updates by honest peers.
func (f *fortress) updates(crew []*rogue.Volunteer) int64 {
	n := f.page.overview().Updates
	for _, v := range crew {
		n -= v.Stats.Updates.Load()
	}
	return n
}

func (f *fortress) accepted() int64 { return f.page.overview().Accepted }

// watchMemory watches the manager's own memory and returns a function that reports the maximum.
func (f *fortress) watchMemory() (most func() float64) {
	stop, done := make(chan struct{}), make(chan float64)
	pid := f.manager.cmd.Process.Pid
	go func() {
		top := 0.
		for {
			top = max(top, usageOf(f.t, pid).own)
			select {
			case <-stop:
				done <- top
				return
			case <-time.After(200 * time.Millisecond):
			}
		}
	}()
	return func() float64 { close(stop); return <-done }
}

// shoal runs an operator's command on the network. A failure marks the test as failed and lets it continue.
func (f *fortress) shoal(args ...string) {
	f.t.Helper()
	p := start(f.t, "shoal", append(args, "--data", f.data)...)
	<-p.done
	if p.cmd.ProcessState.ExitCode() != 0 {
		f.t.Errorf("shoal %s: %s", strings.Join(args, " "), p.said())
	}
}

// wrong returns the URLs for which the archive shows a page that the pond never served: a forged page, or none where
// there is one.
func (f *fortress) wrong() map[string]bool {
	f.t.Helper()
	index, err := f.page.read("/api/v1/archive/cdx?limit=100000")
	if err != nil {
		f.t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DialContext: f.pond.World().HTTPDialer(1), DisableKeepAlives: true}}
	out, seen := map[string]bool{}, map[string]bool{}
	for line := range strings.Lines(string(index)) {
		fields := strings.SplitN(line, " ", 3)
		var c struct{ URL string }
		if len(fields) < 3 || json.Unmarshal([]byte(fields[2]), &c) != nil || seen[c.URL] {
			continue
		}
		seen[c.URL] = true
		was, stored, err := f.page.captured(url.Values{"url": {c.URL}})
		switch {
		case err == nil && bytes.Contains(stored, []byte(rogue.Mark)):
			out[c.URL] = true
		case err != nil || was == http.StatusNotFound:
			if status, _, _, err := fetch(f.t.Context(), client, c.URL); err == nil && status == http.StatusOK {
				out[c.URL] = true
			}
		}
	}
	return out
}

// harm counts channels that were given up, hosts frozen for an hour, and blocked hosts.
func (f *fortress) harm() (givenUp, frozen, blocked int) {
	f.t.Helper()
	var channels struct {
		Channels []struct{ Host, State, Reason string }
	}
	if err := f.page.get("/api/v1/channels?n=1000", &channels); err != nil {
		f.t.Fatal(err)
	}
	for _, c := range channels.Channels {
		switch c.State {
		case "active", "paused", "new", "failing":
		default:
			givenUp++
			f.t.Logf("%s is %s: %s", c.Host, c.State, c.Reason)
		}
	}
	var hosts struct {
		Hosts []struct {
			Blocked   string
			NextVisit time.Time `json:"next_visit"`
		}
	}
	if err := f.page.get("/api/v1/hosts?n=100000", &hosts); err != nil {
		f.t.Fatal(err)
	}
	for _, h := range hosts.Hosts {
		if h.Blocked != "" {
			blocked++
		}
		if h.NextVisit.After(time.Now().Add(time.Hour)) {
			frozen++
		}
	}
	return givenUp, frozen, blocked
}
