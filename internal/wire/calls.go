package wire

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/multiformats/go-multistream"

	"shoal/channel"
	"shoal/internal/member"
	"shoal/internal/wire/frame"
	"shoal/internal/wire/gate"
)

// Handler answers a request. An error that is a *Status or a Code reaches the caller as it is; any other as Internal, without its text.
type Handler func(ctx context.Context, from Member, req []byte) (resp []byte, err error)

// calls are the requests that members ask of a node, and those that it asks of them.
type calls struct {
	*conns
	role     member.Role
	patience time.Duration
	running  *counts
	memory   *memory
	verifier *member.Verifier
	numbers  *numbers
	life     *life
	log      *slog.Logger

	mu     sync.Mutex // guards all below
	ridden map[protocol.ID]ridden
}

// HandleStream serves a protocol with streams for members. The handler must set its deadlines and close or reset the stream; ctx ends
// with the node.
func (c *calls) HandleStream(p protocol.ID, handle func(ctx context.Context, from Member, s network.Stream)) {
	c.host.SetStreamHandler(p, func(s network.Stream) {
		m := c.gate.MemberOf(s.Conn())
		ctx, leave, alive := c.life.enter(context.Background())
		defer leave()
		if m == nil || !alive {
			gate.Refuse(s)
			return
		}
		handle(ctx, *m, s)
	})
}

// Handle serves a protocol of requests and answers. maxIn bounds the request; timeout the whole exchange, from the first byte asked
// to the last byte answered.
func (c *calls) Handle(proto protocol.ID, maxIn int, timeout time.Duration, handle Handler) {
	c.HandleStream(proto, func(ctx context.Context, from Member, s network.Stream) {
		start := time.Now()
		code := c.serve(ctx, from, s, proto, maxIn, start.Add(timeout), handle)
		c.numbers.servedSeconds.WithLabelValues(string(proto)).Observe(time.Since(start).Seconds())
		c.numbers.served.WithLabelValues(string(proto), code).Inc()
	})
}

// serve reads a request, answers it, and tells how that went.
func (c *calls) serve(ctx context.Context, from Member, s network.Stream, proto protocol.ID, maxIn int, until time.Time, handle Handler) string {
	defer s.Close()
	if err := s.SetDeadline(until); err != nil {
		reset(s)
		return broken
	}
	h := c.memory.hold(from, remoteAddr(s.Conn()))
	defer h.end()
	resp, err := c.handled(ctx, from, s, proto, maxIn, until, h, handle)
	if err == nil && len(resp) > frame.Small && h.answer(len(resp)) != nil {
		c.numbers.rejected("no_memory")
		err = &Status{Code: Busy, Text: "no memory left for an answer of this size; try again later"}
	}
	out := moving{s, until, h.of.piece}
	if err == nil {
		if err = frame.Write(out, []byte{byte(ok)}, resp); err == nil {
			return "ok"
		}
		if isTimeout(err) {
			c.numbers.rejected("slow")
		}
		reset(s)
		return broken
	}
	var why unheard
	if errors.As(err, &why) {
		reset(s)
		return string(why)
	}
	st := statusOf(err)
	if st.Code == Internal {
		c.log.Warn("handler failed", "proto", proto, "peer", from.Peer, "err", err)
	}
	if err := frame.Write(out, []byte{byte(st.Code)}, []byte(clip(st.Reason, maxReason)+"\n"+clip(st.Text, maxText))); err != nil {
		reset(s)
		return broken
	}
	return st.Code.String()
}

// unheard is the reason for a request that cannot be answered, because its sender does not listen or its end is
// unknown.
type unheard string

func (u unheard) Error() string { return "wire: request " + string(u) }

// handled reads a request and has it handled.
func (c *calls) handled(ctx context.Context, from Member, s network.Stream, proto protocol.ID, maxIn int, until time.Time, h *holding, handle Handler) ([]byte, error) {
	key := callKey{from.Peer, proto}
	if !c.running.begin(key) {
		return nil, c.tooMany()
	}
	defer c.running.end(key)
	if err := s.SetReadDeadline(sooner(until, h.of.piece)); err != nil {
		return nil, unheard(broken)
	}
	req, err := frame.Read(bufio.NewReaderSize(s, 512), maxIn, incoming(s, h, until))
	if err == nil {
		hctx, cancel := context.WithDeadline(ctx, until)
		defer cancel()
		return handle(hctx, from, req)
	}
	why := unread(err)
	if why != broken {
		c.numbers.rejected(why)
	}
	switch {
	case errors.Is(err, frame.ErrTooLarge):
		return nil, &Status{Code: TooLarge, Text: err.Error()}
	case errors.Is(err, frame.ErrNoMemory):
		return nil, &Status{Code: Busy, Text: "no memory left for a request of this size; try again later"}
	}
	return nil, unheard(why)
}

// broken is a request that its connection or its asker took away.
const broken = "broken"

// unread is the word for why a frame could not be read.
func unread(err error) string {
	var cut *network.StreamError
	switch {
	case errors.Is(err, frame.ErrTooLarge):
		return "too_large"
	case errors.Is(err, frame.ErrNoMemory):
		return "no_memory"
	case isTimeout(err):
		return "slow"
	case errors.Is(err, io.EOF), errors.As(err, &cut), errors.Is(err, network.ErrReset):
		return broken
	}
	return "malformed"
}

