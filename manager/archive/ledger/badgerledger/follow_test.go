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
