// Package chaos draws scripts of faults for a running network: what breaks, when, and for how long. The same seed and cast give the same script.
// A script has a text form, so that a failure can print it and a later run can read it back, and Shrink finds a short script that still fails.
//
// The package injects nothing. It has no clock, no process and no randomness but its seed.
package chaos

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Kind is what a fault does.
type Kind string

// The kinds. "For" says after what time the fault ends.
const (
	KillPeer       Kind = "kill-peer"       // SIGKILL; the peer starts again after For
	StopPeer       Kind = "stop-peer"       // SIGSTOP; the peer goes on after For
	EndPeer        Kind = "end-peer"        // the peer is asked to end, hands its tasks over, and starts again after For
	CutPeer        Kind = "cut-peer"        // nothing that the peer sends reaches another member for For; it still reaches Web hosts
	LossPeer       Kind = "loss-peer"       // a third of what the peer sends to other members is lost for For
	DelayPeer      Kind = "delay-peer"      // what the peer sends to other members is late by the time of that name for For
	StepPeer       Kind = "step-peer"       // the peer's wall clock steps by the time of that name, and back after For
	SuspendPeer    Kind = "suspend-peer"    // the peer's computer sleeps for For: the peer does nothing, and its monotonic clock stands still
	FullPeer       Kind = "full-peer"       // the peer's disk is full for For
	KillManager    Kind = "kill-manager"    // SIGKILL; the manager starts again after For
	StopManager    Kind = "stop-manager"    // SIGSTOP; the manager goes on after For
	EndManager     Kind = "end-manager"     // the manager is asked to end, and starts again after For
	StepManager    Kind = "step-manager"    // the manager's wall clock steps by the time of that name, and back after For
	SuspendManager Kind = "suspend-manager" // the manager's computer sleeps for For
	RotateKey      Kind = "rotate-key"      // the manager is asked to end, gets a new working key, and starts again after For
	FullDisk       Kind = "full-disk"       // the manager's disk is full for For
	HangDisk       Kind = "hang-disk"       // what is written to the manager's disk, or made durable there, waits for For
	SlowDisk       Kind = "slow-disk"       // it hangs for a fifth of a second, over and over, for For
	FailDisk       Kind = "fail-disk"       // whatever the manager reads, writes or makes durable fails; after For it starts with what is on the disk after a power cut
	Block          Kind = "block"           // an operator blocks a host, and unblocks it after For
	Purge          Kind = "purge"           // an operator takes a host down, and imports it again after For
	Remove         Kind = "remove"          // an operator removes a host's channels, and imports the host again after For
	Import         Kind = "import"          // an operator imports a list of new hosts and known ones, and removes the new ones after For
	Split          Kind = "split"           // an operator makes a directory of a host a channel of its own
	Strategy       Kind = "strategy"        // an operator changes the strategy
	Backup         Kind = "backup"          // an operator writes a backup
	Compact        Kind = "compact"         // an operator compacts the archive
	LieNames       Kind = "lie-names"       // the name server lies in the way of that name, or answers nothing, for For
	Rogue          Kind = "rogue"           // a member that misbehaves, in the way of that name, takes part for For
	Liar           Kind = "liar"            // a member that delivers pages which were never on the Web, in the way of that name, takes part for For
)

// what says what a kind needs.
type what struct {
	kind    Kind
	weight  int   // how often it is drawn, beside the others
	peer    bool  // its target is a peer
	host    bool  // its target is a host
	lasting bool  // it ends after For
	long    bool  // half of Longest or more: short ones meet nothing
	on      place // what it is at work on, if that is neither a peer nor a host
	// named lists the names that it may have; nil: it has none.
	named func(Cast) []string
}

// place is what a fault without a number is at work on.
type place int

const (
	onManager place = iota // or what the manager is asked to do
	onNames                // the name server
	onMembers              // any number of such members take part at a time
	onList                 // what an operator imports
	onClock                // the clock of the manager, or of a peer, which may be down or stopped meanwhile
)

