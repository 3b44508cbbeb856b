package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"shoal/manager/archive/ledger"
	"shoal/manager/archive/ledger/badgerledger"
	"shoal/manager/archive/upkeep"
	"shoal/manager/archive/warc"
)

// Restore makes the archive in dir from a backup. Cursors from before the backup go on; what was told between backup and loss is not
// known any more, so the feed jumps ahead.
func Restore(ctx context.Context, backup, dir string) error {
	if err := upkeep.Empty(dir); err != nil {
		return fmt.Errorf("restore to %s: %w", dir, err)
	}
	files, state := filepath.Join(dir, "warc"), filepath.Join(dir, "state")
	for _, d := range []string{files, state} {
		if err := os.MkdirAll(d, 0o750); err != nil {
			return fmt.Errorf("restore: %w", err)
		}
	}
	return upkeep.Restore(ctx, backup, files, func(r io.Reader) error {
		err := badgerledger.Restore(state, r, time.Now())
		if errors.Is(err, badgerledger.ErrEmpty) {
			err = fmt.Errorf("%w: %w", ErrNotBackup, err)
		}
		if err != nil {
			return err
		}
		l, err := badgerledger.Open(badgerledger.Config{Dir: state})
		if err != nil {
			return err
		}
		return errors.Join(ledger.Whole(l), l.Close()) // the backup may be of an archive on servers
	})
}

// Rebuild makes a new state for an archive whose database cannot be opened, from its WARC files. What only the database knew is gone:
// claims (running crawls start anew, the manager's generations go on), the feed (every page is told as created, cursors of old are
// refused) and change histories. The old state is moved aside, not removed.
func Rebuild(ctx context.Context, cfg Config) (out Rebuilt, err error) {
	if err := cfg.validate(); err != nil {
		return out, err
	}
	pack, err := warc.NewCompressor(cfg.Level)
	if err != nil {
		return out, err
	}
	store, segments, old, err := cfg.Stores.Anew(ctx, cfg.own(pack, nil))
	if err != nil {
		return Rebuilt{Old: old}, fmt.Errorf("rebuild: %w", err)
	}
	out, err = upkeep.Rebuild(ctx, store, segments)
	out.Old = old
	if err = errors.Join(err, segments.Close(), store.Close()); err != nil {
		return out, fmt.Errorf("rebuild: %w", err)
	}
	a, err := Open(ctx, cfg)
	if err != nil {
		return out, fmt.Errorf("rebuild: %w", err)
	}
	return out, errors.Join(a.TellCreated(out), a.Close())
}
