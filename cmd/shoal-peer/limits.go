package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/p2p/transport/tcp"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"

	"shoal/internal/plain"
	"shoal/peer"
	"shoal/peer/limit"
	"shoal/peer/words"
)

// Intervals at which the limits are checked.
const (
	governEvery  = time.Second
	machineEvery = 10 * time.Second
	lookedFor    = time.Minute      // how long the use of the computer is asked after a look at it, where no setting needs it
	supplyEvery  = 30 * time.Second // battery and link
	diskEvery    = 5 * time.Second
	policyEvery  = time.Minute
	fetchEvery   = 15 * time.Minute // a policy from a URL; every minute while it cannot be fetched
	policyWait   = 20 * time.Second
	usageEvery   = 10 * time.Second
	historyEvery = time.Minute // a kill loses no more of the history
)

// policies reads the admin's policies: the machine's own file at each look, and those from URLs when they are due.
// The peer fetches nothing while the machine's own file cannot be read, or until a policy from a URL has been fetched
// once, because a limit must not vanish with a typing error or a restart. One goroutine at a time owns it.
type policies struct {
	p       *program
	file    string
	fetched map[string]time.Time // when one from elsewhere was had last, by its URL; zero: not yet
	own     string               // URL that the machine's own policy names
	wrong   map[string]bool      // what was had last makes no sense, by name; nothing is fetched since
	gone    map[string]bool      // it was taken away, by name; nothing of it is in force since
	asked   map[string]bool      // URLs that ask is fetching from
	came    chan fetchedPolicy   // what ask has fetched
}

// fetchedPolicy is what a URL answered.
type fetchedPolicy struct {
	url    string
	at     time.Time // when it was asked
	policy *limit.Policy
	err    error
}

func newPolicies(p *program) *policies {
	return &policies{p: p, file: limit.PolicyFile, fetched: map[string]time.Time{}, wrong: map[string]bool{}, gone: map[string]bool{}, asked: map[string]bool{}, came: make(chan fetchedPolicy)}
}

// read looks and waits for the answers of all URLs that are due.
func (s *policies) read(ctx context.Context, now time.Time) {
	for _, url := range s.due(now) {
		a := s.fetch(ctx, url, now)
		if ctx.Err() != nil {
			return
		}
		s.take(a)
	}
}

// ask looks and has the URLs that are due fetched beside the caller, who gives what comes to take. It adds to wg what it starts, which ends with ctx.
// What a URL says that was never had may forbid everything, so nothing is fetched before it is there.
func (s *policies) ask(ctx context.Context, wg *sync.WaitGroup, now time.Time) {
	for _, url := range s.due(now) {
		if s.asked[url] {
			continue
		}
		s.asked[url] = true
		if _, tried := s.fetched[url]; !tried {
			s.fetched[url] = time.Time{}
			s.hold(url, words.T("note.held.coming"))
		}
		wg.Go(func() {
			select {
			case s.came <- s.fetch(ctx, url, now):
			case <-ctx.Done():
			}
		})
	}
}

// due reads the machine's own file, forgets the URLs that nobody names any more, and returns those that are to be fetched from now.
func (s *policies) due(now time.Time) (urls []string) {
	pol, err := limit.ReadPolicy(s.file)
	s.set(s.file, pol, err, false)
	if err == nil {
		s.own = ""
		if pol != nil {
			s.own = pol.PolicyURL
		}
	}
	for url := range s.fetched {
		if !s.named(url) {
			delete(s.fetched, url)
			s.set(url, nil, nil, false)
		}
	}
	for _, url := range []string{s.own, s.p.now().PolicyURL} {
		if at, known := s.fetched[url]; url == "" || known && now.Sub(at) < fetchEvery || slices.Contains(urls, url) {
			continue
		}
		urls = append(urls, url)
	}
	return urls
}

// named reports whether the machine's own policy or the settings name a URL.
func (s *policies) named(url string) bool { return url == s.own || url == s.p.now().PolicyURL }

// take puts in force what a URL answered, or says why it is not.
func (s *policies) take(a fetchedPolicy) {
	delete(s.asked, a.url)
	if !s.named(a.url) { // any more
		return
	}
	at := s.fetched[a.url]
	s.set(a.url, a.policy, a.err, !at.IsZero())
	switch {
	case a.err == nil:
		at = a.at
	case !at.IsZero(): // once more in a minute
		at = a.at.Add(policyEvery - fetchEvery)
	}
	s.fetched[a.url] = at
}