var kinds = []what{
	{kind: KillPeer, weight: 6, peer: true, lasting: true},
	{kind: StopPeer, weight: 6, peer: true, lasting: true},
	{kind: EndPeer, weight: 4, peer: true, lasting: true},
	{kind: CutPeer, weight: 4, peer: true, lasting: true},
	{kind: LossPeer, weight: 4, peer: true, lasting: true},
	{kind: DelayPeer, weight: 4, peer: true, lasting: true, named: func(c Cast) []string { return c.Delays }},
	{kind: StepPeer, weight: 3, peer: true, lasting: true, on: onClock, named: func(c Cast) []string { return c.Steps }},
	{kind: SuspendPeer, weight: 2, peer: true, lasting: true},
	{kind: FullPeer, weight: 2, peer: true, lasting: true},
	{kind: KillManager, weight: 2, lasting: true},
	{kind: StopManager, weight: 2, lasting: true},
	{kind: EndManager, weight: 1, lasting: true},
	{kind: StepManager, weight: 2, lasting: true, on: onClock, named: func(c Cast) []string { return c.Steps }},
	{kind: SuspendManager, weight: 1, lasting: true},
	{kind: RotateKey, weight: 1, lasting: true},
	{kind: FullDisk, weight: 2, lasting: true},
	{kind: HangDisk, weight: 2, lasting: true},
	{kind: SlowDisk, weight: 2, lasting: true},
	{kind: FailDisk, weight: 2, lasting: true},
	{kind: Block, weight: 3, host: true, lasting: true},
	{kind: Purge, weight: 2, host: true, lasting: true},
	{kind: Remove, weight: 2, host: true, lasting: true},
	{kind: Import, weight: 2, lasting: true, on: onList},
	{kind: Split, weight: 1, host: true},
	{kind: Strategy, weight: 2, named: func(c Cast) []string { return c.Strategies }},
	{kind: Backup, weight: 1},
	{kind: Compact, weight: 2},
	{kind: LieNames, weight: 3, lasting: true, long: true, on: onNames, named: func(c Cast) []string { return c.Lies }},
	{kind: Rogue, weight: 3, lasting: true, on: onMembers, named: func(c Cast) []string { return c.Rogues }},
	{kind: Liar, weight: 2, lasting: true, long: true, on: onMembers, named: func(c Cast) []string { return c.Liars }},
}

// Kinds returns all kinds.
func Kinds() []Kind {
	var all []Kind
	for _, w := range kinds {
		all = append(all, w.kind)
	}
	return all
}

// Fault is one thing that breaks.
type Fault struct {
	At     time.Duration // since the start of the run, whole milliseconds
	Kind   Kind
	Target int           // number of a peer or a host, from 0
	Name   string        // of a strategy, or of a way to misbehave
	For    time.Duration // whole milliseconds
}

// End is when the fault is over.
func (f Fault) End() time.Duration { return f.At + f.For }

// Script is a list of faults in the order of their times.
type Script struct {
	Seed   uint64 // it was drawn from
	Faults []Fault
}

// Last is when the last fault is over.
func (s Script) Last() (end time.Duration) {
	for _, f := range s.Faults {
		end = max(end, f.End())
	}
	return end
}

// Count returns the number of faults of each kind.
func (s Script) Count() map[Kind]int {
	n := map[Kind]int{}
	for _, f := range s.Faults {
		n[f.Kind]++
	}
	return n
}

// Cast is what can break, and how much of it does.
type Cast struct {
	Peers      int
	Hosts      int
	Strategies []string      // to choose from
	Rogues     []string      // ways to misbehave, to choose from
	Liars      []string      // ways to deliver what was never on the Web, to choose from
	Lies       []string      // of name servers, to choose from
	Steps      []string      // of clocks, as time.ParseDuration takes them, to choose from
	Delays     []string      // of packets, likewise
	Length     time.Duration // all faults are over then
	Every      time.Duration // mean time between two faults
	Longest    time.Duration // that a fault lasts
}

// ErrCast is returned for a cast of which no script can be drawn.
var ErrCast = errors.New("chaos: bad cast")

