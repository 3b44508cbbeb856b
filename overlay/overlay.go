// Package overlay implements the overlay of volunteers as a state machine. Its keys are network coordinates, its
// distance is the predicted round-trip time. A node keeps a table of rings around itself, gossips, answers lookups
// toward a coordinate, takes tasks that its queue accepts, and places tasks near a Web host.
//
// A Judge beside the node says which peer near a Web host has room. The node offers the task to that peer before it looks
// for others.
//
// The package is pure: times and messages come in, messages and events go out, randomness is passed in. The runner
// (overlay/p2p) checks signatures, so that Step gets verified records and the simulator pays for no cryptography. The
// package does not crawl, and does not decide whose word counts: disagreement about who is near costs locality, never
// correctness.
//
// Invariants: every table, message, record and request has a bound; a record leaves the table if it was not heard of
// for Expiry or if its peer failed twice; moving or turning all coordinates changes no decision; map order decides
// nothing.
//
// The rings follow Wong, Slivkins, Sirer, "Meridian: A Lightweight Network Location Service without Virtual
// Coordinates" (SIGCOMM 2005), with predicted in place of measured times. The lookup is Kademlia's (Maymounkov and
// Mazieres, IPTPS 2002).
package overlay

import (
	"errors"
	"fmt"
	"time"

	"shoal/channel"
	"shoal/coords"
)

// ID names a node: its libp2p peer id as text, or any other word in a simulation.
type ID string

// Load is what a peer says of its queue.
type Load struct {
	Threads uint8 // 0: this member takes no tasks
	Slots   uint8 // of the queue
	Running uint8
	Queued  uint8
	Backlog time.Duration // until a task taken now would start
}

// PeerRecord is what members tell each other of one of them. Sealed is opaque here: what a runner needs to prove the rest to others.
type PeerRecord struct {
	ID     ID
	Seq    uint64 // the higher one is the newer one
	Issued time.Time
	Load   Load
	Coord  coords.Coord
	Addrs  []string
	Sealed []byte
	Seen   time.Time // when this node last heard of it; not sent

	// Account is that of its certificate, where its runner has seen that; not sent, since a peer's own word on it is worth nothing.
	Account string

	// Prefix is the network of the public address that its connection comes from, where its runner has seen that; not sent either.
	Prefix string
}

// Limits of messages and tables.
const (
	MaxAddrs     = 8
	MaxGossip    = 12  // records of one Gossip
	MaxNear      = 32  // records of one Near
	MaxTable     = 64  // entries of a table
	MaxHandoff   = 64  // tasks of one Handoff
	MaxLookups   = 256 // lookups and placings of one node at a time
	MaxBacklog   = 24 * time.Hour
	nearestKept  = 16
	ringKept     = 8
	rings        = 9
	maxFailures  = 2
	maxAsked     = 12 // nodes asked in one lookup
	firstOffers  = 8  // candidates offered to before widening
	widestOffers = 32
)

// Widen is how a search for a peer that takes a task goes on after so many of the nearest candidates were looked at and none took it: the
// number to look at in all, 8 at first, then 32; 0: the task is refused. Of each such set it goes to the one with the earliest expected finish.
func Widen(looked int) int {
	switch {
	case looked < firstOffers:
		return firstOffers
	case looked < widestOffers:
		return widestOffers
	}
	return 0
}

// Msg is one message. The concrete types are all below.
type Msg interface{ msg() }

// The messages. Those with a Req are requests or, with the same Req, their answers.
type (
	// Gossip tells who one is and whom one knows; it is answered by another.
	Gossip struct {
		Req     uint64
		Answer  bool
		Self    PeerRecord
		Records []*PeerRecord // read only, since many may keep them
	}
	// FindNear asks for the N known peers nearest to At.
	FindNear struct {
		Req uint64
		At  coords.Coord
		N   int
	}
	// Near answers it.
	Near struct {
		Req     uint64
		Records []*PeerRecord
	}
	// Offer asks a peer to take a task.
	Offer struct {
		Req    uint64
		Signed channel.Signed
		Header channel.Header
	}
	// Answer to an Offer: accepted, to start then; or busy, until then at the earliest.
	Answer struct {
		Req    uint64
		Accept bool
		Start  time.Time
	}
	// ProbeHost asks a peer to measure the round-trip time to a Web host. Its runner answers it, since a node cannot measure.
	ProbeHost struct {
		Req  uint64
		Host string
	}
	// Probed answers it; RTT is 0 where the host could not be reached.
	Probed struct {
		Req uint64
		RTT time.Duration
		At  coords.Coord // of the peer, then
	}
	// Handoff gives away tasks that a leaving peer took and did not claim.
	Handoff struct {
		Req   uint64
		Tasks []Task
	}
	// HandoffAnswer says which were taken.
	HandoffAnswer struct {
		Req   uint64
		Taken []bool
	}
)

// Task is a header with its signature.
type Task struct {
	Signed channel.Signed
	Header channel.Header
}

