package archive

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/dgraph-io/badger/v4"

	"shoal/channel"
	pb "shoal/manager/archive/archivepb"
)

// Move makes the pages of a scope, which are one channel's, another's: its next task knows them. Captures, texts and feed are by URL, and stay
// as they are. A chunk of the old channel's running task may take some back; the new one's next crawl takes them again.
func (a *Archive) Move(ctx context.Context, from, to channel.ID, scope *channel.Matcher) (pages int, err error) {
	for _, id := range []channel.ID{min(from, to), max(from, to)} {
		s, err := a.lock(id)
		if err != nil {
			return 0, err
		}
		defer a.unlock(id, s)
	}
	e := eraser{a: a}
	err = a.db.View(func(txn *badger.Txn) error {
		m := new(pb.Page)
		return scan(txn, key1(keyPage, uint64(from)), nil, true, func(key []byte, item *badger.Item) (bool, error) {
			m.Reset()
			if err := item.Value(func(b []byte) error { return decode(b, m) }); err != nil {
				return false, err
			}
			if !scope.Contains(m.Url) {
				return true, ctx.Err()
			}
			pages++
			m.Channel = uint64(to)
			v, err := encode(m)
			if err != nil {
				return false, err
			}
			h := binary.BigEndian.Uint64(key[9:])
			e.pending = append(e.pending, kv{key1(keyOwner, h), binary.BigEndian.AppendUint64(nil, uint64(to))},
				kv{key2(keyPage, uint64(to), h), v}, kv{bytes.Clone(key), nil})
			for _, kind := range []byte{keyHistory, keyLinks, keyRank} {
				if err := move(txn, key2(kind, uint64(from), h), key2(kind, uint64(to), h), &e); err != nil {
					return false, err
				}
			}
			if len(e.pending) >= upkeepBatch {
				if err := e.flush(); err != nil {
					return false, err
				}
			}
			return true, ctx.Err()
		})
	})
	if err == nil {
		err = e.flush()
	}
	if err != nil {
		return pages, fmt.Errorf("move pages of channel %d to channel %d: %w", from, to, err)
	}
	return pages, nil
}

// move renames a key, if it is there.
func move(txn *badger.Txn, from, to []byte, e *eraser) error {
	item, err := txn.Get(from)
	if errors.Is(err, badger.ErrKeyNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return item.Value(func(v []byte) error {
		e.pending = append(e.pending, kv{to, bytes.Clone(v)}, kv{from, nil})
		return nil
	})
}
