package p2p

import (
	"context"
	"fmt"
	"time"

	"github.com/libp2p/go-libp2p/core/protocol"
	"google.golang.org/protobuf/proto"

	"shoal/channel"
	"shoal/internal/member"
	"shoal/internal/wire"
	"shoal/overlay"
	pb "shoal/overlay/p2p/overlaypb"
)

// The protocols, a request and an answer each.
const (
	protoGossip  protocol.ID = "/shoal/gossip/1"
	protoNear    protocol.ID = "/shoal/near/1"
	protoOffer   protocol.ID = "/shoal/offer/1"
	protoHandoff protocol.ID = "/shoal/handoff/1"
	protoProbe   protocol.ID = "/shoal/probe/1"
)

const (
	serveTimeout = 10 * time.Second
	probeTimeout = 8 * time.Second
)

// serve registers what others may ask.
func (r *Runner) serve() {
	w := r.cfg.Wire
	w.HandleRidden(protoGossip, maxMessage, serveTimeout, r.onGossip)
	w.HandleRidden(protoNear, maxMessage, serveTimeout, r.onNear)
	w.HandleRidden(protoProbe, 4<<10, probeTimeout, r.onProbe)
	if r.cfg.Queue != nil {
		w.HandleRidden(protoOffer, 4<<10, serveTimeout, r.onOffer)
		w.HandleRidden(protoHandoff, maxHandoff, serveTimeout, r.onHandoff)
	}
}

