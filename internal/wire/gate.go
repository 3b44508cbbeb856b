package wire

import (
	"context"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/net/swarm"
	ma "github.com/multiformats/go-multiaddr"

	"shoal/internal/member"
)

// Member is who is at the other end.
type Member struct {
	Peer     peer.ID
	Account  string
	Role     member.Role
	NotAfter time.Time // of its certificate
}

var errNotMember = &Status{Code: NotMember, Reason: "not_member", Text: "wire: the connection is not a member's"}

// gate is the network as the host sees it: connections appear in it, and their streams pass, once both sides are members.
type gate struct {
	*swarm.Swarm
	timeout  time.Duration
	now      func() time.Time
	greet    func(network.Conn)   // shows our certificate; runs on its own goroutine
	answer   func(network.Stream) // negotiates and serves /shoal/member/1, nothing else
	ready    func() bool          // whether there is a certificate to show
	rejected func(why string)
	left     func(Member)

	mu      sync.Mutex // guards all below, and the links
	links   map[network.Conn]*link
	watch   []network.Notifiee
	held    map[peer.ID]int // peers to which join or renew talk by themselves
	waiting map[peer.ID]int // peers that are awaited through a punched hole, and greet first
	handler network.StreamHandler
	closed  bool
	wg      sync.WaitGroup // greetings
}

// link is one connection on its way to membership.
type link struct {
	decided  chan struct{} // closed when it is a member's, or gone
	timer    *time.Timer
	member   *Member // nil: not yet
	sealed   []byte  // its certificate
	gone     bool
	greeting bool // an inbound /shoal/member/1 runs
	greeted  bool // the other side greets first: it dialled, or both did and it is its turn
	parked   int
	order    sync.Mutex // Connected is told before Disconnected
	told     bool       // guarded by order
}

// Streams and connections that end badly end all the same: their errors tell nothing.

func reset(s network.Stream) { _ = s.Reset() }

func refuseStream(s network.Stream) { _ = s.ResetWithError(network.StreamGated) }

func expel(c network.Conn) { _ = c.CloseWithError(network.ConnGated) }

func newGate(s *swarm.Swarm, timeout time.Duration) *gate {
	g := &gate{Swarm: s, timeout: timeout, links: map[network.Conn]*link{}, held: map[peer.ID]int{}, waiting: map[peer.ID]int{}}
	s.SetStreamHandler(g.stream)
	s.Notify((*gateEvents)(g))
	return g
}

// SetStreamHandler takes the host's handler, for streams that pass.
func (g *gate) SetStreamHandler(h network.StreamHandler) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.handler = h
}

// Notify tells f of connections once they are members'.
func (g *gate) Notify(f network.Notifiee) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.watch = append(g.watch, f)
}

// StopNotify ends that.
func (g *gate) StopNotify(f network.Notifiee) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, w := range g.watch {
		if w == f {
			g.watch = append(g.watch[:i:i], g.watch[i+1:]...)
			return
		}
	}
}

func (g *gate) watchers() []network.Notifiee {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.watch
}

// DialPeer connects to a member.
func (g *gate) DialPeer(ctx context.Context, p peer.ID) (network.Conn, error) {
	if !g.ready() {
		return nil, &Status{Code: NotMember, Text: "wire: not a member of the network yet; join it first"}
	}
	if both, first, _ := network.GetSimultaneousConnect(ctx); both && !first {
		defer g.countIn(g.waiting, p)()
	}
	c, err := g.Swarm.DialPeer(ctx, p)
	if err != nil {
		return nil, err
	}
	if err := g.await(ctx, c); err != nil {
		return nil, err
	}
	return c, nil
}

// NewStream opens a stream to a member.
func (g *gate) NewStream(ctx context.Context, p peer.ID) (network.Stream, error) {
	if noDial, _ := network.GetNoDial(ctx); !noDial {
		if _, err := g.DialPeer(ctx, p); err != nil {
			return nil, err
		}
	}
	s, err := g.Swarm.NewStream(ctx, p)
	if err != nil {
		return nil, err
	}
	if err := g.await(ctx, s.Conn()); err != nil {
		reset(s)
		return nil, err
	}
	return s, nil
}

// await waits until a connection is a member's.
func (g *gate) await(ctx context.Context, c network.Conn) error {
	g.mu.Lock()
	l := g.links[c]
	g.mu.Unlock()
	if l == nil {
		return errNotMember
	}
	select {
	case <-l.decided:
	case <-ctx.Done():
		return ctx.Err()
	}
	if g.memberOf(c) == nil {
		return errNotMember
	}
	return nil
}

// memberOf is who a connection belongs to; nil: nobody, or no longer.
func (g *gate) memberOf(c network.Conn) *Member {
	g.mu.Lock()
	defer g.mu.Unlock()
	l := g.links[c]
	if l == nil || l.gone || l.member == nil || g.now().After(l.member.NotAfter.Add(member.Skew)) {
		return nil
	}
	return l.member
}

