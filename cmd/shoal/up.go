package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/p2p/transport/tcp"
	ma "github.com/multiformats/go-multiaddr"

	"shoal/channel"
	"shoal/internal/lab/pond"
	"shoal/internal/member"
	"shoal/internal/plain"
	"shoal/internal/version"
	"shoal/internal/wire"
	"shoal/manager"
	"shoal/manager/desk"
	"shoal/overlay"
	"shoal/peer"
	"shoal/peer/limit"
	"shoal/recrawl"
)

type upCmd struct {
	URLs     []string      `arg:"" optional:"" name:"url" help:"Sites to crawl instead of the pond: a whole host, or one directory of it."`
	Peers    *int          `help:"Peers to run; default 8 in the pond, 1 with URLs." placeholder:"N"`
	For      time.Duration `help:"End after this time, as 60s or 2h." placeholder:"TIME"`
	Data     string        `help:"Data folder. Starting again with it goes on from there." default:"${data}" type:"path" placeholder:"DIR"`
	Strategy string        `help:"Recrawl strategy: ${strategies}. By default the one last set, else icr." default:"" placeholder:"NAME"`
	JSON     bool          `name:"json" help:"Print one JSON object as the last line."`
	Contact  string        `help:"Your contact URL, which Web hosts find in the User-Agent. Needed to crawl the Web." placeholder:"URL"`
	Seed     uint64        `help:"Seed of the pond; default 1. The same seed is the same Web." placeholder:"N"`
	Hosts    *int          `help:"Hosts of the pond; default 200." placeholder:"N"`
	Pages    *int          `help:"Pages of the pond, on all hosts together; default 20,000." placeholder:"N"`
	discovery
	Page    string `help:"Address of the manager's page; empty: none." default:"127.0.0.1:7780" placeholder:"ADDR"`
	Verbose bool   `short:"v" help:"Log what happens to standard error."`
}

// maxPeers bounds the peers of one process.
const maxPeers = 500

var errNoData = errors.New("--data: name a folder; an empty word is none")

func (c *upCmd) validate() error {
	if n := c.peers(); n < 1 || n > maxPeers {
		return fmt.Errorf("--peers %d: want 1 to %d", n, maxPeers)
	}
	if c.Hosts != nil && *c.Hosts < 1 {
		return fmt.Errorf("--hosts %d: want 1 or more", *c.Hosts)
	}
	if c.Pages != nil && *c.Pages < 1 {
		return fmt.Errorf("--pages %d: want 1 or more", *c.Pages)
	}
	if c.For < 0 {
		return fmt.Errorf("--for %v: want a time to run, such as 60s", c.For)
	}
	if c.Data == "" {
		return errNoData
	}
	if err := errors.Join(checkStrategy(c.Strategy), c.discovery.validate()); err != nil {
		return err
	}
	if len(c.URLs) > 0 && (c.Seed != 0 || c.Hosts != nil || c.Pages != nil) {
		return errors.New("--seed, --hosts and --pages describe the pond, but URLs are to be crawled: leave one or the other away")
	}
	return checkContact(c.Contact, len(c.URLs) > 0)
}

// peers is how many run: as asked, or as fits what is crawled.
func (c *upCmd) peers() int {
	switch {
	case c.Peers != nil:
		return *c.Peers
	case len(c.URLs) > 0:
		return 1
	}
	return 8
}

// checkContact refuses a crawl of the Web that gives hosts nobody to turn to.
func checkContact(contact string, public bool) error {
	if contact == "" {
		if public {
			return errors.New("crawling the Web needs --contact URL: a page or a mailto: address that the owners of Web hosts can turn to")
		}
		return nil
	}
	u, err := url.Parse(contact)
	if err != nil || (u.Scheme != "mailto" && u.Scheme != "http" && u.Scheme != "https") || (u.Scheme == "mailto" && u.Opaque == "") || (u.Scheme != "mailto" && u.Host == "") {
		return fmt.Errorf("--contact %q is no URL that people can turn to: write https://example.org/crawler or mailto:crawler@example.org", contact)
	}
	return nil
}

