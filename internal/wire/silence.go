package wire

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
)

// heard notes when something came last from the server that a peer is connected to.
type heard struct {
	from peer.ID
	at   atomic.Int64 // Unix nanoseconds
}

func (h *heard) now() { h.at.Store(time.Now().UnixNano()) }

func (h *heard) when() time.Time { return time.Unix(0, h.at.Load()) }

// Bounds of silence.
const (
	quiet     = 5 * time.Second // a server that was heard within this is asked nothing
	answersIn = 2 * time.Second // a server that is asked has this long
	noService = protocol.ID("/shoal/none/1")
)

// Silent returns since when nothing has come from the server that is connected, or the zero time if it answers or none is. A connection ends by
// itself only after a minute or two without an answer, since keeping it alive must cost little. So Silent asks: for a service that there is
// not, which takes a packet each way, and any answer will do.
func (h *home) Silent(ctx context.Context) time.Time {
	last := h.carried.server.Load()
	if now, _ := h.Home(); now.At == "" || last == nil || time.Since(last.when()) < h.quiet {
		return time.Time{}
	}
	before := last.when()
	ctx, cancel := context.WithTimeout(network.WithNoDial(ctx, "a question to a server that is connected"), answersIn)
	defer cancel()
	if s, err := h.host.NewStream(ctx, last.from, noService); err == nil {
		_ = s.Reset()
	}
	if now, _ := h.Home(); now.At != last.from.String() || !last.when().Equal(before) {
		return time.Time{}
	}
	return before
}
