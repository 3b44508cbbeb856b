package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
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
)

// The settings of `make chaos`.
const (
	chaosSeedEnv    = "SHOAL_CHAOS_SEED" // or several, as 7,11,200-299
	chaosMinutesEnv = "SHOAL_CHAOS_MINUTES"
	chaosScriptEnv  = "SHOAL_CHAOS_SCRIPT" // file of a script that is run instead of one that is drawn
	chaosShrinkEnv  = "SHOAL_CHAOS_SHRINK" // how many shorter scripts are tried when one has failed
	chaosOldEnv     = "SHOAL_CHAOS_OLD"    // commit of an earlier version, in which all begin
	chaosBriefEnv   = "SHOAL_CHAOS_BRIEF"  // seeds of the short form
	chaosPeersEnv   = "SHOAL_CHAOS_PEERS"  // how many peers; by default 6, and 60 in a run of an hour
	chaosHostsEnv   = "SHOAL_CHAOS_HOSTS"  // how many hosts that behave; by default 40, and 3,000 in a run of an hour
	chaosPlantEnv   = "SHOAL_CHAOS_PLANT"  // a kind of fault: once it has begun, the judge is told of a host's purge that never was, so that the run must fail
	chaosInsideEnv  = "SHOAL_CHAOS_INSIDE" // set by the test itself: the process has namespaces of its own
)

const (
	chaosLease   = 8 * time.Second
	chaosPage    = 3 * time.Minute // that the first crawl of all channels may take
	chaosSettled = 5 * time.Minute // after the last fault every channel is crawled again
)

// chaosEnding are the ways to misbehave of hosts that end each answer by themselves. The others may hold a request of a peer that is stopped.
var chaosEnding = []pond.Mode{pond.HangUp, pond.CutOff, pond.CloseAlways, pond.EndlessRedirects, pond.RedirectLoop, pond.PrivateRedirects, pond.ShortBody, pond.LongBody,
	pond.BrokenChunks, pond.MalformedHeaders, pond.BrokenGzip, pond.Gzip, pond.Brotli, pond.Zstd, pond.InvalidUTF8, pond.Always200, pond.Volatile, pond.TooMany,
	pond.Unavailable, pond.BusyAtFirst, pond.Forbidden, pond.Challenge, pond.RobotsError, pond.RobotsForbidden, pond.RobotsTooMany, pond.RobotsRedirects,
	pond.RobotsGarbage, pond.RobotsDisallowAll, pond.SitemapInside, pond.TwoLengths, pond.CookieWall, pond.WrongCharset}

// chaosBadHosts is how many hosts of a short run misbehave, each in its own way. In a longer one all ways take part.
const chaosBadHosts = 10

// chaosRogues are the ways to misbehave that fetch nothing from Web hosts, and store nothing.
var chaosRogues = []string{"swallow", "stall", "steal", "spin"}

// By how much clocks step, and packets are late.
var (
	chaosSteps  = []string{"+20s", "-20s", "+10m", "-10m"}
	chaosDelays = []string{"40ms", "150ms", "500ms"}
)

// chaosFar is a step back with which a manager may refuse to start: what it signed before would not be valid yet.
const chaosFar = 5 * time.Minute

// TestChaos lets everything break at random moments: processes are killed and stopped, wires cut, disks full, while an operator works and members
// misbehave. An outside judge looks at what the network does meanwhile and at what is left. A script that fails is shortened as far as it still fails.
func TestChaos(t *testing.T) {
	if os.Getenv(chaosMinutesEnv) == "" {
		t.Skip("make chaos runs this")
	}
	t.Parallel()
	canChaos(t)
	if os.Getenv(chaosSeedEnv) == "" || os.Getenv(chaosScriptEnv) != "" {
		tryChaos(t, newChaos(t).script)
		return
	}
	trySeeds(t, os.Getenv(chaosSeedEnv))
}

// trySeeds runs the script of each seed, as many at a time as -parallel says.
func trySeeds(t *testing.T, seeds string) {
	t.Helper()
	all, err := chaosSeeds(seeds)
	if err != nil {
		t.Fatal(err)
	}
	for _, seed := range all {
		script, err := chaos.Draw(seed, chaosCast(t))
		if err != nil {
			t.Fatal(err)
		}
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			tryChaos(t, script)
		})
	}
}

