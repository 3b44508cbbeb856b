package badgerdb

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"

	"github.com/dgraph-io/badger/v4"

	"shoal/channel"
)

// Epoch is channel.Epoch.
type Epoch = channel.Epoch

// maxGroup is the maximum number of writes that share a commit, and of writes that wait for one.
const maxGroup = 1024

// op is one write. The committer calls run, which reads and writes through t. The write happens whole or not at all.
type op struct {
	epoch *Epoch // nil: not checked
	run   func(t *tx) error
	err   error // what became of it; set by the committer
}

// write submits an op that carries an epoch.
func (db *DB) write(ctx context.Context, e Epoch, run func(t *tx) error) error {
	return db.submit(ctx, &op{epoch: &e, run: run})
}

// submit passes ops to the committer and waits until each is durable or refused, in their order. ctx ends only the wait for a place in the
// queue; a queued op is always done. The error is the first one.
func (db *DB) submit(ctx context.Context, ops ...*op) error {
	if err := db.commits.Submit(ctx, ops...); err != nil {
		return err
	}
	for _, o := range ops {
		if o.err != nil {
			return o.err
		}
	}
	return nil
}

// doGroup runs ops in order and commits them together, or in several commits if they are too large for one. It is the
// committer: one call runs at a time. After an error it is unknown what is durable.
func (db *DB) doGroup(group []*op) error {
	if err := db.ready(); err != nil {
		for _, o := range group {
			o.err = err
		}
		return nil
	}
	t := newTx(db.b)
	var waiting []*op
	flush := func() {
		err := db.commit(t)
		for _, o := range waiting {
			o.err = err
		}
		waiting = waiting[:0]
		t.discard()
	}
	for _, o := range group {
		if err := db.runOp(o, t); err != nil {
			t.reject()
			o.err = err
			continue
		}
		if !t.fits(db.b) && len(waiting) > 0 {
			flush()
			t = t.renew(db.b)
		}
		if !t.fits(db.b) {
			o.err = fmt.Errorf("%w: %d records", ErrTooLarge, len(t.own))
			t.reject()
			continue
		}
		t.accept()
		waiting = append(waiting, o)
	}
	flush()
	return db.broken
}

func (db *DB) runOp(o *op, t *tx) error {
	if db.broken != nil {
		return db.broken
	}
	if o.epoch != nil {
		present, err := t.metaUint(metaEpoch)
		if err != nil {
			return err
		}
		if uint64(*o.epoch) != present {
			return fmt.Errorf("%w: this one's epoch is %d, the present one %d", channel.ErrStaleEpoch, *o.epoch, present)
		}
	}
	return o.run(t)
}

// ready returns an error if nothing may be written.
func (db *DB) ready() error {
	if db.broken != nil {
		return db.broken
	}
	if err := db.Damaged(); err != nil {
		return err
	}
	if db.cfg.MinFree == 0 {
		return nil
	}
	if free, ok := freeBytes(db.cfg.Dir); ok && free < db.cfg.MinFree {
		return fmt.Errorf("%w: %s has %d MiB left, %d MiB are needed: make room; nothing is lost, and writing goes on by itself then",
			ErrDiskFull, db.cfg.Dir, free>>20, db.cfg.MinFree>>20)
	}
	return nil
}

// commit makes the accepted writes of t durable. If it fails, nothing more is written.
func (db *DB) commit(t *tx) error {
	switch {
	case db.broken != nil:
		return db.broken
	case len(t.group) == 0:
		run(t.then)
		return nil
	}
	run(t.before)
	err := db.commitOnce(t)
	if err != nil {
		db.broken = fmt.Errorf("%w: open the database again to go on (%w)", ErrBroken, err)
		return db.broken
	}
	run(t.then)
	return nil
}

func (db *DB) commitOnce(t *tx) error {
	if err := db.failed("commit"); err != nil {
		return err
	}
	w := db.b.NewTransaction(true)
	defer w.Discard()
	for k, v := range t.group { // a transaction has no order
		var err error
		if v == nil {
			err = w.Delete([]byte(k))
		} else {
			err = w.Set([]byte(k), v)
		}
		if err != nil {
			return fmt.Errorf("write: %w", err)
		}
	}
	if err := w.Commit(); err != nil { // which syncs
		return fmt.Errorf("commit: %w", err)
	}
	if err := db.failed("sync"); err != nil {
		return err
	}
	if err := db.said.Unsynced(); err != nil {
		return fmt.Errorf("sync: %w", err)
	}
	return nil
}

