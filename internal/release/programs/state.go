// Package programs keeps the versions of the volunteers' program in a folder, and remembers which of them runs: the one kept, one on trial, and those
// that this computer fell back from.
//
// Nothing that runs is ever overwritten: each version is a file of its own, and the program that was installed stays where it is. What is written is
// written beside, synced, checked, and renamed, so that a power cut leaves the old state or the new one.
package programs

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"shoal/internal/release"
)

// Program is a version in the folder.
type Program struct {
	Version string `json:"version"`
	File    string `json:"file"`   // in the folder
	Sum     string `json:"sha256"` // of the file, as hex digits
	Notes   string `json:"notes,omitempty"`
}

// Trial is a program on probation.
type Trial struct {
	Program
	From    string            `json:"from"`              // the version before it
	Began   time.Time         `json:"began"`             //
	Running bool              `json:"running,omitempty"` // it was started, and has not ended in an orderly way
	Boot    string            `json:"boot,omitempty"`    // the computer's start in which it was
	Seen    release.Probation `json:"seen"`
	Failed  int               `json:"failed,omitempty"` // starts in a row that came to nothing
	Why     string            `json:"why,omitempty"`    // the last of them did
}

// Stuck reports whether the program could not be started the last time.
func (t *Trial) Stuck() bool { return t != nil && t.Failed > 0 && !t.Running }

// Refusal is a version that this computer takes no more.
type Refusal struct {
	Version string    `json:"version"`
	Why     string    `json:"why"`
	Fell    bool      `json:"fell,omitempty"` // it ran here, and did not do well; else its volunteer refused it
	At      time.Time `json:"at"`
}

// State is what is remembered. The zero value has the installed program run.
type State struct {
	Current *Program  `json:"current,omitempty"` // was kept; nil: the installed one
	Next    *Program  `json:"next,omitempty"`    // is complete and checked, and waits to be taken
	Since   time.Time `json:"since,omitzero"`    // Next waits
	Trial   *Trial    `json:"trial,omitempty"`
	Refused []Refusal `json:"refused,omitempty"`
	Last    string    `json:"last,omitempty"` // what happened last, for people
	LastAt  time.Time `json:"last_at,omitzero"`
	Network string    `json:"network,omitempty"` // whose releases are taken, once that is not the one in the data folder itself
}

// maxRefused bounds the versions that are refused; the oldest versions go, which are older than what runs.
const maxRefused = 32

// Start says which program runs now: nil for the installed one, whose version is own. boot names the computer's start; empty: it is not known.
func (s *State) Start(own, boot string, now time.Time) *Program {
	if t := s.Trial; t != nil {
		if t.Running && t.Boot != "" && boot != "" && !sameBoot(t.Boot, boot) {
			t.Running = false // the computer went down with it
		}
		if t.Running {
			s.Crashed(now)
		}
	}
	if s.Trial != nil && !release.Newer(s.Trial.Version, own) { // a newer one was installed meanwhile
		s.Trial = nil
	}
	if s.Current != nil && !release.Newer(s.Current.Version, own) {
		s.Current = nil
	}
	if t := s.Trial; t != nil {
		t.Running, t.Boot = true, boot // and stays failed until it runs
		return &t.Program
	}
	return s.Current
}

// BootAt names a computer's start by its time, for systems that have no other name for it.
func BootAt(t time.Time) string { return bootAt + strconv.FormatInt(t.Unix(), 10) }

const bootAt = "at "

// bootSlack is by how much the time of one and the same start may differ between two readings, since clocks are corrected.
const bootSlack = time.Minute

// sameBoot reports whether two names are of the same start of the computer.
func sameBoot(a, b string) bool {
	at := func(s string) (n int64, ok bool) {
		text, ok := strings.CutPrefix(s, bootAt)
		n, err := strconv.ParseInt(text, 10, 64)
		return n, ok && err == nil
	}
	x, isTime := at(a)
	y, both := at(b)
	if isTime && both {
		return time.Unix(x, 0).Sub(time.Unix(y, 0)).Abs() <= bootSlack
	}
	return a == b
}

// Begin puts the next program on trial.
func (s *State) Begin(from string, now time.Time) {
	if s.Next != nil {
		s.Trial, s.Next = &Trial{Program: *s.Next, From: from, Began: now}, nil
	}
}

