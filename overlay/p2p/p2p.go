// Package p2p runs an overlay.Node on libp2p: it carries its messages as requests and answers of package wire, checks every signature
// before the node sees what it covers, measures round-trip times, and finds the first members through the network document, addresses
// kept from earlier runs, and kad-dht under a prefix of the network's own.
//
// It is not for deciding where a task goes (overlay), nor for running it (peer).
//
// Invariants: the node is owned by one goroutine, which waits for its inbox, the node's deadline or the end; messages in flight are
// bounded; a record counts only with its peer's signature, a task only under a signature chain to the root key and before its latest start.
package p2p

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/protocol/ping"

	"shoal/channel"
	"shoal/coords"
	"shoal/internal/member"
	"shoal/internal/wire"
	"shoal/overlay"
)

// Config of a Runner.
type Config struct {
	Wire *wire.Node
	// Places says that this member places tasks and takes none: a manager.
	Places bool
	// Queue takes tasks; nil with Places. It is called on the runner's loop.
	Queue overlay.Queue
	// Probe measures the round-trip time to a Web host for a manager; nil: this member cannot.
	Probe func(ctx context.Context, host string) (time.Duration, error)
	// Dir keeps the addresses of members over a restart; empty: nowhere.
	Dir string
	// Overlay settings; zero: overlay.Default.
	Overlay overlay.Config
	// DHT says whether kad-dht helps to find members.
	DHT bool
	Log *slog.Logger
}

// Limits of a runner.
const (
	maxInbox   = 1024
	maxFlights = 256 // requests under way
	maxProbes  = 16  // measured for others at a time
)

// Runner runs one node.
type Runner struct {
	cfg    Config
	log    *slog.Logger
	id     overlay.ID
	inbox  chan func(now time.Time)
	flight chan struct{} // a token for each request under way
	probes chan struct{}
	wg     sync.WaitGroup
	ctx    context.Context // ends with Run
	cancel context.CancelFunc
	pings  atomic.Uint64
	near   nearer
	rates  rates
	sent   atomic.Int64 // messages; an answer is one too

	// Owned by the loop.
	node    *overlay.Node
	sealer  *sealer
	waiting map[uint64]chan overlay.Event
	nextReq uint64
	greeted map[overlay.ID]time.Time

	shown atomic.Pointer[Status]
}

// Status is what others may read of a runner, a moment old.
type Status struct {
	Coord   coords.Coord
	Settled bool
	Known   []overlay.PeerRecord
	Rings   []int
	Counts  map[string]int64
	Refused map[string]int64
	Rates   Rates
}

// New makes a runner and serves its protocols; Run runs it.
func New(cfg Config) (*Runner, error) {
	if cfg.Wire == nil {
		return nil, errors.New("p2p: a runner needs a wire")
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	id := overlay.ID(cfg.Wire.ID().String())
	if cfg.Overlay.ID == "" {
		cfg.Overlay = overlay.Default(id)
	}
	cfg.Overlay.Places = cfg.Places
	rng := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	v, err := coords.NewNode(coords.Default(), rng)
	if err != nil {
		return nil, err
	}
	node, err := overlay.New(cfg.Wire.Now(), cfg.Overlay, v, cfg.Queue, rng)
	if err != nil {
		return nil, err
	}
	r := &Runner{cfg: cfg, log: cfg.Log, id: id, inbox: make(chan func(time.Time), maxInbox), flight: make(chan struct{}, maxFlights),
		probes: make(chan struct{}, maxProbes), node: node, waiting: map[uint64]chan overlay.Event{},
		greeted: map[overlay.ID]time.Time{}, near: nearer{tried: map[peer.ID]tried{}},
		sealer: &sealer{key: cfg.Wire.Host().Peerstore().PrivKey(cfg.Wire.ID()), network: cfg.Wire.Network(), certificate: cfg.Wire.Certificate,
			verifier: cfg.Wire.Verifier(), checked: map[overlay.ID]checked{}}}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	r.show()
	r.rate()
	r.serve()
	ping.NewPingService(cfg.Wire.Host())
	return r, nil
}

// Run runs the node until ctx ends, and returns after all that it started has ended.
func (r *Runner) Run(ctx context.Context) error {
	defer r.wg.Wait()
	defer r.cancel()
	defer context.AfterFunc(ctx, r.cancel)()
	told := r.cfg.Wire.Now()
	r.node.SetAddrs(bare(r.cfg.Wire.Addrs()))
	r.meetKept()
	r.wg.Add(1)
	go func() { defer r.wg.Done(); r.bootstrap(r.ctx) }()

	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			r.keep()
			return nil
		case f := <-r.inbox:
			f(r.cfg.Wire.Now())
		case <-timer.C:
		}
		now := r.cfg.Wire.Now()
		if now.Sub(told).Abs() > addrsEvery {
			told = now
			r.node.SetAddrs(bare(r.cfg.Wire.Addrs()))
		}
		if !now.Before(r.node.Deadline()) {
			r.send(r.node.Tick(now))
		}
		for _, e := range r.node.Events() {
			if w, ok := r.waiting[e.Req]; ok {
				delete(r.waiting, e.Req)
				w <- e
			}
		}
		r.rate()
		timer.Reset(max(r.node.Deadline().Sub(r.cfg.Wire.Now()), 0))
		r.show()
	}
}

