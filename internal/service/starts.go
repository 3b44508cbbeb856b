package service

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// Starts is what a program remembers of its starts, to tell a crash and to wait before the next try. The zero value is a first start.
type Starts struct {
	Crashes int       `json:"crashes"` // in a row
	Began   time.Time `json:"began"`   // of the run that goes on, or that ended without a word; zero: the last run ended in an orderly way
}

// Bounds of the wait after crashes.
const (
	firstWait = time.Second
	lastWait  = 5 * time.Minute
	// settled is how long a run lasts for the crashes before it to be forgotten.
	settled = 10 * time.Minute
)

// Next returns what to remember of a start, and how long to wait before the program does its work: nothing after an orderly end, one second after a
// crash, and twice as long with each further one, up to five minutes.
func (s Starts) Next(now time.Time) (next Starts, wait time.Duration) {
	if s.Began.IsZero() {
		return Starts{Began: now}, 0
	}
	next = Starts{Crashes: s.Crashes + 1}
	if ran := now.Sub(s.Began); ran >= settled {
		next.Crashes = 1
	}
	wait = lastWait
	if n := next.Crashes - 1; n < 9 {
		wait = min(firstWait<<n, lastWait)
	}
	next.Began = now.Add(wait)
	return next, wait
}

// LoadStarts reads what SaveStarts wrote. A missing or damaged file is a first start: no volunteer should have to mend it.
func LoadStarts(path string) (Starts, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Starts{}, nil
	}
	if err != nil {
		return Starts{}, fmt.Errorf("service: %w", err)
	}
	var s Starts
	if json.Unmarshal(b, &s) != nil || s.Crashes < 0 {
		return Starts{}, nil
	}
	return s, nil
}

// SaveStarts keeps s for the next start.
func SaveStarts(path string, s Starts) error {
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", append(b, '\n'), 0o600); err != nil {
		return fmt.Errorf("service: %w", err)
	}
	return os.Rename(path+".new", path)
}
