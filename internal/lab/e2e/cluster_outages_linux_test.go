package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"shoal/internal/lab/clocklab"
	"shoal/internal/lab/s3lab"
	"shoal/manager/archive"
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
	case "kill-one", "stop-one", "end-one":
		c.down[o.target] = c.down[o.target] || o.kind != "stop-one"
		if c.managers[o.target] == nil { // its clock is far behind, and it has ended by itself
			c.failed[o.kind]++
			return
		}
		c.beginOne(o)
	case "step-one":
		c.step(o)
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
	default:
		c.operate(o)
	}
}

// beginOne kills, stops or ends a manager.
func (c *clusterChaos) beginOne(o outage) {
	m := c.managers[o.target]
	if o.kind == "stop-one" {
		c.paused[o.target] = true
		c.send(m, syscall.SIGSTOP)
		return
	}
	c.managers[o.target] = nil
	if o.kind == "kill-one" {
		m.kill()
		return
	}
	c.send(m, syscall.SIGTERM)
	c.leaving[o.target] = &leaver{process: m, asked: time.Now()}
}

// leaver is a manager that was asked to end.
type leaver struct {
	*process
	asked time.Time
	back  bool // it starts again when it has ended
}

// left starts those managers again that have ended as they were asked to. One whose database is away may take as long as it waits for that.
func (c *clusterChaos) left() {
	for i, m := range c.leaving {
		select {
		case <-m.done:
			if m.back {
				delete(c.leaving, i)
				c.down[i] = false
				c.startAgain(i)
			}
		default:
			if time.Since(m.asked) > clusterEnds {
				_ = m.cmd.Process.Signal(syscall.SIGQUIT)
				<-m.done
				c.t.Errorf("manager %d has not ended %v after it was asked to:\n%s", i, clusterEnds, m.said())
			}
		}
	}
}

// step has the clock of a manager be wrong from now on. The judge is told.
func (c *clusterChaos) step(o outage) {
	by, err := time.ParseDuration(o.name)
	c.must(err)
	if !clocklab.Supported || c.old[o.target] {
		c.failed[o.kind]++
		return
	}
	c.clocks[o.target].Step(by)
	if shown := time.Now().Add(by + o.long); shown.After(c.shown) {
		c.shown = shown
	}
	c.far[o.target] = by <= -clusterFar
	c.judge.Stepped(fmt.Sprint(o.target), by, time.Now())
}

func (c *clusterChaos) end(o outage) {
	switch o.kind {
	case "kill-peer":
		c.startPeer(o.target)
	case "stop-peer":
		c.send(c.peers[o.target], syscall.SIGCONT)
	case "kill-one", "end-one":
		if o.kind == "end-one" && c.old[o.target] {
			c.old[o.target] = false
			c.upgraded++
		}
		if m := c.leaving[o.target]; m != nil {
			m.back = true
			c.left()
			return
		}
		c.down[o.target] = false
		c.startAgain(o.target)
	case "stop-one":
		if c.paused[o.target] {
			c.paused[o.target] = false
			c.send(c.managers[o.target], syscall.SIGCONT)
		}
	case "step-one":
		c.clocks[o.target].Step(0)
		c.judge.Righted(fmt.Sprint(o.target), time.Now())
		if c.far[o.target] {
			c.far[o.target] = false
			c.alive() // it may have ended just now
			c.startAgain(o.target)
		}
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
	case "purge", "remove":
		if host := chaosHost(o.target); c.gone[host] {
			c.back(host)
		}
	}
}

// startAgain starts a manager that is not there, unless an outage keeps it away.
func (c *clusterChaos) startAgain(i int) {
	if c.managers[i] == nil && !c.far[i] && !c.down[i] {
		if c.old[i] && c.upgraded > 0 { // the present version may have changed tables, and an earlier one does not start then
			c.old[i] = false
			c.upgraded++
		}
		c.start(i)
	}
}

func (c *clusterChaos) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// send sends a process a signal, unless it has ended by itself. Whether it might is for others to say.
func (c *clusterChaos) send(p *process, s syscall.Signal) {
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		c.t.Errorf("%s: %v", p.name, err)
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

// orphans ends all peers, and waits until the bucket has as many bytes of WARC files as the archive reads when it verifies them, longer than the manager keeps what
// nothing refers to. An object may have no capture in the index: what was taken down stays where another page has the same content.
func (c *clusterChaos) orphans() {
	for i, p := range c.peers {
		if p != nil {
			p.kill()
			c.peers[i] = nil
		}
	}
	var names []string
	var size, read int64
	for end := time.Now().Add(6*clusterGrace + patience); time.Now().Before(end); time.Sleep(time.Second) {
		if !c.choose() {
			continue
		}
		a := c.access[c.current.Load()]
		if status, _, err := a.ask(c.t, time.Minute, http.MethodPost, "/archive/compact?share=1", nil); err != nil || status != http.StatusOK {
			continue
		}
		status, told, err := a.ask(c.t, time.Minute, http.MethodPost, "/archive/verify", nil)
		if err != nil || status != http.StatusOK {
			continue
		}
		var last struct{ Verified *archive.Verified }
		if err := json.Unmarshal(told[bytes.LastIndexByte(bytes.TrimSpace(told), '\n')+1:], &last); err != nil || last.Verified == nil {
			c.t.Fatalf("verify ended with %q: %v", told, err)
		}
		if last.Verified.Found > 0 {
			c.t.Fatalf("verify found %v", last.Verified.Problems)
		}
		read, size = last.Verified.Bytes, 0
		names, err = c.store.Objects()
		c.must(err)
		for _, name := range names {
			if st, err := os.Stat(c.store.File(name)); err == nil && strings.HasPrefix(name, "warc/") {
				size += st.Size()
			}
		}
		if size == read {
			c.t.Logf("the archive reads all %d bytes of the bucket's %d objects", size, len(names))
			return
		}
	}
	var left []string
	if status, index, err := c.access[c.current.Load()].ask(c.t, time.Minute, http.MethodGet, "/archive/cdx?all=1", nil); err == nil && status == http.StatusOK {
		for _, name := range names {
			if base, is := strings.CutPrefix(name, "warc/"); is && !bytes.Contains(index, []byte(base)) {
				left = append(left, name)
			}
		}
	}
	c.t.Errorf("the bucket has %d bytes of WARC files, and the archive reads %d. In no index are %v", size, read, left)
}
