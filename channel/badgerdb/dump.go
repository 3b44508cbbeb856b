package badgerdb

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/dgraph-io/badger/v4"

	"shoal/channel"
)

// Dump calls f with everything that the database holds, as of one moment.
func (db *DB) Dump(ctx context.Context, f func(channel.Item) error) error {
	f = shielded(f)
	var states []string
	err := db.view(func(b *badger.Txn, staged ranges) error {
		get := func(k []byte) ([]byte, error) { return read(b, k) }
		if err := each(b, []byte{keyFacts}, func(key, _ []byte) error {
			id := keyID(key)
			if staged.has(id) {
				return nil
			}
			ch, err := stored(get, id)
			if err != nil {
				return err
			}
			return pass(ctx, f, channel.Item{Channel: ch})
		}); err != nil {
			return err
		}
		return dumpRest(ctx, b, get, f, &states)
	})
	if err != nil {
		return err
	}
	for _, name := range states {
		state, err := db.State(ctx, name)
		if err != nil {
			return err
		}
		if err := f(channel.Item{State: &channel.Blob{Name: name, Body: state}}); err != nil {
			return err
		}
	}
	var next uint64
	if err := db.view(func(b *badger.Txn, _ ranges) (err error) {
		next, err = (&tx{base: b}).nextID()
		return err
	}); err != nil {
		return err
	}
	return f(channel.Item{Next: channel.ID(next)})
}

// pass hands one item on, unless the dump was canceled.
func pass(ctx context.Context, f func(channel.Item) error, it channel.Item) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return f(it)
}

// stored reads a channel with all that belongs to it.
func stored(get getter, id channel.ID) (*channel.Stored, error) {
	ch, err := load(get, id)
	if err != nil {
		return nil, err
	}
	ch.Inter = nil
	s := &channel.Stored{Channel: ch}
	raw, err := get(idKey(keyLease, id))
	if err != nil {
		return nil, err
	}
	l, err := parseLease(raw)
	if err != nil {
		return nil, err
	}
	s.Lease = l.blob
	if raw, err = get(idKey(keyInter, id)); err != nil {
		return nil, err
	}
	s.Pending, err = parseInter(raw)
	return s, err
}

// dumpRest passes on hosts, candidates, cursors and counters, and collects the names of the states.
func dumpRest(ctx context.Context, b *badger.Txn, get getter, f func(channel.Item) error, states *[]string) error {
	for _, kind := range []struct {
		key  byte
		item func(key, value []byte) (channel.Item, error)
	}{
		{keyHost, func(key, _ []byte) (channel.Item, error) {
			name, _, ok := parseHostKey(key)
			if !ok {
				return channel.Item{}, damaged("host", key)
			}
			h, err := loadHost(get, name)
			return channel.Item{Host: &h}, err
		}},
		{keyCandidate, func(key, value []byte) (channel.Item, error) {
			name, _, ok := parseHostKey(key)
			if !ok {
				return channel.Item{}, damaged("candidate", key)
			}
			c, err := parseCandidate(name, value)
			return channel.Item{Candidate: &c}, err
		}},
		{keyCursor, func(key, value []byte) (channel.Item, error) {
			at, err := parseText(value)
			return channel.Item{Cursor: &channel.Cursor{Feed: string(key[1:]), At: at}}, err
		}},
		{keyCounter, func(key, value []byte) (channel.Item, error) {
			n, err := parseCounter(value)
			return channel.Item{Counter: &channel.Counter{Name: string(key[1:]), N: n}}, err
		}},
	} {
		if err := each(b, []byte{kind.key}, func(key, value []byte) error {
			it, err := kind.item(key, value)
			if err != nil {
				return err
			}
			return pass(ctx, f, it)
		}); err != nil {
			return err
		}
	}
	return each(b, []byte{keyBlob}, func(key, _ []byte) error {
		if name := string(key[1:]); !strings.Contains(name, "\x00") { // a head, not a part
			*states = append(*states, name)
		}
		return nil
	})
}