// step has the loop take a request in, and returns the node's answer to it; what else the node wants to say is sent.
func (r *Runner) step(ctx context.Context, from wire.Member, m func(now time.Time) (overlay.Msg, error)) (overlay.Msg, error) {
	type result struct {
		msg overlay.Msg
		err error
	}
	done := make(chan result, 1)
	id := overlay.ID(from.Peer.String())
	ok := r.post(ctx, func(now time.Time) {
		msg, err := m(now)
		if err != nil {
			r.refuse(err)
			done <- result{nil, wire.Errorf(wire.Malformed, "%v", err)}
			return
		}
		out := r.node.Step(now, id, msg)
		for i, s := range out {
			if s.To == id && isAnswer(s.Msg) {
				answer := r.sign(s.Msg)
				r.send(append(out[:i:i], out[i+1:]...))
				done <- result{answer, nil}
				return
			}
		}
		r.send(out)
		done <- result{nil, wire.Errorf(wire.Refused, "the request makes no sense here")}
	})
	if !ok {
		return nil, wire.Errorf(wire.Busy, "shutting down")
	}
	select {
	case res := <-done:
		if res.err == nil {
			r.sent.Add(1)
		}
		return res.msg, res.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// refuse counts a refusal by its reason.
func (r *Runner) refuse(err error) { r.count(reason(err)) }

// count counts among the node's refusals.
func (r *Runner) count(why string) { r.cfg.Wire.Refuse(refusedPrefix + why) }

// refusedPrefix stands before the reasons of this package among the node's.
const refusedPrefix = "overlay_"

// malformed refuses a request that cannot be read, and counts it.
func (r *Runner) malformed(what string, err error) error {
	r.count("malformed")
	if err == nil {
		err = errMessage
	}
	return wire.Errorf(wire.Malformed, "%s: %v", what, err)
}

func isAnswer(m overlay.Msg) bool {
	switch m := m.(type) {
	case overlay.Near, overlay.Answer, overlay.HandoffAnswer:
		return true
	case overlay.Gossip:
		return m.Answer
	}
	return false
}

// sign seals the node's own record where a message carries it. Called on the loop.
func (r *Runner) sign(m overlay.Msg) overlay.Msg {
	switch m := m.(type) {
	case overlay.Gossip:
		if err := r.sealer.seal(&m.Self); err != nil {
			r.log.Error("own record not signed", "err", err)
		}
		return m
	case overlay.Near:
		for i := range m.Records {
			if m.Records[i].ID != r.id {
				continue
			}
			if err := r.sealer.seal(&m.Records[i]); err != nil {
				r.log.Error("own record not signed", "err", err)
			}
		}
		return m
	}
	return m
}

func (r *Runner) onGossip(ctx context.Context, from wire.Member, req []byte) ([]byte, error) {
	var m pb.Gossip
	if err := proto.Unmarshal(req, &m); err != nil {
		return nil, r.malformed("gossip", err)
	}
	answer, err := r.step(ctx, from, func(now time.Time) (overlay.Msg, error) {
		self, err := r.sealer.openOwn(now, m.Self, overlay.ID(from.Peer.String()))
		if err != nil {
			return nil, err
		}
		return overlay.Gossip{Self: self, Records: r.sealer.openAll(m.Records, overlay.MaxGossip, r.refuse)}, nil
	})
	if err != nil {
		return nil, err
	}
	return encodeGossip(answer.(overlay.Gossip))
}

func encodeGossip(g overlay.Gossip) ([]byte, error) {
	return proto.Marshal(&pb.Gossip{Self: unsealed(g.Self), Records: sealed(g.Records)})
}

func (r *Runner) onNear(ctx context.Context, from wire.Member, req []byte) ([]byte, error) {
	var m pb.FindNear
	if err := proto.Unmarshal(req, &m); err != nil {
		return nil, r.malformed("lookup", err)
	}
	answer, err := r.step(ctx, from, func(time.Time) (overlay.Msg, error) {
		at, err := channel.ParseCoordPB(m.At)
		if err != nil {
			err = fmt.Errorf("%w: %w", errCoord, err)
		}
		return overlay.FindNear{At: at, N: int(min(m.N, overlay.MaxNear+1))}, err
	})
	if err != nil {
		return nil, err
	}
	return proto.Marshal(&pb.Near{Records: sealed(answer.(overlay.Near).Records)})
}

func (r *Runner) onOffer(ctx context.Context, from wire.Member, req []byte) ([]byte, error) {
	var m pb.Offer
	if err := proto.Unmarshal(req, &m); err != nil {
		return nil, r.malformed("offer", err)
	}
	t, err := r.task(m.Signed)
	if err != nil {
		return nil, wire.Errorf(wire.Refused, "%v", err)
	}
	answer, err := r.step(ctx, from, func(time.Time) (overlay.Msg, error) {
		return overlay.Offer{Signed: t.Signed, Header: t.Header}, nil
	})
	if err != nil {
		return nil, err
	}
	a := answer.(overlay.Answer)
	return proto.Marshal(&pb.Answer{Accept: a.Accept, StartMs: a.Start.UnixMilli()})
}

// task reads and checks a task's signed header.
func (r *Runner) task(raw []byte) (overlay.Task, error) {
	s, err := channel.ParseSigned(raw)
	if err != nil {
		r.count("task_malformed")
		return overlay.Task{}, err
	}
	h, err := r.verify(r.cfg.Wire.Now(), s)
	return overlay.Task{Signed: s, Header: h}, err
}

func (r *Runner) onHandoff(ctx context.Context, from wire.Member, req []byte) ([]byte, error) {
	var m pb.Handoff
	if err := proto.Unmarshal(req, &m); err != nil || len(m.Tasks) > overlay.MaxHandoff {
		return nil, r.malformed(fmt.Sprintf("handoff of %d tasks", len(m.Tasks)), err)
	}
	taken := make([]bool, len(m.Tasks))
	var good []overlay.Task
	var at []int
	for i, raw := range m.Tasks {
		if t, err := r.task(raw); err == nil {
			good, at = append(good, t), append(at, i)
		}
	}
	answer, err := r.step(ctx, from, func(time.Time) (overlay.Msg, error) { return overlay.Handoff{Tasks: good}, nil })
	if err != nil {
		return nil, err
	}
	for k, yes := range answer.(overlay.HandoffAnswer).Taken {
		taken[at[k]] = yes
	}
	return proto.Marshal(&pb.HandoffAnswer{Taken: taken})
}

// onProbe measures the round-trip time to a Web host for a manager, and for nobody else.
func (r *Runner) onProbe(ctx context.Context, from wire.Member, req []byte) ([]byte, error) {
	if r.cfg.Probe == nil || from.Role != member.Manager {
		return nil, wire.Errorf(wire.Refused, "hosts are measured for managers only")
	}
	var m pb.Probe
	if err := proto.Unmarshal(req, &m); err != nil || len(m.Host) > channel.MaxURL {
		return nil, r.malformed("probe", err)
	}
	select {
	case r.probes <- struct{}{}:
	case <-ctx.Done():
		return nil, wire.Errorf(wire.Busy, "too many hosts are being measured")
	}
	defer func() { <-r.probes }()
	rtt, err := r.cfg.Probe(ctx, m.Host)
	if err != nil {
		return nil, wire.Errorf(wire.NotFound, "%s cannot be reached from here", m.Host)
	}
	done := make(chan *pb.Sealed, 1)
	if !r.post(ctx, func(now time.Time) {
		self := r.node.Self(now)
		if err := r.sealer.seal(&self); err != nil {
			r.log.Error("own record not signed", "err", err)
		}
		done <- unsealed(self)
	}) {
		return nil, ctx.Err()
	}
	select {
	case self := <-done:
		return proto.Marshal(&pb.Probed{RttUs: uint64(rtt.Microseconds()), Self: self})
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
