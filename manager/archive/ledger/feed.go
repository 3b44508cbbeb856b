package ledger

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"shoal/channel"
	"shoal/channel/lease"
	pb "shoal/manager/archive/archivepb"
	"shoal/manager/archive/schema"
)

// MaxFeed bounds the entries of one call.
const MaxFeed = 10_000

// TaskEvent tells the manager what happened to a task.
type TaskEvent struct {
	Cursor  string // just after this entry
	When    time.Time
	Channel channel.ID
	Gen     channel.Gen
	Peer    string
	Event   lease.Event     // for lease.Issue.Apply
	Report  *channel.Report // Reported
	Wrong   int             `json:",omitempty"` // what the claim's chunks said that no honest peer says
	Fault   string          `json:",omitempty"` // why the claim was ended; empty: it was not
}

// cursorV1 begins a cursor; the archive's id and a position follow.
const cursorV1 = 1

// Cursor makes the opaque form of the position after seq in a feed.
func (l *Ledger) Cursor(feed byte, seq uint64) string {
	b := append([]byte{cursorV1, feed}, l.id[:]...)
	return base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint64(b, seq))
}

// Position reads a cursor; empty is before everything.
func (l *Ledger) Position(feed byte, cursor string) (uint64, error) {
	if cursor == "" {
		return 0, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || len(b) != 18 || b[0] != cursorV1 || b[1] != feed || [8]byte(b[2:10]) != l.id {
		return 0, fmt.Errorf("%w: %.40q", ErrCursor, cursor)
	}
	return binary.BigEndian.Uint64(b[10:]), nil
}

// standingV1 begins the cursor of a Standing; the feed, the archive's id, a position and a page follow.
const standingV1 = 2

// Standing is a position among the pages that are there, of which a reader is told first that begins with a page feed that has lost entries.
type Standing struct {
	Feed uint64 // position in the feed when the reader began: it goes on from there
	Last uint64 // the last page that it was told of, or has no use for: its channel.URLHash
	None bool   // there is no such page yet
}

// Cursor makes its opaque form for an archive, when a page was told of.
func (at Standing) Cursor(l *Ledger) string {
	b := append([]byte{standingV1, schema.Changes}, l.id[:]...)
	return base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, at.Feed), at.Last))
}

// StandingOf tells where a reader with a cursor is among the pages that are there. false: it reads the page feed itself, as one does that begins with a feed that has
// lost nothing. Another manager may have told the reader of pages that this one's copy of the ledger does not have yet: it waits for them, and ErrBehind says that they
// did not come.
func StandingOf(ctx context.Context, l *Ledger, cursor string) (at Standing, ok bool, err error) {
	if cursor != "" {
		b, err := base64.RawURLEncoding.DecodeString(cursor)
		if err != nil || len(b) != 26 || b[0] != standingV1 || b[1] != schema.Changes || [8]byte(b[2:10]) != l.id {
			return at, false, nil // Position says what is wrong with it
		}
		at = Standing{Feed: binary.BigEndian.Uint64(b[10:]), Last: binary.BigEndian.Uint64(b[18:])}
	}
	below, err := reached(ctx, l.store, at.Feed)
	if err != nil {
		return at, false, fmt.Errorf("read feed: %w", err)
	}
	err = l.store.View(func(s Snapshot) error {
		var trimmed pb.Progress
		if ok, err = Get(s, schema.TrimKey(schema.Changes), &trimmed); err != nil {
			return err
		}
		if cursor != "" {
			if ok = true; at.Feed < trimmed.Seq {
				return ErrTrimmed
			}
			return nil
		}
		at = Standing{Feed: trimmed.Seq, None: true}
		return s.ScanBack([]byte{schema.Changes}, schema.Key(schema.Changes, max(below, 1)-1), func(key, _ []byte) (bool, error) {
			at.Feed = max(at.Feed, schema.Number(key, 0))
			return false, nil
		})
	})
	if err != nil {
		return at, false, fmt.Errorf("read feed: %w", err)
	}
	return at, ok, ctx.Err()
}

// behindWait is how long a reader of the page feed waits for what it was told elsewhere, and behindPause how long between two looks.
const (
	behindWait  = 10 * time.Second
	behindPause = 50 * time.Millisecond
)

