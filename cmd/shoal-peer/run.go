package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/libp2p/go-libp2p/p2p/transport/tcp"
	ma "github.com/multiformats/go-multiaddr"

	"shoal/channel"
	"shoal/internal/lab/pond"
	"shoal/internal/version"
	"shoal/internal/wire"
	"shoal/peer"
	"shoal/peer/limit"
	"shoal/peer/words"
)

type runCmd struct {
	Pond    string `help:"Crawl the synthetic Web served at this loopback address." placeholder:"ADDR"`
	Unpaced bool   `help:"With --pond: no waits and no latencies, to measure the speed of a crawl."`
	AtHome  bool   `name:"web-at-home" hidden:"" help:"Fetch also from public addresses of this computer's own networks and of other members: for networks of one's own whose Web hosts are there."`
	flagged
}

func (c *runCmd) Run(ctx context.Context, s streams, top *cli) error {
	set, err := load(top.Config, s.env, c.values())
	if err != nil {
		return err
	}
	if c.Pond != "" && !loopback(c.Pond) {
		return fmt.Errorf("%w: --pond %q; want the loopback address that `shoal pond` prints, such as 127.0.0.1:7790", errSettings, c.Pond)
	}
	if c.Unpaced && c.Pond == "" {
		return fmt.Errorf("%w: --unpaced needs --pond: real Web hosts are never crawled without waits", errSettings)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memory)
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(set.LogLevel)); err != nil {
		return err
	}
	st := &station{cmd: c, file: top.settingsFile(), named: top.Config != "", env: s.env, out: s.out, level: &slog.LevelVar{}, last: &lastTrouble{}, begun: time.Now(), poke: make(chan struct{}, 1), set: set}
	st.level.Set(level)
	st.log = slog.New(st.last.over(slog.NewTextHandler(s.err, &slog.HandlerOptions{Level: st.level})))
	return st.run(ctx)
}

// memory is the soft limit of the garbage collector, which works more often to keep the process below it. Without it
// large crawls would take twice the memory they need. The program's file is not included.
const memory = 72 << 20

// program is a running peer: the agent, its limits, its journal and its history.
type program struct {
	webAtHome bool // Web hosts in its own networks are fetched from too

	set     settings // those of its start
	live    atomic.Pointer[settings]
	log     *slog.Logger
	level   *slog.LevelVar
	ready   func()        // called when the agent has been made
	again   chan struct{} // closed: come back with other settings
	wake    chan struct{} // settings have changed: look at once
	history *limit.History
	carried carried
	use     atomic.Pointer[limit.Use] // when last asked
	looked  atomic.Int64              // Unix time of the last look at what is known of the use
	busy    atomic.Int64              // percent of the processors that other programs used when last looked at; -1: not known
	lists   chan struct{}             // block lists or denied domains have changed
	inPond  bool
	blocked atomic.Pointer[limit.Blocked]
	held    atomic.Pointer[words.Text] // why the peer is on hold, for translation
	agent   *peer.Agent
	limits  *limit.Limits
	meter   *limit.Meter
	usage   *limit.Usage
	journal *peer.Journal
	notes   notes
	proxy   proxies
	speeds  speeds
	tallied struct {
		mu sync.Mutex
		c  peer.Counters // what usage has
	}
	left     chan struct{}
	once     sync.Once
	comeBack sync.Once
}

// hasLeft reports whether the volunteer has had the peer leave.
func (p *program) hasLeft() bool {
	select {
	case <-p.left:
		return true
	default:
		return false
	}
}

// now returns the settings of now.
func (p *program) now() *settings {
	if s := p.live.Load(); s != nil {
		return s
	}
	return &p.set
}

func (p *program) run(ctx context.Context, pondAddr string, unpaced bool, out io.Writer) error {
	kept, err := wire.LoadKept(p.set.Data)
	if err != nil {
		return err
	}
	network, err := kept.Network()
	if err != nil {
		return err
	}
	if p.set.LowPriority {
		if err := limit.LowPriority(); err != nil {
			p.log.Warn("runs at a higher priority than it should", "err", err)
		}
	}
	if p.usage, err = limit.OpenUsage(filepath.Join(p.set.Data, "usage.json"), time.Now); err != nil {
		return err
	}
	if p.history, err = limit.OpenHistory(historyFile(p.set.Data), time.Now()); err != nil {
		return err
	}
	if p.journal, err = peer.OpenJournal(p.set.journal(), network.String()); err != nil {
		return err
	}
	defer p.journal.Close()
	p.limits = limit.New(p.set.Settings, "your settings", p.usage)
	p.limits.SetSources(p.set.from)
	p.meter = limit.NewMeter(p.usage)
	admin := newPolicies(p)
	admin.read(ctx, time.Now())
	cfg, err := p.config(ctx, pondAddr, unpaced)
	if err != nil {
		return err
	}
	if p.agent, err = peer.New(cfg); err != nil {
		return err
	}
	p.ready()
	home := cfg.Home
	if pondAddr != "" {
		home = nil
	}
	err = p.serve(ctx, admin, home, out)
	if errors.Is(err, peer.ErrLocked) {
		return err // the other one counts
	}
	p.tally(time.Now())
	err = errors.Join(err, p.usage.Save(), p.history.Save())
	select {
	case <-p.again:
		if err == nil && ctx.Err() == nil {
			return errAgain
		}
	default:
	}
	return err
}

