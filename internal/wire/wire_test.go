package wire

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"go.uber.org/goleak"

	"shoal/internal/member"
	"shoal/internal/wire/wirepb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const loopback = "/ip4/127.0.0.1/tcp/0"

var keys atomic.Uint32

func newKey() [32]byte {
	n := keys.Add(1)
	return [32]byte{byte(n), byte(n >> 8), 77}
}

// net is a network with one manager, on loopback.
type testNet struct {
	t       testing.TB
	root    member.Root
	manager *Node
	issuer  *member.Issuer
	auth    *member.Authority
	serial  uint64
}

func newNet(t testing.TB, policy member.Policy) *testNet {
	t.Helper()
	w := &testNet{t: t, root: member.NewRoot(newKey())}
	w.manager = w.node(Config{Role: member.Manager})
	w.rotate(policy, 1)
	return w
}

// rotate gives the manager a new working key; serials below minSerial are outdated.
func (w *testNet) rotate(policy member.Policy, minSerial uint64) {
	w.t.Helper()
	w.auth = w.authority(w.t, w.serial+1)
	w.serial++
	i, err := member.NewIssuer(w.auth, policy)
	if err != nil {
		w.t.Fatal(err)
	}
	w.issuer = i
	if err := w.manager.SetIssuer(i, w.document(minSerial)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *testNet) authority(t testing.TB, serial uint64) *member.Authority {
	t.Helper()
	seed := [32]byte{byte(serial), 99}
	sealed, err := w.root.Delegate(member.Delegation{Key: [32]byte(ed25519.NewKeyFromSeed(seed[:]).Public().(ed25519.PublicKey)), Roles: member.AllRoles,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), Serial: serial})
	if err != nil {
		t.Fatal(err)
	}
	a, err := member.NewAuthority(seed, w.root.ID(), sealed)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func (w *testNet) document(minSerial uint64) []byte {
	w.t.Helper()
	doc, err := w.auth.SignDocument(member.Document{Name: "test", MinSerial: minSerial, Delegations: [][]byte{w.auth.Sealed()},
		Managers: []member.Server{{Peer: w.manager.ID().String(), Addrs: bare(w.manager)}}, Issued: time.Now(), NotAfter: time.Now().Add(time.Hour)})
	if err != nil {
		w.t.Fatal(err)
	}
	return doc
}

func bare(n *Node) (out []string) {
	for _, a := range n.host.Addrs() {
		out = append(out, a.String())
	}
	return out
}

func (w *testNet) node(cfg Config) *Node {
	w.t.Helper()
	if cfg.Network == (member.NetworkID{}) {
		cfg.Network = w.root.ID()
	}
	if cfg.Key == [32]byte{} {
		cfg.Key = newKey()
	}
	if cfg.Listen == nil {
		cfg.Listen = []string{loopback}
	}
	if cfg.Patience == 0 { // a handshake takes as long as the machine is busy
		cfg.Patience = time.Minute
	}
	if os.Getenv("SHOAL_LOG") != "" {
		cfg.Log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})).With("node", keys.Load())
	}
	n, err := New(w.t.Context(), cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { n.Close() })
	return n
}

func (w *testNet) joinString() member.JoinString {
	return member.JoinString{Network: w.root.ID(), Addrs: w.manager.Addrs()}
}

// member is a node that has joined. One whose gate is to close early joins without that, and opens anew: joining takes as long as the machine is busy.
func (w *testNet) member(cfg Config) *Node {
	w.t.Helper()
	gate := cfg.Gate
	cfg.Gate = 0
	n := w.node(cfg)
	if err := n.Join(w.t.Context(), w.joinString(), "ada"); err != nil {
		w.t.Fatal(err)
	}
	knows(w.t, w.manager, n)
	if gate == 0 {
		return n
	}
	return w.anew(n, gate)
}

// anew closes a member's node and opens it again, with a gate that closes after a time.
func (w *testNet) anew(n *Node, gate time.Duration) *Node {
	w.t.Helper()
	n.Close()
	return w.node(Config{Key: n.cfg.Key, Kept: n.Kept(), Gate: gate})
}

