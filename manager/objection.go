package manager

import (
	"context"
	"fmt"
	"slices"
	"time"

	"shoal/manager/archive"
	"shoal/manager/trust"
)

// OwnTrust is what a peer is told of itself.
type OwnTrust struct {
	trust.Info
	Enforced  bool
	SuspendAt float64
	Held      []archive.EvidenceCase // that are held against it, those opened last first, without what was fetched
	More      int                    // that are not among them
}

// OwnTrust tells what a peer may know of itself: how far it is believed, and what is held against it. ErrAsk: it has had no task. Of several managers it may be another
// one that has suspended it: the archive and the evidence room, which all share, know that.
func (au *auditor) OwnTrust(ctx context.Context, peer string) (own OwnTrust, err error) {
	n, known := au.number(peer), false
	err = au.onLoop(ctx, func(time.Time) {
		own.Info, known = au.trust.Peer(n)
		c := au.trust.Config()
		own.Enforced, own.SuspendAt = c.Enforce, c.T
	})
	if err != nil {
		return own, err
	}
	if !known { // who never claimed a task has no case: strangers may ask, and all cases are looked at for an answer
		rows, err := au.cfg.Archive.Deliverers(ctx, archive.DelivererName(uint64(n)))
		if err != nil {
			return own, err
		}
		if !slices.ContainsFunc(rows, func(d archive.Deliverer) bool { return d.Peer != "" }) {
			return own, fmt.Errorf("%w: no peer %q has had a task", ErrAsk, peer)
		}
	}
	if own.Held, own.More, err = au.cfg.Evidence.Held(ctx, n); err != nil {
		return own, err
	}
	elsewhere := false
	if au.tenancy != nil && own.Standing < trust.Suspended {
		elsewhere, err = au.suspendedElsewhere(ctx, n)
	}
	switch {
	case err != nil:
		return own, err
	case elsewhere:
		own.Standing, own.Suspect = trust.Suspended, false
	case !known && len(own.Held) == 0:
		return own, fmt.Errorf("%w: no peer %q has had a task", ErrAsk, peer)
	}
	if len(own.Held) > 0 && (elsewhere || !known) {
		own.Scores[trust.Forging] = max(own.Scores[trust.Forging], own.Held[0].Score) // as far as it is known here
	}
	return own, nil
}

// suspendedElsewhere tells whether another manager has suspended a peer that this one has not.
func (c *core) suspendedElsewhere(ctx context.Context, n trust.Peer) (bool, error) {
	all, err := c.cfg.Archive.Suspensions(ctx)
	return slices.ContainsFunc(all, func(s archive.Suspension) bool { return !s.Pardon && trust.Peer(archive.DelivererOf(s.Deliverer)) == n }), err
}

// Objectors counts the objections of each peer that lost a case.
func (au *auditor) Objectors(ctx context.Context) (map[trust.Peer]int, error) {
	return au.cfg.Evidence.Objectors(ctx)
}

// Object notes what a peer says to a case that it has lost, once for each case. The operator sees it at the case.
func (au *auditor) Object(ctx context.Context, peer string, number uint64, text string) error {
	if err := au.cfg.Evidence.Object(ctx, number, au.number(peer), text); err != nil {
		return err
	}
	au.log.Info("a peer objects to a case", "peer", peer, "case", number)
	return nil
}
