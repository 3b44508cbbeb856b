package manager

import (
	"context"
	"fmt"
	"slices"
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

// admitFound takes discovered hosts in when all channels are crawled as often as they need and peers idle. Called on the loop.
func (m *Manager) admitFound(now time.Time) {
	if m.cfg.Discover != DiscoverHost && m.cfg.Discover != DiscoverAny || m.admitting || m.discovered >= m.cfg.DiscoverMost ||
		m.due > 0 || now.Before(m.admitAt) || m.machine.Held(now) || m.stopped {
		return
	}
	n := min(m.machine.Room(now), admitMost, m.cfg.DiscoverMost-m.discovered)
	if n <= 0 {
		return
	}
	m.admitting, m.admitAt = true, now.Add(m.cfg.Tick)
	m.wg.Add(1)
	go func() {
		defer m.wg.Done()
		ctx, cancel := context.WithTimeout(m.life, admitTimeout)
		defer cancel()
		added, err := m.admitHosts(ctx, now, n)
		m.post(m.life, func(time.Time) {
			m.admitting = false
			m.discovered += added
			if err != nil {
				m.log.Error("discovered hosts not added", "err", err)
				m.countError("discovery")
			}
		})
	}()
}

// admitHosts makes channels of candidates. It runs beside the loop.
func (m *Manager) admitHosts(ctx context.Context, now time.Time, n int) (int, error) {
	if m.cfg.Discover == DiscoverHost {
		if err := m.sites.read(ctx, m.cfg.Store); err != nil {
			return 0, err
		}
	}
	found, err := m.cfg.Store.Candidates(ctx, admitLook)
	if err != nil {
		return 0, err
	}
	var chs []channel.Channel
	var hosts []string
	for _, c := range found {
		if len(chs) == n {
			break
		}
		if len(c.Seeds) == 0 || m.cfg.Discover == DiscoverHost && !m.sites.of[siteKey(c.Host)] {
			continue
		}
		why, err := WhyBlocked(ctx, m.cfg.Store, c.Host)
		if err != nil {
			return 0, err
		}
		hosts = append(hosts, c.Host)
		if why != "" {
			continue
		}
		chs = append(chs, channel.Channel{Scope: channel.Scope{Kind: channel.WholeHost, Host: c.Host}, Seeds: c.Seeds, Added: now, State: channel.Active})
	}
	if len(hosts) == 0 {
		return 0, nil
	}
	done, err := m.cfg.Store.Import(ctx, m.epoch, channel.Lines(chs))
	if err != nil {
		return 0, err
	}
	if done.Added > 0 {
		if _, err := m.Adopt(ctx, done.First, done.Last, func() {}); err != nil {
			return 0, err
		}
	}
	m.log.Info("discovered hosts added", "channels", done.Added)
	count := strconv.Itoa(m.discovered + done.Added)
	if err := m.cfg.Store.PutState(ctx, m.epoch, stateDiscovered, []byte(count)); err != nil {
		return done.Added, err
	}
	return done.Added, m.cfg.Store.DropCandidates(ctx, m.epoch, hosts)
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

// isBlocked tells the same of what the loop knows.
func (m *Manager) isBlocked(origin string) bool {
	blocked := func(origin string) bool { return m.machine.Blocked(channel.KeyOf(origin)) != "" }
	if blocked(origin) {
		return true
	}
	hosts, port := channel.HostsOf(origin)
	return port && !slices.ContainsFunc(hosts.Origins(), func(o string) bool { return !blocked(o) })
}
