package wire

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/libp2p/go-libp2p/core/peer"

	"shoal/internal/again"
)

// homeCheck is how often it looks whether the connection still is there.
const homeCheck = 30 * time.Second

// homeward is the pace at which it tries to get there again.
var homeward = again.Bounds{First: 2 * time.Second, Last: 2 * time.Minute}

// home keeps a peer's connection to one of the network's servers, over which what needs it is reached behind whatever router.
type home struct {
	*papers
	*conns
	patience time.Duration
	reach    *reach
	log      *slog.Logger
	lost     chan struct{} // a server's connection is gone
}

// keep holds a connection to one of the network's archives, or managers where there is none. Each peer has its own order of them, so that
// they share the peers out.
func (h *home) keep(ctx context.Context) {
	pace := again.Every(homeward)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		lost := h.lost
		if pace.Failing() {
			lost = nil // known
		}
		select {
		case <-ctx.Done():
			return
		case <-lost:
			timer.Reset(rand.N(homeward.First / 2)) // spread out: a server that restarts has lost all its members
			continue
		case <-timer.C:
		}
		err := h.goThere(ctx)
		if err == nil {
			pace.Reset()
			timer.Reset(homeCheck)
			continue
		}
		wait := pace.Next()
		timer.Reset(wait)
		h.log.Debug("no connection to an archive", "err", err, "again_in", wait)
	}
}

func (h *home) goThere(ctx context.Context) error {
	if !h.valid() {
		return nil // the renewal goes first
	}
	list := h.homes()
	for i, s := range list {
		if h.Direct(s.ID) {
			h.host.ConnManager().Protect(s.ID, "home")
			for _, other := range list[i+1:] {
				h.host.ConnManager().Unprotect(other.ID, "home")
			}
			if err := h.reach.reserve(ctx, s.ID); err != nil {
				h.log.Debug("cannot be met", "err", err) // it is tried again at the next look
			}
			return nil
		}
	}
	err := errors.New("wire: the network names neither an archive nor a manager")
	for _, s := range list {
		h.gate.Backoff().Clear(s.ID)
		dial, cancel := context.WithTimeout(ctx, 2*h.patience)
		_, err = h.gate.DialPeer(dial, s.ID)
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
	return err
}

// homes are the archives, or else the managers, in this node's own order (rendezvous hashing: Thaler, Ravishankar, "Using Name-Based
// Mappings to Increase Hit Rates", 1998).
func (h *home) homes() servers {
	d, _ := h.verifier.Document()
	var l servers
	if l.addServers(d.Archives); len(l) == 0 {
		l.addServers(d.Managers)
	}
	score := func(s peer.AddrInfo) uint64 { return xxhash.Sum64String(string(h.self) + string(s.ID)) }
	slices.SortFunc(l, func(a, b peer.AddrInfo) int { return cmp.Compare(score(a), score(b)) })
	return l
}
