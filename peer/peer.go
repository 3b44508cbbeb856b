// Package peer is the agent on a volunteer's computer: it joins a network, takes the tasks that its queue can start in time, claims and
// crawls them, sends what it fetched to the archive, and leaves politely: what runs is released, what waits is handed over.
//
// It is not for how a channel is crawled (peer/crawl), which tasks fit (peer/queue), nor how much of machine and network may be used
// (peer/limit); it binds these to the overlay and the archive. Several agents may run in one process, each in its own folder.
//
// Invariants: nothing is fetched for a task that was not claimed, nor when two thirds of what was left of its lease at the last
// acknowledgement have passed; a chunk is put only on the head that the archive acknowledged; a task that was accepted is started in
// time, handed over, or given back, and its file goes with it: whether it is too late the archive's clock says, not this computer's; a task that was claimed, and what was fetched for it, stays on disk over any
// stop until the archive has answered its report or release, refused it, or been away for a day.
package peer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"shoal/channel"
	"shoal/internal/member"
	"shoal/internal/wire"
	"shoal/internal/wire/uplink"
	"shoal/overlay"
	"shoal/overlay/p2p"
	"shoal/peer/crawl"
	"shoal/peer/crawl/redact"
	"shoal/peer/limit"
	"shoal/peer/queue"
)

// Agent is one peer. New makes it, Run runs it once.
type Agent struct {
	cfg      Config
	log      *slog.Logger
	tasks    *tasks
	cost     *pageCost
	stats    counters
	standing ownStanding
	robots   *crawl.Robots
	issuers  crawl.Issuers
	clock    func() moment
	since    time.Time
	ready    chan struct{}
	own      atomic.Pointer[redact.Finder] // of this computer's addresses, for what Web hosts answer

	tuned   atomic.Pointer[Tuning]
	keep    func(wire.Kept) error // the membership; nil: into the folder
	badDisk chan error            // what a crawl's disk failed with; one at a time
	failure atomic.Pointer[DiskFailure]

	mu      sync.Mutex
	wire    *wire.Node  // nil before Run
	runner  *p2p.Runner // nil before Run
	running map[uint64]*job
	uplinks map[string]*uplink.Client
	avoided map[string]time.Time // archives that did not answer, until when they are asked last; guarded by mu
}

// New makes an agent. Nothing happens before Run.
func New(cfg Config) (*Agent, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Home == nil {
		cfg.Home = &limit.Home{}
	}
	if cfg.Dial == nil {
		cfg.Dial = (&limit.Guard{Home: cfg.Home}).DialContext
	}
	a := &Agent{cfg: cfg, log: cfg.Log, clock: present, robots: crawl.NewRobots(), since: time.Now(), ready: make(chan struct{}), badDisk: make(chan error, 1), running: map[uint64]*job{}, uplinks: map[string]*uplink.Client{}}
	if a.keep == nil {
		a.keep = wire.SaveTo(cfg.Dir)
	}
	cost, q, err := rememberPageCost(cfg.Dir, cfg.queue())
	if err != nil {
		a.log.Info("what a page costs is learnt anew, as what an earlier run learnt cannot be read", "err", err)
	}
	a.cost = cost
	a.tasks = newTasks(q, filepath.Join(cfg.Dir, "tasks"), cfg.Refuse, cfg.Log)
	a.Tune(Tuning{MinGap: cfg.MinGap, Checkpoint: cfg.Checkpoint, Grace: cfg.grace(), Disk: cfg.Disk})
	return a, nil
}

// Run runs the agent until ctx ends. Then it hands over what it holds and leaves, within Config.Grace.
func (a *Agent) Run(ctx context.Context) (err error) {
	spool := filepath.Join(a.cfg.Dir, "spool")
	for _, dir := range []string{a.cfg.Dir, spool, a.tasks.dir} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("peer: data folder: %w", err)
		}
	}
	unlock, err := lock(filepath.Join(a.cfg.Dir, "lock"))
	if err != nil {
		return err
	}
	defer unlock()
	a.restorePause()
	// What outlives ctx, for leaving politely.
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	node, err := a.connect(ctx, life)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, node.Close()) }()
	runner, err := p2p.New(p2p.Config{Wire: node, Queue: a.tasks, Probe: a.probe, Dir: a.cfg.Dir, Overlay: a.cfg.Overlay, DHT: a.cfg.DHT, Log: a.log})
	if err != nil {
		return err
	}
	a.mu.Lock()
	a.wire, a.runner = node, runner
	a.mu.Unlock()
	a.tasks.reload(node.Now())
	if err := crawl.RemoveSpills(spool, a.tasks.headers()...); err != nil {
		return fmt.Errorf("peer: old spool: %w", err)
	}
	close(a.ready)

	a.cfg.Home.Ask(func() (seen, members []netip.Addr) { return connections(node) })
	defer a.cfg.Home.Ask(nil)
	var wg sync.WaitGroup
	failed := make(chan error, 2)
	for _, f := range []func(context.Context) error{node.Run, runner.Run} {
		wg.Add(1)
		go func() {
			defer wg.Done()
			if err := f(life); err != nil && life.Err() == nil {
				failed <- err
			}
		}()
	}
	wg.Go(func() { waking(life, a.clock, a.woke) })
	wg.Go(func() { a.tendDisk(life) })
	wg.Go(func() { a.guardHome(life, node, a.cfg.Home) })
	a.log.Info("peer runs", "peer", node.ID(), "network", node.Network(), "addrs", node.Addrs())
	err = a.loop(ctx, life, failed)
	end()
	wg.Wait()
	return err
}

