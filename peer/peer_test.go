package peer

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"shoal/channel"
	"shoal/channel/lease"
	"shoal/coords"
	"shoal/internal/lab/pond"
	"shoal/internal/member"
	"shoal/internal/wire"
	"shoal/internal/wire/uplink"
	"shoal/overlay"
	"shoal/overlay/p2p"
	"shoal/peer/limit"
	"shoal/peer/queue"
)

// store is an archive in memory behind the real fence.
type store struct {
	mu       sync.Mutex
	terms    lease.Terms
	channels map[channel.ID]*stored
	away     bool
	ahead    time.Duration // by how much leases are older than they are
	dead     lease.Peer    // of whom nothing is taken: what it sent while the archive was away may be read later than the test goes on
}

type stored struct {
	fence    lease.Fence
	bodies   map[channel.Gen][]byte
	chunks   []channel.ChunkBody // of the crawl that is not over
	reports  []channel.Report
	pages    map[string]int // times that each was stored
	released int
}

// now is the time by which leases run. The caller holds mu.
func (s *store) now() time.Time { return time.Now().Add(s.ahead) }

func (s *store) at(id channel.ID) *stored {
	c := s.channels[id]
	if c == nil {
		c = &stored{bodies: map[channel.Gen][]byte{}, pages: map[string]int{}}
		s.channels[id] = c
	}
	return c
}

