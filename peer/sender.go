package peer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"shoal/channel"
	"shoal/internal/again"
	"shoal/internal/wire"
	"shoal/internal/wire/uplink"
)

// archive is what a sender needs of an uplink.Client.
type archive interface {
	Put(ctx context.Context, c channel.Chunk) (uplink.Reply, error)
	Renew(ctx context.Context, task channel.Signed) (uplink.Reply, error)
}

// sender puts the chunks of one task on the archive's chain.
type sender struct {
	up     archive
	header channel.Header
	hold   *hold
	seq    uint64
	head   [32]byte
	sent   atomic.Int64
	over   atomic.Bool // the archive has stored a chunk, and the lease does not run by that
	away   *atomic.Bool
	// homecoming returns a channel that is closed when there is reason to ask an archive again that was away.
	homecoming func() <-chan struct{}
	log        interface{ Debug(string, ...any) }
}

// BytesUp is what was sent so far, compressed.
func (s *sender) BytesUp() int64 { return s.sent.Load() }

// Put implements crawl.Sink.
func (s *sender) Put(ctx context.Context, raw []byte, last bool) error {
	body, err := channel.CompressBody(raw)
	if err != nil {
		return err
	}
	if last {
		s.hold.stop() // the crawl is over: nothing is fetched any more, whatever is answered
	}
	return s.put(ctx, body)
}

// put puts the next chunk. It tries until the archive answers, or has been away for too long.
func (s *sender) put(ctx context.Context, body []byte) error {
	c := channel.Chunk{Channel: s.header.Channel, Gen: s.header.Gen, Seq: s.seq + 1, Prev: s.head, Body: body}
	hash := c.Hash()
	first := time.Now()
	for pace := again.Every(retries); ; {
		sent, back := s.hold.clock(), s.homecoming()
		r, err := s.up.Put(ctx, c)
		switch {
		case err != nil && (errors.Is(err, wire.Malformed) || errors.Is(err, wire.Refused) || errors.Is(err, wire.TooLarge)):
			return fmt.Errorf("chunk %d: %w", c.Seq, err)
		case err != nil:
			s.away.Store(true)
			s.log.Debug("chunk not acknowledged", "host", s.header.Host, "gen", s.header.Gen, "err", err)
		case r.Status == uplink.Stored, r.Status == uplink.Behind && r.Seq == c.Seq && bytes.Equal(r.Head[:], hash[:]):
			s.away.Store(false)
			s.seq, s.head = c.Seq, hash
			s.sent.Add(int64(len(body)))
			s.hold.acked(sent, r.Left)
			s.over.Store(r.Left <= 0)
			s.log.Debug("chunk acknowledged", "host", s.header.Host, "gen", s.header.Gen, "seq", c.Seq)
			return nil
		default:
			s.hold.stop()
			return fmt.Errorf("chunk %d: the archive answers %v: %w", c.Seq, r.Status, errLost)
		}
		if time.Since(first) > outage {
			return fmt.Errorf("chunk %d: the archive has been away for %v: %w", c.Seq, outage, err)
		}
		if err := pace.Wait(ctx, nil, back); err != nil {
			return err
		}
	}
}

// renew asks what is left of the lease, and tells whether it has lapsed. Only an answer that ends it is an error.
func (s *sender) renew(ctx context.Context, task channel.Signed) (lapsed bool, err error) {
	sent := s.hold.clock()
	r, err := s.up.Renew(ctx, task)
	switch {
	case err != nil:
		s.away.Store(true)
		return false, ctx.Err() // the archive is away: wait
	case r.Status == uplink.Granted:
		s.away.Store(false)
		s.hold.acked(sent, r.Left)
		return r.Left <= 0, nil
	}
	s.hold.stop()
	return false, fmt.Errorf("renew: the archive answers %v: %w", r.Status, errLost)
}
