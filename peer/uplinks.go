package peer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"

	"shoal/channel"
	"shoal/internal/member"
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
	files, err := crawl.SpoolOf(a.spool(), h)
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
	c := uplink.NewClient(caller{a.wire, a}, id)
	a.uplinks[archive] = c
	return c, nil
}

const maxUplinks = 256

// caller connects to an archive at the addresses that the network document names, before it asks. Where the document names several archives, each
// takes what is for another: if that one does not answer, or cannot, the next one is asked, those that are connected first.
type caller struct {
	node  *wire.Node
	agent *Agent
}

// Limits of asking several archives. One that stands still keeps its connections: only time tells.
const (
	askLeast = 8 * time.Second // for an answer, where there are others to ask
	askSpeed = 16 << 10        // bytes a second of a request, for which it has more time
	detour   = time.Minute     // for which an archive that did not answer is asked last
)

func (c caller) Call(ctx context.Context, to peer.ID, proto protocol.ID, req []byte, maxOut int) (answer []byte, err error) {
	list := c.archives(to)
	for i, s := range list {
		limited, cancel := ctx, context.CancelFunc(func() {})
		if i < len(list)-1 {
			limited, cancel = context.WithTimeout(ctx, askLeast+time.Duration(len(req)/askSpeed)*time.Second)
		}
		answer, err = c.ask(limited, s, len(list) > 1, proto, req, maxOut)
		late := limited.Err() != nil
		cancel()
		if err == nil || ctx.Err() != nil || !late && !errors.Is(err, wire.ErrUnreachable) && !errors.Is(err, wire.Busy) {
			return answer, err
		}
		if len(list) > 1 {
			c.agent.avoid(s.Peer, time.Now().Add(detour))
		}
	}
	return answer, err
}

// archives are whom to ask, in this order: the one that is meant, if it answered lately, the others that are connected, and the rest.
func (c caller) archives(to peer.ID) []member.Server {
	d, _ := c.node.Document()
	list := slices.Clone(d.Archives)
	at := slices.IndexFunc(list, func(s member.Server) bool { return s.Peer == to.String() })
	if at < 0 { // it has gone, or the document is not here yet
		own := member.Server{Peer: to.String()}
		if m := slices.IndexFunc(d.Managers, func(s member.Server) bool { return s.Peer == own.Peer }); m >= 0 {
			own = d.Managers[m]
		}
		list = append(list, own)
	}
	now := time.Now()
	rank := func(s member.Server) int {
		id, err := peer.Decode(s.Peer)
		_, connected := c.node.Member(id)
		switch {
		case err != nil || c.agent.avoids(s.Peer, now):
			return 3
		case id == to:
			return 0
		case connected:
			return 1
		}
		return 2
	}
	slices.SortStableFunc(list, func(a, b member.Server) int { return cmp.Compare(rank(a), rank(b)) })
	return list[:min(len(list), mostAsked)]
}

const mostAsked = 3 // archives, for one request

func (c caller) ask(ctx context.Context, s member.Server, others bool, proto protocol.ID, req []byte, maxOut int) ([]byte, error) {
	to, err := peer.Decode(s.Peer)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", wire.ErrUnreachable, err)
	}
	if _, connected := c.node.Member(to); !connected && len(s.Addrs) > 0 {
		if err := c.node.Connect(ctx, to, s.Addrs...); err != nil {
			return nil, err
		}
	}
	if others {
		c.node.Watch(to) // a large request may take longer than a silent connection needs to end
	}
	return c.node.Call(ctx, to, proto, req, maxOut)
}

// avoid has an archive asked last until a time.
func (a *Agent) avoid(archive string, until time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.avoided == nil || len(a.avoided) >= maxUplinks {
		a.avoided = map[string]time.Time{}
	}
	a.avoided[archive] = until
}

func (a *Agent) avoids(archive string, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return now.Before(a.avoided[archive])
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
