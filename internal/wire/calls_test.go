package wire

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/protocol"

	"shoal/internal/wire/frame"
)

func pair(t testing.TB, cfg Config) (w *testNet, a, b *Node) {
	t.Helper()
	w = newNet(t, openPolicy)
	a, b = w.member(Config{}), w.member(cfg)
	if err := a.Connect(t.Context(), b.ID(), b.Addrs()...); err != nil {
		t.Fatal(err)
	}
	knows(t, b, a)
	return w, a, b
}

func TestErrorsCrossTheWire(t *testing.T) {
	_, a, b := pair(t, Config{})
	const proto protocol.ID = "/shoal/test/fail/1"
	b.Handle(proto, 100, time.Minute, func(_ context.Context, _ Member, req []byte) ([]byte, error) {
		switch string(req) {
		case "busy":
			return nil, Errorf(Busy, "try at %d", 5)
		case "code":
			return nil, NotFound
		case "wrapped":
			return nil, errors.Join(errors.New("disk"), &Status{Code: Refused, Reason: "late", Text: "too late"})
		case "long":
			return nil, Errorf(Refused, "%s", strings.Repeat("é", 5000))
		case "painted":
			return nil, &Status{Code: Refused, Reason: "\x1b[31mred", Text: "a\x1b[2J\u202eb\u200b\n\tc\x07"}
		case "big":
			return make([]byte, 1000), nil
		}
		return nil, errors.New("secret path /home/ada")
	})
	for req, tt := range map[string]struct {
		code Code
		text string
	}{
		"busy": {Busy, "try at 5"}, "code": {NotFound, ""}, "wrapped": {Refused, "too late"}, "other": {Internal, "internal error"},
		"big": {TooLarge, "1000 bytes, at most 500"}, strings.Repeat("x", 101): {TooLarge, "101 bytes, at most 100"}, "long": {Refused, "ééé"},
	} {
		_, err := a.Call(t.Context(), b.ID(), proto, []byte(req), 500)
		var s *Status
		if !errors.Is(err, tt.code) || !errors.As(err, &s) || !strings.Contains(s.Text, tt.text) || len(s.Text) > maxText {
			t.Errorf("%.10s: %v", req, err)
		}
		if strings.Contains(err.Error(), "ada") {
			t.Error("an internal error's text went out")
		}
	}
	var s *Status
	if _, err := a.Call(t.Context(), b.ID(), proto, []byte("wrapped"), 500); !errors.As(err, &s) || s.Reason != "late" {
		t.Errorf("reason: %v", err)
	}
	if _, err := a.Call(t.Context(), b.ID(), proto, []byte("painted"), 500); !errors.As(err, &s) || s.Reason != "[31mred" || s.Text != "a [2J b c" {
		t.Errorf("a member's words reach those who read the error as they are: %q", s)
	}
	if _, err := a.Call(t.Context(), b.ID(), "/shoal/none/1", nil, 100); !errors.Is(err, NotFound) {
		t.Errorf("unknown protocol: %v", err)
	}
}

