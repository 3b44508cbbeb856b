package release

import (
	"fmt"
	"time"
)

// Times are the bounds of a probation.
type Times struct {
	Member time.Duration // by which the program must have become a member
	Task   time.Duration // while it holds tasks, in which it must have come to the end of one
	Quiet  time.Duration // as a member, after which it is kept although no task came, or those that came failed with a report
	Step   time.Duration // the longest time between two looks that counts; what is longer is sleep
}

// InMinutes returns the usual times, with a minute of the length given.
func InMinutes(minute time.Duration) Times {
	return Times{Member: 30 * minute, Task: 6 * 60 * minute, Quiet: 24 * 60 * minute, Step: max(minute, 5*time.Second)}
}

// MaxCrashes is how often a new program may crash: the last one ends its probation.
const MaxCrashes = 3

// MaxKeptCrashes is how often in a row a program that was kept may crash soon after its start: after the last one the installed program runs again.
const MaxKeptCrashes = 6

// Verdict is what a probation has come to.
type Verdict int

// The verdicts.
const (
	GoOn Verdict = iota
	Keep
	FallBack
)

// Sign is what is seen of a program on probation.
type Sign struct {
	Paused   bool `json:"paused,omitempty"`   // by its user, a limit, or a budget
	Online   bool `json:"-"`                  // the network's servers answer, whatever the program says
	Member   bool `json:"member,omitempty"`   // it is connected to its home
	Taken    bool `json:"taken,omitempty"`    // it has taken a task
	Finished bool `json:"finished,omitempty"` // it has finished one, with an update
	Idle     bool `json:"idle,omitempty"`     // it holds none now of those that it took, and has let none go that it should have finished
	Ended    int  `json:"ended,omitempty"`    // tasks of which it has sent the report since it started, also that they failed: a host may be dead
}

// Probation is the trial of a new program. The zero value is its beginning. Its fields are kept over restarts.
type Probation struct {
	Ran       time.Duration `json:"ran"` // counted: unpaused, and on line or a member
	Member    bool          `json:"member,omitempty"`
	Taken     bool          `json:"taken,omitempty"`
	MemberFor time.Duration `json:"member_for,omitempty"` // counted since it became a member
	TakenFor  time.Duration `json:"taken_for,omitempty"`  // counted while it held tasks, since it came to the end of one
	Ended     int           `json:"ended,omitempty"`      // the same of the last sign
	Reported  bool          `json:"reported,omitempty"`   // it has come to the end of one
	Crashes   int           `json:"crashes,omitempty"`
}

// Look takes in what is seen after some time. The reason goes with FallBack.
func (p *Probation) Look(t Times, passed time.Duration, s Sign) (v Verdict, why string) {
	p.Member = p.Member || s.Member
	p.Taken = p.Taken || s.Taken
	if p.Member && s.Finished {
		return Keep, ""
	}
	if s.Ended > 0 && s.Ended != p.Ended {
		p.Reported, p.TakenFor = true, 0
	}
	p.Ended = s.Ended
	held := p.Taken && !s.Idle
	if s.Paused || !s.Online && !s.Member {
		return GoOn, ""
	}
	passed = min(max(passed, 0), t.Step)
	p.Ran += passed
	if p.Member {
		p.MemberFor += passed
	}
	if held {
		p.TakenFor += passed
	}
	switch {
	case !p.Member && p.Ran >= t.Member:
		return FallBack, fmt.Sprintf("did not connect to the network within %s, although the network answered", t.Member)
	case held && p.TakenFor >= t.Task:
		return FallBack, fmt.Sprintf("finished no task within %s of taking one", t.Task)
	case p.Member && (!held || p.Reported) && p.MemberFor >= t.Quiet:
		return Keep, ""
	}
	return GoOn, ""
}

// Crash takes in that the program ended without being asked to.
func (p *Probation) Crash() (v Verdict, why string) {
	if p.Crashes++; p.Crashes >= MaxCrashes {
		return FallBack, fmt.Sprintf("crashed %d times", p.Crashes)
	}
	return GoOn, ""
}
