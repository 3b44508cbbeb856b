package wire

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/libp2p/go-libp2p/core/peer"

	"shoal/internal/member"
)

const (
	renewGap    = 30 * time.Second // between renewals that others' words cause
	retryFirst  = 5 * time.Second
	retryLast   = 10 * time.Minute
	notJoinedIn = time.Minute // how often Run looks whether the node has joined
	homeCheck   = 30 * time.Second
	homeFirst   = 2 * time.Second // between tries, doubling up to homeLast
	homeLast    = 2 * time.Minute
)

// Run keeps the node a member until ctx ends: it renews the certificate at two thirds of its life, or soon when others call it
// outdated, and a peer keeps a connection to its home, over which what needs it is reached behind whatever router.
func (n *Node) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(n.ctx, cancel)()
	var home sync.WaitGroup
	defer home.Wait()
	if n.cfg.Role == member.Peer {
		home.Go(func() { n.keepHome(ctx) })
	}
	n.keepRenewed(ctx)
	return nil
}

// Woken makes connections and membership anew after a time in which the computer slept: the other ends of its connections may have gone,
// and timers stood still. It returns when all are closed.
func (n *Node) Woken() {
	var wg sync.WaitGroup
	for _, c := range n.gate.Conns() {
		wg.Go(func() { c.Close() })
	}
	wg.Wait()
	n.renewSoon()
}

func (n *Node) keepRenewed(ctx context.Context) {
	var retry time.Duration // 0: the last renewal went well
	var last time.Time
	for {
		wait := n.untilRenewal()
		if retry > 0 {
			wait = retry/2 + rand.N(retry)
		}
		timer := time.NewTimer(wait)
		asked := false
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-n.renew:
			asked = true
		}
		timer.Stop()
		if ctx.Err() != nil {
			return
		}
		if !n.Joined() && n.issuer.Load() == nil || asked && n.valid() && time.Since(last) < renewGap {
			continue
		}
		err := n.renewOrJoin(ctx)
		switch {
		case err == nil:
			retry, last = 0, time.Now()
			n.log.Info("membership renewed", "until", n.notAfter())
		case ctx.Err() != nil:
			return
		default:
			retry = min(max(2*retry, retryFirst), retryLast)
			n.log.Warn("membership not renewed", "err", err, "valid_until", n.notAfter(), "again_in", retry)
		}
	}
}

// renewOrJoin joins anew where renewing cannot help: after the grace, or when the key that certified us is not trusted any more.
func (n *Node) renewOrJoin(ctx context.Context) error {
	err := n.Renew(ctx)
	k := n.Kept()
	if err == nil || k.Join == "" || !errors.Is(err, Outdated) {
		return err
	}
	j, jerr := member.ParseJoinString(k.Join)
	if jerr != nil {
		return errors.Join(err, jerr)
	}
	return n.Join(ctx, j, k.Account)
}

// keepHome holds a connection to one of the network's archives, or managers where there is none. Each peer has its own order of them,
// so that they share the peers out.
func (n *Node) keepHome(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var retry time.Duration
	for {
		lost := n.lost
		if retry > 0 {
			lost = nil // known
		}
		select {
		case <-ctx.Done():
			return
		case <-lost:
			timer.Reset(rand.N(homeFirst / 2)) // not all at once: a server that restarts has lost everybody
			continue
		case <-timer.C:
		}
		err := n.goHome(ctx)
		if err == nil {
			retry = 0
			timer.Reset(homeCheck)
			continue
		}
		retry = min(max(2*retry, homeFirst), homeLast)
		wait := retry/2 + rand.N(retry/2)
		timer.Reset(wait)
		n.log.Debug("no connection to an archive", "err", err, "again_in", wait)
	}
}

func (n *Node) goHome(ctx context.Context) error {
	if !n.valid() {
		return nil // the renewal goes first
	}
	list := n.homes()
	for i, s := range list {
		if n.Direct(s.ID) {
			n.host.ConnManager().Protect(s.ID, "home")
			for _, other := range list[i+1:] {
				n.host.ConnManager().Unprotect(other.ID, "home")
			}
			if err := n.reserve(ctx, s.ID); err != nil {
				n.log.Debug("cannot be met", "err", err) // it is tried again at the next look
			}
			return nil
		}
	}
	err := errors.New("wire: the network names neither an archive nor a manager")
	for _, s := range list {
		n.gate.Backoff().Clear(s.ID)
		dial, cancel := context.WithTimeout(ctx, 2*n.cfg.Patience)
		_, err = n.gate.DialPeer(dial, s.ID)
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
	return err
}

// homes are the archives, or else the managers, in this node's own order (rendezvous hashing: Thaler, Ravishankar, "Using Name-Based
// Mappings to Increase Hit Rates", 1998).
func (n *Node) homes() servers {
	d, _ := n.verifier.Document()
	var l servers
	if l.addServers(d.Archives); len(l) == 0 {
		l.addServers(d.Managers)
	}
	score := func(s peer.AddrInfo) uint64 { return xxhash.Sum64String(string(n.id) + string(s.ID)) }
	slices.SortFunc(l, func(a, b peer.AddrInfo) int { return cmp.Compare(score(a), score(b)) })
	return l
}

// untilRenewal is how long the certificate is to live on, spread so that a network's members do not all come at once.
func (n *Node) untilRenewal() time.Duration {
	c, err := member.ReadCertificate(n.Certificate())
	if err != nil {
		return notJoinedIn
	}
	life := c.NotAfter.Sub(c.NotBefore)
	return max(0, c.NotBefore.Add(life*2/3+rand.N(life/12+1)).Sub(n.Now()))
}

// notAfter is the end of the certificate that the node holds; zero: none.
func (n *Node) notAfter() time.Time {
	c, _ := member.ReadCertificate(n.Certificate())
	return c.NotAfter
}
