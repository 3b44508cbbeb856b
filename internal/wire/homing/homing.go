// Package homing decides when a peer tries to come back to a server that it has lost. Times and outcomes come in, decisions go out; the
// owner dials.
//
// All peers of a network lose a server in the same moment, and all want it back soon after it returns, however long it was away. A wait
// that doubles (package again) makes long outages cheap and the return late. Here the wait stays short while nothing answers, because an
// attempt that nothing answers costs both sides a packet or two; it doubles only while something answers and does not let the peer in.
//
// Invariants: with a server that lets peers in, a peer is back within Times.Back of the server's return; of n peers that lost it in one
// moment about n/Times.Soon try in a second (of n that k servers share and one of them lost, fewer at each of the others), and later about n divided by a wait and an attempt. The test simulates 1,000.
package homing

import (
	"math/rand/v2"
	"time"
)

// Times are the waits of a way home. All must be above zero.
type Times struct {
	Look  time.Duration // between two looks whether the connection is still there
	Soon  time.Duration // within which the first attempt begins after a loss; drawn at random, so that a server that restarts is not stormed
	Again time.Duration // longest wait after an attempt that nothing answered; the shortest is 3/5 of it
	Try   time.Duration // longest attempt; the owner ends it then
	Full  time.Duration // longest wait after an answer that let nobody in
}

// Default returns the times of a network.
func Default() Times {
	return Times{Look: 30 * time.Second, Soon: 10 * time.Second, Again: 18 * time.Second, Try: 6 * time.Second, Full: 5 * time.Minute}
}

// Back is the time within which a peer is home after its server has returned: an attempt that began too early, a wait, and an attempt
// that succeeds.
func (t Times) Back() time.Duration { return t.Try + t.Again + t.Try }

// Settle is the time after an arrival at which the owner looks again: by then the server has told under which address it sees the peer.
const Settle = 2 * time.Second

// Outcome is how an attempt ended.
type Outcome uint8

// The outcomes.
const (
	Arrived    Outcome = iota // the server is connected, and both are members to each other
	Unanswered                // nothing answered
	TurnedAway                // something answered, and did not let the peer in
)

// Way is the state of one peer's way home. It belongs to one goroutine.
type Way struct {
	times Times
	rng   *rand.Rand
	home  bool
	since time.Time     // of home, or of its opposite
	next  time.Time     // look or attempt
	tries int           // attempts that failed since the last loss
	step  time.Duration // of the last wait after TurnedAway; 0: none
}

// New returns the way of a peer that has just started. Its first attempt is due at once.
func New(now time.Time, times Times, rng *rand.Rand) *Way {
	return &Way{times: times, rng: rng, since: now, next: now}
}

// Home reports whether the peer is home.
func (w *Way) Home() bool { return w.home }

// Since is when the peer came home, or lost it.
func (w *Way) Since() time.Time { return w.since }

// Tries counts the attempts that failed since the last loss. An arrival leaves it as it is.
func (w *Way) Tries() int { return w.tries }

// Deadline is when the owner must look after the connection, or attempt to make it if the peer is not home.
func (w *Way) Deadline() time.Time { return w.next }

// Lost takes the loss of the connection, and how many other servers the network names. A second loss changes nothing. Servers share the peers, so one of
// several loses fewer at once, and the others share those: the first attempts need less time to spread.
func (w *Way) Lost(now time.Time, others int) {
	if !w.home {
		return
	}
	w.home, w.since, w.tries, w.step = false, now, 0, 0
	w.next = now.Add(w.draw(0, w.times.Soon/time.Duration(1+max(others, 0))))
}

// Done takes the outcome of a look or an attempt.
func (w *Way) Done(now time.Time, o Outcome) {
	switch {
	case o == Arrived && w.home:
		w.next = now.Add(w.times.Look)
	case o == Arrived:
		w.home, w.since, w.step = true, now, 0
		w.next = now.Add(min(Settle, w.times.Look))
	case w.home:
		w.Lost(now, 0)
	default:
		w.tries++
		w.next = now.Add(w.wait(o))
	}
}

// wait draws the wait after a failed attempt.
func (w *Way) wait(o Outcome) time.Duration {
	if o == Unanswered {
		w.step = 0
		return w.draw(w.times.Again*3/5, w.times.Again)
	}
	w.step = min(max(2*w.step, w.times.Again), w.times.Full)
	return w.draw(w.step/2, w.step)
}

// draw returns a time between two at random.
func (w *Way) draw(from, to time.Duration) time.Duration {
	return from + time.Duration(w.rng.Float64()*float64(to-from))
}
