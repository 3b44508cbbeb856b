package manager

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/publicsuffix"

	"shoal/channel"
)

// Discover says what becomes of the URLs of other sites that crawls find.
type Discover string

// The four choices.
const (
	DiscoverOff    Discover = "off"    // nothing is kept
	DiscoverListed Discover = "listed" // listed channels get those that point to them; other hosts are noted, to be looked at and added by hand
	DiscoverHost   Discover = "host"   // further hosts of listed sites become channels, as news.example.org beside example.org
	DiscoverAny    Discover = "any"    // any host becomes a channel
)

// Limits of discovery.
const (
	admitMost    = 32               // channels admitted at a time
	admitLook    = 512              // candidates looked at, the ones found most often
	admitTimeout = 30 * time.Second // for the writes
)

// stateDiscovered names what the database keeps: how many channels discovery has added.
const stateDiscovered = "manager/discovered"

// validate says what may be chosen.
func (d Discover) validate() error {
	switch d {
	case "", DiscoverOff, DiscoverListed, DiscoverHost, DiscoverAny:
		return nil
	}
	return fmt.Errorf("%w: discover %q: want off, listed, host or any", ErrConfig, string(d))
}

// discovery makes channels of hosts that crawls have found. Owned by the loop, but for sites.
type discovery struct {
	*core
	roster     *roster
	admitting  bool // beside the loop
	admitAt    time.Time
	discovered int // channels that it has added, ever
	sites      sites
}

// admit takes discovered hosts in when all channels are crawled as often as they need and peers idle. Called on the loop.
func (d *discovery) admit(ctx context.Context, now time.Time) {
	if d.cfg.Discover != DiscoverHost && d.cfg.Discover != DiscoverAny || d.admitting || d.discovered >= d.cfg.DiscoverMost ||
		d.due() > 0 || now.Before(d.admitAt) || d.machine.Held(now) {
		return
	}
	n := min(d.machine.Room(now), admitMost, d.cfg.DiscoverMost-d.discovered)
	if n <= 0 {
		return
	}
	d.admitting, d.admitAt = true, now.Add(d.cfg.Tick)
	d.beside.Go(func() {
		limited, cancel := context.WithTimeout(ctx, admitTimeout)
		defer cancel()
		added, err := d.admitHosts(limited, now, n)
		d.post(ctx, func(time.Time) {
			d.admitting = false
			d.discovered += added
			if err != nil {
				d.log.Error("discovered hosts not added", "err", err)
				d.tally.fault("discovery")
			}
		})
	})
}

// admitHosts makes channels of candidates. It runs beside the loop.
func (d *discovery) admitHosts(ctx context.Context, now time.Time, n int) (int, error) {
	if d.cfg.Discover == DiscoverHost {
		if err := d.sites.read(ctx, d.cfg.Store); err != nil {
			return 0, err
		}
	}
	others, err := d.others(ctx)
	if n = min(n, d.cfg.DiscoverMost-d.discovered-others); err != nil || n <= 0 {
		return others, err
	}
	found, err := d.cfg.Store.Candidates(ctx, admitLook)
	if err != nil {
		return 0, err
	}
	var chs []channel.Channel
	var hosts []string
	for _, c := range found {
		if len(chs) == n {
			break
		}
		if len(c.Seeds) == 0 || d.cfg.Discover == DiscoverHost && !d.sites.of[siteKey(c.Host)] {
			continue
		}
		why, err := WhyBlocked(ctx, d.cfg.Store, c.Host)
		if err != nil {
			return 0, err
		}
		hosts = append(hosts, c.Host)
		scope := channel.Scope{Kind: channel.WholeHost, Host: c.Host}
		if why != "" || scope.Validate() != nil { // one that is no host would cost all of them their channels
			continue
		}
		chs = append(chs, channel.Channel{Scope: scope, Seeds: c.Seeds, Added: now, State: channel.Active})
	}
	if len(hosts) == 0 {
		return others, nil
	}
	done, err := d.cfg.Store.Import(ctx, d.epoch, channel.Lines(chs))
	if err != nil {
		return 0, err
	}
	if done.Added > 0 {
		if _, err := d.roster.Adopt(ctx, done.First, done.Last, func() {}); err != nil {
			return 0, err
		}
	}
	d.log.Info("discovered hosts added", "channels", done.Added)
	added, err := d.count(ctx, done.Added)
	if err != nil {
		return done.Added, err
	}
	return added, d.cfg.Store.DropCandidates(ctx, d.epoch, hosts)
}