// fetch ignores any proxy in the user's environment, because such a proxy could answer in the admin's place.
func (s *policies) fetch(ctx context.Context, url string, now time.Time) fetchedPolicy {
	ctx, cancel := context.WithTimeout(ctx, policyWait)
	defer cancel()
	t := &http.Transport{DisableKeepAlives: true, DialContext: s.p.direct}
	defer t.CloseIdleConnections()
	pol, err := limit.FetchPolicy(ctx, &http.Client{Transport: t}, url)
	return fetchedPolicy{url, now, pol, err}
}

// hold has nothing fetched because of a policy, and reports whether that is new.
func (s *policies) hold(name string, why words.Text) (news bool) {
	s.p.limits.SetPolicy(name, &limit.Policy{Off: true, Why: limit.PolicyUnread})
	return s.p.notes.set(matter("policy", limit.Shown(name)), why)
}

// set puts a policy in force, or says why it is not. holds tells that an earlier version of it is in force.
func (s *policies) set(name string, pol *limit.Policy, err error, holds bool) {
	p, what, shown, wrong := s.p, matter("policy", limit.Shown(name)), limit.Shown(name), false
	defer func() { s.wrong[name] = wrong }()
	why := ""
	if err != nil {
		why = saidBy(what.In(words.English), name, err)
	}
	switch {
	case err == nil:
		delete(s.gone, name)
		p.limits.SetPolicy(name, pol)
		if pol != nil && pol.PolicyURL != "" && name != s.file { // such a chain could have no end, and the file cannot be changed over the network
			p.notes.set(what, words.T("note.further", limit.Shown(pol.PolicyURL)))
		} else if p.notes.clear(what) {
			p.log.Info("the policy can be read again", "policy", shown)
		}
	case holds && errors.Is(err, limit.ErrNoPolicy): // the admin has taken it away
		s.gone[name] = true
		p.limits.SetPolicy(name, nil)
		if p.notes.set(what, words.T("note.gone")) {
			p.log.Warn("a policy was taken away; nothing of it is in force", "policy", shown, "err", why)
		}
	case holds && !errors.Is(err, limit.ErrSettings) && s.wrong[name]: // it makes no sense until another one is there, and what is told of it stays
		wrong = true
	case holds && !errors.Is(err, limit.ErrSettings):
		says := words.T("note.stays", why)
		if s.gone[name] {
			says = words.T("note.stays.gone", why)
		}
		if p.notes.set(what, says) {
			p.log.Warn("a policy cannot be fetched", "policy", shown, "err", why)
		}
	default:
		wrong = errors.Is(err, limit.ErrSettings)
		if s.hold(name, words.T("note.held.unread", why)) {
			p.log.Error("a policy cannot be read; nothing is fetched until it is", "policy", shown, "err", why)
		}
	}
}

// proxies holds the proxy in force, built once.
type proxies struct {
	mu   sync.Mutex
	dial limit.DialFunc
	at   string
	now  *limit.Proxy
}

// members sets how the peer reaches members: with sockets under the limits, and through the admin's proxy.
func (p *program) members(cfg *peer.Config, meter *limit.Meter) {
	cfg.Names = meter.Resolver(p.socket)
	nodes := &net.Dialer{Control: p.socket, Resolver: cfg.Names, KeepAlive: -1} // the members' protocol has keep-alives of its own
	p.proxy.mu.Lock()
	p.proxy.dial = nodes.DialContext
	p.proxy.mu.Unlock()
	cfg.Socket = p.socket
	cfg.Dialer = func(ma.Multiaddr) (tcp.ContextDialer, error) { return proxiedDialer{nodes, p}, nil }
	cfg.Bar = p.aroundProxy
	if p.via() != nil {
		cfg.QUIC = false // it knows no proxies
	}
}

// aroundProxy reports whether a connection to an address would go around the admin's proxy. QUIC knows no proxies.
func (p *program) aroundProxy(a ma.Multiaddr) bool {
	if p.via() == nil {
		return false
	}
	if _, err := a.ValueForProtocol(ma.P_QUIC_V1); err != nil {
		return false
	}
	ip, err := manet.ToIP(a)
	if err != nil {
		return false // a relay's, which is dialled by itself
	}
	at, _ := netip.AddrFromSlice(ip)
	return !limit.Near(at)
}

