package pgledger

import (
	"fmt"
	"testing"

	"shoal/manager/archive/ledger"
	"shoal/manager/archive/ledger/badgerledger"
)

// TestToldThoughAnotherFails applies two entries of another writer, of which the second fails: what the first has changed is told all the same, since it is not
// read again.
func TestToldThoughAnotherFails(t *testing.T) {
	copied, err := badgerledger.Open(badgerledger.Config{Dir: t.TempDir(), MemTable: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := copied.Close(); err != nil {
			t.Error(err)
		}
	}()
	if err := copied.Follow(badgerledger.Position{Seq: 7}); err != nil {
		t.Fatal(err)
	}
	large := func(name byte) (w ledger.Write) { // as much as one transaction takes
		for copied.Fits(&w) {
			w.Changes = append(w.Changes, ledger.Change{Key: fmt.Append([]byte{name}, len(w.Changes)), Value: []byte{1}})
		}
		w.Changes = w.Changes[1:]
		return w
	}
	told := 0
	s := &Store{copied: copied, hear: func(writes []ledger.Write) { told += len(writes) }}
	broken := ledger.Write{Changes: []ledger.Change{{Value: []byte("a key is missing")}}}
	_, err = s.apply([]badgerledger.Logged{{Seq: 8, Writes: []ledger.Write{large('a')}}, {Seq: 9, Writes: []ledger.Write{large('b'), broken}}}, nil)
	if err == nil || told != 1 {
		t.Errorf("%d writes were told of, %v", told, err)
	}
}
