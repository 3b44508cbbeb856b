package manager

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"shoal/channel"
	"shoal/channel/badgerdb"
	"shoal/coords"
	"shoal/internal/member"
	"shoal/internal/wire"
	"shoal/internal/wire/wirepb"
	"shoal/manager/archive"
	"shoal/overlay"
	"shoal/overlay/p2p"
	"shoal/overlay/p2p/overlaypb"
	"shoal/recrawl"
)

const (
	crowdRelays = 32                             // members of the other process that requests to the others ride over
	crowdSize   = overlay.MaxKnown - crowdRelays // the others
)

// crowded is a member of the other process.
type crowded struct {
	key crypto.PrivKey
	id  peer.ID
	at  coords.Coord
}

// crowd are the members, the same ones in both processes.
func crowd(t testing.TB) []crowded {
	rng := rand.New(rand.NewPCG(7, 8))
	out := make([]crowded, crowdSize)
	for i := range out {
		seed := [32]byte{byte(i), byte(i >> 8), 77}
		key, err := crypto.UnmarshalEd25519PrivateKey(ed25519.NewKeyFromSeed(seed[:]))
		if err != nil {
			t.Fatal(err)
		}
		id, err := peer.IDFromPrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		at := coords.Coord{Err: .1, Height: rng.Float64()}
		at.Vec[0], at.Vec[1] = rng.Float64()*200-100, rng.Float64()*200-100
		out[i] = crowded{key, id, at}
	}
	return out
}

// hostPlace is where a Web host is.
func hostPlace(name string) coords.Coord { return hostPlaceOf(channel.KeyOf(name)) }

func hostPlaceOf(host channel.HostKey) coords.Coord {
	rng := rand.New(rand.NewPCG(uint64(host), 3))
	at := coords.Coord{Err: .1}
	at.Vec[0], at.Vec[1] = rng.Float64()*200-100, rng.Float64()*200-100
	return at
}

// otherSide is what the other process is told.
type otherSide struct {
	Keys string `json:"keys"`
	Join string `json:"join"`
}

const otherSideOf = "SHOAL_PLACING_OTHER_SIDE" // the file that tells it

// BenchmarkPlacing is BenchmarkPlaced with the real overlay: the manager's p2p.Runner and its libp2p node know 4,096 peers, which another process
// answers for over loopback. Tasks are chosen, the judge names a peer, generations are made durable, tasks built, signed, deposited and
// offered; every request rides over one of 32 connections, as to peers behind routers. Each host was measured by 8 peers at random and the 12 nearest. CPU is the manager's
// process alone, the collector included.
//
// docs/decisions/0023 has what it gave, and what it gave when the manager looked for near peers itself.
//
// It runs twice: where nothing is judged, and where scores count and each channel was crawled by a near peer the last time, so that another one is looked for.
func BenchmarkPlacing(b *testing.B) {
	b.Run("unjudged", func(b *testing.B) { benchmarkPlacing(b, false) })
	b.Run("judged", func(b *testing.B) { benchmarkPlacing(b, true) })
}

func benchmarkPlacing(b *testing.B, judged bool) {
	const n, most = 12_000, 10_000
	rounds, used := 0, 0.
	for b.Loop() {
		rounds++
		b.StopTimer()
		p := openPlacing(b, n)
		done, placed := make(chan struct{}), atomic.Int64{}
		p.cfg.OnPlaced = func(string, overlay.Placed) {
			if placed.Add(1) == most {
				close(done)
			}
		}
		p.cfg.Unjudged = !judged
		m, err := New(b.Context(), p.cfg)
		if err != nil {
			b.Fatal(err)
		}
		if judged {
			believeAll(b, m)
		}
		ctx, cancel := context.WithCancel(b.Context())
		ended := make(chan error, 1)
		cpu := cpuSeconds()
		b.StartTimer()
		go func() { ended <- m.Run(ctx) }()
		select {
		case <-done:
		case <-time.After(4 * time.Minute):
			b.Errorf("only %d of %d tasks were placed", placed.Load(), most)
		}
		b.StopTimer()
		used += cpuSeconds() - cpu
		b.ReportMetric(most*float64(rounds)/b.Elapsed().Seconds(), "tasks/s")
		b.ReportMetric(used*1e6/(most*float64(rounds)), "cpu-us/task")
		counts := p.runner.Status().Counts
		b.ReportMetric(float64(counts["lookup"])/most, "lookups/task")
		b.ReportMetric(float64(counts["survey"])/most, "surveys/task")
		cancel()
		<-ended
		p.close()
		b.StartTimer()
	}
}

