package p2p

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"google.golang.org/protobuf/proto"

	"shoal/channel"
	"shoal/coords"
	"shoal/internal/member"
	"shoal/internal/wire"
	"shoal/overlay"
	pb "shoal/overlay/p2p/overlaypb"
)

// stamp is an identity that seals records for tests.
type stamp struct {
	id overlay.ID
	sealer
}

func newStamp(t testing.TB, n byte, network member.NetworkID) *stamp {
	t.Helper()
	key, err := crypto.UnmarshalEd25519PrivateKey(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{n}, ed25519.SeedSize)))
	if err != nil {
		t.Fatal(err)
	}
	id, err := peer.IDFromPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return &stamp{overlay.ID(id.String()), sealer{key: key, network: network, checked: map[overlay.ID]checked{}}}
}

func (s *stamp) record(t testing.TB, change func(*overlay.PeerRecord)) *pb.Sealed {
	t.Helper()
	r := overlay.PeerRecord{ID: s.id, Seq: 1, Issued: time.Now(), Coord: coords.Coord{Err: 1}, Load: overlay.Load{Threads: 1}, Addrs: []string{"/ip4/192.0.2.1/tcp/1"}}
	if change != nil {
		change(&r)
	}
	if err := s.seal(&r); err != nil {
		t.Fatal(err)
	}
	return unsealed(r)
}

// Every kind of bad record is refused under its own word.
func TestBadRecords(t *testing.T) {
	network := member.NetworkID{1}
	a, other := newStamp(t, 1, network), newStamp(t, 2, network)
	foreign := newStamp(t, 1, member.NetworkID{2})
	reader := &sealer{network: network, checked: map[overlay.ID]checked{}}
	now := time.Now()
	if _, err := reader.openOwn(now, a.record(t, func(r *overlay.PeerRecord) { r.Seq = 1000 }), a.id); err != nil {
		t.Fatal(err)
	}
	altered := a.record(t, nil)
	altered.Record = append([]byte(nil), altered.Record...)
	altered.Record[len(altered.Record)-1] ^= 1
	for what, bad := range map[string]struct {
		m    *pb.Sealed
		want string
	}{
		"nothing":        {nil, "unsigned"},
		"unsigned":       {&pb.Sealed{Record: a.record(t, nil).Record}, "unsigned"},
		"altered":        {altered, "altered"},
		"of another":     {other.record(t, nil), "altered"},
		"other network":  {foreign.record(t, nil), "other_network"},
		"too large":      {&pb.Sealed{Record: make([]byte, maxRecord+1), Sig: []byte{1}}, "too_large"},
		"no record":      {&pb.Sealed{Record: []byte{0xff}, Sig: []byte{1}}, "malformed"},
		"not a number":   {a.record(t, func(r *overlay.PeerRecord) { r.Coord.Vec[3] = math.NaN() }), "coordinate"},
		"infinite":       {a.record(t, func(r *overlay.PeerRecord) { r.Coord.Height = math.Inf(1) }), "coordinate"},
		"certain":        {a.record(t, func(r *overlay.PeerRecord) { r.Coord.Err = -1 }), "coordinate"},
		"many addresses": {a.record(t, func(r *overlay.PeerRecord) { r.Addrs = make([]string, overlay.MaxAddrs+1) }), "malformed"},
		"of tomorrow":    {a.record(t, func(r *overlay.PeerRecord) { r.Issued, r.Seq = now.Add(24*time.Hour), 2000 }), "not_yet"},
		"of no time":     {a.record(t, func(r *overlay.PeerRecord) { r.Issued = time.Time{} }), "expired"},
		"replayed":       {a.record(t, func(r *overlay.PeerRecord) { r.Issued = now.Add(-time.Hour) }), "replayed"},
	} {
		if _, err := reader.openOwn(now, bad.m, a.id); err == nil || reason(err) != bad.want {
			t.Errorf("%s: %v, want it counted as %s", what, err, bad.want)
		}
	}
	if len(reader.checked) > 3 {
		t.Errorf("%d records are kept", len(reader.checked))
	}
}

// A record that is dated in the future is not remembered, whoever tells it: its peer is heard as soon as its clock is right.
func TestRecordOfAClockThatIsAhead(t *testing.T) {
	network, now := member.NetworkID{1}, time.Now()
	a := newStamp(t, 1, network)
	ahead := a.record(t, func(r *overlay.PeerRecord) { r.Issued, r.Seq = now.Add(12*time.Minute), 1000 })
	for what, told := range map[string]func(*sealer) error{
		"by its peer": func(s *sealer) error { _, err := s.openOwn(now, ahead, a.id); return err },
		"by others":   func(s *sealer) error { _, err := s.open(now, ahead); return err },
	} {
		reader := &sealer{network: network, checked: map[overlay.ID]checked{}}
		_ = told(reader) // refused, or left out by the table
		if _, err := reader.openOwn(now.Add(time.Second), a.record(t, nil), a.id); err != nil {
			t.Errorf("after one that was told %s: %v", what, err)
		}
	}
}

