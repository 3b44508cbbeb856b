package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"shoal/internal/lab/clocklab"
	"shoal/internal/lab/judge"
	"shoal/internal/lab/pglab"
	"shoal/internal/lab/pond"
	"shoal/internal/lab/s3lab"
)

// The settings of `make cluster`.
const (
	clusterSeedEnv    = "SHOAL_CLUSTER_SEED"
	clusterMinutesEnv = "SHOAL_CLUSTER_MINUTES"
	clusterPeersEnv   = "SHOAL_CLUSTER_PEERS"
	clusterOldEnv     = "SHOAL_CLUSTER_OLD"    // folder of an earlier version's programs, with which all begin
	clusterBriefEnv   = "SHOAL_CLUSTER_BRIEF"  // seed of the short form
	clusterInsideEnv  = "SHOAL_CLUSTER_INSIDE" // set by the test itself: the process has namespaces of its own
)

const (
	clusterRoom    = 600 << 20 // bytes of the database's disk
	clusterGrace   = 20 * time.Second
	clusterEnds    = 3 * time.Minute // a manager that was asked to end has ended, whatever its servers do
	clusterFar     = 5 * time.Minute // a clock so far behind what a manager signed before may keep it from starting
	clusterSettled = 5 * time.Minute // after the last outage every channel is crawled again
)

// TestCluster has everything break that a network of several managers stands on, by a script of a seed: managers, the database and its standby, the
// bucket, and the ways between them. An outside judge looks at what the network does meanwhile and at what is left.
func TestCluster(t *testing.T) {
	if os.Getenv(clusterEnv) == "" {
		t.Skip("make cluster runs this")
	}
	runCluster(t)
}

// TestClusterBrief is the short form, as CI runs it.
func TestClusterBrief(t *testing.T) {
	if os.Getenv(clusterBriefEnv) == "" {
		t.Skip("make cluster-brief runs this")
	}
	runCluster(t)
}

// runCluster runs TestClusterInside in a process with namespaces of its own; whatever it starts ends with it.
func runCluster(t *testing.T) {
	t.Helper()
	if lacks := missing("ip", "nft", "mount", "umount"); len(lacks) > 0 || os.Geteuid() != 0 {
		t.Fatalf("make cluster needs root, and lacks the programs %v", lacks)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestClusterInside$", "-test.v", "-test.timeout=150m")
	cmd.Env = append(os.Environ(), clusterInsideEnv+"=1", programsEnv+"="+chaosPrograms(t))
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stdout
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID}
	if err := cmd.Run(); err != nil {
		t.Errorf("the run has failed, as told above: %v", err)
	}
}

// clusterChaos is a network of several managers in which things break by a script.
type clusterChaos struct {
	t       *testing.T
	seed    uint64
	brief   bool
	script  []outage
	length  time.Duration
	every   time.Duration
	longest time.Duration
	hosts   int
	world   *pond.World
	pond    string
	webPort uint16

	primary, standby *pglab.Server
	proxies          [2]*pglab.Proxy // of a and b, in the order of the URL
	store            *s3lab.Store
	db               string
	rules            map[string]string // of nftables, by what they cut

	managers []*process // nil: it is down
	paused   map[int]bool
	cut      map[int]bool
	old      map[int]bool // managers that run in their earlier version
	clocks   []*clocklab.Clock
	leaving  map[int]*leaver // managers that were asked to end
	down     map[int]bool    // an outage has ended the manager
	shown    time.Time       // the latest that a wrong clock may have shown: what was dated by it may wait until then
	far      map[int]bool    // the clock is so far behind what the manager signed before that it may refuse to start
	data     []string
	listen   []int
	pages    []string
	access   []page
	peers    []*process
	dirs     []string
	ports    []int
	all      []*process
	current  atomic.Int32 // the manager whom the judge asks

	judge      *judge.Judge
	blocked    map[string]bool
	gone       map[string]bool
	began      map[string]int
	failed     map[string]int
	backups    int
	lastBackup string
	upgraded   int
	ended      int // managers that ended by themselves, which their service manager starts again
}

