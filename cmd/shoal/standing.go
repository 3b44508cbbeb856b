package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"shoal/internal/wire"
	"shoal/manager"
	"shoal/manager/archive"
	"shoal/manager/archive/evidence"
)

// court tells peers how far the manager believes them, and takes their objections. A look goes through all cases of the evidence room, so one peer's
// answer is kept for a moment, and one is looked up at a time.
type court struct {
	manager func() *manager.Manager // nil: not open yet
	credits *credits

	mu   sync.Mutex // guards all below
	told map[peer.ID]toldStanding
}

type toldStanding struct {
	wire.Standing
	at time.Time
}

const (
	standingFor  = 10 * time.Second // that an answer is told again
	maxToldPeers = 4096
)

var errNotOpen = errors.New("the manager is starting")

// answer implements wire.Court.
func (c *court) answer(ctx context.Context, from peer.ID, ask wire.StandingAsk) (wire.Standing, error) {
	m := c.manager()
	if m == nil {
		return wire.Standing{}, errNotOpen
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	refused, certificate, asks := "", "", false
	if o := ask.Objection; o.Case != 0 {
		asks = true
		if err := m.Object(ctx, from.String(), o.Case, o.Text); err != nil {
			refused = objectionRefused(o.Case, err)
		}
	}
	if ask.Profile != nil && refused == "" {
		asks = true
		refused = c.credits.rename(ctx, from.String(), *ask.Profile)
	}
	if ask.Certify && refused == "" {
		certificate, refused = c.credits.certificate(ctx, from.String(), ask.Name)
	}
	if asks {
		delete(c.told, from)
	}
	s, err := c.look(ctx, m, from)
	s.Refused, s.Certificate = refused, certificate
	return s, err
}

// look tells a peer's standing and its account's credit.
func (c *court) look(ctx context.Context, m *manager.Manager, from peer.ID) (s wire.Standing, err error) {
	if t, ok := c.told[from]; ok && time.Since(t.at) < standingFor {
		return t.Standing, nil
	}
	own, err := m.OwnTrust(ctx, from.String())
	if err != nil && !errors.Is(err, manager.ErrAsk) {
		return s, err
	}
	if err == nil {
		s = wire.Standing{Standing: own.Standing.String(), Suspect: own.Suspect, Waits: own.Waits, Enforced: own.Enforced, Score: slices.Max(own.Scores[:]), SuspendAt: own.SuspendAt, More: own.More + max(len(own.Held)-wire.MaxHeld, 0)}
		for i := range own.Held[:min(len(own.Held), wire.MaxHeld)] {
			k := &own.Held[i]
			s.Held = append(s.Held, wire.Held{Case: k.Number, URL: k.URL, Reason: heldFor(k), Ruled: k.Opened, Amount: k.Amount, Objection: k.Objection})
		}
	}
	if s.Credit, err = c.credits.of(ctx, from.String()); err != nil {
		return s, err
	}
	if len(c.told) >= maxToldPeers || c.told == nil {
		c.told = map[peer.ID]toldStanding{}
	}
	c.told[from] = toldStanding{s, time.Now()}
	return s, nil
}

// heldFor says why a case is held against a peer.
func heldFor(k *archive.EvidenceCase) string {
	if r := k.About.Reason; k.Note == r.String() && r.Means() != "" {
		return k.Note + ": " + r.Means()
	}
	return k.Note
}

// objectionRefused says why an objection was not taken.
func objectionRefused(number uint64, err error) string {
	switch {
	case errors.Is(err, evidence.ErrNoCase):
		return fmt.Sprintf("there is no case %016x", number)
	case errors.Is(err, evidence.ErrObject):
		_, why, _ := strings.Cut(err.Error(), evidence.ErrObject.Error()+": ")
		return fmt.Sprintf("case %016x: %s", number, why)
	}
	return "it could not be kept; try again later"
}