// A record that is known counts with its own signature only: another one is told on to everybody, who then takes the teller for a liar, or for one who sends too much.
func TestKnownRecordNeedsItsSignature(t *testing.T) {
	network, now := member.NetworkID{1}, time.Now()
	a := newStamp(t, 1, network)
	reader := &sealer{network: network, checked: map[overlay.ID]checked{}}
	good := a.record(t, nil)
	for range 2 {
		if _, err := reader.openOwn(now, good, a.id); err != nil {
			t.Fatal(err)
		}
	}
	wrong := append([]byte(nil), good.Sig...)
	wrong[0] ^= 1
	for what, sig := range map[string][]byte{"altered": wrong, "too_large": make([]byte, 64<<10)} {
		if r, err := reader.open(now, &pb.Sealed{Record: good.Record, Sig: sig}); err == nil || reason(err) != what {
			t.Errorf("a known record with a bad signature: %v, want it counted as %s; its sealed form has %d bytes", err, what, len(r.Sealed))
		}
	}
	if r, err := reader.openOwn(now, good, a.id); err != nil || !bytes.Equal(unsealed(r).Sig, good.Sig) {
		t.Errorf("afterwards the good one: %v", err)
	}
	if size := len(a.record(t, nil).Sig); size > maxSig {
		t.Errorf("a signature has %d bytes", size)
	}
}

func FuzzRecord(f *testing.F) {
	network := member.NetworkID{1}
	a := newStamp(f, 1, network)
	good, err := proto.Marshal(a.record(f, nil))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte{10, 0, 18, 1, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		var m pb.Sealed
		if proto.Unmarshal(b, &m) != nil {
			return
		}
		s := &sealer{network: network, checked: map[overlay.ID]checked{}}
		r, err := s.open(time.Now(), &m)
		if err != nil {
			if len(s.checked) > 0 {
				t.Fatalf("kept what it refused: %v", err)
			}
			return
		}
		if r.ID != a.id || r.Check() != nil {
			t.Fatalf("forged: %+v", r)
		}
	})
}

// FuzzRequests has a running node asked anything, by every protocol: it answers or refuses, and lives.
func FuzzRequests(f *testing.F) {
	n, r := lonely(f)
	a := newStamp(f, 1, n.Network())
	add := func(k byte, m proto.Message) {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(append([]byte{k}, b...))
	}
	nan := coords.Coord{Err: 1}
	nan.Vec[0] = math.NaN()
	add(0, &pb.Gossip{Self: a.record(f, nil), Records: []*pb.Sealed{a.record(f, nil)}})
	add(1, &pb.FindNear{At: channel.CoordPB(coords.Coord{Err: 1}), N: 8})
	add(1, &pb.FindNear{At: channel.CoordPB(nan), N: 1 << 31})
	add(2, &pb.Offer{Signed: []byte{10, 1, 1}})
	add(3, &pb.Handoff{Tasks: make([][]byte, overlay.MaxHandoff+1)})
	add(4, &pb.Probe{Host: "http://a.example"})
	id, err := peer.Decode(string(a.id))
	if err != nil {
		f.Fatal(err)
	}
	from := wire.Member{Peer: id, Role: member.Manager}
	handlers := []wire.Handler{r.onGossip, r.onNear, r.onOffer, r.onHandoff, r.onProbe}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) == 0 || len(b) > maxMessage {
			return
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		out, err := handlers[int(b[0])%len(handlers)](ctx, from, b[1:])
		if ctx.Err() != nil {
			t.Fatalf("no answer: %v", err)
		}
		if err == nil && len(out) > maxMessage {
			t.Fatalf("an answer of %d bytes", len(out))
		}
		if k := len(r.Peers()); k > 1 {
			t.Fatalf("%d members known, of one that there is", k)
		}
	})
}

// lonely is a member that runs alone, with a queue.
func lonely(t testing.TB) (*wire.Node, *Runner) {
	t.Helper()
	root := member.NewRoot([32]byte{1})
	n, err := wire.New(t.Context(), wire.Config{Key: [32]byte{9}, Network: root.ID()})
	if err != nil {
		t.Fatal(err)
	}
	r, err := New(Config{Wire: n, Queue: &bin{room: 1}, Probe: func(context.Context, string) (time.Duration, error) { return time.Millisecond, nil }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		n.Close()
	})
	return n, r
}