func (Gossip) msg()        {}
func (FindNear) msg()      {}
func (Near) msg()          {}
func (Offer) msg()         {}
func (Answer) msg()        {}
func (ProbeHost) msg()     {}
func (Probed) msg()        {}
func (Handoff) msg()       {}
func (HandoffAnswer) msg() {}

// Send is a message to be sent. Addrs may help to reach its receiver.
type Send struct {
	To    ID
	Addrs []string
	Msg   Msg
}

// Queue is what the overlay asks the peer's queue. It is called within Step.
type Queue interface {
	// Quote says when a task could start; false: not before its latest start.
	Quote(now time.Time, h channel.Header) (start time.Time, ok bool)
	// Take takes a task that was quoted.
	Take(now time.Time, s channel.Signed, h channel.Header) error
	// Load is for gossip.
	Load(now time.Time) Load
}

// Placed tells where a task went.
type Placed struct {
	Peer      ID
	Start     time.Time
	Hops      int             // messages, one after the other, that led to the nearest peer found; 0: a judge had named the peer
	Queries   int             // nodes asked in it
	Offers    int             // offers made
	RTT       time.Duration   // from the chosen peer to the host: measured, else predicted
	RandomRTT time.Duration   // predicted, from a peer chosen at random
	Samples   []coords.Sample // what was measured of the host on the way
}

// Event is what a placing came to.
type Event struct {
	Req    uint64
	Placed Placed
	Goal   coords.Coord // that was looked for
	Found  []PeerRecord // the nearest that were found, nearest first
	Err    error        // nil, or wraps ErrRefused, ErrUnsure or ErrNobody
}

// The outcomes of a placing.
var (
	// ErrRefused: for certain no peer has taken the task.
	ErrRefused = errors.New("overlay: refused")
	// ErrUnsure: an offer was sent whose answer never came.
	ErrUnsure = errors.New("overlay: an offer was not answered")
	// ErrBusy: this node has too many placings under way.
	ErrBusy = errors.New("overlay: too many placings at once")
	// ErrMalformed: a message that no honest node sends.
	ErrMalformed = errors.New("overlay: malformed message")
)

// Config of a node.
type Config struct {
	ID ID
	// Places says that this member places tasks and takes none: a manager. It is never a candidate.
	Places bool
	// Addrs are told to others.
	Addrs []string
	// Every is the time between two gossips at rest; while the table is young it is Every/Young of it. Default 1 minute and 12.
	Every time.Duration
	Young int
	// Expiry is how long a record lives that is not heard of. Default 4 hours.
	Expiry time.Duration
	// Timeout is after how long a request counts as failed. Default 5 seconds.
	Timeout time.Duration
	// Alpha is how many nodes are asked at a time in a lookup, Beam how many of the nearest it goes on from. Defaults 3 and 8.
	Alpha, Beam int
	// Probes is how many of the best candidates of a task measure their way to its host before it is offered. Default 5; 0: none, prediction decides.
	Probes int
	// Seq is the least sequence number of the node's own records: above all of earlier runs. Default 0: they follow the clock alone.
	Seq uint64
}

// Default gives the product's settings.
func Default(id ID) Config {
	return Config{ID: id, Every: time.Minute, Young: 12, Expiry: 4 * time.Hour, Timeout: 5 * time.Second, Alpha: 3, Beam: 8, Probes: 5}
}

// Validate names the first bad field.
func (c Config) Validate() error {
	switch {
	case c.ID == "":
		return errors.New("overlay: a node needs an id")
	case c.Every <= 0 || c.Young < 1 || c.Expiry <= 0 || c.Timeout <= 0:
		return fmt.Errorf("overlay: gossip every %v, young %d, expiry %v, time-out %v: want positive ones", c.Every, c.Young, c.Expiry, c.Timeout)
	case c.Alpha < 1 || c.Beam < c.Alpha || c.Beam > MaxNear:
		return fmt.Errorf("overlay: alpha %d, beam %d: want 1 <= alpha <= beam <= %d", c.Alpha, c.Beam, MaxNear)
	case c.Probes < 0 || c.Probes > MaxNear:
		return fmt.Errorf("overlay: %d probes: want 0 to %d", c.Probes, MaxNear)
	case len(c.Addrs) > MaxAddrs:
		return fmt.Errorf("overlay: %d addresses, at most %d", len(c.Addrs), MaxAddrs)
	}
	return nil
}

// Check says what is wrong with a record from outside.
func (p *PeerRecord) Check() error {
	switch {
	case p.ID == "" || len(p.ID) > 128:
		return fmt.Errorf("%w: a record with an id of %d bytes", ErrMalformed, len(p.ID))
	case !p.Coord.Valid():
		return fmt.Errorf("%w: a record with an impossible coordinate", ErrMalformed)
	case len(p.Addrs) > MaxAddrs:
		return fmt.Errorf("%w: a record with %d addresses", ErrMalformed, len(p.Addrs))
	case p.Load.Backlog < 0 || p.Load.Backlog > MaxBacklog:
		return fmt.Errorf("%w: a record with a backlog of %v", ErrMalformed, p.Load.Backlog)
	}
	return nil
}
