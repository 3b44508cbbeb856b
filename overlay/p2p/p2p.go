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
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
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

// Answer is what a peer has said to an offer.
type Answer uint8

// The answers.
const (
	NoAnswer Answer = iota // it may have taken the task
	Accepted
	Refused
)

// Said is an answer that came.
func Said(accepted bool) Answer {
	if accepted {
		return Accepted
	}
	return Refused
}

// Config of a Runner.
type Config struct {
	Wire *wire.Node
	// Places says that this member places tasks and takes none: a manager.
	Places bool
	// Queue takes tasks; nil with Places. It is called on the runner's loop.
	Queue overlay.Queue
	// Probe measures the round-trip time to a Web host for a manager; nil: this member cannot.
	Probe func(ctx context.Context, host string) (time.Duration, error)
	// Offered is told of each offer, before it leaves with NoAnswer, and again when it is answered; nil: nothing. Several goroutines call it.
	Offered func(to overlay.ID, task channel.Header, said Answer)
	// Dir keeps over a restart the addresses of members, and where own records are to be numbered on from; empty: nowhere.
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
	maxProbes  = 16  // hosts measured for others at a time

	// A member that places tasks has hosts surveyed too, each by some peers at a time.
	maxFlightsPlacing = overlay.MaxLookups + 8*overlay.MaxSurveys
)

// Runner runs one node.
type Runner struct {
	cfg    Config
	log    *slog.Logger
	id     overlay.ID
	inbox  chan job
	flight chan struct{} // a token for each request under way
	probes chan struct{}
	wg     sync.WaitGroup
	pings  atomic.Uint64
	rates  rates
	sent   atomic.Int64 // messages; an answer is one too
	givers givers
	seq    sequence

	// Owned by the loop.
	node    *overlay.Node
	sealer  *sealer
	waiting map[uint64]chan overlay.Event
	nextReq uint64
	greeted map[overlay.ID]time.Time
	near    nearer

	shown atomic.Pointer[shown]
}

// job is what the loop is handed. life ends with Run.
type job func(life context.Context, now time.Time)

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
	cfg.Overlay.Seq = readSeq(cfg.Dir)
	rng := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	v, err := coords.NewNode(coords.Default(), rng)
	if err != nil {
		return nil, err
	}
	node, err := overlay.New(cfg.Wire.Now(), cfg.Overlay, v, cfg.Queue, rng)
	if err != nil {
		return nil, err
	}
	flights := maxFlights
	if cfg.Places {
		flights = maxFlightsPlacing
	}
	r := &Runner{cfg: cfg, log: cfg.Log, id: id, inbox: make(chan job, maxInbox), flight: make(chan struct{}, flights),
		probes: make(chan struct{}, maxProbes), node: node, waiting: map[uint64]chan overlay.Event{},
		greeted: map[overlay.ID]time.Time{}, near: nearer{tried: map[peer.ID]tried{}}, seq: sequence{dir: cfg.Dir},
		sealer: &sealer{key: cfg.Wire.Host().Peerstore().PrivKey(cfg.Wire.ID()), network: cfg.Wire.Network(), certificate: cfg.Wire.Certificate,
			verifier: cfg.Wire.Verifier(), checked: map[overlay.ID]checked{}}}
	r.show(cfg.Wire.Now())
	r.rate()
	r.serve()
	ping.NewPingService(cfg.Wire.Host())
	return r, nil
}

// Run runs the node until ctx ends, and returns after all that it started has ended.
func (r *Runner) Run(ctx context.Context) error {
	defer r.wg.Wait()
	life, cancel := context.WithCancel(ctx)
	defer cancel()
	told := r.cfg.Wire.Now()
	r.node.SetAddrs(bare(r.cfg.Wire.Addrs()))
	r.meetKept(life)
	r.wg.Go(func() { r.bootstrap(life) })
	r.wg.Go(func() { r.comeHome(life) })

	timer := time.NewTimer(0)
	defer timer.Stop()
	shownAt := told
	for {
		select {
		case <-ctx.Done():
			r.keep()
			return nil
		case f := <-r.inbox:
			f(life, r.cfg.Wire.Now())
		case <-timer.C:
		}
		now := r.cfg.Wire.Now()
		if now.Sub(told).Abs() > addrsEvery {
			told = now
			r.node.SetAddrs(bare(r.cfg.Wire.Addrs()))
		}
		if !now.Before(r.node.Deadline()) {
			r.send(life, r.node.Tick(now))
		}
		for _, e := range r.node.Events() {
			if w, ok := r.waiting[e.Req]; ok {
				delete(r.waiting, e.Req)
				w <- e
			}
		}
		next := r.node.Deadline()
		if now.Sub(shownAt).Abs() >= showEvery {
			shownAt = now
			r.rate()
			r.show(now)
		} else if at := shownAt.Add(showEvery); at.Before(next) {
			next = at // something has happened since
		}
		timer.Reset(max(next.Sub(r.cfg.Wire.Now()), 0))
	}
}

// post hands f to the loop; false: the runner ends.
func (r *Runner) post(ctx context.Context, f job) bool {
	select {
	case r.inbox <- f:
		return true
	case <-ctx.Done():
		return false
	}
}

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
