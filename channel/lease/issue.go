package lease

import (
	"errors"
	"fmt"
	"math/bits"
	"time"

	"shoal/channel"
)

// Phase is where a channel stands between two handings-out.
type Phase uint8

// The phases of an Issue. The numbers are stored: never reuse one.
const (
	Idle    Phase = iota // nothing is out; Next may be called
	Placing              // a generation was issued and is being offered
	Awaited              // a peer took it, or may have taken it; its claim is awaited until Until
	Leased               // Live runs at a peer; the archive will tell how it ends
	Pausing              // the last handing-out came to nothing; the next one waits until Until
	Marked               // given up; Reason says why
)

var phaseNames = [...]string{"idle", "placing", "awaited", "leased", "pausing", "marked"}

func (p Phase) String() string {
	if int(p) < len(phaseNames) {
		return phaseNames[p]
	}
	return fmt.Sprintf("phase %d", uint8(p))
}

// Issue is the manager's half of one channel: 48 bytes without pointers, needed in memory only while Phase is not Idle. The zero value is a channel that was never handed out.
type Issue struct {
	Gen   channel.Gen // highest issued or heard of
	Live  channel.Gen // Leased: the generation that runs; may be below Gen
	Done  channel.Gen // generation of the last report that was applied
	seen  uint64      // Event.Seq of the last one applied
	until int64       // Placing, Awaited: end of the claim wait; Pausing: of the pause. Kept while Leased. Idle: see Resting
	Phase Phase
	Tries uint8 // handings-out since the last report
	last  Kind  // what the last handing-out came to; zero: its claim never came
	// failed has a bit for each party whose handing-out came to nothing since the last report, by its number modulo 32.
	failed uint32
}

// Effect tells the owner of an Issue what follows from a step.
type Effect uint8

// The effects; several may come together.
const (
	Persist Effect = 1 << iota // the Issue changed and must be made durable, with the cursor where an Event changed it
	Apply                      // this report counts: apply what it teaches in the same transaction
	HandOut                    // the channel may be handed out again at Deadline, at once if that is zero
	GaveUp                     // the channel is now Marked
)

// What Next refuses.
var (
	ErrOut     = errors.New("lease: a task of this channel is out")
	ErrPausing = errors.New("lease: waiting before the next handing-out")
	ErrMarked  = errors.New("lease: channel is given up")
)

// Next issues the next generation, to be claimed until latest. The Issue must be durable before the offer leaves: it then says, after
// any crash, that this generation may be with a peer, and for how long.
func (i *Issue) Next(now, latest time.Time, t Terms) (channel.Gen, error) {
	switch {
	case i.Phase == Placing, i.Phase == Awaited, i.Phase == Leased:
		return 0, fmt.Errorf("%w: generation %d is %v", ErrOut, i.Gen, i.Phase)
	case i.Phase == Marked:
		return 0, fmt.Errorf("%w: %s", ErrMarked, i.Reason())
	case i.Phase == Pausing && nanos(now) < i.until:
		return 0, ErrPausing
	}
	i.Gen++
	i.Phase = Placing
	i.Live = 0
	i.Tries = min(i.Tries, maxTries) + 1
	i.last = 0
	wait := latest
	if c := now.Add(t.ClaimWait); t.ClaimWait > 0 && c.Before(latest) {
		wait = c
	}
	i.until = nanos(wait.Add(t.Slack))
	return i.Gen, nil
}

// Skip takes the next generation above a given one, while nothing is out: it is used for a task that is none of the channel's own.
func (i *Issue) Skip(above channel.Gen) (channel.Gen, error) {
	if i.Out() {
		return 0, fmt.Errorf("%w: generation %d is %v", ErrOut, i.Gen, i.Phase)
	}
	i.Gen = max(i.Gen, above) + 1
	return i.Gen, nil
}

// Placed says that a peer took gen, or that it may have: an offer was sent whose answer never came.
func (i *Issue) Placed(gen channel.Gen) Effect {
	if i.Phase != Placing || gen != i.Gen {
		return 0 // the claim was quicker than the answer, or this is of another generation
	}
	i.Phase = Awaited // not worth a write: Placing is restored as Awaited
	return 0
}

// Refused says that for certain no peer took gen: every one that was asked answered no. It was no handing-out.
func (i *Issue) Refused(gen channel.Gen) Effect {
	if gen != i.Gen {
		return 0
	}
	switch {
	case i.Phase == Placing:
		i.untried()
		return Persist | HandOut
	case i.Phase == Leased && i.Live < gen: // an older one came back meanwhile
		i.until = 0
		return Persist
	}
	return 0
}

