// Package lease decides who may crawl a channel: generations, claims, leases and the fence that they make, so that a channel has at
// most one peer that sends requests to its host, a copy that is one unbroken chain of chunks, and reports that count exactly once.
//
// It is two state machines of one channel each, plain values to be kept in a slice, a map or a database: Issue is the manager's half,
// which hands a channel out; Fence is the archive's half, which says whose word counts. They meet only in Events, which travel from
// the archive to the manager through a durable feed, and in the generation that a task carries. Holder is the rule by which the peer
// in the middle knows that it may send requests. The package is pure, and is not for choosing what is crawled (recrawl), nor for
// storing or signing anything.
//
// The fence is (channel, generation). Invariants, each one a test:
//
//   - The archive alone is right. Whatever the manager forgets, repeats or believes, a channel's fence moves only on a claim, and no
//     claim is granted while an older generation's lease runs.
//   - What a reply says is durable: a Fence or Issue that came with Persist must be stored before the reply, or the offer, leaves.
//   - A lease is lengthened only by a chunk that became the head. A repeated message brings the rest of the term, never a new one. A lease
//     that has lapsed never runs again: the manager hands out other channels of the host from then on.
//   - A holder counts from when it sent the renewal and stops at two thirds of what was left, so it has stopped before the archive
//     lets another one in, however long the reply took and whatever slept in between.
//   - Generations only grow. A task is handed out at most Terms.Handouts times; then the channel is marked, with a reason.
//
// The idea of a fence that the storage itself checks is that of the sequencer in Burrows, "The Chubby lock service for loosely-coupled
// distributed systems" (OSDI 2006); of leases counted from the time of sending, Gray and Cheriton, "Leases" (SOSP 1989).
package lease

import (
	"errors"
	"fmt"
	"time"

	"shoal/channel"
)

// Terms are the times and counts of leases. Manager and archive of one network use the same; the Network document tells peers.
type Terms struct {
	// Term is how long a lease lasts without progress. A peer sends a chunk at least every third of it. Default 30 minutes.
	Term time.Duration
	// ClaimWait is how long the manager waits for a claim, or for a sign of life from the peer that queued the task, before it hands
	// the channel out anew. Zero, the default: until the task's latest start.
	ClaimWait time.Duration
	// Slack is added to the claim wait for the feed's own delay. Default 5 seconds; zero: none.
	Slack time.Duration
	// Backoff is the pause after the first handing-out that came to nothing; it doubles with each, up to MaxBackoff.
	// Defaults 1 minute and 1 hour; zero: no pause.
	Backoff, MaxBackoff time.Duration
	// Handouts is how often one task is handed out before its channel is marked. Default 8, at most 255; zero: the default.
	Handouts int
	// Parties is how many parties, of those that Event.By tells apart, must have had the task and brought nothing before its channel is marked. The
	// manager sets it by the number of its members (Parties). Zero, the default: 3, the least.
	Parties int
}

// DefaultHandouts is how often a task is handed out before its channel is marked.
const DefaultHandouts = 8

// Bounds of Terms.Parties. An Issue tells 32 parties apart at most, and some of them by chance not.
const (
	leastParties = 3
	mostParties  = 16
)

// Parties is how many of some members must fail before a channel is given up: more than a quarter. By chance a channel comes to hostile members
// several times in a row; a fifth of all members must not be enough to give it up.
func Parties(members int) int { return min(max(members/4+1, leastParties), mostParties) }

// Default gives the terms of a network that names none.
func Default() Terms {
	return Terms{Term: 30 * time.Minute, Slack: 5 * time.Second, Backoff: time.Minute, MaxBackoff: time.Hour, Handouts: DefaultHandouts}
}

// ErrTerms is wrapped by what Validate finds wrong.
var ErrTerms = errors.New("lease: bad terms")

const leastTerm = 3 * time.Millisecond // a third of a term is a time

