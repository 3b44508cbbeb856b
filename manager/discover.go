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
	admitLook    = 512              // candidates looked at, the ones found most often of those that may become channels
	admitShare   = 20               // of the time, at most one part goes into looking
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
	began := time.Now()
	d.beside.Go(func() {
		limited, cancel := context.WithTimeout(ctx, admitTimeout)
		defer cancel()
		added, err := d.admitHosts(limited, now, n)
		took := time.Since(began) // a million candidates take a while
		d.post(ctx, func(now time.Time) {
			d.admitting = false
			if at := now.Add(admitShare * took); at.After(d.admitAt) {
				d.admitAt = at
			}
			d.discovered += added
			if err != nil {
				d.log.Error("discovered hosts not added", "err", err)
				d.tally.fault(kindDiscovery)
			}
		})
	})
}

// admitHosts makes channels of candidates. It runs beside the loop.
func (d *discovery) admitHosts(ctx context.Context, now time.Time, n int) (int, error) {
	var want func(host string) bool
	if d.cfg.Discover == DiscoverHost {
		if err := d.sites.read(ctx, d.cfg.Store); err != nil {
			return 0, err
		}
		want = func(host string) bool { return d.sites.of[siteKey(host)] }
	}
	others, err := d.others(ctx)
	if n = min(n, d.cfg.DiscoverMost-d.discovered-others); err != nil || n <= 0 {
		return others, err
	}
	found, err := d.cfg.Store.Candidates(ctx, admitLook, want)
	if err != nil {
		return 0, err
	}
	found, hosts, err := Unlisted(ctx, d.cfg.Store, found) // those that have got channels are forgotten
	if err != nil {
		return 0, err
	}
	var chs []channel.Channel
	for _, c := range found {
		if len(chs) == n {
			break
		}
		if len(c.Seeds) == 0 {
			continue
		}
		why, err := WhyBlocked(ctx, d.cfg.Store, c.Host)
		if err != nil {
			return 0, err
		}
		hosts = append(hosts, c.Host)
		if has, err := hasChannels(ctx, d.cfg.Store, c.Host); err != nil {
			return 0, err
		} else if has { // an operator has chosen what is crawled of it
			continue
		}
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

// Unlisted are the candidates that no channel holds, and the hosts of those that one does by now: the whole host, or what was found of it.
func Unlisted(ctx context.Context, st Store, found []channel.Candidate) (left []channel.Candidate, listed []string, err error) {
	var urls []string
	for _, c := range found {
		urls = append(append(urls, c.Host+"/"), c.Seeds...)
	}
	ids, err := st.Holders(ctx, urls)
	if err != nil {
		return nil, nil, fmt.Errorf("read which of %d hosts that were found have channels: %w", len(found), err)
	}
	for _, c := range found {
		own := ids[:1+len(c.Seeds)]
		ids = ids[len(own):]
		if slices.ContainsFunc(own, func(id channel.ID) bool { return id != 0 }) {
			listed = append(listed, c.Host)
		} else {
			left = append(left, c)
		}
	}
	return left, listed, nil
}

// siblingsLook is how many channels of a host's name are looked at; those of its origins come before those of longer names.
const siblingsLook = 20

// hasChannels reports whether there are channels of an origin, as of a directory that holds nothing of what was found.
func hasChannels(ctx context.Context, st Store, origin string) (bool, error) {
	_, name, _ := strings.Cut(origin, "://")
	chs, _, err := st.Search(ctx, name, "", siblingsLook)
	if err != nil {
		return false, fmt.Errorf("search channels of %s: %w", name, err)
	}
	return slices.ContainsFunc(chs, func(ch channel.Channel) bool { return ch.Scope.Host == origin }), nil
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

// WhyBlocked is why nothing of an origin is crawled: it is blocked, or its host is, whatever the port, and it was not unblocked by itself. Empty: it is not.
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
			return "", nil
		}
	}
	let, err := st.State(ctx, unblockedState(origin))
	if err != nil {
		return "", fmt.Errorf("read whether %s was unblocked: %w", origin, err)
	}
	if len(let) > 0 {
		return "", nil
	}
	return h.Blocked, nil
}

// stateUnblocked begins the names of states that say that an origin with a port of its own is not blocked where its host is.
const stateUnblocked = "manager/unblocked/"

func unblockedState(origin string) string {
	return fmt.Sprintf("%s%016x", stateUnblocked, uint64(channel.KeyOf(origin)))
}

// SetUnblocked notes that an operator unblocked an origin with a port of its own, or that it was blocked after that. It changes nothing for others.
func SetUnblocked(ctx context.Context, st Store, e channel.Epoch, origin string, is bool) error {
	if _, port := channel.HostsOf(origin); !port {
		return nil
	}
	was, err := st.State(ctx, unblockedState(origin))
	if err != nil || is == (len(was) > 0) {
		return err
	}
	var now []byte
	if is {
		now = []byte{1}
	}
	return st.PutState(ctx, e, unblockedState(origin), now)
}
