package badgerdb

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/dgraph-io/badger/v4"

	"shoal/channel"
)

// A blob of any size has a head, which names a series and its number of parts, and the parts of that series. The head
// is written last, so that a reader finds either the old blob or the new one.
const blobPart = 256 << 10

type blobHead struct {
	series uint64
	size   uint64
	sum    uint32
}

func (h blobHead) parts() uint64 { return (h.size + blobPart - 1) / blobPart }

func blobPartKey(name string, series, n uint64) []byte {
	k := append(nameKey(keyBlob, name), 0)
	k = binary.BigEndian.AppendUint64(k, series)
	return binary.BigEndian.AppendUint64(k, n)
}

func parseBlobHead(raw []byte) (blobHead, error) {
	if raw == nil {
		return blobHead{}, nil
	}
	r := reader{b: raw}
	r.version()
	h := blobHead{series: r.uint(), size: r.uint(), sum: r.uint32()}
	return h, r.end("state")
}

// PutState stores the state of a strategy under a name and replaces the old state.
func (db *DB) PutState(ctx context.Context, e Epoch, name string, state []byte) error {
	if name == "" || len(name) > channel.MaxName || len(state) > channel.MaxStateBlob {
		return fmt.Errorf("%w: state of %d bytes, its name of %d", ErrTooLarge, len(state), len(name))
	}
	db.blobs.Lock() // one at a time, or two could write the same series
	defer db.blobs.Unlock()
	var old blobHead
	err := db.view(func(b *badger.Txn, _ ranges) (err error) {
		raw, err := read(b, nameKey(keyBlob, name))
		if err != nil {
			return err
		}
		old, err = parseBlobHead(raw)
		return err
	})
	if err != nil {
		return err
	}
	head := blobHead{old.series + 1, uint64(len(state)), crc32.ChecksumIEEE(state)}
	for n := range head.parts() {
		part := state[n*blobPart : min((n+1)*blobPart, head.size)]
		value := append([]byte{v1}, part...)
		if err := db.write(ctx, e, func(t *tx) error { t.put(blobPartKey(name, head.series, n), value); return nil }); err != nil {
			return err
		}
	}
	return db.write(ctx, e, func(t *tx) error {
		b := binary.AppendUvarint([]byte{v1}, head.series)
		b = binary.AppendUvarint(b, head.size)
		t.put(nameKey(keyBlob, name), binary.BigEndian.AppendUint32(b, head.sum))
		for n := range old.parts() {
			t.del(blobPartKey(name, old.series, n))
		}
		return nil
	})
}

// Kept returns a state as each manager keeps it that has the database or has had it: what one keeps that has it for itself comes first.
func (db *DB) Kept(ctx context.Context, name string) (all [][]byte, err error) {
	names := []string{name}
	if err := db.view(func(b *badger.Txn, _ ranges) error {
		return each(b, []byte{keyBlob}, func(key, _ []byte) error {
			if of, own := channel.CutOwnState(string(key[1:])); own && of == name {
				names = append(names, string(key[1:]))
			}
			return ctx.Err()
		})
	}); err != nil {
		return nil, err
	}
	for _, of := range names {
		state, err := db.State(ctx, of)
		if err != nil {
			return nil, err
		}
		if state != nil {
			all = append(all, state)
		}
	}
	return all, nil
}

// State returns a strategy's state, nil if none has this name.
func (db *DB) State(_ context.Context, name string) (state []byte, err error) {
	err = db.view(func(b *badger.Txn, _ ranges) error {
		raw, err := read(b, nameKey(keyBlob, name))
		if err != nil || raw == nil {
			return err
		}
		h, err := parseBlobHead(raw)
		if err != nil {
			return err
		}
		if h.size > channel.MaxStateBlob {
			return damaged("state", raw)
		}
		state = make([]byte, 0, h.size)
		for n := range h.parts() {
			part, err := read(b, blobPartKey(name, h.series, n))
			if err != nil {
				return err
			}
			if part == nil || part[0] != v1 {
				return damaged("state", raw)
			}
			state = append(state, part[1:]...)
		}
		if uint64(len(state)) != h.size || crc32.ChecksumIEEE(state) != h.sum {
			return damaged("state", raw)
		}
		return nil
	})
	return state, err
}
