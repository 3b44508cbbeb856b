package ledger_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"shoal/channel/lease"
	"shoal/manager/archive/archivepb"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/ledger/memledger"
	"shoal/manager/archive/schema"
	"shoal/manager/archive/warc/memory"
)

// late is a store that knows of the standbys' state only what it is told.
type late struct {
	*memledger.Store
	before uint64
	after  int // calls until it knows of one entry more; 0: it learns nothing
}

func (l *late) Settled(context.Context) uint64 {
	if l.after > 0 {
		if l.after--; l.after == 0 {
			l.before++
		}
	}
	return l.before
}

// TestCursorStaysBehindWhatCanBeLost reads both feeds of a store whose last entries no standby may have: the feed of changes, whose readers keep cursors
// elsewhere, ends before them.
func TestCursorStaysBehindWhatCanBeLost(t *testing.T) {
	store := &late{Store: memledger.New()}
	l, err := ledger.Open(t.Context(), ledger.Config{Terms: lease.Default(), Clock: time.Now, Log: slog.New(slog.DiscardHandler), InFlight: 1}, store, memory.New(memory.Config{}))
	if err != nil {
		t.Fatal(err)
	}
	entry, err := schema.Encode(&archivepb.Entry{})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := store.Commit([]ledger.Write{{Entries: []ledger.Entry{{Feed: schema.Changes, Value: entry}, {Feed: schema.Feed, Value: entry}}}}); err != nil {
			t.Fatal(err)
		}
	}
	read := func(feed byte, cursor string) (n int, first uint64, next string) {
		t.Helper()
		next, err := l.ReadFeed(t.Context(), feed, cursor, 100, func(seq uint64, _ *archivepb.Entry) error {
			if n++; n == 1 {
				first = seq
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return n, first, next
	}
	if n, first, _ := read(schema.Feed, ""); n != 3 {
		t.Errorf("%d of the manager's own entries", n)
	} else {
		store.before = first // all but the first entry of changes, which is before it
	}
	n, _, cursor := read(schema.Changes, "")
	if n != 1 {
		t.Errorf("%d changes are told, one is settled", n)
	}
	if n, _, again := read(schema.Changes, cursor); n != 0 || again != cursor {
		t.Errorf("%d more, and the cursor moves from %s to %s", n, cursor, again)
	}
	store.before += 100
	if n, _, _ := read(schema.Changes, cursor); n != 2 {
		t.Errorf("%d more when all is settled, want 2", n)
	}
}

// TestReaderAmongPagesWaitsForThisManagersCopy has another manager tell of the pages that are there up to an entry, and this one go on: not before its own copy has that entry,
// as it would tell of pages that are older than the entry from which the reader reads the feed.
func TestReaderAmongPagesWaitsForThisManagersCopy(t *testing.T) {
	store := &late{Store: memledger.New(), before: 5}
	l, err := ledger.Open(t.Context(), ledger.Config{Terms: lease.Default(), Clock: time.Now, Log: slog.New(slog.DiscardHandler), InFlight: 1}, store, memory.New(memory.Config{}))
	if err != nil {
		t.Fatal(err)
	}
	cursor := ledger.Standing{Feed: 5, Last: 77}.Cursor(l)
	synctest.Test(t, func(t *testing.T) {
		if _, _, err := ledger.StandingOf(t.Context(), l, cursor); !errors.Is(err, ledger.ErrBehind) {
			t.Errorf("the copy has no entry 5: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, _, err := ledger.StandingOf(ctx, l, cursor); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a reader that waits for less: %v", err)
		}
		store.after = 3
		if at, ok, err := ledger.StandingOf(t.Context(), l, cursor); err != nil || !ok || at.Last != 77 || store.after != 0 {
			t.Errorf("the copy has it soon: %+v, %v, %v, %d looks too early", at, ok, err, store.after)
		}
	})
}