// serve runs the agent and the limits until ctx ends, or the volunteer has the peer leave or come back. home, unless it is nil, learns the
// addresses that translators lead into this network.
func (p *program) serve(ctx context.Context, admin *policies, home *limit.Home, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	aside, end := context.WithCancel(context.WithoutCancel(ctx)) // so that status and limits hold while the peer leaves
	defer end()
	wg.Add(2)
	go func() {
		defer wg.Done()
		select {
		case <-p.agent.Ready(): // the folder is ours
		case <-aside.Done():
			return
		}
		fmt.Fprintf(out, "shoal-peer %s is running; to see what it does: shoal-peer status\n", version.String())
	}()
	go func() { defer wg.Done(); p.govern(aside, admin) }()
	wg.Go(func() { p.followLists(aside) })
	if home != nil && !p.webAtHome {
		wg.Go(func() { p.learnTranslators(aside, home) })
	}
	go func() {
		select {
		case <-p.left:
			cancel()
		case <-p.again:
			cancel()
		case <-ctx.Done():
		}
	}()
	err := p.agent.Run(ctx)
	end()
	wg.Wait()
	return err
}

// config returns the agent's configuration, with every socket under the limits.
func (p *program) config(ctx context.Context, pondAddr string, unpaced bool) (peer.Config, error) {
	if err := p.findPort(); err != nil {
		return peer.Config{}, err
	}
	cfg := p.set.config()
	cfg.Version, cfg.Log, cfg.OnVisit, cfg.Refuse = version.String(), p.log, p.journal.Visit, p.refuse
	cfg.Wrap, cfg.Count = p.meter.Wrap, p.meter.Count
	p.members(&cfg)
	cfg.Home = &limit.Home{}
	guard := &limit.Guard{Home: cfg.Home, Resolver: p.meter.Resolver(p.socket), Wrap: p.meter.Wrap, Control: p.socket, Allow: p.limits.DeniesAddr, Via: p.via}
	if p.webAtHome {
		guard.Home = nil
	}
	if pondAddr != "" {
		world, err := pond.Connect(ctx, pondAddr)
		if err != nil {
			return cfg, fmt.Errorf("pond at %s: %w", pondAddr, err)
		}
		port := p.set.Port
		if port == 0 { // the pond places a node by the port that it listens on
			if port, err = freePort(); err != nil {
				return cfg, err
			}
			p.set.Port = port
			cfg.Listen = p.set.config().Listen
		}
		if cfg.Roots, err = world.Roots(); err != nil {
			return cfg, err
		}
		guard.Pond = world.HTTPDialer(port)
		nodes := world.NodeDialer(port)
		cfg.Dialer = func(ma.Multiaddr) (tcp.ContextDialer, error) { return nodes, nil }
		cfg.QUIC = false // only what is dialled by TCP has the pond's latency
		if p.set.MinGapMs == defaults().MinGapMs {
			cfg.MinGap = pondGap
		}
		if unpaced {
			cfg.Unpaced = true
			if guard.Pond, err = limit.ToPond(world.ServedAt()); err != nil {
				return cfg, err
			}
		}
	}
	cfg.Dial = guard.DialContext
	return cfg, nil
}

// learnTranslators learns whether the network translates IPv6 to IPv4: addresses of the home can be written so, too. Behind a proxy all goes through it,
// questions to name servers too.
func (p *program) learnTranslators(ctx context.Context, home *limit.Home) {
	names := p.meter.Resolver(p.socket)
	ask := func(ctx context.Context, host string) ([]netip.Addr, error) {
		return names.LookupNetIP(ctx, "ip6", host)
	}
	home.WatchNAT64(ctx, ask, func() bool { return p.via() == nil }, func(err error) {
		p.log.Debug("the name servers do not say whether the network translates addresses", "err", err)
	})
}

// findPort chooses another port if the default one is in use: a manager or a second peer may run on this machine.
func (p *program) findPort() error {
	if p.set.Port != wire.DefaultPort {
		return nil
	}
	l, err := net.Listen("tcp", net.JoinHostPort(p.set.Listen, strconv.Itoa(p.set.Port)))
	if err == nil {
		return l.Close()
	}
	if !errors.Is(err, syscall.EADDRINUSE) {
		return nil // it will be said where it matters
	}
	if p.set.Port, err = freePort(); err == nil {
		p.log.Warn("another program, perhaps a manager, uses the default port: this peer takes another one; choose a fixed port with --port",
			"default", wire.DefaultPort, "port", p.set.Port)
	}
	return err
}

// pondGap is the politeness wait in a synthetic Web.
const pondGap = 200 * time.Millisecond

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	_, text, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(text)
}

// socket applies the limits to a socket.
func (p *program) socket(network, addr string, c syscall.RawConn) error {
	f := p.limits.At(time.Now())
	return f.Socket(network, addr, c)
}

// refuse returns an error for a host that the volunteer or the admin has denied.
func (p *program) refuse(host string) error {
	c, err := channel.Canonical(host + "/")
	if err != nil {
		return err
	}
	_, name, _ := strings.Cut(channel.Origin(c), "://")
	if h, _, err := net.SplitHostPort(name); err == nil {
		name = h
	}
	if d := limit.InDomains(name, p.now().Deny); d != "" {
		return fmt.Errorf("this volunteer does not fetch %s", d)
	}
	if d := p.blocked.Load().Has(name); d != "" {
		return fmt.Errorf("this volunteer's block lists have %s", d)
	}
	return p.limits.Denies(name)
}
