package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"shoal/internal/lab/chaos"
	"shoal/internal/lab/judge"
	"shoal/internal/lab/pond"
)

// The settings of `make chaos`.
const (
	chaosSeedEnv    = "SHOAL_CHAOS_SEED"
	chaosMinutesEnv = "SHOAL_CHAOS_MINUTES"
	chaosScriptEnv  = "SHOAL_CHAOS_SCRIPT" // file of a script that is run instead of one that is drawn
)

const (
	chaosLease   = 8 * time.Second
	chaosPage    = 3 * time.Minute // that the first crawl of all channels may take
	chaosSettled = 5 * time.Minute // after the last fault every channel is crawled again
)

// chaosBad are hosts that misbehave and end each answer by themselves, so that a stopped peer holds none.
var chaosBad = []pond.Mode{pond.HangUp, pond.CutOff, pond.ShortBody, pond.BrokenChunks, pond.MalformedHeaders, pond.Unavailable, pond.Forbidden, pond.BrokenGzip}

// chaosRun is a network in which things break by a script.
type chaosRun struct {
	t        *testing.T
	script   chaos.Script
	cast     chaos.Cast
	pond     string
	data     string
	listen   int
	pageAddr string
	join     string
	page     page
	manager  *process
	peers    []*process
	dirs     []string
	ports    []int
	judge    *judge.Judge
	blocked  map[string]bool // hosts whose block was ever asked for
	backups  int
	failed   map[chaos.Kind]int // requests that the manager did not answer, as it was down
}

// TestChaos kills and stops a manager and its peers at random moments, while an operator blocks hosts, changes the strategy, compacts and backs up. An
// outside judge looks at what the network does meanwhile and at what is left.
func TestChaos(t *testing.T) {
	if os.Getenv(chaosMinutesEnv) == "" {
		t.Skip("make chaos runs this")
	}
	t.Parallel()
	c := newChaos(t)
	t.Logf("seed %d, %d faults in %v: %v", c.script.Seed, len(c.script.Faults), c.script.Last(), c.script.Count())
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("run it again with make chaos CHAOS_SEED=%d, or with CHAOS_SCRIPT=FILE and this in the file:\n%v", c.script.Seed, c.script)
		}
	})
	began := time.Now()
	c.open()
	before, broke := c.holdings(), time.Now()
	c.inject()
	last := time.Now()
	c.settle(last)
	t.Logf("all channels were crawled after %.0f s, and %.0f s after the last fault again", broke.Sub(began).Seconds(), time.Since(last).Seconds())
	for name, h := range c.holdings() {
		c.judge.Returned(name, before[name], h)
	}
	seen, err := c.judge.End(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range c.judge.Breaches() {
		t.Error(b)
	}
	t.Logf("%v; not answered, as the manager was down: %v", seen, c.failed)
	if seen.Answers == 0 || seen.Changes == 0 || seen.Captures == 0 || seen.Updates == 0 {
		t.Errorf("the judge saw too little: %v", seen)
	}
}

