package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"shoal/manager/api"
	"shoal/manager/archive"
	"shoal/manager/archive/remote"
	"shoal/manager/desk"
)

const (
	moveEvery = 300 * time.Millisecond // between two looks at a migration
	moveAway  = 30 * time.Minute       // that a manager may be away in its pause, in which it tells no address
	moveMute  = time.Minute            // that one may be silent which tells its address: it ends, or begins, or was killed
)

// patience is for how long a manager that moves its data has not answered.
type patience struct {
	since time.Time // zero: it answers
	tells bool      // its address, since then
}

// over takes in that there was no answer, and reports whether to give up. The time begins anew when the manager's address comes or goes.
func (p *patience) over(now time.Time, tells bool) bool {
	if p.since.IsZero() || p.tells != tells {
		p.since, p.tells = now, tells
	}
	most := moveAway
	if tells {
		most = moveMute
	}
	return now.Sub(p.since) > most
}

// whileItRuns has the manager that works on a data folder move its data, and waits for the end. If the command is ended, the migration goes on.
func (c *migrateCmd) whileItRuns(ctx context.Context, s streams, data string) error {
	if _, err := os.Stat(filepath.Join(data, addressFile)); err != nil {
		return stopFirst(data, archive.ErrLocked)
	}
	ask := func(method string, in, out any) error {
		soon, cancel := context.WithTimeout(ctx, moveMute)
		defer cancel()
		return (&target{Data: data}).running(data, func(a *api.Client) error { return a.Do(soon, method, "/migrate", nil, in, out) })
	}
	if err := ask(http.MethodPost, desk.MoveAsk{To: c.To, Bucket: c.Bucket}, nil); err != nil {
		return err
	}
	var said string
	var mute patience
	paused := false
	for {
		var now desk.Move
		err := ask(http.MethodGet, nil, &now)
		switch {
		case err != nil:
			_, is := os.Stat(filepath.Join(data, addressFile))
			if is != nil && !paused {
				paused = true
				fmt.Fprintln(s.err, "the manager pauses while the rest follows; if its program has ended, press Ctrl-C, see there why, start it, and run this command again")
			}
			if mute.over(time.Now(), is == nil) {
				return fmt.Errorf("%w; when the manager runs, %s", err, runAgain)
			}
		case now.State == "":
			return errors.New("the manager was started anew meanwhile: " + runAgain)
		case now.State == desk.MoveFailed:
			return errors.New(now.Error)
		case now.State == desk.MoveDone:
			return c.tell(s, migratedOf(now))
		default:
			mute = patience{}
			if now.Says != said {
				said = now.Says
				fmt.Fprintln(s.err, strings.TrimSpace(said))
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: a manager that runs goes on with its migration", ctx.Err())
		case <-time.After(moveEvery):
		}
	}
}

func migratedOf(now desk.Move) migrated {
	done := migrated{Channels: now.Channels, Items: now.Items, To: now.To, Kept: now.Kept, Pause: now.Pause}
	if now.ArchiveKept != "" {
		done.Archive = &remote.Moved{Segments: now.Files, Records: now.Records, Captures: now.Captures, Bytes: now.Bytes, Kept: now.ArchiveKept}
	}
	return done
}
