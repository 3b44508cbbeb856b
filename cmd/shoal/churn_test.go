package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"shoal/channel"
	"shoal/cmd/shoal-sim/recrawlsim"
	"shoal/internal/lab/pond"
	"shoal/internal/lab/waiting"
	"shoal/internal/ports"
	"shoal/internal/sim"
	"shoal/manager"
	"shoal/peer"
	"shoal/peer/limit"
	"shoal/recrawl"
)

// The churn test is the experiment of `shoal-sim recrawl` for real, sixty times faster and with 40 peers: a manager with archive,
// peers in processes of their own that are killed or leave politely and come back, and a pond of hosts that are all alike. Its long form (make churn) sees
// the intervals rise and fall, and the simulator predict the updates; its short one only that the crawl goes on and nothing is done twice.
const (
	churnEnv     = "SHOAL_CHURN"
	churnPeerEnv = "SHOAL_CHURN_PEER"
	churnPeers   = 40
	churnThreads = 1
	churnQueue   = 5
	churnPages   = 36
	churnWarm    = 60  // seconds before counting begins
	churnSpan    = 840 // counted; icr waits for six updates of a channel, and at twice the capacity one of the fastest group has one in two minutes. SHOAL_CHURN=N with N > 1: so many
	// churnPast is how long the hosts have changed when the test begins. Half of the pages change by processes with a memory, which are at rest
	// at first: the simulator's Poisson changes would be as frequent from the first minute.
	churnPast = 6 * time.Hour
)

var churnOf = sim.Churn{Life: 60, LifeSpread: 12, Gap: 36, GapSpread: 12, Polite: 1. / 3}

// swarming is who comes and goes, and what there is to crawl.
type swarming struct {
	peers, hosts, pages int // pages of each host
	life                sim.Churn
}

type churnPeer struct {
	Dir, Join string
	World     pond.Config
	Port      int
}

// TestChurnPeer is not a test: it is the process of one peer, told what to do by its environment.
func TestChurnPeer(t *testing.T) {
	text := os.Getenv(churnPeerEnv)
	if text == "" {
		t.Skip("runs only as a child of TestChurn")
	}
	go func() { // a peer does not outlive the test that has started it
		io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	var p churnPeer
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		t.Fatal(err)
	}
	w, err := pond.NewWorld(p.World)
	if err != nil {
		t.Fatal(err)
	}
	cfg := peer.Default()
	cfg.Dir, cfg.Join, cfg.Grace, cfg.DHT, cfg.QUIC = p.Dir, p.Join, 2*time.Second, false, false
	cfg.Listen = []string{fmt.Sprintf("/ip4/127.0.0.1/tcp/%d", p.Port)}
	cfg.Threads, cfg.Queue, cfg.Checkpoint, cfg.MinGap = churnThreads, churnQueue, time.Second, pond.Gap
	guard := &limit.Guard{Pond: w.HTTPDialer(p.Port)}
	cfg.Dial, cfg.Dialer = guard.DialContext, pondDialer(w, p.Port)
	cfg.Log = slog.New(slog.DiscardHandler)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	agent, err := peer.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := agent.Run(ctx); err != nil {
		t.Fatal(err)
	}
}

// TestChurn runs the manager under churn at twice and at half of what the swarm can do: intervals must rise and fall, and the simulator must
// predict updates a minute within 20%.
func TestChurn(t *testing.T) {
	if os.Getenv(churnEnv) == "" {
		t.Skip("takes 31 minutes: set " + churnEnv + "=1, or make churn")
	}
	span := churnSpan
	if n, err := strconv.Atoi(os.Getenv(churnEnv)); err == nil && n > 1 {
		span = n
	}
	for _, c := range []struct {
		name  string
		hosts int
		check func(first, last time.Duration) bool
		want  string
	}{
		{"twice the capacity", 360, func(first, last time.Duration) bool { return last > first*5/4 }, "rise"},
		{"half of the capacity", 90, func(first, last time.Duration) bool { return last < first*9/10 }, "fall"},
	} {
		t.Run(c.name, func(t *testing.T) {
			seen := churn(t, c.hosts, span)
			if !c.check(seen.first, seen.last) {
				t.Errorf("interval of the middle group, which changes once in %v, is %v; it should %s", seen.first, seen.last, c.want)
			}
			predicted, interval := predictChurn(t, seen, span)
			t.Logf("updates a minute: %.1f, simulated %.1f; a task took %.2f s; middle interval %v, simulated %.0fs, changes once in %v", seen.updates, predicted, seen.service, seen.last, interval, seen.first)
			if r := seen.updates / predicted; r < .8 || r > 1.2 {
				t.Errorf("%.1f updates a minute, the simulator says %.1f", seen.updates, predicted)
			}
		})
	}
}

