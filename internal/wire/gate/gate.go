// Package gate stands between the network and a libp2p host: the host sees a connection, and a stream passes, only once both sides have
// shown that they are members.
//
// It is not for deciding who is a member: its owner shows and checks certificates, and admits.
//
// Invariants: no protocol but the gate's own is served or spoken on a connection that is not a member's; a connection that has not become
// a member's closes after Config.Timeout; the host hears of a connection's end only if it has heard of its beginning.
package gate

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/net/swarm"

	"shoal/internal/member"
)

// Member is who is at the other end.
type Member struct {
	Peer     peer.ID
	Account  string // what it is held to: an invite's, or its own key's
	Label    string // a name that its user chose
	Role     member.Role
	NotAfter time.Time // of its certificate
	Prefix   string    // the network of the address that it is connected from; empty: none that is public
}

// Config is what a gate needs of its owner. All fields are required.
type Config struct {
	Crowd     *Crowd                             // of the connections that are not members' yet
	Timeout   time.Duration                      // after which a connection that is not a member's closes
	Now       func() time.Time                   // the network's time, by which memberships end
	Greet     func(c network.Conn, ended func()) // begins to show our certificate, and calls ended when it has been answered, or not; it does not wait for that
	Answer    func(network.Stream)               // negotiates and serves the gate's protocol, nothing else
	Ready     func() bool                        // whether there is a certificate to show
	MayDial   func(peer.ID) bool                 // whether the host dials a peer that is not connected; else the gate's owner does, with Dial
	Rejected  func(why string)                   // counts a refusal
	Left      func(Member)                       // a member's connection has ended
	NotMember error                              // tells a caller that the other side is no member, where Reject has not said more
	Gone      error                              // tells a caller that the connection ended before it could be used, and nothing said why
	NotJoined error                              // tells a caller that this side is none
	NotDialed error                              // tells a caller that MayDial says no
}

// Gate is the network as the host sees it. It is safe for concurrent use.
type Gate struct {
	*swarm.Swarm
	cfg Config

	mu      sync.Mutex // guards all below, and the links
	links   map[network.Conn]*link
	watch   []network.Notifiee
	held    map[peer.ID]int        // peers to which join or renew talk by themselves
	dialed  map[peer.ID]int        // peers that the owner dials
	waiting map[peer.ID]int        // peers that are awaited through a punched hole, and greet first
	asking  map[peer.ID]int        // peers to which connections and streams are opened now
	ended   map[network.Conn]*link // connections to those that have ended since: who opens one is told why
	handler network.StreamHandler
}

// maxParked bounds the streams of a connection that wait for its membership.
const maxParked = 8

// link is one connection on its way to membership.
type link struct {
	decided  chan struct{} // closed when it is a member's, or gone
	timer    *time.Timer
	member   *Member       // nil: not yet
	barred   bool          // it was a member's, and is not any more; the connection closes
	why      error         // it did not become a member's; nil: that is not known
	heard    chan struct{} // closed when our greeting has ended, and why is known if it ever will be; nil: we do not greet
	sealed   []byte        // its certificate
	gone     bool
	greeting bool // an inbound /shoal/member/1 runs
	greeted  bool // the other side greets first: it dialled, or both did and it is its turn
	parked   int
	order    sync.Mutex // Connected is told before Disconnected
	told     bool       // guarded by order
}

// Streams and connections that end badly end all the same: their errors tell nothing.

func reset(s network.Stream) { _ = s.Reset() }

// Refuse resets a stream of a connection that is not a member's.
func Refuse(s network.Stream) { _ = s.ResetWithError(network.StreamGated) }

// Expel closes a connection that is not, or no longer, a member's.
func Expel(c network.Conn) { _ = c.CloseWithError(network.ConnGated) }

// New puts a gate before a swarm.
func New(s *swarm.Swarm, cfg Config) *Gate {
	g := &Gate{Swarm: s, cfg: cfg, links: map[network.Conn]*link{}, held: map[peer.ID]int{}, dialed: map[peer.ID]int{}, waiting: map[peer.ID]int{},
		asking: map[peer.ID]int{}, ended: map[network.Conn]*link{}}
	s.SetStreamHandler(g.stream)
	s.Notify((*events)(g))
	return g
}

