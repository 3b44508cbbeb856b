package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"shoal/internal/lab/chaos"
	"shoal/internal/lab/clocklab"
	"shoal/internal/lab/judge"
	"shoal/internal/lab/pond"
	"shoal/internal/lab/rogue"
	"shoal/internal/member"
)

// chaosNumber is a whole number of the environment.
func chaosNumber(t *testing.T, env string, otherwise uint64) uint64 {
	t.Helper()
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

// chaosLarge is how many minutes a run takes that is as large as a network of volunteers.
const chaosLarge = 60

// chaosCast is what can break: in the short form less, and faster; in a long one more.
func chaosCast(t *testing.T) chaos.Cast {
	t.Helper()
	c := chaos.Cast{Peers: 6, Hosts: 40, Strategies: []string{"icr", "iir", "price", "optimal"}, Rogues: chaosRogues, Liars: chaosLiars, Lies: chaosLies, Steps: chaosSteps, Delays: chaosDelays,
		Every: 1200 * time.Millisecond, Longest: 25 * time.Second}
	minutes := chaosNumber(t, chaosMinutesEnv, 5)
	c.Length = time.Duration(minutes) * time.Minute
	switch {
	case os.Getenv(chaosBriefEnv) != "":
		c.Peers, c.Hosts, c.Length, c.Every, c.Longest = 4, 16, 25*time.Second, 400*time.Millisecond, 6*time.Second
	case minutes >= chaosLarge:
		c.Peers, c.Hosts = 60, 3000
	}
	c.Peers, c.Hosts = int(chaosNumber(t, chaosPeersEnv, uint64(c.Peers))), int(chaosNumber(t, chaosHostsEnv, uint64(c.Hosts)))
	return c
}

// open starts everything, and waits until all channels of good hosts were crawled.
func (c *chaosRun) open() {
	t := c.t
	bad := pond.Modes()
	rand.New(rand.NewPCG(c.script.Seed, 0xbad)).Shuffle(len(bad), func(i, j int) { bad[i], bad[j] = bad[j], bad[i] })
	if c.brief {
		bad = bad[:chaosBadHosts]
	}
	hosts := c.cast.Hosts + len(bad) + chaosNamed + chaosLater + 1
	c.shut = chaosHost(hosts - 1)
	cfg := pond.Config{Seed: 11, Start: time.Now(), Hosts: hosts, Pages: 7 * hosts, MaxHost: chaosLargest, Bytes: 3000, Bad: map[string]pond.Mode{}}
	var endless []string
	for i, m := range bad {
		name := chaosHost(c.cast.Hosts + i)
		if cfg.Bad[name] = m; !slices.Contains(chaosEnding, m) {
			endless = append(endless, name)
		}
	}
	t.Logf("hosts that misbehave: %v", slices.Sorted(maps.Values(cfg.Bad)))
	w, err := pond.NewWorld(cfg)
	if err != nil {
		t.Fatal(err)
	}
	served := servePond(t, w).Addr()
	c.world, c.pond, c.disk, c.wires = w, served.String(), newDisk(t), newWires(t, strconv.Itoa(int(served.Port())), c.cast.Delays)
	c.listen, c.pageAddr = unusedPort(t), fmt.Sprintf("127.0.0.1:%d", unusedPort(t))
	for _, program := range []string{"shoal", "shoal-peer"} {
		c.old[program] = os.Getenv(chaosOldEnv) != ""
	}
	var twins []string
	for i := range chaosNamed + chaosLater {
		twins = append(twins, chaosHost(c.cast.Hosts+len(bad)+i))
	}
	c.den, c.named = openDen(c, cfg), openNamedWeb(t, c.pond, twins)
	c.named.reach(c.wires)
	c.wires.free = append(c.wires.free, c.named.ports...)
	c.clock = c.newClock("manager")
	c.startManager()
	c.page, c.join = pageOf(c.manager, "Page "), c.manager.word("shoal-peer join ")
	js, err := member.ParseJoinString(c.join)
	if err != nil {
		t.Fatal(err)
	}
	alias, crawled := map[string]string{}, []string{c.shut}
	for i := range c.cast.Hosts {
		crawled = append(crawled, chaosHost(i))
	}
	for i, twin := range twins { // it is crawled by its other name alone
		c.must("/hosts/block", map[string]any{"host": twin, "why": "it has another name", "unknown": true})
		alias[c.named.hosts[i]] = twin
		if i < chaosNamed {
			crawled = append(crawled, c.named.hosts[i])
			c.mustSend("/channels/import?name=list.txt", []byte("http://"+c.named.hosts[i]+"/\n"))
		}
	}
	c.scene = rogue.Scene{Network: js.Network[:], Boss: target(t, js.Addrs...), Page: strings.TrimPrefix(c.page.base, "http://")}
	for i := range c.cast.Peers {
		c.dirs, c.ports, c.peers = append(c.dirs, newRoom(t)), append(c.ports, unusedPort(t)), append(c.peers, nil)
		c.clocks = append(c.clocks, c.newClock(strconv.Itoa(i)))
		for over := c.own.bound(chaosPage); ; { // a busy manager may be too late for one try
			j := start(t, "shoal-peer", "join", "--yes", c.join, "--data", c.dirs[i])
			if <-j.done; j.cmd.ProcessState.ExitCode() == 0 {
				break
			}
			if over() {
				t.Fatalf("join: %s", j.said())
			}
		}
		c.startPeer(i)
	}
	c.judge, err = judge.New(t.Context(), judge.Config{Manager: c.page.base, Token: c.page.token, Pond: "http://" + c.pond, Alias: alias, Astray: c.named.astray, Endless: endless,
		Client: &http.Client{Timeout: chaosReading},
		Slack:  c.cast.Longest + 30*time.Second, Strategy: chaosStrategy, BlockGrace: chaosGrace(c.cast), Gap: pond.Gap, Crawled: crawled, Whole: chaosLargest, Reads: chaosReads, Hear: c.told,
		Tell: func(b judge.Breach) { t.Logf("the judge has found: %v", b) }})
	if err != nil {
		t.Fatal(err)
	}
	c.dismiss = c.employ()
	c.crawledSince(time.Time{}, chaosPage+c.more(), "crawls every channel")
}

// chaosReads is how many pages the judge reads at the end. A run of an hour has about twice as many, and to read an older version of each took longer than a quarter of an hour.
const chaosReads = 10_000

// chaosStrategy is by which a manager goes that was told none.
const chaosStrategy = "icr"

// chaosLargest is how many pages a host has at most. A channel's first task may fetch 64, so that each crawl fetches all.
const chaosLargest = 40

// chaosGrace is how long tasks of a host may go on after it was blocked: a lease, and the longest stop of a peer.
func chaosGrace(c chaos.Cast) time.Duration { return chaosLease + c.Longest + 5*time.Second }

// keepBlocked blocks a host that no fault is about, until all of them are over: the manager must not forget that, whatever breaks. No block of a script lasts
// longer than chaosGrace, so that those show the judge nothing. tidy lifts it.
func (c *chaosRun) keepBlocked() {
	c.must("/hosts/block", map[string]any{"host": c.shut, "why": "chaos"})
	if err := c.judge.Blocked(c.shut, time.Now()); err != nil {
		c.t.Fatal(err)
	}
	c.blocked[c.shut] = true
}

// chaosReading is how long the judge waits for an answer: for the whole index, of a busy manager.
const chaosReading = 10 * time.Minute

// must is an operator's request to a manager that is well, and mustSend one with a file.
func (c *chaosRun) must(path string, in any) {
	c.t.Helper()
	b, err := json.Marshal(in)
	if err != nil {
		c.t.Fatal(err)
	}
	c.mustSend(path, b)
}

func (c *chaosRun) mustSend(path string, in []byte) {
	c.t.Helper()
	c.manager.until("does what it is asked for", func() bool { return c.send("", http.MethodPost, path, in) })
}

func (c *chaosRun) newClock(of string) *clocklab.Clock {
	k, err := clocklab.New(filepath.Join(c.t.TempDir(), of))
	if err != nil {
		c.t.Fatal(err)
	}
	return k
}

func chaosHost(n int) string { return fmt.Sprintf("site-%04d%s", n, pond.Suffix) }

func (c *chaosRun) data() string { return filepath.Join(c.disk.root, "data") }

// launch starts a program, in its earlier version until it was upgraded.
func (c *chaosRun) launch(name string, clock *clocklab.Clock, group int, args ...string) *process {
	from := bin
	if c.old[name] {
		from = filepath.Join(bin, chaosOld)
	}
	cmd := exec.Command(filepath.Join(from, name), args...)
	cmd.Env = append(os.Environ(), clock.Env())
	clock.Began()
	if group > 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Gid: uint32(group), NoSetGroups: true}}
	}
	p := launch(c.t, name, cmd)
	c.all = append(c.all, p)
	return p
}

func (c *chaosRun) startManager() {
	c.manager = c.launch("shoal", c.clock, 0, "manager", "--data", c.data(), "--listen", fmt.Sprintf("/ip4/127.0.0.1/tcp/%d", c.listen), "--page", c.pageAddr, "--pond", c.pond, "--contact", "https://chaos.example.org/",
		"--lease", chaosLease.String())
	c.met[c.manager], c.misled[c.manager] = c.mayEnd || c.scarce, c.behind
}

func (c *chaosRun) startPeer(i int) {
	c.peers[i] = c.launch("shoal-peer", c.clocks[i], firstGroup+i, "run", "--data", c.dirs[i], "--pond", c.pond, "--port", strconv.Itoa(c.ports[i]), "--listen", "127.0.0.1", "--no-quic",
		"--no-low-priority", "--log-level", "warn")
}