// TestClusterInside is one run.
func TestClusterInside(t *testing.T) {
	if os.Getenv(clusterInsideEnv) == "" {
		t.Skip("TestCluster runs this, in namespaces of its own")
	}
	ownWorld(t)
	c := newClusterChaos(t)
	t.Logf("seed %d, %d outages in %v, %d managers, %d peers", c.seed, len(c.script), c.length, clusterManagers, len(c.peers))
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("run it again with make cluster CLUSTER_SEED=%d; the script:\n%v", c.seed, c.script)
			for i, m := range c.managers {
				if m != nil {
					t.Logf("manager %d:\n%s", i, lastLines(m.said(), 60))
				}
			}
		}
	})
	began := time.Now()
	c.open()
	opened := time.Now()
	c.inject()
	last := time.Now()
	c.settle(last)
	t.Logf("all channels were crawled after %.0f s; the outages took %.0f s, and all was well %.0f s after them", opened.Sub(began).Seconds(), last.Sub(opened).Seconds(), time.Since(last).Seconds())
	seen, err := c.judge.End(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c.texts()
	c.orphans()
	c.restored()
	for _, b := range c.judge.Breaches() {
		t.Error(b)
	}
	t.Logf("%v; outages: %v; came to nothing: %v; backups: %d; upgrades: %d; managers that ended by themselves: %d", seen, c.began, c.failed, c.backups, c.upgraded, c.ended)
	if seen.Answers == 0 || seen.Changes == 0 || seen.Captures == 0 || seen.Updates == 0 {
		t.Errorf("the judge saw too little: %v", seen)
	}
}

func newClusterChaos(t *testing.T) *clusterChaos {
	number := func(env string, otherwise int) int {
		n, err := strconv.Atoi(os.Getenv(env))
		if os.Getenv(env) == "" {
			return otherwise
		}
		if err != nil || n < 1 {
			t.Fatalf("%s=%s: want a whole number above 0", env, os.Getenv(env))
		}
		return n
	}
	c := &clusterChaos{t: t, brief: os.Getenv(clusterBriefEnv) != "", hosts: 24, rules: map[string]string{}, paused: map[int]bool{}, cut: map[int]bool{}, old: map[int]bool{}, far: map[int]bool{}, down: map[int]bool{}, leaving: map[int]*leaver{},
		blocked: map[string]bool{}, gone: map[string]bool{}, began: map[string]int{}, failed: map[string]int{}, managers: make([]*process, clusterManagers)}
	c.length, c.every, c.longest = time.Duration(number(clusterMinutesEnv, 5))*time.Minute, 2*time.Second, 20*time.Second
	c.seed = uint64(number(clusterSeedEnv, 1+rand.IntN(1_000_000)))
	c.peers = make([]*process, number(clusterPeersEnv, clusterPeers))
	if c.brief {
		c.seed, c.length, c.every, c.longest, c.hosts = uint64(number(clusterBriefEnv, 1)), 30*time.Second, time.Second, 8*time.Second, 12
		c.peers = c.peers[:min(len(c.peers), 4)]
	}
	c.script = clusterScript(c.seed, len(c.peers), clusterManagers, c.hosts, c.length, c.every, c.longest)
	return c
}