// newChaos draws the script, or reads it.
func newChaos(t *testing.T) *chaosRun {
	c := &chaosRun{t: t, blocked: map[string]bool{}, failed: map[chaos.Kind]int{},
		cast: chaos.Cast{Peers: 6, Hosts: 40, Strategies: []string{"icr", "iir", "price", "optimal"}, Every: 1500 * time.Millisecond, Longest: 25 * time.Second}}
	number := func(env string, otherwise uint64) uint64 {
		s := os.Getenv(env)
		if s == "" {
			return otherwise
		}
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatalf("%s=%s: want a whole number", env, s)
		}
		return n
	}
	c.cast.Length = time.Duration(number(chaosMinutesEnv, 5)) * time.Minute
	var err error
	if file := os.Getenv(chaosScriptEnv); file != "" {
		text, readErr := os.ReadFile(file)
		if readErr != nil {
			t.Fatal(readErr)
		}
		c.script, err = chaos.Parse(string(text))
	} else {
		c.script, err = chaos.Draw(number(chaosSeedEnv, rand.Uint64N(1_000_000)), c.cast)
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// open starts everything, and waits until all channels of good hosts were crawled.
func (c *chaosRun) open() {
	t := c.t
	cfg := pond.Config{Seed: 11, Hosts: c.cast.Hosts + len(chaosBad), Pages: 6 * (c.cast.Hosts + len(chaosBad)), MaxHost: 20, Bad: map[string]pond.Mode{}}
	for i, m := range chaosBad {
		cfg.Bad[chaosHost(c.cast.Hosts+i)] = m
	}
	w, err := pond.NewWorld(cfg)
	if err != nil {
		t.Fatal(err)
	}
	c.pond = servePond(t, w).Addr().String()
	c.data, c.listen, c.pageAddr = t.TempDir(), unusedPort(t), fmt.Sprintf("127.0.0.1:%d", unusedPort(t))
	c.startManager()
	c.page, c.join = pageOf(c.manager, "Page "), c.manager.word("shoal-peer join ")
	for i := range c.cast.Peers {
		c.dirs, c.ports, c.peers = append(c.dirs, t.TempDir()), append(c.ports, unusedPort(t)), append(c.peers, nil)
		j := start(t, "shoal-peer", "join", "--yes", c.join, "--data", c.dirs[i])
		if <-j.done; j.cmd.ProcessState.ExitCode() != 0 {
			t.Fatalf("join: %s", j.said())
		}
		c.startPeer(i)
	}
	c.judge, err = judge.New(t.Context(), judge.Config{Manager: c.page.base, Token: c.page.token, Pond: "http://" + c.pond,
		Slack: c.cast.Longest + 30*time.Second, BlockGrace: chaosLease + c.cast.Longest + 5*time.Second})
	if err != nil {
		t.Fatal(err)
	}
	c.crawledSince(time.Time{}, chaosPage, "crawls every channel")
}

func chaosHost(n int) string { return fmt.Sprintf("site-%04d%s", n, pond.Suffix) }

func (c *chaosRun) startManager() {
	c.manager = start(c.t, "shoal", "manager", "--data", c.data, "--listen", fmt.Sprintf("/ip4/127.0.0.1/tcp/%d", c.listen), "--page", c.pageAddr, "--pond", c.pond,
		"--lease", chaosLease.String())
}

func (c *chaosRun) startPeer(i int) {
	c.peers[i] = start(c.t, "shoal-peer", "run", "--data", c.dirs[i], "--pond", c.pond, "--port", strconv.Itoa(c.ports[i]), "--listen", "127.0.0.1", "--no-quic",
		"--no-low-priority", "--log-level", "warn")
}

// crawledSince waits until each channel was crawled after a moment, and keeps the judge looking.
func (c *chaosRun) crawledSince(since time.Time, within time.Duration, what string) {
	c.t.Helper()
	var behind []string
	for end := time.Now().Add(within); ; time.Sleep(time.Second / 2) {
		c.alive()
		err := c.judge.Look(c.t.Context())
		if err == nil {
			if behind, err = c.judge.Behind(c.t.Context(), since); err == nil && len(behind) == 0 {
				return
			}
		}
		if time.Now().After(end) {
			c.judge.NeverCameBack(behind)
			for _, b := range c.judge.Breaches() {
				c.t.Error(b)
			}
			c.t.Fatalf("the network never %s: %v\n%s", what, err, c.manager.said())
		}
	}
}

// alive fails where a program has ended that no fault ended.
func (c *chaosRun) alive() {
	c.t.Helper()
	for _, p := range append(slices.Clone(c.peers), c.manager) {
		if p == nil {
			continue
		}
		select {
		case <-p.done:
			c.t.Fatalf("%s ended by itself: %v\n%s", p.name, p.cmd.ProcessState, p.said())
		default:
		}
	}
}

// inject runs the script: each fault begins and ends at its time, and the judge looks in between.
func (c *chaosRun) inject() {
	type event struct {
		at time.Duration
		do func()
	}
	var events []event
	for _, f := range c.script.Faults {
		if f.Target >= c.cast.Peers && (f.Kind == chaos.KillPeer || f.Kind == chaos.StopPeer) {
			c.t.Fatalf("the script names peer %d of %d", f.Target, c.cast.Peers)
		}
		events = append(events, event{f.At, func() { c.begin(f) }}, event{f.End(), func() { c.end(f) }})
	}
	slices.SortStableFunc(events, func(a, b event) int { return int(a.at/time.Millisecond - b.at/time.Millisecond) })
	began := time.Now()
	for _, e := range events {
		for wait := e.at - time.Since(began); wait > 0; wait = e.at - time.Since(began) {
			c.look()
			time.Sleep(min(max(0, e.at-time.Since(began)), time.Second))
		}
		e.do()
		c.alive()
	}
}

// look has the judge look for a short time. A manager that is down or stopped does not answer; the judge sees it all later.
func (c *chaosRun) look() {
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Second)
	defer cancel()
	_ = c.judge.Look(ctx) // the last look must succeed
}