// knows waits until n counts m as a member: the answering side admits after it has sent its answer.
func knows(t testing.TB, n, m *Node) {
	t.Helper()
	eventually(t, "the other side admits it too", func() bool { _, is := n.Member(m.ID()); return is })
}

// eventually waits for what takes a second on a quiet machine.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for until := time.Now().Add(3 * time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("never: %s", what)
		}
	}
}

const echo protocol.ID = "/shoal/test/echo/1"

func serveEcho(n *Node) {
	n.Handle(echo, 1<<20, 5*time.Second, func(_ context.Context, from Member, req []byte) ([]byte, error) {
		return append([]byte(from.Label+":"), req...), nil
	})
}

func TestJoinAndCall(t *testing.T) {
	w := newNet(t, member.Policy{})
	dir := t.TempDir()
	a := w.member(Config{Keep: SaveTo(dir)})
	b := w.member(Config{})
	serveEcho(b)
	if err := a.Connect(t.Context(), b.ID(), b.Addrs()...); err != nil {
		t.Fatal(err)
	}
	resp, err := a.Call(t.Context(), b.ID(), echo, []byte("hello"), 100)
	if err != nil || string(resp) != "ada:hello" {
		t.Fatalf("%q, %v", resp, err)
	}
	big := make([]byte, 1<<20)
	if resp, err := a.Call(t.Context(), b.ID(), echo, big, 2<<20); err != nil || len(resp) != len(big)+4 {
		t.Fatalf("%d bytes, %v", len(resp), err)
	}
	if m, is := b.Member(a.ID()); !is || m.Label != "ada" || m.Role != member.Peer || !a.Direct(b.ID()) {
		t.Fatalf("%+v, %v", m, is)
	}
	if m, is := a.Member(w.manager.ID()); !is || m.Role != member.Manager {
		t.Fatalf("%+v, %v", m, is)
	}
	if ua, err := b.host.Peerstore().Get(a.ID(), "AgentVersion"); err != nil || ua != "shoal/dev" {
		t.Fatalf("%v, %v", ua, err)
	}
	d, known := a.Document()
	if !known || d.Name != "test" {
		t.Fatalf("%+v", d)
	}
	in, out := a.Traffic()
	if in < 1<<20 || out < 1<<20 {
		t.Fatalf("counted %d in, %d out", in, out)
	}

	// After a restart the member needs no new certificate.
	a.Close()
	kept, err := LoadKept(dir)
	if err != nil || kept.Account != "ada" {
		t.Fatalf("%+v, %v", kept, err)
	}
	again := w.node(Config{Key: a.cfg.Key, Kept: kept})
	if err := again.Connect(t.Context(), b.ID(), b.Addrs()...); err != nil {
		t.Fatal(err)
	}
	if resp, err := again.Call(t.Context(), b.ID(), echo, nil, 100); err != nil || string(resp) != "ada:" {
		t.Fatalf("%q, %v", resp, err)
	}
}

