package archive

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/dgraph-io/badger/v4"

	pb "shoal/manager/archive/archivepb"
)

// upkeepBatch bounds the changes of one transaction of upkeep, so that chunks need not wait for it.
const upkeepBatch = 2000

// Retention says what is kept. Zero values keep everything.
type Retention struct {
	Captures int           // of one URL, the newest ones; the last one is always kept
	Age      time.Duration // of captures; the last one of a URL is always kept
	Feed     time.Duration // of the feeds' entries; what manager and text extraction have not seen is always kept
}

// Defaults of retention on a timer.
const (
	DefaultKeepEvery = time.Hour
	keepShare        = .5 // files of which less is still needed are rewritten
)

// Validate says what is wrong with r.
func (r Retention) Validate() error {
	if r.Captures < 0 || r.Age < 0 || r.Feed < 0 {
		return fmt.Errorf("archive: retention of %d captures, %v, and %v of the feed: want none negative", r.Captures, r.Age, r.Feed)
	}
	return nil
}

// keepForgetting forgets what Config.Keep does not keep, from time to time, and after a takedown gives its bytes back at once.
func (a *Archive) keepForgetting(ctx context.Context) {
	t := time.NewTicker(a.cfg.KeepEvery)
	defer t.Stop()
	for {
		if err := a.compactPurged(ctx); err != nil && ctx.Err() == nil {
			a.log.Error("what was taken down is still in WARC files, will try again", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-a.purged:
			continue
		case <-t.C:
		}
		out, err := a.Retain(ctx, a.cfg.Keep)
		if err == nil && out.Captures > 0 {
			_, err = a.Compact(ctx, keepShare)
		}
		if err != nil && ctx.Err() == nil {
			a.log.Error("retention failed, will try again", "err", err)
		} else if out != (Retained{}) {
			a.log.Info("retention", "captures", out.Captures, "entries", out.Entries)
		}
	}
}

// Retained tells what retention removed. The bytes come free when files are compacted.
type Retained struct {
	Captures int
	Entries  int
}

// Retain forgets what is older than it need be.
func (a *Archive) Retain(ctx context.Context, r Retention) (out Retained, err error) {
	a.upkeep.Lock()
	defer a.upkeep.Unlock()
	if r.Captures > 0 || r.Age > 0 {
		if out.Captures, err = a.retainCaptures(ctx, r); err != nil {
			return out, fmt.Errorf("retain captures: %w", err)
		}
	}
	if r.Feed > 0 {
		for _, kind := range []byte{keyFeed, keyChanges} {
			n, err := a.trim(ctx, kind, a.cfg.Clock().Add(-r.Feed))
			out.Entries += n
			if err != nil {
				return out, fmt.Errorf("retain feed: %w", err)
			}
		}
	}
	return out, nil
}

// retainCaptures deletes what is beyond count and age. Keys of one URL stand together, oldest first, both schemes mixed.
func (a *Archive) retainCaptures(ctx context.Context, r Retention) (int, error) {
	e := eraser{a: a}
	var url []byte
	groups := map[byte][][]byte{} // by scheme
	oldest := a.cfg.Clock().Add(-r.Age)
	flush := func() error {
		for _, scheme := range []byte{'p', 's'} {
			keys := groups[scheme]
			for n, k := range keys {
				left := len(keys) - n // with this one
				old := r.Age > 0 && timeOfCapture(k).Before(oldest)
				if left > 1 && (old || r.Captures > 0 && left > r.Captures) {
					if err := e.erase(k); err != nil {
						return err
					}
				}
			}
		}
		clear(groups)
		return nil
	}
	err := a.db.View(func(txn *badger.Txn) error {
		return scan(txn, []byte{keyCapture}, nil, false, func(key []byte, _ *badger.Item) (bool, error) {
			if u := key[:len(key)-9]; !bytes.Equal(u, url) {
				if err := flush(); err != nil {
					return false, err
				}
				url = bytes.Clone(u)
			}
			scheme := key[len(key)-1]
			groups[scheme] = append(groups[scheme], bytes.Clone(key))
			return true, ctx.Err()
		})
	})
	if err == nil {
		err = flush()
	}
	if err == nil {
		err = e.flush()
	}
	return e.n, err
}

// trim deletes the entries of a feed from before a time, and notes up to where, so that an older cursor is refused.
func (a *Archive) trim(ctx context.Context, kind byte, before time.Time) (int, error) {
	e := eraser{a: a}
	var upTo pb.Progress
	err := a.db.View(func(txn *badger.Txn) error {
		var seen pb.Progress // by who must see all of it
		who := keyAcked
		if kind == keyChanges {
			who = keyOfWorker(textWorker)
		}
		if _, err := get(txn, who, &seen); err != nil {
			return err
		}
		if kind == keyChanges && a.cfg.NoText {
			seen.Seq = math.MaxUint64
		}
		if _, err := get(txn, keyOfTrim(kind), &upTo); err != nil {
			return err
		}
		m := new(pb.Entry)
		return scan(txn, []byte{kind}, nil, true, func(key []byte, item *badger.Item) (bool, error) {
			m.Reset()
			if err := item.Value(func(b []byte) error { return decode(b, m) }); err != nil {
				return false, err
			}
			seq := binary.BigEndian.Uint64(key[1:])
			if !fromMicros(m.WhenUs).Before(before) || seq > seen.Seq {
				return false, nil
			}
			upTo.Seq = seq
			e.pending = append(e.pending, kv{bytes.Clone(key), nil})
			e.n++
			return len(e.pending) < 100*upkeepBatch, ctx.Err()
		})
	})
	if err != nil || len(e.pending) == 0 {
		return 0, err
	}
	v, err := encode(&upTo)
	if err != nil {
		return 0, err
	}
	// The mark comes first: an entry that is still there below it does no harm.
	e.pending = append([]kv{{keyOfTrim(kind), v}}, e.pending...)
	return e.n, e.flush()
}

// eraser deletes keys in transactions of a bounded size.
type eraser struct {
	a       *Archive
	pending []kv
	n       int
}

func (e *eraser) erase(key []byte) error {
	e.pending = append(e.pending, kv{key, nil})
	e.n++
	if len(e.pending) < upkeepBatch {
		return nil
	}
	return e.flush()
}

func (e *eraser) flush() error {
	for len(e.pending) > 0 {
		part := e.pending[:min(len(e.pending), upkeepBatch)]
		e.pending = e.pending[len(part):]
		if err := e.a.commit(&job{changes: func(uint32, uint64) ([]kv, error) { return part, nil }}); err != nil {
			return err
		}
	}
	return nil
}
