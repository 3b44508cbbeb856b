package badgerdb

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dgraph-io/badger/v4"

	"shoal/channel/badgerdb/tables"
)

// Scrub looks at every byte of the tables in use and of the finished files of the value log. If one is not what was written, nothing more is
// written, as that would drop what is lost there for good. It runs by itself every Config.ScrubEvery, more slowly.
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

// Damaged says what of the database is not what was written, and what to do; nil: nothing that has been found. Until the database is opened
// again nothing more is written.
func (db *DB) Damaged() error {
	if err := db.damaged.Load(); err != nil {
		return *err
	}
	return nil
}

func (db *DB) scrub(ctx context.Context, rate int64) error {
	return db.note(tables.CheckOpen(ctx, db.b, rate))
}

// note keeps what a look at the tables has found; a disk that cannot be read just now is no such thing.
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

const firstLook = time.Minute // after it was opened, when all of it but older files of the value log was looked at

// keepLooking scrubs, and cleans the value log of what was found whole, until the database is closed: cleaning a file drops what cannot be
// read of it.
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

// discardRatio is the share of a value log file that must be dead for it to be written anew.
const discardRatio = .5

// GC cleans the value log until there is nothing worth it. It runs by itself after each scrub.
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