// follow makes connections anew after a proxy came, changed or went. Those that were open would go on around it.
func (p *program) follow(f *limit.Force, last *string) {
	if f.Proxy == *last {
		return
	}
	*last = f.Proxy
	outside := func(a netip.Addr) bool { return !limit.Near(a) }
	n := p.meter.Cut(outside)
	for _, x := range p.nets.all() {
		n += x.meter.Cut(outside)
		x.agent.Redial()
	}
	p.log.Info("the way to the outside has changed; connections are made anew", "proxy", cmp.Or(f.ProxyAt, "none"), "closed", n)
}

// followDenied lets go of what policies have come to deny: tasks of domains are given back, and connections into networks end. A crawl looks at an address only when
// it connects.
func (p *program) followDenied(last *[]limit.Ban) {
	now := p.limits.Denied(nil, "")
	if slices.Equal(now, *last) {
		return
	}
	*last = now
	wake(p.lists)
	n := 0
	for _, x := range p.nets.all() {
		n += x.meter.Cut(func(a netip.Addr) bool { return p.limits.DeniesAddr("", a) != nil })
	}
	if n > 0 {
		p.log.Info("connections into networks that a policy denies now are closed", "closed", n)
	}
}

// via returns the admin's proxy, or nil.
func (p *program) via() *limit.Proxy {
	at := p.limits.At(time.Now()).Proxy
	p.proxy.mu.Lock()
	defer p.proxy.mu.Unlock()
	if at != p.proxy.at {
		p.proxy.at, p.proxy.now = at, nil
		if at != "" {
			p.proxy.now, _ = limit.NewProxy(at, p.proxy.dial) // it was looked at with its policy
		}
	}
	return p.proxy.now
}

// direct dials without a proxy, under the limits.
func (p *program) direct(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := (&net.Dialer{Control: p.socket, Resolver: p.meter.Resolver(p.socket)}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return p.meter.Wrap(c), nil
}

// outside dials as crawls do: through the admin's proxy where there is one, but for addresses of this computer and its own networks.
func (p *program) outside(ctx context.Context, network, addr string) (net.Conn, error) {
	via := p.via()
	if via == nil {
		return p.direct(ctx, network, addr)
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	all, err := p.meter.Resolver(p.socket).LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	err = &net.DNSError{Err: "no addresses", Name: host, IsNotFound: true}
	for _, a := range all {
		dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := via.DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return p.meter.Wrap(c), nil
		}
		if limit.Near(a) {
			dial = p.direct
		}
		var c net.Conn
		if c, err = dial(ctx, network, net.JoinHostPort(a.Unmap().String(), port)); err == nil {
			return c, nil
		}
	}
	return nil, err
}

// proxiedDialer reaches members through the admin's proxy, except for members on this computer and its own networks.
type proxiedDialer struct {
	*net.Dialer
	p *program
}

func (d proxiedDialer) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	if via := d.p.via(); via != nil {
		if at, err := netip.ParseAddrPort(addr); err == nil && !limit.Near(at.Addr()) {
			return via.DialContext(ctx, network, addr)
		}
	}
	return d.Dialer.DialContext(ctx, network, addr)
}

// govern keeps the limits in force up to date. Nothing in its loop waits for the network.
func (p *program) govern(ctx context.Context, admin *policies) {
	var asking sync.WaitGroup
	defer asking.Wait()
	tick := time.NewTicker(governEvery)
	defer tick.Stop()
	policy, usage, history := time.Now(), time.Now(), time.Now()
	var machine, supply, disk time.Time
	var busy, fed, full words.Text
	var m limit.Machine
	proxy, denied := p.limits.At(policy).Proxy, p.limits.Denied(nil, "") // of the start
	for {
		now := time.Now()
		if now.Sub(policy) >= policyEvery {
			policy = now
			admin.ask(ctx, &asking, now)
		}
		if now.Sub(supply) >= supplyEvery {
			fed, supply = p.supply(), now
		}
		if now.Sub(disk) >= diskEvery {
			full, disk = p.disk(), now
		}
		if now.Sub(machine) >= machineEvery {
			busy, machine = p.machine(&m), now
		}
		p.tally(now)
		received, sent := p.readings(now)
		p.record(now, received, sent)
		if now.Sub(usage) >= usageEvery {
			usage = now
			p.keepUsage()
		}
		if now.Sub(history) >= historyEvery {
			history = now
			p.keepHistory()
		}
		f := p.limits.At(now)
		p.follow(&f, &proxy)
		p.followDenied(&denied)
		p.shareRates(&f)
		p.spread()
		list := p.nets.all()
		over := p.overShares(list, &f, now)
		for i, n := range list {
			n.hold(pausedBy(&f, now), over[i], full, fed, busy)
		}
		select {
		case <-tick.C:
		case a := <-admin.came:
			admin.take(a)
		case <-p.wake:
			policy, machine, supply, disk = time.Time{}, time.Time{}, time.Time{}, time.Time{}
		case <-ctx.Done():
			return
		}
	}
}