// believeAll has scores count, and one of the three nearest peers as the last that crawled each channel. The manager does not run yet.
func believeAll(b *testing.B, m *Manager) {
	au := m.auditor
	au.enforced, au.strict = true, true
	all := crowd(b)
	rng := rand.New(rand.NewPCG(11, 12))
	for s := range recrawl.Slot(m.table.Len()) {
		at := hostPlaceOf(m.table.Host(s))
		near := nearestOf(all, &at, 3)
		au.roll.delivered(m.table, s, au.meet(overlay.ID(near[rng.IntN(len(near))].id.String())))
	}
}

// placing is a manager's side with all but the manager.
type placing struct {
	cfg    Config
	runner *p2p.Runner
	close  func()
}

func openPlacing(b *testing.B, n int) *placing {
	dir := b.TempDir()
	fail := func(err error) {
		if err != nil {
			b.Helper()
			b.Fatal(err)
		}
	}
	now := time.Now()
	keys, err := member.LoadOrCreate(filepath.Join(dir, "keys"), now)
	fail(err)
	issuer, err := member.NewIssuer(keys.Authority, member.Policy{})
	fail(err)
	node, err := wire.New(b.Context(), wire.Config{Key: keys.Node, Network: keys.Network, Role: member.Manager, Listen: []string{"/ip4/127.0.0.1/tcp/0"}})
	fail(err)
	sealed, serial := keys.Delegations(now)
	doc, err := keys.Authority.SignDocument(member.Document{Network: keys.Network, Delegations: sealed, MinSerial: serial,
		MinProtocol: 1, Issued: now, NotAfter: now.Add(time.Hour), Lease: time.Minute})
	fail(err)
	fail(node.SetIssuer(issuer, doc))
	runner, err := p2p.New(p2p.Config{Wire: node, Places: true})
	fail(err)
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- runner.Run(ctx) }()
	stopOther := startOtherSide(b, otherSide{filepath.Join(dir, "keys"), node.JoinString("").String()})
	for end := time.Now().Add(2 * time.Minute); len(runner.Peers()) < overlay.MaxKnown; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			b.Fatalf("only %d members are known", len(runner.Peers()))
		}
	}

	cfg := Default()
	v := member.NewVerifier(keys.Network)
	a, err := archive.Open(b.Context(), archive.Config{Dir: dir + "/archive", Terms: cfg.Terms, Verify: v.VerifyTask, RankEvery: -1, NoText: true})
	fail(err)
	fill(b, dir+"/db", n)
	db, err := badgerdb.Open(b.Context(), badgerdb.Default(dir+"/db"))
	fail(err)
	measureAll(b, db, n)
	cfg.Store, cfg.Archive, cfg.Evidence, cfg.Swarm, cfg.Sign, cfg.Network, cfg.ArchiveID = db, a, a.Evidence, runner, v.Signing(keys.Authority), keys.Network, node.ID().String()
	cfg.Log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	cfg.MaxOut, cfg.MinPeersWait = 2*n, 0
	return &placing{cfg, runner, func() {
		cancel()
		fail(<-ran)
		fail(node.Close())
		stopOther()
		fail(a.Close())
		fail(db.Close())
	}}
}

