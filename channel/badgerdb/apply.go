package badgerdb

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/dgraph-io/badger/v4"

	"shoal/channel"
)

// Issue makes handings-out durable. When it returns, their offers may leave. It refuses those whose channel is gone
// or whose generation is not above the last one, and writes the others.
func (db *DB) Issue(ctx context.Context, e Epoch, issues []channel.Issue) (refused []channel.Refusal, err error) {
	if len(issues) > channel.MaxIssues {
		return nil, fmt.Errorf("%w: %d handings-out, at most %d", ErrTooLarge, len(issues), channel.MaxIssues)
	}
	err = db.write(ctx, e, func(t *tx) error {
		refused = nil
		for n, i := range issues {
			if len(i.Lease) > channel.MaxLease {
				return fmt.Errorf("%w: lease's record of %d bytes", channel.ErrTooLarge, len(i.Lease))
			}
			if f, err := t.get(idKey(keyFacts, i.ID)); err != nil {
				return err
			} else if f == nil {
				refused = append(refused, channel.Refusal{N: n, Err: fmt.Errorf("%w: %d", channel.ErrUnknown, i.ID)})
				continue
			}
			key := idKey(keyLease, i.ID)
			old, err := t.lease(key)
			if err != nil {
				return err
			}
			if i.Gen <= old.gen {
				refused = append(refused, channel.Refusal{N: n, Err: fmt.Errorf("%w: channel %d, %d after %d", channel.ErrGen, i.ID, i.Gen, old.gen)})
				continue
			}
			l := leaseRecord{i.Gen, i.At, i.Lease}
			t.put(key, l.encode())
		}
		return nil
	})
	return refused, err
}

func (t *tx) lease(key []byte) (leaseRecord, error) {
	raw, err := t.get(key)
	if err != nil {
		return leaseRecord{}, err
	}
	return parseLease(raw)
}

// Apply takes in stretches of feeds in their order, each whole or not at all. The cursor of a feed moves together
// with the effects. If Apply refuses a stretch with ErrCursor, because it was applied before or follows a missing
// one, it also refuses the later stretches of that feed.
func (db *DB) Apply(ctx context.Context, e Epoch, stretches ...channel.Advance) error {
	for i := range stretches {
		if err := stretches[i].Check(); err != nil {
			return err
		}
	}
	ops := make([]*op, len(stretches))
	for i := range stretches {
		ops[i] = &op{epoch: &e, run: func(t *tx) error { return advance(t, &stretches[i]) }}
	}
	return db.submit(ctx, ops...)
}

func advance(t *tx, a *channel.Advance) error {
	if a.Feed != "" {
		if err := moveCursor(t, a); err != nil {
			return err
		}
	}
	for i := range a.Edits {
		if err := edit(t, a.At, &a.Edits[i]); err != nil {
			return fmt.Errorf("channel %d: %w", a.Edits[i].ID, err)
		}
	}
	for i := range a.Hosts {
		if err := putHost(t, &a.Hosts[i]); err != nil {
			return err
		}
	}
	if err := found(t, a.At, a.Found); err != nil {
		return err
	}
	for name, n := range a.Counters { // each has its own key
		old, err := t.counter(name)
		if err != nil {
			return err
		}
		t.put(nameKey(keyCounter, name), encodeCounter(old+n))
	}
	return nil
}

// moveCursor moves a feed's cursor if it stands where the stretch begins.
func moveCursor(t *tx, a *channel.Advance) error {
	key := nameKey(keyCursor, a.Feed)
	raw, err := t.get(key)
	if err != nil {
		return err
	}
	at, err := parseText(raw)
	if err != nil {
		return err
	}
	if at != a.From {
		return fmt.Errorf("%w: at %q, not %q", channel.ErrCursor, at, a.From)
	}
	t.put(key, appendText([]byte{v1}, a.To))
	return nil
}

func parseText(raw []byte) (string, error) {
	if raw == nil {
		return "", nil
	}
	r := reader{b: raw}
	r.version()
	s := r.text()
	return s, r.end("cursor")
}

func edit(t *tx, at time.Time, e *channel.Edit) error {
	raw, err := t.get(idKey(keyFacts, e.ID))
	if err != nil || raw == nil { // gone
		return err
	}
	f, err := parseFacts(raw)
	if err != nil {
		return err
	}
	if e.Lease != nil {
		if err := editLease(t, e); err != nil {
			return err
		}
	}
	if e.Learnt != nil || e.State != 0 {
		if err := editLearnt(t, e); err != nil {
			return err
		}
	}
	if e.State != 0 {
		f.state = e.State
	}
	if e.Learnt != nil && e.Learnt.EstimatorBlob != nil {
		f.blob = e.Learnt.EstimatorBlob
	}
	if e.Facts != nil {
		f.blob = e.Facts
	}
	if len(f.blob) > channel.MaxEstimator || f.state > channel.Removed {
		return fmt.Errorf("%w: scheduler's record of %d bytes, state %d", channel.ErrMalformed, len(f.blob), f.state)
	}
	added, pending, err := editInter(t, at, e)
	if err != nil {
		return err
	}
	if f.links = min(f.links+added, channel.MaxLinks); !e.Crawled.IsZero() {
		f.links = pending
	}
	return t.putIfNew(idKey(keyFacts, e.ID), f.encode())
}

