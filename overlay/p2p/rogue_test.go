package p2p

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"google.golang.org/protobuf/proto"

	"shoal/internal/lab/rogue"
	"shoal/internal/member"
	"shoal/internal/wire"
	"shoal/internal/wire/wirepb"
	"shoal/overlay"
	pb "shoal/overlay/p2p/overlaypb"
)

// at is where a node listens.
func (s *site) at() peer.AddrInfo {
	return peer.AddrInfo{ID: s.node.ID(), Addrs: s.node.Host().Addrs()}
}

// TestOutsider checks that an independent program can join and take part by the documents. Before it has joined, it
// reaches the gate and nothing else. Its wrong messages are refused, counted by reason, and change nothing.
func TestOutsider(t *testing.T) {
	n := open(t, 2, 5)
	n.until("the manager knows all peers", func() bool { return n.takers() == 2 })
	p := n.peers[0]
	net := n.keys.Network[:]
	o := rogue.New(t)

	o.Dial(p.at())
	kad := protocol.ID("/shoal/" + n.keys.Network.String() + "/kad/1.0.0")
	for _, on := range []protocol.ID{protoGossip, protoNear, protoOffer, protoHandoff, protoProbe, "/shoal/ride/1", "/shoal/passed/1", kad, "/ipfs/id/1.0.0", "/ipfs/ping/1.0.0",
		"/libp2p/circuit/relay/0.2.0/hop", "/libp2p/dcutr"} {
		// Refused, or left waiting for a membership that does not come.
		if code, b, err := o.Send(100*time.Millisecond, p.node.ID(), on, rogue.Frame(nil), true); err == nil {
			t.Errorf("a stranger that asks %s is answered: %d %q", on, code, b)
		}
	}
	o.Again(p.at())
	if w := o.Hello(p.node.ID(), &wirepb.Hello{Network: net}); w.Code != 3 || refusals(t, p.node)["not_member"] != 1 {
		t.Errorf("a stranger without a certificate is answered %v, counted %v", w, refusals(t, p.node))
	}

	o.Dial(n.boss.at())
	joined := o.Hello(n.boss.node.ID(), &wirepb.Hello{Want: 1, Network: net, Label: "somebody"})
	if joined.Code != 0 || len(joined.Issued) == 0 {
		t.Fatalf("not let in: %v", joined)
	}
	o.Again(p.at())
	if w := o.Hello(p.node.ID(), &wirepb.Hello{Network: net, Certificate: joined.Issued}); w.Code != 0 {
		t.Fatalf("a member is not known: %v", w)
	}
	code, b, err := o.Call(p.node.ID(), protoGossip, o.Encode(&pb.Gossip{Self: o.Record(net, nil)}))
	var g pb.Gossip
	if err != nil || code != 0 || proto.Unmarshal(b, &g) != nil || g.Self == nil {
		t.Fatalf("gossip is answered %d %q, %v", code, b, err)
	}
	n.until("the peer knows the outsider", func() bool {
		for _, r := range p.runner.Peers() {
			if string(r.ID) == o.Host.ID().String() {
				return true
			}
		}
		return false
	})
	s, _ := n.task(7, time.Hour)
	s.Raw = append([]byte(nil), s.Raw...)
	s.Raw[len(s.Raw)-1] ^= 1
	misdeeds := append(o.Misdeeds(net, rogue.At{Peer: true}), rogue.Misdeed{What: "a task that was altered", On: protoOffer,
		Raw: rogue.Frame(o.Encode(&pb.Offer{Signed: s.Marshal()})), Code: 4, Reason: "overlay_task_altered"})
	for _, bad := range misdeeds {
		before := refusals(t, p.node)
		code, b, err := o.Send(rogue.Patience, p.node.ID(), bad.On, bad.Raw, true)
		if (err != nil) != bad.Hangs || code != bad.Code {
			t.Errorf("%s: answered %d %q, %v; want code %d", bad.What, code, b, err, bad.Code)
		}
		if after := refusals(t, p.node); after[bad.Reason] != before[bad.Reason]+1 {
			t.Errorf("%s is not counted once as %s: %v, then %v", bad.What, bad.Reason, before, after)
		}
	}
	if len(p.bin.tasks) > 0 || len(p.runner.Peers()) > 3 {
		t.Errorf("%d tasks taken, %d members known", len(p.bin.tasks), len(p.runner.Peers()))
	}
	if _, _, err := o.Call(p.node.ID(), "/shoal/claim/1", nil); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a peer is no archive: %v", err)
	}
}

// refusals are a node's refusals as its metrics tell of them.
func refusals(t *testing.T, n *wire.Node) map[string]float64 {
	t.Helper()
	families, err := n.Metrics().Gather()
	if err != nil {
		t.Fatal(err)
	}
	by := map[string]float64{}
	for _, f := range families {
		if f.GetName() != "shoal_wire_refused_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			by[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
		}
	}
	return by
}

// Many members behind one router count as one network, whatever addresses their records name; so do those whose requests ride another's connection.
func TestPrefixIsThatOfTheConnection(t *testing.T) {
	n, r := lonely(t)
	for i, says := range []string{"/ip4/8.8.4.4/tcp/1", "/ip4/192.168.1.1/tcp/1", "/p2p/12D3KooWGzxzKZYveHXtpG6AsrUJBcWxHBFS2HsEoGTxrMLvKXtf/p2p-circuit"} {
		a := newStamp(t, byte(i+1), n.Network())
		id, err := peer.Decode(string(a.id))
		if err != nil {
			t.Fatal(err)
		}
		raw, err := proto.Marshal(&pb.Gossip{Self: a.record(t, func(r *overlay.PeerRecord) { r.Addrs = []string{says} })})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.onGossip(t.Context(), wire.Member{Peer: id, Role: member.Peer, Prefix: "203.0.113.0/24"}, raw); err != nil {
			t.Fatal(err)
		}
		shown := make(chan string, 1)
		r.post(t.Context(), func(_ context.Context, now time.Time) {
			v := r.node.View(now)
			shown <- v.Prefix(v.Index(a.id))
		})
		if got := <-shown; got != "203.0.113.0/24" {
			t.Errorf("a member that says it is at %s is in %q", says, got)
		}
	}
}
