package badgerdb

import (
	"context"
	"fmt"
	"slices"

	"github.com/dgraph-io/badger/v4"

	"shoal/channel"
)

// Scan reads the hot part of the channels with ids from first to last, in their order; last 0: all the rest. The slices and pointers
// that f gets are its own; f's error ends the scan.
func (db *DB) Scan(ctx context.Context, first, last channel.ID, f func(channel.Hot) error) error {
	f = shielded(f)
	if last == 0 {
		last--
	}
	return db.view(func(b *badger.Txn, staged ranges) error {
		hosts, err := hostsOf(ctx, b, first, last)
		if err != nil {
			return err
		}
		it := b.NewIterator(keysOnly([]byte{keyFacts}))
		defer it.Close()
		leases := b.NewIterator(keysOnly([]byte{keyLease}))
		defer leases.Close()
		leases.Seek(idKey(keyLease, first))
		var arena []byte
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
			if h.Host, err = hosts.name(b, id); err != nil {
				return err
			}
			if err := it.Item().Value(func(v []byte) error { return readFacts(v, &h, &arena) }); err != nil {
				return fmt.Errorf("channel %d: %w", id, err)
			}
			for leases.Valid() && keyID(leases.Item().Key()) < id {
				leases.Next()
			}
			if leases.Valid() && keyID(leases.Item().Key()) == id {
				if err := leases.Item().Value(func(v []byte) error { return readLease(v, &h, &arena) }); err != nil {
					return fmt.Errorf("channel %d: %w", id, err)
				}
			}
			if err := f(h); err != nil {
				return err
			}
		}
		return nil
	})
}

func readFacts(v []byte, h *channel.Hot, arena *[]byte) error {
	rec, err := parseFactsIn(v)
	if err != nil {
		return err
	}
	h.State, h.Weight, h.Group, h.Facts = rec.state, rec.weight, rec.group, keep(rec.blob, arena)
	return nil
}

func readLease(v []byte, h *channel.Hot, arena *[]byte) error {
	rec, err := parseLeaseIn(v)
	if err != nil {
		return err
	}
	h.Gen, h.Lease = rec.gen, keep(rec.blob, arena)
	return nil
}

// keep copies a small record into a large piece of memory, of which many share one.
func keep(b []byte, arena *[]byte) []byte {
	const piece = 64 << 10
	if len(b) == 0 {
		return nil
	}
	if len(b) > piece/4 {
		return slices.Clone(b)
	}
	if cap(*arena)-len(*arena) < len(b) {
		*arena = make([]byte, 0, piece)
	}
	start := len(*arena)
	*arena = append(*arena, b...)
	return (*arena)[start:len(*arena):len(*arena)]
}

// hostNames knows the hosts of channels by id: of all, from one pass over the index, where reading them one by one would be too slow.
type hostNames struct {
	names []string
	of    []uint32 // by id - first; index+1 into names
	first channel.ID
}

// oneByOne is the number of channels from which a pass over the index is quicker.
const oneByOne = 2000

func hostsOf(ctx context.Context, b *badger.Txn, first, last channel.ID) (*hostNames, error) {
	h := &hostNames{first: max(first, 1)}
	next, err := (&tx{base: b}).nextID()
	if err != nil || next <= uint64(h.first) {
		return h, err
	}
	last = min(last, channel.ID(next-1))
	if last < h.first || last-h.first < oneByOne {
		return h, nil
	}
	h.of = make([]uint32, last-h.first+1)
	it := b.NewIterator(keysOnly([]byte{keyPlace}))
	defer it.Close()
	var prefix []byte
	n := 0
	for it.Rewind(); it.Valid(); it.Next() {
		if n++; n%65536 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		id, err := placeID(it.Item())
		if err != nil {
			return nil, err
		}
		key := it.Item().Key()
		if len(prefix) == 0 || !hasHost(key, prefix) {
			origin, rest, ok := parseHostKey(key)
			if !ok {
				return nil, damaged("place", key)
			}
			prefix = append(prefix[:0], key[:len(key)-len(rest)]...)
			h.names = append(h.names, origin)
		}
		if id >= h.first && id <= last {
			h.of[id-h.first] = uint32(len(h.names))
		}
	}
	return h, nil
}

func hasHost(key, prefix []byte) bool {
	return len(key) >= len(prefix) && string(key[:len(prefix)]) == string(prefix)
}

func (h *hostNames) name(b *badger.Txn, id channel.ID) (string, error) {
	if i := uint64(id - h.first); i < uint64(len(h.of)) && h.of[i] != 0 {
		return h.names[h.of[i]-1], nil
	}
	ch, err := load(func(k []byte) ([]byte, error) { return read(b, k) }, id)
	return ch.Scope.Host, err
}
