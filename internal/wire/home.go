package wire

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/libp2p/go-libp2p/core/peer"
	quicgo "github.com/quic-go/quic-go"

	"shoal/internal/wire/homing"
	"shoal/internal/wire/sockets"
)

// Home tells of a peer's connection to one of the network's servers.
type Home struct {
	At    string    `json:"at,omitempty"`    // the server; empty: none is connected
	Since time.Time `json:"since,omitzero"`  // of being there, or of the loss
	Tries int       `json:"tries,omitempty"` // attempts that failed since the last loss
	Next  time.Time `json:"next,omitzero"`   // while none is connected: the next attempt
	Why   string    `json:"why,omitempty"`   // the last attempt failed
	// The last attempt met a server that answers and does not let this computer in.
	Refused bool `json:"refused,omitempty"`
	// And it says that this computer is banned, or suspended.
	Outcast bool `json:"outcast,omitempty"`
	// The server is connected and has not answered since then. Home leaves it out, since only asking tells: see Silent.
	Silent time.Time `json:"silent_since,omitzero"`
}

// Away reports whether a server was looked for, and none was found.
func (h Home) Away() bool { return h.At == "" && h.Tries > 0 }

// home keeps a peer's connection to one of the network's servers, over which what needs it is reached behind whatever router. Package
// homing decides when.
type home struct {
	*papers
	*conns
	carried  *traffic
	quiet    time.Duration // how long a server may say nothing before Silent asks
	times    homing.Times
	sockets  *sockets.Sockets
	watched  map[*quicgo.Conn]bool // owned by keep
	toWatch  chan peer.ID          // servers whose connections Watch names
	watching sync.WaitGroup
	reach    *reach
	log      *slog.Logger
	lost     chan struct{} // a server's connection is gone, or what depends on it has changed
	renewing *renewing
	runs     atomic.Bool // keep does

	mu      sync.Mutex // guards all below
	now     Home
	changed chan struct{} // closed when now.At changes; nil: there is no waiter
}

// atOnce is how many servers one attempt tries, each a moment after the one before.
const (
	atOnce      = 4
	nextAttempt = time.Second
)

// Home returns how it stands with the connection to a server, and a channel that is closed when one is found or lost.
func (h *home) Home() (Home, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.changed == nil {
		h.changed = make(chan struct{})
	}
	return h.now, h.changed
}

// seeks reports whether a server that is not connected is the way home's to dial, from the moment of its loss on. What else wants that server, as
// each task in flight and the DHT do, would add attempts of its own to an outage, and all peers' would storm a server that has just started.
func (h *home) seeks(id peer.ID) bool {
	if !h.runs.Load() {
		return false
	}
	h.mu.Lock()
	at := h.now.At
	h.mu.Unlock()
	return (at == "" || at == id.String()) && slices.ContainsFunc(h.homes(), func(s peer.AddrInfo) bool { return s.ID == id })
}

// keep holds a connection to one of the network's archives, or managers where there is none. Each peer has its own order of them, so that
// they share the peers out.
func (h *home) keep(ctx context.Context) {
	h.runs.Store(true)
	defer h.runs.Store(false)
	way := homing.New(time.Now(), h.times, rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())))
	timer := time.NewTimer(0)
	defer timer.Stop()
	defer h.watching.Wait()
	for {
		due := false
		select {
		case <-ctx.Done():
			return
		case id := <-h.toWatch:
			h.watch(ctx, id)
			continue
		case <-h.lost:
		case <-timer.C:
			due = true
		}
		at, err := h.look(ctx)
		if at == "" && due && !way.Home() {
			at, err = h.attempt(ctx, way.Tries())
		}
		if ctx.Err() != nil {
			return
		}
		now := time.Now()
		switch {
		case at != "":
			way.Done(now, homing.Arrived)
		case way.Home():
			way.Lost(now, len(h.homes())-1)
			h.log.Info("the connection to the network's server is lost", "again_in", way.Deadline().Sub(now))
		case due:
			way.Done(now, outcome(err))
			h.log.Debug("no connection to a server", "err", err, "again_in", way.Deadline().Sub(now))
		}
		h.tell(way, at, err)
		timer.Reset(max(way.Deadline().Sub(now), 0))
	}
}

// outcast tells whether a server's refusal is one of members that are banned. A connection that is no member's for another reason is none: as of a server that
// ended while it was greeted, or with a clock that is wrong.
func outcast(err error) bool {
	var s *Status
	return errors.As(err, &s) && s.Reason == errBanned.Reason
}