// raw dials without the gate, as a foreign program would.
func (w *testNet) raw(n *Node, to *Node) network.Conn {
	w.t.Helper()
	c, err := w.dialRaw(n, to)
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

func (w *testNet) dialRaw(n *Node, to *Node) (network.Conn, error) {
	n.host.Peerstore().AddAddrs(to.ID(), to.host.Addrs(), time.Minute)
	release := n.gate.Hold(to.ID())
	w.t.Cleanup(release)
	return n.gate.Swarm.DialPeer(w.t.Context(), to.ID())
}

func closed(c network.Conn) func() bool { return c.IsClosed }

func TestStrangersAreRefused(t *testing.T) {
	w := newNet(t, member.Policy{})
	b := w.member(Config{Gate: 700 * time.Millisecond})
	serveEcho(b)
	var reached atomic.Int32
	b.HandleStream("/shoal/test/raw/1", func(_ context.Context, _ Member, s network.Stream) { reached.Add(1); s.Close() })
	b.host.SetStreamHandler("/other/1", func(s network.Stream) { reached.Add(1); s.Close() })

	stranger := w.node(Config{})
	var c network.Conn
	var wg sync.WaitGroup
	for _, p := range []protocol.ID{echo, "/shoal/test/raw/1", "/other/1", "/ipfs/id/1.0.0", "/ipfs/id/push/1.0.0", "/ipfs/kad/1.0.0"} {
		var s network.Stream
		eventually(t, "a stranger's stream opens", func() bool { // on a busy machine the gate's time may be up
			if c == nil || c.IsClosed() {
				var err error
				if c, err = w.dialRaw(stranger, b); err != nil {
					return false
				}
			}
			var err error
			s, err = c.NewStream(t.Context())
			return err == nil
		})
		wg.Go(func() {
			fmt.Fprintf(s, "\x13/multistream/1.0.0\n%c%s\nhello", len(p)+1, p)
			got, _ := io.ReadAll(s) // until the connection closes
			if strings.Contains(string(got), string(p)) {
				t.Errorf("%s was served to a stranger", p)
			}
		})
	}
	wg.Wait()
	eventually(t, "the stranger's connection closes", closed(c))
	if reached.Load() != 0 {
		t.Error("a handler ran for a stranger")
	}
	eventually(t, "all its connections are gone", func() bool { return len(b.host.Network().ConnsToPeer(stranger.ID())) == 0 })
	// The stranger itself does not even try.
	if _, err := stranger.Call(t.Context(), b.ID(), echo, nil, 10); !errors.Is(err, NotMember) {
		t.Errorf("call without membership: %v", err)
	}
	// Nor is a stranger called by a member.
	b.host.Peerstore().AddAddrs(stranger.ID(), stranger.host.Addrs(), time.Minute)
	if _, err := b.Call(t.Context(), stranger.ID(), echo, nil, 10); !errors.Is(err, NotMember) {
		t.Errorf("call of a stranger: %v", err)
	}
}

func TestSilentConnectionCloses(t *testing.T) {
	w := newNet(t, member.Policy{})
	b := w.member(Config{Gate: 200 * time.Millisecond})
	start := time.Now()
	c := w.raw(w.node(Config{}), b)
	eventually(t, "it closes", closed(c))
	if took := time.Since(start); took < 150*time.Millisecond {
		t.Errorf("closed after %s", took)
	}
	eventually(t, "none waits", func() bool { _, waiting := b.gate.Count(); return waiting == 0 })
}

// certified is a node that shows a certificate made by hand.
func (w *testNet) certified(change func(*member.Certificate), by *member.Authority) *Node {
	w.t.Helper()
	n := w.node(Config{})
	c := member.Certificate{Peer: n.ID().String(), Account: "eve", Role: member.Peer, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	change(&c)
	sealed, err := by.Certify(c)
	if err != nil {
		w.t.Fatal(err)
	}
	n.papers.mu.Lock()
	n.kept.Certificate = sealed
	n.papers.mu.Unlock()
	return n
}

func TestBadCertificatesAreRefused(t *testing.T) {
	w := newNet(t, member.Policy{})
	gate := 500 * time.Millisecond
	b := w.member(Config{Gate: gate})
	other := newNet(t, member.Policy{})
	for name, tt := range map[string]struct {
		node   *Node
		change func([]byte) []byte
		says   string
		code   Code
	}{
		"expired":       {w.certified(func(c *member.Certificate) { c.NotAfter = time.Now().Add(-6 * time.Minute) }, w.auth), nil, "expired", Outdated},
		"not yet":       {w.certified(func(c *member.Certificate) { c.NotBefore = time.Now().Add(6 * time.Minute) }, w.auth), nil, "not valid yet", NotMember},
		"other's":       {w.certified(func(c *member.Certificate) { c.Peer = b.ID().String() }, w.auth), nil, "another peer", NotMember},
		"other network": {w.certified(func(*member.Certificate) {}, other.auth), nil, "another network", NotMember},
		"altered": {w.certified(func(*member.Certificate) {}, w.auth), func(b []byte) []byte {
			return []byte(strings.Replace(string(b), "eve", "bob", 1))
		}, "altered", NotMember},
		"none": {w.certified(func(*member.Certificate) {}, w.auth), func([]byte) []byte { return nil }, "not a member", NotMember},
	} {
		if tt.change != nil {
			tt.node.kept.Certificate = tt.change(tt.node.kept.Certificate)
		}
		c := w.raw(tt.node, b)
		_, err := tt.node.ask(t.Context(), c, hello(tt.node))
		for errors.Is(err, ErrUnreachable) && gate < time.Minute { // on a busy machine the gate's time may be up
			gate *= 2
			b = w.anew(b, gate)
			c = w.raw(tt.node, b)
			_, err = tt.node.ask(t.Context(), c, hello(tt.node))
		}
		var s *Status
		if !errors.As(err, &s) || s.Code != tt.code || !strings.Contains(s.Text, tt.says) {
			t.Errorf("%s: %v, want %v that says %q", name, err, tt.code, tt.says)
		}
		eventually(t, name+": closes", closed(c))
	}
	// A whole network's member meets another network's.
	stranger := other.member(Config{})
	if err := stranger.Connect(t.Context(), b.ID(), b.Addrs()...); err == nil {
		t.Error("connected to a member of another network")
	}
}

func TestClockSkew(t *testing.T) {
	w := newNet(t, member.Policy{})
	for off, says := range map[time.Duration]string{
		12 * time.Minute:  "your clock is 12 minutes ahead of the manager's; set it and try again",
		-12 * time.Minute: "your clock is 12 minutes behind the manager's; set it and try again",
		26 * time.Hour:    "your clock is 26 hours ahead of the manager's",
		-90 * time.Hour:   "your clock is 4 days behind the manager's",
	} {
		n := w.node(Config{Clock: func() time.Time { return time.Now().Add(off) }})
		err := n.Join(t.Context(), w.joinString(), "")
		if !errors.Is(err, Clock) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", off, err)
		}
	}
	// Within the skew it joins, and goes by the manager's clock from then on.
	n := w.node(Config{Clock: func() time.Time { return time.Now().Add(-4 * time.Minute) }})
	if err := n.Join(t.Context(), w.joinString(), ""); err != nil {
		t.Fatal(err)
	}
	if off := time.Until(n.Now()).Abs(); off > time.Minute {
		t.Errorf("%s off the manager's clock", off)
	}
}

func TestJoinByInvite(t *testing.T) {
	w := newNet(t, member.Policy{Closed: true})
	j := w.joinString()
	n := w.node(Config{})
	if err := n.Join(t.Context(), j, "ada"); !errors.Is(err, Refused) || !strings.Contains(err.Error(), "by invite") {
		t.Fatalf("without: %v", err)
	}
	invite, err := w.issuer.Invite([8]byte{1}, 1, time.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	j.Invite = invite
	if err := n.Join(t.Context(), j, "ada"); err != nil {
		t.Fatal(err)
	}
	if err := w.node(Config{}).Join(t.Context(), j, "bob"); !errors.Is(err, Refused) || !strings.Contains(err.Error(), "used") {
		t.Fatalf("used up: %v", err)
	}
	if err := n.Renew(t.Context()); err != nil { // needs no invite
		t.Fatal(err)
	}
}

func TestJoinErrors(t *testing.T) {
	w := newNet(t, member.Policy{Prefix: member.Rate{Burst: 1, Every: time.Hour}})
	other := newNet(t, member.Policy{})
	n := w.node(Config{})
	if err := n.Join(t.Context(), other.joinString(), ""); err == nil || !strings.Contains(err.Error(), "join another network") {
		t.Errorf("join string of another network: %v", err)
	}
	if err := n.Renew(t.Context()); !errors.Is(err, ErrNotJoined) {
		t.Errorf("renewal before joining: %v", err)
	}
	j := w.joinString()
	j.Addrs = other.joinString().Addrs // a manager, but not of this network
	if err := n.Join(t.Context(), j, ""); !errors.Is(err, NotMember) || !strings.Contains(err.Error(), "another network") {
		t.Errorf("manager of another network: %v", err)
	}
	j.Addrs = []string{"/ip4/127.0.0.1/tcp/1/p2p/" + w.manager.ID().String()}
	if err := n.Join(t.Context(), j, ""); !errors.Is(err, ErrUnreachable) {
		t.Errorf("nobody there: %v", err)
	}
	j.Addrs = []string{"/ip4/127.0.0.1/tcp/1"}
	if err := n.Join(t.Context(), j, ""); err == nil || !strings.Contains(err.Error(), "no address that this version can use") {
		t.Errorf("address without an identity: %v", err)
	}
	a := w.member(Config{})
	j.Addrs = a.Addrs()
	if err := n.Join(t.Context(), j, ""); !errors.Is(err, Refused) || !strings.Contains(err.Error(), "ask a manager") {
		t.Errorf("a peer: %v", err)
	}
	if err := n.Join(t.Context(), w.joinString(), ""); !errors.Is(err, Busy) || !strings.Contains(err.Error(), "try again in") {
		t.Errorf("too many: %v", err)
	}
	if _, err := New(t.Context(), Config{Key: newKey(), Network: other.root.ID(), Kept: a.Kept()}); err == nil || !strings.Contains(err.Error(), "use another folder") {
		t.Errorf("folder of another network: %v", err)
	}
	if _, err := New(t.Context(), Config{Key: newKey(), Network: w.root.ID(), Listen: bare(a)}); err == nil || !strings.Contains(err.Error(), "the port is taken") {
		t.Errorf("port taken: %v", err)
	}
	if _, err := New(t.Context(), Config{Key: newKey(), Network: w.root.ID(), Listen: []string{"127.0.0.1:7785"}}); err == nil || !strings.Contains(err.Error(), "it looks like") {
		t.Errorf("odd address: %v", err)
	}
}

func TestManyJoinFromOneAddress(t *testing.T) {
	const members = 200
	w := newNet(t, member.Policy{})
	start := time.Now()
	var wg sync.WaitGroup
	var failed atomic.Int32
	work := make(chan struct{})
	for range 8 {
		wg.Go(func() {
			for range work {
				n, err := New(t.Context(), Config{Key: newKey(), Network: w.root.ID(), Patience: time.Minute})
				if err == nil {
					err = n.Join(t.Context(), w.joinString(), "company")
					t.Cleanup(func() { n.Close() })
				}
				if err != nil {
					failed.Add(1)
					t.Error(err)
				}
			}
		})
	}
	for range members {
		work <- struct{}{}
	}
	close(work)
	wg.Wait()
	eventually(t, "all are connected", func() bool { in, _ := w.manager.gate.Count(); return in == members })
	t.Logf("%d joined in %s", members, time.Since(start))
	// The prefix's bucket holds 512, and loopback is one; the next ones are told to wait.
	var last error
	for range 400 {
		id, err := PeerID(newKey())
		if err != nil {
			t.Fatal(err)
		}
		if _, last = w.issuer.Issue(time.Now(), member.Request{Peer: id.String(), Addr: netip.MustParseAddr("127.0.0.1")}); last != nil {
			break
		}
	}
	if !errors.Is(last, member.ErrRate) {
		t.Errorf("no end to it: %v", last)
	}
}

func TestPeerIDOfKey(t *testing.T) {
	w := newNet(t, member.Policy{})
	id, err := PeerID(w.manager.cfg.Key)
	if err != nil || id != w.manager.ID() {
		t.Fatal(id, err)
	}
	if _, err := peer.Decode(id.String()); err != nil {
		t.Fatal(err)
	}
}

func hello(n *Node) *wirepb.Hello {
	return &wirepb.Hello{Want: wantKnown, Certificate: n.Certificate()}
}
