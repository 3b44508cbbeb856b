package peer

import (
	"crypto/sha256"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"shoal/channel"
	"shoal/channel/lease"
	"shoal/overlay"
	"shoal/overlay/p2p"
	pb "shoal/overlay/p2p/overlaypb"
)

// TestTakesNoMoreOfWhoGaveNothing hands tasks over that another peer has claimed. After the first of them an agent takes no more from who gave it.
func TestTakesNoMoreOfWhoGaveNothing(t *testing.T) {
	s := open(t, plain(10))
	giver, _ := s.agent(t.TempDir(), nil)
	a, _ := s.agent(t.TempDir(), nil)
	to, err := peer.Decode(a.ID())
	if err != nil {
		t.Fatal(err)
	}
	if err := giver.wire.Connect(t.Context(), to, a.wire.Addrs()...); err != nil {
		t.Fatal(err)
	}
	id := channel.ID(100)
	s.until("the giver is refused", func() bool {
		id++
		body := []byte("a body")
		h := channel.Header{Network: s.keys.Network, Channel: id, Gen: 1, Host: "http://" + s.world.Hosts()[0].Name, Pages: 1, Issued: time.Now(),
			Latest: time.Now().Add(time.Minute), Archive: s.node.ID().String(), BodySHA256: sha256.Sum256(body), BodyBytes: len(body)}
		task, err := s.keys.Authority.SignHeader(h)
		if err != nil {
			t.Fatal(err)
		}
		s.store.mu.Lock()
		c := s.store.at(id)
		c.fence.Deposit(1)
		c.fence.Claim(time.Now(), lease.PeerOf("another"), 1, h.Latest, s.store.terms)
		s.store.mu.Unlock()
		if task, err = p2p.HandOver(giver.wire.Host().Peerstore().PrivKey(giver.wire.ID()), task, overlay.ID(a.ID())); err != nil {
			t.Fatal(err)
		}
		raw, err := proto.Marshal(&pb.Handoff{Tasks: [][]byte{task.Marshal()}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := giver.wire.Call(t.Context(), to, "/shoal/handoff/1", raw, 1<<10); err != nil {
			t.Fatal(err)
		}
		return a.wire.Refused()["overlay_handover"] > 0
	})
}
