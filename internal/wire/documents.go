package wire

import (
	"context"
	"time"

	"github.com/libp2p/go-libp2p/core/network"

	"shoal/internal/member"
	"shoal/internal/wire/gate"
)

// Learn takes a network document, as a manager does with its own. The members that are connected hear that there is one.
func (g *greeter) Learn(sealed []byte) error {
	changed, err := g.take(sealed)
	if err != nil || !changed {
		return err
	}
	g.bar() // whatever else fails
	if cert := g.Certificate(); cert != nil {
		if err := g.install(cert, func(*Kept) {}); err != nil {
			return err
		}
	}
	if g.valid() {
		g.greetAgain(nil)
	} else {
		g.renewSoon()
	}
	g.dropOutdated()
	return nil
}

// admit makes a connection a member's. One that a document has banned since its certificate was checked is not.
func (g *greeter) admit(c network.Conn, m Member, sealed []byte) error {
	if err := g.conns.admit(c, m, sealed); err != nil {
		return err
	}
	if m.Role != member.Peer {
		poke(g.reach.lost) // the way home has each connection to its server watched, also a further one that the server has dialled
	}
	if !g.banned(m) {
		return nil
	}
	g.gate.Bar(c)
	return errBanned
}

func (g *greeter) banned(m Member) bool {
	return m.Role == member.Peer && g.verifier.Banned(m.Peer.String(), m.Account)
}

// bar ends the memberships that the newest document bans.
func (g *greeter) bar() {
	for c := range g.gate.Members() {
		if m := g.gate.MemberOf(c); m != nil && g.banned(*m) {
			g.numbers.rejected("denied")
			g.gate.Bar(c)
		}
	}
}

// learn takes a document that another member passed on.
func (g *greeter) learn(sealed []byte) {
	if len(sealed) == 0 {
		return
	}
	if err := g.Learn(sealed); err != nil {
		g.numbers.rejectedErr(err)
		g.log.Warn("network document not taken", "err", err)
	}
}

// dropOutdated closes connections whose certificates a new document outdates, unless they show better ones in time.
func (g *greeter) dropOutdated() {
	g.life.spawn(func(ctx context.Context) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(g.expel):
		}
		for c, sealed := range g.gate.Members() {
			if _, err := g.verifier.VerifyCertificate(g.Now(), sealed); err != nil {
				g.numbers.rejectedErr(err)
				gate.Expel(c)
			}
		}
	})
}

// greetAgain shows a new certificate on all connections but one, and by that passes on the newest document. Servers hear of it first: what
// it bans is to end everywhere at once.
func (g *greeter) greetAgain(except network.Conn) {
	var conns, peers []network.Conn
	for c := range g.gate.Members() {
		if m := g.gate.MemberOf(c); c == except || m == nil {
			continue
		} else if m.Role != member.Peer {
			conns = append(conns, c)
		} else {
			peers = append(peers, c)
		}
	}
	conns = append(conns, peers...)
	const atOnce = 8
	for k := range min(atOnce, len(conns)) {
		g.life.spawn(func(ctx context.Context) {
			for i := k; i < len(conns) && ctx.Err() == nil; i += atOnce {
				g.greet(ctx, conns[i])
			}
		})
	}
}

func (g *greeter) renewSoon() { poke(g.renew) }

// poke wakes who waits for c, now or later.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