func editLease(t *tx, e *channel.Edit) error {
	if len(e.Lease) > channel.MaxLease {
		return fmt.Errorf("%w: lease's record of %d bytes", channel.ErrTooLarge, len(e.Lease))
	}
	key := idKey(keyLease, e.ID)
	l, err := t.lease(key)
	if err != nil {
		return err
	}
	l.gen, l.blob = max(l.gen, e.Gen), e.Lease
	return t.putIfNew(key, l.encode())
}

func editLearnt(t *tx, e *channel.Edit) error {
	key := idKey(keyLearnt, e.ID)
	raw, err := t.get(key)
	if err != nil {
		return err
	}
	l, reason, err := parseLearnt(raw)
	if err != nil {
		return err
	}
	if e.Learnt != nil {
		l = *e.Learnt
		l.LastError = channel.Text(l.LastError)
	}
	if e.State != 0 {
		reason = channel.Text(e.Reason)
	}
	return t.putIfNew(key, encodeLearnt(&l, reason))
}

// editInter drops the URLs that were crawled and adds those that were found, each once. It returns how many it added
// and how many there are now.
func editInter(t *tx, at time.Time, e *channel.Edit) (added, pending int, err error) {
	if e.Crawled.IsZero() && len(e.Inter) == 0 {
		return 0, 0, nil
	}
	key := idKey(keyInter, e.ID)
	raw, err := t.get(key)
	if err != nil {
		return 0, 0, err
	}
	urls, err := parseInter(raw)
	if err != nil {
		return 0, 0, err
	}
	urls, added = e.Pend(at, urls)
	if len(urls) == 0 {
		if raw != nil {
			t.del(key)
		}
		return 0, 0, nil
	}
	return added, len(urls), t.putIfNew(key, encodeInter(urls))
}

// found counts links to hosts that no channel covers.
func found(t *tx, at time.Time, list []channel.Found) error {
	if len(list) == 0 {
		return nil
	}
	total, err := t.metaUint(metaFound)
	if err != nil {
		return err
	}
	before := total
	for _, f := range list {
		origin, err := f.Origin()
		if err != nil {
			return err
		}
		key := hostKey(keyCandidate, origin)
		raw, err := t.get(key)
		if err != nil {
			return err
		}
		c := channel.Candidate{Host: origin, From: f.From, First: at}
		if raw != nil {
			if c, err = parseCandidate(origin, raw); err != nil {
				return err
			}
		} else if total++; total > channel.MaxCandidates {
			total--
			continue
		}
		c.Link(at, f.URL)
		t.put(key, encodeCandidate(&c))
	}
	if total != before {
		t.putMetaUint(metaFound, total)
	}
	return nil
}

func (t *tx) counter(name string) (int64, error) {
	raw, err := t.get(nameKey(keyCounter, name))
	if err != nil || raw == nil {
		return 0, err
	}
	return parseCounter(raw)
}

func encodeCounter(n int64) []byte { return binary.AppendVarint([]byte{v1}, n) }

func parseCounter(raw []byte) (int64, error) {
	if len(raw) < 2 || raw[0] != v1 {
		return 0, damaged("counter", raw)
	}
	n, used := binary.Varint(raw[1:])
	if used != len(raw)-1 {
		return 0, damaged("counter", raw)
	}
	return n, nil
}

// Cursor returns the position up to which a feed was applied, "" if none of it was.
func (db *DB) Cursor(_ context.Context, feed string) (cursor string, err error) {
	err = db.view(func(b *badger.Txn, _ ranges) error {
		raw, err := read(b, nameKey(keyCursor, feed))
		if err != nil {
			return err
		}
		cursor, err = parseText(raw)
		return err
	})
	return cursor, err
}

// Counters returns the sums of all Advance.Counters.
func (db *DB) Counters(_ context.Context) (map[string]int64, error) {
	sums := make(map[string]int64)
	err := db.view(func(b *badger.Txn, _ ranges) error {
		return each(b, []byte{keyCounter}, func(key, value []byte) (err error) {
			sums[string(key[1:])], err = parseCounter(value)
			return err
		})
	})
	return sums, err
}

// each calls f for every record below a prefix, in key order. Key and value are valid during the call only.
func each(b *badger.Txn, prefix []byte, f func(key, value []byte) error) error {
	it := b.NewIterator(keysOnly(prefix))
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		if err := it.Item().Value(func(v []byte) error { return f(it.Item().Key(), v) }); err != nil {
			return err
		}
	}
	return nil
}
