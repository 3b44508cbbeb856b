package wire

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"syscall"

	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"

	"shoal/internal/wire/gate"
)

// anyPortTries bounds the search for a port that is free for TCP and UDP.
const anyPortTries = 8

// listenAddrs reads the addresses of a Config.
func listenAddrs(in []string) ([]ma.Multiaddr, error) {
	var out []ma.Multiaddr
	for _, s := range in {
		a, err := ma.NewMultiaddr(s)
		if err != nil {
			return nil, fmt.Errorf("wire: address %q: %w; it looks like /ip4/0.0.0.0/tcp/%d", s, err, DefaultPort)
		}
		if _, err := a.ValueForProtocol(ma.P_TCP); err != nil {
			return nil, fmt.Errorf("wire: address %q: only TCP addresses are named, QUIC uses the same port; it looks like /ip4/0.0.0.0/tcp/%d", s, DefaultPort)
		}
		out = append(out, a)
	}
	return out, nil
}

// ports opens a node's ports.
type ports struct {
	gate *gate.Gate
	quic bool
	log  *slog.Logger
}

// listen opens the TCP port and, if asked, the UDP port of the same number. Where any port will do, it is one that is free for both.
func (p ports) listen(a ma.Multiaddr) error {
	port, err := a.ValueForProtocol(ma.P_TCP)
	for tries := 1; ; tries++ {
		before := p.gate.ListenAddresses()
		lerr := p.listenOnce(a)
		if lerr == nil || err != nil || port != "0" || tries == anyPortTries || !errors.Is(lerr, syscall.EADDRINUSE) {
			return lerr
		}
		for _, l := range p.gate.ListenAddresses() {
			if !ma.Contains(before, l) {
				p.gate.ListenClose(l)
			}
		}
	}
}

func (p ports) listenOnce(a ma.Multiaddr) error {
	before := p.gate.ListenAddresses()
	if err := p.gate.Listen(a); err != nil {
		if _, v6 := a.ValueForProtocol(ma.P_IP6); v6 == nil && slices.ContainsFunc(before, manet.IsThinWaist) && !errors.Is(err, syscall.EADDRINUSE) {
			p.log.Warn("no IPv6 here", "listen", a, "err", err)
			return nil
		}
		return listenError(a, err)
	}
	if !p.quic {
		return nil
	}
	for _, l := range p.gate.ListenAddresses() {
		port, err := l.ValueForProtocol(ma.P_TCP)
		if err != nil || ma.Contains(before, l) {
			continue
		}
		ip, _ := ma.SplitFirst(l)
		u, err := ma.NewMultiaddr(fmt.Sprintf("%s/udp/%s/quic-v1", ip, port))
		if err != nil {
			return fmt.Errorf("wire: listen: %w", err)
		}
		if err := p.gate.Listen(u); err != nil {
			return listenError(u, err)
		}
	}
	return nil
}

func listenError(a ma.Multiaddr, err error) error {
	if errors.Is(err, syscall.EADDRINUSE) || strings.Contains(err.Error(), "address already in use") || strings.Contains(err.Error(), "Only one usage of each socket address") {
		return fmt.Errorf("wire: listen on %s: the port is taken, perhaps by another Shoal on this machine; stop that or choose another port: %w", a, syscall.EADDRINUSE)
	}
	return fmt.Errorf("wire: listen on %s: %w", a, err)
}
