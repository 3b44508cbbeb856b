package p2p

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"shoal/channel"
	"shoal/channel/lease"
	"shoal/coords"
	"shoal/internal/member"
	"shoal/internal/wire"
	"shoal/internal/wire/uplink"
	"shoal/overlay"
	"shoal/overlay/overlaytest"
	pb "shoal/overlay/p2p/overlaypb"
)

func TestContract(t *testing.T) {
	overlaytest.Run(t, func(t *testing.T, s overlaytest.Setup) overlaytest.Swarm { return openSwarm(t, s) })
}

// swarmEvery is slow gossip, which leaves a busy machine to the tests; members greet each other by themselves.
const swarmEvery = 20 * time.Second

// shelf is the suite's ledger as an archive of the wire's.
type shelf struct{ *overlaytest.Ledger }

func (s shelf) Claim(_ context.Context, peer string, task channel.Signed) (uplink.Claimed, error) {
	r, err := s.Ledger.Claim(peer, task)
	return uplink.Claimed{Reply: r}, err
}

func (s shelf) Put(_ context.Context, peer string, c channel.Chunk) (uplink.Reply, error) {
	return s.Ledger.Put(peer, c)
}

func (s shelf) Renew(context.Context, string, channel.Signed) (uplink.Reply, error) {
	return uplink.Reply{}, uplink.ErrBad
}

func (s shelf) Release(_ context.Context, peer string, id channel.ID, gen channel.Gen) (uplink.Reply, error) {
	return s.Ledger.Release(peer, id, gen)
}

// line is a peer's to the archive.
type line struct {
	*uplink.Client
	ctx context.Context // of the test
}

func (l *loopback) Archive(who int) overlaytest.Uplink {
	return line{uplink.NewClient(l.peers[who].node, l.boss.node.ID()), l.t.Context()}
}

func (l line) Claim(task channel.Signed) (lease.Reply, error) {
	c, err := l.Client.Claim(l.ctx, task)
	return c.Reply, err
}

func (l line) Put(c channel.Chunk) (lease.Reply, error) { return l.Client.Put(l.ctx, c) }

func (l line) Release(id channel.ID, gen channel.Gen) (lease.Reply, error) {
	return l.Client.Release(l.ctx, id, gen)
}

// loopback is a swarm of libp2p hosts.
type loopback struct {
	*network
	auth  *member.Authority
	peers []*site
}