// SetStreamHandler takes the host's handler, for streams that pass.
func (g *Gate) SetStreamHandler(h network.StreamHandler) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.handler = h
}

// Notify tells f of connections once they are members'.
func (g *Gate) Notify(f network.Notifiee) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.watch = append(g.watch, f)
}

// StopNotify ends that.
func (g *Gate) StopNotify(f network.Notifiee) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, w := range g.watch {
		if w == f {
			g.watch = append(g.watch[:i:i], g.watch[i+1:]...)
			return
		}
	}
}

func (g *Gate) watchers() []network.Notifiee {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.watch
}

// DialPeer connects to a member.
func (g *Gate) DialPeer(ctx context.Context, p peer.ID) (network.Conn, error) {
	if !g.cfg.Ready() {
		return nil, g.cfg.NotJoined
	}
	if both, first, _ := network.GetSimultaneousConnect(ctx); both && !first {
		defer g.countIn(g.waiting, p)()
	}
	defer g.ask(p)()
	c, err := g.Swarm.DialPeer(ctx, p)
	if errors.Is(err, swarm.ErrGaterDisallowedConnection) && !g.MayDial(p) {
		err = g.cfg.NotDialed
	}
	if err != nil {
		return nil, err
	}
	if err := g.Await(ctx, c); err != nil {
		return nil, err
	}
	return c, nil
}

// Dial connects for the gate's owner, who decides when. The other side need not be a member yet.
func (g *Gate) Dial(ctx context.Context, p peer.ID) (network.Conn, error) {
	defer g.countIn(g.dialed, p)()
	return g.Swarm.DialPeer(ctx, p)
}

// MayDial reports whether the swarm may dial a peer. While the owner dials it, others wait for the same end.
func (g *Gate) MayDial(p peer.ID) bool {
	g.mu.Lock()
	owner := g.dialed[p] > 0
	g.mu.Unlock()
	return owner || g.cfg.MayDial(p)
}

// NewStream opens a stream to a member. If the connection ends at that moment, as one of two that both sides dialled at once may, it tries another one.
func (g *Gate) NewStream(ctx context.Context, p peer.ID) (network.Stream, error) {
	s, err := g.newStream(ctx, p)
	if errors.Is(err, g.cfg.Gone) && ctx.Err() == nil {
		return g.newStream(ctx, p)
	}
	return s, err
}

func (g *Gate) newStream(ctx context.Context, p peer.ID) (network.Stream, error) {
	if noDial, _ := network.GetNoDial(ctx); !noDial {
		if _, err := g.DialPeer(ctx, p); err != nil {
			return nil, err
		}
	}
	defer g.ask(p)()
	s, err := g.Swarm.NewStream(ctx, p)
	if err != nil {
		return nil, err
	}
	if err := g.Await(ctx, s.Conn()); err != nil {
		reset(s)
		return nil, err
	}
	return s, nil
}

// link is that of a connection. The caller holds mu.
func (g *Gate) link(c network.Conn) *link {
	l := g.links[c]
	if l == nil {
		l = &link{decided: make(chan struct{})}
		g.links[c] = l
	}
	return l
}