// tryChaos runs a script. One that fails is shortened, if that is wanted.
func tryChaos(t *testing.T, script chaos.Script) {
	t.Helper()
	began := time.Now()
	ok := runChaos(t, runOutput(t, script.Seed), script)
	t.Logf("seed %d: %d faults, %.0f s", script.Seed, len(script.Faults), time.Since(began).Seconds())
	if ok {
		return
	}
	t.Errorf("seed %d has failed, as told above", script.Seed)
	tries, err := strconv.Atoi(os.Getenv(chaosShrinkEnv))
	if err != nil || tries < 1 {
		t.Logf("CHAOS_SHRINK=30 tries 30 shorter scripts")
		return
	}
	shorten(script, tries, func(s chaos.Script) bool { return !runChaos(t, nil, s) }, t.Logf)
}

// shorten leaves faults out of a script for as long as it fails, and tells of each shorter one that does at once: whoever has no time for all tries has the shortest so far.
func shorten(script chaos.Script, tries int, fails func(chaos.Script) bool, tell func(format string, args ...any)) {
	n := 0
	short := chaos.Shrink(script, tries, func(s chaos.Script) bool {
		n++
		is := fails(s)
		if tell("try %d: %d faults, fails: %v", n, len(s.Faults), is); is {
			tell("so far the shortest script that was seen to fail:\n%v", s)
		}
		return is
	})
	tell("the shortest script that was seen to fail; make chaos (or chaos-brief, if that has failed) CHAOS_SCRIPT=FILE runs it:\n%v", short)
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
	if os.Getenv(chaosScriptEnv) != "" {
		tryChaos(t, newChaos(t).script)
		return
	}
	trySeeds(t, seeds)
}

