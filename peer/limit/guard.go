// Package limit decides how much of a volunteer's machine and network Shoal may use, and remembers who said so. Guard
// is the dial function of every crawl: it reaches public Web servers and nothing else.
//
// The package does not decide what to crawl (see peer/queue), or when to fetch the next page of a host (see
// peer/crawl).
package limit

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"syscall"
	"time"

	"code.dny.dev/ssrf"

	"shoal/channel"
)

// ErrForbidden is returned for an address that a crawl must not dial. The wrapping error says why.
var ErrForbidden error = forbidden{}

type forbidden struct{}

func (forbidden) Error() string { return "limit: not a public Web server" }

// ErrorKind is the error's name in a crawl's report.
func (forbidden) ErrorKind() string { return "forbidden-address" }

// PondSuffix ends the host names of a synthetic Web. Public names cannot end so: .test is reserved (RFC 6761).
const PondSuffix = ".pond.test"

// Bounds of one dial.
const (
	maxAddrs    = 8                      // addresses tried
	stagger     = 250 * time.Millisecond // pause before the next address is tried as well (RFC 8305, section 5)
	dialTimeout = 15 * time.Second       // each address
)

// Resolver looks up the addresses of a name. *net.Resolver implements it.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// DialFunc is the type of net.Dialer.DialContext and http.Transport.DialContext.
type DialFunc func(ctx context.Context, network, addr string) (net.Conn, error)

// Guard dials public addresses only. It checks every address at the moment of dialling, as the operating system sees
// it, so that neither a redirect nor a name that changes its address leads elsewhere. Its fields must not change
// after the first dial.
type Guard struct {
	Resolver Resolver // nil: the system's
	Home     *Home    // addresses of the volunteer and of other members, which are refused; nil: none is known
	Pond     DialFunc // dials names under PondSuffix; nil: they are refused
	// Control is called on each socket after the check and before it connects, to set options such as DSCP. It may be
	// nil.
	Control func(network, address string, c syscall.RawConn) error
	// Allow adds a check, such as a policy's denied networks or a volunteer's list. Nil allows all public addresses.
	Allow func(host string, addr netip.Addr) error
	Wrap  func(net.Conn) net.Conn // accounts for a connection's bytes; nil: nothing
	// Via returns the admin's proxy for a dial, or nil for none. It may be nil. Guard checks an address before it
	// passes it to a proxy.
	Via func() *Proxy
}

// ToPond returns a dial function that reaches one loopback address whatever the name. It lets crawls reach a
// synthetic Web.
func ToPond(at netip.AddrPort) (DialFunc, error) {
	if !at.IsValid() || !at.Addr().Unmap().IsLoopback() {
		return nil, fmt.Errorf("%w: a pond is on a loopback address, not on %v", ErrForbidden, at)
	}
	var d net.Dialer
	return func(ctx context.Context, network, _ string) (net.Conn, error) {
		return d.DialContext(ctx, network, at.String())
	}, nil
}

// wireServer is an address in Microsoft's cloud that tells a machine about itself. No registry of special addresses
// lists it.
var wireServer = netip.AddrFrom4([4]byte{168, 63, 129, 16})

var guardian = ssrf.New(ssrf.WithAnyPort()) // holds no state that changes

// public checks an address against the registries of special-purpose addresses. A mapped IPv4 address counts as the
// address that it maps to.
func public(ap netip.AddrPort) error {
	network := "tcp6"
	addr := ap.Addr().WithZone("")
	if addr.Is4() || addr.Is4In6() {
		network, addr = "tcp4", addr.Unmap()
	}
	if addr == wireServer {
		return fmt.Errorf("%w: %v: a cloud's metadata", ErrForbidden, addr)
	}
	if err := guardian.Safe(network, netip.AddrPortFrom(addr, ap.Port()).String(), nil); err != nil {
		return fmt.Errorf("%w: %v: %w", ErrForbidden, ap.Addr(), err)
	}
	return webPort(ap.Port())
}

// webPort refuses ports on which no public Web server is expected.
func webPort(p uint16) error {
	if !channel.WebPort(p) {
		return fmt.Errorf("%w: port %d; peers fetch from ports 80, 443 and 8000 to 8999 only, less those of other services", ErrForbidden, p)
	}
	return nil
}

