package wire

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"google.golang.org/protobuf/proto"

	"shoal/internal/member"
	"shoal/internal/wire/wirepb"
)

// A member that cannot be dialled keeps a connection to its home, and requests of others ride it: they ask the home,
// which passes them on and brings the answer back. The home is trusted to name the sender, as it is trusted with the
// bodies of tasks. What would be worth forging carries its owner's signature.

// Protocols of rides.
const (
	ProtoRide   protocol.ID = "/shoal/ride/1"   // asked of a server
	ProtoPassed protocol.ID = "/shoal/passed/1" // asked by a server, for another member
)

const maxRide = 192 << 10 // bytes of a request or an answer that rides, with its envelope

// lostReason is the reason of a ride that may or may not have arrived.
const lostReason = "lost"

// ridden is a handler that requests reach by a ride too.
type ridden struct {
	maxIn  int
	handle Handler
}

// HandleRidden is Handle for a protocol whose requests may also come through the node's home.
func (c *calls) HandleRidden(p protocol.ID, maxIn int, timeout time.Duration, handle Handler) {
	c.mu.Lock()
	c.ridden[p] = ridden{maxIn, handle}
	c.mu.Unlock()
	c.Handle(p, maxIn, timeout, handle)
}

// Ride sends a request to a member through a server that the member keeps a connection to. Errors are those of Call:
// a *Status means that the request was refused or not taken, ErrUnreachable that it may have arrived.
func (c *calls) Ride(ctx context.Context, via, to peer.ID, p protocol.ID, req []byte, maxOut int) ([]byte, error) {
	b, err := proto.Marshal(&wirepb.Ride{Peer: to.String(), Protocol: string(p), Request: req})
	if err != nil {
		return nil, fmt.Errorf("wire: ride: %w", err)
	}
	if len(b) > maxRide {
		return nil, &Status{Code: TooLarge, Text: fmt.Sprintf("a request of %d bytes cannot ride", len(b))}
	}
	resp, err := c.Call(ctx, via, ProtoRide, b, min(maxOut, maxRide))
	var s *Status
	if errors.As(err, &s) && s.Reason == lostReason {
		return nil, fmt.Errorf("%w: ride to %s: %s", ErrUnreachable, to, s.Text)
	}
	return resp, err
}

// serveRides lets a server pass requests on, and every other member take them.
func (c *calls) serveRides() {
	if c.role != member.Peer {
		c.Handle(ProtoRide, maxRide, c.patience, c.passOn)
	}
	c.Handle(ProtoPassed, maxRide, c.patience, c.takePassed)
}

// passOn passes a member's request to another one that is connected here. It does not dial.
func (c *calls) passOn(ctx context.Context, from Member, req []byte) ([]byte, error) {
	m, to, err := readRide(req)
	if err != nil {
		c.numbers.rejected("malformed")
		return nil, err
	}
	if to == c.id || to == from.Peer || !c.Direct(to) {
		return nil, &Status{Code: NotFound, Reason: "not_here", Text: "that member keeps no connection to this one"}
	}
	b, err := proto.Marshal(&wirepb.Ride{Peer: from.Peer.String(), Protocol: m.Protocol, Request: m.Request, Account: from.Account, Label: from.Label, Role: uint32(from.Role), Prefix: from.Prefix})
	if err != nil {
		return nil, err
	}
	resp, err := c.Call(network.WithNoDial(ctx, "ride"), to, ProtoPassed, b, maxRide)
	if err != nil && !isStatus(err) {
		return nil, &Status{Code: Busy, Reason: lostReason, Text: "that member did not answer"}
	}
	return resp, err
}

// takePassed answers a request that a server passed on.
func (c *calls) takePassed(ctx context.Context, from Member, req []byte) ([]byte, error) {
	if from.Role == member.Peer {
		c.numbers.rejected("role")
		return nil, &Status{Code: Refused, Reason: "role", Text: "requests of others are taken from servers only"}
	}
	m, asker, err := readRide(req)
	if err == nil && (asker == c.id || member.CheckAccount(m.Account) != nil || m.Role > uint32(member.Relay) || m.Role == 0) {
		err = &Status{Code: Malformed, Reason: "malformed", Text: "wire: a ride of nobody"}
	}
	if err != nil {
		c.numbers.rejected("malformed")
		return nil, err
	}
	c.mu.Lock()
	r, known := c.ridden[protocol.ID(m.Protocol)]
	c.mu.Unlock()
	switch {
	case !known:
		return nil, &Status{Code: NotFound, Text: "it does not take that protocol by a ride"}
	case len(m.Request) > r.maxIn:
		c.numbers.rejected("too_large")
		return nil, &Status{Code: TooLarge, Text: fmt.Sprintf("%d bytes, at most %d", len(m.Request), r.maxIn)}
	}
	if c.verifier.Banned(asker.String(), m.Account) {
		c.numbers.rejected("denied")
		return nil, &Status{Code: Refused, Reason: "denied", Text: "the asker has been banned from this network"}
	}
	key := callKey{asker, protocol.ID(m.Protocol)}
	if !c.running.begin(key) {
		return nil, c.tooMany()
	}
	defer c.running.end(key)
	c.numbers.rides.Add(1)
	c.log.Debug("a request came through the home", "proto", m.Protocol, "from", asker)
	if member.CheckLabel(m.Label) != nil { // a server of before lets more through
		m.Label = ""
	}
	if !isPrefix(m.Prefix) {
		m.Prefix = ""
	}
	who := Member{Peer: asker, Prefix: m.Prefix, Account: cmp.Or(m.Account, member.AccountOfPeer(asker.String())), Label: m.Label, Role: member.Role(m.Role), NotAfter: from.NotAfter}
	return r.handle(ctx, who, m.Request)
}

// isPrefix reports whether a text names the network of a public address, as publicPrefix does.
func isPrefix(s string) bool {
	p, err := netip.ParsePrefix(s)
	return err == nil && p.Addr().IsGlobalUnicast() && !p.Addr().IsPrivate() && member.Prefix(p.Addr()) == s
}

func readRide(b []byte) (*wirepb.Ride, peer.ID, error) {
	var m wirepb.Ride
	if err := proto.Unmarshal(b, &m); err != nil {
		return nil, "", &Status{Code: Malformed, Reason: "malformed", Text: "wire: ride: " + err.Error()}
	}
	if len(m.Peer) > member.MaxPeer || len(m.Protocol) > maxProtocol {
		return nil, "", &Status{Code: Malformed, Reason: "malformed", Text: "wire: ride: a name is too long"}
	}
	id, err := peer.Decode(m.Peer)
	if err != nil {
		return nil, "", &Status{Code: Malformed, Reason: "malformed", Text: "wire: ride: " + err.Error()}
	}
	return &m, id, nil
}

// maxProtocol bounds a protocol's name.
const maxProtocol = 128
