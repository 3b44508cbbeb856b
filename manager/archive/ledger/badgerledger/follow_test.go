package badgerledger

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	"shoal/manager/archive/ledger"
	"shoal/manager/archive/schema"
)

// TestApplyInParts applies an entry of which a crash has left a part: the rest is done, and nothing twice.
func TestApplyInParts(t *testing.T) {
	var writes []ledger.Write
	for n := range 4 {
		writes = append(writes, ledger.Write{
			If: ledger.Change{Key: []byte("c"), Value: fmt.Append(nil, n)}, Changes: []ledger.Change{{Key: []byte("c"), Value: fmt.Append(nil, n+1)}},
			Entries: []ledger.Entry{{Feed: schema.Feed, Value: fmt.Append(nil, n)}}, Add: ledger.Totals{Chunks: 1},
		})
	}
	for done := range len(writes) + 1 {
		dir := t.TempDir()
		s := open(t, dir)
		if _, err := s.Commit([]ledger.Write{{Changes: []ledger.Change{{Key: []byte("c"), Value: []byte("0")}}}}); err != nil {
			t.Fatal(err)
		}
		if err := s.Follow(Position{Seq: 7}); err != nil {
			t.Fatal(err)
		}
		b := batch{s: s, head: proto.CloneOf(&s.head), at: &Position{Seq: 7}}
		if _, err := b.addAll(writes[:done]); err != nil {
			t.Fatal(err)
		}
		if err := b.finish(); err != nil { // and here it crashes
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = open(t, dir)
		key := [16]byte{9}
		next := ledger.Write{If: ledger.Change{Key: []byte("c"), Value: []byte("4")}, Changes: []ledger.Change{{Key: []byte("c"), Value: []byte("5")}}, Add: ledger.Totals{Chunks: 1}}
		entries := []Logged{{8, [16]byte{8}, writes}, {9, key, []ledger.Write{next, next}}} // what the first says, the second finds; and the second of its writes comes too late
		refused, err := s.Apply(entries...)
		if err != nil || len(refused) != 2 || len(refused[0]) != len(writes) || len(refused[1]) != 2 {
			t.Fatalf("%d done before: %v, %v", done, refused, err)
		}
		for n, err := range append(refused[0], refused[1][0]) {
			if err != nil {
				t.Errorf("%d done before: write %d: %v", done, n, err)
			}
		}
		if !errors.Is(refused[1][1], ledger.ErrConflict) {
			t.Errorf("%d done before: a write whose condition does not hold: %v", done, refused[1][1])
		}
		if p, ok, err := s.Position(); err != nil || !ok || p != (Position{Seq: 9, Key: key}) {
			t.Errorf("position %+v, %v, %v", p, ok, err)
		}
		if s.Head().Totals.Chunks != 5 {
			t.Errorf("%d done before: %d chunks", done, s.Head().Totals.Chunks)
		}
		for _, e := range entries {
			if _, err := s.Apply(e); err == nil {
				t.Error("an entry was applied twice")
			}
		}
	}
}

// TestFollowEnds has a backup of a copy be an archive by itself.
func TestFollowEnds(t *testing.T) {
	s := open(t, t.TempDir())
	if err := s.Follow(Position{Seq: 7}); err != nil {
		t.Fatal(err)
	}
	var copied bytes.Buffer
	if err := s.Backup(&copied); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := Restore(dir, &copied, s.cfg.Clock()); err != nil {
		t.Fatal(err)
	}
	if _, follows, err := open(t, dir).Position(); err != nil || follows {
		t.Errorf("it follows a log: %v, %v", follows, err)
	}
}

// TestApplyFails has an entry fail of which, and of the one before it, a part was durable by then: it is told what came of what is applied, at once of the whole
// entry and at the next call of the part.
func TestApplyFails(t *testing.T) {
	s, err := Open(Config{Dir: t.TempDir(), MemTable: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if err := s.Follow(Position{Seq: 7}); err != nil {
		t.Fatal(err)
	}
	large := func(name byte) (w ledger.Write) { // two are more than a transaction takes
		for n := range s.db.MaxBatchCount() * 2 / 3 {
			w.Changes = append(w.Changes, ledger.Change{Key: fmt.Append([]byte{name}, n), Value: []byte{1}})
		}
		return w
	}
	never := ledger.Write{If: ledger.Change{Key: []byte("none"), Value: []byte("there")}}
	entries := []Logged{{8, [16]byte{8}, []ledger.Write{large('a'), never}}, {9, [16]byte{9}, []ledger.Write{never, large('b'), large('c'), never}}}
	broken := Logged{9, [16]byte{9}, append(entries[1].Writes[:3:3], ledger.Write{Changes: []ledger.Change{{Key: nil, Value: []byte("a key is missing")}}})}
	refused, err := s.Apply(entries[0], broken)
	if err == nil || len(refused) != 1 || len(refused[0]) != 2 || refused[0][0] != nil || !errors.Is(refused[0][1], ledger.ErrConflict) {
		t.Fatalf("with an entry that fails: %d of them, %.60v, %v", len(refused), refused, err)
	}
	if p, _, err := s.Position(); err != nil || p.Seq != 8 || p.Done != 2 {
		t.Fatalf("it is at %+v, %v: a part of the entry that fails was to be durable", p, err)
	}
	refused, err = s.Apply(entries[1])
	if err != nil || len(refused) != 1 || len(refused[0]) != 4 {
		t.Fatalf("the next time: %v, %v", refused, err)
	}
	for n, err := range refused[0] {
		if refuses := n == 0 || n == 3; refuses != errors.Is(err, ledger.ErrConflict) {
			t.Errorf("write %d: %v", n, err)
		}
	}
}