// FuzzMembersFile reads the file of an earlier run, whatever is in it.
func FuzzMembersFile(f *testing.F) {
	good, err := json.Marshal([]keptMember{{ID: "12D3KooWGzxzKZYveHXtpG6AsrUJBcWxHBFS2HsEoGTxrMLvKXtf", Addrs: []string{"/ip4/192.0.2.1/tcp/1"}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`[{"id":"x","addrs":["","/","/p2p-circuit"]}]`))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := os.WriteFile(filepath.Join(dir, keptFile), b, 0o600); err != nil {
			t.Fatal(err)
		}
		for _, k := range readKept(dir) {
			if len(k.Addrs) > overlay.MaxAddrs || len(k.ID) > member.MaxPeer {
				t.Fatalf("%+v", k)
			}
		}
	})
}

func FuzzWay(f *testing.F) {
	f.Add("/p2p/12D3KooWGzxzKZYveHXtpG6AsrUJBcWxHBFS2HsEoGTxrMLvKXtf/p2p-circuit")
	f.Add("/ip4/127.0.0.1/tcp/1/p2p/12D3KooWGzxzKZYveHXtpG6AsrUJBcWxHBFS2HsEoGTxrMLvKXtf")
	f.Fuzz(func(t *testing.T, s string) {
		direct, relays := split([]string{s})
		if len(direct)+len(relays) != 1 || len(bare([]string{s, s, s})) > overlay.MaxAddrs {
			t.Fatal(direct, relays)
		}
	})
}

// FuzzAnswers has a running node read whatever a member answers, by every protocol: what it makes of it is within every bound.
func FuzzAnswers(f *testing.F) {
	net := open(f, 1, 1)
	r, other := net.boss.runner, net.peers[0]
	var answer []byte
	for _, p := range []protocol.ID{protoGossip, protoNear, protoOffer, protoHandoff, protoProbe} {
		other.node.Handle(p, maxMessage, patience, func(context.Context, wire.Member, []byte) ([]byte, error) { return answer, nil })
	}
	a := newStamp(f, 1, r.cfg.Wire.Network())
	add := func(k byte, m proto.Message) {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(append([]byte{k}, b...))
	}
	add(0, &pb.Gossip{Self: a.record(f, nil), Records: []*pb.Sealed{a.record(f, nil), nil}})
	add(1, &pb.Near{Records: make([]*pb.Sealed, overlay.MaxNear+1)})
	add(2, &pb.Answer{Accept: true, StartMs: math.MinInt64})
	add(3, &pb.HandoffAnswer{Taken: make([]bool, overlay.MaxHandoff+1)})
	add(4, &pb.Probed{RttUs: math.MaxUint64, Self: a.record(f, nil)})
	to := target{id: overlay.ID(other.node.ID().String()), addrs: bare(other.node.Addrs())}
	peer := overlay.PeerRecord{ID: to.id, Addrs: to.addrs}
	s, h := net.task(1, time.Hour)
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) == 0 || len(b) > maxMessage {
			return
		}
		answer = b[1:]
		var err error
		var got overlay.Msg
		switch b[0] % 5 {
		case 0:
			got, err = r.exchange(t.Context(), to, 1, overlay.Gossip{})
		case 1:
			got, err = r.exchange(t.Context(), to, 1, overlay.FindNear{At: coords.Coord{Err: 1}, N: 8})
		case 2:
			got, err = r.exchange(t.Context(), to, 1, overlay.Offer{Signed: s, Header: h})
		case 3:
			_, err = r.handoff(t.Context(), peer, []overlay.Task{{Signed: s, Header: h}})
		case 4:
			got, err = r.exchange(t.Context(), to, 1, overlay.ProbeHost{Host: "http://a.example"})
		}
		switch m := got.(type) {
		case overlay.Gossip:
			if m.Self.ID != to.id || m.Self.Check() != nil || len(m.Records) > overlay.MaxGossip {
				t.Fatalf("%+v", m)
			}
		case overlay.Probed:
			if m.RTT < 0 || m.RTT > coords.MaxRTT {
				t.Fatalf("%+v", m)
			}
		case overlay.Near:
			if len(m.Records) > overlay.MaxNear {
				t.Fatalf("%d records", len(m.Records))
			}
		}
		if errors.Is(err, wire.ErrUnreachable) {
			t.Fatal(err)
		}
	})
}