func (c *upCmd) Run(ctx context.Context, s streams) (err error) {
	channels, err := publicSites(c.URLs)
	if err != nil {
		return err
	}
	if err := c.validate(); err != nil {
		return err
	}
	began := time.Now()
	log := slog.New(slog.DiscardHandler)
	if c.Verbose {
		log = slog.New(slog.NewTextHandler(s.err, nil))
	}
	data := filepath.Join(c.Data, "up-web")
	if len(c.URLs) == 0 {
		data = filepath.Join(c.Data, "up-pond")
	}
	cfg := stationConfig{data: data, listen: []string{"/ip4/127.0.0.1/tcp/0"}, page: c.Page, openView: true, log: log, manager: manager.Default()}
	useStrategy(&cfg.manager, c.Strategy)
	cfg.manager.Contact = c.Contact
	c.discovery.use(&cfg.manager)
	if c.For > 0 {
		cfg.manager.Until = began.Add(c.For)
	}
	w := &swimmers{n: c.peers(), dir: filepath.Join(data, "peers"), log: log}
	var near nearness
	if len(c.URLs) == 0 {
		if w.pond, err = c.openPond(data); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, ignoreClosed(w.pond.Close())) }()
		port, err := freePort()
		if err != nil {
			return err
		}
		cfg.listen = []string{fmt.Sprintf("/ip4/127.0.0.1/tcp/%d", port)}
		w.pond.World().Settle(port, 0)
		cfg.dialer = pondDialer(w.pond.World(), port)
		pondSettings(&cfg.manager)
		cfg.reach = pondReach(w.pond.World())
		if c.For > 0 { // first tasks are to end while there is time to see it
			cfg.manager.FirstBudget = min(cfg.manager.FirstBudget, max(int(c.For/firstShare/pondFetch), 1))
		}
		cfg.manager.MinPeers, cfg.manager.MinPeersWait = c.peers(), 4*time.Second
		cfg.manager.OnPlaced = near.placed(w)
		channels = pondChannels(w.pond.World())
	}
	st, err := openStation(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.close()) }()
	if _, err := st.desk.AddChannels(ctx, channels); err != nil {
		return err
	}
	c.greet(s, st, w)

	if c.For > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, began.Add(c.For))
		defer cancel()
	}
	ctx, over := context.WithCancel(ctx) // whatever it was that ended it
	defer over()
	first := watchFirst(ctx, st, began)
	lctx, stopLive := context.WithCancel(ctx)
	shown := make(chan struct{})
	go func() { defer close(shown); live(lctx, s.err, st.desk.Overview) }()
	if w.pond != nil {
		pctx, drain := context.WithCancel(context.WithoutCancel(ctx))
		done := make(chan struct{})
		go func() {
			defer close(done)
			if err := w.pond.Run(pctx); err != nil {
				log.Error("pond", "err", err)
			}
		}()
		defer func() { drain(); <-done }()
	}
	err = runAll(ctx, st, w)
	over()
	stopLive()
	<-shown

	sum := summarise(st.desk.Overview())
	sum.FirstPageS = first()
	sum.Peers = c.peers()
	near.fill(&sum)
	if w.pond != nil {
		sum.MaxInFlight = w.pond.Stats().MaxInFlight
	}
	near.tell(s.err)
	fmt.Fprintf(s.err, "Stopped. The data is in %s; start again to go on from there.\n", data)
	if c.JSON {
		err = errors.Join(err, json.NewEncoder(s.out).Encode(sum))
	}
	return err
}

func (c *upCmd) greet(s streams, st *station, w *swimmers) {
	what := strings.Join(c.URLs, ", ")
	if w.pond != nil {
		cfg := w.pond.World().Config()
		what = fmt.Sprintf("the pond, a synthetic Web of %d hosts and %d pages on loopback", cfg.Hosts, cfg.Pages)
	}
	fmt.Fprintf(s.err, "Shoal crawls %s with %s.\n", what, plain.Count(w.n, "peer"))
	if st.page != nil {
		fmt.Fprintf(s.err, "  page      http://%s/?token=%s\n", st.page.Addr(), st.token)
	}
	fmt.Fprintf(s.err, "  data      %s\n  end with  ctrl-C\n", st.cfg.data)
}

// runAll runs station and peers until ctx ends; the peers leave while the station still takes what they have.
func runAll(ctx context.Context, st *station, w *swimmers) error {
	sctx, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	station := make(chan error, 1)
	go func() { station <- st.run(sctx) }()
	pctx, leave := context.WithCancel(ctx)
	defer leave()
	peers := make(chan error, 1)
	go func() { peers <- w.run(pctx, st.joinString()) }()
	var err error
	select {
	case err = <-station: // it failed: nobody is left to report to
		leave()
		return errors.Join(err, <-peers)
	case err = <-peers:
		st.manager.Settle(settleTime)
	}
	stop(context.Canceled)
	return errors.Join(err, <-station)
}

const settleTime = time.Second // for the last reports to be taken in

// swimmers are the peers that `up` runs in its own process, each with its own identity, certificate, coordinate and folder.
type swimmers struct {
	n    int
	dir  string
	pond *pond.Server
	log  *slog.Logger

	mu    sync.Mutex
	ports map[string]int // by peer id
}