// measureAll has every host measured.
func measureAll(b *testing.B, db *badgerdb.DB, n int) {
	e, err := db.Take(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	epoch, err := time.Now().Add(-30 * 24 * time.Hour).MarshalBinary() // so all are due
	if err == nil {
		err = db.PutState(b.Context(), e, stateEpoch, epoch)
	}
	if err != nil {
		b.Fatal(err)
	}
	all := crowd(b)
	rng := rand.New(rand.NewPCG(9, 10))
	now := time.Now()
	const step = 1000
	for i := 0; i < n; i += step {
		var a channel.Advance
		for id := i + 1; id <= min(i+step, n); id++ {
			ch, err := db.Channel(b.Context(), channel.ID(id))
			if err != nil {
				b.Fatal(err)
			}
			at := hostPlace(ch.Scope.Host)
			chosen := nearestOf(all, &at, 12)
			for range 8 {
				chosen = append(chosen, &all[rng.IntN(len(all))])
			}
			h := channel.Host{Name: ch.Scope.Host}
			for _, p := range chosen {
				h.Record.Add(coords.Sample{Vantage: p.id.String(), At: p.at, RTT: coords.Predict(p.at, at), When: now.Unix()})
			}
			a.Hosts = append(a.Hosts, h)
		}
		if err := db.Apply(b.Context(), e, a); err != nil {
			b.Fatal(err)
		}
	}
}

// nearestOf are the members nearest to a place.
func nearestOf(all []crowded, at *coords.Coord, n int) []*crowded {
	var out []*crowded
	for i := range all {
		j := len(out)
		for ; j > 0 && coords.Distance(&all[i].at, at) < coords.Distance(&out[j-1].at, at); j-- {
		}
		if j < n {
			if len(out) == n {
				out = out[:n-1]
			}
			out = append(out[:j], append([]*crowded{&all[i]}, out[j:]...)...)
		}
	}
	return out
}

// startOtherSide runs the test that is the other process.
func startOtherSide(b *testing.B, o otherSide) (stop func()) {
	raw, err := json.Marshal(o)
	if err != nil {
		b.Fatal(err)
	}
	file := filepath.Join(b.TempDir(), "other-side.json")
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run", "^TestOtherSideOfPlacing$", "-test.timeout", "10m")
	cmd.Env = append(os.Environ(), otherSideOf+"="+file)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	return func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			b.Errorf("the other process: %v", err)
		}
	}
}

