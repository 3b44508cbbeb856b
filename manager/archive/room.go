package archive

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"shoal/internal/wire/uplink"
)

// DefaultMinFree is how much of the disk is left free: the database maps files into memory, and a write into a page for which the disk
// has no room ends the process.
const DefaultMinFree = 256 << 20

// ErrFull says that the disk has no room left for more pages.
var ErrFull = fmt.Errorf("archive: disk is full: %w", uplink.ErrLater)

// room looks after the disk's free space, at most four times a second.
type room struct {
	mu   sync.Mutex
	at   time.Time
	free int64
	err  error
}

const roomEvery = 250 * time.Millisecond

// check refuses what grows the archive while there is too little room. What ends leases, gives space back or acknowledges goes on to a
// quarter of that.
func (a *Archive) checkRoom(grows bool) error {
	if a.cfg.MinFree < 0 {
		return nil
	}
	r := &a.space
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := time.Now(); now.Sub(r.at) >= roomEvery || now.Before(r.at) {
		was := r.full(a.cfg.MinFree)
		r.at = now
		r.free, r.err = a.cfg.FS.Free(a.cfg.Dir)
		if is := r.full(a.cfg.MinFree); is != was {
			if is {
				a.log.Error("the disk is full: no new work is taken, nothing is lost", "dir", a.cfg.Dir, "free", r.free, "needed", a.cfg.MinFree)
			} else {
				a.log.Info("the disk has room again", "dir", a.cfg.Dir, "free", r.free)
			}
		}
	}
	need := a.cfg.MinFree
	if !grows {
		need /= 4
	}
	if r.full(need) {
		return fmt.Errorf("%w: %d MiB are free in %s, %d MiB are needed: make room, or run shoal archive compact", ErrFull, r.free>>20, a.cfg.Dir, need>>20)
	}
	return nil
}

// full tells whether there is less than need. A disk that cannot be asked is not full.
func (r *room) full(need int64) bool { return r.err == nil && !r.at.IsZero() && r.free < need }

// Trouble says in a sentence for an operator why the archive takes no work now; empty: it does.
func (a *Archive) Trouble() string {
	a.group.mu.Lock()
	failed := a.group.failed
	a.group.mu.Unlock()
	if failed != nil {
		return failed.Error()
	}
	if err := a.checkRoom(true); errors.Is(err, ErrFull) {
		return err.Error()
	}
	return ""
}