func (c *chaosRun) begin(f chaos.Fault) {
	switch f.Kind {
	case chaos.KillPeer:
		c.peers[f.Target].kill()
		c.peers[f.Target] = nil
	case chaos.StopPeer:
		c.signal(c.peers[f.Target], syscall.SIGSTOP)
	case chaos.KillManager:
		c.manager.kill()
		c.manager = nil
	case chaos.StopManager:
		c.signal(c.manager, syscall.SIGSTOP)
	case chaos.Strategy:
		c.ask(f, http.MethodPut, "/strategy", map[string]any{"name": f.Name})
	case chaos.Block:
		host := chaosHost(f.Target)
		c.blocked[host] = true
		if c.ask(f, http.MethodPost, "/hosts/block", map[string]any{"host": host, "why": "chaos", "unknown": true}) {
			if err := c.judge.Blocked(host, time.Now()); err != nil {
				c.t.Fatal(err)
			}
		}
	case chaos.Backup:
		c.backups++
		c.ask(f, http.MethodPost, "/backup", map[string]any{"dir": filepath.Join(c.t.TempDir(), strconv.Itoa(c.backups))})
	case chaos.Compact:
		c.ask(f, http.MethodPost, "/archive/compact?share=0.9", nil)
	default:
		c.t.Fatalf("no test injects %s", f.Kind)
	}
}

func (c *chaosRun) end(f chaos.Fault) {
	switch f.Kind {
	case chaos.KillPeer:
		c.startPeer(f.Target)
	case chaos.StopPeer:
		c.signal(c.peers[f.Target], syscall.SIGCONT)
	case chaos.KillManager:
		c.startManager()
	case chaos.StopManager:
		c.signal(c.manager, syscall.SIGCONT)
	case chaos.Block:
		c.unblock(chaosHost(f.Target))
	}
}

func (c *chaosRun) signal(p *process, s os.Signal) {
	if err := p.cmd.Process.Signal(s); err != nil {
		c.t.Errorf("%s: %v", p.name, err)
	}
}

// unblock asks to lift a block. From that moment on the host may be fetched, whether the manager answers or not.
func (c *chaosRun) unblock(host string) {
	// A block that was not acknowledged, as the manager was down, is none, or is lifted in the end.
	if err := c.judge.Unblocked(host, time.Now()); err == nil {
		c.ask(chaos.Fault{Kind: chaos.Block}, http.MethodPost, "/hosts/unblock", map[string]any{"host": host})
	}
}

// chaosAnswer is how long the operator waits for an answer of a manager that may be stopped.
const chaosAnswer = 3 * time.Second

// ask sends an operator's request and reports whether the manager did it. A manager that is there and refuses is an error.
func (c *chaosRun) ask(f chaos.Fault, method, path string, in any) bool {
	ctx, cancel := context.WithTimeout(c.t.Context(), chaosAnswer)
	defer cancel()
	b, err := json.Marshal(in)
	if err != nil {
		c.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.page.base+"/api/v1"+path, bytes.NewReader(b))
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+c.page.token)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		c.failed[f.Kind]++
		return false
	}
	defer res.Body.Close()
	var body bytes.Buffer
	if _, err := body.ReadFrom(res.Body); err != nil {
		c.failed[f.Kind]++
		return false
	}
	if res.StatusCode == http.StatusServiceUnavailable { // it starts, or ends
		c.failed[f.Kind]++
		return false
	}
	if res.StatusCode != http.StatusOK {
		c.t.Errorf("%v: %s %s: %s: %.300s", f, method, path, res.Status, &body)
		return false
	}
	return true
}

// settle lifts all blocks, and waits until all is crawled again. A manager that was stopped may have done late what it was asked to do.
func (c *chaosRun) settle(last time.Time) {
	c.t.Helper()
	c.manager.until("lifts all blocks", func() bool {
		var list struct{ Hosts []struct{ Name string } }
		if c.page.get("/api/v1/hosts?blocked=1&n=1000", &list) != nil {
			return false
		}
		lifted, done := true, map[string]bool{}
		for _, h := range list.Hosts {
			host := strings.TrimPrefix(h.Name, "http://")
			if c.blocked[host] && !done[host] {
				done[host] = true
				_ = c.judge.Unblocked(host, time.Now()) // it may have been asked for before
				lifted = c.ask(chaos.Fault{Kind: chaos.Block}, http.MethodPost, "/hosts/unblock", map[string]any{"host": host}) && lifted
			}
		}
		return lifted
	})
	c.crawledSince(last, chaosSettled, "crawls every channel again after the last fault")
}

// holdings is what each process holds: the manager by its metrics, the peers by the kernel's word.
func (c *chaosRun) holdings() map[string]judge.Holdings {
	c.t.Helper()
	m, err := c.judge.Holdings(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	all := map[string]judge.Holdings{"manager": m}
	for i, p := range c.peers {
		proc := fmt.Sprintf("/proc/%d/", p.cmd.Process.Pid)
		fds, err := os.ReadDir(proc + "fd")
		if err != nil {
			c.t.Fatal(err)
		}
		statm, err := os.ReadFile(proc + "statm")
		if err != nil {
			c.t.Fatal(err)
		}
		pages, err := strconv.Atoi(strings.Fields(string(statm))[1])
		if err != nil {
			c.t.Fatal(err)
		}
		all[fmt.Sprint("peer ", i)] = judge.Holdings{Bytes: float64(pages * os.Getpagesize()), Descriptors: float64(len(fds))}
	}
	return all
}
