// Package headroom keeps a little of the disk for databases that write through mapped memory. Such a write into a page for which the disk has no room ends the
// process with SIGBUS, and no code can return an error instead. A manager takes no new work long before its disk is full; but another program may take the last
// bytes at once, while writes are under way.
//
// A Keeper does two things against that. It holds a reserve, a file of its own, and gives it back to the disk when almost nothing is left: what is under way
// ends in that room. And it has the file system set aside the next part of each log before that is written.
//
// It cannot help against a program that goes on and takes the reserve too, nor in the moment before it looks.
package headroom

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// What is kept, and when.
const (
	Size  = 64 << 20               // of the reserve
	least = 32 << 20               // free: with less the reserve is given back
	ahead = 8 << 20                // of each log that is set aside
	every = 100 * time.Millisecond // between two looks

	wholeLook = 100 // looks, of which one is at a whole log
)

// Config says what is kept where.
type Config struct {
	Reserve string   // file of the reserve
	Folders []string // of Badger databases, which may not be there
	// Enough is how much must be free beside a reserve that is made.
	Enough int64
	Log    *slog.Logger
}

// Keeper keeps room until it is closed.
type Keeper struct {
	cfg    Config
	cancel context.CancelFunc
	done   sync.WaitGroup

	held   bool            // the reserve is there
	set    map[string]mark // of each log
	failed string          // last error that was logged
}

// mark is how far a log is written, how far it is set aside, and how often it was looked at.
type mark struct {
	written, aside int64
	looks          uint
}

// Keep begins to keep room. What stands in its way is logged: a database works without it.
func Keep(cfg Config) *Keeper {
	k := &Keeper{cfg: cfg, set: map[string]mark{}}
	if info, err := os.Stat(cfg.Reserve); err == nil {
		k.held = info.Size() == Size
	}
	k.look()
	ctx, cancel := context.WithCancel(context.Background())
	k.cancel = cancel
	k.done.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			k.look()
		}
	})
	return k
}

// Close ends it. The reserve stays for the next start.
func (k *Keeper) Close() error {
	k.cancel()
	k.done.Wait()
	return nil
}

func (k *Keeper) look() {
	dir := filepath.Dir(k.cfg.Reserve)
	room, err := free(dir)
	if err != nil {
		k.fails("the free space of the disk is not known", err)
		return
	}
	switch {
	case k.held && room < least:
		if err := os.Remove(k.cfg.Reserve); err != nil {
			k.fails("the reserve cannot be given back", err)
			break
		}
		k.held = false
		k.cfg.Log.Error("another program has filled the disk: the reserve is used so that work under way can end; make room", "dir", dir, "free", room, "reserve", Size)
	case !k.held && room >= k.cfg.Enough+Size:
		if err := reserve(k.cfg.Reserve, Size); err != nil {
			k.fails("no reserve can be kept on the disk", err)
			break
		}
		k.held = true
	}
	for _, folder := range k.cfg.Folders {
		k.setAside(folder)
	}
}

// setAside has the next part of each log in a folder.
func (k *Keeper) setAside(folder string) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return // there is no such database
	}
	newest := "" // only the last value log is written
	for _, e := range entries {
		switch filepath.Ext(e.Name()) {
		case ".mem":
			k.extend(filepath.Join(folder, e.Name()))
		case ".vlog":
			newest = e.Name() // names are sorted
		}
	}
	if newest != "" {
		k.extend(filepath.Join(folder, newest))
	}
	for path := range k.set {
		if rest, ok := strings.CutPrefix(path, folder+string(filepath.Separator)); ok {
			if _, err := os.Lstat(filepath.Join(folder, rest)); err != nil {
				delete(k.set, path)
			}
		}
	}
}

func (k *Keeper) extend(path string) {
	now, err := extend(path, k.set[path], ahead)
	if err == nil {
		k.set[path] = now
	} else if !os.IsNotExist(err) { // it may have been deleted meanwhile
		k.fails("the next part of a log cannot be set aside", err)
	}
}

// fails logs an error once, until another one comes.
func (k *Keeper) fails(what string, err error) {
	if text := what + err.Error(); text != k.failed {
		k.failed = text
		k.cfg.Log.Info(what, "error", err)
	}
}
