package manager

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"shoal/manager/archive"
	"shoal/manager/trust"
)

// docket is an evidence room with one case, which a peer has lost.
type docket struct {
	Evidence
	lost     trust.Peer
	said     string
	pardoned trust.Peer
	looked   int // how often all cases were looked at
}

func (d *docket) Held(_ context.Context, of trust.Peer) (held []archive.EvidenceCase, more int, err error) {
	if d.looked++; of == d.lost && of != d.pardoned {
		held = append(held, archive.EvidenceCase{Number: 9, Loser: d.lost, Score: 19})
	}
	return held, 0, nil
}

func (d *docket) Pardon(_ context.Context, peer trust.Peer, _ time.Time) error {
	d.pardoned = peer
	return nil
}

func (d *docket) Object(_ context.Context, _ uint64, by trust.Peer, text string) error {
	if by == d.lost {
		d.said = text
	}
	return nil
}

// TestSuspendedByAnotherManager has a peer ask a manager that knows nothing of it, or believes it, while another one has suspended it: it is told so, sees the case
// and can object.
func TestSuspendedByAnotherManager(t *testing.T) {
	for _, known := range []bool{false, true} {
		au, a, _ := judging(t)
		au.tenancy = &tenancy{core: au.core}
		n := au.number("mallory")
		if known {
			au.trust.Join(n, trust.Account(n), trust.Prefix(n))
			au.trust.Vouch(n)
		}
		a.rows = []archive.Deliverer{{Number: uint64(n), Peer: "mallory"}}
		a.held = []archive.Suspension{{Deliverer: archive.DelivererName(uint64(n))}}
		room := &docket{lost: n}
		au.cfg.Evidence = room
		own, err := au.OwnTrust(t.Context(), "mallory")
		if err != nil || own.Standing != trust.Suspended || len(own.Held) != 1 || slices.Max(own.Scores[:]) != 19 {
			t.Errorf("known %v: %+v, %v", known, own, err)
		}
		if err := au.Object(t.Context(), "mallory", 9, "It was so."); err != nil || room.said == "" {
			t.Errorf("known %v: no objection: %v", known, err)
		}
		looked := room.looked
		if _, err := au.OwnTrust(t.Context(), "nobody"); !errors.Is(err, ErrAsk) || room.looked != looked {
			t.Errorf("of one that had no task: %v; all cases were looked at %d times", err, room.looked-looked)
		}
	}
}
