package peer

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"shoal/internal/wire"
)

// Standing is how far the company's server believes this peer, by what it delivered, and what is held against it.
type Standing struct {
	Standing  string    `json:"standing"` // newcomer, established, suspended, banned; unknown: it has had no task, or the server does not tell
	Suspect   bool      `json:"suspect"`
	Waits     bool      `json:"waits"`      // a newcomer that gets no tasks, since others of its address prefix have the places there
	Enforced  bool      `json:"enforced"`   // false: nothing follows from scores
	Score     float64   `json:"score"`      // the highest of three
	SuspendAt float64   `json:"suspend_at"` // score at which a peer is suspended
	Held      []Held    `json:"held"`       // the newest first
	More      int       `json:"more"`       // cases that are left out
	At        time.Time `json:"at"`         // when the server said so
	Credit    *Credit   `json:"credit"`     // of this peer's account; null: the server does not tell
}

// Held is one page of which this peer delivered, or said, something else than the server saw.
type Held struct {
	Case      string    `json:"case"`
	URL       string    `json:"url"`
	Reason    string    `json:"reason"`
	Ruled     time.Time `json:"ruled"`
	Amount    float64   `json:"amount"`              // added to the score
	Objection string    `json:"objection,omitempty"` // of the volunteer
}

const (
	standingFor  = time.Minute     // that an answer is told again
	standingWait = 5 * time.Second // for one, where a person waits for the whole status
)

// ErrStarting says that the peer has no connection yet.
var ErrStarting = errors.New("the peer is starting")

// ErrObject says that an objection was not taken.
var ErrObject = errors.New("the objection was not taken")

// ownStanding is what the server said last.
type ownStanding struct {
	mu   sync.Mutex // guards all below
	last *Standing
	at   time.Time // when it was asked last
}

// Standing is how far the server believes this peer; nil: it has not said so. It asks the server if the last answer is old, and the server answers
// its peers: a look at the status during an outage causes no connections.
func (a *Agent) Standing(ctx context.Context) *Standing {
	a.standing.mu.Lock()
	last, fresh := a.standing.last, time.Since(a.standing.at) < standingFor
	a.standing.mu.Unlock()
	if fresh || a.unheard() {
		return last
	}
	ctx, cancel := context.WithTimeout(ctx, standingWait)
	defer cancel()
	if s, err := a.askStanding(ctx, wire.StandingAsk{}); err == nil {
		return s.Standing
	}
	return last
}

// unheard tells whether no server is there to be asked. One that lets this peer in no more answers it still.
func (a *Agent) unheard() bool {
	a.mu.Lock()
	node := a.wire
	a.mu.Unlock()
	if node == nil {
		return true
	}
	h, _ := node.Home()
	return h.Away() && !h.Refused
}

// Object says something to a case against this peer, which the operator of the server then sees at the case. It can be done once for each case.
func (a *Agent) Object(ctx context.Context, number, text string) error {
	o, err := Objection(number, text)
	if err != nil {
		return err
	}
	said, err := a.askStanding(ctx, wire.StandingAsk{Objection: o})
	return said.refused(ErrObject, err)
}

// Objection reads what a volunteer says to a case.
func Objection(number, text string) (wire.Objection, error) {
	n, err := strconv.ParseUint(number, 16, 64)
	if err != nil || n == 0 {
		return wire.Objection{}, fmt.Errorf("%w: %q is no number of a case; shoal-peer status lists them", ErrObject, number)
	}
	if text = strings.TrimSpace(text); text == "" || len(text) > wire.MaxObjection {
		return wire.Objection{}, fmt.Errorf("%w: say what is wrong with the case in 1 to %d bytes; these are %d", ErrObject, wire.MaxObjection, len(text))
	}
	return wire.Objection{Case: n, Text: text}, nil
}

// told is what the server answered.
type told struct {
	*Standing
	why         string // what was asked for was not done; empty: it was, or nothing was
	certificate string
}

// refused is what of an answer is an error.
func (t told) refused(as, err error) error {
	if err == nil && t.why != "" {
		return fmt.Errorf("%w: %s", as, t.why)
	}
	return err
}

// askStanding asks the server.
func (a *Agent) askStanding(ctx context.Context, ask wire.StandingAsk) (told, error) {
	a.mu.Lock()
	node := a.wire
	a.mu.Unlock()
	if node == nil {
		return told{}, ErrStarting
	}
	said, err := node.Standing(ctx, ask)
	a.standing.mu.Lock()
	defer a.standing.mu.Unlock()
	a.standing.at = time.Now()
	if err != nil {
		return told{}, err
	}
	s := &Standing{Standing: said.Standing, Suspect: said.Suspect, Waits: said.Waits, Enforced: said.Enforced, Score: said.Score, SuspendAt: said.SuspendAt, Held: []Held{}, More: said.More, At: time.Now(), Credit: creditTold(said.Credit)}
	if s.Standing == "" {
		s.Standing = "unknown"
	}
	for _, h := range said.Held {
		s.Held = append(s.Held, Held{fmt.Sprintf("%016x", h.Case), h.URL, h.Reason, h.Ruled, h.Amount, h.Objection})
	}
	a.standing.last = s
	return told{s, said.Refused, said.Certificate}, nil
}
