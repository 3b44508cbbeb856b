package wire

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"

	"shoal/internal/member"
	"shoal/internal/wire/frame"
)

func (m *memory) held() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.used[""]
}

func TestMemoryBounds(t *testing.T) {
	m := newMemory(Limits{Memory: 1000, MemoryPerPrefix: 600, MemoryPerAccount: 400, MemoryPerMember: 200})
	addr := func(s string) netip.Addr { return netip.MustParseAddr(s) }
	hold := func(p, account, from string) *holding {
		return m.hold(Member{Peer: peer.ID(p), Account: account, Role: member.Peer}, addr(from))
	}
	a, again := hold("a", "x", "192.0.2.1"), hold("a", "x", "198.51.100.1")
	if a.reserve(200) != nil || a.reserve(1) == nil || again.reserve(1) == nil {
		t.Error("a member's bound does not hold for all that it does")
	}
	b, c := hold("b", "x", "192.0.2.2"), hold("c", "x", "203.0.113.1")
	if b.reserve(200) != nil || c.reserve(1) == nil {
		t.Error("an account's bound does not hold")
	}
	d, e := hold("d", "y", "192.0.2.3"), hold("e", "z", "192.0.2.4")
	if d.reserve(200) != nil || e.reserve(1) == nil {
		t.Error("a prefix's bound does not hold")
	}
	server := m.hold(Member{Peer: "s", Role: member.Archive}, addr("192.0.2.5"))
	if server.reserve(400) != nil || server.reserve(1) == nil {
		t.Error("the total does not hold, or a server is bound by more than that")
	}
	server.end()
	f := hold("f", "v", "203.0.113.7")
	if f.answer(350) != nil {
		t.Error("a member that holds nothing is not given its answer")
	}
	if f.answer(50) != nil || hold("f", "v", "203.0.113.7").answer(1) == nil {
		t.Error("the bound does not hold for what else a member asks for meanwhile")
	}
	for _, h := range []*holding{a, again, b, c, d, e, f} {
		h.end()
	}
	if len(m.used) != 0 {
		t.Errorf("not all was given back: %v", m.used)
	}
}

// announce opens streams that announce large requests, and send one piece of each.
func announce(t *testing.T, from *Node, to *Node, proto protocol.ID, streams, size, send int) {
	t.Helper()
	for range streams {
		s, err := from.OpenStream(t.Context(), to.ID(), proto)
		if err != nil {
			t.Fatal(err)
		}
		go s.Write(append(binary.AppendUvarint(nil, uint64(size)), make([]byte, send)...)) // until the nodes close: a stream that is refused is not read
	}
}

// Announcing costs the other side nothing: eighteen members that announce 4 MiB on sixteen streams each, and send a byte, do not keep
// another's request out.
func TestAnnouncedMemoryIsNotHeld(t *testing.T) {
	const proto protocol.ID = "/shoal/test/large/1"
	w := newNet(t, openPolicy)
	const size = 4 << 20
	w.manager.memory.piece = time.Hour // the members do not go on, however long the others take
	w.manager.Handle(proto, size, time.Hour, func(_ context.Context, _ Member, req []byte) ([]byte, error) {
		return fmt.Append(nil, len(req)), nil
	})
	for range 18 {
		announce(t, w.member(Config{}), w.manager, proto, 16, size, 1)
	}
	eventually(t, "all are being read", func() bool {
		w.manager.running.mu.Lock()
		defer w.manager.running.mu.Unlock()
		n := 0
		for k, v := range w.manager.running.of {
			if k.proto == proto {
				n += v
			}
		}
		return n == 18*16
	})
	if held := w.manager.memory.held(); held != 0 {
		t.Errorf("%d bytes are held for %d that arrived", held, 18*16)
	}
	if resp, err := w.member(Config{}).Call(t.Context(), w.manager.ID(), proto, make([]byte, size), 100); err != nil || string(resp) != fmt.Sprint(size) {
		t.Errorf("an honest request beside them: %q, %v", resp, err)
	}
}

