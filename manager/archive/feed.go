package archive

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/dgraph-io/badger/v4"

	"shoal/channel"
	"shoal/channel/lease"
	pb "shoal/manager/archive/archivepb"
)

// MaxFeed bounds the entries of one call.
const MaxFeed = 10_000

// Entry tells the manager what happened to a task.
type Entry struct {
	Cursor  string // just after this entry
	When    time.Time
	Channel channel.ID
	Gen     channel.Gen
	Peer    string
	Event   lease.Event     // for lease.Issue.Apply
	Report  *channel.Report // Reported
}

// Change tells an indexer what happened to a page.
type Change struct {
	Cursor   string // just after this change
	When     time.Time
	Channel  channel.ID
	URL      string
	Event    Event
	Fetched  time.Time
	Status   int
	Digest   uint64
	Near     bool // changed, but hardly
	Mime     string
	at       *pb.Location // the record of the visit
	original *pb.Location // the record that holds the payload, if another
}

// cursorV1 begins a cursor; the archive's id and a position follow.
const cursorV1 = 1

// cursor makes the opaque form of the position after seq.
func (a *Archive) cursor(kind byte, seq uint64) string {
	b := append([]byte{cursorV1, kind}, a.id[:]...)
	return base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint64(b, seq))
}

// position reads a cursor; empty is before everything.
func (a *Archive) position(kind byte, cursor string) (uint64, error) {
	if cursor == "" {
		return 0, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || len(b) != 18 || b[0] != cursorV1 || b[1] != kind || [8]byte(b[2:10]) != a.id {
		return 0, fmt.Errorf("%w: %.40q", ErrCursor, cursor)
	}
	return binary.BigEndian.Uint64(b[10:]), nil
}

// Feed gives the manager up to limit entries after cursor, in order, and the cursor for the next call. It is an outbox: the same cursor
// gives the same entries again, so the manager stores cursor and effects in one transaction. Empty: from the beginning.
func (a *Archive) Feed(ctx context.Context, cursor string, limit int) (entries []Entry, next string, err error) {
	next, err = a.read(ctx, keyFeed, cursor, limit, func(seq uint64, m *pb.Entry) error {
		e := Entry{
			Cursor: a.cursor(keyFeed, seq), When: fromMicros(m.WhenUs), Channel: channel.ID(m.Channel), Gen: channel.Gen(m.Gen), Peer: m.Peer,
			Event: lease.Event{Seq: seq, Kind: lease.Kind(m.Kind), Gen: channel.Gen(m.Gen), Progress: m.Progress, Until: fromMicros(m.UntilUs)},
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

// Changes gives an indexer up to limit changes of pages after cursor, in order per URL, and the cursor for the next call.
func (a *Archive) Changes(ctx context.Context, cursor string, limit int) (changes []Change, next string, err error) {
	next, err = a.read(ctx, keyChanges, cursor, limit, func(seq uint64, m *pb.Entry) error {
		p := m.Page
		changes = append(changes, Change{
			Cursor: a.cursor(keyChanges, seq), When: fromMicros(m.WhenUs), Channel: channel.ID(m.Channel), URL: p.GetUrl(),
			Event: Event(p.GetEvent()), Fetched: fromMicros(p.GetFetchedUs()), Status: int(p.GetStatus()), Digest: p.GetDigest(),
			Near: p.GetNear(), Mime: p.GetMime(), at: p.GetAt(), original: p.GetOriginal(),
		})
		return nil
	})
	return changes, next, err
}

// read reads one of the feeds.
func (a *Archive) read(ctx context.Context, kind byte, cursor string, limit int, do func(seq uint64, m *pb.Entry) error) (next string, err error) {
	seq, err := a.position(kind, cursor)
	if err != nil {
		return "", err
	}
	limit = min(max(limit, 1), MaxFeed)
	err = a.db.View(func(txn *badger.Txn) error {
		var trimmed pb.Progress
		if _, err := get(txn, keyOfTrim(kind), &trimmed); err != nil {
			return err
		}
		if cursor != "" && seq < trimmed.Seq {
			return ErrTrimmed
		}
		return scan(txn, []byte{kind}, key1(kind, seq+1), true, func(key []byte, item *badger.Item) (bool, error) {
			seq = binary.BigEndian.Uint64(key[1:])
			m := new(pb.Entry)
			if err := item.Value(func(b []byte) error { return decode(b, m) }); err != nil {
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
	return a.cursor(kind, seq), nil
}

// Notify gives a channel that is closed when something new is durable. Take it before reading:
//
//	more := a.Notify()
//	entries, next, err := a.Feed(ctx, cursor, n)
//	if len(entries) == 0 { <-more }
func (a *Archive) Notify() <-chan struct{} { return a.bell.wait() }

// keyOfTrim names up to where a feed was trimmed.
func keyOfTrim(kind byte) []byte { return []byte{keyWorker, '-', kind} }

// keyAcked names up to where the manager has applied its feed.
var keyAcked = []byte{keyWorker, '-', 'a'}

// Ack says that the manager has applied the feed up to cursor, durably: retention may forget what lies before. It saves nothing to call
// it more than once in a while.
func (a *Archive) Ack(ctx context.Context, cursor string) error {
	seq, err := a.position(keyFeed, cursor)
	if err != nil {
		return err
	}
	v, err := encode(&pb.Progress{Seq: seq})
	if err != nil {
		return err
	}
	return a.commit(&job{changes: func(uint32, uint64) ([]kv, error) { return []kv{{keyAcked, v}}, nil }})
}
