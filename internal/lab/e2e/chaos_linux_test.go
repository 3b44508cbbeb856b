package e2e

import (
	"context"
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
	"shoal/internal/lab/judge"
	"shoal/internal/lab/pond"
	"shoal/internal/lab/rogue"
	"shoal/internal/member"
)

// The settings of `make chaos`.
const (
	chaosSeedEnv    = "SHOAL_CHAOS_SEED"
	chaosMinutesEnv = "SHOAL_CHAOS_MINUTES"
	chaosScriptEnv  = "SHOAL_CHAOS_SCRIPT" // file of a script that is run instead of one that is drawn
	chaosShrinkEnv  = "SHOAL_CHAOS_SHRINK" // how many shorter scripts are tried when one has failed
	chaosOldEnv     = "SHOAL_CHAOS_OLD"    // folder of an earlier version's programs, with which all begin
	chaosBriefEnv   = "SHOAL_CHAOS_BRIEF"  // seeds of the short form
	chaosInsideEnv  = "SHOAL_CHAOS_INSIDE" // set by the test itself: the process has namespaces of its own
)

const (
	chaosLease   = 8 * time.Second
	chaosPage    = 3 * time.Minute // that the first crawl of all channels may take
	chaosSettled = 5 * time.Minute // after the last fault every channel is crawled again
)

// chaosBad are hosts that misbehave and end each answer by themselves, so that a stopped peer holds none. A run has some of them.
var chaosBad = []pond.Mode{pond.HangUp, pond.CutOff, pond.CloseAlways, pond.EndlessRedirects, pond.RedirectLoop, pond.PrivateRedirects, pond.ShortBody, pond.LongBody,
	pond.BrokenChunks, pond.MalformedHeaders, pond.BrokenGzip, pond.Gzip, pond.Brotli, pond.Zstd, pond.InvalidUTF8, pond.Always200, pond.Volatile, pond.TooMany,
	pond.Unavailable, pond.BusyAtFirst, pond.Forbidden, pond.Challenge, pond.RobotsError, pond.RobotsForbidden, pond.RobotsTooMany, pond.RobotsRedirects,
	pond.RobotsGarbage, pond.RobotsDisallowAll, pond.SitemapInside, pond.TwoLengths, pond.CookieWall, pond.WrongCharset}

// chaosBadHosts is how many hosts of a run misbehave.
const chaosBadHosts = 10

// chaosRogues are the ways to misbehave that fetch nothing from Web hosts, and store nothing.
var chaosRogues = []string{"swallow", "stall", "steal", "spin"}

// TestChaos lets everything break at random moments: processes are killed and stopped, wires cut, disks full, while an operator works and members
// misbehave. An outside judge looks at what the network does meanwhile and at what is left. A script that fails is shortened as far as it still fails.
func TestChaos(t *testing.T) {
	if os.Getenv(chaosMinutesEnv) == "" {
		t.Skip("make chaos runs this")
	}
	t.Parallel()
	canChaos(t)
	script := newChaos(t).script
	if runChaos(t, os.Stdout, script) {
		return
	}
	t.Error("the script has failed, as told above")
	tries, err := strconv.Atoi(os.Getenv(chaosShrinkEnv))
	if err != nil || tries < 1 {
		t.Logf("CHAOS_SHRINK=30 tries 30 shorter scripts")
		return
	}
	n := 0
	short := chaos.Shrink(script, tries, func(s chaos.Script) bool {
		n++
		fails := !runChaos(t, nil, s)
		t.Logf("try %d: %d faults, fails: %v", n, len(s.Faults), fails)
		return fails
	})
	t.Logf("the shortest script that was seen to fail; make chaos CHAOS_SCRIPT=FILE runs it:\n%v", short)
}

// canChaos fails a test where namespaces of its own are out of reach.
func canChaos(t *testing.T) {
	t.Helper()
	if lacks := missing("ip", "nft", "mkfs.ext4", "mount", "umount"); len(lacks) > 0 || os.Geteuid() != 0 {
		t.Fatalf("make chaos needs root, and lacks the programs %v", lacks)
	}
}

// TestChaosBrief is the short form: a smaller network and half a minute of faults, always of the same seeds. It does not wait until all is crawled again.
func TestChaosBrief(t *testing.T) {
	seeds := os.Getenv(chaosBriefEnv)
	if seeds == "" {
		t.Skip("make chaos-brief runs this")
	}
	canChaos(t)
	for _, text := range strings.Split(seeds, ",") {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("%s=%s: want seeds with commas between them", chaosBriefEnv, seeds)
		}
		script, err := chaos.Draw(seed, chaosCast())
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if !runChaos(t, os.Stdout, script) {
			t.Errorf("seed %d has failed, as told above", seed)
		}
		t.Logf("seed %d: %d faults, %.0f s", seed, len(script.Faults), time.Since(began).Seconds())
	}
}

