package badgerdb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/dgraph-io/badger/v4"

	"shoal/channel/badgerdb/tables"
)

// loadWrites is how many batches of a copy are under way at a time.
const loadWrites = 16

// CopyTo writes what is durable now as a database of its own into a new folder, beside everything else.
func (db *DB) CopyTo(ctx context.Context, dir string) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("copy channel database to %s: %w", dir, err)
		}
	}()
	db.mu.RLock()
	if db.closed {
		db.mu.RUnlock()
		return ErrClosed
	}
	db.readers.Add(1)
	db.mu.RUnlock()
	defer db.readers.Done()
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	said := &tables.Log{To: db.log}
	to, err := badger.Open(badgerOptions(dir, said))
	if err != nil {
		return err
	}
	r, w := io.Pipe()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		_, err := db.b.Backup(w, 0)
		w.CloseWithError(err) // reaches Load
	}()
	stop := context.AfterFunc(ctx, func() { r.CloseWithError(ctx.Err()) })
	defer stop()
	err = to.Load(r, loadWrites)
	r.CloseWithError(err) // so that the other end stops too
	<-sent
	err = errors.Join(err, to.Close(), said.Unsynced())
	if err == nil {
		err = db.scrub(ctx, 0) // what cannot be read is not in the copy
	}
	return err
}
