package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// ownClock counts the time of a run as far as the computer's processors were the run's, or there for it to take. On a quiet computer it is the time that passes;
// on one that others use too, a bound by this clock promises the run the same work.
//
// The run's processes are those that /proc shows, as it has a namespace of its own, and those that this process has started and that have ended.
type ownClock struct {
	t *testing.T

	mu     sync.Mutex
	at     time.Time
	last   processors
	passed time.Duration
}

func newOwnClock(t *testing.T) *ownClock {
	return &ownClock{t: t, at: time.Now(), last: readProcessors(t)}
}

// now is the time since the clock was made.
func (c *ownClock) now() time.Duration {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	at, p := time.Now(), readProcessors(c.t)
	c.passed += p.since(c.last, at.Sub(c.at))
	c.at, c.last = at, p
	return c.passed
}

// mostWaits is how many times as long as a bound says a run waits for it at most, whatever others take.
const mostWaits = 10

// bound returns what tells whether d is over.
func (c *ownClock) bound(d time.Duration) (over func() bool) {
	c.t.Helper()
	end, last := c.now()+d, time.Now().Add(mostWaits*d)
	return func() bool { return c.now() > end || time.Now().After(last) }
}

// wallBound is a bound by the time that passes.
func wallBound(d time.Duration) (over func() bool) {
	end := time.Now().Add(d)
	return func() bool { return time.Now().After(end) }
}

// processors is what processors did since the computer was started, in the kernel's ticks.
type processors struct {
	all    int // of time, of all processors together
	worked int // time in processes, of anybody, or taken away by the computer's host
	own    int // time in processes of the run
}

// since is how much counts of a time that has passed.
func (p processors) since(before processors, passed time.Duration) time.Duration {
	all := p.all - before.all
	others := (p.worked - before.worked) - (p.own - before.own)
	if all <= 0 || others <= 0 {
		return passed
	}
	return time.Duration(float64(passed) * (1 - float64(min(others, all))/float64(all)))
}

// ticks is how many the kernel counts in a second (USER_HZ).
const ticks = 100

func readProcessors(t *testing.T) (p processors) {
	t.Helper()
	stat, err := os.ReadFile("/proc/stat")
	if err == nil {
		p, err = parseProcessors(string(stat))
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if err := syscall.Getrusage(who, &u); err != nil {
			t.Fatal(err)
		}
		p.own += int((u.Utime.Nano() + u.Stime.Nano()) * ticks / int64(time.Second))
	}
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range all {
		if path == fmt.Sprintf("/proc/%d/stat", os.Getpid()) {
			continue
		}
		if b, err := os.ReadFile(path); err == nil { // it may have ended
			p.own += parseProcess(string(b))
		}
	}
	return p
}

// parseProcessors reads the first line of /proc/stat: user, nice, system, idle, iowait, irq, softirq, steal.
func parseProcessors(stat string) (p processors, err error) {
	line, _, _ := strings.Cut(stat, "\n")
	fields := strings.Fields(line)
	const known = 8
	if len(fields) <= known || fields[0] != "cpu" {
		return p, fmt.Errorf("/proc/stat begins with %.80q", line)
	}
	for i, f := range fields[1 : known+1] {
		n, err := strconv.Atoi(f)
		if err != nil {
			return p, fmt.Errorf("/proc/stat: %w", err)
		}
		p.all += n
		if i < 3 || i == 7 {
			p.worked += n
		}
	}
	return p, nil
}

// parseProcess is the time in a process, by its /proc/PID/stat.
func parseProcess(stat string) (own int) {
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:]) // a name may have spaces
	for _, i := range []int{11, 12} {                                   // utime and stime
		if i < len(fields) {
			n, _ := strconv.Atoi(fields[i]) // the kernel writes numbers there
			own += n
		}
	}
	return own
}

// TestOwnClock has others take some of the processors, none, all, and more than there is by rounding.
func TestOwnClock(t *testing.T) {
	t.Parallel()
	before, err := parseProcessors("cpu  1000 200 300 5000 10 1 2 40 0 0\ncpu0 1 2 3\n")
	if err != nil || before.all != 6553 || before.worked != 1540 {
		t.Fatalf("%+v, %v", before, err)
	}
	before.own = 400
	for _, c := range []struct {
		what             string
		all, worked, own int
		want             time.Duration
	}{
		{"idle", 200, 0, 0, time.Minute},
		{"all of it is the run's", 200, 200, 200, time.Minute},
		{"others take half", 200, 200, 100, 30 * time.Second},
		{"others take a quarter, and nobody the rest", 200, 50, 0, 45 * time.Second},
		{"others take all", 200, 200, 0, 0},
		{"the run has done more than the computer, by rounding", 200, 190, 195, time.Minute},
		{"too short for the kernel", 0, 0, 0, time.Minute},
	} {
		after := processors{all: before.all + c.all, worked: before.worked + c.worked, own: before.own + c.own}
		if got := after.since(before, time.Minute); got != c.want {
			t.Errorf("%s: %v of a minute count, want %v", c.what, got, c.want)
		}
	}
	if n := parseProcess("12 (a (b) c) S 1 2 3 4 5 6 7 8 9 10 70 30 5 6 20"); n != 100 {
		t.Errorf("a process has worked %d ticks, want 100", n)
	}
}
