package manager

import (
	"context"
	"errors"
	"time"

	"shoal/manager/archive"
	"shoal/manager/trust"
)

// OwnTrust is what a peer is told of itself.
type OwnTrust struct {
	trust.Info
	Enforced  bool
	SuspendAt float64
	Held      []archive.EvidenceCase // that it has lost, those opened last first, without what was fetched
}

// OwnTrust tells what a peer may know of itself: how far it is believed, and what is held against it. ErrAsk: it has had no task.
func (au *auditor) OwnTrust(ctx context.Context, peer string) (own OwnTrust, err error) {
	var failed error
	err = au.onLoop(ctx, func(time.Time) {
		var n trust.Peer
		if n, failed = au.find(peer); failed == nil {
			own.Info, _ = au.trust.Peer(n)
			c := au.trust.Config()
			own.Enforced, own.SuspendAt = c.Enforce, c.T
		}
	})
	if err = errors.Join(err, failed); err != nil {
		return own, err
	}
	cases, err := au.cfg.Evidence.List(ctx, own.Peer)
	for _, c := range cases {
		if c.Loser == own.Peer {
			own.Held = append(own.Held, c)
		}
	}
	return own, err
}

// Objectors counts the objections of each peer that lost a case.
func (au *auditor) Objectors(ctx context.Context) (map[trust.Peer]int, error) {
	return au.cfg.Evidence.Objectors(ctx)
}

// Object notes what a peer says to a case that it has lost, once for each case. The operator sees it at the case.
func (au *auditor) Object(ctx context.Context, peer string, number uint64, text string) error {
	var n trust.Peer
	var failed error
	err := au.onLoop(ctx, func(time.Time) { n, failed = au.find(peer) })
	if err = errors.Join(err, failed); err != nil {
		return err
	}
	if err := au.cfg.Evidence.Object(ctx, number, n, text); err != nil {
		return err
	}
	au.log.Info("a peer objects to a case", "peer", peer, "case", number)
	return nil
}
