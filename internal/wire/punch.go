package wire

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/protocol/holepunch"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
)

const (
	punchTimeout = 12 * time.Second
	punchOnce    = 5 * time.Second // for one of libp2p's tries; as long as QUIC keeps a hole open for the other side
	punchPoll    = 10 * time.Millisecond
)

// Punch meets a member at a relay and waits for a direct connection: one of the two dials the other, or both at the same time, through
// their routers (DCUtR). The relayed connection is closed either way.
func (r *reach) Punch(ctx context.Context, p, relay peer.ID) error {
	ctx, cancel := context.WithTimeout(ctx, punchTimeout)
	defer cancel()
	r.askToMeet(ctx, p, relay)
	info := peer.AddrInfo{ID: p, Addrs: []ma.Multiaddr{circuitAddr(relay)}}
	if err := r.host.Connect(network.WithAllowLimitedConn(ctx, "hole punching"), info); err != nil {
		return dialError(p, err)
	}
	defer func() {
		for _, c := range r.gate.ConnsToPeer(p) {
			if c.Stat().Limited {
				c.Close() // how it ends tells nothing
			}
		}
	}()
	if !poll(ctx, func() bool { return r.Direct(p) }) {
		return fmt.Errorf("%w: no direct way to %s", ErrUnreachable, p)
	}
	r.numbers.punched.Add(1)
	return nil
}

// poll waits until something holds; false: it did not before ctx ended.
func poll(ctx context.Context, holds func() bool) bool {
	tick := time.NewTicker(punchPoll)
	defer tick.Stop()
	for !holds() {
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
	return true
}

// askToMeet has both sides find out where they are seen. What it cannot find out punching does without.
func (r *reach) askToMeet(ctx context.Context, p, relay peer.ID) {
	done := make(chan error, 1)
	go func() { done <- r.prepare(ctx, relay) }()
	_, err := r.calls.Ride(ctx, relay, p, ProtoMeet, nil, 16)
	r.log.Debug("before a hole is punched", "peer", p, "own_side", <-done, "other_side", err)
}

// prepare finds out where this node is seen, and then has libp2p's hole punching wait for who comes through a relay. That looks for an address by itself only
// from time to time, and does not hear of who came before it found one.
func (r *reach) prepare(ctx context.Context, server peer.ID) error {
	seen := r.lookOutside(ctx, server)
	if len(r.punchAddrs()) == 0 {
		return errors.Join(errors.New("wire: no address is known at which a hole could be punched"), seen)
	}
	r.mu.Lock()
	var err error
	switch {
	case r.life.over():
		err = context.Canceled
	case r.holes == nil:
		r.holes, err = holepunch.NewService(r.host, r.host.IDService(), r.punchAddrs, holepunch.DirectDialTimeout(punchOnce))
	}
	r.mu.Unlock()
	if err != nil {
		return fmt.Errorf("wire: hole punching: %w", err)
	}
	if !poll(ctx, func() bool { return slices.Contains(r.host.Mux().Protocols(), holepunch.Protocol) }) {
		return ctx.Err()
	}
	return seen
}

// punchAddrs are the public addresses at which others may come through a hole: the node's own, those that others have seen, and what a server has told of late.
func (r *reach) punchAddrs() []ma.Multiaddr {
	all := append(r.host.AllAddrs(), r.observer.Addrs(1)...)
	r.mu.Lock()
	if r.outside != nil && time.Since(r.outsideAt) < outsideFor {
		all = append(all, r.outside)
	}
	r.mu.Unlock()
	return slices.DeleteFunc(ma.Unique(all), func(a ma.Multiaddr) bool { return !manet.IsPublicAddr(a) })
}