// show publishes what others may read.
func (r *Runner) show() {
	rings := r.node.Rings()
	s := &Status{Coord: r.node.Coord(), Known: r.node.Known(), Rings: rings[:], Counts: map[string]int64{}}
	for k, v := range r.node.Counts() {
		s.Counts[k] = v
	}
	r.shown.Store(s)
}

// Status of a moment ago.
func (r *Runner) Status() Status {
	s := *r.shown.Load()
	s.Rates, s.Refused = r.rate(), map[string]int64{}
	for why, n := range r.cfg.Wire.Refused() {
		if own, ok := strings.CutPrefix(why, refusedPrefix); ok {
			s.Refused[own] = n
		}
	}
	return s
}

// Coord is where this member is.
func (r *Runner) Coord() coords.Coord { return r.shown.Load().Coord }

// Peers are the members that it knows.
func (r *Runner) Peers() []overlay.PeerRecord {
	return append([]overlay.PeerRecord(nil), r.shown.Load().Known...)
}

// post hands f to the loop; false: the runner ends.
func (r *Runner) post(ctx context.Context, f func(now time.Time)) bool {
	select {
	case r.inbox <- f:
		return true
	case <-ctx.Done():
		return false
	}
}

// Place finds a near peer that takes a task. overlay.ErrRefused says that for certain none has it.
func (r *Runner) Place(ctx context.Context, s channel.Signed, h channel.Header, record coords.HostRecord) (overlay.Placed, error) {
	done := make(chan overlay.Event, 1)
	ok := r.post(ctx, func(now time.Time) {
		r.nextReq++
		r.waiting[r.nextReq] = done
		r.send(r.node.Place(now, r.nextReq, overlay.Task{Signed: s, Header: h}, record))
	})
	if !ok {
		return overlay.Placed{}, ctx.Err()
	}
	select {
	case e := <-done:
		return e.Placed, e.Err
	case <-ctx.Done():
		return overlay.Placed{}, ctx.Err()
	}
}

// Claimed and Swallowed tell what became of a task that a peer took. They do not wait: where the loop is busy it does without.
func (r *Runner) Claimed(peer overlay.ID) {
	r.hint(func(now time.Time) { r.node.Trust(now, peer) })
}

// Swallowed says that a peer took a task then and never claimed it.
func (r *Runner) Swallowed(peer overlay.ID, took time.Time) {
	r.hint(func(now time.Time) { r.node.Doubt(now, peer, took) })
}

func (r *Runner) hint(f func(now time.Time)) {
	select {
	case r.inbox <- f:
	default:
	}
}

