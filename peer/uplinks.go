package peer

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"

	"shoal/channel"
	"shoal/internal/wire"
	"shoal/internal/wire/uplink"
	"shoal/peer/crawl"
)

// ID is the agent's peer id; empty before Run.
func (a *Agent) ID() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.wire == nil {
		return ""
	}
	return a.wire.ID().String()
}

func (a *Agent) spool() string { return filepath.Join(a.cfg.Dir, "spool") }

// spooled reports whether an earlier run of a task left pages to send.
func (a *Agent) spooled(h channel.Header) bool {
	files, err := filepath.Glob(crawl.SpoolOf(a.spool(), h))
	return err != nil || len(files) > 0
}

// uplink is the way to an archive, by its peer id.
func (a *Agent) uplink(archive string) (*uplink.Client, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c := a.uplinks[archive]; c != nil {
		return c, nil
	}
	id, err := peer.Decode(archive)
	if err != nil {
		return nil, fmt.Errorf("peer: the task names an archive that is none, %q: %w", archive, err)
	}
	if len(a.uplinks) >= maxUplinks {
		clear(a.uplinks)
	}
	c := uplink.NewClient(caller{a.wire}, id)
	a.uplinks[archive] = c
	return c, nil
}

const maxUplinks = 256

// caller connects to an archive at the addresses that the network document names, before it asks.
type caller struct{ node *wire.Node }

func (c caller) Call(ctx context.Context, to peer.ID, proto protocol.ID, req []byte, maxOut int) ([]byte, error) {
	if _, connected := c.node.Member(to); !connected {
		if c.node.Sought(to) {
			return nil, fmt.Errorf("%w: %s", wire.ErrUnreachable, to)
		}
		if d, ok := c.node.Document(); ok {
			for _, s := range append(d.Archives, d.Managers...) {
				if s.Peer == to.String() {
					if err := c.node.Connect(ctx, to, s.Addrs...); err != nil {
						return nil, err
					}
					break
				}
			}
		}
	}
	return c.node.Call(ctx, to, proto, req, maxOut)
}

// homecoming returns a channel that is closed when a server is connected again, or lost. What waits for an archive then asks at once.
func (a *Agent) homecoming() <-chan struct{} {
	a.mu.Lock()
	node := a.wire
	a.mu.Unlock()
	if node == nil {
		return nil
	}
	_, changed := node.Home()
	return changed
}

func cutScheme(origin string) (scheme, authority string, ok bool) { return strings.Cut(origin, "://") }
