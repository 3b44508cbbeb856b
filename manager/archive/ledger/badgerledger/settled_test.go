package badgerledger

import (
	"log/slog"
	"testing"
	"time"

	"shoal/channel/lease"
	pb "shoal/manager/archive/archivepb"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/schema"
	"shoal/manager/archive/warc/memory"
)

// TestWhatIsNotSyncedIsNotTold reads both feeds after a disk has failed to sync the last entries. Badger shows them, and they are gone after a power cut: their numbers are
// given to others then, of which a reader with a cursor behind them would never hear.
func TestWhatIsNotSyncedIsNotTold(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	l, err := ledger.Open(t.Context(), ledger.Config{Terms: lease.Default(), Clock: time.Now, Log: slog.New(slog.DiscardHandler), InFlight: 1}, s, memory.New(memory.Config{}))
	if err != nil {
		t.Fatal(err)
	}
	feeds := []byte{schema.Changes, schema.Feed}
	write := func() error {
		v, err := schema.Encode(&pb.Entry{})
		if err != nil {
			t.Fatal(err)
		}
		var w ledger.Write
		for _, feed := range feeds {
			w.Entries = append(w.Entries, ledger.Entry{Feed: feed, Value: v})
		}
		_, err = s.Commit([]ledger.Write{w})
		return err
	}
	if err := write(); err != nil {
		t.Fatal(err)
	}
	s.said.Errorf("curlf sync: the disk fails") // as Badger says it
	if err := write(); err == nil {
		t.Fatal("a commit that was not synced is no error")
	}
	for _, feed := range feeds {
		there, told := 0, 0
		if err := s.View(func(snap ledger.Snapshot) error {
			return snap.Scan([]byte{feed}, nil, false, func(_, _ []byte) (bool, error) {
				there++
				return true, nil
			})
		}); err != nil {
			t.Fatal(err)
		}
		if _, err := l.ReadFeed(t.Context(), feed, "", 10, func(uint64, *pb.Entry) error { told++; return nil }); err != nil {
			t.Fatal(err)
		}
		if there != 2 || told != 1 {
			t.Errorf("feed %q: of %d entries that are there %d are told, want 1 of 2", feed, there, told)
		}
	}
}
