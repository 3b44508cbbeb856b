package badgerdb

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dgraph-io/badger/v4"

	"shoal/channel"
)

// Add adds channels and assigns their ids. It ignores their ID, Learnt and Inter, except for Learnt.EstimatorBlob,
// the scheduler's record. It refuses channels whose scope is taken with ErrDuplicate and adds the others.
func (db *DB) Add(ctx context.Context, e Epoch, chs []channel.Channel) (ids []channel.ID, refused []channel.Refusal, err error) {
	if len(chs) > channel.MaxAdd {
		return nil, nil, fmt.Errorf("%w: %d channels, at most %d: import them", ErrTooLarge, len(chs), channel.MaxAdd)
	}
	news := make([]newChannel, len(chs))
	for i := range chs {
		if news[i], err = prepareNew(&chs[i]); err != nil {
			return nil, nil, fmt.Errorf("channel %d of %d: %w", i+1, len(chs), err)
		}
	}
	err = db.write(ctx, e, func(t *tx) error {
		ids, refused = make([]channel.ID, len(chs)), nil
		next, err := t.nextID()
		if err != nil {
			return err
		}
		for i := range news {
			taken, err := news[i].insert(t, channel.ID(next))
			if err != nil {
				return err
			}
			if taken != 0 {
				refused = append(refused, channel.Refusal{N: i, ID: taken, Err: chs[i].Scope.Taken(taken)})
				continue
			}
			ids[i] = channel.ID(next)
			next++
		}
		t.putMetaUint(metaNext, next)
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	return ids, refused, nil
}

// newChannel holds the parts of a new channel that are prepared before the committer assigns the id.
type newChannel struct {
	scope               *channel.Scope
	facts, learnt, cold []byte // learnt is nil if there is nothing to store
}

func prepareNew(ch *channel.Channel) (newChannel, error) {
	if err := ch.Scope.Validate(); err != nil {
		return newChannel{}, err
	}
	state := max(ch.State, channel.Active)
	if state > channel.Removed || len(ch.Learnt.EstimatorBlob) > channel.MaxEstimator {
		return newChannel{}, fmt.Errorf("%w: state %d, scheduler's record of %d bytes", channel.ErrMalformed, state, len(ch.Learnt.EstimatorBlob))
	}
	f := facts{state, ch.Settings.Weight, ch.Settings.Group, channel.KeyOf(ch.Scope.Host), min(len(ch.Seeds), channel.MaxLinks), ch.Learnt.EstimatorBlob}
	n := newChannel{scope: &ch.Scope, facts: f.encode()}
	if ch.Reason != "" {
		n.learnt = encodeLearnt(&channel.Learnt{}, channel.Text(ch.Reason))
	}
	var err error
	n.cold, err = encodeCold(ch)
	return n, err
}

// insert writes all records of a new channel unless its scope is taken.
func (n *newChannel) insert(t *tx, id channel.ID) (taken channel.ID, err error) {
	if taken, err = scopeHolder(t.get, n.scope); err == nil && taken == 0 {
		n.put(t, id)
	}
	return taken, err
}

func (n *newChannel) put(t *tx, id channel.ID) {
	t.put(scopeKey(n.scope), idValue(id))
	for k, v := range setPlaces(id, n.scope) {
		t.put([]byte(k), v)
	}
	t.put(idKey(keyFacts, id), n.facts)
	if n.learnt != nil {
		t.put(idKey(keyLearnt, id), n.learnt)
	}
	t.put(idKey(keyCold, id), n.cold)
}

// encodeCold encodes the channel without the fields that its other records and their keys hold.
func encodeCold(ch *channel.Channel) ([]byte, error) {
	c := *ch
	c.ID, c.State, c.Reason, c.Learnt, c.Inter = 0, 0, "", channel.Learnt{}, nil
	c.Added = c.Added.Truncate(time.Millisecond)
	raw := c.Marshal()
	if _, err := channel.ParseChannel(raw); err != nil { // never store a record that cannot be read back
		return nil, err
	}
	return append([]byte{v1}, raw...), nil
}

// getter reads one key, either from the database alone or including the running writes.
type getter func(key []byte) ([]byte, error)

// load assembles a channel from its records.
func load(get getter, id channel.ID) (channel.Channel, error) {
	var raws [5][]byte
	for i, kind := range []byte{keyFacts, keyCold, keyLearnt, keyLease, keyInter} {
		raw, err := get(idKey(kind, id))
		if err != nil {
			return channel.Channel{}, err
		}
		if raws[i] = raw; i == 0 && raw == nil {
			return channel.Channel{}, fmt.Errorf("%w: %d", channel.ErrUnknown, id)
		}
	}
	f, err := parseFacts(raws[0])
	if err != nil {
		return channel.Channel{}, err
	}
	if len(raws[1]) < 1 || raws[1][0] != v1 {
		return channel.Channel{}, damaged("channel", raws[1])
	}
	ch, err := channel.ParseChannel(raws[1][1:])
	if err != nil {
		return channel.Channel{}, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if ch.Learnt, ch.Reason, err = parseLearnt(raws[2]); err != nil {
		return channel.Channel{}, err
	}
	l, err := parseLease(raws[3])
	if err != nil {
		return channel.Channel{}, err
	}
	inter, err := parseInter(raws[4])
	if err != nil {
		return channel.Channel{}, err
	}
	for _, u := range inter {
		ch.Inter = append(ch.Inter, u.URL)
	}
	ch.ID, ch.State = id, f.state
	ch.Learnt.Gen, ch.Learnt.Submitted, ch.Learnt.EstimatorBlob = l.gen, l.submitted, f.blob
	return ch, nil
}

// Channel returns one channel.
func (db *DB) Channel(_ context.Context, id channel.ID) (ch channel.Channel, err error) {
	err = db.view(func(b *badger.Txn, staged ranges) error {
		if staged.has(id) {
			return fmt.Errorf("%w: %d", channel.ErrUnknown, id)
		}
		ch, err = load(func(k []byte) ([]byte, error) { return read(b, k) }, id)
		return err
	})
	return ch, err
}

// Entire returns many channels as of one moment, in the order of their ids. Those that are not there are left out.
func (db *DB) Entire(_ context.Context, ids []channel.ID) (all []channel.Entire, err error) {
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	err = db.view(func(b *badger.Txn, staged ranges) error {
		for _, id := range ids {
			if staged.has(id) {
				continue
			}
			var leased []byte // the record that load has read
			ch, err := load(func(k []byte) ([]byte, error) {
				raw, err := read(b, k)
				if k[0] == keyLease {
					leased = raw
				}
				return raw, err
			}, id)
			if errors.Is(err, channel.ErrUnknown) {
				continue
			}
			if err != nil {
				return err
			}
			l, err := parseLease(leased)
			if err != nil {
				return err
			}
			all = append(all, channel.Entire{Channel: ch, Lease: l.blob})
		}
		return nil
	})
	return all, err
}

// view runs f on a snapshot. staged are the channels in it that are not visible yet.
func (db *DB) view(f func(b *badger.Txn, staged ranges) error) (err error) {
	db.mu.RLock()
	if db.closed {
		db.mu.RUnlock()
		return ErrClosed
	}
	db.readers.Add(1)
	db.mu.RUnlock()
	defer db.readers.Done()
	defer func() {
		switch p := recover().(type) {
		case nil:
		case callersPanic:
			panic(p.any)
		default: // Badger panics over some bytes that are not what it wrote
			err = fmt.Errorf("%w: %s: restore the folder from a backup (%v)", ErrDamaged, db.cfg.Dir, p)
		}
	}()
	return db.b.View(func(b *badger.Txn) error { return f(b, db.stagedNow()) })
}

// callersPanic is a panic in a function that a caller passed in.
type callersPanic struct{ any }

// shielded marks the panics of f as the caller's.
func shielded[T any](f func(T) error) func(T) error {
	return func(v T) error {
		defer func() {
			if p := recover(); p != nil {
				panic(callersPanic{p})
			}
		}()
		return f(v)
	}
}

// Update changes a channel's scope, seeds, settings, state or reason, as an operator asks. It ignores changes to ID,
// Added, Learnt and Inter.
func (db *DB) Update(ctx context.Context, e Epoch, id channel.ID, change func(*channel.Channel)) error {
	return db.write(ctx, e, func(t *tx) error {
		if db.stagedNow().has(id) {
			return fmt.Errorf("%w: %d", channel.ErrUnknown, id)
		}
		old, err := load(t.get, id)
		if err != nil {
			return err
		}
		ch := old
		change(&ch)
		ch.ID, ch.Added = id, old.Added
		if err := ch.Scope.Validate(); err != nil {
			return err
		}
		if ch.State < channel.Active || ch.State > channel.Removed {
			return fmt.Errorf("%w: state %d", channel.ErrMalformed, ch.State)
		}
		if err := moveScope(t, id, &old.Scope, &ch.Scope); err != nil {
			return err
		}
		cold, err := encodeCold(&ch)
		if err != nil {
			return err
		}
		if err := t.putIfNew(idKey(keyCold, id), cold); err != nil {
			return err
		}
		if old.Reason != ch.Reason {
			t.put(idKey(keyLearnt, id), encodeLearnt(&old.Learnt, channel.Text(ch.Reason)))
		}
		f, err := t.facts(id)
		if err != nil {
			return err
		}
		f.state, f.weight, f.group, f.host = ch.State, ch.Settings.Weight, ch.Settings.Group, channel.KeyOf(ch.Scope.Host)
		return t.putIfNew(idKey(keyFacts, id), f.encode())
	})
}

// facts reads the facts of an existing channel.
func (t *tx) facts(id channel.ID) (facts, error) {
	raw, err := t.get(idKey(keyFacts, id))
	if err != nil {
		return facts{}, err
	}
	return parseFacts(raw)
}

// moveScope moves a channel's index entries from one scope to another.
func moveScope(t *tx, id channel.ID, from, to *channel.Scope) error {
	if from.Kind != to.Kind || from.Key() != to.Key() { // else older versions may have given what it reaches to another one, too
		if other, err := scopeHolder(t.get, to); err != nil {
			return err
		} else if other != 0 && other != id {
			return to.Taken(other)
		}
	}
	before, after := scopeKeys(id, from), scopeKeys(id, to)
	for k := range before {
		if _, ok := after[k]; !ok {
			t.del([]byte(k))
		}
	}
	for k, v := range after {
		if _, ok := before[k]; !ok {
			t.put([]byte(k), v)
		}
	}
	return nil
}

// Remove removes a channel. Its id is never used again.
func (db *DB) Remove(ctx context.Context, e Epoch, id channel.ID) error {
	return db.write(ctx, e, func(t *tx) error {
		if db.stagedNow().has(id) {
			return fmt.Errorf("%w: %d", channel.ErrUnknown, id)
		}
		return remove(t, id)
	})
}

func remove(t *tx, id channel.ID) error {
	ch, err := load(t.get, id)
	if err != nil {
		return err
	}
	for k := range scopeKeys(id, &ch.Scope) {
		t.del([]byte(k))
	}
	for _, kind := range []byte{keyFacts, keyCold, keyLearnt, keyLease, keyInter} {
		t.del(idKey(kind, id))
	}
	return nil
}

// List returns up to n channels with ids above after, in order.
func (db *DB) List(ctx context.Context, after channel.ID, n int) (chs []channel.Channel, err error) {
	err = db.view(func(b *badger.Txn, staged ranges) error {
		it := b.NewIterator(keysOnly([]byte{keyFacts}))
		defer it.Close()
		for it.Seek(idKey(keyFacts, after+1)); it.Valid() && len(chs) < n; it.Next() {
			id := keyID(it.Item().Key())
			if staged.has(id) || id <= after { // after+1 may have begun again at zero
				continue
			}
			ch, err := load(func(k []byte) ([]byte, error) { return read(b, k) }, id)
			if err != nil {
				return err
			}
			chs = append(chs, ch)
		}
		return ctx.Err()
	})
	return chs, err
}

func keysOnly(prefix []byte) badger.IteratorOptions {
	return badger.IteratorOptions{Prefix: prefix}
}

// Search returns up to n channels whose host name begins with prefix (without scheme), ordered by name and directory.
// To get more, the caller passes next as after; "" means that there are no more.
func (db *DB) Search(ctx context.Context, prefix, after string, n int) (chs []channel.Channel, next string, err error) {
	err = db.view(func(b *badger.Txn, staged ranges) error {
		it := b.NewIterator(keysOnly(append([]byte{keyPlace}, prefix...)))
		defer it.Close()
		start := append([]byte{keyPlace}, prefix...)
		if after != "" {
			key, err := base64.RawURLEncoding.DecodeString(after)
			if err != nil {
				return fmt.Errorf("%w: search position %q", channel.ErrMalformed, after)
			}
			key = append(key, 0)
			start = key
		}
		for it.Seek(start); it.Valid(); it.Next() {
			id, err := placeID(it.Item())
			if err != nil {
				return err
			}
			if staged.has(id) || slices.ContainsFunc(chs, func(c channel.Channel) bool { return c.ID == id }) {
				continue
			}
			if len(chs) == n {
				return ctx.Err()
			}
			ch, err := load(func(k []byte) ([]byte, error) { return read(b, k) }, id)
			if err != nil {
				return err
			}
			// A channel of several directories has several entries. Count it at its first.
			if key := it.Item().KeyCopy(nil); ch.Scope.Kind != channel.Directories || string(key) == string(firstPlace(&ch)) {
				chs = append(chs, ch)
				next = base64.RawURLEncoding.EncodeToString(key)
			}
		}
		next = ""
		return ctx.Err()
	})
	if err != nil {
		return nil, "", err
	}
	return chs, next, nil
}

func firstPlace(ch *channel.Channel) []byte {
	return setPlaceKey(ch.Scope.Host, slices.Min(ch.Scope.Dirs), ch.ID)
}

func placeID(item *badger.Item) (id channel.ID, err error) {
	verr := item.Value(func(v []byte) error {
		id, err = parseID(v)
		return err
	})
	return id, verr
}

// Lookup returns the most specific channel that holds a canonical URL by host and directory. It ignores filters.
func (db *DB) Lookup(ctx context.Context, canonicalURL string) (channel.ID, error) {
	ids, err := db.Holders(ctx, []string{canonicalURL})
	if err == nil && ids[0] == 0 {
		err = fmt.Errorf("%w: none holds %s", channel.ErrUnknown, canonicalURL)
	}
	if err != nil {
		return 0, err
	}
	return ids[0], nil
}