// count keeps that channels were added, and returns how many have been since this manager counted last. Managers that share a network count together.
func (d *discovery) count(ctx context.Context, added int) (int, error) {
	if d.tenancy == nil {
		return added, d.cfg.Store.PutState(ctx, d.epoch, stateDiscovered, []byte(strconv.Itoa(d.discovered+added)))
	}
	all := 0
	err := d.tenancy.Shared.Change(ctx, stateDiscovered, func(b []byte) ([]byte, error) {
		was, err := parseDiscovered(b)
		all = was + added
		return []byte(strconv.Itoa(all)), err
	})
	if err != nil {
		return added, err
	}
	return all - d.discovered, nil
}

// others is how many channels other managers have added since this one counted last.
func (d *discovery) others(ctx context.Context) (int, error) {
	if d.tenancy == nil {
		return 0, nil
	}
	b, err := d.cfg.Store.State(ctx, stateDiscovered)
	if err != nil {
		return 0, err
	}
	all, err := parseDiscovered(b)
	return all - d.discovered, err
}

// parseDiscovered reads how many channels discovery has added; nothing is kept before the first.
func parseDiscovered(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	n, err := strconv.Atoi(string(b))
	if err != nil {
		return 0, fmt.Errorf("how many channels were discovered is damaged: %w", err)
	}
	return n, nil
}

const sitesBatch = 500 // channels read at a time

// sites are those that have channels, read from the database as far as needed. One that was listed stays so until the manager is started
// again. Only admitHosts touches them, and it runs once at a time.
type sites struct {
	of   map[channel.HostKey]bool
	upTo channel.ID
}

// read takes in the channels that came since the last time.
func (s *sites) read(ctx context.Context, st Store) error {
	if s.of == nil {
		s.of = map[channel.HostKey]bool{}
	}
	for {
		chs, err := st.List(ctx, s.upTo, sitesBatch)
		if err != nil || len(chs) == 0 {
			return err
		}
		for i := range chs {
			s.of[siteKey(chs[i].Scope.Host)] = true
			s.upTo = chs[i].ID
		}
	}
}

func siteKey(origin string) channel.HostKey { return channel.KeyOf(siteOf(origin)) }

// siteOf is the registered domain that a host belongs to.
func siteOf(origin string) string {
	_, host, _ := strings.Cut(origin, "://")
	host, _, _ = strings.Cut(host, ":")
	if site, err := publicsuffix.EffectiveTLDPlusOne(host); err == nil {
		return site
	}
	return host
}

// WhyBlocked is why nothing of an origin is crawled: it is blocked, or its host is, whatever the port. Empty: it is not.
func WhyBlocked(ctx context.Context, st Store, origin string) (why string, err error) {
	h, err := st.Host(ctx, origin)
	if err != nil {
		return "", fmt.Errorf("read host %s: %w", origin, err)
	}
	hosts, port := channel.HostsOf(origin)
	if h.Blocked != "" || !port {
		return h.Blocked, nil
	}
	for _, usual := range hosts.Origins() { // both are, if the host is
		if h, err = st.Host(ctx, usual); err != nil {
			return "", fmt.Errorf("read host %s: %w", usual, err)
		}
		if h.Blocked == "" {
			break
		}
	}
	return h.Blocked, nil
}