func (s *store) Claim(_ context.Context, peer string, task channel.Signed) (uplink.Claimed, error) {
	h, err := channel.ParseHeader(task.Raw)
	if err != nil {
		return uplink.Claimed{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away {
		return uplink.Claimed{}, uplink.ErrLater
	}
	c := s.at(h.Channel)
	step := c.fence.Claim(s.now(), lease.PeerOf(peer), h.Gen, h.Latest, s.terms)
	out := uplink.Claimed{Reply: step.Reply}
	if step.Reply.Status == uplink.Granted {
		out.Body = c.bodies[h.Gen]
		out.Resume = channel.Resume{Seq: c.fence.Seq, Head: c.fence.Head}
		done := map[string]bool{}
		for _, b := range c.chunks {
			for _, p := range b.Pages {
				done[p.URL] = true
				out.Resume.Done = append(out.Resume.Done, channel.URLHash(p.URL))
			}
		}
		for _, b := range c.chunks {
			for _, f := range b.Frontier {
				if !done[f.URL] {
					out.Resume.Frontier = append(out.Resume.Frontier, f)
				}
			}
		}
	}
	return out, nil
}

func (s *store) Put(_ context.Context, peer string, c channel.Chunk) (uplink.Reply, error) {
	b, _, err := channel.DecompressChunk(c.Body, channel.MaxFrontierPart)
	if err != nil {
		return uplink.Reply{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away || lease.PeerOf(peer) == s.dead {
		return uplink.Reply{}, uplink.ErrLater
	}
	ch := s.at(c.Channel)
	fc := lease.Chunk{Gen: c.Gen, Seq: c.Seq, Prev: c.Prev, Hash: c.Hash(), Final: b.Report != nil}
	fresh := ch.fence.Check(lease.PeerOf(peer), fc) == uplink.Granted
	step := ch.fence.Put(s.now(), lease.PeerOf(peer), fc, s.terms)
	if fresh {
		ch.chunks = append(ch.chunks, b)
		for _, p := range b.Pages {
			ch.pages[p.URL]++
		}
		if b.Report != nil {
			ch.reports = append(ch.reports, *b.Report)
			ch.chunks = nil
		}
	}
	return step.Reply, nil
}

func (s *store) Renew(_ context.Context, peer string, task channel.Signed) (uplink.Reply, error) {
	h, err := channel.ParseHeader(task.Raw)
	if err != nil {
		return uplink.Reply{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away {
		return uplink.Reply{}, uplink.ErrLater
	}
	c := s.at(h.Channel)
	c.fence.Tick(s.now())
	return c.fence.Renew(s.now(), lease.PeerOf(peer), h.Gen, h.Latest, s.terms).Reply, nil
}

func (s *store) Release(_ context.Context, peer string, id channel.ID, gen channel.Gen) (uplink.Reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away {
		return uplink.Reply{}, uplink.ErrLater
	}
	c := s.at(id)
	c.released++
	return c.fence.Release(s.now(), lease.PeerOf(peer), gen).Reply, nil
}

// swarm is a manager with its archive, a pond, and agents.
type swarm struct {
	t     *testing.T
	keys  *member.Keys
	node  *wire.Node
	run   *p2p.Runner
	store *store
	world *pond.World
	pond  *pond.Server
	join  string
	gen   channel.Gen
}

func open(t *testing.T, cfg pond.Config) *swarm {
	t.Helper()
	keys, err := member.LoadOrCreate(t.TempDir(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	issuer, err := member.NewIssuer(keys.Authority, member.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	node, err := wire.New(t.Context(), wire.Config{Key: keys.Node, Network: keys.Network, Role: member.Manager, Listen: []string{"/ip4/127.0.0.1/tcp/0"}})
	if err != nil {
		t.Fatal(err)
	}
	sealed, serial := keys.Delegations(time.Now())
	self := []member.Server{{Peer: node.ID().String(), Addrs: []string{node.Host().Addrs()[0].String()}}}
	doc, err := keys.Authority.SignDocument(member.Document{Network: keys.Network, Delegations: sealed, MinSerial: serial, Managers: self, Archives: self,
		Contact: "http://contact.test/", MinProtocol: 1, Issued: time.Now(), NotAfter: time.Now().Add(time.Hour), Lease: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if err := node.SetIssuer(issuer, doc); err != nil {
		t.Fatal(err)
	}
	s := &swarm{t: t, keys: keys, node: node, store: &store{terms: lease.Default(), channels: map[channel.ID]*stored{}}}
	uplink.Serve(node, s.store)
	if s.run, err = p2p.New(p2p.Config{Wire: node, Places: true, Overlay: quick(node.ID().String())}); err != nil {
		t.Fatal(err)
	}
	if s.world, err = pond.NewWorld(cfg); err != nil {
		t.Fatal(err)
	}
	if s.pond, err = pond.NewServer(s.world, "", nil); err != nil {
		t.Fatal(err)
	}
	s.join = member.JoinString{Network: keys.Network, Addrs: node.Addrs()}.String()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for _, f := range []func(context.Context) error{s.run.Run, s.pond.Run} {
		wg.Add(1)
		go func() {
			defer wg.Done()
			if err := f(ctx); err != nil {
				t.Error(err)
			}
		}()
	}
	t.Cleanup(func() { cancel(); wg.Wait(); node.Close() })
	return s
}

func quick(id string) overlay.Config {
	c := overlay.Default(overlay.ID(id))
	c.Every, c.Timeout = 2*time.Second, 20*time.Second // a machine may be busy; a slow answer is no test of this package
	return c
}

// agent starts one, and gives what ends it: politely, or by pulling the plug.
func (s *swarm) agent(dir string, change func(*Config)) (a *Agent, leave func() error) {
	s.t.Helper()
	to, err := limit.ToPond(netip.MustParseAddrPort(s.pond.Addr().String()))
	if err != nil {
		s.t.Fatal(err)
	}
	cfg := Config{
		Dir: dir, Join: s.join, Account: "ada", Listen: []string{"/ip4/127.0.0.1/tcp/0"}, Dial: (&limit.Guard{Pond: to}).DialContext,
		MinGap: time.Millisecond, Grace: time.Minute, Version: "test", Log: slog.New(slog.DiscardHandler),
	}
	if os.Getenv("SHOAL_TEST_LOG") != "" {
		cfg.Log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	if change != nil {
		change(&cfg)
	}
	began := time.Now()
	if a, err = New(cfg); err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	var once sync.Once
	leave = func() (err error) {
		once.Do(func() { cancel(); err = <-done })
		return err
	}
	s.t.Cleanup(func() { leave() })
	s.until("the agent is known to the manager", func() bool {
		select {
		case err := <-done:
			s.t.Fatalf("agent ended: %v", err)
		default:
		}
		// A paused one offers no threads. What an agent said in an earlier run of this folder says nothing of this one.
		st := a.Status()
		paused := st.Mode == queue.Paused.String() || st.Hold != ""
		return slices.ContainsFunc(s.run.Peers(), func(r overlay.PeerRecord) bool {
			return string(r.ID) == a.ID() && r.Issued.After(began) && (r.Load.Threads > 0 || paused)
		})
	})
	return a, leave
}

// until waits for what takes a second on a quiet machine.
func (s *swarm) until(what string, f func() bool) {
	s.t.Helper()
	for end := time.Now().Add(3 * time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if f() {
			return
		}
	}
	s.t.Fatalf("never came: %s", what)
}

// place hands out a host of the pond.
func (s *swarm) place(host int) channel.ID {
	s.t.Helper()
	signed, h := s.deposit(host)
	if _, err := s.run.Place(s.t.Context(), signed, h, coords.HostRecord{}, overlay.Named{}); err != nil {
		s.t.Fatal(err)
	}
	return h.Channel
}

// deposit makes a host's next task, which no peer has.
func (s *swarm) deposit(host int) (channel.Signed, channel.Header) {
	s.t.Helper()
	s.gen++
	origin := "http://" + s.world.Hosts()[host].Name
	id := channel.ID(host + 1)
	body := channel.Body{Scope: channel.Scope{Kind: channel.WholeHost, Host: origin}, Seeds: []string{origin + "/"}}
	raw := body.Marshal()
	h := channel.Header{Network: s.keys.Network, Channel: id, Gen: s.gen, Host: origin, Pages: s.world.Hosts()[host].Pages, Issued: time.Now(),
		Archive: s.node.ID().String(), BodySHA256: sha256.Sum256(raw), BodyBytes: len(raw)}
	s.store.mu.Lock()
	h.Latest = s.store.now().Add(3 * time.Minute)
	s.store.mu.Unlock()
	signed, err := s.keys.Authority.SignHeader(h)
	if err != nil {
		s.t.Fatal(err)
	}
	s.store.mu.Lock()
	c := s.store.at(id)
	c.bodies[h.Gen] = raw
	c.fence.Deposit(h.Gen)
	s.store.mu.Unlock()
	return signed, h
}

func (s *swarm) look(id channel.ID, f func(c *stored) bool) func() bool {
	return func() bool {
		s.store.mu.Lock()
		defer s.store.mu.Unlock()
		return f(s.store.at(id))
	}
}

func (s *swarm) setAway(away bool) {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	s.store.away = away
}

// takers counts the agents that the manager knows.
func (s *swarm) takers() (n int) {
	for _, r := range s.run.Peers() {
		if r.Load.Threads > 0 {
			n++
		}
	}
	return n
}

// header is that of a channel's last task.
func (s *swarm) header(id channel.ID) channel.Header { return channel.Header{Channel: id, Gen: s.gen} }

func reported(c *stored) bool { return len(c.reports) > 0 }

func plain(pages int) pond.Config {
	return pond.Config{Seed: 1, Hosts: 3, Pages: 3 * pages, MaxHost: 2 * pages, Static: true, Plain: true}
}

func TestAgentCrawls(t *testing.T) {
	s := open(t, plain(40))
	a, leave := s.agent(t.TempDir(), nil)
	b, _ := s.agent(t.TempDir(), nil)
	for host := range 3 {
		id := s.place(host)
		s.until("a report", s.look(id, reported))
		s.store.mu.Lock()
		r := s.store.at(id).reports[0]
		n := len(s.store.at(id).pages)
		s.store.mu.Unlock()
		if want := s.world.Hosts()[host].Pages; r.Outcome != channel.Updated || r.Pages != want || n != want || r.Peer == "" || r.BytesDown == 0 {
			t.Errorf("%d pages of %d: %+v", n, want, r)
		}
		if r.RTT <= time.Microsecond { // no handshake is that short
			t.Errorf("a round trip of %v", r.RTT)
		}
	}
	s.until("three updates counted", func() bool { return a.Status().Counters.Updated+b.Status().Counters.Updated == 3 })
	if st := s.pond.Stats(); st.MaxInFlight > 1 || st.Violated > 0 {
		t.Errorf("impolite: %+v", st.Violations)
	}
	if st := a.Status(); st.Members == 0 || st.Network == "" || len(st.Running) != 0 || st.Mode != "open" {
		t.Errorf("status %+v", st)
	}
	files, _ := os.ReadDir(filepath.Join(a.cfg.Dir, "tasks")) // what is counted is over
	if len(files) > 0 {
		t.Errorf("%d files of tasks that are over", len(files))
	}
	if err := leave(); err != nil {
		t.Error(err)
	}
}

// TestAgentLeaves sees what runs released with all that was fetched, and what waits handed over; nothing is fetched twice.
func TestAgentLeaves(t *testing.T) {
	s := open(t, plain(60))
	v := newValve(12)
	a, leave := s.agent(t.TempDir(), func(c *Config) {
		c.Threads, c.Queue = 1, 2
		v.on(c)
	})
	first, second := s.place(0), s.place(1)
	s.until("some pages", func() bool { return a.Status().Counters.Pages >= 10 })
	b, _ := s.agent(t.TempDir(), nil)
	s.until("the second agent is known to the first, and takes tasks", func() bool { // what it said first may be from before it took any
		return slices.ContainsFunc(a.runner.Peers(), func(r overlay.PeerRecord) bool { return string(r.ID) == b.ID() && r.Load.Threads > 0 })
	})
	if err := leave(); err != nil {
		t.Fatal(err)
	}
	if !s.look(first, func(c *stored) bool { return c.released == 1 && len(c.pages) >= 10 && len(c.reports) == 0 })() {
		t.Errorf("not released with its pages: %+v", s.store.at(first))
	}
	if st := a.Status(); st.Counters.HandedOver != 1 || st.Counters.Stopped != 1 {
		t.Errorf("counters %+v", st.Counters)
	}
	s.until("the handed over task's report", s.look(second, reported))
	s.place(0) // the next generation goes on
	s.until("the released task's report", s.look(first, reported))
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	c := s.store.at(first)
	if len(c.pages) != s.world.Hosts()[0].Pages || c.reports[0].Peer != b.ID() {
		t.Errorf("%d pages of %d by %s", len(c.pages), s.world.Hosts()[0].Pages, c.reports[0].Peer)
	}
	for url, n := range c.pages {
		if n != 1 {
			t.Errorf("%s stored %d times", url, n)
		}
	}
}

// TestAgentRestarts loses its process in the middle of a crawl, and goes on in the same folder.
func TestAgentRestarts(t *testing.T) {
	s := open(t, plain(60))
	dir := t.TempDir()
	v := newValve(12)
	_, pull := s.agent(dir, func(c *Config) {
		c.Checkpoint, c.Grace = 50*time.Millisecond, time.Nanosecond
		v.on(c)
	})
	id := s.place(0)
	s.until("a chunk", s.look(id, func(c *stored) bool { return len(c.chunks) > 0 }))
	s.until("the crawl waits for its host", v.blocked)
	pull()
	if s.look(id, reported)() {
		t.Fatal("a report though the host has not answered")
	}
	if files, _ := filepath.Glob(filepath.Join(dir, "tasks", "*.claimed")); len(files) != 1 {
		t.Fatalf("files of claimed tasks: %v", files)
	}
	_, _ = s.agent(dir, nil)
	s.until("the report", s.look(id, reported))
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	c := s.store.at(id)
	if len(c.pages) != s.world.Hosts()[0].Pages {
		t.Errorf("%d pages of %d", len(c.pages), s.world.Hosts()[0].Pages)
	}
	for url, n := range c.pages {
		if n != 1 {
			t.Errorf("%s stored %d times", url, n)
		}
	}
}

// TestAgentIsFenced drops a task that was handed to another one.
func TestAgentIsFenced(t *testing.T) {
	s := open(t, plain(60))
	v := newValve(12)
	a, _ := s.agent(t.TempDir(), func(c *Config) {
		c.Checkpoint = 30 * time.Millisecond
		v.on(c)
	})
	id := s.place(0)
	s.until("a chunk", s.look(id, func(c *stored) bool { return len(c.chunks) > 0 }))
	s.store.mu.Lock()
	c := s.store.at(id)
	c.fence.Release(time.Now(), c.fence.Peer, c.fence.Gen)
	c.fence.Deposit(s.gen + 1)
	if st := c.fence.Claim(time.Now(), lease.PeerOf("another"), s.gen+1, time.Now().Add(time.Minute), s.store.terms); st.Reply.Status != uplink.Granted {
		t.Errorf("the other's claim: %v", st.Reply.Status)
	}
	s.store.mu.Unlock()
	v.open()
	s.until("the task is dropped", func() bool { st := a.Status(); return st.Counters.Lost == 1 && len(st.Running) == 0 })
	if s.look(id, reported)() {
		t.Error("a fenced peer's report counts")
	}
}

func TestAgentPauses(t *testing.T) {
	s := open(t, plain(40))
	v := newValve(5)
	a, _ := s.agent(t.TempDir(), v.on)
	id := s.place(0)
	s.until("the host answers no more", func() bool { return v.blocked() && s.pond.Stats().Requests == 6 })
	a.SetMode(queue.Paused, time.Time{})
	n := s.pond.Stats().Requests
	v.open()
	s.until("the answer that was under way", func() bool { return a.Status().Counters.Pages >= 5 })
	time.Sleep(200 * time.Millisecond) // time for requests that must not come
	if m := s.pond.Stats().Requests; m != n {
		t.Errorf("%d requests while paused", m-n)
	}
	a.SetMode(queue.Open, time.Time{})
	s.until("the report", s.look(id, reported))
}

// TestLongPause sees a pause that lasts beyond the lease end what runs, with all that was fetched, and give back what waits.
func TestLongPause(t *testing.T) {
	s := open(t, plain(60))
	v := newValve(12)
	a, _ := s.agent(t.TempDir(), func(c *Config) {
		c.Threads, c.Queue = 1, 2
		v.on(c)
	})
	first, second := s.place(0), s.place(1)
	s.until("some pages", func() bool { return a.Status().Counters.Pages >= 10 && len(a.Status().Waiting) == 1 })
	a.SetMode(queue.Paused, a.wire.Now().Add(10*time.Hour))
	v.open()
	s.until("both are gone", func() bool {
		c := a.Status().Counters
		return a.tasks.empty() && c.GivenBack == 1 && c.Stopped == 1
	})
	if !s.look(first, func(c *stored) bool { return c.released == 1 && len(c.pages) >= 5 && len(c.reports) == 0 })() {
		t.Error("what ran was not released with its pages")
	}
	if !s.look(second, func(c *stored) bool { return c.released == 1 && len(c.pages) == 0 })() {
		t.Error("what waited was not given back")
	}
	if c := a.Status().Counters; c.Dropped != 0 || c.Lost != 0 {
		t.Errorf("%+v", c)
	}
	a.SetMode(queue.Open, time.Time{})
	s.place(0)
	s.until("the report of the first", s.look(first, reported))
}

func TestAgentRefuses(t *testing.T) {
	s := open(t, plain(20))
	no := errors.New("this volunteer does not fetch that host")
	s.agent(t.TempDir(), func(c *Config) { c.Refuse = func(string) error { return no } })
	defer func() {
		s.store.mu.Lock()
		defer s.store.mu.Unlock()
		if s.store.at(1).fence.Gen != 0 {
			t.Error("a refused host was claimed")
		}
	}()
	origin := "http://" + s.world.Hosts()[0].Name
	h := channel.Header{Network: s.keys.Network, Channel: 1, Gen: 1, Host: origin, Pages: 1, Issued: time.Now(), Latest: time.Now().Add(time.Minute),
		Archive: s.node.ID().String()}
	signed, err := s.keys.Authority.SignHeader(h)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.run.Place(t.Context(), signed, h, coords.HostRecord{}, overlay.Named{}); !errors.Is(err, overlay.ErrRefused) {
		t.Errorf("placed: %v", err)
	}
}

func TestRunRefusesBadFolders(t *testing.T) {
	if err := runAgent(t.Context(), Config{}); !errors.Is(err, ErrConfig) {
		t.Error(err)
	}
	if err := runAgent(t.Context(), Config{Dir: t.TempDir()}); !errors.Is(err, wire.ErrNotJoined) {
		t.Error(err)
	}
	if err := runAgent(t.Context(), Config{Dir: t.TempDir(), Join: "rubbish"}); err == nil {
		t.Error("joined rubbish")
	}
	dir := t.TempDir()
	unlock, err := lock(filepath.Join(dir, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	if err := runAgent(t.Context(), Config{Dir: dir}); !errors.Is(err, ErrLocked) {
		t.Error(err)
	}
}

func TestHostPort(t *testing.T) {
	for in, want := range map[string]string{"http://a.test": "a.test:80", "https://a.test": "a.test:443", "http://a.test:8080": "a.test:8080", "http://[2a00::1]": "[2a00::1]:80"} {
		if got, err := hostPort(in); err != nil || got != want {
			t.Errorf("%s: %q, %v", in, got, err)
		}
	}
	if got, err := hostPort("ftp://x"); err == nil {
		t.Error(fmt.Sprint("ftp: ", got))
	}
}
