// Package upkeep is the room of the archive that keeps it whole and small: it verifies, repairs and compacts, forgets old captures and feed
// entries, takes hosts down, ranks pages, and makes backups. All of it runs beside the storing of chunks.
//
// It does not store or find pages. It changes the ledger only through the ledger's commit, in jobs of a bounded size.
//
// Invariants: a segment is removed only when nothing in the ledger refers to it. Work that breaks off is continued by the next run of its kind.
// Of all work that moves, forgets or copies segments, one piece runs at a time.
package upkeep

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"shoal/channel"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/pages"
	"shoal/manager/archive/segment"
)

// Config of the room. New wants every field but Beside, Purge and OnWithdrawn.
type Config struct {
	Clock     func() time.Time
	Log       *slog.Logger
	Keep      Retention
	KeepEvery time.Duration
	RankEvery time.Duration // negative: never
	Strays    time.Duration // how long an object of the bucket stays that nothing refers to
	// CheckEvery is how long after one look at the ledger's own files the next one begins.
	CheckEvery time.Duration
	NoText     bool // retention need not wait for text extraction
	// Beside is what else Verify looks at: what belongs to the manager that the archive runs in. Nil: nothing.
	Beside func(context.Context) ([]Problem, error)
	// Purge forgets what else is kept of deliverers whose captures were taken back. Nil: nothing.
	Purge func(ctx context.Context, deliverers []uint64) error
	// OnWithdrawn is told the channels whose pages a purge took back that Run did: one that was started, or that broke off. Nil: nothing.
	OnWithdrawn func([]channel.ID)
}

// Upkeep is the room. Its methods are safe for concurrent use.
type Upkeep struct {
	cfg      Config
	ledger   *ledger.Ledger
	pages    *pages.Pages
	segments segment.Store

	turns  *turns             // of verify, retain, compact, purge and backup one runs at a time
	known  map[uint32]float64 // of segments that compaction has read and left: bytes that are kept for each that is referred to
	unused records            // moves that nothing referred to at the last compaction
	swept  bool               // texts without a payload were looked for
	purged chan struct{}      // something was taken down

	withdrawals chan struct{} // a purge is to be done, or gone on with
	withdrawing atomic.Pointer[Withdrawing]

	suspending sync.Mutex    // held by what settles suspensions
	suspended  chan struct{} // one was asked for
	unsettled  atomic.Pointer[error]
}

// New makes the room.
func New(cfg Config, l *ledger.Ledger, p *pages.Pages, s segment.Store) *Upkeep {
	u := &Upkeep{cfg: cfg, ledger: l, pages: p, segments: s, turns: newTurns(l.Others.Turn), purged: make(chan struct{}, 1), known: map[uint32]float64{}, withdrawals: make(chan struct{}, 1), suspended: make(chan struct{}, 1)}
	// A purge that broke off shows at once. What cannot be read now Run reports.
	if w, _, err := u.pendingWithdrawal(); err == nil && len(w.Deliverers) > 0 {
		u.tell(w, 0)
	}
	return u
}

// Run ranks, forgets and checks from time to time until ctx ends.
func (u *Upkeep) Run(ctx context.Context) {
	var wg sync.WaitGroup
	wg.Go(func() { u.keepRanking(ctx) })
	wg.Go(func() { u.keepForgetting(ctx) })
	wg.Go(func() { u.keepReaping(ctx) })
	wg.Go(func() { u.keepWithdrawing(ctx) })
	wg.Go(func() { u.keepSuspending(ctx) })
	wg.Go(func() { u.keepChecking(ctx) })
	wg.Wait()
}

// Files is how many WARC files the archive has.
func (u *Upkeep) Files() int { return u.segments.Count() }

// records is a set of records with their lengths, by segment and offset.
type records map[uint32]map[uint64]uint32

func (r records) add(at segment.Location) {
	if r[at.Segment] == nil {
		r[at.Segment] = map[uint64]uint32{}
	}
	r[at.Segment][at.Offset] = at.Length
}

// join adds all of another set.
func (r records) join(more records) {
	for id, offsets := range more {
		for at, length := range offsets {
			r.add(segment.Location{Segment: id, Offset: at, Length: length})
		}
	}
}

func (r records) has(at segment.Location) bool {
	_, ok := r[at.Segment][at.Offset]
	return ok
}

// bytes is how long the records of a segment are together.
func (r records) bytes(segment uint32) (n int64) {
	for _, length := range r[segment] {
		n += int64(length)
	}
	return n
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