// Outran says that the archive knows generations up to highest, so that gen can never be claimed: this manager was restored from a
// backup. The next one will be above.
func (i *Issue) Outran(gen, highest channel.Gen) Effect {
	if highest < i.Gen {
		return 0
	}
	current := gen == i.Gen
	i.Gen = highest
	if current && (i.Phase == Placing || i.Phase == Awaited) {
		i.untried()
		return Persist | HandOut
	}
	return Persist
}

// Apply takes an event of the feed. Old and repeated ones change nothing.
func (i *Issue) Apply(now time.Time, e Event, t Terms) Effect {
	if e.Gen == 0 || e.Gen <= i.Done || (e.Seq != 0 && e.Seq <= i.seen) {
		return 0
	}
	i.seen = max(i.seen, e.Seq)
	i.Gen = max(i.Gen, e.Gen) // larger after a restore from a backup: the archive remembers
	switch e.Kind {
	case Queued:
		if e.Gen != i.Gen {
			return 0
		}
		i.until = max(i.until, nanos(e.Until.Add(t.Slack)))
		if i.Phase != Leased {
			i.Phase = Awaited
		}
		return Persist
	case Claimed, Revived:
		if i.Phase == Leased && e.Gen <= i.Live {
			return 0
		}
		if i.Phase == Pausing || e.Gen == i.Gen {
			i.until = 0 // nothing younger is out
		}
		i.Phase, i.Live = Leased, e.Gen
		return Persist
	case Lapsed, Released:
		if e.Kind == Released && e.Gen > i.Live {
			return i.unheld(now, e, t)
		}
		if i.Phase != Leased || e.Gen != i.Live {
			return 0
		}
		i.last = e.Kind
		if e.Kind == Released && e.Progress && !i.younger(now) { // a polite leaver that brought something is no failure
			i.rest(Idle, 0)
			i.Tries -= min(i.Tries, 1)
			return Persist | HandOut
		}
		i.blame(e.By)
		return i.ended(now, t)
	case Brought:
		return Persist // nothing follows but that what was brought is looked at
	case Reported:
		i.Done = e.Gen
		switch {
		case i.Phase == Leased && e.Gen < i.Live:
			return Persist | Apply
		case i.younger(now):
			i.Tries, i.failed = 1, 0
			if i.Phase == Leased {
				i.Phase, i.Live = Awaited, 0
			}
			return Persist | Apply
		}
		i.rest(Idle, 0)
		i.Tries, i.failed = 0, 0
		return Persist | Apply | HandOut
	}
	return 0
}

// unheld follows the release of a generation that runs at nobody. It was never claimed: the operator had the archive call back all up to there, or the manager
// took it back since it did not know whether a peer had it. Or its lease had lapsed: if its holder brought something all the same, that was no failure.
func (i *Issue) unheld(now time.Time, e Event, t Terms) Effect {
	if e.Progress && i.Phase != Marked {
		i.Tries -= min(i.Tries, 1)
	}
	switch {
	case i.Phase == Idle && !e.Progress:
		return 0
	case i.Phase == Idle, i.Phase == Marked, i.Phase == Pausing:
		return Persist // only the generation has changed, or the tries
	case e.Gen < i.Gen && i.younger(now): // the youngest was issued since, and may be out
		if i.Phase == Leased {
			i.Phase, i.Live = Awaited, 0
		}
		return Persist
	}
	i.last = Released
	i.rest(Pausing, nanos(now.Add(t.backoff(1))))
	if !e.Progress {
		i.Tries -= min(i.Tries, 1)
	}
	return Persist | HandOut
}

// maxTries keeps Tries from running over: a channel that is not given up may be handed out any number of times.
const maxTries = 254

// blame notes whose handing-out came to nothing. One that is not known counts as another one each time.
func (i *Issue) blame(by uint64) {
	if by == 0 {
		by = uint64(i.Tries)
	}
	i.failed |= 1 << (by % 32)
}

// younger reports whether a generation above the one that just ended is still out, unclaimed.
func (i *Issue) younger(now time.Time) bool {
	if i.until <= nanos(now) {
		return false
	}
	return i.Phase == Placing || i.Phase == Awaited || (i.Phase == Leased && i.Live < i.Gen)
}

