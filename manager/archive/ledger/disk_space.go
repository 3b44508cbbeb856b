package ledger

import (
	"fmt"
	"sync"
	"time"
)

// DefaultMinFree is how much of the disk is left free: a database may map files into memory, and a write into a page for which the disk has no
// room ends the process.
const DefaultMinFree = 256 << 20

// diskSpace is the free space as it was last looked at.
type diskSpace struct {
	mu   sync.Mutex
	at   time.Time
	free int64
	err  error
}

// spaceEvery is how long a look is good for.
const spaceEvery = 250 * time.Millisecond

// checkSpace refuses what grows the archive while there is too little room. What ends leases, gives space back or acknowledges goes on to a
// quarter of that.
func (l *Ledger) checkSpace(grows bool) error {
	if l.cfg.MinFree < 0 {
		return nil
	}
	d := &l.space
	d.mu.Lock()
	defer d.mu.Unlock()
	if now := l.cfg.Clock(); now.Sub(d.at) >= spaceEvery || now.Before(d.at) {
		was := d.below(l.cfg.MinFree)
		d.at = now
		d.free, d.err = l.segments.Free()
		if is := d.below(l.cfg.MinFree); is != was {
			if is {
				l.cfg.Log.Error("the disk is full: no new work is taken, nothing is lost", "dir", l.cfg.Where, "free", d.free, "needed", l.cfg.MinFree)
			} else {
				l.cfg.Log.Info("the disk has room again", "dir", l.cfg.Where, "free", d.free)
			}
		}
	}
	need := l.cfg.MinFree
	if !grows {
		need /= 4
	}
	if d.below(need) {
		return fmt.Errorf("%w: %d MiB are free in %s, %d MiB are needed: make room, or run shoal archive compact", ErrFull, d.free>>20, l.cfg.Where, need>>20)
	}
	return nil
}

// below tells whether less than need is free. A disk that cannot be asked has room.
func (d *diskSpace) below(need int64) bool { return d.err == nil && !d.at.IsZero() && d.free < need }
