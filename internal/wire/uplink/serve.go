package uplink

import (
	"context"
	"errors"
	"time"

	"shoal/channel"
	"shoal/internal/member"
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
			return nil, bad(n, err)
		}
		c, err := a.Claim(ctx, from.Peer.String(), task)
		if err != nil {
			return nil, told(n, err)
		}
		if c.Status == Granted && from.Role == member.Peer && n.Verifier().Banned(from.Peer.String(), from.Account) {
			// It was banned while it was being answered, and what ended its claims may not have seen this one.
			return nil, giveBack(ctx, a, from.Peer.String(), task)
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
			return nil, bad(n, err)
		}
		r, err := a.Put(ctx, from.Peer.String(), c)
		return answer(n, r, err)
	})
	n.Handle(ProtoRenew, maxSmall, smallTimeout, func(ctx context.Context, from wire.Member, req []byte) ([]byte, error) {
		task, err := channel.ParseSigned(req)
		if err != nil {
			return nil, bad(n, err)
		}
		r, err := a.Renew(ctx, from.Peer.String(), task)
		return answer(n, r, err)
	})
	n.Handle(ProtoRelease, maxSmall, smallTimeout, func(ctx context.Context, from wire.Member, req []byte) ([]byte, error) {
		var m pb.Release
		if err := unmarshal(req, &m); err != nil {
			return nil, bad(n, err)
		}
		r, err := a.Release(ctx, from.Peer.String(), channel.ID(m.Channel), channel.Gen(m.Gen))
		return answer(n, r, err)
	})
}

// giveBack releases a claim of which its member is not told.
func giveBack(ctx context.Context, a Archive, peer string, task channel.Signed) error {
	h, err := channel.ParseHeader(task.Raw)
	if err == nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), smallTimeout) // the ban has closed the connection
		defer cancel()
		_, err = a.Release(ctx, peer, h.Channel, h.Gen)
	}
	if err != nil {
		return err
	}
	return wire.Errorf(wire.Refused, "banned from this network")
}

func answer(n *wire.Node, r Reply, err error) ([]byte, error) {
	if err != nil {
		return nil, told(n, err)
	}
	return marshal(replyPB(r, time.Now()))
}

// told makes an archive's error one that may be told to a peer.
func told(n *wire.Node, err error) error {
	switch {
	case errors.Is(err, ErrBad):
		return bad(n, err)
	case errors.Is(err, ErrLater):
		return wire.Errorf(wire.Busy, "the archive cannot take it now; try again in a minute")
	}
	return err
}

// bad refuses what cannot be read or is not what it says it is, and counts it by reason.
func bad(n *wire.Node, err error) error {
	why := member.Reason(err)
	if why == "other" {
		why = "malformed"
	}
	n.Refuse("archive_" + why)
	return wire.Errorf(wire.Malformed, "%v", err)
}
