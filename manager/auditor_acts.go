package manager

import (
	"context"
	"math/rand/v2"
	"time"

	"shoal/channel"
	"shoal/manager/archive"
	"shoal/manager/trust"
	"shoal/recrawl"
)

// mark holds or accepts a delivery. d is the delivery that the Machine was just told of, whose records are stored by whoever told.
func (au *auditor) mark(a *trust.Act, d delivered) {
	change := (*trust.Page).Accept
	if a.Kind == trust.Hold {
		change = (*trust.Page).Hold
	}
	by, at := a.Peer, a.At
	if d.Delivery != nil && d.Channel == a.Channel {
		for i := range d.records {
			change(&d.records[i].Page, by, at)
		}
	}
	au.clerk(a.Channel, "a delivery is not held or accepted", func(ctx context.Context) error {
		_, err := au.cfg.Archive.Review(ctx, a.Channel, func(g *trust.Page) bool { return change(g, by, at) })
		return err
	})
}

// told says in the log what became of a peer.
func (au *auditor) told(a *trust.Act) {
	if a.Kind == trust.WouldSuspend {
		au.counts.WouldSuspend++
	}
	au.log.Info("a peer's standing", "peer", au.nameOf(a.Peer), "number", archive.DelivererName(uint64(a.Peer)), "what", a.Kind.String(), "score", a.Score)
}

// lookBack has older pages of a new suspect audited.
func (au *auditor) lookBack(a *trust.Act) {
	by, n := a.Peer, a.N
	from := channel.ID(1)
	if most := au.table.Len(); most > 1 { // no peer must be able to foresee which
		from = max(au.table.ID(recrawl.Slot(rand.IntN(most))), 1)
	}
	au.clerk(0, "older pages of a suspect are not looked at", func(ctx context.Context) error {
		older, err := au.cfg.Archive.Older(ctx, by, from, n)
		if err != nil {
			return err
		}
		for _, o := range older {
			p, err := au.cfg.Archive.Record(ctx, o.Channel, o.Hash)
			if err != nil {
				continue // it has gone since
			}
			origin := channel.Origin(o.URL)
			c := trust.Case{Reason: trust.LostAudit, URL: o.Hash, Channel: o.Channel, Domain: domainOf(origin), Accused: by, At: o.At, Old: true}
			w := (&delivered{}).wanted(&p, c)
			au.post(ctx, func(now time.Time) { au.audit(now, origin, []wanted{w}, false) })
		}
		return nil
	})
}

// suspended stops a peer's tasks, and those of its account, which MayTake names no more: what it has claimed is handed out again.
func (au *auditor) suspended(now time.Time, a *trust.Act) {
	au.counts.Suspended++
	if err := au.keepPeer(a.Peer); err != nil {
		au.log.Error("a suspension is not kept", "err", err)
	}
	au.log.Warn("a peer is suspended for what it delivered", "peer", au.nameOf(a.Peer), "number", archive.DelivererName(uint64(a.Peer)), "score", a.Score)
	au.bar(now, a.Peer, true)
}

// bar ends the membership of a peer and of its account, or gives it back, beside the loop. The account stays barred while another peer of it is, here or, as one of
// others, at another manager.
func (au *auditor) bar(now time.Time, n trust.Peer, barred bool, others ...trust.Peer) {
	if au.cfg.Bar != nil {
		au.sentences.pass(now, sentence{Peer: n, Barred: barred, Others: others})
	}
}

// withdraw has the archive withdraw what a peer alone has seen, or give it back.
func (au *auditor) withdraw(now time.Time, n trust.Peer, barred bool) {
	au.sentences.pass(now, sentence{Peer: n, Pages: true, Barred: barred})
}
