package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/libp2p/go-libp2p/p2p/transport/tcp"
	ma "github.com/multiformats/go-multiaddr"

	"shoal/internal/lab/pond"
	"shoal/internal/ports"
	"shoal/internal/version"
	"shoal/internal/wire"
	"shoal/peer"
	"shoal/peer/crawl"
	"shoal/peer/limit"
	"shoal/peer/queue"
	"shoal/peer/words"
)

// network is one network that this computer crawls for: an agent in a folder of its own, with its share of the limits. All of a program's
// networks share its limits, its budgets, its record and its politeness, and nothing by which one could tell that another is there.
type network struct {
	p     *program
	at    peer.Membership
	agent *peer.Agent
	home  *limit.Home // nil: it learns no translators' addresses
	meter *limit.Meter
	usage *limit.Usage

	speeds          speeds
	held            atomic.Pointer[words.Text] // why its agent is on hold, for translation
	part            atomic.Pointer[part]
	down            atomic.Int64 // KiB a second that its volunteer allows it until the process ends; 0: its share alone
	up              atomic.Int64
	allowed, queued int // threads and waiting tasks that its agent may have; p.spreading guards them

	noPond atomic.Bool // it offered a task of a synthetic Web, and this peer has none
	forget atomic.Bool // its membership goes when it has left
	left   chan struct{}
	once   sync.Once

	tally struct {
		mu sync.Mutex
		c  peer.Counters // what usage has
	}
}

// part is a network's part of the limits.
type part struct {
	weight, of int // its share is weight of so many
	threads    int
	queue      int
	disk       int64
}

// share is a network's part of a whole number.
func (t *part) share(whole int64) int64 { return whole * int64(t.weight) / int64(max(t.of, 1)) }

// newNetwork makes the agent of a membership. index counts the networks, for their ports.
func (p *program) newNetwork(m peer.Membership, index int) (*network, error) {
	n := &network{p: p, at: m, left: make(chan struct{})}
	var err error
	if n.usage, err = limit.OpenUsage(filepath.Join(m.Dir, "share.json"), time.Now); err != nil {
		return nil, err
	}
	if err := n.usage.Damaged(); err != nil {
		p.log.Warn("what was counted of a network is lost", "err", err)
	}
	n.usage.Begin(p.usage)
	n.meter = p.meter.Part(n.usage)
	n.part.Store(&part{weight: 1, of: 1, threads: p.now().Threads, queue: p.now().Queue, disk: int64(p.now().DiskMiB) << 20})
	cfg, err := n.config(index)
	if err != nil {
		return nil, err
	}
	if n.agent, err = peer.New(cfg); err != nil {
		return nil, err
	}
	n.allow(0, 0) // until the networks have been counted
	n.do(p.nets.wished(m.Dir))
	if p.world == nil && !p.webAtHome {
		n.home = cfg.Home
	}
	return n, nil
}

// wish is what a volunteer wants of a network until the process ends. It outlives the agent: one comes back with other settings, or after an error.
type wish struct {
	mode     queue.Mode
	until    time.Time // end of a pause
	down, up int64     // KiB a second
	order    string    // given to all networks while this one had no agent; it replaces mode
}

func (n *network) wish() wish {
	w := wish{down: n.down.Load(), up: n.up.Load()}
	w.mode, w.until = n.agent.Ordered()
	return w
}

// do has the agent begin with what was wished of the one before it. A pause that is kept in its folder comes with it.
func (n *network) do(w wish) {
	n.down.Store(w.down)
	n.up.Store(w.up)
	if w.order == "" {
		if w.mode != queue.Open {
			n.agent.SetMode(w.mode, w.until)
		}
		return
	}
	args := map[string]string{}
	if !w.until.IsZero() {
		if left := time.Until(w.until); left > 0 {
			args["for"] = left.String()
		} else {
			w.order = "resume"
		}
	}
	if err := n.agent.Do(w.order, args); err != nil {
		n.p.log.Warn("an order was not carried out for a network that comes back", "order", w.order, "network", n.short(), "err", err)
	}
}

// config returns the agent's configuration, with every socket under the limits.
func (n *network) config(index int) (peer.Config, error) {
	p, set := n.p, n.p.set
	var err error
	if set.Port, err = p.portFor(index); err != nil {
		return peer.Config{}, err
	}
	if index > 0 {
		set.Announce = nil // a router forwards the first one's port
	}
	cfg := set.config()
	cfg.Dir, cfg.Version, cfg.Log, cfg.Refuse, cfg.Turns = n.at.Dir, version.String(), p.log, n.refuse, p.turns
	if index > 0 {
		cfg.Log = p.log.With("network", n.short())
	}
	note := p.journal.For(n.at.Network.String())
	cfg.OnVisit = func(host string, v crawl.Visit) {
		p.web.visit(v)
		note(host, v)
	}
	cfg.Wrap, cfg.Count = n.meter.Wrap, n.meter.Count
	p.members(&cfg, n.meter)
	cfg.Home = &limit.Home{}
	guard := &limit.Guard{Home: cfg.Home, Resolver: n.meter.Resolver(p.socket), Wrap: n.meter.Wrap, Control: p.socket, Allow: p.limits.DeniesAddr, Via: p.via}
	if p.webAtHome {
		guard.Home = nil
	}
	if p.world != nil {
		if err := p.inWorld(&set, &cfg, guard); err != nil {
			return cfg, err
		}
	}
	cfg.Dial = guard.DialContext
	return cfg, nil
}

