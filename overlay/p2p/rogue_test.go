package p2p

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/host"
	corenet "github.com/libp2p/go-libp2p/core/network"
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
	"github.com/multiformats/go-multistream"
	"google.golang.org/protobuf/proto"

	channelpb "shoal/channel/channelpb"
	"shoal/internal/wire/wirepb"
	pb "shoal/overlay/p2p/overlaypb"
)

// outsider is a libp2p program of somebody else's, written after docs/protocol.md and the message definitions: none of the project's code
// that speaks is in it.
type outsider struct {
	t    *testing.T
	key  crypto.PrivKey
	host host.Host
}

func newOutsider(t *testing.T) *outsider {
	t.Helper()
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	key, _, err := crypto.GenerateEd25519Key(nil)
	must(err)
	id, err := peer.IDFromPrivateKey(key)
	must(err)
	store, err := pstoremem.NewPeerstore()
	must(err)
	must(store.AddPrivKey(id, key))
	must(store.AddPubKey(id, key.GetPublic()))
	bus := eventbus.NewBus()
	sw, err := swarm.NewSwarm(id, store, bus, swarm.WithDialTimeout(patience), swarm.WithDialTimeoutLocal(patience)) // a busy machine takes its time
	must(err)
	muxers := []upgrader.StreamMuxer{{ID: yamux.ID, Muxer: yamux.DefaultTransport}}
	secure, err := noise.New(noise.ID, key, muxers)
	must(err)
	up, err := upgrader.New([]sec.SecureTransport{secure}, muxers, nil, &corenet.NullResourceManager{}, nil)
	must(err)
	tr, err := tcp.NewTCPTransport(up, nil, nil)
	must(err)
	must(sw.AddTransport(tr))
	h := blankhost.NewBlankHost(sw, blankhost.WithEventBus(bus))
	t.Cleanup(func() { h.Close() })
	return &outsider{t, key, h}
}

func (o *outsider) dial(s *site) {
	o.t.Helper()
	if err := o.host.Connect(o.t.Context(), peer.AddrInfo{ID: s.node.ID(), Addrs: s.node.Host().Addrs()}); err != nil {
		o.t.Fatal(err)
	}
}

// again connects anew.
func (o *outsider) again(s *site) {
	o.t.Helper()
	if err := o.host.Network().ClosePeer(s.node.ID()); err != nil {
		o.t.Fatal(err)
	}
	o.dial(s)
}

// call sends a frame and reads what comes: with a code before it, but for the gate.
func (o *outsider) call(s *site, on protocol.ID, req []byte, coded bool) (code byte, answer []byte, err error) {
	return o.callFor(patience, s, on, req, coded)
}

