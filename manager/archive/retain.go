package archive

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/dgraph-io/badger/v4"

	"shoal/channel"
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

// keepForgetting forgets what Config.Keep does not keep, from time to time.
func (a *Archive) keepForgetting(ctx context.Context) {
	if a.cfg.Keep == (Retention{}) {
		return
	}
	t := time.NewTicker(a.cfg.KeepEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
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

// Purge takes down everything that begins with a URL: captures, states of pages, texts and the pages' entries in the feed, for which one
// gone entry each is told. The records leave the files when they are compacted, which the caller does next (Compact with a share of 1).
func (a *Archive) Purge(ctx context.Context, rawURL string) (pages int, err error) {
	url, err := channel.Canonical(rawURL)
	if err != nil {
		return 0, err
	}
	a.upkeep.Lock()
	defer a.upkeep.Unlock()
	gone := map[string][]byte{} // digest by URL
	e := eraser{a: a}
	err = a.db.View(func(txn *badger.Txn) error {
		prefix := append([]byte{keyCapture}, SURT(url)...)
		err := scan(txn, prefix, nil, true, func(key []byte, item *badger.Item) (bool, error) {
			m := new(pb.Capture)
			if err := item.Value(func(b []byte) error { return decode(b, m) }); err != nil {
				return false, err
			}
			u := urlOfCapture(key)
			gone[u] = m.Sha256
			if len(m.Sha256) >= 16 && !m.Revisit {
				e.pending = append(e.pending, kv{keyOfContent([32]byte(padded(m.Sha256))), nil}, kv{keyOfText(m.Sha256), nil})
			}
			return true, e.erase(bytes.Clone(key))
		})
		if err != nil {
			return err
		}
		for u := range gone {
			h := channel.URLHash(u)
			item, err := txn.Get(key1(keyOwner, h))
			if err != nil {
				continue // never a page of its own
			}
			err = item.Value(func(v []byte) error {
				owner := binary.BigEndian.Uint64(padded(v))
				for _, k := range [][]byte{key2(keyPage, owner, h), key2(keyHistory, owner, h), key2(keyLinks, owner, h), key2(keyRank, owner, h), key1(keyOwner, h)} {
					e.pending = append(e.pending, kv{k, nil})
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
		return a.purgeFeed(ctx, txn, gone, &e)
	})
	if err == nil {
		err = e.flush()
	}
	if err != nil {
		return 0, fmt.Errorf("purge %s: %w", url, err)
	}
	return len(gone), a.tellGone(gone)
}

// purgeFeed deletes what the page feed says of these URLs.
func (a *Archive) purgeFeed(ctx context.Context, txn *badger.Txn, gone map[string][]byte, e *eraser) error {
	m := new(pb.Entry)
	return scan(txn, []byte{keyChanges}, nil, true, func(key []byte, item *badger.Item) (bool, error) {
		m.Reset()
		if err := item.Value(func(b []byte) error { return decode(b, m) }); err != nil {
			return false, err
		}
		if _, ok := gone[m.Page.GetUrl()]; ok {
			e.pending = append(e.pending, kv{bytes.Clone(key), nil})
		}
		return true, ctx.Err()
	})
}

// tellGone tells indexers that pages were taken down.
func (a *Archive) tellGone(gone map[string][]byte) error {
	now := micros(a.cfg.Clock())
	j := &job{}
	for _, u := range sorted(gone) {
		j.entries = append(j.entries, &pb.Entry{WhenUs: now, Page: &pb.PageEvent{Url: u, Event: uint32(Gone), FetchedUs: now}})
		if len(j.entries) == upkeepBatch {
			if err := a.commit(j); err != nil {
				return err
			}
			j = &job{}
		}
	}
	if len(j.entries) == 0 {
		return nil
	}
	return a.commit(j)
}