func openSwarm(t *testing.T, s overlaytest.Setup) *loopback {
	root := member.NewRoot([32]byte{7}) // as the suite's
	if root.ID() != s.Network {
		t.Fatal("the suite is of another network")
	}
	auth := authorityOf(t, root)
	issuer, err := member.NewIssuer(auth, member.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	mn, err := wire.New(t.Context(), wire.Config{Key: [32]byte{1, 2, 3}, Network: s.Network, Role: member.Manager, Patience: patience, Listen: []string{"/ip4/127.0.0.1/tcp/0"}})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	doc, err := auth.SignDocument(member.Document{Delegations: [][]byte{auth.Sealed()}, Managers: []member.Server{{Peer: mn.ID().String(), Addrs: bare(mn.Addrs())}},
		MinProtocol: 1, Issued: now, NotAfter: now.Add(time.Hour), Lease: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if err := mn.SetIssuer(issuer, doc); err != nil {
		t.Fatal(err)
	}
	l := &loopback{network: &network{t: t}, auth: auth}
	l.boss = start(t, mn, Config{Places: true}, swarmEvery, nil)
	uplink.Serve(mn, shelf{s.Ledger})
	for i, q := range s.Queues {
		pn, err := wire.New(t.Context(), wire.Config{Key: [32]byte{byte(i + 1), 5}, Network: s.Network, Patience: patience, Listen: []string{"/ip4/127.0.0.1/tcp/0"}})
		if err != nil {
			t.Fatal(err)
		}
		if err := pn.Join(t.Context(), member.JoinString{Network: s.Network, Addrs: mn.Addrs()}, fmt.Sprint("account", i)); err != nil {
			t.Fatal(err)
		}
		l.peers = append(l.peers, start(t, pn, Config{Queue: q}, swarmEvery, nil))
	}
	return l
}

func authorityOf(t testing.TB, root member.Root) *member.Authority {
	t.Helper()
	seed := [32]byte{8}
	now := time.Now()
	pub := pubOf(seed)
	sealed, err := root.Delegate(member.Delegation{Key: pub, Roles: member.AllRoles, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour), Serial: 1})
	if err != nil {
		t.Fatal(err)
	}
	a, err := member.NewAuthority(seed, root.ID(), sealed)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func (l *loopback) site(who int) *site {
	if who == overlaytest.Manager {
		return l.boss
	}
	return l.peers[who]
}

func (l *loopback) Now() time.Time { return time.Now() }

func (l *loopback) Until(what string, holds func() bool) { l.t.Helper(); l.until(what, holds) }

func (l *loopback) Known(who int) []overlay.PeerRecord { return l.site(who).runner.Peers() }

func (l *loopback) PlaceAt(t overlay.Task, r coords.HostRecord, named overlay.Named) (overlay.Placed, error) {
	return l.boss.runner.Place(l.t.Context(), t.Signed, t.Header, r, named)
}

func (l *loopback) Handoff(from int, tasks []overlay.Task) int {
	return len(tasks) - len(l.peers[from].runner.Handoff(l.t.Context(), tasks))
}

func (l *loopback) Vanish(who int) { l.peers[who].stop() }

func (l *loopback) Refused(who int) (n int64) {
	for _, k := range l.peers[who].runner.Status().Refused {
		n += k
	}
	for what, k := range l.peers[who].runner.Status().Counts {
		if len(what) > 7 && what[:7] == "refused" {
			n += k
		}
	}
	return n
}

// Deliver speaks the protocols by hand, as an independent implementation would.
func (l *loopback) Deliver(from, to int, m overlay.Msg) error {
	a, b := l.site(from), l.peers[to]
	ctx, cancel := context.WithTimeout(l.t.Context(), patience)
	defer cancel()
	id, err := peer.Decode(string(b.runner.id))
	if err != nil {
		return err
	}
	if err := a.node.Connect(ctx, id, b.node.Addrs()...); err != nil {
		return err
	}
	var on = protoGossip
	var body proto.Message
	switch m := m.(type) {
	case overlay.Gossip:
		s := sealer{key: a.runner.sealer.key, network: a.runner.sealer.network, certificate: a.node.Certificate}
		if m.Self.ID != "somebody else" {
			m.Self.ID = a.runner.id
		}
		if err := s.seal(&m.Self); err != nil {
			return err
		}
		body = &pb.Gossip{Self: unsealed(m.Self), Records: sealed(m.Records)}
	case overlay.FindNear:
		on, body = protoNear, &pb.FindNear{At: channel.CoordPB(m.At), N: uint32(m.N)}
	case overlay.Offer:
		on, body = protoOffer, &pb.Offer{Signed: m.Signed.Marshal()}
	case overlay.Handoff:
		h := &pb.Handoff{}
		for _, t := range m.Tasks {
			h.Tasks = append(h.Tasks, t.Signed.Marshal())
		}
		on, body = protoHandoff, h
	}
	raw, err := proto.Marshal(body)
	if err != nil {
		return err
	}
	_, err = a.node.Call(ctx, id, on, raw, maxMessage)
	return err
}

// ghost is a member that does not run.
func (l *loopback) ghost(n int, account string) *stamp {
	return newStamp(l.t, byte(50+n), l.boss.node.Network()).certified(l.t, l.auth, func(c *member.Certificate) { c.Account = account })
}

func (l *loopback) Introduce(from, to int, ghosts []overlaytest.Ghost) error {
	a, b := l.peers[from].runner, l.peers[to].runner
	g := overlay.Gossip{Self: overlay.PeerRecord{ID: a.id, Coord: coords.Coord{Err: 1}, Issued: time.Now()}}
	for _, r := range b.Peers() { // older than what is known of it, so that it changes nothing
		if r.ID == a.id {
			g.Self.Seq = r.Seq - min(r.Seq, 1)
		}
	}
	for _, h := range ghosts {
		s := l.ghost(h.N, h.Account)
		r := overlay.PeerRecord{ID: s.id, Seq: h.Seq, Coord: h.At, Issued: time.Now()}
		if err := s.seal(&r); err != nil {
			return err
		}
		g.Records = append(g.Records, &r)
	}
	return l.Deliver(from, to, g)
}

func (l *loopback) Near(from, to int, at coords.Coord) (ghosts []int, err error) {
	a, b := l.peers[from], l.peers[to]
	ctx, cancel := context.WithTimeout(l.t.Context(), patience)
	defer cancel()
	raw, err := proto.Marshal(&pb.FindNear{At: channel.CoordPB(at), N: overlay.MaxNear})
	if err != nil {
		return nil, err
	}
	var m pb.Near
	if err := a.runner.ask(ctx, target{id: b.runner.id, addrs: b.node.Addrs()}, protoNear, raw, &m); err != nil {
		return nil, err
	}
	for _, r := range a.runner.sealer.openAll(time.Now(), m.Records, overlay.MaxNear, func(err error) { l.t.Error(err) }) {
		for n := range overlay.MaxGossip {
			if l.ghost(n, "").id == r.ID {
				ghosts = append(ghosts, n)
			}
		}
	}
	return ghosts, nil
}

func pubOf(seed [32]byte) [32]byte {
	return [32]byte(ed25519.NewKeyFromSeed(seed[:]).Public().(ed25519.PublicKey))
}
