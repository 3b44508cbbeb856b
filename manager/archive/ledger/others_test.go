package ledger_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"shoal/channel/lease"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/ledger/memledger"
	"shoal/manager/archive/schema"
	"shoal/manager/archive/segment"
	"shoal/manager/archive/warc/memory"
)

// shared is a store in memory to which another program writes too.
type shared struct {
	*memledger.Store
	hear   func([]ledger.Write)
	passed [][]byte
	newest uint32
	out    error
}

func (s *shared) Several() bool                                { return true }
func (s *shared) Hear(f func([]ledger.Write))                  { s.hear = f }
func (s *shared) ShutOut(context.Context, []string) error      { return nil }
func (s *shared) Sync(context.Context) error                   { return nil }
func (s *shared) Name() string                                 { return "own" }
func (s *shared) Writes(context.Context, string) (bool, error) { return true, nil }
func (s *shared) First(context.Context) (bool, error)          { return true, nil }
func (s *shared) Behind(context.Context, []byte) (int, error)  { return 0, nil }
func (s *shared) Newest(context.Context) (uint32, error)       { return s.newest, nil }
func (s *shared) Out() error                                   { return s.out }
func (s *shared) End()                                         {}
func (s *shared) Pass(_ context.Context, wait []byte) error {
	s.passed = append(s.passed, wait)
	return nil
}

// other has the other program write.
func (s *shared) other(t *testing.T, changes ...ledger.Change) {
	t.Helper()
	writes := []ledger.Write{{Changes: changes}}
	if _, err := s.Commit(writes); err != nil {
		t.Error(err)
	}
	if s.hear != nil {
		s.hear(writes)
	}
}

// learning is a segment store that notes what it learns, and lets the other program write while it looks at what it has.
type learning struct {
	*memory.Store
	meanwhile func()
	known     map[uint32]bool
}

func (l *learning) Recover(committed []segment.Info, last uint32) ([]segment.Problem, error) {
	l.known = map[uint32]bool{}
	for _, s := range committed {
		l.known[s.ID] = true
	}
	l.meanwhile()
	return nil, nil
}
func (l *learning) Learn(s segment.Info) { l.known[s.ID] = true }
func (l *learning) Unlearn(id uint32)    { delete(l.known, id) }

// TestOpenBesideOthers opens a ledger while another program begins one segment, removes another one and waits for all. The ledger learns all of it.
func TestOpenBesideOthers(t *testing.T) {
	store := &shared{Store: memledger.New()}
	described := func(id uint32) ledger.Change {
		v, err := schema.EncodeSegment(segment.Info{ID: id, Name: fmt.Sprint(id), Length: 1})
		if err != nil {
			t.Fatal(err)
		}
		return ledger.Change{Key: schema.SegmentKey(schema.Segment, id), Value: v}
	}
	store.other(t, described(1), described(2))
	segments := &learning{Store: memory.New(memory.Config{}), meanwhile: func() {
		store.other(t, described(3), ledger.Change{Key: schema.SegmentKey(schema.Segment, 1)})
		store.other(t, ledger.Change{Key: []byte{schema.State, 'w'}, Value: []byte("\x01wait")})
	}}
	l, err := ledger.Open(t.Context(), ledger.Config{
		Terms: lease.Default(), Clock: time.Now, Log: slog.New(slog.DiscardHandler), InFlight: 1 << 20, Where: "memory",
	}, store, segments)
	if err != nil {
		t.Fatal(err)
	}
	if k := segments.known; len(k) != 2 || !k[2] || !k[3] {
		t.Errorf("it knows the segments %v, want 2 and 3", k)
	}
	if err := l.Close(); err != nil { // ends after all answers
		t.Fatal(err)
	}
	if len(store.passed) == 0 {
		t.Error("the wait was not answered")
	}
}

// reaped is a segment store whose objects may be left over.
type reaped struct{ learning }

func (*reaped) Strays(context.Context, []segment.Info) ([]segment.Stray, error) { return nil, nil }
func (*reaped) Discard(context.Context, segment.Stray) error                    { return nil }

// TestPrune forgets that segments were closed to which no program can add anything any more, and no others. A program that was shut out says so.
func TestPrune(t *testing.T) {
	store := &shared{Store: memledger.New()}
	segments := &reaped{learning{Store: memory.New(memory.Config{}), meanwhile: func() {}}}
	l, err := ledger.Open(t.Context(), ledger.Config{Terms: lease.Terms{Term: time.Hour, ClaimWait: time.Hour}, Clock: time.Now, Log: slog.New(slog.DiscardHandler), InFlight: 1}, store, segments)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := l.Closing.Close([]uint32{1, 2, 300}); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		newest uint32
		left   int
	}{{0, 3}, {2, 1}, {299, 1}, {300, 0}} {
		store.newest = step.newest
		if err := l.Closing.Prune(t.Context()); err != nil {
			t.Fatal(err)
		}
		left := 0
		if err := l.View(func(s ledger.Snapshot) error {
			return s.Scan([]byte{schema.Closed}, nil, false, func([]byte, []byte) (bool, error) { left++; return true, nil })
		}); err != nil || left != step.left {
			t.Errorf("up to %d: %d are left, want %d; %v", step.newest, left, step.left, err)
		}
	}
	if why := l.Trouble(); why != "" {
		t.Errorf("trouble: %s", why)
	}
	store.out = ledger.ErrReplaced
	if why := l.Trouble(); why != ledger.ErrReplaced.Error() || l.Others.Out() == nil {
		t.Errorf("trouble of who was shut out: %q", why)
	}
}
