package p2p

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
	"google.golang.org/protobuf/proto"

	"shoal/internal/wire"
	"shoal/overlay"
)

// The way to a member: a connection that there is; else, where its record names a relay, a ride over the connection that it keeps there;
// else one of its addresses. While requests ride, a direct way is looked for beside, since only over one round trips can be timed.

const (
	nearerEvery   = 10 * time.Minute // between two tries to come to a direct way to one member, at most
	nearerAgain   = 30 * time.Second // between the first two, and twice as long each time: a hole may fail for want of luck
	nearerTimeout = 3 * time.Second  // for its addresses; a hole takes what wire.Punch does
	maxNearer     = 2                // tries at a time
)

// nearer remembers to whom a direct way was looked for. Owned by the loop.
type nearer struct {
	tried map[peer.ID]tried
	now   int
}

type tried struct {
	at   time.Time
	wait time.Duration // until the next
}

// target is whom a request is for.
type target struct {
	id       overlay.ID
	addrs    []string
	straight func(bool) // told false when a connection has to be made first or the request rides, and true when it goes out directly after all; may be nil
}

func (t target) tell(straight bool) {
	if t.straight != nil {
		t.straight(straight)
	}
}

// ask makes one request of a member, and reads the answer.
func (r *Runner) ask(ctx context.Context, to target, on protocol.ID, req []byte, answer proto.Message) error {
	r.sent.Add(1)
	raw, err := r.call(ctx, to, on, req)
	if err != nil {
		return err
	}
	if err := proto.Unmarshal(raw, answer); err != nil {
		r.count("malformed")
		return fmt.Errorf("%w: answer to %s: %w", errMessage, on, err)
	}
	return nil
}

func (r *Runner) call(ctx context.Context, to target, on protocol.ID, req []byte) ([]byte, error) {
	w := r.cfg.Wire
	id, err := peer.Decode(string(to.id))
	if err != nil {
		return nil, fmt.Errorf("%w: peer id %q: %w", errNotDialled, to.id, err)
	}
	if w.Direct(id) {
		return w.Call(ctx, id, on, req, maxMessage)
	}
	to.tell(false)
	direct, relays := split(to.addrs)
	for _, via := range relays {
		if via == w.ID() || !w.Direct(via) && w.Connect(ctx, via) != nil {
			continue
		}
		raw, err := w.Ride(ctx, via, id, on, req, maxMessage)
		if errors.Is(err, wire.NotFound) {
			continue // it is not there, or not any more
		}
		if err == nil {
			r.comeNearer(id, via, direct)
		}
		return raw, err
	}
	if err := w.Connect(ctx, id, direct...); err != nil {
		return nil, fmt.Errorf("%w: %w", errNotDialled, err)
	}
	to.tell(true)
	return w.Call(ctx, id, on, req, maxMessage)
}

// split parts addresses into those to dial and the relays of the others.
func split(addrs []string) (direct []string, relays []peer.ID) {
	for _, a := range addrs {
		if via := wire.RelayOf(a); via != "" {
			relays = append(relays, via)
		} else {
			direct = append(direct, a)
		}
	}
	return direct, relays
}

// comeNearer looks for a direct way to a member, beside the loop, unless that was tried lately. A member that places tasks has no use for one.
func (r *Runner) comeNearer(id, via peer.ID, direct []string) {
	if r.cfg.Places {
		return
	}
	r.hint(func(life context.Context, now time.Time) {
		last := r.near.tried[id]
		if r.near.now >= maxNearer || now.Sub(last.at) < last.wait {
			return
		}
		if len(r.near.tried) >= maxChecked {
			clear(r.near.tried)
		}
		r.near.tried[id] = tried{now, min(max(2*last.wait, nearerAgain), nearerEvery)}
		r.near.now++
		r.wg.Go(func() {
			err := r.direct(life, id, via, direct)
			r.log.Debug("looked for a direct way", "peer", id, "err", err)
			r.post(life, func(context.Context, time.Time) { r.near.now-- })
		})
	})
}

func (r *Runner) direct(life context.Context, id, via peer.ID, addrs []string) error {
	if len(addrs) > 0 { // of the same local network, perhaps
		ctx, cancel := context.WithTimeout(life, nearerTimeout)
		defer cancel()
		if r.cfg.Wire.Connect(ctx, id, addrs...) == nil {
			return nil
		}
	}
	return r.cfg.Wire.Punch(life, id, via)
}

// bare are addresses without the identity at their end, as records carry them: where the member can be met first, then those that most
// others can reach, and those of its own machine only where it has no other.
func bare(full []string) []string {
	type ranked struct {
		addr string
		rank int
	}
	var all []ranked
	for _, s := range full {
		a, err := ma.NewMultiaddr(s)
		if err != nil {
			continue
		}
		t, _ := peer.SplitAddr(a)
		if t == nil {
			continue
		}
		k := 2
		switch {
		case wire.RelayOf(t.String()) != "":
			k = 0
		case manet.IsPublicAddr(t):
			k = 1
		case manet.IsIPLoopback(t):
			k = 3
		}
		all = append(all, ranked{t.String(), k})
	}
	slices.SortStableFunc(all, func(a, b ranked) int { return cmp.Compare(a.rank, b.rank) })
	var out []string
	for _, a := range all {
		if a.rank == 3 && len(out) > 0 && all[0].rank != 3 || len(out) == overlay.MaxAddrs {
			break
		}
		out = append(out, a.addr)
	}
	return out
}