// stream passes a stream of a member, answers the gate's own, and lets others wait.
func (g *gate) stream(s network.Stream) {
	c := s.Conn()
	g.mu.Lock()
	l, h := g.links[c], g.handler
	switch {
	case l == nil || l.gone || h == nil:
		g.mu.Unlock()
		refuseStream(s)
	case l.member != nil:
		g.mu.Unlock()
		if g.memberOf(c) == nil {
			g.rejected("expired")
			expel(c)
			return
		}
		h(s)
	case l.greeted && !l.greeting:
		l.greeting = true
		g.mu.Unlock()
		g.answer(s)
		g.mu.Lock()
		l.greeting = false
		g.mu.Unlock()
	case l.parked < maxParked:
		l.parked++
		g.mu.Unlock()
		<-l.decided // at the latest when the timer closes the connection
		if g.memberOf(c) != nil {
			h(s)
			return
		}
		g.rejected("no_membership")
		refuseStream(s)
	default:
		g.mu.Unlock()
		g.rejected("streams_before_membership")
		refuseStream(s)
	}
}

// admit makes a connection a member's, or brings its membership up to date.
func (g *gate) admit(c network.Conn, m Member, sealed []byte) error {
	g.mu.Lock()
	l := g.links[c]
	if l == nil || l.gone {
		g.mu.Unlock()
		return errNotMember
	}
	first := l.member == nil
	l.member, l.sealed = &m, sealed
	g.mu.Unlock()
	if !first {
		return nil
	}
	l.timer.Stop()
	l.order.Lock()
	if !g.isGone(l) {
		l.told = true
		for _, f := range g.watchers() {
			f.Connected(g, c)
		}
	}
	l.order.Unlock()
	g.mu.Lock()
	defer g.mu.Unlock()
	if !l.gone { // else it is closed already
		close(l.decided)
	}
	return nil
}

func (g *gate) isGone(l *link) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return l.gone
}

// members are the connections that are members', with their certificates.
func (g *gate) members() map[network.Conn][]byte {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := map[network.Conn][]byte{}
	for c, l := range g.links {
		if l.member != nil && !l.gone {
			out[c] = l.sealed
		}
	}
	return out
}

func (g *gate) count() (members, waiting int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, l := range g.links {
		if l.member != nil {
			members++
		} else {
			waiting++
		}
	}
	return members, waiting
}

// hold keeps new connections to p from greeting by themselves, until release.
func (g *gate) hold(p peer.ID) (release func()) { return g.countIn(g.held, p) }

// countIn counts a peer in, until release.
func (g *gate) countIn(in map[peer.ID]int, p peer.ID) (release func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	in[p]++
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if in[p]--; in[p] == 0 {
			delete(in, p)
		}
	}
}

// spawn runs f unless the gate is closing; stop waits for it.
func (g *gate) spawn(f func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		g.wg.Go(f)
	}
}

func (g *gate) stop() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
}

// gateEvents is the gate as the swarm notifies it.
type gateEvents gate

func (e *gateEvents) Listen(_ network.Network, a ma.Multiaddr) {
	for _, f := range (*gate)(e).watchers() {
		f.Listen((*gate)(e), a)
	}
}

func (e *gateEvents) ListenClose(_ network.Network, a ma.Multiaddr) {
	for _, f := range (*gate)(e).watchers() {
		f.ListenClose((*gate)(e), a)
	}
}

func (e *gateEvents) Connected(_ network.Network, c network.Conn) {
	g := (*gate)(e)
	l := &link{decided: make(chan struct{})}
	g.mu.Lock()
	l.timer = time.AfterFunc(g.timeout, func() {
		if g.memberOf(c) == nil {
			g.rejected("no_membership")
			expel(c)
		}
	})
	g.links[c] = l
	// Of a hole punched from both sides both ends are outbound.
	l.greeted = c.Stat().Direction == network.DirInbound || g.waiting[c.RemotePeer()] > 0 && !c.Stat().Limited
	greet := !l.greeted && g.held[c.RemotePeer()] == 0
	g.mu.Unlock()
	if greet && g.ready() {
		g.spawn(func() { g.greet(c) })
	}
}

func (e *gateEvents) Disconnected(_ network.Network, c network.Conn) {
	g := (*gate)(e)
	g.mu.Lock()
	l := g.links[c]
	if l == nil {
		g.mu.Unlock()
		return
	}
	delete(g.links, c)
	l.gone = true
	was := l.member
	l.timer.Stop()
	select {
	case <-l.decided:
	default:
		close(l.decided)
	}
	g.mu.Unlock()
	if was != nil {
		g.left(*was)
	}
	l.order.Lock()
	defer l.order.Unlock()
	if l.told {
		for _, f := range g.watchers() {
			f.Disconnected(g, c)
		}
	}
}