// MaxFaults bounds a script.
const MaxFaults = 100_000

// Validate reports what is wrong with a cast.
func (c Cast) Validate() error {
	switch {
	case c.Peers < 1 || c.Hosts < 1:
		return fmt.Errorf("%w: %d peers, %d hosts: want one or more of each", ErrCast, c.Peers, c.Hosts)
	case c.Every < time.Millisecond || c.Longest < shortest || c.Length < c.Longest:
		return fmt.Errorf("%w: a fault every %v, at most %v long, in %v: want 1ms or more, %v or more, and no less than the longest", ErrCast, c.Every, c.Longest, c.Length, shortest)
	case c.Length/c.Every > MaxFaults/4:
		return fmt.Errorf("%w: a fault every %v for %v makes more than %d", ErrCast, c.Every, c.Length, MaxFaults/4)
	}
	for _, w := range kinds {
		if w.named == nil {
			continue
		}
		if len(w.named(c)) == 0 {
			return fmt.Errorf("%w: %s has no name to choose from", ErrCast, w.kind)
		}
		for _, s := range w.named(c) {
			if !word(s) {
				return fmt.Errorf("%w: name %q: want a word", ErrCast, s)
			}
		}
	}
	for _, s := range slices.Concat(c.Steps, c.Delays) {
		if _, err := time.ParseDuration(s); err != nil {
			return fmt.Errorf("%w: %q: want a length of time, as 40s", ErrCast, s)
		}
	}
	return nil
}

const shortest = 100 * time.Millisecond // that a lasting fault takes

// Draw returns the script of a seed. Faults overlap, but no two are at work on the same process or host at a time.
func Draw(seed uint64, c Cast) (Script, error) {
	if err := c.Validate(); err != nil {
		return Script{}, err
	}
	rng := rand.New(rand.NewPCG(seed, 0x63686131))
	s := Script{Seed: seed}
	busy := map[[2]int]time.Duration{} // until when a target is at work
	var bag []what                     // each kind as often as its weight says, so that short scripts have all of them too
	for at := time.Duration(0); len(s.Faults) < MaxFaults; {
		at += time.Duration(rng.ExpFloat64() * float64(c.Every)).Round(time.Millisecond)
		if at >= c.Length {
			break
		}
		if len(bag) == 0 {
			bag = fill(rng)
		}
		f, on := c.draw(rng, bag[0], at)
		if f.End() > c.Length || busy[on] > at {
			bag = append(bag[1:], bag[0])
			continue
		}
		bag = bag[1:]
		busy[on] = f.End() + 1
		s.Faults = append(s.Faults, f)
	}
	return s, nil
}

// draw returns a fault, and what it is at work on: a process or a host.
func (c Cast) draw(rng *rand.Rand, w what, at time.Duration) (f Fault, on [2]int) {
	f = Fault{At: at, Kind: w.kind}
	on = [2]int{2 + int(w.on), 0}
	if w.lasting {
		// Most are short, as the square of an even chance.
		u := rng.Float64()
		part := u * u
		if w.long {
			part = (1 + u) / 2
		}
		f.For = (shortest + time.Duration(part*float64(c.Longest-shortest))).Round(time.Millisecond)
	}
	switch {
	case w.peer:
		f.Target = rng.IntN(c.Peers)
		if on[1] = f.Target + 1; w.on != onClock {
			on[0] = 0
		}
	case w.host:
		f.Target = rng.IntN(c.Hosts)
		on = [2]int{1, f.Target}
	case w.on == onMembers:
		on[1] = rng.IntN(1 << 30)
	}
	if w.named != nil {
		names := w.named(c)
		f.Name = names[rng.IntN(len(names))]
	}
	return f, on
}

// fill returns a full bag, shuffled.
func fill(rng *rand.Rand) (bag []what) {
	for _, w := range kinds {
		for range w.weight {
			bag = append(bag, w)
		}
	}
	rng.Shuffle(len(bag), func(i, j int) { bag[i], bag[j] = bag[j], bag[i] })
	return bag
}