// Tick does what is due at now: a claim wait that ran out, a pause that is over. Who had taken the task is not known.
func (i *Issue) Tick(now time.Time, t Terms) Effect { return i.TickOf(now, 0, t) }

// TickOf is Tick for a task that the account of number by had taken; zero: it is not known which.
func (i *Issue) TickOf(now time.Time, by uint64, t Terms) Effect {
	if i.until == 0 || nanos(now) < i.until {
		return 0
	}
	switch i.Phase {
	case Placing, Awaited:
		i.last = 0
		i.until = 0
		i.blame(by)
		return i.ended(now, t)
	case Pausing:
		i.rest(Idle, 0)
		return HandOut // not worth a write: a pause that is over is over
	}
	return 0
}

// Deadline is when Tick has work; zero: never.
func (i *Issue) Deadline() time.Time {
	switch i.Phase {
	case Placing, Awaited, Pausing:
		return moment(i.until)
	}
	return time.Time{}
}

// Restore makes an Issue that was read after a start consistent: what was being placed may have been taken. The time of Resting is gone;
// who wants it calls Wake before.
func (i *Issue) Restore() {
	i.Wake()
	if i.Phase == Placing {
		i.Phase = Awaited
	}
}

// Resting is an idle Issue with the time until when its owner leaves the channel alone, for the record only: Wake takes the time out again.
// A zero time is none.
func (i Issue) Resting(until time.Time) Issue {
	if i.Phase == Idle && !until.IsZero() {
		i.until = nanos(until)
	}
	return i
}

// Wake returns the time that Resting put into a record that was read; zero: none. The Issue is without it then.
func (i *Issue) Wake() (until time.Time) {
	if i.Phase == Idle {
		until, i.until = moment(i.until), 0
	}
	return until
}

// Out reports whether a task may be with a peer.
func (i *Issue) Out() bool { return i.Phase == Placing || i.Phase == Awaited || i.Phase == Leased }

// Unmark gives a channel that was given up another chance: an operator's wish.
func (i *Issue) Unmark() Effect {
	if i.Phase != Marked {
		return 0
	}
	i.rest(Idle, 0)
	i.Tries, i.failed = 0, 0
	return Persist | HandOut
}

// Withdraw has a handing-out that waits for its pause not come: what may be with a peer is left alone.
func (i *Issue) Withdraw() Effect {
	if i.Phase != Pausing {
		return 0
	}
	i.rest(Idle, 0)
	return Persist
}

// Bound has a claim awaited for no longer than most, of a task that was issued by a clock that was ahead: it is refused till then. It reports whether that changes anything.
func (i *Issue) Bound(now time.Time, most time.Duration) bool {
	end := nanos(now.Add(most))
	if i.Phase != Placing && i.Phase != Awaited || i.until <= end {
		return false
	}
	i.until = end
	return true
}

// Advance has a wait end earlier: the clock by which it was reckoned was set back. It reports whether there is one.
func (i *Issue) Advance(by time.Duration) bool {
	if !i.Out() && i.Phase != Pausing || i.until == 0 {
		return false
	}
	i.until -= int64(by)
	return true
}

// Reason says why the channel is marked; empty: it is not.
func (i *Issue) Reason() string {
	if i.Phase != Marked {
		return ""
	}
	how := "was never claimed"
	switch i.last {
	case Lapsed:
		how = "lapsed without progress"
	case Released:
		how = "was given back"
	}
	return fmt.Sprintf("handed out %d times without a report; the last one %s", i.Tries, how)
}

// ended follows a handing-out that came to nothing.
func (i *Issue) ended(now time.Time, t Terms) Effect {
	if i.younger(now) {
		i.Phase, i.Live = Awaited, 0
		return Persist
	}
	if int(i.Tries) >= t.handouts() && bits.OnesCount32(i.failed) >= max(t.Parties, leastParties) {
		i.rest(Marked, 0)
		return Persist | GaveUp
	}
	i.rest(Pausing, nanos(now.Add(t.backoff(i.Tries))))
	return Persist | HandOut
}

// untried takes back the generation that is being placed; no peer has it.
func (i *Issue) untried() {
	i.rest(Idle, 0)
	i.Tries -= min(i.Tries, 1)
}

// rest ends what is out.
func (i *Issue) rest(p Phase, until int64) {
	i.Phase, i.Live, i.until = p, 0, until
}