func (w *swimmers) run(ctx context.Context, join string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	for i := range w.n {
		cfg, err := w.config(i, join)
		if err != nil {
			cancel(err)
			break
		}
		a, err := peer.New(cfg)
		if err != nil {
			cancel(err)
			break
		}
		wg.Add(1)
		go func() {
			defer wg.Done()
			if err := w.one(ctx, a, cfg); err != nil && ctx.Err() == nil {
				cancel(fmt.Errorf("peer %d: %w", i+1, err))
			}
		}()
	}
	wg.Wait()
	if err := context.Cause(ctx); err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}

// one runs one peer, and notes its port by its identity.
func (w *swimmers) one(ctx context.Context, a *peer.Agent, cfg peer.Config) error {
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return fmt.Errorf("make its folder: %w", err)
	}
	seed, err := member.LoadOrCreateNode(cfg.Dir)
	if err != nil {
		return err
	}
	id, err := wire.PeerID(seed)
	if err != nil {
		return err
	}
	w.mu.Lock()
	if w.ports == nil {
		w.ports = map[string]int{}
	}
	w.ports[id.String()] = tcpPort(cfg.Listen)
	w.mu.Unlock()
	return a.Run(ctx)
}

func (w *swimmers) config(i int, join string) (peer.Config, error) {
	port, err := freePort()
	if err != nil {
		return peer.Config{}, err
	}
	cfg := peer.Default()
	cfg.Dir = filepath.Join(w.dir, fmt.Sprintf("%03d", i+1))
	cfg.Join, cfg.Version, cfg.Grace = join, version.String(), leaveTime
	cfg.Listen, cfg.QUIC = []string{fmt.Sprintf("/ip4/127.0.0.1/tcp/%d", port)}, false
	cfg.Log = w.log.With("peer", i+1)
	if w.pond == nil {
		return cfg, nil
	}
	world := w.pond.World()
	world.Settle(port, i+1) // after the manager: what was measured in an earlier run stays true
	if cfg.Roots, err = world.Roots(); err != nil {
		return cfg, err
	}
	guard := &limit.Guard{Pond: world.HTTPDialer(port)}
	cfg.Dial, cfg.Dialer, cfg.MinGap = guard.DialContext, pondDialer(world, port), pondGap
	return cfg, nil
}