// Ready is closed once Run has the folder for itself and is a member.
func (a *Agent) Ready() <-chan struct{} { return a.ready }

// connect starts the wire, and joins where that has not happened yet.
func (a *Agent) connect(ctx, life context.Context) (*wire.Node, error) {
	kept, err := wire.LoadKept(a.cfg.Dir)
	if err != nil && !errors.Is(err, wire.ErrNotJoined) {
		return nil, err
	}
	text := a.cfg.Join
	if text == "" {
		text = kept.Join
	}
	if text == "" {
		return nil, wire.ErrNotJoined
	}
	j, err := member.ParseJoinString(text)
	if err != nil {
		return nil, err
	}
	moved := kept.Join != "" && text != kept.Join
	if before, err := kept.Network(); moved && err == nil && before == j.Network { // else the wire says that it is another network
		kept.Join = text
	}
	seed, err := member.LoadOrCreateNode(a.cfg.Dir)
	if err != nil {
		return nil, err
	}
	node, err := wire.New(life, wire.Config{
		Key: seed, Network: j.Network, Role: member.Peer, Kept: kept, Keep: a.keep, Listen: a.cfg.Listen, QUIC: a.cfg.QUIC,
		Announce: a.cfg.Announce, Dialer: a.cfg.Dialer, Socket: a.cfg.Socket, Wrap: a.cfg.Wrap, Count: a.cfg.Count, Names: a.cfg.Names, Bar: a.cfg.Bar, Version: "shoal-peer/" + a.cfg.Version, Log: a.log, Metrics: a.cfg.Metrics,
	})
	if err != nil {
		return nil, err
	}
	if !node.Joined() {
		err = node.Join(ctx, j, a.cfg.Account)
	} else if moved { // the managers may no longer be where the kept document says
		if err = node.Renew(ctx); errors.Is(err, wire.Outdated) {
			err = node.Join(ctx, j, kept.Account)
		}
	}
	if err != nil {
		return nil, errors.Join(err, node.Close())
	}
	return node, nil
}

// loop starts what the queue says, until ctx ends; then it leaves.
func (a *Agent) loop(ctx, life context.Context, failed <-chan error) error {
	var jobs sync.WaitGroup
	defer jobs.Wait()
	work, stopWork := context.WithCancel(life) // ends when the time for leaving has passed
	defer stopWork()
	told, leaving := ctx.Done(), false
	var over <-chan time.Time
	start := func(it queue.Item[task]) {
		j := a.newJob(it)
		jobs.Add(1)
		go func() {
			defer jobs.Done()
			a.run(work, j)
		}()
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		now := a.wire.Now()
		acts, deadline := a.tasks.tick(now)
		var give, late []task
		for _, act := range acts {
			switch act.Kind {
			case queue.Start:
				start(act.Item)
			case queue.Stop:
				a.stop(act.Item.Key)
			case queue.Drop:
				late = append(late, act.Item.Value)
			case queue.HandOver:
				if act.Item.Value.Claimed { // only this peer may deliver it: what was fetched for it is sent, then it is released
					start(act.Item)
					a.stop(act.Item.Key)
				} else {
					give = append(give, act.Item.Value)
				}
			}
		}
		if len(give) > 0 {
			jobs.Go(func() { a.handOver(work, give) })
		}
		if len(late) > 0 {
			jobs.Go(func() { a.giveLate(ctx, work, late) })
		}
		wait := time.Hour
		if !deadline.IsZero() {
			wait = min(wait, max(deadline.Sub(now), 0))
		}
		timer.Reset(wait)
		select {
		case <-told:
			told, leaving = nil, true
			a.tasks.setMode(queue.Drain, time.Time{})
			over = time.After(a.tuned.Load().Grace)
		case <-over:
			a.log.Warn("the time for leaving has passed; tasks that are not over stay for the next start", "tasks", a.tasks.onDisk())
			return nil
		case err := <-failed:
			return err
		case <-a.tasks.wake:
		case <-timer.C:
		}
		if leaving && a.tasks.empty() {
			done := make(chan struct{})
			go func() { jobs.Wait(); close(done) }()
			select {
			case <-done:
			case <-over:
				a.log.Warn("the time for leaving has passed; tasks that are not over stay for the next start", "tasks", a.tasks.onDisk())
			}
			return nil
		}
	}
}