// DialContext connects to "host:port".
func (g *Guard) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	host, portText, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrForbidden, err)
	}
	if InPond(host) {
		if g.Pond == nil {
			return nil, fmt.Errorf("%w: %s belongs to a synthetic Web, and none is set up", ErrForbidden, host)
		}
		start := time.Now()
		c, err := g.Pond(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return g.wrap(timed{c, time.Since(start)}), nil
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("%w: port %q", ErrForbidden, portText)
	}
	if err := webPort(uint16(port)); err != nil {
		return nil, err
	}
	addrs, err := g.resolve(ctx, host)
	if err != nil {
		return nil, err
	}
	if g.Home != nil {
		g.Home.look()
	}
	var targets []netip.AddrPort
	var refused error
	for _, a := range addrs {
		at := netip.AddrPortFrom(a.Unmap(), uint16(port))
		if err := g.check(host, at); err != nil {
			refused = err
			continue
		}
		targets = append(targets, at)
	}
	if len(targets) == 0 {
		return nil, refused
	}
	return g.race(ctx, host, alternate(targets))
}

func (g *Guard) wrap(c net.Conn) net.Conn {
	if c == nil || g.Wrap == nil {
		return c
	}
	return g.Wrap(c)
}

// InPond reports whether a host name is one of a synthetic Web.
func InPond(host string) bool {
	return strings.HasSuffix(strings.ToLower(strings.TrimSuffix(host, ".")), PondSuffix)
}

func (g *Guard) check(host string, at netip.AddrPort) error {
	if err := public(at); err != nil {
		return err
	}
	if g.Home != nil {
		if err := g.Home.check(at.Addr()); err != nil {
			return err
		}
	}
	if g.Allow != nil {
		return g.Allow(host, at.Addr())
	}
	return nil
}

func (g *Guard) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a}, nil
	}
	r := g.Resolver
	if r == nil {
		r = net.DefaultResolver
	}
	addrs, err := r.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	if len(addrs) == 0 {
		return nil, &net.DNSError{Err: "no addresses", Name: host, IsNotFound: true}
	}
	return addrs, nil
}

// alternate orders addresses so that families take turns, IPv6 first (RFC 8305, section 4).
func alternate(in []netip.AddrPort) []netip.AddrPort {
	var six, four, out []netip.AddrPort
	for _, a := range in {
		if a.Addr().Is4() {
			four = append(four, a)
		} else {
			six = append(six, a)
		}
	}
	for len(out) < maxAddrs && len(six)+len(four) > 0 {
		if len(six) > 0 {
			out, six = append(out, six[0]), six[1:]
		}
		if len(four) > 0 && len(out) < maxAddrs {
			out, four = append(out, four[0]), four[1:]
		}
	}
	return out
}

type dialled struct {
	conn net.Conn
	err  error
}

// race tries the addresses one after the other. It starts each one a little after the last, or as soon as that one
// has failed. The first connection wins.
func (g *Guard) race(ctx context.Context, host string, targets []netip.AddrPort) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results := make(chan dialled)
	next := time.NewTimer(0)
	defer next.Stop()
	var last error
	started, open := 0, 0
	for {
		select {
		case <-next.C:
			if started < len(targets) {
				at := targets[started]
				started, open = started+1, open+1
				go func() {
					c, err := g.dial(ctx, host, at)
					results <- dialled{c, err}
				}()
				next.Reset(stagger)
			}
		case r := <-results:
			open--
			if r.err == nil {
				cancel()
				for ; open > 0; open-- { // the losers end at once: their context is done
					if l := <-results; l.conn != nil {
						l.conn.Close()
					}
				}
				return g.wrap(r.conn), nil
			}
			last = r.err
			if started == len(targets) && open == 0 {
				return nil, last
			}
			next.Reset(0)
		}
	}
}

func (g *Guard) dial(ctx context.Context, host string, at netip.AddrPort) (net.Conn, error) {
	if g.Via != nil {
		if p := g.Via(); p != nil {
			if err := g.check(host, at); err != nil {
				return nil, err
			}
			return p.DialContext(ctx, "tcp", at.String())
		}
	}
	d := net.Dialer{Timeout: dialTimeout, Control: func(network, address string, c syscall.RawConn) error {
		ap, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrForbidden, err)
		}
		if err := g.check(host, ap); err != nil {
			return err
		}
		if g.Control != nil {
			return g.Control(network, address, c)
		}
		return nil
	}}
	start := time.Now()
	c, err := d.DialContext(ctx, "tcp", at.String())
	if err != nil {
		return nil, err
	}
	return timed{c, time.Since(start)}, nil
}

// timed is a connection that knows the duration of its handshake: the round-trip time to the host.
type timed struct {
	net.Conn
	took time.Duration
}

func (t timed) ConnectTime() time.Duration { return t.took }

func (t timed) SetLinger(sec int) error { return linger(t.Conn, sec) }

// linger says what becomes of what was written to a connection and not sent when it is closed, as *net.TCPConn's SetLinger does. Each wrapper of a
// crawl's connection passes it on: a request that was given up must not be sent later, beside another one.
func linger(c net.Conn, sec int) error {
	if l, ok := c.(interface{ SetLinger(int) error }); ok {
		return l.SetLinger(sec)
	}
	return nil
}
