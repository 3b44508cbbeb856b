package uplink

import (
	"context"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"

	"shoal/channel"
	pb "shoal/internal/wire/uplink/uplinkpb"
)

// Caller asks members; *wire.Node does.
type Caller interface {
	Call(ctx context.Context, to peer.ID, proto protocol.ID, req []byte, maxOut int) ([]byte, error)
}

// Client talks to one archive. It is safe for concurrent use. Errors of wire pass through: errors.Is(err, wire.Busy) means to try again
// later, wire.Malformed and wire.Refused that trying again is no use.
type Client struct {
	node    Caller
	archive peer.ID

	mu     sync.Mutex
	offset Offset
}

// NewClient makes a client of the archive with that id, to which node must know an address.
func NewClient(node Caller, archive peer.ID) *Client { return &Client{node: node, archive: archive} }

// Time is the archive's time at now, as well as its answers told.
func (c *Client) Time(now time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.offset.Time(now)
}

// Claim claims a task. Holder.Acked wants the time before this call, and Claimed.Left.
func (c *Client) Claim(ctx context.Context, task channel.Signed) (Claimed, error) {
	sent := time.Now()
	b, err := c.call(ctx, ProtoClaim, task.Marshal(), maxClaimed, bodyTimeout)
	if err != nil {
		return Claimed{}, err
	}
	out, at, err := parseClaimed(b)
	if err == nil {
		c.learn(sent, at)
	}
	return out, err
}

// Put sends a chunk and returns when it is durable, or refused.
func (c *Client) Put(ctx context.Context, chunk channel.Chunk) (Reply, error) {
	return c.reply(ctx, ProtoChunk, chunk.Marshal(), bodyTimeout)
}

// Renew asks what is left of a task's lease, or keeps an unclaimed task up to its latest start.
func (c *Client) Renew(ctx context.Context, task channel.Signed) (Reply, error) {
	return c.reply(ctx, ProtoRenew, task.Marshal(), smallTimeout)
}

// Release gives a claimed task back. The peer has stopped fetching, and sent its last chunk.
func (c *Client) Release(ctx context.Context, id channel.ID, gen channel.Gen) (Reply, error) {
	b, err := marshal(&pb.Release{Channel: uint64(id), Gen: uint64(gen)})
	if err != nil {
		return Reply{}, err
	}
	return c.reply(ctx, ProtoRelease, b, smallTimeout)
}

func (c *Client) reply(ctx context.Context, proto protocol.ID, req []byte, timeout time.Duration) (Reply, error) {
	sent := time.Now()
	b, err := c.call(ctx, proto, req, maxSmall, timeout)
	if err != nil {
		return Reply{}, err
	}
	var m pb.Reply
	if err := unmarshal(b, &m); err != nil {
		return Reply{}, err
	}
	r, at, err := parseReply(&m)
	if err == nil {
		c.learn(sent, at)
	}
	return r, err
}

func (c *Client) call(ctx context.Context, proto protocol.ID, req []byte, maxOut int, timeout time.Duration) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return c.node.Call(ctx, c.archive, proto, req, maxOut)
}

func (c *Client) learn(sent, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.offset.Learn(sent, time.Now(), at)
}