// refuse is what the program refuses. It notes that the network crawls what this peer cannot reach.
func (n *network) refuse(host string) error {
	err := n.p.refuse(host)
	if errors.Is(err, errNoPond) {
		n.noPond.Store(true)
	}
	return err
}

// inWorld has the agent live in a synthetic Web.
func (p *program) inWorld(set *settings, cfg *peer.Config, guard *limit.Guard) (err error) {
	if set.Port == 0 { // the pond places a node by the port that it listens on
		if set.Port, err = ports.Free(); err != nil {
			return err
		}
		cfg.Listen = set.config().Listen
	}
	if cfg.Roots, err = p.world.Roots(); err != nil {
		return err
	}
	guard.Pond = p.world.HTTPDialer(set.Port)
	nodes := p.world.NodeDialer(set.Port)
	cfg.Dialer = func(ma.Multiaddr) (tcp.ContextDialer, error) { return nodes, nil }
	cfg.QUIC = false // only what is dialled by TCP has the pond's latency
	if p.set.MinGapMs == defaults().MinGapMs {
		cfg.MinGap = pond.Gap
	}
	if p.unpaced {
		cfg.Unpaced = true
		guard.Pond, err = limit.ToPond(p.world.ServedAt())
	}
	return err
}

// portFor chooses another port if the default one is in use: a manager or a second peer may run on this machine. Further networks have the ports
// behind the first one's, where these are free.
func (p *program) portFor(index int) (int, error) {
	if p.set.Port == 0 || index == 0 && p.set.Port != wire.DefaultPort { // it will be said where it matters
		return p.set.Port, nil
	}
	port := p.set.Port + index
	l, err := net.Listen("tcp", net.JoinHostPort(p.set.Listen, strconv.Itoa(port)))
	if err == nil {
		return port, l.Close()
	}
	if index == 0 && !errors.Is(err, syscall.EADDRINUSE) {
		return port, nil // it will be said where it matters
	}
	other, err := ports.Free()
	if err == nil && index == 0 {
		p.log.Warn("another program, perhaps a manager, uses the default port: this peer takes another one; choose a fixed port with --port",
			"default", wire.DefaultPort, "port", other)
	}
	return other, err
}

// short is what people type for a network.
func (n *network) short() string { return n.at.Network.String()[:shortName] }

// shortName is how much of a network's name tells it from others.
const shortName = 12

// run runs the agent until ctx ends or its volunteer leaves the network. aside outlives ctx while the agent leaves.
func (n *network) run(ctx, aside context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer func() { cancel(); wg.Wait() }()
	if n.home != nil {
		wg.Go(func() { n.p.learnTranslators(ctx, n.home) })
	}
	wg.Go(func() {
		select {
		case <-n.left:
			cancel()
		case <-ctx.Done():
		}
	})
	wg.Go(func() {
		select {
		case <-n.agent.Ready():
			n.p.notes.clear(matter("network", n.short()))
			n.p.says()
		case <-ctx.Done():
		}
	})
	err := n.agent.Run(ctx)
	if errors.Is(err, peer.ErrLocked) {
		return err // the other one counts
	}
	n.count(time.Now())
	err = errors.Join(err, n.usage.Save())
	if !n.hasLeft() {
		return err
	}
	if err != nil { // its volunteer wants to be out, whatever went wrong on the way, such as a full disk
		n.p.log.Warn("a network was left, and not all was done that comes before", "network", n.short(), "err", err)
	}
	if n.forget.Load() {
		_, err = peer.Forget(n.at.Dir)
		return err
	}
	forgotten(aside, n.at)
	return nil
}

// leave has the agent hand its tasks over and end. forget tells that nobody else ends the membership.
func (n *network) leave(forget bool) {
	if forget {
		n.forget.Store(true)
	}
	n.once.Do(func() { close(n.left) })
}

func (n *network) hasLeft() bool {
	select {
	case <-n.left:
		return true
	default:
		return false
	}
}

// count adds what the agent has done since the last call to what is counted over restarts.
func (n *network) count(now time.Time) {
	c := n.agent.Counters()
	n.tally.mu.Lock()
	defer n.tally.mu.Unlock()
	was := n.tally.c
	t := limit.Tally{Pages: int64(c.Pages - was.Pages), Unchanged: int64(c.Unchanged - was.Unchanged), Updated: int64(c.Updated - was.Updated), Failed: int64(c.Failed - was.Failed)}
	n.usage.Count(now, t)
	n.p.usage.Count(now, t)
	n.p.pages.Add(t.Pages)
	n.tally.c = c
}

// hold pauses the agent for the first reason that there is.
func (n *network) hold(reasons ...words.Text) {
	for _, r := range reasons {
		if r.Key != "" {
			n.held.Store(&r)
			n.agent.Hold(r.In(words.English))
			return
		}
	}
	n.held.Store(nil)
	n.agent.Hold("")
}

// forgotten waits until a membership is gone, which a command that has the peer leave deletes.
func forgotten(ctx context.Context, m peer.Membership) {
	ctx, cancel := context.WithTimeout(ctx, leaveWait)
	defer cancel()
	for {
		if _, err := wire.LoadKept(m.Dir); err != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// openWorld finds the synthetic Web that is crawled instead of the real one.
func openWorld(ctx context.Context, addr string) (*pond.World, error) {
	if addr == "" {
		return nil, nil
	}
	w, err := pond.Connect(ctx, addr)
	if err != nil {
		return nil, fmt.Errorf("pond at %s: %w", addr, err)
	}
	return w, nil
}
