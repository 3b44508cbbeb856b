// Package uplink is what a peer says to its archive: claims, chunks, renewals and releases, on streams of package wire. It has both
// ends: Client for the agent, Serve for the archive, so that the agent needs to know nothing of how an archive stores.
//
// It is not for deciding anything: the answers are those of channel/lease, whose words for peers it repeats here.
//
// Invariants: an answer that is given was durable before; every call may be repeated; the lease left is counted from before the call.
package uplink

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/libp2p/go-libp2p/core/protocol"
	"google.golang.org/protobuf/proto"

	"shoal/channel"
	"shoal/channel/lease"
	pb "shoal/internal/wire/uplink/uplinkpb"
)

// The protocols.
const (
	ProtoClaim   protocol.ID = "/shoal/claim/1"
	ProtoChunk   protocol.ID = "/shoal/chunk/1"
	ProtoRenew   protocol.ID = "/shoal/renew/1"
	ProtoRelease protocol.ID = "/shoal/release/1"
)

// Limits of the messages, and how long an exchange may take.
const (
	maxSmall   = 4 << 10
	maxClaimed = channel.MaxBody + channel.MaxResume + maxSmall
	maxChunk   = channel.MaxChunk + maxSmall

	smallTimeout = 20 * time.Second
	bodyTimeout  = 5 * time.Minute // a claim brings a body, a chunk brings pages, over a slow uplink
)

// Reply is what the archive answers.
type Reply = lease.Reply

// Status is the word of an answer.
type Status = lease.Status

// Holder is the rule by which a peer knows that it may fetch.
type Holder = lease.Holder

// Offset is how far the archive's clock is away.
type Offset = lease.Offset

// The answers.
const (
	Granted   = lease.Granted
	Stored    = lease.Stored
	Fenced    = lease.Fenced
	Behind    = lease.Behind
	Held      = lease.Held
	Late      = lease.Late
	Unclaimed = lease.Unclaimed
	Ended     = lease.Ended
	Waiting   = lease.Waiting
)

// Claimed is the answer to a claim.
type Claimed struct {
	Reply
	Body   []byte         // Granted: the task's body, whose SHA-256 is in its header
	Resume channel.Resume // Granted: from where to go on
}

// ErrMalformed is wrapped when a message cannot be read.
var ErrMalformed = errors.New("uplink: malformed")

// Archive is what Serve needs of an archive.
type Archive interface {
	Claim(ctx context.Context, peer string, task channel.Signed) (Claimed, error)
	Put(ctx context.Context, peer string, c channel.Chunk) (Reply, error)
	Renew(ctx context.Context, peer string, task channel.Signed) (Reply, error)
	Release(ctx context.Context, peer string, id channel.ID, gen channel.Gen) (Reply, error)
}

func replyPB(r Reply, at time.Time) *pb.Reply {
	m := &pb.Reply{Status: uint32(r.Status), Highest: uint64(r.Highest), Seq: r.Seq, LeftUs: r.Left.Microseconds(), AtUs: at.UnixMicro(), RestedUs: r.Rested.Microseconds()}
	if r.Head != ([32]byte{}) {
		m.Head = r.Head[:]
	}
	return m
}

// maxLeft is longer than any lease.
const maxLeft = 30 * 24 * time.Hour

func parseReply(m *pb.Reply) (r Reply, at time.Time, err error) {
	r = Reply{Status: Status(m.GetStatus()), Highest: channel.Gen(m.GetHighest()), Seq: m.GetSeq(), Left: time.Duration(m.GetLeftUs()) * time.Microsecond,
		Rested: time.Duration(m.GetRestedUs()) * time.Microsecond}
	switch n := len(m.GetHead()); {
	case m.GetStatus() == 0 || m.GetStatus() > uint32(Waiting):
		err = fmt.Errorf("%w: status %d", ErrMalformed, m.GetStatus())
	case m.GetLeftUs() < 0 || m.GetLeftUs() > maxLeft.Microseconds():
		err = fmt.Errorf("%w: lease of %d microseconds", ErrMalformed, m.GetLeftUs())
	case m.GetRestedUs() < 0 || m.GetRestedUs() > maxLeft.Microseconds():
		err = fmt.Errorf("%w: a rest of %d microseconds", ErrMalformed, m.GetRestedUs())
	case n != 0 && n != len(r.Head):
		err = fmt.Errorf("%w: hash of %d bytes", ErrMalformed, n)
	}
	if err != nil {
		return Reply{}, time.Time{}, err
	}
	copy(r.Head[:], m.GetHead())
	return r, time.UnixMicro(m.GetAtUs()), nil
}

func marshal(m proto.Message) ([]byte, error) {
	b, err := proto.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("uplink: encode %s: %w", m.ProtoReflect().Descriptor().Name(), err)
	}
	return b, nil
}

func unmarshal(b []byte, m proto.Message) error {
	if err := proto.Unmarshal(b, m); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrMalformed, m.ProtoReflect().Descriptor().Name(), err)
	}
	return nil
}

// parseClaimed reads the answer to a claim.
func parseClaimed(b []byte) (c Claimed, at time.Time, err error) {
	var m pb.Claimed
	if err := unmarshal(b, &m); err != nil {
		return c, at, err
	}
	if c.Reply, at, err = parseReply(m.Reply); err != nil {
		return Claimed{}, at, err
	}
	if c.Status != Granted {
		return c, at, nil
	}
	c.Body = m.Body
	if c.Resume, err = channel.ParseResume(m.Resume); err != nil {
		return Claimed{}, at, fmt.Errorf("%w: resume: %w", ErrMalformed, err)
	}
	return c, at, nil
}
