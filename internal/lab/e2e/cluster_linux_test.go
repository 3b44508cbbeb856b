package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"shoal/internal/lab/judge"
	"shoal/internal/lab/pglab"
	"shoal/internal/lab/pond"
	"shoal/internal/lab/s3lab"
	"shoal/manager/desk"
)

// clusterEnv has the tests of several managers run: make cluster sets it.
const clusterEnv = "SHOAL_CLUSTER"

const (
	clusterManagers = 3
	clusterPeers    = 6
	clusterLease    = 8 * time.Second
	clusterLargest  = 20               // pages of a host, which a channel's first task fetches at once
	clusterPaused   = 20 * time.Second // a manager stands still so long: its work is taken over meanwhile
)

// cluster is a network of several managers on servers.
type cluster struct {
	t        *testing.T
	db, s3   string
	pond     string
	data     []string
	listen   []int
	pages    []string
	managers []*process
	peers    []*process
	judge    *judge.Judge
}

// TestClusterMoves kills, stops and ends managers of a network that share it, one after the other, while volunteers crawl. An outside judge looks at what the
// network does meanwhile and at what is left.
func TestClusterMoves(t *testing.T) {
	if os.Getenv(clusterEnv) == "" {
		t.Skip("make cluster runs this")
	}
	c := &cluster{t: t, db: pglab.Start(t, pglab.Options{}).URL(), s3: s3lab.Start(t, s3lab.Options{}).URL()}
	t.Cleanup(func() {
		for i, m := range c.managers {
			if t.Failed() && m != nil {
				t.Logf("manager %d:\n%s", i, m.said())
			}
		}
	})
	c.open()
	c.crawledSince(time.Time{})
	c.even(clusterManagers)

	began := time.Now()
	c.managers[1].kill()
	c.even(2, 0, 2)
	t.Logf("kill -9: the others had its partitions after %.1f s", time.Since(began).Seconds())
	c.crawledSince(time.Now())
	c.start(1)
	c.even(clusterManagers)

	began = time.Now()
	c.signal(2, syscall.SIGSTOP)
	c.even(2, 0, 1)
	t.Logf("SIGSTOP: the others had its partitions after %.1f s", time.Since(began).Seconds())
	c.lookFor(clusterPaused)
	c.signal(2, syscall.SIGCONT)
	c.even(clusterManagers)
	c.crawledSince(time.Now())

	began = time.Now()
	c.managers[0].end()
	c.even(2, 1, 2)
	t.Logf("end: the others had its partitions after %.1f s", time.Since(began).Seconds())
	c.crawledSince(time.Now())
	c.finish()
}

func (c *cluster) open() {
	t := c.t
	w, err := pond.NewWorld(pond.Config{Seed: 11, Hosts: 40, Pages: 240, MaxHost: clusterLargest})
	if err != nil {
		t.Fatal(err)
	}
	c.pond = servePond(t, w).Addr().String()
	c.managers = make([]*process, clusterManagers)
	for i := range c.managers {
		c.data, c.listen, c.pages = append(c.data, t.TempDir()), append(c.listen, unusedPort(t)), append(c.pages, fmt.Sprintf("127.0.0.1:%d", unusedPort(t)))
		if i > 0 {
			run(t, "key", "restore", "--another", c.backup(), "--data", c.data[i])
		}
		c.start(i)
		c.managers[i].word("shoal-peer join ")
	}
	join := c.managers[0].word("shoal-peer join ")
	for range clusterPeers {
		dir, port := t.TempDir(), unusedPort(t)
		j := start(t, "shoal-peer", "join", "--yes", join, "--data", dir)
		if <-j.done; j.cmd.ProcessState.ExitCode() != 0 {
			t.Fatalf("join: %s", j.said())
		}
		c.peers = append(c.peers, start(t, "shoal-peer", "run", "--data", dir, "--pond", c.pond, "--port", strconv.Itoa(port), "--listen", "127.0.0.1", "--no-quic",
			"--no-low-priority", "--log-level", "warn"))
	}
	p := c.page(2)
	c.judge, err = judge.New(t.Context(), judge.Config{Manager: p.base, Token: p.token, Pond: "http://" + c.pond, Slack: time.Minute, BlockGrace: clusterLease + 5*time.Second, Whole: clusterLargest})
	if err != nil {
		t.Fatal(err)
	}
}

// run runs a command to its end.
func run(t *testing.T, args ...string) {
	t.Helper()
	p := start(t, "shoal", args...)
	if <-p.done; p.cmd.ProcessState.ExitCode() != 0 {
		t.Fatalf("shoal %v: %s", args, p.said())
	}
}

// backup writes the first manager's keys down, once.
func (c *cluster) backup() string {
	file := filepath.Join(c.data[0], "backup-of-keys")
	if _, err := os.Stat(file); err != nil {
		run(c.t, "key", "backup", "--out", file, "--data", c.data[0])
	}
	return file
}

func (c *cluster) start(i int) {
	c.managers[i] = start(c.t, "shoal", "manager", "--several", "--db", c.db, "--bucket", c.s3, "--data", c.data[i], "--listen", fmt.Sprintf("/ip4/127.0.0.1/tcp/%d", c.listen[i]),
		"--page", c.pages[i], "--pond", c.pond, "--lease", clusterLease.String(), "--verbose")
}

func (c *cluster) page(i int) page { return pageOf(c.managers[i], "Page ") }

func (c *cluster) signal(i int, s syscall.Signal) {
	c.t.Helper()
	if err := c.managers[i].cmd.Process.Signal(s); err != nil {
		c.t.Fatal(err)
	}
}

// even waits until n managers, as some of them say, have all partitions, shared out evenly. Without a name all are asked.
func (c *cluster) even(n int, ask ...int) {
	c.t.Helper()
	if len(ask) == 0 {
		for i := range n {
			ask = append(ask, i)
		}
	}
	for _, i := range ask {
		p, m := c.page(i), c.managers[i]
		m.until(fmt.Sprintf("says that %d managers share all partitions", n), func() bool {
			list := p.overview().Managers
			least, all := 256, 0
			for _, x := range list {
				least, all = min(least, x.Partitions), all+x.Partitions
			}
			return len(list) == n && all == 256 && least >= 256/n && slices.ContainsFunc(list, func(x desk.Manager) bool { return x.Here })
		})
	}
}

// crawledSince waits until each channel was crawled after a moment, and has the judge look meanwhile.
func (c *cluster) crawledSince(since time.Time) {
	c.t.Helper()
	c.managers[2].within(4*time.Minute, "crawls every channel", func() bool {
		if c.judge.Look(c.t.Context()) != nil {
			return false
		}
		behind, err := c.judge.Behind(c.t.Context(), since)
		return err == nil && len(behind) == 0
	})
}

// lookFor has time pass.
func (c *cluster) lookFor(long time.Duration) {
	timer := time.NewTimer(long)
	defer timer.Stop()
	<-timer.C
}

func (c *cluster) finish() {
	c.t.Helper()
	seen, err := c.judge.End(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	for _, b := range c.judge.Breaches() {
		c.t.Error(b)
	}
	c.t.Log(seen)
}
