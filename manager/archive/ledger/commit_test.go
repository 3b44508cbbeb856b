package ledger_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"shoal/channel"
	"shoal/channel/lease"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/ledger/memledger"
	"shoal/manager/archive/schema"
	"shoal/manager/archive/segment"
	"shoal/manager/archive/warc"
	"shoal/manager/archive/warc/memory"
)

// bench is a ledger on stores in memory, whose steps can be watched and made to fail.
type bench struct {
	t        *testing.T
	records  *memledger.Store
	segments *memory.Store
	ledger   *ledger.Ledger
	mu       sync.Mutex // of steps and fail, while commits run
	steps    []string
	fail     map[string]error // by step; asked once
	hold     chan struct{}    // a sync waits for it; nil: none does
	linger   time.Duration
	now      time.Time
	pack     *warc.Compressor
	n        int
}

func newBench(t *testing.T) *bench {
	b := &bench{t: t, fail: map[string]error{}, now: time.Unix(1_700_000_000, 0)}
	step := func(name string) error {
		b.mu.Lock()
		b.steps = append(b.steps, name)
		err := b.fail[name]
		delete(b.fail, name)
		b.mu.Unlock()
		if name == "sync" && b.hold != nil {
			<-b.hold
		}
		return err
	}
	b.records = memledger.New()
	b.records.Fail = func(writes int) error { return step("commit") }
	b.segments = memory.New(memory.Config{Fail: step})
	var err error
	if b.pack, err = warc.NewCompressor(1); err != nil {
		t.Fatal(err)
	}
	b.open()
	return b
}

func (b *bench) open() {
	b.t.Helper()
	var err error
	b.ledger, err = ledger.Open(context.Background(), ledger.Config{
		Terms: lease.Default(), Clock: func() time.Time { return b.now }, Log: slog.New(slog.DiscardHandler), InFlight: 1 << 20, Where: "memory", Linger: b.linger,
		Verify: func(_ time.Time, s channel.Signed) (channel.Header, error) { return channel.ParseHeader(s.Raw) },
	}, b.records, b.segments)
	if err != nil {
		b.t.Fatal(err)
	}
}

// restart closes the ledger and opens it again; crash forgets what was not synced.
func (b *bench) restart(crash bool) {
	b.t.Helper()
	if err := b.ledger.Close(); err != nil {
		b.t.Fatal(err)
	}
	if crash {
		b.segments.Crash()
	}
	b.records.Reopen()
	b.open()
}

// job makes one with a record, which is noted under a key of its own once it is durable.
func (b *bench) job(text string) *ledger.Job {
	b.t.Helper()
	b.n++
	raw, err := b.pack.Append(nil, &warc.Record{Type: warc.Metadata, ID: warc.NewID([32]byte{}, b.n), Date: b.now, URI: "http://example.org/", Body: []byte(text)})
	if err != nil {
		b.t.Fatal(err)
	}
	return &ledger.Job{Records: raw, Ends: []int{len(raw)}, Changes: func(at []segment.Location) ([]ledger.Change, error) {
		return ledger.Put(nil, []byte("p"+text), schema.StoredLocation(at[0]))
	}}
}

