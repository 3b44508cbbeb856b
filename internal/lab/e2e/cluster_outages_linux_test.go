package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"shoal/internal/lab/s3lab"
)

func (c *clusterChaos) begin(o outage) {
	c.began[o.kind]++
	switch o.kind {
	case "kill-peer":
		c.peers[o.target].kill()
		c.peers[o.target] = nil
	case "stop-peer":
		c.send(c.peers[o.target], syscall.SIGSTOP)
	case "cut-peer":
		c.wire(fmt.Sprint(o.kind, o.target), fmt.Sprintf("meta skgid %d tcp dport != %d drop", firstGroup+o.target, c.webPort))
	case "kill-one":
		c.managers[o.target].kill()
		c.managers[o.target] = nil
	case "stop-one":
		c.paused[o.target] = true
		c.send(c.managers[o.target], syscall.SIGSTOP)
	case "end-one":
		m := c.managers[o.target]
		c.managers[o.target] = nil
		c.send(m, syscall.SIGTERM)
		c.hasEnded(m)
	case "cut-database", "cut-bucket", "cut-one":
		c.cut[o.target] = true
		c.wire(fmt.Sprint(o.kind, o.target), c.cutOff(o))
	case "kill-database":
		c.primary.Kill()
	case "stop-database":
		c.primary.Pause()
	case "promote-database":
		c.primary.Kill()
		c.primary, c.standby = c.standby, c.primary
		c.must(c.primary.Promote(c.t.Context()))
	case "slow-database":
		c.slow(30 * time.Millisecond)
	case "full-database":
		c.must(c.primary.Fill())
	case "reset-database":
		for _, p := range c.proxies {
			p.Reset()
		}
	case "fail-bucket", "slow-bucket", "tear-bucket", "lag-bucket":
		c.store.Break(breaks(o.kind, c.seed))
	case "block", "purge":
		c.block(o)
	case "compact":
		c.ask(o.kind, http.MethodPost, "/archive/compact?share=0.9", nil)
	default:
		c.t.Fatalf("no test injects %s", o.kind)
	}
}

func (c *clusterChaos) end(o outage) {
	switch o.kind {
	case "kill-peer":
		c.startPeer(o.target)
	case "stop-peer":
		c.send(c.peers[o.target], syscall.SIGCONT)
	case "kill-one":
		c.start(o.target)
	case "end-one":
		c.old[o.target] = false
		c.start(o.target)
	case "stop-one":
		c.paused[o.target] = false
		c.send(c.managers[o.target], syscall.SIGCONT)
	case "cut-peer":
		c.wire(fmt.Sprint(o.kind, o.target), "")
	case "cut-database", "cut-bucket", "cut-one":
		c.cut[o.target] = false
		c.wire(fmt.Sprint(o.kind, o.target), "")
	case "kill-database":
		c.must(c.primary.Start(c.t.Context()))
	case "stop-database":
		c.primary.Resume()
	case "promote-database":
		c.must(c.standby.Follow(c.t.Context(), c.primary))
	case "slow-database":
		c.slow(0)
	case "full-database":
		c.must(c.primary.Empty())
		if !c.primary.Runs() {
			c.must(c.primary.Start(c.t.Context()))
		}
	case "fail-bucket", "slow-bucket", "tear-bucket", "lag-bucket":
		c.store.Break(nil)
	case "block":
		c.unblock(chaosHost(o.target))
	case "purge":
		if host := chaosHost(o.target); c.gone[host] {
			c.back(host)
		}
	}
}

func (c *clusterChaos) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *clusterChaos) send(p *process, s syscall.Signal) {
	if err := p.cmd.Process.Signal(s); err != nil {
		c.t.Errorf("%s: %v", p.name, err)
	}
}

// hasEnded waits for a manager that was asked to end.
func (c *clusterChaos) hasEnded(p *process) {
	select {
	case <-p.done:
	case <-time.After(chaosEnds):
		_ = p.cmd.Process.Signal(syscall.SIGQUIT)
		<-p.done
		c.t.Errorf("%s has not ended %v after it was asked to:\n%s", p.name, chaosEnds, p.said())
	}
}

func (c *clusterChaos) slow(d time.Duration) {
	for _, p := range c.proxies {
		p.Slow(d)
	}
}

func port(addr string) string { return addr[strings.LastIndexByte(addr, ':')+1:] }

// cutOff is a rule of nftables that drops what a manager sends to its database, to its bucket, or to other members. Its own page can be asked.
func (c *clusterChaos) cutOff(o outage) string {
	from := fmt.Sprintf("meta skgid %d ", c.managerGroup(o.target))
	databases := fmt.Sprintf("%s, %s", port(c.proxies[0].Addr()), port(c.proxies[1].Addr()))
	u, err := url.Parse(c.store.URL())
	c.must(err)
	switch o.kind {
	case "cut-database":
		return from + "tcp dport { " + databases + " } drop"
	case "cut-bucket":
		return from + "tcp dport " + u.Port() + " drop"
	}
	return fmt.Sprintf("%s tcp sport != %s tcp dport != { %s, %s, %d } drop", from, port(c.pages[o.target]), databases, u.Port(), c.webPort)
}