// tell publishes the state.
func (h *home) tell(way *homing.Way, at peer.ID, err error) {
	now := Home{Since: way.Since(), Tries: way.Tries()}
	if at != "" {
		now.At = at.String()
	} else {
		now.Next = way.Deadline()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	before := h.now
	if now.Why, now.Refused, now.Outcast = before.Why, before.Refused, before.Outcast; err != nil {
		now.Why, now.Refused = err.Error(), outcome(err) == homing.TurnedAway
		now.Outcast = now.Refused && outcast(err)
	}
	if at != "" || now.Tries == 0 {
		now.Why, now.Refused, now.Outcast = "", false, false
	}
	h.now = now
	if now.At == before.At {
		return
	}
	if now.At != "" {
		last := &heard{from: at}
		last.now()
		h.carried.server.Store(last)
		h.log.Info("connected to the network", "server", now.At)
	}
	if h.changed != nil {
		close(h.changed)
		h.changed = nil
	}
}

// outcome is what an attempt met.
func outcome(err error) homing.Outcome {
	if isStatus(err) {
		return homing.TurnedAway
	}
	return homing.Unanswered
}

// look returns the server that is connected, and looks after what depends on it.
func (h *home) look(ctx context.Context) (peer.ID, error) {
	list := h.homes()
	for i, s := range list {
		if !h.Direct(s.ID) {
			continue
		}
		h.host.ConnManager().Protect(s.ID, "home")
		for _, other := range list[i+1:] {
			h.host.ConnManager().Unprotect(other.ID, "home")
		}
		if len(list) > 1 { // there is another one to go to
			h.watch(ctx, s.ID)
		}
		if err := h.reach.reserve(ctx, s.ID); err != nil {
			h.log.Debug("cannot be met", "err", err) // it is tried again at the next look
		}
		h.renewing.overdue()
		return s.ID, nil
	}
	return "", nil
}

// Watch has it noticed soon when a server that is connected beside the one at home falls silent. It is called for each request to one, and does not wait.
func (h *home) Watch(id peer.ID) {
	select {
	case h.toWatch <- id:
	default: // enough wait already; the next request names it again
	}
}

// watch has it noticed soon when a server falls silent.
func (h *home) watch(ctx context.Context, id peer.ID) {
	for _, c := range h.gate.ConnsToPeer(id) {
		var q *quicgo.Conn
		if c.As(&q) {
			if !h.watched[q] {
				maps.DeleteFunc(h.watched, func(old *quicgo.Conn, _ bool) bool { return old.Context().Err() != nil })
				h.watched[q] = true
				h.watching.Go(func() { watchQUIC(ctx, q, quietEvery) })
			}
			continue
		}
		if err := h.sockets.Watch(c.LocalMultiaddr(), c.RemoteMultiaddr()); err != nil {
			h.log.Debug("a server that falls silent is noticed late", "server", id, "err", err)
		}
	}
}

// attempt tries to connect to one of the servers: the first few of the list, and the next few each time.
func (h *home) attempt(ctx context.Context, tries int) (peer.ID, error) {
	if !h.valid() {
		return "", h.renewing.now()
	}
	list := h.homes()
	if len(list) == 0 {
		return "", errors.New("wire: the network names neither an archive nor a manager")
	}
	if len(list) > atOnce {
		from := tries * atOnce % len(list)
		list = append(list[from:], list[:from]...)[:atOnce]
	}
	ctx, cancel := context.WithTimeout(ctx, h.times.Try)
	defer cancel()
	type end struct {
		at  peer.ID
		err error
	}
	ends := make(chan end, len(list))
	for i, s := range list {
		go func() {
			err := sleep(ctx, time.Duration(i)*nextAttempt)
			if err == nil {
				h.gate.Backoff().Clear(s.ID) // the way home paces itself
				err = h.dial(ctx, s.ID)
			}
			ends <- end{s.ID, err}
		}()
	}
	var at peer.ID
	var failed error
	for range list { // all of them: none outlives the attempt
		switch e := <-ends; {
		case e.err == nil && at == "":
			at = e.at
			cancel()
		case e.err != nil && (failed == nil || isStatus(e.err)):
			failed = fmt.Errorf("wire: %s: %w", e.at, e.err)
		}
	}
	if at != "" {
		return at, nil
	}
	return "", failed
}

// dial connects to a server, and waits until both are members to each other.
func (h *home) dial(ctx context.Context, id peer.ID) error {
	c, err := h.gate.Dial(ctx, id)
	if err != nil {
		return err
	}
	return h.gate.Await(ctx, c)
}

// sleep waits, unless ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// homes are the archives, or else the managers, in this node's own order (rendezvous hashing: Thaler, Ravishankar, "Using Name-Based
// Mappings to Increase Hit Rates", 1998).
func (h *home) homes() servers {
	d, _ := h.verifier.Document()
	var l servers
	if l.addServers(d.Archives); len(l) == 0 {
		l.addServers(d.Managers)
	}
	score := func(s peer.AddrInfo) uint64 { return xxhash.Sum64String(string(h.self) + string(s.ID)) }
	slices.SortFunc(l, func(a, b peer.AddrInfo) int { return cmp.Compare(score(a), score(b)) })
	return l
}