// stored reads which jobs are durable, and that their records are.
func (b *bench) stored() string {
	b.t.Helper()
	var out []string
	err := b.ledger.View(func(s ledger.Snapshot) error {
		return s.Scan([]byte("p"), nil, true, func(key, _ []byte) (bool, error) {
			out = append(out, string(key[1:]))
			return true, nil
		})
	})
	if err != nil {
		b.t.Fatal(err)
	}
	all, err := b.ledger.Segments(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	var records []string
	for _, s := range all {
		err := b.segments.Scan(b.t.Context(), s, func(f segment.Found) error {
			if f.Bad != nil {
				return f.Bad
			}
			records = append(records, string(f.Record.Block))
			return nil
		})
		if err != nil {
			b.t.Fatal(err)
		}
	}
	slices.Sort(records)
	if !slices.Equal(out, records) {
		b.t.Errorf("the ledger has %q, the segments hold %q", out, records)
	}
	return strings.Join(out, " ")
}

func (b *bench) wants(stored string) {
	b.t.Helper()
	if got := b.stored(); got != stored {
		b.t.Errorf("stored is %q, want %q", got, stored)
	}
}

// Jobs that come while a batch is synced share the next one: one append each, one sync, one commit, in this order.
func TestCommitOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.hold = make(chan struct{})
		var wg sync.WaitGroup
		for _, text := range []string{"a", "b", "c"} {
			j := b.job(text)
			wg.Go(func() {
				if err := b.ledger.Commit(j); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		b.hold <- struct{}{}
		b.hold <- struct{}{}
		wg.Wait()
		if got, want := strings.Join(b.steps, " "), "append sync commit append append sync commit"; got != want {
			t.Errorf("steps %q, want %q", got, want)
		}
		b.wants("a b c")
	})
}

// An append or a sync that fails refuses its jobs and no others: they may be tried again, and what was durable stays.
func TestCommitFailsBeforeTheLedger(t *testing.T) {
	for _, step := range []string{"append", "sync"} {
		for _, crash := range []bool{false, true} {
			t.Run(fmt.Sprint(step, crash), func(t *testing.T) {
				b := newBench(t)
				if err := b.ledger.Commit(b.job("a")); err != nil {
					t.Fatal(err)
				}
				lost := errors.New("no space")
				b.fail[step] = lost
				if err := b.ledger.Commit(b.job("b")); !errors.Is(err, lost) || !errors.Is(err, ledger.ErrStorage) {
					t.Errorf("commit: %v", err)
				}
				b.wants("a")
				if b.ledger.Broken() || b.ledger.Figures().Failures != 1 {
					t.Errorf("broken %v, %d failures", b.ledger.Broken(), b.ledger.Figures().Failures)
				}
				if err := b.ledger.Commit(b.job("b")); err != nil {
					t.Errorf("again: %v", err)
				}
				want := 1
				if step == "sync" { // what is durable of that segment is unknown: another is begun
					want = 2
				}
				if n := b.segments.Count(); n != want {
					t.Errorf("%d segments, want %d", n, want)
				}
				b.restart(crash)
				b.wants("a b")
			})
		}
	}
}

// TestCommitFailsInTheLedger checks that a commit that may or may not be durable ends all storing until the ledger is
// opened again. Then its effects are there or not, as a whole.
func TestCommitFailsInTheLedger(t *testing.T) {
	b := newBench(t)
	if err := b.ledger.Commit(b.job("a")); err != nil {
		t.Fatal(err)
	}
	lost := errors.New("who knows")
	b.fail["commit"] = lost
	for _, text := range []string{"b", "c"} {
		if err := b.ledger.Commit(b.job(text)); !errors.Is(err, lost) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if !b.ledger.Broken() || b.ledger.Trouble() == "" {
		t.Error("nothing says so")
	}
	steps := len(b.steps)
	if err := b.ledger.Commit(b.job("d")); !errors.Is(err, lost) || len(b.steps) != steps {
		t.Errorf("a later job: %v, steps %v", err, b.steps[steps:])
	}
	b.restart(false) // what the segments hold of b was synced, and is cut off
	b.wants("a")
	if err := b.ledger.Commit(b.job("b")); err != nil {
		t.Fatal(err)
	}
	b.wants("a b")
}

// A job that cannot say what it changes, or asks for too much, is refused alone.
func TestRefusedAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.hold = make(chan struct{})
		bad := errors.New("bad")
		jobs := []*ledger.Job{
			b.job("a"),
			{Changes: func([]segment.Location) ([]ledger.Change, error) { return nil, bad }},
			{Changes: func([]segment.Location) ([]ledger.Change, error) {
				return make([]ledger.Change, memledger.MaxChanges+1), nil
			}},
			b.job("b"),
		}
		errs := make([]error, len(jobs))
		var wg sync.WaitGroup
		for n, j := range jobs {
			wg.Go(func() { errs[n] = b.ledger.Commit(j) })
			synctest.Wait()
		}
		b.hold <- struct{}{}
		b.hold <- struct{}{}
		wg.Wait()
		if errs[0] != nil || !errors.Is(errs[1], bad) || !errors.Is(errs[2], ledger.ErrBadChunk) || errs[3] != nil {
			t.Errorf("%v", errs)
		}
		b.wants("a b")
	})
}

// taskBody is that of each task.
var taskBody = (&channel.Body{
	Scope: channel.Scope{Kind: channel.WholeHost, Host: "http://a.example"}, Seeds: []string{"http://a.example/"}, Contact: "https://example.org/",
}).Marshal()