// Validate says what is wrong with t.
func (t Terms) Validate() error {
	switch {
	case t.Term < leastTerm:
		return fmt.Errorf("%w: a term of %v: want %v at least", ErrTerms, t.Term, leastTerm)
	case t.ClaimWait < 0, t.Slack < 0, t.Backoff < 0, t.MaxBackoff < t.Backoff:
		return fmt.Errorf("%w: claim wait %v, slack %v, backoff %v..%v: negative or reversed", ErrTerms, t.ClaimWait, t.Slack, t.Backoff, t.MaxBackoff)
	case t.Handouts < 0, t.Handouts > 255:
		return fmt.Errorf("%w: %d handings-out, must be 0 to 255", ErrTerms, t.Handouts)
	case t.Parties < 0, t.Parties > mostParties:
		return fmt.Errorf("%w: %d parties, must be 0 to %d", ErrTerms, t.Parties, mostParties)
	}
	return nil
}

// handouts is the limit in force.
func (t Terms) handouts() int {
	if t.Handouts == 0 {
		return DefaultHandouts
	}
	return t.Handouts
}

// backoff is the pause after n handings-out that came to nothing.
func (t Terms) backoff(n uint8) time.Duration {
	d := t.Backoff
	for ; n > 1 && d < t.MaxBackoff; n-- {
		d *= 2
	}
	return min(d, t.MaxBackoff)
}

// Kind says what an Event tells.
type Kind uint8

// The kinds of events. The numbers are stored and sent: never reuse one.
const (
	Queued   Kind = iota + 1 // a peer that has not claimed yet says that it still means to, until Until
	Claimed                  // a generation was claimed: its lease runs, and every older one has ended
	Revived                  // a lapsed generation stored a chunk, and its lease ran again: only feeds of earlier versions have it
	Lapsed                   // the lease ended without progress
	Released                 // the holder gave it back; Progress tells whether it stored anything
	Reported                 // the crawl ended with a report
	Brought                  // a lapsed generation stored a chunk that brought something; its lease stays over. Earlier versions ignore it
)

var kindNames = [...]string{"none", "queued", "claimed", "revived", "lapsed", "released", "reported", "brought"}

func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Event is what the archive's feed tells the manager about one generation of a channel.
type Event struct {
	Seq      uint64 // position in the feed, growing; what is not above the last applied one changes nothing. Zero: not checked
	Kind     Kind
	Gen      channel.Gen
	Progress bool      // Released, Lapsed, Brought: chunks were stored under this generation
	Until    time.Time // Queued: it may be claimed until then. Released: a holder that has not heard of it may send requests until then; zero: none may
	By       uint64    `json:",omitempty"` // Lapsed, Released, Brought: a number of who held it, Fence.Peer unless the archive knows the account; zero: not known
}

// Status is how the archive answers.
type Status uint8

// The answers. The numbers are sent: never reuse one.
const (
	Granted   Status = iota + 1 // the claim holds; go on from Seq, Head
	Stored                      // durable; Seq, Head are the new head
	Fenced                      // another claim or generation holds the channel, up to Highest: drop it
	Behind                      // the chunk is not on the head, which is Seq, Head: go on from there, or discard
	Held                        // an older lease runs for Left more: try again then, or drop it
	Late                        // past the latest start: drop it
	Unclaimed                   // no such claim or no such task: claim first
	Ended                       // released, or already over
	Waiting                     // unclaimed, and kept for this peer for Left more
)

var statusNames = [...]string{"none", "GRANTED", "STORED", "FENCED", "BEHIND", "HELD", "LATE", "UNCLAIMED", "ENDED", "WAITING"}

func (s Status) String() string {
	if int(s) < len(statusNames) {
		return statusNames[s]
	}
	return fmt.Sprintf("status %d", uint8(s))
}

// Reply is an answer of the archive.
type Reply struct {
	Status  Status
	Highest channel.Gen   // Fenced, Held: the generation at the fence
	Seq     uint64        // the durable head
	Head    [32]byte      // its hash; zero: none
	Left    time.Duration // what is left of the lease, for Holder.Acked; zero: fetch nothing
	// Rested, of a claim that is granted, is how long ago another holder of the channel, or this one before a restart, may last have sent a request to
	// its host. Zero: a minute or more, or not known.
	Rested time.Duration
}

// nanos and moment turn a time into the eight bytes that a value of this package keeps of it, and back. Zero is no time.
func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func moment(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n)
}
