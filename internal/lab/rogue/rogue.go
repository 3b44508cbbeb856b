// Package rogue is an independent libp2p program for tests. It is written from docs/protocol.md and the message
// definitions and shares no code with the project's own protocols. So whatever the two agree on is on that page.
//
// A Program sends single messages that no honest member sends. A Volunteer joins a network, stays, and behaves as its
// Attack says: it lies about distances, takes tasks and stalls, forges pages, floods. Attacks returns all attacks.
//
// Use the package only for tests on a network of your own on loopback.
package rogue

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/libp2p/go-libp2p/core/sec"
	blankhost "github.com/libp2p/go-libp2p/p2p/host/blank"
	"github.com/libp2p/go-libp2p/p2p/host/eventbus"
	"github.com/libp2p/go-libp2p/p2p/host/peerstore/pstoremem"
	"github.com/libp2p/go-libp2p/p2p/muxer/yamux"
	"github.com/libp2p/go-libp2p/p2p/net/swarm"
	"github.com/libp2p/go-libp2p/p2p/net/upgrader"
	"github.com/libp2p/go-libp2p/p2p/security/noise"
	"github.com/libp2p/go-libp2p/p2p/transport/tcp"
	"github.com/multiformats/go-multiaddr"
	"github.com/multiformats/go-multistream"
	"google.golang.org/protobuf/proto"

	"shoal/channel/channelpb"
	"shoal/internal/wire/wirepb"
	"shoal/overlay/p2p/overlaypb"
)

// Patience is the longest wait for anything. It allows for a busy machine.
const Patience = 2 * time.Minute

// Program is an independent node that runs until its test ends.
type Program struct {
	Host host.Host
	t    testing.TB
	key  crypto.PrivKey
}

// New starts a Program with a new key.
func New(t testing.TB) *Program {
	t.Helper()
	h, key, err := open("")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	return &Program{h, t, key}
}

// open makes a libp2p host with a new key. It listens on listen; an empty address listens nowhere.
func open(listen string) (host.Host, crypto.PrivKey, error) {
	key, _, err := crypto.GenerateEd25519Key(nil)
	if err != nil {
		return nil, nil, err
	}
	id, err := peer.IDFromPrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	store, err := pstoremem.NewPeerstore()
	if err != nil {
		return nil, nil, err
	}
	if err := errors.Join(store.AddPrivKey(id, key), store.AddPubKey(id, key.GetPublic())); err != nil {
		return nil, nil, err
	}
	bus := eventbus.NewBus()
	sw, err := swarm.NewSwarm(id, store, bus, swarm.WithDialTimeout(Patience), swarm.WithDialTimeoutLocal(Patience))
	if err != nil {
		return nil, nil, err
	}
	muxers := []upgrader.StreamMuxer{{ID: yamux.ID, Muxer: yamux.DefaultTransport}}
	secure, err := noise.New(noise.ID, key, muxers)
	if err != nil {
		return nil, nil, err
	}
	up, err := upgrader.New([]sec.SecureTransport{secure}, muxers, nil, &network.NullResourceManager{}, nil)
	if err != nil {
		return nil, nil, err
	}
	tr, err := tcp.NewTCPTransport(up, nil, nil)
	if err != nil {
		return nil, nil, err
	}
	if err := sw.AddTransport(tr); err != nil {
		return nil, nil, err
	}
	if listen != "" {
		at, err := multiaddr.NewMultiaddr(listen)
		if err != nil {
			return nil, nil, err
		}
		if err := sw.Listen(at); err != nil {
			return nil, nil, err
		}
	}
	return blankhost.NewBlankHost(sw, blankhost.WithEventBus(bus)), key, nil
}

// Dial connects.
func (p *Program) Dial(to peer.AddrInfo) {
	p.t.Helper()
	if err := p.Host.Connect(p.t.Context(), to); err != nil {
		p.t.Fatal(err)
	}
}