// TestOtherSideOfPlacing is the process that answers for BenchmarkPlacing's peers, until its input ends. As a test of its own it does nothing.
func TestOtherSideOfPlacing(t *testing.T) {
	file := os.Getenv(otherSideOf)
	if file == "" {
		t.Skip("it is run by BenchmarkPlacing")
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var o otherSide
	if err := json.Unmarshal(raw, &o); err != nil {
		t.Fatal(err)
	}
	s := &side{all: crowd(t), sealed: map[string]*overlaypb.Sealed{}, near: map[string][]*overlaypb.Sealed{}, at: map[string]*crowded{}}
	s.open(t, o)
	_, _ = io.Copy(io.Discard, bufio.NewReader(os.Stdin))
}

// side answers for all members.
type side struct {
	all    []crowded
	sealed map[string]*overlaypb.Sealed   // by id
	near   map[string][]*overlaypb.Sealed // what each would answer to a lookup
	at     map[string]*crowded
}

func (s *side) open(t *testing.T, o otherSide) {
	keys, err := member.LoadOrCreate(o.Keys, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	join, err := member.ParseJoinString(o.Join)
	if err != nil {
		t.Fatal(err)
	}
	var relays []*wire.Node
	for i := range crowdRelays {
		n, err := wire.New(t.Context(), wire.Config{Key: [32]byte{byte(i), 5, 99}, Network: keys.Network, Listen: []string{"/ip4/127.0.0.1/tcp/0"}, Limits: wire.Limits{Calls: 1024}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { n.Close() })
		if err := n.Join(t.Context(), join, fmt.Sprint("relay", i)); err != nil {
			t.Fatal(err)
		}
		n.Handle(wire.ProtoRide, 192<<10, 20*time.Second, func(_ context.Context, _ wire.Member, req []byte) ([]byte, error) { return s.answer(req) })
		relays = append(relays, n)
	}
	for i := range s.all {
		via := relays[i%crowdRelays]
		id := s.all[i].id.String()
		s.at[id] = &s.all[i]
		s.sealed[id] = seal(t, keys, &s.all[i], 255, via.Addrs()[0]+"/p2p-circuit")
	}
	for i := range s.all {
		id := s.all[i].id.String()
		for _, p := range nearestOf(s.all, &s.all[i].at, 9) {
			s.near[id] = append(s.near[id], s.sealed[p.id.String()])
		}
	}
	// The manager hears of them by gossip.
	boss, err := peer.AddrInfoFromString(join.Addrs[0])
	if err != nil {
		t.Fatal(err)
	}
	for from := 0; from < len(s.all); from += overlay.MaxGossip {
		via := relays[from/overlay.MaxGossip%crowdRelays]
		seed := [32]byte{byte(from / overlay.MaxGossip % crowdRelays), 5, 99}
		key, err := crypto.UnmarshalEd25519PrivateKey(ed25519.NewKeyFromSeed(seed[:]))
		if err != nil {
			t.Fatal(err)
		}
		g := &overlaypb.Gossip{Self: seal(t, keys, &crowded{key, via.ID(), coords.Coord{Err: 1}}, 0, "")}
		for _, p := range s.all[from:min(from+overlay.MaxGossip, len(s.all))] {
			g.Records = append(g.Records, s.sealed[p.id.String()])
		}
		raw, err := proto.Marshal(g)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := via.Call(t.Context(), boss.ID, "/shoal/gossip/1", raw, 1<<20); err != nil {
			t.Fatal(err)
		}
	}
}

// seal makes a member's record.
func seal(t *testing.T, keys *member.Keys, p *crowded, threads uint32, addr string) *overlaypb.Sealed {
	now := time.Now()
	rec := &overlaypb.Record{Network: keys.Network[:], Id: p.id.String(), Seq: uint64(now.UnixMilli()), Coord: channel.CoordPB(p.at), Threads: threads, Slots: threads, IssuedMs: now.UnixMilli()}
	if addr != "" {
		rec.Addrs = []string{addr}
	}
	raw, err := proto.Marshal(rec)
	if err != nil {
		t.Fatal(err)
	}
	sig, err := p.key.Sign(append([]byte("shoal record 1\x00"), raw...))
	if err != nil {
		t.Fatal(err)
	}
	cert, err := keys.Authority.Certify(member.Certificate{Peer: p.id.String(), Account: p.id.String(), Role: member.Peer, NotBefore: now.Add(-time.Minute), NotAfter: now.Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	pass, err := member.PassOf(cert)
	if err != nil {
		t.Fatal(err)
	}
	return &overlaypb.Sealed{Record: raw, Sig: sig, Pass: pass}
}

// answer is what a member would answer to a request that rides.
func (s *side) answer(req []byte) ([]byte, error) {
	var m wirepb.Ride
	if err := proto.Unmarshal(req, &m); err != nil {
		return nil, err
	}
	own := s.sealed[m.Peer]
	if own == nil {
		return nil, wire.Errorf(wire.NotFound, "no such member")
	}
	switch m.Protocol {
	case "/shoal/offer/1":
		return proto.Marshal(&overlaypb.Answer{Accept: true, StartMs: time.Now().UnixMilli()})
	case "/shoal/near/1":
		return proto.Marshal(&overlaypb.Near{Records: s.near[m.Peer]})
	case "/shoal/gossip/1":
		return proto.Marshal(&overlaypb.Gossip{Self: own, Records: s.near[m.Peer][1:3]})
	case "/shoal/probe/1":
		var p overlaypb.Probe
		if err := proto.Unmarshal(m.Request, &p); err != nil {
			return nil, err
		}
		rtt := coords.Predict(s.at[m.Peer].at, hostPlace(p.Host))
		return proto.Marshal(&overlaypb.Probed{RttUs: uint64(max(rtt.Microseconds(), 1)), Self: own})
	}
	return nil, wire.Errorf(wire.NotFound, "no such protocol")
}