// chaosCast is what can break: in the short form less, and faster.
func chaosCast() chaos.Cast {
	c := chaos.Cast{Peers: 6, Hosts: 40, Strategies: []string{"icr", "iir", "price", "optimal"}, Rogues: chaosRogues, Every: 1200 * time.Millisecond, Longest: 25 * time.Second}
	if os.Getenv(chaosBriefEnv) != "" {
		c.Peers, c.Hosts, c.Length, c.Every, c.Longest = 4, 16, 25*time.Second, 400*time.Millisecond, 6*time.Second
	}
	return c
}

// runChaos runs a script in a process with namespaces of its own; whatever it starts ends with it. It reports whether all was well.
func runChaos(t *testing.T, out *os.File, s chaos.Script) bool {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestChaosInside$", "-test.v", "-test.timeout=150m")
	file := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(file, []byte(s.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(os.Environ(), chaosInsideEnv+"=1", programsEnv+"="+bin, chaosScriptEnv+"="+file)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID}
	return cmd.Run() == nil
}

// chaosRun is a network in which things break by a script.
type chaosRun struct {
	t        *testing.T
	script   chaos.Script
	cast     chaos.Cast
	brief    bool // it is not waited until all is crawled again
	world    *pond.World
	pond     string
	disk     *disk
	wires    *wires
	listen   int
	pageAddr string
	join     string
	page     page
	manager  *process // nil: it is down
	ending   *process // the manager, when it was asked to end
	mayEnd   bool     // the manager may end by itself: its disk has no room at all, or fails
	peers    []*process
	leaving  map[int]*process // peers that were asked to end
	dirs     []string
	ports    []int
	old      map[string]bool // programs that run in their earlier version
	all      []*process      // that were ever started
	judge    *judge.Judge
	blocked  map[string]bool // hosts whose block was ever asked for
	gone     map[string]bool // hosts that were removed or taken down, and are not imported again yet
	rogues   map[time.Duration]func()
	scene    rogue.Scene
	backups  int
	began    map[chaos.Kind]int // faults that were injected
	failed   map[chaos.Kind]int // those that came to nothing, as the manager was down
	upgrades int
	ended    int // the manager, by itself, on a disk that was full or failed
}

// TestChaosInside is one run.
func TestChaosInside(t *testing.T) {
	if os.Getenv(chaosInsideEnv) == "" {
		t.Skip("TestChaos runs this, in namespaces of its own")
	}
	ownWorld(t)
	c := newChaos(t)
	c.run()
}

func (c *chaosRun) run() {
	t := c.t
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
	if !c.brief {
		t.Logf("all channels were crawled after %.0f s, and %.0f s after the last fault again", broke.Sub(began).Seconds(), time.Since(last).Seconds())
		for name, h := range c.holdings() {
			c.judge.Returned(name, before[name], h)
		}
	}
	seen, err := c.judge.End(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c.texts()
	for _, b := range c.judge.Breaches() {
		t.Error(b)
	}
	t.Logf("%v; injected: %v; came to nothing, as the manager was down: %v; upgrades: %d; the manager ended on a disk that was full or failed: %d", seen, c.began, c.failed, c.upgrades, c.ended)
	if seen.Answers == 0 || seen.Changes == 0 || seen.Captures == 0 || seen.Updates == 0 {
		t.Errorf("the judge saw too little: %v", seen)
	}
}

// newChaos draws the script, or reads it.
func newChaos(t *testing.T) *chaosRun {
	c := &chaosRun{t: t, blocked: map[string]bool{}, gone: map[string]bool{}, leaving: map[int]*process{}, rogues: map[time.Duration]func(){}, old: map[string]bool{},
		began: map[chaos.Kind]int{}, failed: map[chaos.Kind]int{}, cast: chaosCast(), brief: os.Getenv(chaosBriefEnv) != ""}
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
	hosts := c.cast.Hosts + chaosBadHosts
	cfg := pond.Config{Seed: 11, Hosts: hosts, Pages: 7 * hosts, MaxHost: 40, Bytes: 3000, Bad: map[string]pond.Mode{}}
	rng := rand.New(rand.NewPCG(c.script.Seed, 0xbad))
	for i, m := range rng.Perm(len(chaosBad))[:chaosBadHosts] {
		cfg.Bad[chaosHost(c.cast.Hosts+i)] = chaosBad[m]
	}
	t.Logf("hosts that misbehave: %v", slices.Sorted(maps.Values(cfg.Bad)))
	w, err := pond.NewWorld(cfg)
	if err != nil {
		t.Fatal(err)
	}
	served := servePond(t, w).Addr()
	c.world, c.pond, c.disk, c.wires = w, served.String(), newDisk(t), newWires(t, served.Port())
	c.listen, c.pageAddr = unusedPort(t), fmt.Sprintf("127.0.0.1:%d", unusedPort(t))
	for _, program := range []string{"shoal", "shoal-peer"} {
		c.old[program] = os.Getenv(chaosOldEnv) != ""
	}
	c.startManager()
	c.page, c.join = pageOf(c.manager, "Page "), c.manager.word("shoal-peer join ")
	js, err := member.ParseJoinString(c.join)
	if err != nil {
		t.Fatal(err)
	}
	c.scene = rogue.Scene{Network: js.Network[:], Boss: target(t, js.Addrs...), Page: strings.TrimPrefix(c.page.base, "http://")}
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

func (c *chaosRun) data() string { return filepath.Join(c.disk.root, "data") }

// launch starts a program, in its earlier version until it was upgraded.
func (c *chaosRun) launch(name string, group int, args ...string) *process {
	from := bin
	if c.old[name] {
		from = os.Getenv(chaosOldEnv)
	}
	cmd := exec.Command(filepath.Join(from, name), args...)
	if group > 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Gid: uint32(group), NoSetGroups: true}}
	}
	p := launch(c.t, name, cmd)
	c.all = append(c.all, p)
	return p
}

