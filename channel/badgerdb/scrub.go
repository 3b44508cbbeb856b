package badgerdb

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dgraph-io/badger/v4"

	"shoal/channel/badgerdb/tables"
)

// Scrub reads every byte of the tables in use and of the finished files of the value log. If any has changed, the
// database writes nothing more, because a write could drop the lost records for good. Scrub also runs by itself every
// Config.ScrubEvery, at Config.ScrubRate.
func (db *DB) Scrub(ctx context.Context) error {
	db.mu.RLock()
	if db.closed {
		db.mu.RUnlock()
		return ErrClosed
	}
	db.readers.Add(1)
	db.mu.RUnlock()
	defer db.readers.Done()
	return db.scrub(ctx, 0)
}

// Damaged returns the damage found so far and what to do about it, or nil. A damaged database writes nothing more
// until it is opened again.
func (db *DB) Damaged() error {
	if err := db.damaged.Load(); err != nil {
		return *err
	}
	return nil
}

func (db *DB) scrub(ctx context.Context, rate int64) error {
	return db.note(tables.CheckOpen(ctx, db.b, rate))
}

// note keeps the damage that a scrub found. A read that failed for the moment is not damage.
func (db *DB) note(err error) error {
	if !errors.Is(err, tables.ErrChanged) {
		return err
	}
	err = explain(db.cfg.Dir, damage(err))
	if db.damaged.CompareAndSwap(nil, &err) {
		db.log.Error("channel database is not written to any more", "dir", db.cfg.Dir, "err", err)
	}
	return err
}

const firstLook = time.Minute // after Open, which has checked everything but the older files of the value log

// keepLooking scrubs until the database is closed. It cleans the value log only after a scrub without findings,
// because cleaning a file drops its unreadable records.
func (db *DB) keepLooking() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	db.done.Go(func() {
		select {
		case <-db.stop:
			cancel()
		case <-ctx.Done():
		}
	})
	t := time.NewTimer(min(firstLook, db.cfg.ScrubEvery))
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		err := db.scrub(ctx, db.cfg.ScrubRate)
		if err == nil {
			err = db.GC()
		}
		if err != nil && ctx.Err() == nil && !errors.Is(err, ErrDamaged) { // that was said
			db.log.Error("channel database not tidied", "dir", db.cfg.Dir, "err", err)
		}
		t.Reset(db.cfg.ScrubEvery)
	}
}

// discardRatio is the share of a value log file that must be dead before it is rewritten.
const discardRatio = .5

// GC cleans the value log until no file is worth it. It also runs after each scrub.
func (db *DB) GC() error {
	for {
		select {
		case <-db.stop:
			return nil
		default:
		}
		if err := db.Damaged(); err != nil {
			return err
		}
		if free, ok := freeBytes(db.cfg.Dir); ok && free < db.cfg.MinFree {
			return fmt.Errorf("%w: %s has %d MiB left", ErrDiskFull, db.cfg.Dir, free>>20)
		}
		switch err := db.b.RunValueLogGC(discardRatio); {
		case errors.Is(err, badger.ErrNoRewrite), errors.Is(err, badger.ErrRejected):
			return nil
		case err != nil:
			return fmt.Errorf("clean value log: %w", err)
		}
	}
}
