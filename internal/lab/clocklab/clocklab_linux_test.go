//go:build amd64

package clocklab

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestMain tells the clocks, a line for each line that it reads, if it runs as a child.
func TestMain(m *testing.M) {
	if os.Getenv(File) == "" {
		os.Exit(m.Run())
	}
	if err := Install(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	began := time.Now()
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		now := time.Now()
		fmt.Println(now.UnixNano(), now.Sub(began).Nanoseconds())
	}
}

// The clocks are those of a child, against this process's.
func TestClocksOfAProcess(t *testing.T) {
	t.Parallel()
	c, err := New(filepath.Join(t.TempDir(), "clock"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), c.Env())
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	before := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	// look is between which bounds the child's clocks are ahead of this process's.
	look := func(what string, wall, mono time.Duration) {
		t.Helper()
		asked := time.Now()
		if _, err := fmt.Fprintln(in); err != nil || !lines.Scan() {
			t.Fatal(err, lines.Err())
		}
		answered := time.Now()
		a, b, _ := strings.Cut(lines.Text(), " ")
		at, err1 := strconv.ParseInt(a, 10, 64)
		since, err2 := strconv.ParseInt(b, 10, 64)
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		if w := time.Unix(0, at).Add(-wall); w.Before(asked.Round(0)) || w.After(answered.Round(0)) {
			t.Errorf("%s: the wall clock is %v, without its step %v; asked at %v, answered at %v", what, time.Unix(0, at), w, asked, answered)
		}
		if m := time.Duration(since) - mono; m < 0 || m > answered.Sub(before) {
			t.Errorf("%s: the monotonic clock is %v after the start, without its sleep %v; it was begun %v ago", what, time.Duration(since), m, answered.Sub(before))
		}
	}
	look("at first", 0, 0)
	c.Step(90 * time.Minute)
	look("ahead", 90*time.Minute, 0)
	c.Step(-90 * time.Minute)
	look("behind", -90*time.Minute, 0)
	c.Step(0)
	look("right", 0, 0)
	c.Slept(1500 * time.Millisecond) // no process that is not stopped ever sees it; the child only tells what it reads
	c.Slept(time.Second / 4)
	look("asleep", 0, -1750*time.Millisecond)
	c.Began()
	look("begun", 0, 0)
	for c.Goroutines() == 0 { // it tells each second; what was told was forgotten when it began
		time.Sleep(10 * time.Millisecond)
	}
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
