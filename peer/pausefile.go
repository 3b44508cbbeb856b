package peer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"shoal/peer/queue"
)

// pauseFile keeps its volunteer's pause in the agent's folder, so that it holds after a new start of the program or the computer.
const pauseFile = "pause.json"

type pause struct {
	Until time.Time `json:"until,omitzero"` // by the network's clock; zero: until the volunteer resumes
	Here  time.Time `json:"here,omitzero"`  // the same moment by this computer's clock, which may be wrong; zero: it was not noted
}

// pauseUntil pauses, and keeps the pause. It is in force even if it cannot be kept.
func (a *Agent) pauseUntil(until time.Time) error {
	a.SetMode(queue.Paused, until)
	p := pause{Until: until}
	if !until.IsZero() {
		p.Here = time.Now().Add(until.Sub(a.now()))
	}
	b, err := json.Marshal(p)
	if err != nil {
		return err
	}
	name := filepath.Join(a.cfg.Dir, pauseFile)
	if err = os.WriteFile(name+".new", b, 0o600); err == nil {
		err = os.Rename(name+".new", name)
	}
	if err != nil {
		return fmt.Errorf("peer: it is paused now, but not after a new start: %w", err)
	}
	return nil
}

// unpause ends a pause, for another mode.
func (a *Agent) unpause(m queue.Mode) error {
	a.SetMode(m, time.Time{})
	if err := os.Remove(filepath.Join(a.cfg.Dir, pauseFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("peer: the pause is over now, but holds again after a new start: %w", err)
	}
	return nil
}

// restorePause goes on with the pause of an earlier run. A file that cannot be read is a pause without an end: the volunteer asked for one.
func (a *Agent) restorePause() {
	b, err := os.ReadFile(filepath.Join(a.cfg.Dir, pauseFile))
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var p pause
	if err == nil {
		err = json.Unmarshal(b, &p)
	}
	if err != nil {
		p = pause{}
		a.log.Warn("the pause of an earlier run cannot be read: it is paused until shoal-peer resume", "err", err)
	}
	until := p.Until
	if !until.IsZero() && p.Here.After(until) { // the network's time is not known yet: too long a pause is better than none
		until = p.Here
	}
	if until.IsZero() || until.After(time.Now()) {
		a.SetMode(queue.Paused, until)
	}
}
