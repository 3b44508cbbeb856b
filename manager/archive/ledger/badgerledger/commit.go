package badgerledger

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/dgraph-io/badger/v4"
	"google.golang.org/protobuf/proto"

	pb "shoal/manager/archive/archivepb"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/schema"
)

// What a transaction keeps free for the archive's own record, in records and bytes.
const (
	spareCount = 16
	spareBytes = 64 << 10
)

// Commit implements ledger.Store.
func (s *Store) Commit(writes []ledger.Write) (refused []error, err error) {
	err = s.use(func() error {
		b := batch{s: s, head: proto.CloneOf(&s.head)}
		defer b.discard()
		if refused, err = b.addAll(writes); err != nil {
			return err
		}
		return b.finish()
	})
	if err != nil {
		return nil, err
	}
	return refused, nil
}

// addAll puts writes into the batch. refused has what is wrong with those that are not in it, up to an error.
func (b *batch) addAll(writes []ledger.Write) (refused []error, err error) {
	refused = make([]error, len(writes))
	for n := range writes {
		err := b.add(&writes[n])
		if errors.Is(err, ledger.ErrConflict) || errors.Is(err, ledger.ErrTooLarge) {
			refused[n] = err
		} else if err != nil {
			return refused, err
		}
		if b.at != nil {
			b.at.Done++
		}
	}
	return refused, nil
}

// batch makes writes durable in as few transactions as they need.
type batch struct {
	s           *Store
	head        *pb.State
	at          *Position   // in a log that is followed; nil: none is
	txn         *badger.Txn // nil: the next change begins one
	count, size int64
}

// add puts a write into the batch.
func (b *batch) add(w *ledger.Write) error {
	count, size := weigh(w)
	if !b.fits(count, size) {
		return fmt.Errorf("%w: %d changes of %d bytes", ledger.ErrTooLarge, count, size)
	}
	for _, c := range []ledger.Change{w.If, w.Also} {
		if err := b.holds(c); err != nil {
			return err
		}
	}
	for _, c := range w.Early {
		if err := b.room(1, weight(len(c.Key), c.Value)); err != nil {
			return err
		}
		if err := b.set(c); err != nil {
			return err
		}
	}
	if err := b.room(count, size); err != nil {
		return err
	}
	for _, c := range w.Changes {
		if err := b.set(c); err != nil {
			return err
		}
	}
	h := b.head
	h.NextSeq = max(h.NextSeq, w.Number)
	for n, e := range w.Entries {
		if err := b.set(ledger.Change{Key: schema.Key(e.Feed, h.NextSeq+uint64(n)), Value: e.Value}); err != nil {
			return err
		}
	}
	h.NextSeq += uint64(len(w.Entries))
	h.Pages, h.Unchanged, h.Chunks = h.Pages+w.Add.Pages, h.Unchanged+w.Add.Unchanged, h.Chunks+w.Add.Chunks
	h.Bytes, h.Events = h.Bytes+w.Add.Bytes, h.Events+w.Add.Events
	h.File = max(h.File, w.Segment)
	return nil
}

// holds tells whether a write's condition holds.
func (b *batch) holds(c ledger.Change) error {
	if c.Key == nil {
		return nil
	}
	same := false
	found, err := snapshot{b.begin()}.Get(c.Key, func(v []byte) error {
		same = bytes.Equal(v, c.Value)
		return nil
	})
	if err == nil && (found && !same || found != (c.Value != nil)) {
		err = ledger.ErrConflict
	}
	return err
}

func (b *batch) begin() *badger.Txn {
	if b.txn == nil {
		b.txn = b.s.db.NewTransaction(true)
	}
	return b.txn
}

// fits tells whether so much may be in one transaction.
func (b *batch) fits(count, size int64) bool {
	return count <= b.s.db.MaxBatchCount()-spareCount && size <= b.s.db.MaxBatchSize()-spareBytes
}

// room sees to it that so much goes into the transaction, and ends it first if that is too full.
func (b *batch) room(count, size int64) error {
	if !b.fits(b.count+count, b.size+size) {
		if err := b.finish(); err != nil {
			return err
		}
	}
	b.count, b.size = b.count+count, b.size+size
	return nil
}

func (b *batch) set(c ledger.Change) error {
	if c.Value == nil {
		return b.begin().Delete(c.Key)
	}
	return b.begin().Set(c.Key, c.Value)
}

// weigh counts the records of a write, but for the early ones.
func weigh(w *ledger.Write) (count, size int64) {
	for _, c := range w.Changes {
		size += weight(len(c.Key), c.Value)
	}
	for _, e := range w.Entries {
		size += weight(entryKey, e.Value)
	}
	return int64(len(w.Changes) + len(w.Entries)), size
}

// entryKey is the length of the key of a feed's entry.
const entryKey = 9

// weight is at least what a record counts in a transaction.
func weight(key int, value []byte) int64 {
	n := int64(key) + 16
	if len(value) < valueThreshold {
		return n + int64(len(value))
	}
	return n + 16
}

// finish makes the transaction durable, with the archive's own record as it is after it.
func (b *batch) finish() error {
	v, err := schema.Encode(b.head)
	if err != nil {
		return err
	}
	if err := b.begin().Set([]byte{schema.State}, v); err != nil {
		return err
	}
	if b.at != nil {
		if err := b.txn.Set(positionKey, b.at.encode()); err != nil {
			return err
		}
	}
	if err := errors.Join(b.txn.Commit(), b.s.said.Unsynced()); err != nil {
		return err
	}
	b.txn, b.count, b.size = nil, 0, 0
	b.s.mu.Lock()
	defer b.s.mu.Unlock()
	b.s.head = pb.State{}
	proto.Merge(&b.s.head, b.head)
	return nil
}

func (b *batch) discard() {
	if b.txn != nil {
		b.txn.Discard()
	}
}
