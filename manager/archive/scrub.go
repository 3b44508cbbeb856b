package archive

import (
	"context"
	"errors"
	"fmt"
	"time"

	"shoal/channel/badgerdb/tables"
)

// How the state is looked at beside everything else: a look begins so long after the last one has ended, and reads so many bytes a second.
const (
	scrubFirst = time.Minute
	scrubEvery = 5 * time.Minute
	scrubRate  = 8 << 20
)

const rebuildHint = "the pages are in the WARC files; shoal archive repair --rebuild makes a new one from them"

// Scrub looks at every byte of the state's tables and of the finished files of its value log. If one is not what was written, nothing more is
// taken in, as storing would drop what is lost there for good. It runs by itself beside Run, more slowly.
func (a *Archive) Scrub(ctx context.Context) error { return a.scrub(ctx, 0) }

func (a *Archive) scrub(ctx context.Context, rate int64) error {
	err := a.db.use(func() error { return tables.CheckOpen(ctx, a.db.DB, rate) })
	if errors.Is(err, tables.ErrChanged) {
		a.foundDamage(err)
		return *a.damaged.Load()
	}
	return err // nil, or a disk that cannot be read just now
}

// foundDamage stops all storing.
func (a *Archive) foundDamage(err error) {
	err = fmt.Errorf("%w: database: %w: stop the archive, and restore a backup or bring that file back as it was; else %s", ErrStorage, err, rebuildHint)
	if !a.damaged.CompareAndSwap(nil, &err) {
		return
	}
	a.log.Error("the archive takes in nothing more", "dir", a.cfg.Dir, "err", err)
	a.group.mu.Lock()
	defer a.group.mu.Unlock()
	a.group.failed = err
}

// keepScrubbing looks at the state again and again, and cleans its value log of what was found whole: cleaning a file drops what cannot be
// read of it.
func (a *Archive) keepScrubbing(ctx context.Context) {
	t := time.NewTimer(scrubFirst)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		err := a.scrub(ctx, scrubRate)
		if err == nil {
			a.db.tidy(ctx)
		}
		if err != nil && ctx.Err() == nil && a.damaged.Load() == nil { // else that was said
			a.log.Error("the database could not be looked at, will try again", "err", err)
		}
		t.Reset(scrubEvery)
	}
}

const stuckAfter = 10 * time.Second

// closeDamaged closes an archive whose database was found damaged. What was under way then may wait for a compaction that cannot be.
func (a *Archive) closeDamaged(damage error) error {
	a.db.guard.Release()
	closed := make(chan error, 1)
	go func() { closed <- errors.Join(a.group.close(), a.db.Close()) }()
	select {
	case err := <-closed:
		return err
	case <-time.After(stuckAfter):
		return fmt.Errorf("left as after a crash: %w", damage)
	}
}