// What one account has sent and does not finish takes its own share, and leaves the others theirs.
func TestMemoryOfOneAccountIsBounded(t *testing.T) {
	const proto protocol.ID = "/shoal/test/large/2"
	const size = 256 << 10
	w := newNet(t, openPolicy)
	b := w.member(Config{Limits: Limits{Memory: 4 * size, MemoryPerPrefix: 4 * size, MemoryPerAccount: 2 * size, MemoryPerMember: size}})
	b.memory.piece = time.Hour // the hoarder's requests stand, however long the rest takes
	b.Handle(proto, size, time.Hour, func(_ context.Context, _ Member, req []byte) ([]byte, error) { return nil, nil })
	hoarder := w.member(Config{})
	if err := hoarder.Connect(t.Context(), b.ID(), b.Addrs()...); err != nil {
		t.Fatal(err)
	}
	announce(t, hoarder, b, proto, 1, size, size-1)
	eventually(t, "the member's share is taken", func() bool { return b.memory.held() >= size-frame.Step })
	announce(t, hoarder, b, proto, 7, size, size-1)
	eventually(t, "no more is held for the member", func() bool { return b.numbers.count("no_memory") >= 7 })
	if held := b.memory.held(); held > size {
		t.Errorf("%d bytes are held for one member, at most %d", held, size)
	}
	honest := w.member(Config{})
	if err := honest.Connect(t.Context(), b.ID(), b.Addrs()...); err != nil {
		t.Fatal(err)
	}
	if _, err := honest.Call(t.Context(), b.ID(), proto, make([]byte, size), 100); err != nil {
		t.Errorf("an honest request beside it: %v", err)
	}
	if _, err := hoarder.Call(t.Context(), b.ID(), proto, make([]byte, size), 100); !errors.Is(err, Busy) {
		t.Errorf("one more of the hoarder: %v", err)
	}
}

// deadlines notes what a stream is told, and delivers nothing.
type deadlines struct {
	network.Stream
	read, write []time.Duration
	wrote       int
}

func (d *deadlines) SetReadDeadline(at time.Time) error {
	d.read = append(d.read, time.Until(at))
	return nil
}

func (d *deadlines) SetWriteDeadline(at time.Time) error {
	d.write = append(d.write, time.Until(at))
	return nil
}

func (d *deadlines) Write(b []byte) (int, error) { d.wrote += len(b); return len(b), nil }

// Each piece of a frame has its own time, which ends before the exchange's.
func TestFramesMustMove(t *testing.T) {
	var d deadlines
	until := time.Now().Add(time.Hour)
	budget := incoming(&d, newMemory(DefaultLimits(member.Manager)).hold(Member{}, netip.Addr{}), until)
	for range 3 {
		if err := budget.Piece(frame.Step); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := (moving{&d, until, pieceTime}).Write(make([]byte, 3*frame.Step+1)); err != nil || n != 3*frame.Step+1 || d.wrote != n {
		t.Fatalf("wrote %d of %d: %v", d.wrote, n, err)
	}
	if len(d.read) != 3 || len(d.write) != 4 {
		t.Fatalf("%d pieces read, %d written", len(d.read), len(d.write))
	}
	for _, left := range append(d.read, d.write...) {
		if left > pieceTime {
			t.Errorf("a piece may take %v", left)
		}
	}
	if at := sooner(time.Now().Add(time.Second), pieceTime); time.Until(at) > time.Second {
		t.Error("a piece may take longer than the exchange")
	}
}

// A request that stands still is reset long before its exchange's time is over.
func TestStandstillIsReset(t *testing.T) {
	const proto protocol.ID = "/shoal/test/still/1"
	_, a, b := pair(t, Config{})
	b.memory.piece = 300 * time.Millisecond
	b.Handle(proto, 1<<20, time.Hour, func(context.Context, Member, []byte) ([]byte, error) { return nil, nil })
	s, err := a.OpenStream(t.Context(), b.ID(), proto)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.SetDeadline(time.Now().Add(10 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Write(append(binary.AppendUvarint(nil, 1<<20), make([]byte, 100<<10)...)); err != nil {
		t.Logf("reset before all was written: %v", err) // this program itself stood still for so long
	}
	if _, err := s.Read(make([]byte, 1)); err == nil || isTimeout(err) {
		t.Errorf("not reset: %v", err)
	}
	eventually(t, "it is counted", func() bool { return b.numbers.count("slow") == 1 })
	eventually(t, "its memory is given back", func() bool { return b.memory.held() == 0 })
}