type churned struct {
	groups      []int
	updates     float64 // a minute
	service     float64 // seconds of an undisturbed task
	first, last time.Duration
}

// TestChurnBriefly has a few peers stay for some eight seconds each, at twice of what they can do.
func TestChurnBriefly(t *testing.T) {
	t.Parallel()
	const updates, returns = 20, 4
	c := startChurn(t, swarming{6, 54, 8, sim.Churn{Life: 8, LifeSpread: 1.6, Gap: 3, GapSpread: .6, Polite: 1. / 3}})
	waiting.Until(t, fmt.Sprintf("%d updates, and a peer that comes back %d times", updates, returns), func() bool {
		return c.st.manager.Overview().Updates >= updates && c.returns.Load() >= returns
	}, func() string {
		o := c.st.manager.Overview()
		return fmt.Sprintf("%d updates of %d tasks, and a peer came back %d times", o.Updates, o.Accepted, c.returns.Load())
	})
	if s := c.server.Stats(); s.MaxInFlight > 1 {
		t.Errorf("%d requests in flight at one host", s.MaxInFlight)
	}
}

func churn(t *testing.T, hosts, span int) churned {
	c := startChurn(t, swarming{churnPeers, hosts, churnPages, churnOf})
	return c.count(t, span)
}

// churning is a manager that works while peers come and go, until the test ends.
type churning struct {
	server  *pond.Server
	st      *station
	initial []float64 // intervals at first
	groups  []int
	returns atomic.Int64 // peers that came back
}

func startChurn(t *testing.T, sw swarming) *churning {
	dir := t.TempDir()
	world, err := pond.NewWorld(pond.Config{Seed: 1, Hosts: sw.hosts, Pages: sw.hosts * sw.pages, MaxHost: sw.pages, Bytes: 2000, Plain: true, Start: time.Now().Add(-churnPast)})
	if err != nil {
		t.Fatal(err)
	}
	server, err := pond.NewServer(world, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		wg.Wait()
	})
	run := func(what string, f func(context.Context) error) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			if err := f(ctx); err != nil && ctx.Err() == nil {
				t.Errorf("%s: %v", what, err)
			}
		}()
	}
	run("pond", server.Run)
	port, err := ports.Free()
	if err != nil {
		t.Fatal(err)
	}
	cfg := stationConfig{data: filepath.Join(dir, "manager"), listen: []string{fmt.Sprintf("/ip4/127.0.0.1/tcp/%d", port)}, dialer: pondDialer(world, port),
		log: slog.New(slog.DiscardHandler), manager: manager.Default(), reach: pondReach}
	pondSettings(&cfg.manager)
	cfg.manager.Strategy, cfg.manager.MinPeers, cfg.manager.MinPeersWait = "icr", sw.peers/2, 10*time.Second
	cfg.manager.Terms.Term = 9 * time.Second
	st, err := openStation(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	run("station", st.run)
	chs := pondChannels(world)
	c := &churning{server: server, st: st, initial: cfg.manager.Options.Initial, groups: make([]int, 5)}
	for i, h := range world.Hosts() {
		chs[i].Settings.Group = h.Class + 1
		c.groups[h.Class]++
	}
	if _, err := st.desk.AddChannels(ctx, chs); err != nil {
		t.Fatal(err)
	}
	for i := range sw.peers {
		port, err := ports.Free()
		if err != nil {
			t.Fatal(err)
		}
		rng := sim.Rand(1, fmt.Sprintf("peer %d", i))
		run(fmt.Sprintf("peer %d", i), func(ctx context.Context) error {
			return churnLife(ctx, rng, sw.life, filepath.Join(dir, fmt.Sprint(i)), st.joinString(), port, server.World().Config(), func() { c.returns.Add(1) })
		})
	}
	return c
}

