package p2p

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"shoal/channel"
	"shoal/coords"
	"shoal/internal/wire"
	"shoal/overlay"
	pb "shoal/overlay/p2p/overlaypb"
)

// send carries the node's requests. Called on the loop; life ends with Run.
func (r *Runner) send(life context.Context, out []overlay.Send) {
	for _, s := range out {
		req, ok := requestOf(s.Msg)
		if !ok {
			continue
		}
		select {
		case r.flight <- struct{}{}:
		default: // as if it were lost: the node goes on with others
			r.count("too_many_requests")
			r.send(life, r.node.Failed(r.cfg.Wire.Now(), req, true))
			continue
		}
		r.wg.Go(func() {
			r.carry(life, s.To, s.Addrs, req, r.sign(s.Msg))
			<-r.flight
		})
	}
}

// prefixOf is the network of the public address that a member is connected from; empty: none.
func (r *Runner) prefixOf(id overlay.ID) string {
	p, err := peer.Decode(string(id))
	if err != nil {
		return ""
	}
	m, _ := r.cfg.Wire.Member(p)
	return m.Prefix
}

func requestOf(m overlay.Msg) (uint64, bool) {
	switch m := m.(type) {
	case overlay.Gossip:
		return m.Req, !m.Answer
	case overlay.FindNear:
		return m.Req, true
	case overlay.Offer:
		return m.Req, true
	case overlay.ProbeHost:
		return m.Req, true
	case overlay.Handoff:
		return m.Req, true
	}
	return 0, false
}

// carry sends one request and hands its answer to the node. It runs beside the loop.
func (r *Runner) carry(life context.Context, to overlay.ID, addrs []string, req uint64, m overlay.Msg) {
	// Give up earlier than the node does by itself: a failed connection proves that no peer has the task, a time-out
	// does not.
	ctx, cancel := context.WithTimeout(life, r.cfg.Overlay.Timeout*9/10)
	defer cancel()
	way := target{to, addrs, func(straight bool) {
		r.post(life, func(_ context.Context, now time.Time) {
			if straight {
				r.node.Straight(now, req)
			} else {
				r.node.Around(now, req)
			}
		})
	}}
	answer, err := r.exchange(ctx, way, req, m)
	if err != nil {
		r.log.Debug("no answer", "peer", to, "err", err)
	}
	prefix := r.prefixOf(to)
	r.post(life, func(life context.Context, now time.Time) {
		if err == nil {
			r.node.Located(to, prefix)
			r.send(life, r.node.Step(now, to, answer))
		} else {
			r.send(life, r.node.Failed(now, req, neverSent(err)))
		}
	})
	if g, ok := answer.(overlay.Gossip); ok {
		r.timeTo(life, &g.Self)
	}
}

// neverSent tells an error that means for certain that the other side took nothing: it said so, in words that it chooses itself.
func neverSent(err error) bool {
	var s *wire.Status
	return errors.As(err, &s) && s.Code != wire.Internal || errors.Is(err, errNotDialled)
}

var errNotDialled = errors.New("p2p: not reached")

// timeTo measures the round trip to a member that has just answered a gossip. It runs beside the loop.
func (r *Runner) timeTo(life context.Context, to *overlay.PeerRecord) {
	if id, err := peer.Decode(string(to.ID)); err == nil {
		r.sample(life, id, to.Coord)
	}
}

// exchange makes one request and reads its answer.
func (r *Runner) exchange(ctx context.Context, to target, req uint64, m overlay.Msg) (overlay.Msg, error) {
	switch m := m.(type) {
	case overlay.Gossip:
		raw, err := encodeGossip(m)
		if err != nil {
			return nil, err
		}
		var a pb.Gossip
		if err := r.ask(ctx, to, protoGossip, raw, &a); err != nil {
			return nil, err
		}
		self, err := r.sealer.openOwn(r.cfg.Wire.Now(), a.Self, to.id)
		if err != nil {
			r.refuse(err)
			return nil, err
		}
		if id, err := peer.Decode(string(to.id)); err == nil {
			m, _ := r.cfg.Wire.Member(id)
			self.Account, self.Prefix = m.Account, m.Prefix
		}
		return overlay.Gossip{Req: req, Answer: true, Self: self, Records: r.sealer.openAll(r.cfg.Wire.Now(), a.Records, overlay.MaxGossip, r.refuse)}, nil
	case overlay.FindNear:
		raw, err := proto.Marshal(&pb.FindNear{At: channel.CoordPB(m.At), N: uint32(m.N)})
		if err != nil {
			return nil, err
		}
		var a pb.Near
		if err := r.ask(ctx, to, protoNear, raw, &a); err != nil {
			return nil, err
		}
		return overlay.Near{Req: req, Records: r.sealer.openAll(r.cfg.Wire.Now(), a.Records, overlay.MaxNear, r.refuse)}, nil
	case overlay.ProbeHost:
		return r.askProbe(ctx, to, req, m)
	case overlay.Offer:
		raw, err := proto.Marshal(&pb.Offer{Signed: m.Signed.Marshal()})
		if err != nil {
			return nil, err
		}
		if r.cfg.Offered != nil { // the claim may be quicker than the answer
			r.cfg.Offered(to.id, m.Header, NoAnswer)
		}
		var a pb.Answer
		if err := r.ask(ctx, to, protoOffer, raw, &a); err != nil {
			return nil, err
		}
		if r.cfg.Offered != nil {
			r.cfg.Offered(to.id, m.Header, Said(a.Accept))
		}
		return overlay.Answer{Req: req, Accept: a.Accept, Start: time.UnixMilli(a.StartMs)}, nil
	}
	return nil, fmt.Errorf("%w: %T is no request", errMessage, m)
}

func (r *Runner) askProbe(ctx context.Context, to target, req uint64, m overlay.ProbeHost) (overlay.Msg, error) {
	raw, err := proto.Marshal(&pb.Probe{Host: m.Host})
	if err != nil {
		return nil, err
	}
	var a pb.Probed
	err = r.ask(ctx, to, protoProbe, raw, &a)
	if s := (*wire.Status)(nil); errors.As(err, &s) { // an answer: from there the host cannot be reached
		return overlay.Probed{Req: req}, nil
	}
	if err != nil {
		return nil, err
	}
	self, err := r.sealer.openOwn(r.cfg.Wire.Now(), a.Self, to.id)
	if err != nil {
		r.refuse(err)
		return nil, err
	}
	return overlay.Probed{Req: req, RTT: time.Duration(min(a.RttUs, uint64(coords.MaxRTT/time.Microsecond))) * time.Microsecond, At: self.Coord}, nil
}

// handoff offers tasks that were not claimed to one peer, with the word that lets it claim them.
func (r *Runner) handoff(ctx context.Context, p overlay.PeerRecord, tasks []overlay.Task) ([]bool, error) {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Overlay.Timeout)
	defer cancel()
	m := &pb.Handoff{}
	for _, t := range tasks {
		s, err := HandOver(r.sealer.key, t.Signed, p.ID)
		if err != nil { // no place for it: the peer refuses the empty task, which goes back to the manager in the end
			r.log.Debug("task cannot be handed over", "err", err)
			m.Tasks = append(m.Tasks, nil)
			continue
		}
		m.Tasks = append(m.Tasks, s.Marshal())
	}
	raw, err := proto.Marshal(m)
	if err != nil {
		return nil, err
	}
	var a pb.HandoffAnswer
	if err := r.ask(ctx, target{id: p.ID, addrs: p.Addrs}, protoHandoff, raw, &a); err != nil {
		return nil, err
	}
	return a.Taken, nil
}
