package peer

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"shoal/channel"
	"shoal/peer/crawl"
	"shoal/peer/limit"
)

// TestMain is an agent of its own where a test wants a process to kill.
func TestMain(m *testing.M) {
	dir := os.Getenv("SHOAL_TEST_AGENT")
	if dir == "" {
		os.Exit(m.Run())
	}
	to, err := limit.ToPond(netip.MustParseAddrPort(os.Getenv("SHOAL_TEST_POND")))
	if err != nil {
		panic(err)
	}
	cfg := Config{Dir: dir, Join: os.Getenv("SHOAL_TEST_JOIN"), Account: "ada", Listen: []string{"/ip4/127.0.0.1/tcp/0"},
		Dial: (&limit.Guard{Pond: to}).DialContext, MinGap: time.Millisecond, Checkpoint: 30 * time.Millisecond, Version: "test", Log: slog.New(slog.DiscardHandler)}
	first, then := newValve(8), newValve(4)
	first.next = then
	first.on(&cfg)
	go func() { // the parent says when the next answers may come
		line, _ := bufio.NewReader(os.Stdin).ReadString('\n')
		if strings.TrimSpace(line) == "more" {
			first.open()
		}
	}()
	fmt.Fprintln(os.Stderr, runAgent(context.Background(), cfg))
	os.Exit(1)
}

// runAgent makes an agent and runs it.
func runAgent(ctx context.Context, cfg Config) error {
	a, err := New(cfg)
	if err != nil {
		return err
	}
	return a.Run(ctx)
}

// TestAgentIsKilled kills an agent's process in mid-crawl, when some pages are archived and some are on its disk only. Nothing that is
// archived is fetched again, by the same agent or by another; what is on disk is not either, by the same.
func TestAgentIsKilled(t *testing.T) {
	for _, test := range []struct {
		name string
		here bool
	}{{"and goes on", true}, {"and another goes on", false}} {
		t.Run(test.name, func(t *testing.T) {
			s := open(t, plain(40))
			dir := t.TempDir()
			in, kill := s.child(dir)
			defer kill()
			s.until("the agent is known to the manager", func() bool { return s.takers() == 1 })
			id := s.place(0)
			s.until("a chunk", s.look(id, func(c *stored) bool { return len(c.pages) == 7 })) // robots.txt is the eighth answer
			s.until("the agent knows that they are archived", func() bool { return spooled(t, dir, s.header(id)) == 0 })
			s.setAway(true)
			if _, err := fmt.Fprintln(in, "more"); err != nil {
				t.Fatal(err)
			}
			s.until("pages that wait on disk", func() bool { return spooled(t, dir, s.header(id)) == 4 })
			kill()
			s.store.mu.Lock()
			archived := maps.Clone(s.store.at(id).pages)
			s.store.mu.Unlock()
			if !test.here {
				dir = t.TempDir()
				s.store.mu.Lock()
				s.store.dead = s.store.at(id).fence.Peer
				s.store.at(id).fence.Tick(time.Now().Add(2 * s.store.terms.Term)) // its lease has lapsed
				s.store.mu.Unlock()
			}
			s.setAway(false)
			var mu sync.Mutex
			fetched := map[string]int{}
			s.agent(dir, func(c *Config) {
				c.OnVisit = func(_ string, v crawl.Visit) {
					if strings.HasSuffix(v.URL, "/robots.txt") {
						return
					}
					mu.Lock()
					fetched[v.URL]++
					mu.Unlock()
				}
			})
			if !test.here {
				s.place(0)
			}
			s.until("the report", s.look(id, reported))
			want := s.world.Hosts()[0].Pages
			s.until("its files are gone", func() bool {
				files, _ := filepath.Glob(filepath.Join(dir, "spool", "*"))
				return len(files) == 0
			})
			mu.Lock()
			defer mu.Unlock()
			s.store.mu.Lock()
			defer s.store.mu.Unlock()
			c := s.store.at(id)
			for url, n := range c.pages {
				if n != 1 {
					t.Errorf("%s stored %d times", url, n)
				}
				if archived[url]+fetched[url] > 1 {
					t.Errorf("%s was fetched again, %d times", url, fetched[url])
				}
			}
			again := want - len(archived)
			if test.here {
				again -= 4
			}
			if len(c.pages) != want || len(fetched) != again {
				t.Errorf("%d pages of %d, %d fetched after the kill; want %d", len(c.pages), want, len(fetched), again)
			}
			if r := c.reports[0]; r.Outcome != channel.Updated || r.Pages != want {
				t.Errorf("report %+v", r)
			}
		})
	}
}

// child is an agent in a process of its own, to be killed. What is written to it lets it go on.
func (s *swarm) child(dir string) (in io.Writer, kill func()) {
	s.t.Helper()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), "SHOAL_TEST_AGENT="+dir, "SHOAL_TEST_JOIN="+s.join, "SHOAL_TEST_POND="+s.pond.Addr().String())
	child.Stderr = os.Stderr
	in, err := child.StdinPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		s.t.Fatal(err)
	}
	return in, sync.OnceFunc(func() { child.Process.Kill(); child.Wait() })
}

// TestLapsedWhileAway kills an agent's process whose pages are all archived, and starts it again after its lease. The
// agent has nothing to bring, so it must not hold a thread until another peer claims the task. The manager hands the task out anew, and
// here the same peer takes it.
func TestLapsedWhileAway(t *testing.T) {
	s := open(t, plain(40))
	dir := t.TempDir()
	_, kill := s.child(dir)
	defer kill()
	s.until("the agent is known to the manager", func() bool { return s.takers() == 1 })
	id := s.place(0)
	s.until("a chunk", s.look(id, func(c *stored) bool { return len(c.pages) == 7 }))
	kill()
	spool, err := crawl.SpoolOf(filepath.Join(dir, "spool"), s.header(id))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range spool {
		if err := os.Remove(f); err != nil {
			t.Fatal(err)
		}
	}
	s.store.mu.Lock()
	s.store.ahead = 2 * s.store.terms.Term
	s.store.at(id).fence.Tick(s.store.now())
	s.store.mu.Unlock()
	tasks := func() int {
		files, err := os.ReadDir(filepath.Join(dir, "tasks"))
		if err != nil {
			t.Fatal(err)
		}
		return len(files)
	}
	if n := tasks(); n != 1 {
		t.Fatalf("%d tasks left by the killed agent, want one", n)
	}
	s.agent(dir, func(*Config) {})
	s.until("the task is dropped", func() bool { return tasks() == 0 })
	s.place(0)
	s.until("the report", s.look(id, reported))
}

// spooled counts the pages that a task has on disk whole: the end of one may still be in the process's memory.
func spooled(t *testing.T, dir string, h channel.Header) (n int) {
	t.Helper()
	files, err := crawl.SpoolOf(filepath.Join(dir, "spool"), h)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			continue // it went meanwhile
		}
		_, b, _ = bytes.Cut(b, []byte("\n")) // what kind of file it is
		for len(b) > 8 {                     // records: length, checksum, text
			size := int(binary.BigEndian.Uint32(b))
			if size > len(b)-8 {
				break
			}
			n += bytes.Count(b[8:8+size], []byte("HTTP/1.1 200 OK"))
			b = b[8+size:]
		}
	}
	return n
}