func TestHugeAnnouncedFrame(t *testing.T) {
	_, a, b := pair(t, Config{})
	serveEcho(b)
	s, err := a.OpenStream(t.Context(), b.ID(), echo)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Reset()
	if _, err := s.Write([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(s)
	if err != nil || len(answer) == 0 || Code(answer[0]) != TooLarge {
		t.Errorf("%q, %v", answer, err)
	}
}

func TestSlowSenderIsCutOff(t *testing.T) {
	_, a, b := pair(t, Config{})
	const proto protocol.ID = "/shoal/test/slow/1"
	b.Handle(proto, 100, 300*time.Millisecond, func(context.Context, Member, []byte) ([]byte, error) {
		t.Error("answered half a request")
		return nil, nil
	})
	s, err := a.OpenStream(t.Context(), b.ID(), proto)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Write([]byte{50, 'h', 'a', 'l', 'f'}); isTimeout(err) { // any other error: it is cut off already
		t.Fatal(err)
	}
	if _, err := s.Read(make([]byte, 1)); err == nil || isTimeout(err) {
		t.Errorf("not cut off: %v", err)
	}
}

func TestSlowHandler(t *testing.T) {
	_, a, b := pair(t, Config{Limits: Limits{Calls: 2}})
	const proto protocol.ID = "/shoal/test/wait/1"
	b.Handle(proto, 100, 20*time.Second, func(ctx context.Context, _ Member, _ []byte) ([]byte, error) {
		<-ctx.Done() // ends when b closes
		return nil, ctx.Err()
	})
	done := make(chan error, 2)
	for range 2 {
		go func() {
			_, err := a.Call(context.Background(), b.ID(), proto, nil, 10)
			done <- err
		}()
	}
	eventually(t, "both run", func() bool {
		b.running.mu.Lock()
		defer b.running.mu.Unlock()
		return b.running.of[callKey{a.ID(), proto}] == 2
	})
	if _, err := a.Call(t.Context(), b.ID(), proto, nil, 10); !errors.Is(err, Busy) {
		t.Errorf("one too many: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	const other protocol.ID = "/shoal/test/wait/2"
	b.Handle(other, 100, 20*time.Second, func(ctx context.Context, _ Member, _ []byte) ([]byte, error) { <-ctx.Done(); return nil, nil })
	if _, err := a.Call(ctx, b.ID(), other, nil, 10); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("caller's deadline: %v", err)
	}
	b.Close() // waits for the handlers, ends the calls
	for range 2 {
		if err := <-done; err == nil {
			t.Error("a call of a closed node went well")
		}
	}
	if _, err := a.Call(t.Context(), b.ID(), proto, nil, 10); !errors.Is(err, ErrUnreachable) {
		t.Errorf("closed: %v", err)
	}
}

// An answer that comes before the request is all sent is one.
func TestAnswerBeforeTheEnd(t *testing.T) {
	w := newNet(t, openPolicy)
	a, b := w.member(Config{QUIC: true}), w.member(Config{QUIC: true})
	const proto protocol.ID = "/shoal/test/early/1"
	b.HandleStream(proto, func(_ context.Context, _ Member, s network.Stream) {
		if err := frame.Write(s, []byte{byte(Busy)}, []byte("full\n")); err != nil {
			t.Error(err)
		}
		s.Close()
	})
	for _, quic := range []bool{true, false} {
		var at []string
		for _, addr := range b.Addrs() {
			if strings.Contains(addr, "quic") == quic {
				at = append(at, addr)
			}
		}
		a.Host().Peerstore().ClearAddrs(b.ID())
		if err := a.Connect(t.Context(), b.ID(), at...); err != nil {
			t.Fatal(err)
		}
		for _, size := range []int{0, 1 << 20} {
			for range 20 {
				if _, err := a.Call(t.Context(), b.ID(), proto, make([]byte, size), 100); !errors.Is(err, Busy) {
					t.Fatalf("QUIC %v: a request of %d bytes: %v", quic, size, err)
				}
			}
		}
		if err := a.Host().Network().ClosePeer(b.ID()); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the connection is gone at both ends", func() bool { return !a.Direct(b.ID()) && !b.Direct(a.ID()) })
	}
}

func TestHalfAnswer(t *testing.T) {
	_, a, b := pair(t, Config{})
	const proto protocol.ID = "/shoal/test/half/1"
	b.HandleStream(proto, func(_ context.Context, _ Member, s network.Stream) {
		s.Write([]byte{0, 100, 'h'})
		s.Close()
	})
	if _, err := a.Call(t.Context(), b.ID(), proto, nil, 1000); !errors.Is(err, ErrUnreachable) {
		t.Errorf("half an answer: %v", err)
	}
}

func BenchmarkCall(b *testing.B) {
	_, x, y := pair(b, Config{})
	serveEcho(y)
	req := make([]byte, 200)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := x.Call(b.Context(), y.ID(), echo, req, 1000); err != nil {
			b.Fatal(err)
		}
	}
}