// tooMany refuses a peer that has as many requests under way as it may.
func (c *calls) tooMany() error {
	c.numbers.rejected("too_many_requests")
	return &Status{Code: Busy, Text: fmt.Sprintf("more than %d requests at a time", c.running.most)}
}

func isStatus(err error) bool {
	var s *Status
	return errors.As(err, &s)
}

func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &t) && t.Timeout()
}

// Call asks a member and returns its answer, of at most maxOut bytes. It connects if need be. Errors: *Status from the other side (test
// with errors.Is(err, wire.Busy) and the like), ErrUnreachable, or the context's.
func (c *calls) Call(ctx context.Context, to peer.ID, proto protocol.ID, req []byte, maxOut int) ([]byte, error) {
	if _, set := ctx.Deadline(); !set {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, callTimeout)
		defer cancel()
	}
	resp, err := c.call(ctx, to, proto, req, maxOut)
	code := "ok"
	if err != nil {
		var s *Status
		switch {
		case errors.As(err, &s):
			code = s.Code.String()
		case ctx.Err() != nil:
			code, err = "timeout", fmt.Errorf("%w: %w", ctx.Err(), err)
		case isTimeout(err): // the stream's clock struck before the context's
			code, err = "timeout", fmt.Errorf("%w: %w", context.DeadlineExceeded, err)
		case errors.Is(err, ErrUnreachable):
			code = "unreachable"
		default:
			code = broken
		}
		err = fmt.Errorf("call %s of %s: %w", proto, to, err)
	}
	c.numbers.called.WithLabelValues(string(proto), code).Inc()
	return resp, err
}

func (c *calls) call(ctx context.Context, to peer.ID, proto protocol.ID, req []byte, maxOut int) ([]byte, error) {
	s, err := c.OpenStream(ctx, to, proto)
	if err != nil {
		return nil, err
	}
	// The other end reads no more once it has answered. The rest of the request then fails over QUIC, and waits for
	// room over TCP, while the answer is there.
	sent := make(chan error, 1)
	go func() {
		err := frame.Write(s, nil, req)
		if err == nil {
			_ = s.CloseWrite()
		}
		sent <- err
	}()
	defer func() {
		reset(s) // after a clean end it does nothing
		<-sent   // the request is the caller's
	}()
	stop := context.AfterFunc(ctx, func() { reset(s) })
	defer stop()
	r := bufio.NewReaderSize(s, 512)
	code, err := r.ReadByte()
	if err != nil {
		return nil, callError(err)
	}
	limit := maxOut
	if Code(code) != ok {
		limit = 4 * maxText
	}
	h := c.memory.hold(c.known(s.Conn()), remoteAddr(s.Conn()))
	defer h.end()
	b, err := frame.Read(r, limit, frame.Budget{Reserve: h.reserve})
	if err != nil {
		if errors.Is(err, frame.ErrTooLarge) {
			return nil, &Status{Code: TooLarge, Text: "its answer: " + err.Error()}
		}
		if errors.Is(err, frame.ErrNoMemory) {
			return nil, &Status{Code: Busy, Text: "no memory left for its answer; try again later"}
		}
		return nil, callError(err)
	}
	select {
	case err := <-sent:
		sent <- err
		s.Close()
	default:
	}
	if Code(code) == ok {
		return b, nil
	}
	reason, text, _ := strings.Cut(string(b), "\n")
	return nil, &Status{Code: Code(code), Reason: channel.PlainText(reason, maxReason), Text: channel.PlainText(text, maxText)}
}

// callError tells a peer that does not speak a protocol, or has no room, from one that is gone.
func callError(err error) error {
	var no multistream.ErrNotSupported[protocol.ID]
	var streamErr *network.StreamError
	switch {
	case errors.As(err, &no):
		return &Status{Code: NotFound, Text: "it does not speak that protocol"}
	case errors.As(err, &streamErr) && streamErr.ErrorCode == network.StreamResourceLimitExceeded:
		return &Status{Code: Busy, Text: "it has no room for another stream"}
	case errors.As(err, &streamErr) && streamErr.ErrorCode == network.StreamGated:
		return &Status{Code: NotMember, Reason: errNotMember.Reason, Text: "wire: the other side does not take this connection for a member's"}
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%w: it hung up before it answered", ErrUnreachable)
	}
	return fmt.Errorf("%w: %w", ErrUnreachable, err)
}

// OpenStream opens a stream to a member, with the context's deadline on it.
func (c *calls) OpenStream(ctx context.Context, to peer.ID, proto protocol.ID) (network.Stream, error) {
	if c.relayed(to) {
		return nil, fmt.Errorf("%w: %s: only a relay leads there", ErrUnreachable, to)
	}
	s, err := c.host.NewStream(ctx, to, proto)
	if err != nil {
		var st *Status
		if errors.As(err, &st) {
			return nil, st
		}
		return nil, callError(err)
	}
	if until, set := ctx.Deadline(); set {
		if err := s.SetDeadline(until); err != nil {
			reset(s)
			return nil, callError(err)
		}
	}
	return s, nil
}