// Handoff gives tasks that were not claimed to other peers, the nearest first, since what is near this one is near the tasks' hosts, and
// returns those that nobody took.
func (r *Runner) Handoff(ctx context.Context, tasks []overlay.Task) (rest []overlay.Task) {
	known, here := r.Peers(), r.Coord()
	slices.SortFunc(known, func(a, b overlay.PeerRecord) int {
		return cmp.Compare(coords.Distance(&here, &a.Coord), coords.Distance(&here, &b.Coord))
	})
	for _, p := range known {
		if len(tasks) == 0 || ctx.Err() != nil {
			break
		}
		if p.Load.Threads == 0 {
			continue
		}
		part := tasks[:min(len(tasks), overlay.MaxHandoff)]
		got, err := r.handoff(ctx, p, part)
		if err != nil {
			continue
		}
		var left []overlay.Task
		for i, t := range part {
			if i >= len(got) || !got[i] {
				left = append(left, t)
			}
		}
		tasks = append(left, tasks[len(part):]...)
	}
	return tasks
}

// Probe has peers measure the round-trip time to a Web host: n random ones, then in rounds the ones that are probably nearest
// to it, until one is very near.
func (r *Runner) Probe(ctx context.Context, host string, n int) ([]coords.Sample, error) {
	rng := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	var record coords.HostRecord
	samples, least := []coords.Sample(nil), time.Duration(0)
	for round := range 1 + overlay.NearRounds {
		count := n
		if round > 0 {
			count = min(n, overlay.NearProbes)
		}
		vantages := overlay.NearVantages(&record, r.Peers(), count, rng)
		if round == 0 && len(vantages) == 0 {
			return nil, fmt.Errorf("%w: no peer is known that could measure", overlay.ErrRefused)
		}
		for _, s := range r.probeAll(ctx, vantages, host) {
			if !record.Add(s) {
				continue
			}
			samples = append(samples, s)
			if least == 0 || s.RTT < least {
				least = s.RTT
			}
		}
		if len(samples) == 0 || len(vantages) == 0 || least <= overlay.NearEnough {
			break
		}
	}
	return samples, nil
}

// probeAll has some peers measure a host at the same time.
func (r *Runner) probeAll(ctx context.Context, vantages []overlay.PeerRecord, host string) []coords.Sample {
	out := make(chan coords.Sample, len(vantages))
	var wg sync.WaitGroup
	for _, p := range vantages {
		wg.Add(1)
		go func() {
			defer wg.Done()
			s, err := r.probe(ctx, p, host)
			if err != nil {
				r.log.Debug("host not measured", "host", host, "peer", p.ID, "err", err)
				return
			}
			out <- s
		}()
	}
	wg.Wait()
	close(out)
	var samples []coords.Sample
	for s := range out {
		samples = append(samples, s)
	}
	return samples
}

// sample measures the round trip to a member over a connection that exists: the second of two pings, since the first pays for the stream.
func (r *Runner) sample(ctx context.Context, id peer.ID, at coords.Coord) {
	if !r.cfg.Wire.Direct(id) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Overlay.Timeout)
	defer cancel()
	best := time.Duration(0)
	pongs := ping.Ping(ctx, r.cfg.Wire.Host(), id)
	for i := range pingCount {
		p, ok := <-pongs
		if !ok || p.Error != nil {
			return
		}
		if i > 0 && (best == 0 || p.RTT < best) {
			best = p.RTT
		}
	}
	cancel()
	for range pongs { // until it has seen the end
	}
	r.pings.Add(1)
	r.post(r.ctx, func(time.Time) { r.node.Sample(overlay.ID(id.String()), at, best) })
}

const pingCount = 3

// addrsEvery is how often the own addresses are looked at, which change with the router's.
const addrsEvery = 2 * time.Second

// verify checks a task for this network.
func (r *Runner) verify(now time.Time, s channel.Signed) (channel.Header, error) {
	h, err := r.cfg.Wire.Verifier().VerifyTask(now, s)
	if err != nil {
		r.count("task_" + member.Reason(err))
	}
	return h, err
}
