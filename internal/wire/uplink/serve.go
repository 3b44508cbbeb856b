package uplink

import (
	"context"
	"errors"
	"time"

	"shoal/channel"
	"shoal/internal/wire"
	pb "shoal/internal/wire/uplink/uplinkpb"
)

// Errors that an archive wraps, so that its peers learn what to do. Any other reaches them as an internal error.
var (
	ErrLater = errors.New("uplink: not now")         // try again later: the disk is full, it is shutting down
	ErrBad   = errors.New("uplink: cannot be taken") // trying again is no use
)

// Serve answers peers on n with what a says.
func Serve(n *wire.Node, a Archive) {
	n.Handle(ProtoClaim, maxSmall, bodyTimeout, func(ctx context.Context, from wire.Member, req []byte) ([]byte, error) {
		task, err := channel.ParseSigned(req)
		if err != nil {
			return nil, wire.Errorf(wire.Malformed, "%v", err)
		}
		c, err := a.Claim(ctx, from.Peer.String(), task)
		if err != nil {
			return nil, told(err)
		}
		m := &pb.Claimed{Reply: replyPB(c.Reply, time.Now())}
		if c.Status == Granted {
			m.Body, m.Resume = c.Body, c.Resume.Marshal()
		}
		return marshal(m)
	})
	n.Handle(ProtoChunk, maxChunk, bodyTimeout, func(ctx context.Context, from wire.Member, req []byte) ([]byte, error) {
		c, err := channel.ParseChunk(req)
		if err != nil {
			return nil, wire.Errorf(wire.Malformed, "%v", err)
		}
		return answer(a.Put(ctx, from.Peer.String(), c))
	})
	n.Handle(ProtoRenew, maxSmall, smallTimeout, func(ctx context.Context, from wire.Member, req []byte) ([]byte, error) {
		task, err := channel.ParseSigned(req)
		if err != nil {
			return nil, wire.Errorf(wire.Malformed, "%v", err)
		}
		return answer(a.Renew(ctx, from.Peer.String(), task))
	})
	n.Handle(ProtoRelease, maxSmall, smallTimeout, func(ctx context.Context, from wire.Member, req []byte) ([]byte, error) {
		var m pb.Release
		if err := unmarshal(req, &m); err != nil {
			return nil, wire.Errorf(wire.Malformed, "%v", err)
		}
		return answer(a.Release(ctx, from.Peer.String(), channel.ID(m.Channel), channel.Gen(m.Gen)))
	})
}

func answer(r Reply, err error) ([]byte, error) {
	if err != nil {
		return nil, told(err)
	}
	return marshal(replyPB(r, time.Now()))
}

// told makes an archive's error one that may be told to a peer.
func told(err error) error {
	switch {
	case errors.Is(err, ErrBad):
		return wire.Errorf(wire.Malformed, "%v", err)
	case errors.Is(err, ErrLater):
		return wire.Errorf(wire.Busy, "the archive cannot take it now; try again in a minute")
	}
	return err
}
