package limit

import (
	"errors"
	"time"
)

// Names of the sources that may know whether a person uses the computer.
const (
	SourceLogind      = "logind"      // systemd-logind: its sessions, their locks and hints
	SourceMutter      = "mutter"      // GNOME's monitor of idleness
	SourceScreenSaver = "screensaver" // the interface of screen savers, as KDE and others have it
	SourceTerminals   = "terminals"   // when a terminal was last typed at
	SourceInterrupts  = "interrupts"  // of keyboards and mice, as the kernel counts them
	SourceInput       = "input"       // the system's own count of the last key or movement (macOS, Windows)
)

// SourceWindow says whether the window in front fills the screen: the X server of the desktop.
const SourceWindow = "window"

// Trial is what one source said of the use of this computer.
type Trial struct {
	Source string
	Known  bool          // it could tell
	Idle   time.Duration // since the last sign of a person; 0 where it only says whether
	InUse  bool
	Why    string // it could not tell
	sure   bool   // it measures; others pass on a hint that a desktop may never set
	half   bool   // it sees one kind of device: that one is idle says nothing of the others
}

// Use is what is known of a person's use of this computer. Every source is asked, and one is believed.
type Use struct {
	Trials   []Trial
	Believed string // source; empty: none could tell
	InUse    bool
	Idle     time.Duration // 0: not known

	Full   bool   // a program fills the screen, or keeps it awake for a film or a game
	FullBy string // what says so; empty: nothing can
}

// Err is nil where it is known whether a person uses the computer. Else it says why each source could not tell.
func (u *Use) Err() error {
	if u.Believed != "" {
		return nil
	}
	all := []error{ErrUnknown}
	for _, t := range u.Trials {
		all = append(all, errors.New(t.Source+": "+t.Why))
	}
	return errors.Join(all...)
}

// judge decides whom to believe. A fresh sign of a person counts, whoever saw it. Without one, a source that measures is believed over one that
// passes on a hint, since many desktops never set the hint.
func judge(trials []Trial) (u Use) {
	u.Trials = trials
	for _, sure := range []bool{true, false} {
		best := -1
		for i, t := range trials {
			if !t.Known || t.sure != sure || t.half && !t.InUse {
				continue
			}
			if best < 0 || t.InUse && !trials[best].InUse || t.InUse == trials[best].InUse && t.Idle < trials[best].Idle {
				best = i
			}
		}
		if best >= 0 {
			t := trials[best]
			u.Believed, u.InUse, u.Idle = t.Source, t.InUse, t.Idle
			return u
		}
	}
	return u
}

// measured is a trial of a source that counts the time since the last key or movement.
func measured(source string, idle time.Duration) Trial {
	return Trial{Source: source, Known: true, Idle: idle, InUse: touched(idle), sure: true}
}

// hinted is a trial of a source that says only whether.
func hinted(source string, inUse bool) Trial {
	return Trial{Source: source, Known: true, InUse: inUse}
}

func untold(source string, err error) Trial { return Trial{Source: source, Why: err.Error()} }