func (b *bench) task(id channel.ID, gen channel.Gen) channel.Signed {
	h := channel.Header{
		Network: [32]byte{1}, Channel: id, Gen: gen, Host: "http://a.example", Pages: 10, Issued: b.now, Latest: b.now.Add(time.Hour),
		BodySHA256: sha256.Sum256(taskBody), BodyBytes: len(taskBody), Archive: "archive",
	}
	return channel.Signed{Raw: h.Marshal(), Sig: []byte("s"), Delegation: []byte("d")}
}

// TestConflict has another process claim a channel whose state this one has in memory: this one's step is refused, and then it knows.
func TestConflict(t *testing.T) {
	b := newBench(t)
	ctx := t.Context()
	task := func(gen channel.Gen) channel.Signed { return b.task(1, gen) }
	first := b.ledger
	if err := first.Deposit(ctx, task(1), taskBody); err != nil {
		t.Fatal(err)
	}
	if c, err := first.Claim(ctx, "alice", task(1)); err != nil || c.Status != lease.Granted {
		t.Fatal(c, err)
	}
	b.open() // the other process
	if err := b.ledger.Recall(ctx, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := first.Release(ctx, "alice", 1, 1); !errors.Is(err, ledger.ErrConflict) || !errors.Is(err, ledger.ErrStorage) {
		t.Errorf("a step on old ground: %v", err)
	}
	if got, err := first.Release(ctx, "alice", 1, 1); err != nil || got.Status != lease.Fenced {
		t.Errorf("the same step again: %v, %v", got.Status, err)
	}
}

// TestWriting says since when a write goes on that its store does not answer.
func TestWriting(t *testing.T) {
	b := newBench(t)
	if f := b.ledger.Figures(); !f.Writing.IsZero() {
		t.Errorf("at first: since %v", f.Writing)
	}
	b.hold = make(chan struct{})
	before, done := time.Now(), make(chan error)
	go func() { done <- b.ledger.Commit(b.job("one")) }()
	for b.ledger.Figures().Writing.IsZero() {
		time.Sleep(time.Millisecond)
	}
	if f := b.ledger.Figures(); f.Writing.Before(before) || f.Writing.After(time.Now()) {
		t.Errorf("begun at %v: since %v", before, f.Writing)
	}
	close(b.hold)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if f := b.ledger.Figures(); !f.Writing.IsZero() {
		t.Errorf("after it: since %v", f.Writing)
	}
}

// TestFailing says why nothing can be stored, until something is. A commit without records does not tell whether records can be written.
func TestFailing(t *testing.T) {
	b := newBench(t)
	b.linger = time.Nanosecond // so that records have a lane of their own
	b.restart(false)
	want := func(what string, failing bool, why string) {
		t.Helper()
		if f := b.ledger.Figures(); f.Failing != failing || !strings.Contains(f.LastFailure, why) || f.LastFailed.IsZero() != (why == "") {
			t.Errorf("%s: %+v", what, f)
		}
	}
	want("at first", false, "")
	b.fail["sync"] = errors.New("the bucket refuses")
	if err := b.ledger.Commit(b.job("one")); !errors.Is(err, ledger.ErrStorage) {
		t.Fatal(err)
	}
	want("after a failure", true, "the bucket refuses")
	if err := b.ledger.Change(ledger.Change{Key: []byte("x"), Value: []byte("y")}); err != nil {
		t.Fatal(err)
	}
	want("after a commit without records", true, "the bucket refuses")
	b.fail["commit"] = fmt.Errorf("%w: the database is gone", ledger.ErrAway)
	if err := b.ledger.Change(ledger.Change{Key: []byte("x"), Value: []byte("z")}); !errors.Is(err, ledger.ErrAway) {
		t.Fatal(err)
	}
	want("after another failure, in the database", true, "the database is gone")
	if err := b.ledger.Change(ledger.Change{Key: []byte("x"), Value: []byte("z")}); err != nil {
		t.Fatal(err)
	}
	want("when the database is back", true, "the bucket refuses")
	if err := b.ledger.Commit(b.job("two")); err != nil {
		t.Fatal(err)
	}
	want("after a commit with some", false, "the database is gone")
}
