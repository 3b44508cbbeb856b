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
		f := failureOf(err, time.Now())
		a.failure.Store(f)
		a.tasks.setBroken(f.Says())
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
		a.failure.Store(nil)
		select {
		case <-a.badDisk: // from before
		default:
		}
	}
}

// DiskFailure is why an agent pauses whose disk takes nothing.
type DiskFailure struct {
	Since time.Time
	Why   string
	Do    string // what a person can do: "room", "readonly", "permission" or "look"
}

// deeds are what DiskFailure.Do stands for.
var deeds = map[string]string{"room": "make room on that disk", "readonly": "it may be read only now; mount it anew so that it can be written to",
	"permission": "let the user that runs the peer write there again", "look": "look at that disk"}

func failureOf(err error, since time.Time) *DiskFailure {
	f := &DiskFailure{since, strings.TrimPrefix(err.Error(), "crawl: "), "look"}
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		f.Do = "room"
	case errors.Is(err, syscall.EROFS):
		f.Do = "readonly"
	case errors.Is(err, os.ErrPermission):
		f.Do = "permission"
	}
	return f
}

// Says is the reason of the pause.
func (f *DiskFailure) Says() string {
	return "the disk fails since " + f.Since.Local().Format("2 January 15:04") + ": " + f.Why + "; " + deeds[f.Do] + ", and the peer goes on by itself"
}

// DiskFailure returns what the disk fails with now; nil: it does not.
func (a *Agent) DiskFailure() *DiskFailure { return a.failure.Load() }

// tryDisk writes something into a folder.
func tryDisk(dir string) error {
	f, err := os.Create(filepath.Join(dir, "try"))
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, diskTry))
	return errors.Join(err, f.Sync(), f.Close(), os.Remove(f.Name()))
}
