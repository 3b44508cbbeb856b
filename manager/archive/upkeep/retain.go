package upkeep

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"time"

	pb "shoal/manager/archive/archivepb"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/schema"
)

// Retention says what is kept. Zero values keep everything.
type Retention struct {
	// Captures is how many versions of a URL are kept, the newest ones: of each the visit that brought it, the first one of another peer that fetched the same, and the
	// last one. So many visits are kept in any case, what the page would show if its last version is withdrawn, and visits whose records hold the payloads of others.
	Captures int
	Age      time.Duration // of captures; the last one of a URL is always kept, and with one that is kept those that say whose version it is
	Feed     time.Duration // of the feeds' entries; what manager and text extraction have not seen is always kept
}

// Defaults of retention on a timer.
const (
	DefaultKeepEvery = time.Hour
	keepShare        = .5 // segments of which less is still needed are rewritten
)

// DefaultShare is of how much use a segment must be not to be rewritten when an operator asks.
const DefaultShare = .7

// Validate says what is wrong with r.
func (r Retention) Validate() error {
	if r.Captures < 0 || r.Age < 0 || r.Feed < 0 {
		return fmt.Errorf("archive: retention of %d captures, %v, and %v of the feed: want none negative", r.Captures, r.Age, r.Feed)
	}
	return nil
}

// keepForgetting forgets what Config.Keep does not keep, from time to time, and after a takedown gives its bytes back at once.
func (u *Upkeep) keepForgetting(ctx context.Context) {
	t := time.NewTicker(u.cfg.KeepEvery)
	defer t.Stop()
	for {
		if err := u.compactPurged(ctx); err != nil && ctx.Err() == nil {
			u.cfg.Log.Error("what was taken down is still in WARC files, will try again", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-u.purged:
			continue
		case <-t.C:
		}
		var out Retained
		chosen, err := u.ledger.Others.Chosen(ctx) // of several managers one does it
		if err == nil && chosen {
			out, err = u.Retain(ctx, u.cfg.Keep)
		}
		if err == nil && out.Captures > 0 {
			_, err = u.CompactSparingly(ctx, keepShare)
		}
		if err != nil && ctx.Err() == nil {
			u.cfg.Log.Error("retention failed, will try again", "err", err)
		} else if out != (Retained{}) {
			u.cfg.Log.Info("retention", "captures", out.Captures, "entries", out.Entries)
		}
	}
}

// Tidied tells what Tidy did, or would do.
type Tidied struct {
	Forgotten Retained  `json:"forgotten"`
	Compacted Compacted `json:"compacted"`
	Dry       bool      `json:"dry_run,omitempty"` // nothing was changed: so much would be forgotten
}

// Tidy forgets what keep does not keep, then rewrites the segments of which less than share is still needed.
func (u *Upkeep) Tidy(ctx context.Context, keep Retention, share float64) (out Tidied, err error) {
	if out.Forgotten, err = u.Retain(ctx, keep); err == nil {
		out.Compacted, err = u.Compact(ctx, share)
	}
	return out, err
}

// Retained tells what retention removed. The bytes come free when segments are compacted.
type Retained struct {
	Captures int `json:"captures"`
	Entries  int `json:"entries"`
}

// Retain forgets what is older than it need be.
func (u *Upkeep) Retain(ctx context.Context, r Retention) (out Retained, err error) {
	release, err := u.turns.turn(ctx, forgetting)
	if err != nil {
		return out, err
	}
	defer release()
	return u.retain(ctx, r, false)
}

// WouldForget tells what Retain would remove, and removes nothing.
func (u *Upkeep) WouldForget(ctx context.Context, r Retention) (Retained, error) {
	return u.retain(ctx, r, true)
}

func (u *Upkeep) retain(ctx context.Context, r Retention, dry bool) (out Retained, err error) {
	if r.Captures > 0 || r.Age > 0 {
		if out.Captures, err = u.retainCaptures(ctx, r, dry); err != nil {
			return out, fmt.Errorf("retain captures: %w", err)
		}
	}
	if r.Feed > 0 {
		for _, feed := range []byte{schema.Feed, schema.Changes} {
			n, err := u.trim(ctx, feed, u.cfg.Clock().Add(-r.Feed), dry)
			out.Entries += n
			if err != nil {
				return out, fmt.Errorf("retain feed: %w", err)
			}
		}
	}
	return out, nil
}

// maxTrimmed bounds the entries that one trim deletes; the next one goes on.
const maxTrimmed = 100 * ledger.MaxBatch

// trim deletes the entries of a feed from before a time, and notes up to where, so that an older cursor is refused.
func (u *Upkeep) trim(ctx context.Context, feed byte, before time.Time, dry bool) (int, error) {
	var upTo pb.Progress
	var gone []ledger.Change
	err := u.ledger.View(func(snap ledger.Snapshot) error {
		seen, err := u.seenByAll(snap, feed)
		if err != nil {
			return err
		}
		if _, err := ledger.Get(snap, schema.TrimKey(feed), &upTo); err != nil {
			return err
		}
		m := new(pb.Entry)
		return snap.Scan([]byte{feed}, nil, true, func(key, value []byte) (bool, error) {
			m.Reset()
			if err := schema.Decode(value, m); err != nil {
				return false, err
			}
			seq := schema.Number(key, 0)
			if !schema.Time(m.WhenUs).Before(before) || seq > seen {
				return false, nil
			}
			upTo.Seq = seq
			gone = append(gone, ledger.Change{Key: bytes.Clone(key)})
			return len(gone) < maxTrimmed, ctx.Err()
		})
	})
	if err != nil || len(gone) == 0 || dry {
		return len(gone), err
	}
	// The mark comes first: an entry that is still there below it does no harm.
	changes, err := ledger.Put(nil, schema.TrimKey(feed), &upTo)
	if err != nil {
		return 0, err
	}
	b := u.ledger.Batch()
	b.Add(append(changes, gone...)...)
	return len(gone), b.Flush()
}

// seenByAll is up to where the feed's durable reader has read: the manager, or text extraction.
func (u *Upkeep) seenByAll(snap ledger.Snapshot, feed byte) (uint64, error) {
	reader := schema.Acked
	if feed == schema.Changes {
		if u.cfg.NoText {
			return math.MaxUint64, nil
		}
		reader = schema.Texts
	}
	var seen pb.Progress
	_, err := ledger.Get(snap, schema.ProgressKey(reader), &seen)
	return seen.Seq, err
}