// Again connects anew.
func (p *Program) Again(to peer.AddrInfo) {
	p.t.Helper()
	if err := p.Host.Network().ClosePeer(to.ID); err != nil {
		p.t.Fatal(err)
	}
	p.Dial(to)
}

// Frame returns b with its length before it.
func Frame(b []byte) []byte { return append(binary.AppendUvarint(nil, uint64(len(b))), b...) }

// Call sends a request as a frame and reads the answer and its code.
func (p *Program) Call(to peer.ID, on protocol.ID, req []byte) (code byte, answer []byte, err error) {
	return p.Send(Patience, to, on, Frame(req), true)
}

// Send sends bytes as they are and reads a frame. Except at the gate, a code precedes the frame.
func (p *Program) Send(wait time.Duration, to peer.ID, on protocol.ID, raw []byte, coded bool) (code byte, answer []byte, err error) {
	ctx, cancel := context.WithTimeout(p.t.Context(), wait)
	defer cancel()
	return exchange(ctx, p.Host, to, on, raw, coded)
}

// exchange sends bytes on a stream of their own and reads a frame, with a code before it if coded is set. ctx must have a deadline.
func exchange(ctx context.Context, h host.Host, to peer.ID, on protocol.ID, raw []byte, coded bool) (code byte, answer []byte, err error) {
	st, err := h.Network().NewStream(ctx, to)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = st.Reset() }() // after its end it does nothing
	if end, ok := ctx.Deadline(); ok {
		if err := st.SetDeadline(end); err != nil {
			return 0, nil, err
		}
	}
	if err := multistream.SelectProtoOrFail(on, st); err != nil {
		return 0, nil, err
	}
	if _, err := st.Write(raw); err != nil {
		return 0, nil, err
	}
	if err := st.CloseWrite(); err != nil {
		return 0, nil, err
	}
	r := bufio.NewReader(st)
	if coded {
		if code, err = r.ReadByte(); err != nil {
			return 0, nil, err
		}
	}
	answer, err = readFrame(r, maxAnswer)
	return code, answer, err
}

// maxAnswer exceeds every answer: a task's body and resume state.
const maxAnswer = 64 << 20

func readFrame(r *bufio.Reader, limit uint64) ([]byte, error) {
	n, err := binary.ReadUvarint(r)
	if err != nil {
		return nil, err
	}
	if n > limit {
		return nil, fmt.Errorf("rogue: a frame of %d bytes", n)
	}
	b := make([]byte, n)
	_, err = io.ReadFull(r, b)
	return b, err
}

// Encode returns the encoded message.
func (p *Program) Encode(m proto.Message) []byte {
	p.t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		p.t.Fatal(err)
	}
	return b
}

// Hello greets at the gate, with the current version and time unless h sets others.
func (p *Program) Hello(to peer.ID, h *wirepb.Hello) *wirepb.Welcome {
	p.t.Helper()
	if h.Version == 0 {
		h.Version = 1
	}
	if h.NowMs == 0 {
		h.NowMs = time.Now().UnixMilli()
	}
	_, b, err := p.Send(Patience, to, "/shoal/member/1", Frame(p.Encode(h)), false)
	if err != nil {
		p.t.Fatal(err)
	}
	var w wirepb.Welcome
	if err := proto.Unmarshal(b, &w); err != nil {
		p.t.Fatal(err)
	}
	return &w
}

// Record signs a record of the program's own, for a network.
func (p *Program) Record(network []byte, change func(*overlaypb.Record)) *overlaypb.Sealed {
	p.t.Helper()
	r := &overlaypb.Record{Network: network, Id: p.Host.ID().String(), Seq: uint64(time.Now().UnixNano()), IssuedMs: time.Now().UnixMilli(),
		Coord: &channelpb.Coord{Vec: make([]float64, 8), Err: 1}}
	if change != nil {
		change(r)
	}
	raw := p.Encode(r)
	sig, err := p.key.Sign(append([]byte("shoal record 1\x00"), raw...))
	if err != nil {
		p.t.Fatal(err)
	}
	return &overlaypb.Sealed{Record: raw, Sig: sig}
}
