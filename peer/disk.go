package peer

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// A disk that takes nothing pauses the agent until it does again: what was fetched then is sent from memory, what is not claimed is not begun, and
// what cannot wait goes back, as in every pause.

// How a disk that has failed is tried.
const (
	diskEvery = 2 * time.Second
	diskTry   = 1 << 20 // bytes
)

// diskFails is told by crawls. It does not wait.
func (a *Agent) diskFails(err error) {
	select {
	case a.badDisk <- err:
	default: // that is being looked at
	}
}

// tendDisk pauses the agent whenever the disk fails, until it takes again what is written to it, or ctx ends.
func (a *Agent) tendDisk(ctx context.Context) {
	for {
		var err error
		select {
		case <-ctx.Done():
			return
		case err = <-a.badDisk:
		}
		a.log.Warn("paused: the disk fails; what was fetched is sent from memory", "dir", a.spool(), "err", err)
		a.tasks.setBroken(diskSays(err, time.Now()))
		for err != nil {
			select {
			case <-ctx.Done():
				return
			case <-time.After(diskEvery):
			}
			err = tryDisk(a.spool())
		}
		a.log.Info("the disk takes again what is written to it")
		a.tasks.setBroken("")
		select {
		case <-a.badDisk: // from before
		default:
		}
	}
}

// diskSays is why the agent pauses, since when, and what a person can do.
func diskSays(err error, since time.Time) string {
	do := "look at that disk"
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		do = "make room on that disk"
	case errors.Is(err, syscall.EROFS):
		do = "it may be read only now; mount it anew so that it can be written to"
	case errors.Is(err, os.ErrPermission):
		do = "let the user that runs the peer write there again"
	}
	return "the disk fails since " + since.Local().Format("2 January 15:04") + ": " + strings.TrimPrefix(err.Error(), "crawl: ") + "; " + do + ", and the peer goes on by itself"
}

// tryDisk writes something into a folder.
func tryDisk(dir string) error {
	f, err := os.Create(filepath.Join(dir, "try"))
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, diskTry))
	return errors.Join(err, f.Sync(), f.Close(), os.Remove(f.Name()))
}
