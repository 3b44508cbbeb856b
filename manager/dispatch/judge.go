package dispatch

import (
	"time"

	"shoal/channel"
	"shoal/recrawl"
)

// Peer is a peer's id, as the overlay has it.
type Peer string

// Judge knows the peers: who is near a Web host, and who has room. The Machine asks it once for every task that it would hand out, so an
// answer should cost no more than the logarithm of the number of peers, in the mean.
//
// The Machine knows how many of our tasks each peer has, and tells with Held; the Judge knows how many a peer can hold. All methods are
// called by the Machine's owner, and must not wait.
type Judge interface {
	// Room says whether a task for the host should be placed now, and with Go, with which peer; an empty one leaves that to the overlay.
	Room(now time.Time, a Ask) (Peer, Verdict)
	// Farther says which of some tasks that have waited long loses least by going to a peer that may have it, and to which: a task that presses to one with room,
	// and these tasks come first; another one to one with a free thread that nothing near it wants. False: there is none. Slot, Host, Pressing and Since of
	// the tasks are set.
	Farther(now time.Time, tasks []Ask) (task int, p Peer, ok bool)
	// Held tells that a peer has n of our tasks now, counting those on their way to it. Nothing was held before the first call.
	Held(p Peer, n int)
	// Capacity sums up the peers that are known now.
	Capacity(now time.Time) Capacity
	// Looked tells that all that was due has been looked at. A peer that has room still was wanted by nothing near it, and may take what is
	// far from it until the next call.
	Looked(now time.Time)
}

// Ask is a task for which a Judge is asked.
type Ask struct {
	Slot recrawl.Slot
	Host channel.HostKey
	// Share is the share of all peers, the nearest ones first, of which one will do. It is NearShare at first and grows to 1 while the task waits.
	Share float64
	// Pressing says that the channel was never crawled and has waited long: Farther may give it any room, also what others near the peer want.
	Pressing bool
	// Since is when it was asked for first, of a task for Farther.
	Since time.Time
	// Only, if set, is the peer that Farther has named: it is this one or none.
	Only Peer
	// Spare says that nothing is lost if the task does not go: it is for a near peer with a free thread, or for none.
	Spare bool
}

// NearShare of all peers count as near a host.
const NearShare = .25

// Verdict is a Judge's answer.
type Verdict uint8

// The verdicts.
const (
	Go      Verdict = iota + 1 // place the task now
	Wait                       // the peers near the host are full; ask again in a tick
	Unknown                    // where the host is is not known yet, and being measured; ask again in a tick
	Stay                       // as Wait, and a peer that Farther would name will not do
	Enough                     // too much was asked for now: ask about nothing more before the next call of Tick
)

// Capacity is what all peers can do that are known and take tasks.
type Capacity struct {
	Peers int
	Holds int // tasks that they may have at once
	// Threads is how many tasks they run at once, and Idle how many of these threads have none of ours.
	Threads, Idle int
	Held          int // tasks of ours that they have, by what Held has told
}
