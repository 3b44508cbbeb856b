package p2p

import (
	"fmt"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"shoal/channel"
	"shoal/coords"
	"shoal/internal/member"
	"shoal/internal/wire"
	"shoal/overlay"
	pb "shoal/overlay/p2p/overlaypb"
)

// certified has a stamp put a pass onto its records.
func (s *stamp) certified(t testing.TB, a *member.Authority, change func(*member.Certificate)) *stamp {
	t.Helper()
	now := time.Now()
	c := member.Certificate{Peer: string(s.id), Account: "ada", Role: member.Peer, NotBefore: now.Add(-time.Minute), NotAfter: now.Add(time.Hour)}
	if change != nil {
		change(&c)
	}
	sealed, err := a.Certify(c)
	if err != nil {
		t.Fatal(err)
	}
	s.certificate = func() []byte { return sealed }
	return s
}

// What is told of third members counts only with a pass of theirs, and brings their account; every other kind is refused under its own word.
func TestPasses(t *testing.T) {
	root := member.NewRoot([32]byte{7})
	auth, stranger := authorityOf(t, root), authorityOf(t, member.NewRoot([32]byte{8}))
	v := member.NewVerifier(root.ID())
	now := time.Now()
	doc, err := auth.SignDocument(member.Document{Delegations: [][]byte{auth.Sealed()}, MinProtocol: 1, Issued: now, NotAfter: now.Add(time.Hour), Lease: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := v.Learn(now, doc); err != nil {
		t.Fatal(err)
	}
	reader := &sealer{network: root.ID(), verifier: v, checked: map[overlay.ID]checked{}}
	told := func(now time.Time, m *pb.Sealed) (overlay.PeerRecord, string) {
		var why string
		recs := reader.openAll(now, []*pb.Sealed{m}, 1, func(err error) { why = reason(err) })
		if len(recs) == 0 {
			return overlay.PeerRecord{}, why
		}
		return *recs[0], why
	}
	n := byte(0)
	next := func() *stamp { n++; return newStamp(t, n, root.ID()) }
	a := next().certified(t, auth, nil)
	for range 2 { // the second time by what is remembered
		if r, why := told(now, a.record(t, nil)); why != "" || r.Account != "ada" || len(sealed([]*overlay.PeerRecord{&r})) != 1 {
			t.Fatalf("a member's record: %+v, %s", r, why)
		}
	}
	if r, why := told(now, a.record(t, func(r *overlay.PeerRecord) { r.Seq = 2 })); why != "" || r.Account != "ada" || r.Seq != 2 {
		t.Fatalf("its next record: %+v, %s", r, why)
	}
	if _, why := told(now.Add(2*time.Hour), a.record(t, func(r *overlay.PeerRecord) { r.Seq = 2 })); why != "pass_expired" {
		t.Errorf("when its certificate has ended: %s", why)
	}
	bare := next()
	if _, why := told(now, bare.record(t, nil)); why != "pass_unsigned" {
		t.Errorf("a record without a pass: %s", why)
	}
	own, err := reader.openOwn(now, bare.record(t, nil), bare.id)
	if err != nil || len(sealed([]*overlay.PeerRecord{&own})) != 0 {
		t.Errorf("what a peer without a pass tells of itself is for others too: %+v, %v", own, err)
	}
	lent := next().certified(t, auth, func(c *member.Certificate) { c.Peer = string(a.id) })
	foreign := next().certified(t, stranger, nil)
	old := next().certified(t, auth, func(c *member.Certificate) { c.NotBefore, c.NotAfter = now.Add(-2*time.Hour), now.Add(-time.Hour) })
	early := next().certified(t, auth, func(c *member.Certificate) { c.NotBefore, c.NotAfter = now.Add(time.Hour), now.Add(2*time.Hour) })
	forged := next().certified(t, auth, nil).record(t, nil)
	forged.Pass = append([]byte(nil), forged.Pass...)
	forged.Pass[len(forged.Pass)-10] ^= 1
	large := next().certified(t, auth, nil).record(t, nil)
	large.Pass = make([]byte, member.MaxPass+1)
	noise := next().certified(t, auth, nil).record(t, nil)
	noise.Pass = []byte{0xff}
	for what, bad := range map[string]struct {
		m    *pb.Sealed
		want string
	}{
		"of another":         {lent.record(t, nil), "pass_altered"},
		"of another network": {foreign.record(t, nil), "pass_other_network"},
		"ended":              {old.record(t, nil), "pass_expired"},
		"not begun":          {early.record(t, nil), "pass_not_yet"},
		"forged":             {forged, "pass_altered"},
		"too large":          {large, "pass_too_large"},
		"noise":              {noise, "pass_malformed"},
	} {
		if r, why := told(now, bad.m); why != bad.want {
			t.Errorf("a pass that is %s: %+v, counted as %q, want %s", what, r, why, bad.want)
		}
	}
	for id, c := range reader.checked {
		if id != a.id && id != bare.id {
			t.Errorf("kept what it refused: %+v", c.rec)
		}
	}
}

// TestAccountsOfThirdMembers checks that a node knows the account of a member that it only heard of, and limits its
// share of the table.
func TestAccountsOfThirdMembers(t *testing.T) {
	n := openWith(t, 2, 5, time.Hour, nil) // a peer that does not answer is not asked twice
	n.until("the manager knows all peers", func() bool { return n.takers() == 2 })
	from, to := n.peers[0], n.peers[1]
	ghost := newStamp(t, 77, n.keys.Network).certified(t, n.keys.Authority, func(c *member.Certificate) { c.Account = "somebody" })
	self := overlay.PeerRecord{ID: from.runner.id, Seq: uint64(time.Now().Add(time.Minute).UnixMilli()), Issued: time.Now(), Coord: coords.Coord{Err: 1}}
	if err := from.runner.sealer.seal(&self); err != nil {
		t.Fatal(err)
	}
	raw, err := proto.Marshal(&pb.Gossip{Self: unsealed(self), Records: []*pb.Sealed{ghost.record(t, func(r *overlay.PeerRecord) { r.Addrs = nil })}})
	if err != nil {
		t.Fatal(err)
	}
	id, err := peer.Decode(string(to.runner.id))
	if err != nil {
		t.Fatal(err)
	}
	if err := from.node.Connect(t.Context(), id, to.node.Addrs()...); err != nil {
		t.Fatal(err)
	}
	if _, err := from.node.Call(t.Context(), id, protoGossip, raw, maxMessage); err != nil {
		t.Fatal(err)
	}
	account := func(of overlay.ID, s *site) string {
		for _, r := range s.runner.Peers() {
			if r.ID == of {
				return r.Account
			}
		}
		return "unknown member"
	}
	for who, s := range map[string]*site{"the peer that was told": to, "the manager, by hearsay of hearsay": n.boss} {
		n.until(who+" knows its account", func() bool { return account(ghost.id, s) == "somebody" })
	}
	for i, p := range n.peers {
		if got := account(p.runner.id, n.boss); got != string(p.runner.id) {
			t.Errorf("peer %d is of the account %q", i, got)
		}
	}
}

// Members whose clocks are wrong by almost all that is tolerated, either way, are members like others: their records and passes are good, and they
// take tasks.
func TestWrongClocks(t *testing.T) {
	n := openNet(t, func(c wire.Config) *wire.Node {
		c.Patience, c.Listen = patience, []string{"/ip4/127.0.0.1/tcp/0"}
		mn, err := wire.New(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		return mn
	})
	n.boss = start(t, n.boss.node, Config{Places: true}, 10*time.Second, nil)
	const wrong = member.Skew - 30*time.Second
	for i, ahead := range []time.Duration{wrong, -wrong, 0} {
		pn, err := wire.New(t.Context(), wire.Config{Key: [32]byte{byte(i + 1), 9}, Network: n.keys.Network, Patience: patience, Listen: []string{"/ip4/127.0.0.1/tcp/0"},
			Clock: func() time.Time { return time.Now().Add(ahead) }})
		if err != nil {
			t.Fatal(err)
		}
		if err := pn.Join(t.Context(), member.JoinString{Network: n.keys.Network, Addrs: n.boss.node.Addrs()}, "ada"); err != nil {
			t.Fatal(err)
		}
		b := &bin{room: 2}
		n.peers = append(n.peers, start(t, pn, Config{Queue: b}, 10*time.Second, b))
	}
	n.until("the manager knows all peers", func() bool { return n.takers() == 3 })
	for i, p := range n.peers {
		n.until(fmt.Sprintf("peer %d knows all others, and their account", i), func() bool {
			same := 0
			for _, r := range p.runner.Peers() {
				if r.Account == string(r.ID) {
					same++
				}
			}
			return same == 2
		})
	}
	for i := range 6 {
		s, h := n.task(channel.ID(i+1), 10*time.Minute)
		if _, err := n.boss.runner.Place(t.Context(), s, h, coords.HostRecord{}, overlay.Named{}); err != nil {
			t.Fatalf("task %d: %v", i+1, err)
		}
	}
	for i, p := range n.peers {
		if refused := p.runner.Status().Refused; len(p.bin.tasks) != 2 || len(refused) > 0 {
			t.Errorf("peer %d has %d tasks, of which there were 6 for 3, and refused %v", i, len(p.bin.tasks), refused)
		}
	}
}
