package peer

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"shoal/peer/crawl"
	"shoal/peer/queue"
)

// Do carries out the orders that every agent knows.
func (a *Agent) Do(order string, args map[string]string) error {
	switch order {
	case "pause":
		until := time.Time{}
		if v := args["for"]; v != "" {
			d, err := PauseFor(v)
			if err != nil {
				return err
			}
			until = a.now().Add(d)
		}
		return a.pauseUntil(until)
	case "resume":
		return a.unpause(queue.Open)
	case "finish":
		return a.unpause(queue.Finish)
	case "drain":
		return a.unpause(queue.Drain)
	}
	return fmt.Errorf("%w: unknown order %q", ErrConfig, order)
}

// Rest has an agent that is open, and not on hold, finish what runs and take nothing new, since its program is about to end. It reports whether the agent
// does so. It is no order of the volunteer's: any such order ends it.
func (a *Agent) Rest() bool { return a.tasks.rest() }

// Rouse ends Rest, unless an order of the volunteer's has done so before.
func (a *Agent) Rouse() { a.tasks.rouse() }

// PauseFor reads how long a pause is to last.
func PauseFor(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("peer: a pause of %q; say 30m or 2h, or tomorrow", text)
	}
	return d, nil
}

// now is the network's time.
func (a *Agent) now() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.wire == nil {
		return time.Now()
	}
	return a.wire.Now()
}

// Undelivered is what an archive has not taken.
type Undelivered struct {
	Tasks int   // claimed, and neither reported nor released
	Bytes int64 // of pages
}

// Forget makes a folder a member of no network any more, and forgets other members' addresses and what was not delivered, which it tells.
// Its identity and its record of fetches stay.
func Forget(dir string) (lost Undelivered, err error) {
	unlock, err := lock(filepath.Join(dir, "lock"))
	if err != nil {
		return lost, err
	}
	defer unlock()
	for _, what := range [][2]string{{"", "membership"}, {"", "members.json"}, {"", pauseFile}, {"tasks", "*"}, {"spool", "*"}} {
		names, err := crawl.FilesOf(filepath.Join(dir, what[0]), what[1])
		if err != nil {
			return lost, err
		}
		for _, name := range names {
			st, err := os.Stat(name)
			if err == nil {
				err = os.Remove(name)
			}
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return lost, err
			}
			switch {
			case strings.HasSuffix(name, claimedSuffix):
				lost.Tasks++
			case strings.HasPrefix(filepath.Base(name), "pages-"):
				lost.Bytes += st.Size()
			}
		}
	}
	return lost, nil
}
