package badgerdb

import (
	"bytes"
	"context"
	"fmt"

	"github.com/dgraph-io/badger/v4"

	"shoal/channel"
)

// Scan calls f with the hot part of the channels with ids from first to last, in order. If last is 0, it goes on to
// the end. The slices passed to f are valid during the call only. An error of f ends the scan.
func (db *DB) Scan(ctx context.Context, first, last channel.ID, f func(channel.Hot) error) error {
	f = shielded(f)
	if last == 0 {
		last--
	}
	return db.view(func(b *badger.Txn, staged ranges) error {
		it := b.NewIterator(keysOnly([]byte{keyFacts}))
		defer it.Close()
		leases := b.NewIterator(keysOnly([]byte{keyLease}))
		defer leases.Close()
		leases.Seek(idKey(keyLease, first))
		n := 0
		for it.Seek(idKey(keyFacts, first)); it.Valid(); it.Next() {
			id := keyID(it.Item().Key())
			if id > last {
				break
			}
			if n++; n%65536 == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
			if staged.has(id) {
				continue
			}
			h := channel.Hot{ID: id}
			if err := it.Item().Value(func(v []byte) error { return readFacts(v, &h) }); err != nil {
				return fmt.Errorf("channel %d: %w", id, err)
			}
			for leases.Valid() && keyID(leases.Item().Key()) < id {
				leases.Next()
			}
			if leases.Valid() && keyID(leases.Item().Key()) == id {
				if err := leases.Item().Value(func(v []byte) error { return readLease(v, &h) }); err != nil {
					return fmt.Errorf("channel %d: %w", id, err)
				}
			}
			if h.Host == 0 { // written by an older program
				ch, err := load(func(k []byte) ([]byte, error) { return read(b, k) }, id)
				if err != nil {
					return err
				}
				h.Host = channel.KeyOf(ch.Scope.Host)
			}
			if err := f(h); err != nil {
				return err
			}
		}
		return nil
	})
}

func readFacts(v []byte, h *channel.Hot) error {
	rec, err := parseFactsIn(v)
	if err != nil {
		return err
	}
	h.State, h.Weight, h.Group, h.Host, h.Links, h.Facts = rec.state, rec.weight, rec.group, rec.host, rec.links, rec.blob
	return nil
}

func readLease(v []byte, h *channel.Hot) error {
	rec, err := parseLeaseIn(v)
	if err != nil {
		return err
	}
	h.Gen, h.Submitted, h.Lease = rec.gen, rec.submitted, rec.blob
	return nil
}

// Lease returns the lease's record of a channel, nil if the channel was never handed out.
func (db *DB) Lease(_ context.Context, id channel.ID) (lease []byte, err error) {
	err = db.view(func(b *badger.Txn, staged ranges) error {
		if staged.has(id) {
			return nil
		}
		raw, err := read(b, idKey(keyLease, id))
		if err != nil {
			return err
		}
		rec, err := parseLease(raw)
		lease = rec.blob
		return err
	})
	return lease, err
}

// Matching returns the channels whose host name, scheme included, contains a text: n of them beginning with number
// from, and the total. Channels of one directory or a whole host come first, then those of several directories, both
// ordered by name.
func (db *DB) Matching(ctx context.Context, text string, from, n int) (ids []channel.ID, total int, err error) {
	err = db.view(func(b *badger.Txn, staged ranges) error {
		for _, kind := range []byte{keyPlace, keySet} {
			if err := eachMatching(ctx, b, kind, text, func(id channel.ID) {
				if staged.has(id) {
					return
				}
				if total >= from && len(ids) < n {
					ids = append(ids, id)
				}
				total++
			}); err != nil {
				return err
			}
		}
		return nil
	})
	return ids, total, err
}

func eachMatching(ctx context.Context, b *badger.Txn, kind byte, text string, f func(channel.ID)) error {
	it := b.NewIterator(keysOnly([]byte{kind}))
	defer it.Close()
	var prefix []byte // of the host that was looked at last
	matches, seen, want := false, 0, []byte(text)
	for it.Rewind(); it.Valid(); it.Next() {
		if seen++; seen%65536 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		key := it.Item().Key()
		if len(prefix) == 0 || !bytes.HasPrefix(key, prefix) {
			origin, rest, ok := parseHostKey(key)
			if !ok {
				return damaged("place", key)
			}
			prefix = append(prefix[:0], key[:len(key)-len(rest)]...)
			matches = bytes.Contains([]byte(origin), want)
		}
		if !matches || kind == keyPlace && !isPlaceOne(key[len(prefix):]) {
			continue
		}
		id, err := placeID(it.Item())
		if err != nil {
			return err
		}
		f(id)
	}
	return nil
}

// isPlaceOne reports whether the rest of a place's key belongs to a channel with one directory. A directory contains
// neither marker byte.
func isPlaceOne(rest []byte) bool {
	i := bytes.IndexFunc(rest, func(r rune) bool { return r <= placeSet })
	return i >= 0 && rest[i] == placeOne
}
