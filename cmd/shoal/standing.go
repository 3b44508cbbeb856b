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
	"shoal/manager/archive/evidence"
)

// court tells peers how far the manager believes them, and takes their objections. A look goes through all cases of the evidence room, so one peer's
// answer is kept for a moment, and one is looked up at a time.
type court struct {
	manager func() *manager.Manager // nil: not open yet

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
func (c *court) answer(ctx context.Context, from peer.ID, o wire.Objection) (wire.Standing, error) {
	m := c.manager()
	if m == nil {
		return wire.Standing{}, errNotOpen
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	refused := ""
	if o.Case != 0 {
		delete(c.told, from)
		if err := m.Object(ctx, from.String(), o.Case, o.Text); err != nil {
			refused = objectionRefused(o.Case, err)
		}
	}
	if t, ok := c.told[from]; ok && time.Since(t.at) < standingFor {
		return t.Standing, nil
	}
	own, err := m.OwnTrust(ctx, from.String())
	if errors.Is(err, manager.ErrAsk) {
		return wire.Standing{Refused: refused}, nil
	}
	if err != nil {
		return wire.Standing{}, err
	}
	s := wire.Standing{Standing: own.Standing.String(), Suspect: own.Suspect, Enforced: own.Enforced, Score: slices.Max(own.Scores[:]), SuspendAt: own.SuspendAt, More: max(len(own.Held)-wire.MaxHeld, 0), Refused: refused}
	for i := range own.Held[:min(len(own.Held), wire.MaxHeld)] {
		k := &own.Held[i]
		s.Held = append(s.Held, wire.Held{Case: k.Number, URL: k.URL, Reason: k.Note, Ruled: k.Opened, Amount: k.Amount, Objection: k.Objection})
	}
	if len(c.told) >= maxToldPeers || c.told == nil {
		c.told = map[peer.ID]toldStanding{}
	}
	if refused == "" {
		c.told[from] = toldStanding{s, time.Now()}
	}
	return s, nil
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