func (o *outsider) callFor(wait time.Duration, s *site, on protocol.ID, req []byte, coded bool) (code byte, answer []byte, err error) {
	ctx, cancel := context.WithTimeout(o.t.Context(), wait)
	defer cancel()
	st, err := o.host.Network().NewStream(ctx, s.node.ID())
	if err != nil {
		return 0, nil, err
	}
	defer st.Reset()
	if err := st.SetDeadline(time.Now().Add(wait)); err != nil {
		return 0, nil, err
	}
	if err := multistream.SelectProtoOrFail(on, st); err != nil {
		return 0, nil, err
	}
	if _, err := st.Write(append(binary.AppendUvarint(nil, uint64(len(req))), req...)); err != nil {
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
	n, err := binary.ReadUvarint(r)
	if err != nil {
		return 0, nil, err
	}
	answer = make([]byte, min(n, 1<<20))
	_, err = io.ReadFull(r, answer)
	return code, answer, err
}

func encode(t *testing.T, m proto.Message) []byte {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// hello greets at the gate.
func (o *outsider) hello(s *site, h *wirepb.Hello) *wirepb.Welcome {
	o.t.Helper()
	h.Version, h.NowMs = 1, time.Now().UnixMilli()
	_, b, err := o.call(s, "/shoal/member/1", encode(o.t, h), false)
	if err != nil {
		o.t.Fatal(err)
	}
	var w wirepb.Welcome
	if err := proto.Unmarshal(b, &w); err != nil {
		o.t.Fatal(err)
	}
	return &w
}

// record signs a record of the outsider's own.
func (o *outsider) record(n *membership, change func(*pb.Record)) *pb.Sealed {
	o.t.Helper()
	r := &pb.Record{Network: n.id, Id: o.host.ID().String(), Seq: uint64(time.Now().UnixNano()), IssuedMs: time.Now().UnixMilli(),
		Coord: &channelpb.Coord{Vec: make([]float64, 8), Err: 1}}
	if change != nil {
		change(r)
	}
	raw := encode(o.t, r)
	sig, err := o.key.Sign(append([]byte("shoal record 1\x00"), raw...))
	if err != nil {
		o.t.Fatal(err)
	}
	return &pb.Sealed{Record: raw, Sig: sig}
}

// membership is what a join string tells.
type membership struct{ id []byte }

// A program of somebody else's can join and take part by what the documents say; before it has joined it gets the gate and nothing else,
// and what it says amiss is refused, counted by reason, and changes nothing.
func TestOutsider(t *testing.T) {
	n := open(t, 2, 5)
	n.until("the manager knows all peers", func() bool { return n.takers() == 2 })
	p := n.peers[0]
	net := &membership{n.keys.Network[:]}
	o := newOutsider(t)

	o.dial(p)
	kad := protocol.ID("/shoal/" + n.keys.Network.String() + "/kad/1.0.0")
	for _, on := range []protocol.ID{protoGossip, protoNear, protoOffer, protoHandoff, protoProbe, "/shoal/ride/1", "/shoal/passed/1", kad, "/ipfs/id/1.0.0", "/ipfs/ping/1.0.0",
		"/libp2p/circuit/relay/0.2.0/hop", "/libp2p/dcutr"} {
		// Refused, or left waiting for a membership that does not come.
		if code, b, err := o.callFor(100*time.Millisecond, p, on, nil, true); err == nil {
			t.Errorf("a stranger that asks %s is answered: %d %q", on, code, b)
		}
	}
	o.again(p)
	if w := o.hello(p, &wirepb.Hello{Network: net.id}); w.Code != 3 {
		t.Errorf("a stranger without a certificate is answered %v", w)
	}

	o.dial(n.boss)
	joined := o.hello(n.boss, &wirepb.Hello{Want: 1, Network: net.id, Account: "somebody"})
	if joined.Code != 0 || len(joined.Issued) == 0 {
		t.Fatalf("not let in: %v", joined)
	}
	o.again(p)
	if w := o.hello(p, &wirepb.Hello{Network: net.id, Certificate: joined.Issued}); w.Code != 0 {
		t.Fatalf("a member is not known: %v", w)
	}
	code, b, err := o.call(p, protoGossip, encode(t, &pb.Gossip{Self: o.record(net, nil)}), true)
	var g pb.Gossip
	if err != nil || code != 0 || proto.Unmarshal(b, &g) != nil || g.Self == nil {
		t.Fatalf("gossip is answered %d %q, %v", code, b, err)
	}
	n.until("the peer knows the outsider", func() bool {
		for _, r := range p.runner.Peers() {
			if string(r.ID) == o.host.ID().String() {
				return true
			}
		}
		return false
	})
	before := p.runner.Status().Refused
	nan := make([]float64, 8)
	nan[3] = math.NaN()
	forged := o.record(net, nil)
	forged.Sig[5] ^= 1
	s, _ := n.task(7, time.Hour)
	altered := append([]byte(nil), s.Raw...)
	altered[len(altered)-1] ^= 1
	s.Raw = altered
	old := o.record(net, func(r *pb.Record) { r.Seq, r.IssuedMs = 1, time.Now().Add(-time.Hour).UnixMilli() })
	for _, bad := range []struct {
		what   string
		on     protocol.ID
		req    []byte
		code   byte
		reason string
	}{
		{"noise", protoGossip, []byte("\xff\xff\xff"), 1, "malformed"},
		{"too much", protoGossip, make([]byte, 64<<10), 2, ""},
		{"NaN", protoGossip, encode(t, &pb.Gossip{Self: o.record(net, func(r *pb.Record) { r.Coord.Vec = nan })}), 1, "coordinate"},
		{"infinite", protoNear, encode(t, &pb.FindNear{At: &channelpb.Coord{Vec: make([]float64, 8), Height: math.Inf(1), Err: 1}, N: 8}), 1, "coordinate"},
		{"forged", protoGossip, encode(t, &pb.Gossip{Self: forged}), 1, "altered"},
		{"unsigned", protoGossip, encode(t, &pb.Gossip{Self: &pb.Sealed{Record: forged.Record}}), 1, "unsigned"},
		{"replayed", protoGossip, encode(t, &pb.Gossip{Self: old}), 1, "replayed"},
		{"of another network", protoGossip, encode(t, &pb.Gossip{Self: o.record(net, func(r *pb.Record) { r.Network = make([]byte, 32) })}), 1, "other_network"},
		{"hearsay without a pass", protoGossip, encode(t, &pb.Gossip{Self: o.record(net, nil), Records: []*pb.Sealed{o.record(net, nil)}}), 0, "pass_unsigned"},
		{"a task that was altered", protoOffer, encode(t, &pb.Offer{Signed: s.Marshal()}), 4, "task_altered"},
		{"too many tasks", protoHandoff, encode(t, &pb.Handoff{Tasks: make([][]byte, 65)}), 1, "malformed"},
		{"a manager's question", protoProbe, encode(t, &pb.Probe{Host: "http://a.example"}), 4, ""},
		{"a server's ride", "/shoal/passed/1", nil, 4, ""},
	} {
		code, b, err := o.call(p, bad.on, bad.req, true)
		if err != nil || code != bad.code {
			t.Errorf("%s: answered %d %q, %v; want code %d", bad.what, code, b, err, bad.code)
		}
		if after := p.runner.Status().Refused; bad.reason != "" && after[bad.reason] != before[bad.reason]+1 {
			t.Errorf("%s is not counted as %s: %v, then %v", bad.what, bad.reason, before, after)
		}
		before = p.runner.Status().Refused
	}
	if len(p.bin.tasks) > 0 || len(p.runner.Peers()) > 3 {
		t.Errorf("%d tasks taken, %d members known", len(p.bin.tasks), len(p.runner.Peers()))
	}
	if _, _, err := o.call(p, "/shoal/claim/1", nil, true); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a peer is no archive: %v", err)
	}
}
