package p2p

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"shoal/channel"
	"shoal/coords"
	"shoal/internal/member"
	"shoal/internal/wire"
	"shoal/overlay"
	pb "shoal/overlay/p2p/overlaypb"
)

// bin is a queue that takes up to a number of tasks.
type bin struct {
	mu    sync.Mutex
	room  int
	tasks []channel.Header
	taken []channel.Signed
}

func (b *bin) Quote(now time.Time, h channel.Header) (time.Time, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return now.Add(time.Millisecond), len(b.tasks) < b.room
}

func (b *bin) Take(_ time.Time, s channel.Signed, h channel.Header) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.taken = append(b.taken, s)
	b.tasks = append(b.tasks, h)
	return nil
}

func (b *bin) Load(time.Time) overlay.Load {
	b.mu.Lock()
	defer b.mu.Unlock()
	return overlay.Load{Threads: uint8(max(b.room, 1)), Running: uint8(len(b.tasks))}
}

// patience is for machines that are busy with something else: slowness is no loss.
const patience = 2 * time.Minute

type site struct {
	node   *wire.Node
	runner *Runner
	bin    *bin
	stop   func()
}

type network struct {
	t     testing.TB
	keys  *member.Keys
	boss  *site
	peers []*site
}

func start(t testing.TB, n *wire.Node, cfg Config, every time.Duration, b *bin) *site {
	t.Helper()
	cfg.Overlay = overlay.Default(overlay.ID(n.ID().String()))
	cfg.Overlay.Every, cfg.Overlay.Timeout = every, patience
	return startAs(t, n, cfg, b)
}

func startAs(t testing.TB, n *wire.Node, cfg Config, b *bin) *site {
	t.Helper()
	cfg.Wire = n
	r, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 2)
	go func() { done <- r.Run(ctx) }()
	var once sync.Once
	s := &site{node: n, runner: r, bin: b}
	s.stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
			if err := n.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(s.stop)
	return s
}

func open(t testing.TB, peers, room int) *network {
	return openWith(t, peers, room, 10*time.Second, nil)
}

// openWith leaves the peers that are mute without an address to listen at.
func openWith(t testing.TB, peers, room int, every time.Duration, mute func(i int) bool) *network {
	t.Helper()
	ctx := t.Context()
	n := openNet(t, func(c wire.Config) *wire.Node {
		c.Patience, c.Listen = patience, []string{"/ip4/127.0.0.1/tcp/0"}
		mn, err := wire.New(ctx, c)
		if err != nil {
			t.Fatal(err)
		}
		return mn
	})
	mn := n.boss.node
	n.boss = start(t, mn, Config{Places: true, DHT: true}, every, nil)
	for i := range peers {
		var seed [32]byte
		seed[0], seed[1] = byte(i+1), 7
		listen := []string{"/ip4/127.0.0.1/tcp/0"}
		if mute != nil && mute(i) {
			listen = nil
		}
		pn, err := wire.New(ctx, wire.Config{Key: seed, Network: n.keys.Network, Patience: patience, Listen: listen})
		if err != nil {
			t.Fatal(err)
		}
		if err := pn.Join(ctx, member.JoinString{Network: n.keys.Network, Addrs: mn.Addrs()}, fmt.Sprint("account", i)); err != nil {
			t.Fatal(err)
		}
		if listen == nil { // it is its home that others find it at
			run(t, pn)
		}
		b := &bin{room: room}
		probe := func(context.Context, string) (time.Duration, error) {
			return time.Duration(i+1) * time.Millisecond, nil
		}
		n.peers = append(n.peers, start(t, pn, Config{Queue: b, DHT: true, Probe: probe, Dir: t.TempDir()}, every, b))
	}
	return n
}