// open starts everything, and waits until all channels were crawled.
func (c *clusterChaos) open() {
	t := c.t
	o := pglab.Options{Durable: true, Room: clusterRoom, Settings: []string{"max_wal_size = 64MB", "min_wal_size = 32MB"}}
	c.primary = pglab.Start(t, o)
	c.standby = pglab.StartStandby(t, c.primary, o)
	c.proxies = [2]*pglab.Proxy{pglab.StartProxy(t, c.primary.Socket()), pglab.StartProxy(t, c.standby.Socket())}
	c.db = fmt.Sprintf("postgres://shoal@%s,%s/postgres?target_session_attrs=read-write&connect_timeout=3", c.proxies[0].Addr(), c.proxies[1].Addr())
	c.store = s3lab.Start(t, s3lab.Options{})
	w, err := pond.NewWorld(pond.Config{Seed: 11, Hosts: c.hosts, Pages: 6 * c.hosts, MaxHost: clusterLargest, Bytes: 3000})
	if err != nil {
		t.Fatal(err)
	}
	served := servePond(t, w).Addr()
	c.world, c.pond, c.webPort = w, served.String(), served.Port()
	for i := range c.managers {
		c.data, c.listen, c.pages = append(c.data, t.TempDir()), append(c.listen, unusedPort(t)), append(c.pages, fmt.Sprintf("127.0.0.1:%d", unusedPort(t)))
		if i > 0 {
			keys := filepath.Join(c.data[0], "backup-of-keys")
			if i == 1 {
				run(t, "key", "backup", "--out", keys, "--data", c.data[0])
			}
			run(t, "key", "restore", "--another", keys, "--data", c.data[i])
		}
		c.old[i] = os.Getenv(clusterOldEnv) != ""
		k, err := clocklab.New(filepath.Join(t.TempDir(), "clock"))
		c.must(err)
		c.clocks = append(c.clocks, k)
		c.start(i)
		c.managers[i].word("shoal-peer join ")
		c.access = append(c.access, pageOf(c.managers[i], "Page "))
	}
	join := c.managers[0].word("shoal-peer join ")
	for i := range c.peers {
		c.dirs, c.ports = append(c.dirs, t.TempDir()), append(c.ports, unusedPort(t))
		j := start(t, "shoal-peer", "join", "--yes", join, "--data", c.dirs[i])
		if <-j.done; j.cmd.ProcessState.ExitCode() != 0 {
			t.Fatalf("join: %s", j.said())
		}
		c.startPeer(i)
	}
	c.judge, err = judge.New(t.Context(), judge.Config{Manager: c.access[0].base, Pond: "http://" + c.pond, Ordered: true,
		Client: &http.Client{Timeout: time.Minute, Transport: anyOf{c, http.DefaultTransport}},
		Slack:  c.longest + 30*time.Second, BlockGrace: clusterLease + c.longest + 10*time.Second, Whole: clusterLargest})
	if err != nil {
		t.Fatal(err)
	}
	c.crawledSince(time.Time{}, chaosPage, "crawls every channel")
}

// anyOf asks the pond, and of the managers the one that was asked before, as long as it is well.
type anyOf struct {
	c *clusterChaos
	http.RoundTripper
}

func (a anyOf) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Host == a.c.pond {
		return a.RoundTripper.RoundTrip(r)
	}
	at, err := url.Parse(a.c.access[a.c.current.Load()].base)
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.URL.Host = at.Host
	r.Header.Set("Authorization", "Bearer "+a.c.access[a.c.current.Load()].token)
	return a.RoundTripper.RoundTrip(r)
}

// well reports whether a manager has all that it needs.
func (c *clusterChaos) well(i int) bool {
	return c.managers[i] != nil && !c.paused[i] && !c.cut[i] && !c.far[i]
}

// choose has the judge ask a manager that is well.
func (c *clusterChaos) choose() bool {
	for n := range c.managers {
		if i := (int(c.current.Load()) + n) % len(c.managers); c.well(i) {
			c.current.Store(int32(i))
			return true
		}
	}
	return false
}

func (c *clusterChaos) start(i int) {
	from := bin
	if c.old[i] {
		from = os.Getenv(clusterOldEnv)
	}
	c.clocks[i].Began()
	args := []string{"manager", "--several", "--db", c.db, "--bucket", c.store.URL(), "--data", c.data[i], "--listen", fmt.Sprintf("/ip4/127.0.0.1/tcp/%d", c.listen[i]),
		"--page", c.pages[i], "--pond", c.pond, "--lease", clusterLease.String(), "--verbose"}
	if !c.old[i] {
		args = append(args, "--strays", clusterGrace.String())
	}
	c.managers[i] = c.launch(filepath.Join(from, "shoal"), c.managerGroup(i), c.clocks[i].Env(), args...)
}

func (c *clusterChaos) startPeer(i int) {
	c.peers[i] = c.launch(filepath.Join(bin, "shoal-peer"), firstGroup+i, "", "run", "--data", c.dirs[i], "--pond", c.pond, "--port", strconv.Itoa(c.ports[i]), "--listen", "127.0.0.1", "--no-quic",
		"--no-low-priority", "--log-level", "warn")
}