// wire sets one rule, or removes it.
func (c *clusterChaos) wire(name, rule string) {
	c.t.Helper()
	if c.rules[name] = rule; rule == "" {
		delete(c.rules, name)
	}
	text := "add table ip cluster\nadd chain ip cluster out { type filter hook output priority 0; }\nflush chain ip cluster out\n"
	for _, r := range c.rules {
		text += "add rule ip cluster out " + r + "\n"
	}
	cmd := exec.Command("nft", "-f", "-")
	cmd.Stdin = strings.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil {
		c.t.Fatalf("nft: %v: %s", err, out)
	}
}

// breaks is what becomes of requests to the bucket.
func breaks(kind string, seed uint64) func(*http.Request) s3lab.Fault {
	var mu sync.Mutex
	rng := rand.New(rand.NewPCG(seed, 0x7333))
	return func(r *http.Request) (f s3lab.Fault) {
		mu.Lock()
		defer mu.Unlock()
		one := rng.IntN(4) == 0
		switch {
		case kind == "slow-bucket":
			f.Delay = 500 * time.Millisecond
		case kind == "lag-bucket":
			f.Hide = 15 * time.Second
		case kind == "fail-bucket" && one:
			f.Status = http.StatusInternalServerError
		case kind == "tear-bucket" && one && r.Method == http.MethodPut:
			if f.Cut = 1000; rng.IntN(2) == 0 {
				f = s3lab.Fault{Silent: true}
			}
		}
		return f
	}
}

// block asks for what blocks a host at once, and a takedown.
func (c *clusterChaos) block(o outage) {
	host, at, path := chaosHost(o.target), time.Now(), "/hosts/block"
	if o.kind == "purge" {
		c.gone[host] = true
		c.must(c.judge.Purging(host))
		path = "/hosts/purge"
	}
	c.blocked[host] = true
	if !c.ask(o.kind, http.MethodPost, path, map[string]any{"host": host, "why": "chaos", "unknown": true}) {
		return
	}
	c.must(c.judge.Blocked(host, at))
	if o.kind == "purge" {
		c.must(c.judge.Purged(host, at))
	}
}

func (c *clusterChaos) unblock(host string) bool {
	_ = c.judge.Unblocked(host, time.Now()) // a block that was not acknowledged is none, or is lifted in the end
	return c.ask("block", http.MethodPost, "/hosts/unblock", map[string]any{"host": host})
}

// back imports a host again that was taken down.
func (c *clusterChaos) back(host string) bool {
	if !c.unblock(host) {
		return false
	}
	_, ok := c.answer("purge", http.MethodPost, "/channels/import?name=list.txt", []byte("http://"+host+"/\n"))
	if ok {
		delete(c.gone, host)
	}
	return ok
}

// lifted brings all hosts back, without blocks.
func (c *clusterChaos) lifted() bool {
	for host := range maps.Clone(c.gone) {
		if !c.back(host) {
			return false
		}
	}
	var list struct{ Hosts []struct{ Name string } }
	if c.access[c.current.Load()].get("/api/v1/hosts?blocked=1&n=1000", &list) != nil {
		return false
	}
	lifted := true
	for _, h := range list.Hosts {
		if host := strings.TrimPrefix(h.Name, "http://"); c.blocked[host] {
			lifted = c.unblock(host) && lifted
		}
	}
	return lifted
}

// ask sends an operator's request to a manager that is well, and reports whether it was done.
func (c *clusterChaos) ask(kind, method, path string, in any) bool {
	b, err := json.Marshal(in)
	c.must(err)
	_, ok := c.answer(kind, method, path, b)
	return ok
}

// answer sends a request and returns the answer. A manager that refuses is an error, unless it says that it cannot work now.
func (c *clusterChaos) answer(kind, method, path string, in []byte) ([]byte, bool) {
	if !c.choose() {
		c.failed[kind]++
		return nil, false
	}
	status, body, err := c.access[c.current.Load()].ask(c.t, 2*chaosAnswer, method, path, in)
	if err != nil {
		c.failed[kind]++
		return nil, false
	}
	if status == http.StatusOK {
		return body, true
	}
	c.judge.Told(method+" "+path, string(body))
	switch {
	case status >= 500: // its servers are away
		c.failed[kind]++
	case path == "/hosts/unblock" && strings.Contains(string(body), "is not blocked"):
		return body, true
	default:
		c.t.Errorf("%s: %s %s: %d: %.300s", kind, method, path, status, body)
	}
	return nil, false
}

// orphans waits until no object is left in the bucket that the index does not name, longer than the manager keeps such.
func (c *clusterChaos) orphans() {
	var left []string
	for end := time.Now().Add(6*clusterGrace + patience); ; time.Sleep(time.Second) {
		_, done := c.answer("compact", http.MethodPost, "/archive/compact?share=1", nil)
		index, ok := c.answer("cdx", http.MethodGet, "/archive/cdx?all=1", nil)
		names, err := c.store.Objects()
		c.must(err)
		left = left[:0]
		for _, name := range names {
			if base, is := strings.CutPrefix(name, "warc/"); is && !bytes.Contains(index, []byte(base)) {
				left = append(left, name)
			}
		}
		if done && ok && len(left) == 0 {
			c.t.Logf("the index names each of the bucket's %d objects with pages", len(names))
			return
		}
		if time.Now().After(end) {
			c.t.Errorf("%d objects of the bucket are in no index and were not removed: %v", len(left), left)
			return
		}
	}
}
