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

// loadWrites is the number of batches of a copy in flight.
const loadWrites = 16

// CopyTo copies everything durable into a database in a new folder, while the database stays in use.
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
