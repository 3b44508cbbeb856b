//go:build linux

package netlab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

var (
	// ErrNotPermitted means that this system does not permit namespaces or TUN devices.
	ErrNotPermitted = errors.New("netlab: not permitted here")
	// ErrNoTools means that a program is missing.
	ErrNoTools = errors.New("netlab: a program is missing")
)

// labs counts the labs of this process: its number is part of the names of a lab.
var labs atomic.Int64

// Lab is a separate network. Labs do not see each other, so any number may be open at once.
type Lab struct {
	prefix string
	mu     sync.Mutex // guards all below, and the links
	sites  []*Host
	spaces []string
	links  map[[2]*Host]*link
	tap    func(from *Host, packet []byte)
	closed bool
	wg     sync.WaitGroup
}

// Host is a namespace. Any number of processes may run in it.
type Host struct {
	Addr netip.Addr
	lab  *Lab
	name string
	net  netip.Prefix
	net6 netip.Prefix // invalid: none
	tun  *os.File     // nil: a home
}

// New returns an empty lab, or an error that says why this system cannot have one.
func New() (*Lab, error) {
	for _, tool := range []string{"ip", "nft"} {
		if _, err := exec.LookPath(tool); err != nil {
			return nil, fmt.Errorf("%w: %s (apt-get install iproute2 nftables)", ErrNoTools, tool)
		}
	}
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("%w: only root may", ErrNotPermitted)
	}
	l := &Lab{prefix: fmt.Sprintf("shoal-%d-%d-%d-", os.Getpid(), time.Now().UnixNano()%1e6, labs.Add(1)), links: map[[2]*Host]*link{}}
	h, err := l.space("try")
	if err == nil {
		if err = h.ip("tuntap", "add", "dev", "try", "mode", "tun"); err == nil {
			err = h.nft("add table ip try")
		}
	}
	if err == nil {
		var f *os.File
		if f, err = h.open("try"); err == nil {
			err = f.Close()
		}
	}
	l.Close()
	l.spaces, l.closed = nil, false
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotPermitted, err)
	}
	return l, nil
}

// Open returns a lab that ends with the test. If labs are not permitted, Open skips the test with a line that names
// what goes untested. It does the same if a program is missing, unless SHOAL_TEST_STRICT=1 makes that an error.
func Open(t testing.TB, unseen string) *Lab {
	t.Helper()
	l, err := New()
	switch {
	case err == nil:
		t.Cleanup(l.Close)
	case errors.Is(err, ErrNotPermitted) || os.Getenv("SHOAL_TEST_STRICT") != "1":
		t.Skipf("%v: %s not looked at; mandatory where it is permitted", err, unseen)
	default:
		t.Fatal(err)
	}
	return l
}

