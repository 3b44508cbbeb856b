package rogue

import (
	"context"
	"fmt"

	"github.com/libp2p/go-libp2p/core/protocol"
	"google.golang.org/protobuf/proto"

	"shoal/channel/channelpb"
	"shoal/internal/wire/uplink/uplinkpb"
)

// Said is what the archive answered to a call about a task, whether it granted what was asked for or not.
type Said struct {
	Status uint32 // as docs/protocol.md numbers them
	Seq    uint64
	Head   [32]byte
}

// Statuses that do what was asked for.
const (
	Granted = granted
	Stored  = stored
	Ended   = 8
)

// SayClaim claims a task and tells what was answered. It and the calls below serve tests that judge the answers and do not work with them.
func (v *Volunteer) SayClaim(ctx context.Context, o Offer) (Said, error) {
	b, err := v.Call(ctx, "/shoal/claim/1", o.Signed)
	if err != nil {
		return Said{}, err
	}
	var c uplinkpb.Claimed
	if err := proto.Unmarshal(b, &c); err != nil {
		return Said{}, fmt.Errorf("rogue: the answer to a claim: %w", err)
	}
	return saidOf(c.GetReply()), nil
}

// SayRenew asks for more time.
func (v *Volunteer) SayRenew(ctx context.Context, o Offer) (Said, error) {
	return v.say(ctx, "/shoal/renew/1", o.Signed)
}

// SayRelease gives a task back.
func (v *Volunteer) SayRelease(ctx context.Context, o Offer) (Said, error) {
	return v.say(ctx, "/shoal/release/1", encode(&uplinkpb.Release{Channel: o.Header.Channel, Gen: o.Header.Gen}))
}

// SayChunk stores an empty chunk behind a head, and returns the chunk's hash too.
func (v *Volunteer) SayChunk(ctx context.Context, o Offer, seq uint64, prev [32]byte) (own [32]byte, said Said, err error) {
	c := &channelpb.Chunk{Channel: o.Header.Channel, Gen: o.Header.Gen, Seq: seq, Body: zipper.EncodeAll(encode(&channelpb.ChunkBody{}), nil)}
	if prev != ([32]byte{}) {
		c.Prev = prev[:]
	}
	own = hash(c, prev)
	said, err = v.say(ctx, "/shoal/chunk/1", encode(c))
	return own, said, err
}

func (v *Volunteer) say(ctx context.Context, on protocol.ID, req []byte) (Said, error) {
	b, err := v.Call(ctx, on, req)
	if err != nil {
		return Said{}, err
	}
	var a uplinkpb.Reply
	if err := proto.Unmarshal(b, &a); err != nil {
		return Said{}, fmt.Errorf("rogue: the answer on %s: %w", on, err)
	}
	return saidOf(&a), nil
}

func saidOf(a *uplinkpb.Reply) Said {
	s := Said{Status: a.GetStatus(), Seq: a.GetSeq()}
	copy(s.Head[:], a.GetHead())
	return s
}