// openNet makes a network of a manager, which does not run yet.
func openNet(t testing.TB, listen func(wire.Config) *wire.Node) *network {
	t.Helper()
	keys, err := member.LoadOrCreate(t.TempDir(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	issuer, err := member.NewIssuer(keys.Authority, member.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	mn := listen(wire.Config{Key: keys.Node, Network: keys.Network, Role: member.Manager})
	sealed, serial := keys.Delegations(time.Now())
	doc, err := keys.Authority.SignDocument(member.Document{Network: keys.Network, Delegations: sealed, MinSerial: serial,
		Managers:    []member.Server{{Peer: mn.ID().String(), Addrs: bare(mn.Addrs())}},
		MinProtocol: 1, Issued: time.Now(), NotAfter: time.Now().Add(time.Hour), Lease: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if err := mn.SetIssuer(issuer, doc); err != nil {
		t.Fatal(err)
	}
	return &network{t: t, keys: keys, boss: &site{node: mn}}
}

func run(t testing.TB, n *wire.Node) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func (n *network) until(what string, f func() bool) {
	n.t.Helper()
	for end := time.Now().Add(2 * patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if f() {
			return
		}
	}
	n.t.Fatalf("never came: %s", what)
}

func (n *network) takers() (k int) {
	for _, p := range n.boss.runner.Peers() {
		if p.Load.Threads > 0 {
			k++
		}
	}
	return k
}

func (n *network) task(id channel.ID, latest time.Duration) (channel.Signed, channel.Header) {
	n.t.Helper()
	h := channel.Header{Network: n.keys.Network, Channel: id, Gen: 1, Host: "http://a.example", Pages: 3, Issued: time.Now(), Latest: time.Now().Add(latest),
		Gap: time.Millisecond, Archive: n.boss.node.ID().String(), BodyBytes: 1}
	s, err := n.keys.Authority.SignHeader(h)
	if err != nil {
		n.t.Fatal(err)
	}
	return s, h
}

func TestTasksArePlaced(t *testing.T) {
	n := open(t, 6, 2)
	n.until("the manager knows all peers", func() bool { return n.takers() == 6 })
	for i := range 12 {
		s, h := n.task(channel.ID(i+1), time.Hour)
		p, err := n.boss.runner.Place(t.Context(), s, h, coords.HostRecord{}, overlay.Named{})
		if err != nil {
			t.Fatalf("task %d: %v", i+1, err)
		}
		if p.Queries == 0 || p.Offers == 0 {
			t.Errorf("task %d was placed by %+v", i+1, p)
		}
	}
	for i, p := range n.peers {
		if len(p.bin.tasks) != 2 {
			t.Errorf("peer %d has %d tasks, of which there were 12 for 6", i, len(p.bin.tasks))
		}
	}
	s, h := n.task(99, time.Hour)
	if _, err := n.boss.runner.Place(t.Context(), s, h, coords.HostRecord{}, overlay.Named{}); !errors.Is(err, overlay.ErrRefused) {
		t.Errorf("a full swarm answers %v", err)
	}
}

// A member that is too slow to hear an offer while its asker waits has not taken it, and says so; one that has begun says what it came to.
func TestOfferThatNobodyWaitsForIsNotTaken(t *testing.T) {
	n := open(t, 1, 5)
	p := n.peers[0]
	from := wire.Member{Peer: n.boss.node.ID(), Role: member.Manager}
	stall := func() (release func()) {
		held, go1 := make(chan struct{}), make(chan struct{})
		p.runner.post(t.Context(), func(context.Context, time.Time) { close(held); <-go1 })
		<-held
		return func() { close(go1) }
	}
	s, h := n.task(1, time.Hour)
	release := stall()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := p.runner.step(ctx, from, overlay.Offer{Signed: s, Header: h}); !errors.Is(err, wire.Busy) || !neverSent(err) {
		t.Errorf("a stalled member answers %v", err)
	}
	release()
	stall()() // the offer's turn has passed
	if len(p.bin.tasks) != 0 {
		t.Error("an offer was taken that nobody waited for")
	}
	answer, err := p.runner.step(t.Context(), from, overlay.Offer{Signed: s, Header: h})
	if a, ok := answer.(overlay.Answer); err != nil || !ok || !a.Accept || len(p.bin.tasks) != 1 {
		t.Errorf("an idle member answers %v, %v", answer, err)
	}
	if p.runner.Status().Refused["overloaded"] != 1 {
		t.Errorf("counted: %v", p.runner.Status().Refused)
	}
}

func TestForgedAndLateTasksAreRefusedAndCounted(t *testing.T) {
	n := open(t, 2, 5)
	n.until("the manager knows all peers", func() bool { return n.takers() == 2 })
	s, h := n.task(1, time.Hour)
	s.Raw = append([]byte(nil), s.Raw...)
	s.Raw[len(s.Raw)-1] ^= 1
	if _, err := n.boss.runner.Place(t.Context(), s, h, coords.HostRecord{}, overlay.Named{}); err == nil {
		t.Error("an altered task was placed")
	}
	s, h = n.task(2, -time.Hour)
	if _, err := n.boss.runner.Place(t.Context(), s, h, coords.HostRecord{}, overlay.Named{}); err == nil {
		t.Error("a task past its latest start was placed")
	}
	n.until("both peers have counted two refusals", func() bool {
		for _, p := range n.peers {
			all := int64(0)
			for _, k := range p.runner.Status().Refused {
				all += k
			}
			if all < 2 {
				return false
			}
		}
		return true
	})
	for _, p := range n.peers {
		if len(p.bin.tasks) > 0 {
			t.Error("a peer took a task that is none")
		}
	}
}

func TestVanishedPeerIsForgottenAndOthersServe(t *testing.T) {
	n := open(t, 3, 10)
	n.until("the manager knows all peers", func() bool { return n.takers() == 3 })
	n.peers[0].stop()
	placed := 0
	for i := range 6 {
		s, h := n.task(channel.ID(i+1), time.Hour)
		if _, err := n.boss.runner.Place(t.Context(), s, h, coords.HostRecord{}, overlay.Named{}); err != nil {
			t.Errorf("task %d: %v", i+1, err)
			continue
		}
		placed++
	}
	if placed != 6 {
		t.Errorf("%d of 6 tasks were placed with one of three peers gone", placed)
	}
}

// TestKilledManagerKnowsItsPeersAgain: a manager that starts without any memory of its peers, which know enough members and have nothing to
// say for an hour, learns of each of them as soon as it comes home.
func TestKilledManagerKnowsItsPeersAgain(t *testing.T) {
	n := openWith(t, fewMembers+1, 1, time.Hour, nil)
	for _, p := range n.peers {
		run(t, p.node)
	}
	n.until("all know one another", func() bool {
		for _, p := range n.peers {
			if len(p.runner.Peers()) < fewMembers {
				return false
			}
		}
		return n.takers() == len(n.peers)
	})
	old := n.boss.node
	issuer, err := member.NewIssuer(n.keys.Authority, member.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	doc, at := old.Verifier().SealedDocument(), bare(old.Addrs())
	n.boss.stop()
	again, err := wire.New(t.Context(), wire.Config{Key: n.keys.Node, Network: n.keys.Network, Role: member.Manager, Patience: patience, Listen: at})
	if err != nil {
		t.Fatal(err)
	}
	if err := again.SetIssuer(issuer, doc); err != nil {
		t.Fatal(err)
	}
	n.boss = start(t, again, Config{Places: true}, time.Hour, nil)
	n.until("the manager knows all peers again", func() bool { return n.takers() == len(n.peers) })
}

func TestProbeAndCoordinates(t *testing.T) {
	n := open(t, 4, 2)
	n.until("the manager knows all peers", func() bool { return n.takers() == 4 })
	n.until("all of them measure a host", func() bool { // a survey goes on without those that take longer than its patience
		samples, err := n.boss.runner.Survey(t.Context(), overlay.Survey{Name: "http://a.example", N: 8}, coords.HostRecord{})
		return err == nil && len(samples) == 4
	})
	if samples, err := n.peers[0].runner.Survey(t.Context(), overlay.Survey{Name: "http://a.example", N: 8}, coords.HostRecord{}); err == nil && len(samples) > 0 {
		t.Error("a peer had another member measure a host")
	}
	n.until("peers have measured each other", func() bool { return n.peers[1].runner.pings.Load() > 0 })
}

func TestHandoff(t *testing.T) {
	n := open(t, 3, 3)
	n.until("peers know each other", func() bool { return len(n.peers[0].runner.Peers()) >= 3 })
	s, h := n.task(1, time.Hour)
	s2, h2 := n.task(2, time.Hour)
	if rest := n.peers[0].runner.Handoff(t.Context(), []overlay.Task{{Signed: s, Header: h}, {Signed: s2, Header: h2}}); len(rest) != 0 {
		t.Errorf("nobody took %d of 2 tasks", len(rest))
	}
	shown := 0
	for _, p := range n.peers {
		p.bin.mu.Lock()
		for _, s := range p.bin.taken {
			if from, err := Giver(s, p.node.ID().String()); err == nil && from == n.peers[0].node.ID().String() {
				shown++
			}
		}
		p.bin.mu.Unlock()
	}
	if shown != 2 {
		t.Errorf("%d of 2 tasks show who handed them over", shown)
	}
}

// TestHiddenPeersAreFullMembers checks that peers that cannot be dialled, as behind a router, are members like
// others: they know and are known, and tasks and requests of peers ride the connection that each keeps to its home.
func TestHiddenPeersAreFullMembers(t *testing.T) {
	n := openWith(t, 4, 3, 10*time.Second, func(i int) bool { return i < 3 })
	n.until("the manager knows all peers", func() bool { return n.takers() == 4 })
	for i, p := range n.peers {
		n.until(fmt.Sprintf("peer %d knows all others", i), func() bool { return len(p.runner.Peers()) == 4 })
	}
	for i := range 12 {
		s, h := n.task(channel.ID(i+1), time.Hour)
		if _, err := n.boss.runner.Place(t.Context(), s, h, coords.HostRecord{}, overlay.Named{}); err != nil {
			t.Fatalf("task %d: %v", i+1, err)
		}
	}
	for i, p := range n.peers {
		if len(p.bin.tasks) != 3 {
			t.Errorf("peer %d has %d tasks, of which there were 12 for 4", i, len(p.bin.tasks))
		}
		p.bin.mu.Lock()
		p.bin.tasks, p.bin.room = nil, 0
		if i == 1 {
			p.bin.room = 1
		}
		p.bin.mu.Unlock()
	}
	// From one of them to another, neither of which can be dialled.
	n.until("a task goes from one to another", func() bool {
		s, h := n.task(99, time.Hour)
		return len(n.peers[0].runner.Handoff(t.Context(), []overlay.Task{{Signed: s, Header: h}})) == 0
	})
	if r := n.peers[1].node.Reach(); r.Rides == 0 || len(r.Relays) != 1 {
		t.Errorf("%+v", r)
	}
	n.saysWhichWay(n.peers[0], n.peers[1], n.peers[3])
	n.until("messages and packets are counted", func() bool {
		r := n.peers[1].runner.Status().Rates
		return r.Messages > 0 && r.Packets > 0
	})
}

// saysWhichWay wants the node to hear of each request whether it goes out at once, has to wait for a connection, or rides.
func (n *network) saysWhichWay(from, hidden, open *site) {
	n.t.Helper()
	ask := func(to *site) string {
		t := target{id: to.runner.id}
		for _, r := range from.runner.Peers() {
			if r.ID == t.id {
				t.addrs = r.Addrs
			}
		}
		var way []bool
		t.straight = func(is bool) { way = append(way, is) }
		raw, err := proto.Marshal(&pb.FindNear{At: channel.CoordPB(coords.Coord{Err: 1}), N: 8})
		if err == nil {
			_, err = from.runner.call(n.t.Context(), t, protoNear, raw)
		}
		return fmt.Sprint(way, err)
	}
	if got := ask(hidden); got != "[false] <nil>" {
		n.t.Errorf("a request that rides: %s", got)
	}
	n.until("a connection is made for a request", func() bool { // unless another request has made it
		if err := from.node.Host().Network().ClosePeer(open.node.ID()); err != nil {
			n.t.Fatal(err)
		}
		return ask(open) == "[false true] <nil>"
	})
	n.until("a request goes out at once", func() bool { return ask(open) == "[] <nil>" })
}