func run(name string, args ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("netlab: %s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

func (l *Lab) space(name string) (*Host, error) {
	h := &Host{lab: l, name: l.prefix + name}
	if err := run("ip", "netns", "add", h.name); err != nil {
		return nil, err
	}
	l.mu.Lock()
	l.spaces = append(l.spaces, h.name)
	l.mu.Unlock()
	return h, h.ip("link", "set", "lo", "up")
}

func (h *Host) ip(args ...string) error { return run("ip", append([]string{"-n", h.name}, args...)...) }

func (h *Host) nft(rules ...string) error {
	for _, r := range rules {
		if err := run("ip", "netns", "exec", h.name, "nft", r); err != nil {
			return err
		}
	}
	return nil
}

// Site makes a host with an address among the sites. The address has its prefix for itself.
func (l *Lab) Site(name, prefix string) (*Host, error) {
	p, err := netip.ParsePrefix(prefix)
	if err != nil {
		return nil, fmt.Errorf("netlab: site: %w", err)
	}
	h, err := l.space(name)
	if err != nil {
		return nil, err
	}
	h.Addr, h.net = p.Addr(), p.Masked()
	for _, args := range [][]string{{"tuntap", "add", "dev", "wan", "mode", "tun"}, {"addr", "add", prefix, "dev", "wan"}, {"link", "set", "wan", "up"},
		{"route", "add", "default", "dev", "wan"}} {
		if err := h.ip(args...); err != nil {
			return nil, err
		}
	}
	if h.tun, err = h.open("wan"); err != nil {
		return nil, err
	}
	l.mu.Lock()
	l.sites = append(l.sites, h)
	l.mu.Unlock()
	l.wg.Go(func() { l.relay(h) })
	return h, nil
}

// Also gives a site an IPv6 address, which has its prefix for itself too.
func (h *Host) Also(prefix string) error {
	p, err := netip.ParsePrefix(prefix)
	if err != nil || !p.Addr().Is6() || h.tun == nil {
		return fmt.Errorf("netlab: IPv6 of a site: %q: %w", prefix, err)
	}
	for _, args := range [][]string{{"-6", "addr", "add", prefix, "dev", "wan", "nodad"}, {"-6", "route", "add", "default", "dev", "wan"}} {
		if err := h.ip(args...); err != nil {
			return err
		}
	}
	h.lab.mu.Lock()
	defer h.lab.mu.Unlock()
	h.net6 = p.Masked()
	return nil
}

// Tap calls f with every packet that leaves a site, one at a time for each site. f must not keep the packet.
func (l *Lab) Tap(f func(from *Host, packet []byte)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tap = f
}

// Do runs f on a thread in the host's network. Sockets that f opens itself, on its own goroutine, belong to the host.
func (h *Host) Do(f func() error) error { return h.do(f) }

// Translation is the way in which a router chooses the external port of a home.
type Translation string

// The translations, named as in nftables.
const (
	SamePort  Translation = "masquerade"              // the home's own port while it is free: the same for every partner
	OtherPort Translation = "masquerade fully-random" // another port for each partner
)

// Home makes a host behind a site, which translates its address. Only partners that the home spoke to first can reach
// it. The router silently drops unsolicited UDP packets, as home routers do; programs on the site itself can be
// called over TCP only.
func (l *Lab) Home(router *Host, name, prefix string, how Translation) (*Host, error) {
	p, err := netip.ParsePrefix(prefix)
	if err != nil {
		return nil, fmt.Errorf("netlab: home: %w", err)
	}
	h, err := l.space(name)
	if err != nil {
		return nil, err
	}
	h.Addr, h.net = p.Addr(), p.Masked()
	gate := h.Addr.Next()
	if err := run("ip", "link", "add", "lan", "netns", router.name, "type", "veth", "peer", "name", "eth0", "netns", h.name); err != nil {
		return nil, err
	}
	for _, step := range []struct {
		on   *Host
		args []string
	}{
		{router, []string{"addr", "add", netip.PrefixFrom(gate, p.Bits()).String(), "dev", "lan"}}, {router, []string{"link", "set", "lan", "up"}},
		{h, []string{"addr", "add", prefix, "dev", "eth0"}}, {h, []string{"link", "set", "eth0", "up"}}, {h, []string{"route", "add", "default", "via", gate.String()}},
	} {
		if err := step.on.ip(step.args...); err != nil {
			return nil, err
		}
	}
	if err := run("ip", "netns", "exec", router.name, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"); err != nil {
		return nil, err
	}
	return h, router.nft("add table ip home", "add chain ip home out { type nat hook postrouting priority 100 ; }", `add rule ip home out oifname "wan" `+string(how),
		"add chain ip home in { type filter hook input priority 0 ; }", `add rule ip home in iifname "wan" meta l4proto udp ct state new drop`)
}

// Command returns a command that runs on the host.
func (h *Host) Command(name string, args ...string) *exec.Cmd {
	return exec.Command("ip", append([]string{"netns", "exec", h.name, name}, args...)...)
}

// do runs f in the namespace, on a thread that ends with it.
func (h *Host) do(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread is of no use to others
		ns, err := os.Open(filepath.Join("/run/netns", h.name))
		if err == nil {
			defer ns.Close()
			err = unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET)
		}
		if err == nil {
			err = f()
		}
		done <- err
	}()
	return <-done
}

// DialContext connects from the host. The address must be literal.
func (h *Host) DialContext(ctx context.Context, network, addr string) (c net.Conn, err error) {
	err = h.do(func() error {
		var d net.Dialer
		c, err = d.DialContext(ctx, network, addr)
		return err
	})
	return c, err
}

// Listen listens on the host.
func (h *Host) Listen(network, addr string) (l net.Listener, err error) {
	err = h.do(func() error {
		l, err = net.Listen(network, addr)
		return err
	})
	return l, err
}

// open attaches to a TUN device of the host.
func (h *Host) open(dev string) (f *os.File, err error) {
	err = h.do(func() error {
		fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
		if err != nil {
			return fmt.Errorf("netlab: /dev/net/tun: %w", err)
		}
		r, err := unix.NewIfreq(dev)
		if err == nil {
			r.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
			err = unix.IoctlIfreq(fd, unix.TUNSETIFF, r)
		}
		if err != nil {
			unix.Close(fd)
			return fmt.Errorf("netlab: attach to %s: %w", dev, err)
		}
		f = os.NewFile(uintptr(fd), dev)
		return nil
	})
	return f, err
}

// Close ends the relay and removes every namespace. The caller ends the processes in them.
func (l *Lab) Close() {
	l.mu.Lock()
	sites, spaces := l.sites, l.spaces
	l.sites, l.closed = nil, true
	for _, k := range l.links {
		k.close()
	}
	clear(l.links)
	l.mu.Unlock()
	for _, h := range sites {
		h.tun.Close() // the relay ends with it
	}
	l.wg.Wait()
	for _, s := range spaces {
		_ = run("ip", "netns", "del", s) // it is the last that can be done
	}
}
