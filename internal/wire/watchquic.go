package wire

import (
	"context"
	"time"

	quicgo "github.com/quic-go/quic-go"

	"shoal/internal/wire/sockets"
)

// A QUIC connection to a server that falls silent would end by itself after half a minute. What follows ends it as soon as the system ends a TCP connection that
// sockets.Watch has it watch, and asks as often.
const (
	quietEvery = sockets.Noticed / 4 // between two looks
	quietAsks  = 2                   // looks at which nothing has come, before the other side is asked
	quietEnds  = 4                   // before the connection is given up
)

// watchQUIC gives a connection up whose other side falls silent, until that or ctx ends. A question is a datagram without content: no program reads it, and its
// packet is acknowledged. Looks are counted and no clock is read, so that a computer which has slept asks first.
func watchQUIC(ctx context.Context, c *quicgo.Conn, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	heard, quiet := c.ConnectionStats().PacketsReceived, 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.Context().Done():
			return
		case <-tick.C:
		}
		quiet++
		if n := c.ConnectionStats().PacketsReceived; n != heard {
			heard, quiet = n, 0
		}
		switch {
		case quiet >= quietEnds:
			_ = c.CloseWithError(0, "silent") // it is over in any case
			return
		case quiet >= quietAsks:
			_ = c.SendDatagram(nil) // what cannot be sent is not answered
		}
	}
}