// Ended notes an orderly end of the program on trial.
func (s *State) Ended() {
	if s.Trial != nil {
		s.Trial.Running = false
	}
}

// NoStart notes that the program on trial could not be started. That is no crash: a disk from which nothing may be run, or a rule of the system, is to blame.
func (s *State) NoStart(why string) {
	if t := s.Trial; t != nil {
		t.Running, t.Why = false, why
		t.Failed++
	}
}

// Started notes that the program on trial runs.
func (s *State) Started() {
	if t := s.Trial; t != nil {
		t.Failed, t.Why = 0, ""
	}
}

// Overtake ends the trial of a program that cannot be started, for a newer one.
func (s *State) Overtake(version string) bool {
	if !s.Trial.Stuck() || !release.Newer(version, s.Trial.Version) {
		return false
	}
	s.Trial = nil
	return true
}

// Crashed notes that the program on trial ended without being asked to. It returns whether that ends the trial.
func (s *State) Crashed(now time.Time) (over bool) {
	if s.Trial == nil {
		return false
	}
	s.Trial.Running = false
	v, why := s.Trial.Seen.Crash()
	if v == release.FallBack {
		s.Fall(why, now)
		return true
	}
	return false
}

// Kept ends a trial well.
func (s *State) Kept(now time.Time) {
	if t := s.Trial; t != nil {
		s.Current, s.Trial = &t.Program, nil
		s.note("version "+t.Version+" runs well and is kept", now)
	}
}

// Fall ends a trial: this computer goes back to the program before, and never tries that version again.
func (s *State) Fall(why string, now time.Time) {
	if t := s.Trial; t != nil {
		s.Trial = nil
		s.refuse(Refusal{t.Version, why, true, now})
		s.note("went back from version "+t.Version+" to "+t.From+": it "+why, now)
	}
}

// Leave goes back from a version that was kept to the installed program, whose version is own, and never tries it again.
func (s *State) Leave(own, why string, now time.Time) {
	if c := s.Current; c != nil {
		s.Current = nil
		s.refuse(Refusal{c.Version, why, true, now})
		s.note("went back from version "+c.Version+" to "+own+": it "+why, now)
	}
}

// Refuse has a version never taken, because the volunteer says so.
func (s *State) Refuse(version string, now time.Time) {
	if s.Next != nil && s.Next.Version == version {
		s.Next = nil
	}
	if t := s.Trial; t != nil && t.Version == version && !t.Running {
		s.Trial = nil
	}
	s.refuse(Refusal{version, "its volunteer refused it", false, now})
	s.note("version "+version+" is refused", now)
}

// Allow takes the volunteer's own refusal back. What a computer fell back from it never tries again.
func (s *State) Allow(version string) {
	s.Refused = slices.DeleteFunc(s.Refused, func(r Refusal) bool { return r.Version == version && !r.Fell })
}

func (s *State) note(what string, now time.Time) { s.Last, s.LastAt = what, now }

func (s *State) refuse(r Refusal) {
	s.Refused = append(slices.DeleteFunc(s.Refused, func(x Refusal) bool { return x.Version == r.Version }), r)
	if len(s.Refused) > maxRefused {
		oldest := slices.MinFunc(s.Refused, func(a, b Refusal) int {
			v, _ := release.Parse(a.Version) // each was parsed before it was refused
			w, _ := release.Parse(b.Version)
			return v.Compare(w)
		})
		s.Refused = slices.DeleteFunc(s.Refused, func(x Refusal) bool { return x.Version == oldest.Version })
	}
}

// Refuses returns why a version is not taken.
func (s *State) Refuses(version string) (Refusal, bool) {
	if i := slices.IndexFunc(s.Refused, func(r Refusal) bool { return r.Version == version }); i >= 0 {
		return s.Refused[i], true
	}
	return Refusal{}, false
}

// Falls are the versions that this computer fell back from, the newest last.
func (s *State) Falls() (out []release.Fall) {
	for _, r := range s.Refused {
		if r.Fell {
			out = append(out, release.Fall{Version: r.Version, Why: r.Why})
		}
	}
	return out
}