// count waits until all is warm and counts for so many seconds.
func (c *churning) count(t *testing.T, span int) churned {
	ctx, st, server := t.Context(), c.st, c.server
	seen := churned{groups: c.groups}
	wait(ctx, churnWarm*time.Second)
	before := st.manager.Overview()
	wait(ctx, time.Duration(span)*time.Second)
	after := st.manager.Overview()
	seen.updates = float64(after.Updates-before.Updates) / float64(span) * 60
	seen.first, seen.last = time.Duration(c.initial[2])*time.Second, middle(after)
	var services []float64
	if err := st.db.Scan(ctx, 0, 0, func(h channel.Hot) error {
		var f recrawl.Facts
		if len(h.Facts) > 0 && f.Restore(h.Facts) == nil && f.Service > 0 {
			services = append(services, float64(f.Service.Float()))
		}
		return nil
	}); err != nil || len(services) == 0 {
		t.Fatalf("no task was measured: %v", err)
	}
	slices.Sort(services)
	seen.service = services[len(services)/2]
	t.Logf("submitted %d, accepted %d, refused %d, lapsed %d, updates %d, peers %d, out %d, errors %v", after.Submitted-before.Submitted,
		after.Accepted-before.Accepted, after.Refused-before.Refused, after.Lapsed-before.Lapsed, after.Updates-before.Updates, after.Peers, after.Out, after.Errors)
	if s := server.Stats(); s.MaxInFlight > 1 {
		t.Errorf("%d requests in flight at one host", s.MaxInFlight)
	}
	return seen
}

// middle is the interval of the middle group.
func middle(o manager.Overview) time.Duration {
	if len(o.Intervals) < 3 {
		return 0
	}
	return o.Intervals[2]
}

// churnLife is one peer's comings and goings. It comes back to the same port, since its place in the pond hangs on that: the simulator's peers do not move either.
func churnLife(ctx context.Context, rng *rand.Rand, life sim.Churn, dir, join string, port int, world pond.Config, back func()) error {
	for n := 0; ctx.Err() == nil; n++ {
		text, err := json.Marshal(churnPeer{Dir: dir, Join: join, World: world, Port: port})
		if err != nil {
			return err
		}
		cmd := exec.Command(os.Args[0], "-test.run=^TestChurnPeer$")
		cmd.Env = append(os.Environ(), asShoal+"=", churnPeerEnv+"="+string(text))
		if _, err := cmd.StdinPipe(); err != nil { // closed when it or this process has ended
			return err
		}
		if err := cmd.Start(); err != nil {
			return err
		}
		if n > 0 {
			back()
		}
		wait(ctx, time.Duration(life.Lives(rng)*float64(time.Second)))
		if life.Leaves(rng) && ctx.Err() == nil {
			err = cmd.Process.Signal(syscall.SIGTERM)
		} else {
			err = cmd.Process.Kill()
		}
		_ = cmd.Wait() // killed
		if err != nil {
			return err
		}
		wait(ctx, time.Duration(life.Stays(rng)*float64(time.Second)))
	}
	return nil
}

func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// predictChurn asks the simulator for updates a minute in the same time after the start, and for the middle group's interval at its end.
func predictChurn(t *testing.T, seen churned, span int) (updates, interval float64) {
	var cfg manager.Config
	pondSettings(&cfg)
	var groups []int
	var taus []float64
	for i, n := range seen.groups {
		if n > 0 {
			groups, taus = append(groups, n), append(taus, cfg.Options.Initial[i])
		}
	}
	run := func(steps int) recrawlsim.Row {
		c := recrawlsim.Config{Case: "rec", Strategy: "icr", Rates: "learnt", Mode: "shoal", Weights: "equal", Seed: 1, Steps: steps, Cap: 2, Crawlers: churnPeers, Churn: churnOf,
			Scale: &recrawlsim.Scale{Tau: taus, Groups: groups, Threads: churnThreads, Queue: churnQueue, Gap: pond.Gap.Seconds(), Page: seen.service/churnPages - pond.Gap.Seconds(),
				Pages: churnPages, Start: 0, Term: 9, Backoff: 2, Checkpoint: 1, Room: true, WaitLimitMin: 2,
				Prior: cfg.Options.Prior, MinTicks: int(cfg.Options.MinTicks)}}
		row, err := recrawlsim.Run(t.Context(), c, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		return row
	}
	warm, all := run(churnWarm), run(churnWarm+span)
	return float64(all.Updates-warm.Updates) / float64(span) * 60, all.IntervalsMin[len(all.IntervalsMin)/2]
}
