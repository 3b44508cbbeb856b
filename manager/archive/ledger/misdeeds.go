package ledger

import (
	"errors"

	pb "shoal/manager/archive/archivepb"
	"shoal/manager/archive/intake"
	"shoal/manager/archive/schema"
	"shoal/manager/conduct"
)

// deed tells of something that a peer has sent, to who keeps book of the members' conduct.
func (l *Ledger) deed(peer string, d conduct.Deed, n int) {
	if l.cfg.OnDeed != nil && n > 0 && peer != "" {
		l.cfg.OnDeed(peer, l.accountOf(peer), d, n)
	}
}

// Contradicted tells that other accounts contradict what a deliverer has said of n pages.
func (l *Ledger) Contradicted(deliverer uint64, d conduct.Deed, n int) {
	if l.cfg.OnDeed == nil || deliverer == 0 {
		return
	}
	var m pb.Deliverer
	err := l.store.View(func(s Snapshot) error {
		_, err := Get(s, schema.Key(schema.Deliverer, deliverer), &m)
		return err
	})
	if err != nil {
		l.cfg.Log.Debug("who delivered cannot be read", "deliverer", DelivererName(deliverer), "err", err)
		return
	}
	if m.Peer != "" {
		l.cfg.OnDeed(m.Peer, m.Account, d, n)
	}
}

// tellFindings tells what was found in a chunk that no honest peer sends.
func (l *Ledger) tellFindings(peer string, found *intake.Findings) {
	l.deed(peer, conduct.Foreign, found.Foreign)
	l.deed(peer, conduct.Spelling, found.Spelling)
	l.deed(peer, conduct.Digests, found.Digests)
	l.deed(peer, conduct.Statuses, found.Statuses)
	l.deed(peer, conduct.Numbers, found.Numbers)
}

// tellRefused tells why a chunk was refused.
func (l *Ledger) tellRefused(peer string, why error) {
	for _, k := range []struct {
		err  error
		deed conduct.Deed
	}{{intake.ErrBudget, conduct.Budget}, {intake.ErrPace, conduct.Pace}, {ErrBadChunk, conduct.Unreadable}} {
		if errors.Is(why, k.err) {
			l.deed(peer, k.deed, 1)
			return
		}
	}
}
