package wire

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
	"github.com/multiformats/go-multistream"

	"shoal/internal/wire/frame"
)

// A member that punches a hole tells the other side where it is seen over UDP. Members speak to their home over TCP,
// so two homes do not know each other's UDP ports. Therefore both ask a server just before, from the socket through
// which the hole will go. A router that keeps the port shows the other side the same one a moment later.

// ProtoSeen asks a server where it sees the connection come from. Any node may ask, on a separate connection.
const ProtoSeen protocol.ID = "/shoal/seen/1"

// ProtoMeet asks a hidden member, by a ride, to find out where it is seen; its answer says that it has.
const ProtoMeet protocol.ID = "/shoal/meet/1"

const (
	outsideFor   = 30 * time.Second // that an answer counts: routers forget a silent port after that at the earliest
	outsideAgain = outsideFor / 3   // younger than that it is not asked for again
	maxSeen      = 128              // bytes of an address
)

// tellSeen answers a stranger with its own address.
func (r *reach) tellSeen(s network.Stream) {
	defer s.Close()
	if frame.Write(s, nil, s.Conn().RemoteMultiaddr().Bytes()) != nil {
		reset(s)
	}
}

// lookOutside asks a server where it sees this node over UDP, unless that is known.
func (r *reach) lookOutside(ctx context.Context, server peer.ID) error {
	r.mu.Lock()
	fresh := time.Since(r.outsideAt) < outsideAgain
	r.mu.Unlock()
	if fresh || r.udp == nil || !r.hidden() {
		return nil
	}
	err := errors.New("it listens nowhere over QUIC")
	for _, a := range r.host.Peerstore().Addrs(server) {
		if _, other := a.ValueForProtocol(ma.P_IP4); other != nil || !isQUIC(a) || manet.IsIPLoopback(a) || r.bar(a) {
			continue // IPv6 is not translated
		}
		var at ma.Multiaddr
		if at, err = r.seenFrom(ctx, a, server); err == nil {
			r.noteOutside(server, at)
			return nil
		}
	}
	return fmt.Errorf("wire: where %s sees this node: %w", server, err)
}

func (r *reach) noteOutside(server peer.ID, at ma.Multiaddr) {
	port, err := manet.ToNetAddr(manetUDP(at))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.outside, r.outsideAt = at, time.Now()
	if err != nil {
		return
	}
	if p, err := netip.ParseAddrPort(port.String()); err == nil {
		r.ports[server] = p
	}
}

// seenFrom asks over a connection of its own, which libp2p does not learn of: it has one to the server already.
func (r *reach) seenFrom(ctx context.Context, addr ma.Multiaddr, server peer.ID) (ma.Multiaddr, error) {
	ctx, cancel := context.WithTimeout(ctx, r.patience/2)
	defer cancel()
	c, err := r.udp.Dial(ctx, addr, server)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	s, err := c.OpenStream(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.SetDeadline(time.Now().Add(r.patience / 2)); err != nil {
		return nil, err
	}
	if err := multistream.SelectProtoOrFail(ProtoSeen, s); err != nil {
		return nil, err
	}
	b, err := frame.Read(bufio.NewReaderSize(s, maxSeen), maxSeen, frame.Budget{})
	if err != nil {
		return nil, err
	}
	at, err := ma.NewMultiaddrBytes(b)
	if err != nil {
		return nil, err
	}
	if !isQUIC(at) {
		return nil, fmt.Errorf("it sees %s", at)
	}
	return at, nil
}

// meet finds out where this node is seen, before another member punches a hole to it.
func (r *reach) meet(ctx context.Context, _ Member, _ []byte) ([]byte, error) {
	r.mu.Lock()
	home := r.home
	r.mu.Unlock()
	if home == "" {
		return nil, &Status{Code: NotFound, Reason: "not_hidden", Text: "this member can be dialled"}
	}
	if r.prepare(ctx, home) != nil {
		return nil, &Status{Code: NotFound, Reason: "not_seen", Text: "this member does not know where it is seen"}
	}
	return nil, nil
}
