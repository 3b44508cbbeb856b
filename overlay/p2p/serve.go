package p2p

import (
	"context"
	"fmt"
	"sync/atomic"
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

const probeTimeout = 8 * time.Second

// serve registers what others may ask.
func (r *Runner) serve() {
	w := r.cfg.Wire
	serveTimeout := 2 * r.cfg.Overlay.Timeout
	w.HandleRidden(protoGossip, maxGossip, serveTimeout, r.onGossip)
	w.HandleRidden(protoNear, 4<<10, serveTimeout, r.onNear)
	w.HandleRidden(protoProbe, 4<<10, probeTimeout, r.onProbe)
	if r.cfg.Queue != nil {
		w.HandleRidden(protoOffer, 4<<10, serveTimeout, r.onOffer)
		w.HandleRidden(protoHandoff, maxHandoff, serveTimeout, r.onHandoff)
	}
}

// step has the loop take a request in, and returns the node's answer to it; what else the node wants to say is sent. A request that the
// loop does not get to while its asker still waits is not taken in at all, and its asker is told: an offer is never taken unheard, and a
// member that has too much to do does not spend its time on the dead.
func (r *Runner) step(ctx context.Context, from wire.Member, m overlay.Msg) (overlay.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Overlay.Timeout*3/4)
	defer cancel()
	done := make(chan overlay.Msg, 1)
	id := overlay.ID(from.Peer.String())
	var begun atomic.Bool // or given up
	ok := r.post(ctx, func(life context.Context, now time.Time) {
		if !begun.CompareAndSwap(false, true) {
			return
		}
		out := r.node.Step(now, id, m)
		for i, s := range out {
			if s.To == id && isAnswer(s.Msg) {
				r.send(life, append(out[:i:i], out[i+1:]...))
				done <- s.Msg
				return
			}
		}
		r.send(life, out)
		done <- nil
	})
	if ok {
		select {
		case answer := <-done:
			return r.answer(answer)
		case <-ctx.Done():
		}
		if !begun.CompareAndSwap(false, true) {
			return r.answer(<-done) // it is being taken in
		}
	}
	r.count("overloaded")
	return nil, wire.Errorf(wire.Busy, "too much to do")
}

func (r *Runner) answer(m overlay.Msg) (overlay.Msg, error) {
	if m == nil {
		return nil, wire.Errorf(wire.Refused, "the request makes no sense here")
	}
	r.sent.Add(1)
	return r.sign(m), nil
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

// sign seals the node's own record where a message carries it. It runs beside the loop: signing takes time.
func (r *Runner) sign(m overlay.Msg) overlay.Msg {
	switch m := m.(type) {
	case overlay.Gossip:
		r.sealOwn(&m.Self)
		return m
	case overlay.Near:
		for i := range m.Records {
			if m.Records[i].ID == r.id {
				r.sealOwn(m.Records[i])
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
	self, err := r.sealer.openOwn(r.cfg.Wire.Now(), m.Self, overlay.ID(from.Peer.String()))
	if err != nil {
		r.refuse(err)
		return nil, wire.Errorf(wire.Malformed, "%v", err)
	}
	self.Account, self.Prefix = from.Account, from.Prefix
	answer, err := r.step(ctx, from, overlay.Gossip{Self: self, Records: r.sealer.openAll(r.cfg.Wire.Now(), m.Records, overlay.MaxGossip, r.refuse)})
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
	at, err := channel.ParseCoordPB(m.At)
	if err != nil {
		err = fmt.Errorf("%w: %w", errCoord, err)
		r.refuse(err)
		return nil, wire.Errorf(wire.Malformed, "%v", err)
	}
	answer, err := r.step(ctx, from, overlay.FindNear{At: at, N: int(min(m.N, overlay.MaxNear+1))})
	if err != nil {
		return nil, err
	}
	return proto.Marshal(&pb.Near{Records: sealed(answer.(overlay.Near).Records)})
}

// onOffer takes offers of managers only. A signed header is no secret: whoever was once offered a task could fill the queues of others with it, for nothing.
func (r *Runner) onOffer(ctx context.Context, from wire.Member, req []byte) ([]byte, error) {
	var m pb.Offer
	if err := proto.Unmarshal(req, &m); err != nil {
		return nil, r.malformed("offer", err)
	}
	t, err := r.task(m.Signed)
	if err != nil {
		return nil, wire.Errorf(wire.Refused, "%v", err)
	}
	if from.Role != member.Manager {
		r.count("role")
		return nil, wire.Errorf(wire.Refused, "tasks are taken from managers only")
	}
	answer, err := r.step(ctx, from, overlay.Offer{Signed: t.Signed, Header: t.Header})
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

// onHandoff takes the tasks that the sender may give: it shows how it came to each, and its own word that this member has it now.
func (r *Runner) onHandoff(ctx context.Context, from wire.Member, req []byte) ([]byte, error) {
	var m pb.Handoff
	if err := proto.Unmarshal(req, &m); err != nil || len(m.Tasks) > overlay.MaxHandoff {
		return nil, r.malformed(fmt.Sprintf("handoff of %d tasks", len(m.Tasks)), err)
	}
	taken := make([]bool, len(m.Tasks))
	var good []overlay.Task
	var at []int
	for i, raw := range m.Tasks {
		t, err := r.task(raw)
		if err != nil {
			continue
		}
		if err := r.givers.may(r.cfg.Wire.Now(), t.Signed, string(r.id), from.Peer.String()); err != nil {
			r.refuse(err)
			continue
		}
		good, at = append(good, t), append(at, i)
	}
	answer, err := r.step(ctx, from, overlay.Handoff{Tasks: good})
	if err != nil {
		return nil, err
	}
	for k, yes := range answer.(overlay.HandoffAnswer).Taken {
		taken[at[k]] = yes
	}
	return proto.Marshal(&pb.HandoffAnswer{Taken: taken})
}

// onProbe measures the round-trip time to a Web host, for managers only.
func (r *Runner) onProbe(ctx context.Context, from wire.Member, req []byte) ([]byte, error) {
	if r.cfg.Probe == nil || from.Role != member.Manager {
		r.count("role")
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
	done := make(chan overlay.PeerRecord, 1)
	if !r.post(ctx, func(_ context.Context, now time.Time) { done <- r.node.Self(now) }) {
		return nil, ctx.Err()
	}
	select {
	case self := <-done:
		r.sealOwn(&self)
		return proto.Marshal(&pb.Probed{RttUs: uint64(rtt.Microseconds()), Self: unsealed(self)})
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
