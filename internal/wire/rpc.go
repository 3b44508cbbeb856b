package wire

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/multiformats/go-multistream"
)

// Handler answers a request. An error that is a *Status or a Code reaches the caller as it is; any other as Internal, without its text.
type Handler func(ctx context.Context, from Member, req []byte) (resp []byte, err error)

// callKey counts what one peer asks of one protocol.
type callKey struct {
	peer  peer.ID
	proto protocol.ID
}

// Handle serves a protocol of requests and answers. maxIn bounds the request; timeout the whole exchange, from the first byte asked
// to the last byte answered.
func (n *Node) Handle(proto protocol.ID, maxIn int, timeout time.Duration, handle Handler) {
	n.HandleStream(proto, func(ctx context.Context, from Member, s network.Stream) {
		start := time.Now()
		code := n.serve(ctx, from, s, proto, maxIn, start.Add(timeout), handle)
		n.servedSeconds.WithLabelValues(string(proto)).Observe(time.Since(start).Seconds())
		n.served.WithLabelValues(string(proto), code).Inc()
	})
}

func (n *Node) serve(ctx context.Context, from Member, s network.Stream, proto protocol.ID, maxIn int, until time.Time, handle Handler) string {
	defer s.Close()
	if err := s.SetDeadline(until); err != nil {
		reset(s)
		return broken
	}
	var resp []byte
	var err error
	key := callKey{from.Peer, proto}
	if n.begin(key) {
		defer n.end(key)
		var req []byte
		req, err = readFrame(bufio.NewReaderSize(s, 512), maxIn, reserveIn(s))
		if err == nil {
			hctx, cancel := context.WithDeadline(ctx, until)
			resp, err = handle(hctx, from, req)
			cancel()
		} else {
			why := unread(err)
			if why != broken {
				n.rejected(why)
			}
			if errors.Is(err, errTooLarge) {
				err = &Status{Code: TooLarge, Text: err.Error()}
			} else if !isStatus(err) {
				reset(s)
				return why
			}
		}
	} else {
		err = n.tooMany()
	}
	code := "ok"
	if err == nil {
		err = writeFrame(s, []byte{byte(ok)}, resp)
	} else {
		st := statusOf(err)
		code = st.Code.String()
		if st.Code == Internal {
			n.log.Warn("handler failed", "proto", proto, "peer", from.Peer, "err", err)
		}
		err = writeFrame(s, []byte{byte(st.Code)}, []byte(clip(st.Reason, 32)+"\n"+clip(st.Text, maxText)))
	}
	if err != nil {
		reset(s)
		return broken
	}
	return code
}

// broken is a request that its connection or its asker took away.
const broken = "broken"

// unread is the word for why a frame could not be read.
func unread(err error) string {
	var cut *network.StreamError
	switch {
	case errors.Is(err, errTooLarge):
		return "too_large"
	case isStatus(err):
		return "no_memory"
	case isTimeout(err):
		return "slow"
	case errors.Is(err, io.EOF), errors.As(err, &cut), errors.Is(err, network.ErrReset):
		return broken
	}
	return "malformed"
}

// tooMany refuses a peer that has as many requests under way as it may.
func (n *Node) tooMany() error {
	n.rejected("too_many_requests")
	return &Status{Code: Busy, Text: fmt.Sprintf("more than %d requests at a time", n.cfg.Limits.Calls)}
}

func isStatus(err error) bool {
	var s *Status
	return errors.As(err, &s)
}

func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &t) && t.Timeout()
}

// begin counts a request in, if its peer may have one more.
func (n *Node) begin(k callKey) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.calls[k] >= n.cfg.Limits.Calls {
		return false
	}
	n.calls[k]++
	return true
}

func (n *Node) end(k callKey) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.calls[k]--; n.calls[k] == 0 {
		delete(n.calls, k)
	}
}

// reserveIn reserves memory for a large frame; it is given back when the stream closes.
func reserveIn(s network.Stream) func(int) error {
	return func(size int) error { return s.Scope().ReserveMemory(size, network.ReservationPriorityMedium) }
}

// Call asks a member and returns its answer, of at most maxOut bytes. It connects if need be. Errors: *Status from the other side (test
// with errors.Is(err, wire.Busy) and the like), ErrUnreachable, or the context's.
func (n *Node) Call(ctx context.Context, to peer.ID, proto protocol.ID, req []byte, maxOut int) ([]byte, error) {
	if _, set := ctx.Deadline(); !set {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, callTimeout)
		defer cancel()
	}
	resp, err := n.call(ctx, to, proto, req, maxOut)
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
	n.called.WithLabelValues(string(proto), code).Inc()
	return resp, err
}

func (n *Node) call(ctx context.Context, to peer.ID, proto protocol.ID, req []byte, maxOut int) ([]byte, error) {
	s, err := n.OpenStream(ctx, to, proto)
	if err != nil {
		return nil, err
	}
	// Whoever has answered reads no more: what is still to be written fails then over QUIC, and waits for room over TCP, while the answer is there.
	sent := make(chan error, 1)
	go func() {
		err := writeFrame(s, nil, req)
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
	b, err := readFrame(r, limit, reserveIn(s))
	if err != nil {
		if errors.Is(err, errTooLarge) {
			return nil, &Status{Code: TooLarge, Text: "its answer: " + err.Error()}
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
	reason, text, _ := bytes.Cut(b, []byte{'\n'})
	return nil, &Status{Code: Code(code), Reason: clip(string(reason), 32), Text: clip(string(text), maxText)}
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
		return errNotMember
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%w: it hung up before it answered", ErrUnreachable)
	}
	return fmt.Errorf("%w: %w", ErrUnreachable, err)
}

// OpenStream opens a stream to a member, with the context's deadline on it.
func (n *Node) OpenStream(ctx context.Context, to peer.ID, proto protocol.ID) (network.Stream, error) {
	if n.relayed(to) {
		return nil, fmt.Errorf("%w: %s: only a relay leads there", ErrUnreachable, to)
	}
	s, err := n.host.NewStream(ctx, to, proto)
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