// runChaos runs a script in a process with namespaces of its own; whatever it starts ends with it, and it ends with this process. It reports whether all was well.
func runChaos(t *testing.T, out *os.File, s chaos.Script) bool {
	t.Helper()
	runtime.LockOSThread() // with the thread that began a process its kernel takes the parent for dead
	defer runtime.UnlockOSThread()
	cmd := exec.Command(os.Args[0], "-test.run=^TestChaosInside$", "-test.v", "-test.timeout=150m")
	file := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(file, []byte(s.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(os.Environ(), chaosInsideEnv+"=1", programsEnv+"="+chaosPrograms(t), chaosScriptEnv+"="+file)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID}
	began := time.Now()
	ok := cmd.Run() == nil
	if out != nil { // it is no try at a shorter script
		tabulate(t, rowOf(t, file, s.Seed, began, ok))
	}
	return ok
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
	manager  *process               // nil: it is down
	ending   *process               // the manager, when it was asked to end
	mayEnd   bool                   // the manager may end by itself: its disk has no room at all, or fails
	scarce   bool                   // its disk has little room: one that starts then says so, and ends
	behind   bool                   // likewise: its clock is far behind what it signed before
	down     bool                   // it is started at the end of a fault, not before
	misled   map[*process]bool      // managers that ran while it was
	spared   map[time.Duration]bool // faults of the manager that found it ended by itself
	peers    []*process             // nil: it is down
	crowded  map[int]bool           // peers whose disk is full
	met      map[*process]bool      // programs that have met a full disk
	leaving  map[int]*process       // peers that were asked to end
	dirs     []string
	own      *ownClock         // by which bounds count
	clock    *clocklab.Clock   // the manager's
	clocks   []*clocklab.Clock // the peers'
	ports    []int
	old      map[string]bool // programs that run in their earlier version
	all      []*process      // that were ever started
	judge    *judge.Judge
	judged   bool            // what it has found was told
	blocked  map[string]bool // hosts whose block was ever asked for
	shut     string          // host that is blocked from the first fault to the last
	seen     bool            // the judge has seen which hosts are blocked after the last fault
	gone     map[string]bool // hosts that were removed or taken down, and are not imported again yet
	rogues   map[time.Duration]func()
	scene    rogue.Scene
	backups  int    // that were asked for
	backup   string // folder of the newest that was written
	den      *den
	named    *namedWeb
	clerks   *clerkDesk
	dismiss  func()             // of the clerks
	taken    map[string]bool    // liars whose pages were taken back
	began    map[chaos.Kind]int // faults that were injected
	failed   map[chaos.Kind]int // those of them that came to nothing: the manager was down, or there was nothing to do
	vain     map[chaos.Kind]int // requests for them, and for their end, that came to nothing
	lately   string             // what became of the last of them
	upgrades int
	imports  int // of hosts that were removed or taken down before
	ended    int // the manager, by itself, as it may
}

// TestChaosInside is one run.
func TestChaosInside(t *testing.T) {
	if os.Getenv(chaosInsideEnv) == "" {
		t.Skip("TestChaos runs this, in namespaces of its own")
	}
	ownWorld(t)
	c := newChaos(t)
	t.Cleanup(c.note)
	c.run()
}

func (c *chaosRun) run() {
	t := c.t
	t.Logf("seed %d, %d faults in %v: %v", c.script.Seed, len(c.script.Faults), c.script.Last(), c.script.Count())
	t.Cleanup(func() {
		if t.Failed() {
			if c.judge != nil && !c.judged {
				t.Logf("until then the judge had found: %v", c.judge.Breaches())
			}
			t.Logf("run it again with make chaos CHAOS_SEED=%d, or with CHAOS_SCRIPT=FILE and this in the file:\n%v", c.script.Seed, c.script)
		}
	})
	began := time.Now()
	c.own = newOwnClock(t)
	c.open()
	before, broke := c.holdings(), time.Now()
	t.Logf("all channels were crawled after %.0f s, of which %.0f were the run's", broke.Sub(began).Seconds(), c.own.now().Seconds())
	c.keepBlocked()
	c.inject()
	c.dismiss()
	last, calm := time.Now(), c.own.now()
	t.Logf("the faults took %.0f s; the operator's requests that came to nothing: %v", last.Sub(broke).Seconds(), c.vain)
	c.settle(last)
	if !c.brief {
		t.Logf("all channels were crawled again %.0f s after the last fault, of which %.0f were the run's", time.Since(last).Seconds(), (c.own.now() - calm).Seconds())
		c.evenly(chaosCalm)
		c.compact()
		c.returned(before)
	}
	c.told()
	seen, err := c.judge.End(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	honest, err := judge.Disbelieved(t.Context(), c.judge)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("members that are no liars and are not believed: %q", honest)
	c.texts()
	c.judged = true
	for _, b := range c.judge.Breaches() {
		t.Error(b)
	}
	if n := c.named.inside(); n != "0" {
		t.Errorf("%s connections went inside, to where a name server that lies has sent them", n)
	}
	c.clerks.judge(c)
	c.backedUp()
	t.Logf("%s; liars: %d, which forged %d pages", c.named.counts(), len(c.den.ids), c.den.forged)
	t.Logf("%v; begun: %v; of these came to nothing: %v; imports: %d; upgrades: %d; the manager ended by itself, as it may: %d", seen, c.began, c.failed, c.imports, c.upgrades, c.ended)
	if seen.Answers == 0 || seen.Changes == 0 || seen.Captures == 0 || seen.Updates == 0 {
		t.Errorf("the judge saw too little: %v", seen)
	}
}

// newChaos draws the script, or reads it.
func newChaos(t *testing.T) *chaosRun {
	c := &chaosRun{t: t, blocked: map[string]bool{}, gone: map[string]bool{}, taken: map[string]bool{}, spared: map[time.Duration]bool{}, crowded: map[int]bool{}, met: map[*process]bool{}, misled: map[*process]bool{}, leaving: map[int]*process{}, rogues: map[time.Duration]func(){}, old: map[string]bool{},
		began: map[chaos.Kind]int{}, failed: map[chaos.Kind]int{}, vain: map[chaos.Kind]int{}, cast: chaosCast(t), brief: os.Getenv(chaosBriefEnv) != ""}
	var err error
	if file := os.Getenv(chaosScriptEnv); file != "" {
		text, readErr := os.ReadFile(file)
		if readErr != nil {
			t.Fatal(readErr)
		}
		c.script, err = chaos.Parse(string(text))
	} else {
		c.script, err = chaos.Draw(chaosNumber(t, chaosSeedEnv, rand.Uint64N(1_000_000)), c.cast)
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// more is what a large network takes longer: so long for each host, as the machine that all of it runs on has few processors.
func (c *chaosRun) more() time.Duration { return time.Duration(c.cast.Hosts) * 200 * time.Millisecond }

// rest is how long the judge waits between two looks, which take the manager longer the more channels there are.
func (c *chaosRun) rest() time.Duration {
	return max(time.Second/2, time.Duration(c.cast.Hosts)*5*time.Millisecond)
}

// crawledSince waits until each channel was crawled after a moment, and keeps the judge looking.
func (c *chaosRun) crawledSince(since time.Time, within time.Duration, what string) {
	c.t.Helper()
	if err := crawledSince(c.t, c.judge, c.alive, c.rest(), since, c.own.bound(within)); err != nil {
		c.t.Fatalf("the network never %s: %v\n%s", what, err, c.manager.said())
	}
}

// alive fails where a program has ended that no fault ended.
func (c *chaosRun) alive() {
	c.t.Helper()
	for i, p := range append(slices.Clone(c.peers), c.manager) {
		if p == nil {
			continue
		}
		select {
		case <-p.done:
			// On a busy machine one that ends may be there for a while after the disk has room again.
			full := strings.Contains(p.said(), "no space left on device") || strings.Contains(why(p.said()), "the disk is full")
			late := c.met[p] && full || c.misled[p] && strings.Contains(p.said(), clockBehind) // or after its clock is right again
			if p == c.manager && (c.mayEnd || c.behind || late) {
				c.t.Logf("on a disk that is full or fails, or with a clock far behind, the manager ended with %v and said: %s", p.cmd.ProcessState, why(p.said()))
				c.manager = nil
				c.ended++
				if late && !c.mayEnd && !c.scarce && !c.behind && !c.down {
					c.startManager()
				}
				continue
			}
			if c.met[p] && strings.Contains(p.said(), noRoom) {
				c.t.Logf("on a disk that is full a peer ended with %v and said: %s", p.cmd.ProcessState, why(p.said()))
				c.peers[i] = nil
				c.ended++
				if !c.crowded[i] {
					c.startPeer(i)
				}
				continue
			}
			c.t.Fatalf("%s ended by itself: %v\n%s", p.name, p.cmd.ProcessState, p.said())
		default:
		}
	}
}

// noRoom is what a peer says that ends as its disk is full: one that starts then, or has to write down something without which it cannot go on.
const noRoom = "make room on that disk"

// why is the line in which a program says why it ended.
func why(said string) string {
	for _, line := range strings.Split(said, "\n") {
		if strings.Contains(line, "fatal error") || strings.Contains(line, "SIGBUS") || strings.HasPrefix(line, "shoal:") || strings.HasPrefix(line, "shoal-peer:") {
			return line
		}
	}
	return lastLines(said, 3)
}

func lastLines(text string, n int) string {
	lines := strings.Split(text, "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// late is how many times as long as usual the judge rests at most where the script is behind its times, as all takes long on a busy machine: the pond's log is bounded.
const late = 4

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
	began, looked := time.Now(), time.Time{}
	for _, e := range events {
		for {
			wait := e.at - time.Since(began)
			if rested := time.Since(looked); wait > 0 && rested > c.rest() || rested > late*c.rest() {
				c.look()
				looked = time.Now()
				continue
			}
			if wait <= 0 {
				break
			}
			time.Sleep(min(wait, time.Second))
		}
		e.do()
		c.alive()
	}
}

// look has the judge look for a short time. A manager that is down or stopped does not answer; the judge sees it all later.
func (c *chaosRun) look() {
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Second+c.rest())
	defer cancel()
	c.told()
	if err := c.judge.Look(ctx); errors.Is(err, judge.ErrMissed) { // of all others the last look must succeed
		c.t.Fatal(err)
	}
}

// tidy asks for what is left to do after the script, and tells what that is; empty: nothing. Before it lifts blocks the judge looks at them.
func (c *chaosRun) tidy() string {
	if !c.seen {
		if err := c.judge.Blocks(c.t.Context()); err != nil {
			return fmt.Sprintf("the blocked hosts are not known: %v", err)
		}
		c.seen = true
	}
	for host := range maps.Clone(c.gone) {
		c.back(chaos.Remove, host)
	}
	if len(c.gone) > 0 {
		return fmt.Sprintf("hosts are to be imported: %v", slices.Sorted(maps.Keys(c.gone)))
	}
	if left := c.takeBack(); left != "" {
		return left
	}
	var list struct{ Hosts []struct{ Name string } }
	if err := c.page.get("/api/v1/hosts?blocked=1&n=1000", &list); err != nil {
		return fmt.Sprintf("the blocked hosts are not known: %v", err)
	}
	left := ""
	for _, h := range list.Hosts {
		host := strings.TrimPrefix(h.Name, "http://")
		if c.blocked[host] {
			_ = c.judge.Unblocked(host, time.Now()) // it may have been asked for before
			if !c.lift(chaos.Block, host) {
				left = host + " is blocked"
			}
		}
	}
	return left
}

// evenly has all channels crawled equally often, and each at most once in a while; 0: as often as there is room. After an hour one that hardly changes has the right to be left alone for longer than the run lasts, by the strategy and by the limit that it is
// recrawled at most twice as often as it changes.
func (c *chaosRun) evenly(atMost time.Duration) {
	c.t.Helper()
	const name = "uniform"
	c.judge.Choosing(name, time.Now())
	limits := map[string]any{"cap": 0}
	if atMost > 0 {
		limits["min_interval_s"] = atMost.Seconds()
	}
	for over := c.own.bound(chaosTidy + c.more()); !c.ask(chaos.Strategy, http.MethodPut, "/strategy", map[string]any{"name": name, "limits": limits}); time.Sleep(c.rest()) {
		if c.alive(); over() {
			c.t.Fatalf("the manager takes no other strategy\n%s", c.manager.said())
		}
	}
	c.judge.Chose()
}

// chaosCalm is how long a channel is left alone once all were crawled again: the last compaction and the judge's last look need the processors, of which the crawls of thousands of channels leave none.
const chaosCalm = 15 * time.Minute

// compact has the archive give back what nobody needs. Between faults a large one has no time to come to the end of that. It may wait for another one, by which what was purged goes.
func (c *chaosRun) compact() {
	c.t.Helper()
	began := time.Now()
	var status int
	var body []byte
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		status, body, err = c.page.ask(c.t, chaosSettled+2*c.more(), http.MethodPost, "/archive/compact?share=0.9", nil)
	}()
	for over := false; !over; { // minutes, in which the pond's log goes on
		select {
		case <-done:
			over = true
		case <-time.After(c.rest()):
			c.look()
		}
	}
	if err != nil || status != http.StatusOK {
		c.t.Fatalf("a compaction after the last fault: status %d, %s, %v", status, body, err)
	}
	c.t.Logf("a compaction took %.1f s: %s", time.Since(began).Seconds(), body)
}

// chaosTidy is how long that may take.
const chaosTidy = 2 * time.Minute

// settle ends what faults have left: blocks, hosts that are not there. A manager that was stopped may have done late what it was asked to do.
func (c *chaosRun) settle(last time.Time) {
	c.t.Helper()
	for over := c.own.bound(chaosTidy + c.more()); ; time.Sleep(c.rest()) {
		c.alive()
		left := c.tidy()
		if left == "" {
			break
		}
		if over() {
			c.t.Fatalf("the network is not as it was before the script: %s\n%s", left, c.manager.said())
		}
	}
	c.judge.TakenBack()
	if !c.brief {
		c.evenly(0)
		c.crawledSince(last, chaosSettled+c.more(), "crawls every channel again after the last fault")
	}
}