// handOver finds other peers for tasks that were taken and not claimed. Tasks that no peer takes go back to the
// manager, which would otherwise wait for their latest start. If the manager does not answer, they stay on disk for a
// start in time.
func (a *Agent) handOver(ctx context.Context, give []task) {
	var list []overlay.Task
	for _, t := range give {
		list = append(list, overlay.Task{Signed: t.Signed, Header: t.Header})
	}
	outer := ctx
	ctx, cancel := context.WithTimeout(outer, a.tuned.Load().Grace/2)
	rest := a.runner.Handoff(ctx, list)
	cancel()
	n, back := len(list)-len(rest), 0
	for _, t := range list {
		if key := keyOf(t.Header); !slices.ContainsFunc(rest, func(r overlay.Task) bool { return keyOf(r.Header) == key }) {
			a.tasks.given(key)
		}
	}
	ctx, cancel = context.WithTimeout(outer, a.tuned.Load().Grace/2)
	defer cancel()
	for _, t := range rest {
		if err := a.giveBack(ctx, task{Signed: t.Signed, Header: t.Header}); err != nil {
			a.log.Debug("task not given back", "host", t.Header.Host, "err", err)
			continue
		}
		a.tasks.given(keyOf(t.Header))
		back++
	}
	a.stats.add(func(c *Counters) { c.HandedOver += n; c.GivenBack += back })
	a.log.Info("tasks handed over", "tasks", len(give), "taken", n, "given back to the manager", back)
}

// errNotGranted says that an archive does not count a task as this peer's.
var errNotGranted = errors.New("peer: the archive does not grant the claim")

// giveBack claims a task and releases it at once, so that the manager need not wait for its claim.
func (a *Agent) giveBack(ctx context.Context, t task) error {
	up, err := a.uplink(t.Header.Archive)
	if err != nil {
		return err
	}
	c, err := up.Claim(ctx, t.Signed)
	if err != nil {
		return fmt.Errorf("claim: %w", err)
	}
	if c.Status == uplink.Held {
		return fmt.Errorf("claim: another peer's lease runs for %v", c.Left)
	}
	if c.Status != uplink.Granted {
		return fmt.Errorf("%w: it answers %v", errNotGranted, c.Status)
	}
	if _, err := up.Release(ctx, t.Header.Channel, t.Header.Gen); err != nil {
		return fmt.Errorf("release: %w", err)
	}
	return nil
}

// SetMode pauses, finishes, drains or opens the queue; a pause may have an end. Crawls that run pause too.
func (a *Agent) SetMode(m queue.Mode, until time.Time) { a.tasks.obey(order{m, until}) }

// Ordered returns what SetMode was last told, also while the agent leaves or rests. A timed pause that is over is none.
func (a *Agent) Ordered() (m queue.Mode, until time.Time) {
	a.tasks.mu.Lock()
	defer a.tasks.mu.Unlock()
	if o := a.tasks.order; o.mode != queue.Paused || o.until.IsZero() || o.until.After(time.Now()) {
		return o.mode, o.until
	}
	return queue.Open, time.Time{}
}

// Hold pauses the agent for a reason beside what its user has set: a limit, a battery. The empty reason ends it.
func (a *Agent) Hold(why string) { a.tasks.setHold(why) }

// SetLimits changes threads and queue.
func (a *Agent) SetLimits(threads, waiting int) error { return a.tasks.setLimits(threads, waiting) }

// Redial makes all connections to members anew, on the ways that are open now.
func (a *Agent) Redial() {
	a.mu.Lock()
	node := a.wire
	a.mu.Unlock()
	if node != nil {
		node.Redial()
	}
}

// probe measures the round-trip time to a Web host for the manager: the shortest of three TCP handshakes.
func (a *Agent) probe(ctx context.Context, host string) (time.Duration, error) {
	addr, err := hostPort(host)
	if err != nil {
		return 0, err
	}
	if a.cfg.Refuse != nil {
		if err := a.cfg.Refuse(host); err != nil {
			return 0, err
		}
	}
	best := time.Duration(0)
	for range 3 {
		start := time.Now()
		c, err := a.cfg.Dial(ctx, "tcp", addr)
		if err != nil {
			return 0, err
		}
		rtt := time.Since(start)
		if t, ok := c.(interface{ ConnectTime() time.Duration }); ok && t.ConnectTime() > 0 { // 0: what it wraps does not know
			rtt = t.ConnectTime()
		}
		c.Close()
		if best == 0 || rtt < best {
			best = rtt
		}
	}
	return best, nil
}

// hostPort is where a host as in Scope.Host listens.
func hostPort(host string) (string, error) {
	c, err := channel.Canonical(host + "/")
	if err != nil {
		return "", err
	}
	origin := channel.Origin(c)
	scheme, authority, _ := cutScheme(origin)
	if _, _, err := net.SplitHostPort(authority); err == nil {
		return authority, nil
	}
	port := "80"
	if scheme == "https" {
		port = "443"
	}
	if len(authority) > 1 && authority[0] == '[' {
		authority = authority[1 : len(authority)-1]
	}
	return net.JoinHostPort(authority, port), nil
}
