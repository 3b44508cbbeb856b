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
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"shoal/channel"
	"shoal/internal/lab/pond"
	"shoal/internal/release"
	"shoal/internal/release/programs"
	"shoal/internal/version"
	"shoal/peer"
	"shoal/peer/crawl"
	"shoal/peer/limit"
)

type runCmd struct {
	Pond    string        `help:"Crawl the synthetic Web served at this loopback address." placeholder:"ADDR"`
	Unpaced bool          `help:"With --pond: no waits and no latencies, to measure the speed of a crawl."`
	Minute  time.Duration `name:"update-minute" hidden:"" default:"1m" help:"How long the waits of updates take a minute to be: for tests."`
	AtHome  bool          `name:"web-at-home" hidden:"" help:"Fetch also from public addresses of this computer's own networks and of other members: for networks of one's own whose Web hosts are there."`
	flagged
}

// Run runs this program, or the version of it that an update brought.
func (c *runCmd) Run(ctx context.Context, s streams, top *cli) error {
	set, err := load(top.Config, s.env, c.values())
	if err != nil {
		return err
	}
	return launched(ctx, c.launcher(s, &set, os.Args[1:]), func(ctx context.Context) error { return c.here(ctx, s, top) })
}

// launcher returns what runs other versions of the program, with that command line.
func (c *runCmd) launcher(s streams, set *settings, args []string) *launcher {
	return &launcher{own: version.String(), folder: programs.At(set.Data), data: set.Data, minute: c.Minute, times: release.InMinutes(c.Minute), log: slog.New(slog.NewTextHandler(s.err, nil)), s: s, args: args,
		answer: (&asker{set: *set}).answers, needs: needed(set)}
}

// here runs the peer in this process.
func (c *runCmd) here(ctx context.Context, s streams, top *cli) error {
	set, err := load(top.Config, s.env, c.values())
	if err != nil {
		return err
	}
	if err := set.missing(); err != nil {
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
	if len(set.passed) > 0 {
		st.log.Warn("settings are passed over that a later version of the program has saved", "settings", strings.Join(set.passed, ", "))
	}
	return st.run(ctx)
}

// memory is the soft limit of the garbage collector, which works more often to keep the process below it. Without it
// large crawls would take twice the memory they need. The program's file is not included.
const memory = 72 << 20

// program is a running peer: the agent, its limits, its journal and its history.
type program struct {
	webAtHome bool // Web hosts in its own networks are fetched from too

	set       settings // those of its start
	live      atomic.Pointer[settings]
	log       *slog.Logger
	level     *slog.LevelVar
	ready     func()        // called when the agents have been made
	says      func()        // called when the first agent has its folder
	again     chan struct{} // closed: come back with other settings
	wake      chan struct{} // settings have changed: look at once
	history   *limit.History
	carried   carried
	use       atomic.Pointer[limit.Use] // when last asked
	looked    atomic.Int64              // Unix time of the last look at what is known of the use
	busy      atomic.Int64              // percent of the processors that other programs used when last looked at; -1: not known
	share     atomic.Uint64             // float64 bits: percent of the processors that this program used when last looked at
	lists     chan struct{}             // block lists or denied domains have changed
	blocked   atomic.Pointer[limit.Blocked]
	nets      networks
	spreading sync.Mutex    // one call of spread at a time
	joined    chan struct{} // there may be another membership
	turns     *crawl.Turns
	pages     atomic.Int64  // fetched since the start
	world     *pond.World   // crawled instead of the Web; nil: it is not
	unpaced   bool          // without waits
	lentDay   limit.Lending // owned by govern
	lentMonth limit.Lending
	limits    *limit.Limits
	before    *limit.Limits // of the program before it in this process; nil: there was none
	meter     *limit.Meter
	usage     *limit.Usage
	journal   *peer.Journal
	notes     notes
	proxy     proxies
	web       webLost
	speeds    speeds
	comeBack  sync.Once
}

// now returns the settings of now.
func (p *program) now() *settings {
	if s := p.live.Load(); s != nil {
		return s
	}
	return &p.set
}

func (p *program) run(ctx context.Context, pondAddr string, unpaced bool, out io.Writer) error {
	var err error
	if p.world, err = openWorld(ctx, pondAddr); err != nil {
		return err
	}
	p.unpaced = unpaced
	if p.set.LowPriority {
		if err := limit.LowPriority(); err != nil {
			p.log.Warn("runs at a higher priority than it should", "err", err)
		}
	}
	if p.usage, err = limit.OpenUsage(filepath.Join(p.set.Data, "usage.json"), time.Now); err != nil {
		return err
	}
	if err := p.usage.Damaged(); err != nil {
		p.log.Warn("what was counted is lost", "err", err)
	}
	if p.history, err = limit.OpenHistory(historyFile(p.set.Data), time.Now()); err != nil {
		return err
	}
	if p.journal, err = peer.OpenJournal(p.set.journal()); err != nil {
		return err
	}
	defer p.journal.Close()
	p.limits = limit.New(p.set.Settings, byDefault, p.usage)
	p.limits.SetSources(p.set.from)
	if p.before != nil {
		p.limits.Inherit(p.before)
		p.before = nil
	}
	p.meter = limit.NewMeter(p.usage)
	admin := newPolicies(p)
	admin.read(ctx, time.Now())
	err = p.serve(ctx, admin, out)
	if errors.Is(err, peer.ErrLocked) {
		return err // the other one counts
	}
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

// serve runs the agents and the limits until ctx ends, or the volunteer has the peer leave or come back.
func (p *program) serve(ctx context.Context, admin *policies, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	aside, end := context.WithCancel(context.WithoutCancel(ctx)) // so that status and limits hold while the peer leaves
	defer end()
	wg.Go(func() { p.govern(aside, admin) })
	wg.Go(func() { p.followLists(aside) })
	go func() {
		select {
		case <-p.again:
			cancel()
		case <-ctx.Done():
		}
	}()
	p.says = sync.OnceFunc(func() {
		fmt.Fprintf(out, "shoal-peer %s is running; to see what it does: shoal-peer status\n", version.String())
	})
	err := p.crawl(ctx, aside)
	end()
	wg.Wait()
	return err
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

// socket applies the limits to a socket.
func (p *program) socket(network, addr string, c syscall.RawConn) error {
	f := p.limits.At(time.Now())
	return f.Socket(network, addr, c)
}

// errNoPond is why a task of a synthetic Web is not taken. No fetch of it could succeed.
var errNoPond = errors.New("this peer crawls the Web, and the host belongs to the pond, a synthetic Web: shoal-peer run --pond ADDRESS crawls that")

// refuse returns an error for a host that the volunteer or the admin has denied, or that is not of the Web.
func (p *program) refuse(host string) error {
	c, err := channel.Canonical(host + "/")
	if err != nil {
		return err
	}
	_, name, _ := strings.Cut(channel.Origin(c), "://")
	if h, _, err := net.SplitHostPort(name); err == nil {
		name = h
	}
	if p.world == nil && limit.InPond(name) {
		return errNoPond
	}
	if d := limit.InDomains(name, p.now().Deny); d != "" {
		return fmt.Errorf("this volunteer does not fetch %s", d)
	}
	if d := p.blocked.Load().Has(name); d != "" {
		return fmt.Errorf("this volunteer's block lists have %s", d)
	}
	return p.limits.Denies(name)
}