func (c *clusterChaos) launch(program string, group int, env string, args ...string) *process {
	cmd := exec.Command(program, args...)
	if env != "" {
		cmd.Env = append(os.Environ(), env)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Gid: uint32(group), NoSetGroups: true}}
	p := launch(c.t, filepath.Base(program), cmd)
	c.all = append(c.all, p)
	return p
}

// managerGroup is the group of a manager's process, by which its packets are known.
func (*clusterChaos) managerGroup(i int) int { return firstGroup + 500 + i }

// crawledSince waits until each channel was crawled after a moment, and keeps the judge looking.
func (c *clusterChaos) crawledSince(since time.Time, within time.Duration, what string) {
	c.t.Helper()
	if err := crawledSince(c.t, c.judge, c.alive, time.Second/2, since, wallBound(within)); err != nil {
		c.t.Fatalf("the network never %s: %v", what, err)
	}
}

// alive notes which programs have ended. A manager may end when its servers fail: who runs it has it started again. A peer may not.
func (c *clusterChaos) alive() {
	c.t.Helper()
	c.left()
	for i, m := range c.managers {
		if m == nil {
			continue
		}
		select {
		case <-m.done:
			c.t.Logf("manager %d ended with %v and said: %s", i, m.cmd.ProcessState, why(m.said()))
			c.ended++
			c.managers[i] = nil
			c.startAgain(i) // or when its clock is right again
		default:
		}
	}
	for _, p := range c.peers {
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

// inject runs the script: each outage begins and ends at its time, and the judge looks in between.
func (c *clusterChaos) inject() {
	type event struct {
		at time.Duration
		do func()
	}
	var events []event
	for _, o := range c.script {
		events = append(events, event{o.at, func() { c.begin(o) }}, event{o.at + o.long, func() { c.end(o) }})
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

// look has the judge look for a short time. A manager that lacks its servers may not answer; the judge sees it all later.
func (c *clusterChaos) look() {
	if !c.choose() {
		return
	}
	ctx, cancel := context.WithTimeout(c.t.Context(), 2*time.Second)
	defer cancel()
	_ = c.judge.Look(ctx) // the last look must succeed
}

// settle ends what outages have left, and waits until all managers share the work again.
func (c *clusterChaos) settle(last time.Time) {
	c.t.Helper()
	if !c.choose() {
		c.t.Fatal("no manager is left")
	}
	for end := time.Now().Add(2 * patience); !c.lifted() || !c.shared(); time.Sleep(time.Second / 2) {
		if c.alive(); time.Now().After(end) {
			c.t.Fatalf("after %v the managers do not share all partitions, or hosts are blocked", 2*patience)
		}
		c.look()
	}
	if !c.brief {
		// After an hour a channel that hardly changes has the right to be left alone for longer than that, by its group's interval and by the limit that it is
		// recrawled at most twice as often as it changes. Without that limit this strategy crawls all equally often.
		for end := time.Now().Add(patience); !c.ask("strategy", http.MethodPut, "/strategy", map[string]any{"name": "uniform", "limits": map[string]any{"cap": 0}}); time.Sleep(time.Second / 2) {
			if c.alive(); time.Now().After(end) {
				c.t.Fatalf("no manager takes another strategy within %v", patience)
			}
			c.look()
		}
		c.crawledSince(last, clusterSettled+max(time.Until(c.shown), 0), "crawls every channel again after the last outage")
	}
}

// shared reports whether each manager says that all have their shares.
func (c *clusterChaos) shared() bool {
	for i := range c.managers {
		var over struct {
			Managers []struct{ Partitions int }
		}
		if c.access[i].get("/api/v1/overview", &over) != nil || len(over.Managers) != len(c.managers) {
			return false
		}
		all := 0
		for _, m := range over.Managers {
			if all += m.Partitions; m.Partitions < 256/len(c.managers) {
				return false
			}
		}
		if all != 256 {
			return false
		}
	}
	return true
}

// texts has the judge look at what programs have said that shows how they are made, and not what happened.
func (c *clusterChaos) texts() {
	for _, p := range c.all {
		for _, line := range strings.Split(p.said(), "\n") {
			if crude(line, false) {
				c.judge.Told(p.name, line)
			}
		}
	}
}