// loadBatch is the number of items that Load writes at a time.
const loadBatch = 500

// Load fills an empty database with the items of a dump. If it fails, the folder holds a part of them and is of no
// use: the caller removes it.
func (db *DB) Load(ctx context.Context, items iter.Seq2[channel.Item, error]) error {
	e, err := db.Take(ctx)
	if err != nil {
		return err
	}
	if err := db.mustBeEmpty(); err != nil {
		return err
	}
	var batch []channel.Item
	flush := func() error {
		full := batch
		batch = nil
		return db.loadItems(ctx, e, full)
	}
	for it, err := range items {
		if err != nil {
			return err
		}
		if it.State != nil {
			if err := db.PutState(ctx, e, it.State.Name, it.State.Body); err != nil {
				return err
			}
			continue
		}
		if batch = append(batch, it); len(batch) == loadBatch {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}

func (db *DB) mustBeEmpty() error {
	return db.view(func(b *badger.Txn, _ ranges) error {
		for _, kind := range []byte{keyFacts, keyHost, keyCandidate, keyCursor, keyCounter, keyBlob} {
			if err := each(b, []byte{kind}, func(_, _ []byte) error {
				return fmt.Errorf("%w: %s: choose another folder", channel.ErrNotEmpty, db.cfg.Dir)
			}); err != nil {
				return err
			}
		}
		return nil
	})
}

// loadItems writes items, in halves where they are too many for one commit.
func (db *DB) loadItems(ctx context.Context, e Epoch, items []channel.Item) error {
	if len(items) == 0 {
		return nil
	}
	err := db.write(ctx, e, func(t *tx) error {
		for i := range items {
			if err := loadItem(t, &items[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if half := len(items) / 2; errors.Is(err, ErrTooLarge) && half > 0 {
		if err := db.loadItems(ctx, e, items[:half]); err != nil {
			return err
		}
		return db.loadItems(ctx, e, items[half:])
	}
	return err
}

func loadItem(t *tx, it *channel.Item) error {
	switch {
	case it.Channel != nil:
		return loadChannel(t, it.Channel)
	case it.Host != nil:
		return putHost(t, it.Host)
	case it.Candidate != nil:
		total, err := t.metaUint(metaFound)
		t.put(hostKey(keyCandidate, it.Candidate.Host), encodeCandidate(it.Candidate))
		t.putMetaUint(metaFound, total+1)
		return err
	case it.Cursor != nil:
		t.put(nameKey(keyCursor, it.Cursor.Feed), appendText([]byte{v1}, it.Cursor.At))
	case it.Counter != nil:
		t.put(nameKey(keyCounter, it.Counter.Name), encodeCounter(it.Counter.N))
	default:
		t.putMetaUint(metaNext, uint64(it.Next))
	}
	return nil
}

func loadChannel(t *tx, s *channel.Stored) error {
	n, err := prepareNew(&s.Channel)
	if err != nil {
		return fmt.Errorf("channel %d: %w", s.ID, err)
	}
	f, err := parseFacts(n.facts)
	if err != nil {
		return err
	}
	f.links = min(f.links+len(s.Pending), channel.MaxLinks)
	n.facts = f.encode()
	if n.learnt = encodeLearnt(&s.Learnt, channel.Text(s.Reason)); slices.Equal(n.learnt, encodeLearnt(&channel.Learnt{}, "")) {
		n.learnt = nil
	}
	taken, err := sameHolder(t.get, n.scope) // versions before 0.2.0 could have a channel of each spelling
	if err != nil {
		return err
	}
	if taken != 0 {
		return s.Scope.Taken(taken)
	}
	n.put(t, s.ID)
	if s.Learnt.Gen != 0 || len(s.Lease) > 0 {
		l := leaseRecord{s.Learnt.Gen, s.Learnt.Submitted, s.Lease}
		t.put(idKey(keyLease, s.ID), l.encode())
	}
	if len(s.Pending) > 0 {
		t.put(idKey(keyInter, s.ID), encodeInter(s.Pending))
	}
	return nil
}
