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
	settled := uint64(math.MaxUint64)
	if s, ok := l.store.(Settler); ok && feed == schema.Changes { // who reads these keeps cursors elsewhere; the manager keeps its own in the same database
		settled = s.Settled(ctx)
	}
	err = l.store.View(func(s Snapshot) error {
		var trimmed pb.Progress
		if _, err := Get(s, schema.TrimKey(feed), &trimmed); err != nil {
			return err
		}
		if cursor != "" && seq < trimmed.Seq {
			return ErrTrimmed
		}
		return s.Scan([]byte{feed}, schema.Key(feed, seq+1), true, func(key, value []byte) (bool, error) {
			if schema.Number(key, 0) >= settled {
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