func (db *DB) failed(stage string) error {
	if db.fail == nil {
		return nil
	}
	return db.fail(stage)
}

// tx collects the writes of the ops accepted into a group and those of the running op. Its reads see all of them.
type tx struct {
	base         *badger.Txn
	group        map[string][]byte // nil value: deleted
	size         int64             // of group, as Badger counts
	before, then []func()          // of the group: to run before its commit, and after it

	own                map[string][]byte
	ownBefore, ownThen []func()
}

func newTx(b *badger.DB) *tx {
	return &tx{base: b.NewTransaction(false), group: make(map[string][]byte), own: make(map[string][]byte)}
}

func (t *tx) discard() { t.base.Discard() }

// get returns nil for a missing key. The caller must not change the result.
func (t *tx) get(key []byte) ([]byte, error) {
	if v, ok := t.own[string(key)]; ok {
		return v, nil
	}
	if v, ok := t.group[string(key)]; ok {
		return v, nil
	}
	return read(t.base, key)
}

func read(b *badger.Txn, key []byte) ([]byte, error) {
	item, err := b.Get(key)
	if errors.Is(err, badger.ErrKeyNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %q: %w", key, err)
	}
	v, err := item.ValueCopy(nil)
	if err != nil {
		return nil, fmt.Errorf("read %q: %w", key, err)
	}
	if len(v) == 0 {
		return nil, damaged("empty value", key)
	}
	return v, nil
}

// put writes a value. The caller must not change it afterwards.
func (t *tx) put(key, value []byte) { t.own[string(key)] = value }

// putIfNew writes a value that differs from the stored one.
func (t *tx) putIfNew(key, value []byte) error {
	old, err := t.get(key)
	if err != nil || bytes.Equal(old, value) {
		return err
	}
	t.put(key, value)
	return nil
}

func (t *tx) del(key []byte) { t.own[string(key)] = nil }

// beforehand runs f on the committer before the op is committed; after runs f once the op is durable.
func (t *tx) beforehand(f func()) { t.ownBefore = append(t.ownBefore, f) }
func (t *tx) after(f func())      { t.ownThen = append(t.ownThen, f) }

// fits reports whether the group and the running op fit into one Badger transaction.
func (t *tx) fits(b *badger.DB) bool {
	size := t.size
	for k, v := range t.own {
		size += entrySize(k, v)
	}
	return int64(len(t.group)+len(t.own)) < b.MaxBatchCount()-1 && size < b.MaxBatchSize()-256
}

// entrySize is the size that counts towards Badger's transaction limit, rounded up.
func entrySize(k string, v []byte) int64 {
	return int64(len(k) + min(len(v), inlineValue) + 32)
}

func (t *tx) accept() {
	for k, v := range t.own {
		t.size += entrySize(k, v)
	}
	if len(t.group) == 0 {
		t.group, t.own = t.own, t.group
	} else {
		maps.Copy(t.group, t.own)
	}
	t.before = append(t.before, t.ownBefore...)
	t.then = append(t.then, t.ownThen...)
	t.reject()
}

func (t *tx) reject() {
	clear(t.own)
	t.ownBefore, t.ownThen = nil, nil
}

// renew begins a group with the running op after the last group was committed. What the op read is in the database
// now.
func (t *tx) renew(b *badger.DB) *tx {
	n := newTx(b)
	n.own, n.ownBefore, n.ownThen = maps.Clone(t.own), t.ownBefore, t.ownThen
	return n
}

func run(fs []func()) {
	for _, f := range fs {
		f()
	}
}

func (t *tx) metaUint(name string) (uint64, error) {
	raw, err := t.get(metaKey(name))
	if err != nil || raw == nil {
		return 0, err
	}
	if len(raw) != 9 || raw[0] != v1 {
		return 0, damaged(name, raw)
	}
	return binary.BigEndian.Uint64(raw[1:]), nil
}

func (t *tx) putMetaUint(name string, n uint64) {
	t.put(metaKey(name), binary.BigEndian.AppendUint64([]byte{v1}, n))
}

// nextID returns the id of the next channel.
func (t *tx) nextID() (uint64, error) {
	n, err := t.metaUint(metaNext)
	return max(n, 1), err
}