// leaveTime is what peers have to hand over when the whole network ends.
const leaveTime = 2 * time.Second

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("no free port on loopback: %w", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// pondDialer injects the pond's latency into the connections between nodes.
func pondDialer(w *pond.World, port int) tcp.DialerForAddr {
	return func(ma.Multiaddr) (tcp.ContextDialer, error) { return w.NodeDialer(port), nil }
}

// pondGap is the politeness wait in the pond.
const pondGap = 200 * time.Millisecond

// pondSettings are a manager's for the pond, where a tick is a second.
func pondSettings(c *manager.Config) {
	c.Tick, c.Gap = time.Second, pondGap
	c.Options.MinTicks, c.Options.Relearn = 2, 0
	c.Options.Initial = []float64{20, 40, 80, 160, 320} // the pond's hosts change that often
	c.Options.Prior = recrawl.Prior(30, .5)
	c.PlanEvery = 40
	c.Failing = manager.Failing{Pause: 5 * time.Second, MaxPause: 40 * time.Second, Limit: 8}
	c.Terms.Term, c.Terms.Backoff, c.Terms.MaxBackoff, c.Terms.Slack = 20*time.Second, 2*time.Second, 20*time.Second, 2*time.Second
}

// In a run with an end, a channel's first task takes at most a third of it, at so long a page.
const (
	firstShare = 3
	pondFetch  = pondGap + 100*time.Millisecond
)

// openPond goes on with the pond of the data folder, or begins one.
func (c *upCmd) openPond(data string) (*pond.Server, error) {
	path := filepath.Join(data, "pond.json")
	cfg := pond.Default()
	b, err := os.ReadFile(path)
	switch {
	case err == nil:
		if err := json.Unmarshal(b, &cfg); err != nil {
			return nil, fmt.Errorf("%s is damaged: %w; move it away to begin a new pond", path, err)
		}
		if c.Seed != 0 && c.Seed != cfg.Seed || c.Hosts != nil && *c.Hosts != cfg.Hosts || c.Pages != nil && *c.Pages != cfg.Pages {
			return nil, fmt.Errorf("the pond in %s has seed %d, %d hosts and %d pages: name another folder with --data, or leave --seed, --hosts and --pages away",
				data, cfg.Seed, cfg.Hosts, cfg.Pages)
		}
		cfg.Addr = ""
	case errors.Is(err, fs.ErrNotExist):
		cfg.Seed = cmp.Or(c.Seed, 1)
		if c.Hosts != nil {
			cfg.Hosts = *c.Hosts
		}
		cfg.Pages = max(cfg.Pages*cfg.Hosts/pond.Default().Hosts, 1)
		if c.Pages != nil {
			cfg.Pages = *c.Pages
		}
		cfg.MaxHost = max(cfg.MaxHost, (cfg.Pages+max(cfg.Hosts, 1)-1)/max(cfg.Hosts, 1))
	default:
		return nil, fmt.Errorf("the data folder cannot be read: %w; name another with --data", err)
	}
	w, err := pond.NewWorld(cfg)
	if err != nil {
		return nil, fmt.Errorf("the pond cannot be made: %w", err)
	}
	s, err := pond.NewServer(w, "", nil)
	if err != nil {
		return nil, err
	}
	if b == nil {
		if err := os.MkdirAll(data, 0o700); err != nil {
			return nil, fmt.Errorf("the data folder cannot be made: %w; name another with --data", err)
		}
		if b, err = json.MarshalIndent(w.Config(), "", "  "); err == nil {
			err = member.WriteFile(path, append(b, '\n'))
		}
		if err != nil {
			return nil, fmt.Errorf("write the pond's description: %w", err)
		}
	}
	return s, nil
}

// pondChannels has a channel for every host of the pond.
func pondChannels(w *pond.World) []channel.Channel {
	var chs []channel.Channel
	for i := range w.Hosts() {
		chs = append(chs, channel.Channel{Scope: channel.Scope{Kind: channel.WholeHost, Host: w.Origin(i)}, Seeds: []string{w.URL(i, 0)}})
	}
	return chs
}

// publicSites makes a channel of each URL, before anything is opened.
func publicSites(urls []string) ([]channel.Channel, error) {
	chs, err := desk.ParseSites(urls)
	for i := range chs {
		err = errors.Join(err, desk.PublicHost(chs[i].Scope.Host))
	}
	return chs, err
}

// pondReach refuses what is no host of a pond.
func pondReach(w *pond.World) func(string) error {
	return func(origin string) error {
		_, host, _ := strings.Cut(origin, "://")
		if _, ok := w.Host(host); ok {
			return nil
		}
		return fmt.Errorf("%s is not a host of the pond, the synthetic Web that this manager crawls: to crawl the Web, run shoal up URL, or shoal manager without --pond", origin)
	}
}

// watchFirst notes when the first page is in the archive.
func watchFirst(ctx context.Context, st *station, began time.Time) func() float64 {
	at, before := make(chan float64, 1), st.archive.Stats().Pages
	go func() {
		t := time.NewTicker(50 * time.Millisecond)
		defer t.Stop()
		for {
			select {
			case <-ctx.Done():
				at <- -1
				return
			case <-t.C:
				if st.archive.Stats().Pages > before {
					at <- time.Since(began).Seconds()
					return
				}
			}
		}
	}()
	return func() float64 { return <-at }
}

// nearness compares where tasks landed with where a random peer and the nearest of all would have been, by the pond's true round-trip times.
type nearness struct {
	mu                      sync.Mutex
	chosen, random, nearest time.Duration
	n                       int64
}

func (n *nearness) placed(w *swimmers) func(string, overlay.Placed) {
	return func(host string, p overlay.Placed) {
		world := w.pond.World()
		i, ok := world.Host(strings.TrimPrefix(strings.TrimPrefix(host, "https://"), "http://"))
		w.mu.Lock()
		defer w.mu.Unlock()
		port, known := w.ports[string(p.Peer)]
		if !ok || !known {
			return
		}
		all, nearest := time.Duration(0), pond.MaxRTT
		for _, q := range w.ports {
			d := world.HostRTT(q, i)
			all, nearest = all+d, min(nearest, d)
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		n.chosen += world.HostRTT(port, i)
		n.random += all / time.Duration(len(w.ports))
		n.nearest += nearest
		n.n++
	}
}

func (n *nearness) fill(s *summary) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.n == 0 {
		return
	}
	nearest := round1(n.mean(n.nearest))
	s.RTTChosenMS, s.RTTRandomMS, s.RTTNearestMS = round1(n.mean(n.chosen)), round1(n.mean(n.random)), &nearest
}

// mean is that of all tasks, in milliseconds.
func (n *nearness) mean(sum time.Duration) float64 {
	return float64(sum) / float64(n.n) / float64(time.Millisecond)
}

// tell says it in a line; nothing where no task was placed.
func (n *nearness) tell(w io.Writer) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.n > 0 {
		fmt.Fprintf(w, "Round trip from a task's peer to its host: %.0f ms on average; from the nearest of all peers it would be %.0f, from one at random %.0f.\n",
			n.mean(n.chosen), n.mean(n.nearest), n.mean(n.random))
	}
}

func round1(f float64) float64 {
	v, _ := strconv.ParseFloat(strconv.FormatFloat(f, 'f', 1, 64), 64)
	return v
}
