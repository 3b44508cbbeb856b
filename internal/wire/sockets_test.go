//go:build unix

package wire

import (
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"shoal/internal/member"
)

// Every socket has the options that were wanted, dialled, accepted or QUIC's; what TCP carries goes through the wrapper, and QUIC's
// packets are counted.
func TestSockets(t *testing.T) {
	const mark = 1 << 2
	var mu sync.Mutex
	networks := map[string]bool{}
	set := func(network, _ string, c syscall.RawConn) error {
		mu.Lock()
		networks[network] = true
		mu.Unlock()
		return c.Control(func(fd uintptr) {
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_TOS, mark)
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_TCLASS, mark)
		})
	}
	var wrapped, marked, counted atomic.Int64
	wrap := func(c net.Conn) net.Conn {
		wrapped.Add(1)
		raw, err := c.(interface{ NetConn() net.Conn }).NetConn().(*net.TCPConn).SyscallConn()
		if err == nil {
			err = raw.Control(func(fd uintptr) {
				four, _ := unix.GetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_TOS)
				six, _ := unix.GetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_TCLASS)
				if four == mark || six == mark {
					marked.Add(1)
				}
			})
		}
		if err != nil {
			t.Error(err)
		}
		return c
	}
	count := func(received, sent int) { counted.Add(int64(received + sent)) }
	for _, family := range []string{loopback, "/ip6/::1/tcp/0"} {
		wrapped.Store(0)
		marked.Store(0)
		counted.Store(0)
		w := newNet(t, member.Policy{})
		a := w.member(Config{QUIC: true, Listen: []string{family}, Socket: set, Wrap: wrap, Count: count})
		b := w.member(Config{QUIC: true, Listen: []string{family}, Socket: set, Wrap: wrap, Count: count})
		before := wrapped.Load() // two to the manager
		for _, quic := range []bool{true, false} {
			var at []string
			for _, addr := range b.Addrs() {
				if strings.Contains(addr, "quic") == quic {
					at = append(at, addr)
				}
			}
			a.Host().Peerstore().ClearAddrs(b.ID())
			if err := a.Connect(t.Context(), b.ID(), at...); err != nil {
				t.Fatal(err)
			}
			if quic && (counted.Load() == 0 || wrapped.Load() != before) {
				t.Errorf("%s: over QUIC %d bytes counted, %d TCP connections", family, counted.Load(), wrapped.Load()-before)
			}
			if err := a.Host().Network().ClosePeer(b.ID()); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the connection is gone at both ends", func() bool { return !a.Direct(b.ID()) && !b.Direct(a.ID()) })
		}
		if before != 2 || wrapped.Load() != before+2 || marked.Load() != wrapped.Load() {
			t.Errorf("%s: %d connections to the manager, %d after another one with two ends; %d are marked", family, before, wrapped.Load(), marked.Load())
		}
	}
	for _, want := range []string{"tcp4", "tcp6", "udp4", "udp6"} {
		if !networks[want] {
			t.Errorf("no socket of %s, only of %v", want, networks)
		}
	}
}
