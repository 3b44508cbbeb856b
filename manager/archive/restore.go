package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"shoal/manager/archive/ledger/badgerledger"
	"shoal/manager/archive/upkeep"
	"shoal/manager/archive/warc/folder"
)

// Restore makes the archive in dir from a backup. Cursors from before the backup go on; what was told between backup and loss is not
// known any more, so the feed jumps ahead.
func Restore(ctx context.Context, backup, dir string) error {
	if err := upkeep.Empty(dir); err != nil {
		return fmt.Errorf("restore to %s: %w", dir, err)
	}
	cfg := Config{Dir: dir}
	for _, d := range []string{cfg.warcDir(), cfg.stateDir()} {
		if err := os.MkdirAll(d, 0o750); err != nil {
			return fmt.Errorf("restore: %w", err)
		}
	}
	return upkeep.Restore(ctx, backup, cfg.warcDir(), func(r io.Reader) error {
		err := badgerledger.Restore(cfg.stateDir(), r, time.Now())
		if errors.Is(err, badgerledger.ErrEmpty) {
			err = fmt.Errorf("%w: %w", ErrNotBackup, err)
		}
		return err
	})
}

// Rebuild makes a new state for an archive whose database cannot be opened, from its WARC files. What only the database knew is gone:
// claims (running crawls start anew, the manager's generations go on), the feed (every page is told as created, cursors of old are
// refused) and change histories. The old state is moved aside, not removed.
func Rebuild(ctx context.Context, cfg Config) (out Rebuilt, err error) {
	old := fmt.Sprintf("%s.broken-%s", cfg.stateDir(), time.Now().UTC().Format("20060102150405"))
	if err := os.Rename(cfg.stateDir(), old); err != nil {
		return Rebuilt{Old: old}, fmt.Errorf("rebuild: %w", err)
	}
	store, err := badgerledger.Open(badgerledger.Config{Dir: cfg.stateDir()})
	if err != nil {
		return Rebuilt{Old: old}, fmt.Errorf("rebuild: %w", err)
	}
	out, err = upkeep.Rebuild(ctx, store, folder.Open(folder.Config{FS: cfg.FS, Dir: cfg.warcDir()}))
	out.Old = old
	if err = errors.Join(err, store.Close()); err != nil {
		return out, fmt.Errorf("rebuild: %w", err)
	}
	a, err := Open(ctx, cfg)
	if err != nil {
		return out, fmt.Errorf("rebuild: %w", err)
	}
	return out, errors.Join(a.TellCreated(out), a.Close())
}