// reached waits until the page feed may be read up to an entry, and is readable then. What was read up to there, pages too, is in later snapshots.
func reached(ctx context.Context, store Store, entry uint64) (below uint64, err error) {
	if entry == 0 {
		return readable(ctx, store, schema.Changes), nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, behindWait, ErrBehind)
	defer cancel()
	for {
		if below = readable(ctx, store, schema.Changes); below > entry {
			return below, nil
		}
		select {
		case <-time.After(behindPause):
		case <-ctx.Done():
			return below, context.Cause(ctx)
		}
	}
}

// readable is a number below which the entries of a feed may be read.
func readable(ctx context.Context, store Store, feed byte) uint64 {
	if s, ok := store.(Settler); ok && feed == schema.Changes { // who reads these keeps cursors elsewhere; the manager keeps its own in the same database
		return s.Settled(ctx)
	}
	if s, ok := store.(Syncer); ok {
		return s.Synced()
	}
	return math.MaxUint64
}

// Feed gives the manager up to limit entries after cursor, in order, and the cursor for the next call. It is an outbox: the same cursor
// gives the same entries again, so the manager stores cursor and effects in one transaction. Empty: from the beginning.
func (l *Ledger) Feed(ctx context.Context, cursor string, limit int) (entries []TaskEvent, next string, err error) {
	next, err = l.ReadFeed(ctx, schema.Feed, cursor, limit, func(seq uint64, m *pb.Entry) error {
		e := TaskEvent{
			Cursor: l.Cursor(schema.Feed, seq), When: schema.Time(m.WhenUs), Channel: channel.ID(m.Channel), Gen: channel.Gen(m.Gen), Peer: m.Peer,
			Event: lease.Event{Seq: seq, Kind: lease.Kind(m.Kind), Gen: channel.Gen(m.Gen), Progress: m.Progress, Until: schema.Time(m.UntilUs), By: m.By},
			Wrong: int(m.Wrong), Fault: m.Fault,
		}
		if len(m.Report) > 0 {
			r, err := channel.ParseReport(m.Report)
			if err != nil {
				return err
			}
			e.Report = &r
		}
		entries = append(entries, e)
		return nil
	})
	return entries, next, err
}

// ReadFeed calls do for up to limit entries of a feed after cursor, and gives the cursor for the next call.
func (l *Ledger) ReadFeed(ctx context.Context, feed byte, cursor string, limit int, do func(seq uint64, m *pb.Entry) error) (next string, err error) {
	seq, err := l.Position(feed, cursor)
	if err != nil {
		return "", err
	}
	limit = min(max(limit, 1), MaxFeed)
	below := readable(ctx, l.store, feed)
	err = l.store.View(func(s Snapshot) error {
		var trimmed pb.Progress
		if _, err := Get(s, schema.TrimKey(feed), &trimmed); err != nil {
			return err
		}
		if cursor != "" && seq < trimmed.Seq {
			return ErrTrimmed
		}
		return s.Scan([]byte{feed}, schema.Key(feed, seq+1), true, func(key, value []byte) (bool, error) {
			if schema.Number(key, 0) >= below {
				return false, nil
			}
			seq = schema.Number(key, 0)
			m := new(pb.Entry)
			if err := schema.Decode(value, m); err != nil {
				return false, err
			}
			limit--
			return limit > 0, do(seq, m)
		})
	})
	if err != nil {
		return "", fmt.Errorf("read feed: %w", err)
	}
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	return l.Cursor(feed, seq), nil
}

// Notify gives a channel that is closed when something new is durable. Take it before reading:
//
//	more := l.Notify()
//	entries, next, err := l.Feed(ctx, cursor, n)
//	if len(entries) == 0 { <-more }
func (l *Ledger) Notify() <-chan struct{} { return l.bell.wait() }

// Ack says that the manager has applied the feed up to cursor, durably: retention may forget what lies before. It saves nothing to call
// it more than once in a while.
func (l *Ledger) Ack(ctx context.Context, cursor string) error {
	seq, err := l.Position(schema.Feed, cursor)
	if err != nil {
		return err
	}
	v, err := schema.Encode(&pb.Progress{Seq: seq})
	if err != nil {
		return err
	}
	return l.Change(Change{schema.ProgressKey(schema.Acked), v})
}