// because returns why a setting holds the peer.
func (p *program) because(setting, key string, args ...any) words.Text {
	return words.T("source", words.T(key, args...), words.T("from.you.at", setting))
}

// tally counts what the agents have done.
func (p *program) tally(now time.Time) {
	for _, n := range p.nets.all() {
		n.count(now)
	}
}

// readings notes what was carried, and returns the bytes received and sent.
func (p *program) readings(now time.Time) (received, sent int64) {
	for _, n := range p.nets.all() {
		r, s := n.meter.Totals()
		n.speeds.note(now, r, s)
	}
	received, sent = p.meter.Totals()
	p.speeds.note(now, received, sent)
	return received, sent
}

// keepUsage writes down what was used and done, if there is anything new.
func (p *program) keepUsage() {
	p.tellLost(time.Now())
	counts := []*limit.Usage{p.usage}
	for _, n := range p.nets.all() {
		counts = append(counts, n.usage)
	}
	var err error
	some := false
	for _, u := range counts {
		if u.Changed() {
			some, err = true, errors.Join(err, u.Save())
		}
	}
	switch {
	case !some:
	case err != nil && p.notes.set(matter("budgets"), words.T("note.unkept.used", plain.Error(err))):
		p.log.Warn("usage not kept", "err", err)
	case err == nil:
		p.notes.clear(matter("budgets"))
	}
}

// disk returns why nothing more may be written to the disk, or "". It notes writes that failed.
func (p *program) disk() words.Text {
	if err := p.journal.Err(); err != nil {
		p.notes.set(matter("record"), words.T("note.missing", plain.Error(err)))
	} else {
		p.notes.clear(matter("record"))
	}
	free, err := limit.FreeDisk(p.set.Data)
	if least := p.now().MinFreeMiB; least > 0 && p.tells("room", err) && free < int64(least)<<20 {
		return p.because(fmt.Sprintf("min_free_mib %d", least), "why.disk", words.Num(free>>20), p.set.Data)
	}
	return words.Text{}
}

// supply returns why power or link forbid work now, or "".
func (p *program) supply() words.Text {
	s := p.limits.Settings()
	if s.OnBattery != "run" {
		if on, err := limit.OnBattery(); p.tells("battery", err) && on {
			return p.because("on_battery", "why.battery")
		}
	}
	if s.OnMetered != "run" {
		if on, err := limit.OnMetered(); p.tells("metered", err) && on {
			return p.because("on_metered", "why.metered")
		}
	}
	return words.Text{}
}

// machine returns why the computer must not be used now, or "".
func (p *program) machine(m *limit.Machine) words.Text {
	s := p.limits.Settings()
	var u limit.Use
	if s.InUse == "pause" || s.FullScreen == "pause" || time.Since(time.Unix(p.looked.Load(), 0)) < lookedFor { // else the answer is for nobody
		u = m.Use()
		p.use.Store(&u)
	}
	if s.InUse == "pause" && p.tells("use", u.Err()) && u.InUse {
		return p.because("in_use", "why.inuse")
	}
	if s.FullScreen == "pause" {
		var err error
		if u.FullBy == "" {
			err = limit.ErrUnknown
		}
		if p.tells("full", err) && u.Full {
			return p.because("full_screen", "why.fullscreen")
		}
	}
	busy, err := m.Busy()
	p.busy.Store(int64(busy))
	p.share.Store(math.Float64bits(m.Own()))
	if err != nil {
		p.busy.Store(-1)
	}
	if s.BusyPercent > 0 {
		if p.tells("busy", err) && busy > s.BusyPercent {
			return p.because("busy_percent", "why.busy", busy)
		}
	}
	return words.Text{}
}
