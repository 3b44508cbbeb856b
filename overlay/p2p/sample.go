package p2p

import (
	"context"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/protocol/ping"

	"shoal/coords"
	"shoal/overlay"
)

// sample measures the round trip to a member over a connection that exists: the second of two pings, since the first pays for the stream.
func (r *Runner) sample(life context.Context, id peer.ID, at coords.Coord) {
	if !r.cfg.Wire.Direct(id) {
		return
	}
	ctx, cancel := context.WithTimeout(life, r.cfg.Overlay.Timeout)
	defer cancel()
	best := time.Duration(0)
	pongs := ping.Ping(ctx, r.cfg.Wire.Host(), id)
	for i := range pingCount {
		p, ok := <-pongs
		if !ok || p.Error != nil {
			return
		}
		if i > 0 && (best == 0 || p.RTT < best) {
			best = p.RTT
		}
	}
	cancel()
	for range pongs { // until it has seen the end
	}
	r.pings.Add(1)
	r.post(life, func(context.Context, time.Time) { r.node.Sample(overlay.ID(id.String()), at, best) })
}

const pingCount = 3
