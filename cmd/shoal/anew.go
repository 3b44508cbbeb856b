package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"shoal/channel/postgres"
	"shoal/internal/again"
	"shoal/internal/plain"
	"shoal/manager"
	"shoal/manager/archive"
	"shoal/manager/archive/bucket"
	"shoal/manager/desk"
)

// A manager among several may be taken for gone, as when it was cut off from the database for some seconds. What it would still write is refused from then on,
// so it begins anew, with a new tenancy and a new name in the archive's log, by itself. So does one whose clock was set back to before the network began, and one whose database stands elsewhere than the manager knew, as after a failover.

// anew is why a manager has begun anew.
type anew struct {
	at    time.Time
	why   string
	clock bool // the clock was set back
}

// anewTold is for how long operators are told of it.
const anewTold = 24 * time.Hour

// finding is what operators are told; false: nothing.
func (a *anew) finding(now time.Time) (desk.Finding, bool) {
	if a == nil || now.Sub(a.at) > anewTold {
		return desk.Finding{}, false
	}
	mend := "Nothing is lost. If it happens again: see whether this machine is short of processor, memory or disk, or is cut off from the database at times."
	if a.clock {
		mend = "Nothing is lost, and channels are crawled by the time that this machine tells now. See that it is right, and that the clock is set by the network (timedatectl)."
	}
	return desk.Finding{Level: desk.Warning, What: fmt.Sprintf("At %s this manager had to begin anew, and did: %s.", a.at.UTC().Format("15:04:05 UTC"), a.why), Mend: mend}, true
}

// anewPace is of starts that follow one another.
var anewPace = again.Bounds{First: 100 * time.Millisecond, Last: 10 * time.Second}

// keepRunning runs a manager, and again when its data has moved, and anew when the others have taken its work over, its database stands elsewhere, or its archive must be opened again. After that it waits
// for a database or a bucket that is away, and after a move for a command that has opened the folder in the pause.
func keepRunning(ctx context.Context, cfg stationConfig, say func(string), run func(stationConfig) error) error {
	wait, moved := again.Every(anewPace), false
	for {
		err := run(cfg)
		if errors.Is(err, errMoving) {
			if ctx.Err() != nil { // asked to end in the pause
				return nil
			}
			moved = true
			wait.Reset()
			continue
		}
		afresh := errors.Is(err, manager.ErrEnded) || errors.Is(err, manager.ErrSetBack) || errors.Is(err, manager.ErrElsewhere) || cfg.several && errors.Is(err, errReopen)
		if err == nil || ctx.Err() != nil && !afresh {
			return err
		}
		switch why := plain.Error(err); {
		case afresh && ctx.Err() != nil: // asked to end just when it was to begin anew
			say(why + ".")
			return nil
		case afresh:
			cfg.anew = &anew{time.Now(), why, errors.Is(err, manager.ErrSetBack)}
			say(why + ". Starting anew.")
			wait.Reset()
		case (cfg.anew != nil || moved) && (errors.Is(err, postgres.ErrUnreachable) || errors.Is(err, bucket.ErrUnreachable)), moved && errors.Is(err, archive.ErrLocked):
			say(why + ". Trying again.")
		default:
			return err
		}
		if wait.Wait(ctx, nil, nil) != nil {
			return nil
		}
	}
}