func (c *chaosRun) startManager() {
	c.manager = c.launch("shoal", 0, "manager", "--data", c.data(), "--listen", fmt.Sprintf("/ip4/127.0.0.1/tcp/%d", c.listen), "--page", c.pageAddr, "--pond", c.pond,
		"--lease", chaosLease.String())
}

func (c *chaosRun) startPeer(i int) {
	c.peers[i] = c.launch("shoal-peer", firstGroup+i, "run", "--data", c.dirs[i], "--pond", c.pond, "--port", strconv.Itoa(c.ports[i]), "--listen", "127.0.0.1", "--no-quic",
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
			if p == c.manager && c.mayEnd {
				c.t.Logf("on a disk that is full or fails the manager ended with %v and said: %s", p.cmd.ProcessState, why(p.said()))
				c.manager = nil
				c.ended++
				continue
			}
			c.t.Fatalf("%s ended by itself: %v\n%s", p.name, p.cmd.ProcessState, p.said())
		default:
		}
	}
}

// why is the line in which a program says why it ended.
func why(said string) string {
	for _, line := range strings.Split(said, "\n") {
		if strings.Contains(line, "fatal error") || strings.Contains(line, "SIGBUS") || strings.HasPrefix(line, "shoal:") {
			return line
		}
	}
	return lastLines(said, 3)
}

func lastLines(text string, n int) string {
	lines := strings.Split(text, "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// inject runs the script: each fault begins and ends at its time, and the judge looks in between.
func (c *chaosRun) inject() {
	type event struct {
		at time.Duration
		do func()
	}
	var events []event
	for _, f := range c.script.Faults {
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

// settle ends what faults have left: blocks, hosts that are not there. A manager that was stopped may have done late what it was asked to do.
func (c *chaosRun) settle(last time.Time) {
	c.t.Helper()
	c.manager.until("has all hosts again, without blocks", func() bool {
		for host := range maps.Clone(c.gone) {
			c.back(chaos.Remove, host)
		}
		var list struct{ Hosts []struct{ Name string } }
		if len(c.gone) > 0 || c.page.get("/api/v1/hosts?blocked=1&n=1000", &list) != nil {
			return false
		}
		lifted, done := true, map[string]bool{}
		for _, h := range list.Hosts {
			host := strings.TrimPrefix(h.Name, "http://")
			if c.blocked[host] && !done[host] {
				done[host] = true
				_ = c.judge.Unblocked(host, time.Now()) // it may have been asked for before
				lifted = c.ask(chaos.Block, http.MethodPost, "/hosts/unblock", map[string]any{"host": host}) && lifted
			}
		}
		return lifted
	})
	if !c.brief {
		c.crawledSince(last, chaosSettled, "crawls every channel again after the last fault")
	}
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
		files := 0
		_ = filepath.WalkDir(c.dirs[i], func(string, os.DirEntry, error) error { files++; return nil }) // files come and go meanwhile
		all[fmt.Sprint("peer ", i)] = judge.Holdings{Bytes: float64(pages * os.Getpagesize()), Descriptors: float64(len(fds)), Files: float64(files)}
	}
	return all
}
