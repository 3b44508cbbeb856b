package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"shoal/channel"
	"shoal/internal/member"
)

// A migration that is broken off behind its copy leaves channels on the server, which the manager's next hours make old. They are known by a mark, which the
// folder has too: who finds its own mark may put newer channels in their place. The mark goes when the folder names the server.
const (
	markFile  = "migrating" // below the data folder
	markState = "migrating" // among the states of a database
)

// markOf is the mark of a data folder's migration.
func markOf(data string) (string, error) {
	at := filepath.Join(data, markFile)
	if b, err := os.ReadFile(at); !errors.Is(err, fs.ErrNotExist) {
		return strings.TrimSpace(string(b)), err
	}
	mark := make([]byte, 16)
	rand.Read(mark)
	return hex.EncodeToString(mark), member.WriteFile(at, []byte(hex.EncodeToString(mark)+"\n"))
}

// isOurs reports whether a database holds what an earlier try of this migration has left there.
func isOurs(ctx context.Context, db database, mark string) bool {
	is, err := db.State(ctx, markState)
	return err == nil && mark != "" && string(is) == mark
}

// clearOurs empties a database of what an earlier try has left there.
func clearOurs(ctx context.Context, db database, mark string) error {
	if s, ok := db.(server); ok && isOurs(ctx, db, mark) {
		return s.Clear(ctx)
	}
	return nil
}

// unmark says that the migration is done.
func unmark(ctx context.Context, data string, db database) error {
	e, err := db.Take(ctx)
	if err != nil {
		return err
	}
	if err := db.PutState(ctx, e, markState, nil); err != nil {
		return err
	}
	return os.Remove(filepath.Join(data, markFile))
}

// isMark reports whether an item is a mark, which no database counts as its own.
func isMark(it *channel.Item) bool { return it.State != nil && it.State.Name == markState }

// marked are the items of a database, with a mark unless it is empty.
func marked(ctx context.Context, from database, mark string) iter.Seq2[channel.Item, error] {
	return func(yield func(channel.Item, error) bool) {
		if mark != "" && !yield(channel.Item{State: &channel.Blob{Name: markState, Body: []byte(mark)}}, nil) {
			return
		}
		for it, err := range dumped(ctx, from) {
			if err == nil && isMark(&it) {
				continue
			}
			if !yield(it, err) {
				return
			}
		}
	}
}

// copyAll copies a database into an empty one, reads both again and compares. If the other one already holds the same,
// because an earlier migration was broken off behind the copy, that is as good.
func copyAll(ctx context.Context, from, to database, mark string) (done migrated, err error) {
	loaded := to.Load(ctx, marked(ctx, from, mark))
	if loaded != nil && !errors.Is(loaded, channel.ErrNotEmpty) {
		return done, loaded
	}
	var a, b channel.Sum
	if err := from.Dump(ctx, func(it channel.Item) error {
		if !isMark(&it) {
			a.Add(&it)
		}
		if it.Channel != nil {
			done.Channels++
		}
		return nil
	}); err != nil {
		return done, err
	}
	if err := to.Dump(ctx, func(it channel.Item) error {
		if !isMark(&it) {
			b.Add(&it)
		}
		return nil
	}); err != nil {
		return done, err
	}
	switch done.Items = a.Items(); {
	case a.Equal(&b):
		return done, nil
	case loaded != nil:
		return done, loaded
	}
	return done, fmt.Errorf("the copy does not hold what the database holds: nothing was changed; this is a fault of this program, please report it (%d items and %d)", a.Items(), b.Items())
}
