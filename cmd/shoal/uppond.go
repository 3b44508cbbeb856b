package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/libp2p/go-libp2p/p2p/transport/tcp"
	ma "github.com/multiformats/go-multiaddr"

	"shoal/channel"
	"shoal/internal/lab/pond"
	"shoal/internal/member"
	"shoal/internal/ports"
	"shoal/manager"
	"shoal/manager/archive/archivecmd"
	"shoal/manager/desk"
	"shoal/recrawl"
)

// inPond has the manager of `up` crawl a pond.
func (c *upCmd) inPond(cfg *stationConfig, world *pond.World) error {
	port := tcpPort(cfg.listen)
	world.Settle(port, 0)
	cfg.dialer, cfg.reach = pondDialer(world, port), pondReach
	if err := cfg.arbiter.inPond(world, port); err != nil {
		return err
	}
	pondSettings(&cfg.manager)
	if c.For > 0 { // first tasks are to end while there is time to see it
		cfg.manager.FirstBudget = min(cfg.manager.FirstBudget, max(int(c.For/firstShare/pondFetch), 1))
	}
	cfg.manager.MinPeers, cfg.manager.MinPeersWait = c.peers(), 4*time.Second
	return nil
}

// pondDialer injects the pond's latency into the connections between nodes.
func pondDialer(w *pond.World, port int) tcp.DialerForAddr {
	return func(ma.Multiaddr) (tcp.ContextDialer, error) { return w.NodeDialer(port), nil }
}

// pondSettings are a manager's for the pond. The simulator takes what concerns it from the same place.
func pondSettings(c *manager.Config) {
	c.Tick, c.Gap = pond.Tick, pond.Gap
	c.Options.MinTicks, c.Options.Relearn = pond.MinTicks, 0
	c.Options.Initial = pond.Intervals()
	c.Options.Prior = recrawl.Prior(pond.PriorTicks, pond.PriorStrength)
	c.PlanEvery = pond.PlanEvery
	c.Failing = manager.Failing{Pause: 5 * time.Second, MaxPause: 40 * time.Second, Limit: 8}
	c.Terms.Term, c.Terms.Backoff, c.Terms.MaxBackoff, c.Terms.Slack = pond.Term, pond.Backoff, pond.MaxBackoff, pond.Slack
}

// In a run with an end, a channel's first task takes at most a third of it, at so long a page.
const (
	firstShare = 3
	pondFetch  = pond.Gap + 100*time.Millisecond
)

// openPond goes on with the pond of the data folder, or begins one.
func (c *upCmd) openPond(data string) (*pond.Server, error) {
	path := filepath.Join(data, "pond.json")
	cfg, before := pond.Default(), ""
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
		before, cfg.Addr = cfg.Addr, ""
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
	s, err := servePond(w, before)
	if err != nil {
		return nil, err
	}
	if s.Addr().String() != before {
		if err := os.MkdirAll(data, 0o700); err != nil {
			return nil, fmt.Errorf("the data folder cannot be made: %w; name another with --data", err)
		}
		b, err := json.MarshalIndent(w.Config(), "", "  ")
		if err == nil {
			err = member.WriteFile(path, append(b, '\n'))
		}
		if err != nil {
			return nil, fmt.Errorf("write the pond's description: %w", err)
		}
	}
	return s, nil
}

// servePond serves a pond where it was before, as peers that joined know it, unless another program has that port now.
func servePond(w *pond.World, before string) (*pond.Server, error) {
	at, _ := netip.ParseAddrPort(before) // port 0 if there is none
	port, err := ports.Again(int(at.Port()))
	if err != nil {
		return nil, err
	}
	return pond.NewServer(w, fmt.Sprintf("127.0.0.1:%d", port), nil)
}

// pondChannels has a channel for every host of the pond.
func pondChannels(w *pond.World) []channel.Channel {
	var chs []channel.Channel
	for i := range w.Hosts() {
		chs = append(chs, channel.Channel{Scope: channel.Scope{Kind: channel.WholeHost, Host: w.Origin(i)}, Seeds: []string{w.URL(i, 0)}})
	}
	return chs
}

// pondMark is a file in the data folder of a manager that crawls a pond, so that what is added while it is stopped is checked too.
const pondMark = "crawls-a-pond"

// onlyPond refuses a data folder whose network crawls a pond to a manager that is to crawl the Web: no host of its channels would be found there.
func onlyPond(data string) error {
	if !crawlsPond(data) {
		return nil
	}
	other := "give --pond with the address where it is served"
	if again := starts(data); !strings.HasPrefix(again, "shoal manager") {
		other = "go on with it by `" + again + "`"
	}
	return fmt.Errorf("the network in %s crawls a pond, the synthetic Web, and not the Web: %s; for the Web name another folder with --data", data, other)
}

// besides says that a folder in which a new network begins has networks of `shoal up` too. Empty: it has none, or the network is there already.
func besides(ctx context.Context, data string) string {
	has := func(at string) bool {
		_, err := os.Stat(filepath.Join(at, "keys"))
		return err == nil
	}
	if has(data) {
		return ""
	}
	var there []string
	for _, at := range archivecmd.Beneath(ctx, data, has) {
		there = append(there, "`"+starts(at)+"`")
	}
	if len(there) == 0 {
		return ""
	}
	return fmt.Sprintf("This is a new network. %s has another one as well, which goes on with %s.", data, strings.Join(there, " or "))
}

// pondNames is the domain of a pond's hosts.
const pondNames = pond.Suffix

// webReach refuses what peers cannot fetch from the Web.
func webReach(origin string) error {
	if u, err := url.Parse(origin); err == nil && strings.HasSuffix(u.Hostname(), pondNames) {
		return fmt.Errorf("%s is a host of the pond, the synthetic Web, which this manager does not crawl: try it with shoal up", origin)
	}
	return desk.PublicHost(origin)
}

// reachOf is what the peers of a stopped manager can fetch.
func reachOf(data string) func(origin string) error {
	if crawlsPond(data) {
		return pondReach
	}
	return webReach
}

// crawlsPond reports whether a data folder is of a manager that crawls a pond.
func crawlsPond(data string) bool {
	_, err := os.Stat(filepath.Join(data, pondMark))
	return err == nil
}

// pondReach refuses what is no host of a pond.
func pondReach(origin string) error {
	if u, err := url.Parse(origin); err == nil && strings.HasSuffix(u.Hostname(), pondNames) {
		return nil
	}
	return fmt.Errorf("%s is not a host of the pond, the synthetic Web that this manager crawls: to crawl the Web, run shoal up URL, or shoal manager without --pond", origin)
}