// Await waits until a connection is a member's.
func (g *Gate) Await(ctx context.Context, c network.Conn) error {
	g.mu.Lock()
	l := g.links[c]
	if l == nil {
		l = g.ended[c]
	}
	if l == nil && !c.IsClosed() { // the swarm has it, and has not told of it yet
		l = g.link(c)
	}
	g.mu.Unlock()
	if l == nil {
		return g.cfg.Gone
	}
	select {
	case <-l.decided:
	case <-ctx.Done():
		return ctx.Err()
	}
	if g.MemberOf(c) != nil {
		return nil
	}
	if l.heard != nil { // the connection may have ended before its last word was read
		select {
		case <-l.heard:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case l.why != nil:
		return l.why
	case l.gone && !l.barred:
		return g.cfg.Gone
	}
	return g.cfg.NotMember
}

// MemberOf returns the member that a connection belongs to, or nil if it has none or has no longer.
func (g *Gate) MemberOf(c network.Conn) *Member {
	g.mu.Lock()
	defer g.mu.Unlock()
	l := g.links[c]
	if l == nil || l.gone || l.barred || l.member == nil || g.cfg.Now().After(l.member.NotAfter.Add(member.Skew)) {
		return nil
	}
	return l.member
}

// stream passes a stream of a member, answers the gate's own, and lets others wait.
func (g *Gate) stream(s network.Stream) {
	c := s.Conn()
	g.mu.Lock()
	l, h := g.links[c], g.handler
	switch {
	case l == nil || l.gone || h == nil:
		g.mu.Unlock()
		Refuse(s)
	case l.member != nil:
		g.mu.Unlock()
		if g.MemberOf(c) == nil {
			g.cfg.Rejected("expired")
			Expel(c)
			return
		}
		h(s)
	case l.greeted && !l.greeting:
		l.greeting = true
		g.mu.Unlock()
		g.cfg.Answer(s)
		g.mu.Lock()
		l.greeting = false
		g.mu.Unlock()
	case l.parked < maxParked:
		l.parked++
		g.mu.Unlock()
		<-l.decided // at the latest when the timer closes the connection
		if g.MemberOf(c) != nil {
			h(s)
			return
		}
		g.cfg.Rejected("no_membership")
		Refuse(s)
	default:
		g.mu.Unlock()
		g.cfg.Rejected("streams_before_membership")
		Refuse(s)
	}
}

// Admit makes a connection a member's, or brings its membership up to date.
func (g *Gate) Admit(c network.Conn, m Member, sealed []byte) error {
	g.mu.Lock()
	l := g.links[c]
	if l == nil || l.gone || l.barred {
		g.mu.Unlock()
		return g.cfg.NotMember
	}
	first := l.member == nil
	l.member, l.sealed = &m, sealed
	g.mu.Unlock()
	if !first {
		return nil
	}
	l.timer.Stop()
	g.cfg.Crowd.gone(c)
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

func (g *Gate) isGone(l *link) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return l.gone
}

// Members are the connections that are members', with their certificates.
func (g *Gate) Members() map[network.Conn][]byte {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := map[network.Conn][]byte{}
	for c, l := range g.links {
		if l.member != nil && !l.gone && !l.barred {
			out[c] = l.sealed
		}
	}
	return out
}

// Bar ends a membership at once: no stream passes from now on, and the connection closes.
func (g *Gate) Bar(c network.Conn) {
	g.mu.Lock()
	if l := g.links[c]; l != nil {
		l.barred = true
	}
	g.mu.Unlock()
	Expel(c)
}

// Reject closes a connection that has not become a member's. Those who wait for that are told why.
func (g *Gate) Reject(c network.Conn, why error) {
	g.mu.Lock()
	l := g.links[c]
	if l == nil {
		l = g.ended[c]
	}
	if l != nil && l.member == nil {
		l.why = why
	}
	g.mu.Unlock()
	Expel(c)
}

// Count tells how many connections are members', and how many are not yet.
func (g *Gate) Count() (members, waiting int) {
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

// Hold keeps new connections to p from greeting by themselves, until release.
func (g *Gate) Hold(p peer.ID) (release func()) { return g.countIn(g.held, p) }

// ask keeps what is known of connections to a peer that end before release.
func (g *Gate) ask(p peer.ID) (release func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asking[p]++
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.asking[p]--; g.asking[p] > 0 {
			return
		}
		delete(g.asking, p)
		for c := range g.ended {
			if c.RemotePeer() == p {
				delete(g.ended, c)
			}
		}
	}
}

// countIn counts a peer in, until release.
func (g *Gate) countIn(in map[peer.ID]int, p peer.ID) (release func()) {
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
