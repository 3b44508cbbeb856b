// Package ledger is the room of the archive that says who may crawl a channel and what is stored: it hands out tasks' bodies against claims,
// takes chunks onto the chains of their channels, makes them durable together with their pages, and tells the manager what happened through a
// feed. Who may do what is decided by the fence (channel/lease); what a page is, by the Pages that PutChunk is given.
//
// It is not for choosing what is crawled, nor for finding a page again (package pages).
//
// Invariants:
//
//   - An acknowledged chunk is durable. First its records are synced in a segment. Then one write of the ledger stores the channel's new head, the
//     pages' states and the feed's entries. Then the peer gets its answer. Many chunks share one sync and one commit.
//   - Records that were appended and not committed are no part of the archive.
//   - Every call may be repeated. The answer is the same, and the effect happens once.
//   - The feed is in the order of the commits, and so in order per URL and per channel.
package ledger

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"shoal/channel"
	"shoal/channel/groupcommit"
	"shoal/channel/lease"
	"shoal/manager/archive/keylock"
	"shoal/manager/archive/schema"
	"shoal/manager/archive/segment"
	"shoal/manager/conduct"
)

// RebuildHint says what to do when the ledger is lost.
const RebuildHint = "the pages are in the WARC files; shoal archive repair --rebuild makes a new one from them"

// DefaultInFlight is how many bytes of decompressed chunks are held at a time.
const DefaultInFlight = 48 << 20

// MaxPages is how many pages a chunk may have: they are one write of the store.
const MaxPages = 4000

// Config of a ledger. Open wants every field that names no default.
type Config struct {
	Terms    lease.Terms
	Clock    func() time.Time
	Own      func() time.Time // goes on evenly when Clock is set. Nil: time.Now
	Log      *slog.Logger
	InFlight int64  // bytes of decompressed chunks held at a time
	MinFree  int64  // bytes of the disk that are left free; below it no new work is taken. Negative: all may be used
	Where    string // what messages call the disk
	Unpaced  bool   // pages may come faster than a task's gap allows: for measurements

	// Linger is how long records wait for others before a segment is written. It suits a segment store that is far away; jobs without
	// records, such as claims, then need not wait for those with. 0: no job waits for more than the batch before.
	Linger time.Duration

	// AccountOf names the account of a member that is connected; empty, or nil: the peer stands for itself.
	AccountOf func(peer string) string
	// PrefixOf names the network of a member's address, a /24 or a /48; empty, or nil: it is not known.
	PrefixOf func(peer string) string

	// Banned names the peers and accounts that operators refuse. Nil: none.
	Banned func() []string

	// OnDeed is told what a peer has sent that no honest peer sends, or that others contradict. It must be quick. Nil: nothing.
	OnDeed func(peer, account string, d conduct.Deed, n int)

	// Verify checks the signature chain and the network of a task that is deposited, and reads its header.
	Verify func(now time.Time, s channel.Signed) (channel.Header, error)
}

// Ledger is an open ledger. All methods are safe for concurrent use.
type Ledger struct {
	cfg      Config
	store    Store
	segments segment.Store
	id       [8]byte
	commits  *groupcommit.Pipeline[*Job]
	light    *groupcommit.Pipeline[*Job] // for jobs without records; the same one, unless Config.Linger is set
	writers  *writers                    // of segments
	lane     sync.Mutex                  // held while the store commits
	unpacked *semaphore.Weighted         // bytes of decompressed chunks
	cores    *semaphore.Weighted         // chunks that are unpacked and packed at a time

	channels  keylock.Locks[channel.ID, channelState]
	Others    Others // programs that write beside this one
	Closing   Closing
	deadlines deadlines
	bell      bell
	holders   holders
	space     diskSpace
	problems  []segment.Problem     // found by Open
	damaged   atomic.Pointer[error] // what was found to be changed in the store
	counters  counters
	accounts  accounts
}

// counters is what happened since the ledger was opened.
type counters struct {
	failures, rejected, foreign atomic.Uint64
	last                        [2]atomic.Pointer[failure] // of writes to the database, and of records
	mended                      atomic.Uint64              // what chunks said and the archive corrected
	stored                      atomic.Int64               // when the last chunk was, in Unix nanoseconds of this machine's clock

	mu      sync.Mutex
	begun   map[uint64]time.Time // of the batches that are being made durable, by number
	batches uint64
}

// begin notes that a batch is being made durable, until end is called.
func (c *counters) begin() (end func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.batches++
	n := c.batches
	if c.begun == nil {
		c.begun = map[uint64]time.Time{}
	}
	c.begun[n] = time.Now()
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.begun, n)
	}
}

// oldest is when the oldest batch that is being made durable was begun; zero: there is none.
func (c *counters) oldest() (first time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, at := range c.begun {
		if first.IsZero() || at.Before(first) {
			first = at
		}
	}
	return first
}

// failure is the last write that failed, in one of the two places.
type failure struct {
	at   time.Time
	why  error
	over bool // another one was made since
}

// Places where a write may fail.
const (
	inDatabase = iota
	inRecords
)

// fail notes that a batch failed.
func (c *counters) fail(where int, why error) {
	c.failures.Add(1)
	c.last[where].Store(&failure{at: time.Now(), why: why})
}

// fine notes that a batch was made. One without records does not tell whether records can be written.
func (c *counters) fine(records bool) {
	for where := range c.last {
		if f := c.last[where].Load(); f != nil && !f.over && (records || where == inDatabase) {
			over := *f
			over.over = true
			c.last[where].CompareAndSwap(f, &over)
		}
	}
}

// lastFailure is the last write that failed, of those since which none was made there if there are such; nil: none has failed.
func (c *counters) lastFailure() (last *failure) {
	for where := range c.last {
		f := c.last[where].Load()
		if f != nil && (last == nil || last.over && !f.over || last.over == f.over && f.at.After(last.at)) {
			last = f
		}
	}
	return last
}

// Open brings store and segments into step, and gives every lease that runs a full term.
func Open(ctx context.Context, cfg Config, store Store, segments segment.Store) (*Ledger, error) {
	if cfg.Own == nil {
		cfg.Own = time.Now
	}
	l := &Ledger{
		cfg: cfg, store: store, segments: segments, id: store.Head().ID,
		unpacked: semaphore.NewWeighted(cfg.InFlight), cores: semaphore.NewWeighted(int64(2 * runtime.GOMAXPROCS(0))),
	}
	strays, _ := segments.(Strays)
	l.Closing = Closing{ledger: l, strays: strays}
	l.bell.ring()
	l.Others.begin(l)
	if err := l.open(ctx); err != nil {
		l.Others.end()
		return nil, err
	}
	return l, nil
}

func (l *Ledger) open(ctx context.Context) error {
	cfg, segments := &l.cfg, l.segments
	known, err := Segments(ctx, l.store)
	if err != nil {
		return err
	}
	if err := knows(l.store, segments, known); err != nil {
		return err
	}
	if l.problems, err = segments.Recover(known, l.store.Head().Segment); err != nil {
		return err
	}
	l.writers = newWriters(segments, cfg.Linger > 0)
	commits := groupcommit.Config[*Job]{Do: l.writeBatch, MaxJobs: maxJobs, Weight: func(j *Job) int64 { return int64(len(j.Records)) }, MaxWeight: maxBatchBytes, Closed: ErrClosed}
	if cfg.Linger > 0 {
		l.light = groupcommit.New(commits)
		commits.Linger, commits.MaxWeight, commits.Width = cfg.Linger, maxLingerBytes, l.writers.n
	}
	if l.commits = groupcommit.New(commits); l.light == nil {
		l.light = l.commits
	}
	for _, p := range l.problems {
		cfg.Log.Error("a WARC file is missing, or has lost bytes that were durable: run shoal archive verify", "file", p.Segment.Name, "err", p.Err)
	}
	if err := errors.Join(l.countAccounts(ctx), l.restartLeases(ctx)); err != nil {
		return err
	}
	return l.Others.listen(ctx)
}

// restartLeases gives every lease that runs a full term. Where others work on the same ledger it was not away, and they know the terms: all stay as
// they are.
func (l *Ledger) restartLeases(ctx context.Context) error {
	var ids []channel.ID
	err := l.store.View(func(s Snapshot) error {
		return s.Scan([]byte{schema.Lease}, nil, false, func(key, _ []byte) (bool, error) {
			ids = append(ids, channel.ID(schema.Number(key, 0)))
			return true, ctx.Err()
		})
	})
	if err != nil {
		return err
	}
	look := newClockLook(&l.cfg)
	now := look.wall
	for _, id := range ids {
		c, err := l.lock(id)
		if err != nil {
			return err
		}
		if _, others := several(l.store); !others {
			c.Value.fence.Restart(now, l.cfg.Terms)
		}
		c.Value.look = look
		c.Value.lookAtClock(now)
		l.watch(id, &c.Value)
		l.unlock(id, c)
	}
	return nil
}

// endWithin is how long what is being committed may take after the end of Run was asked for.
const endWithin = 5 * time.Second

// Run ends leases that make no progress until ctx ends. If the clock goes forward by itself, leases go on for a full term.
func (l *Ledger) Run(ctx context.Context) error {
	if s, ok := l.store.(interface{ End() }); ok { // what waits for its database would wait on
		context.AfterFunc(ctx, func() { time.AfterFunc(endWithin, s.End) })
	}
	look := newClockLook(&l.cfg)
	for {
		wait := clockEvery
		if at, ok := l.deadlines.first(); ok {
			wait = min(wait, max(0, at.Sub(l.cfg.Clock())))
		}
		t := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			t.Stop()
			return nil
		case <-l.deadlines.changed():
		case <-t.C:
		}
		t.Stop()
		last := look
		look = newClockLook(&l.cfg)
		forgive(l, look.gained(last))
		if err := l.Expire(ctx); err != nil {
			l.cfg.Log.Error("lease expiry failed, will try again", "err", err)
			select { // the deadlines stay due: do not spin
			case <-ctx.Done():
				return nil
			case <-time.After(time.Second):
			}
		}
	}
}

// View calls f with a snapshot of the ledger's records.
func (l *Ledger) View(f func(Snapshot) error) error { return l.store.View(f) }

// Segments reads what the ledger knows of all segments.
func (l *Ledger) Segments(ctx context.Context) ([]segment.Info, error) {
	return Segments(ctx, l.store)
}

// ID is the random number of an archive, wherever it lies.
func ID(l *Ledger) [8]byte { return l.id }

// Figures are what the ledger has counted.
type Figures struct {
	Totals
	Leases                      int    // that run
	Rejected, Foreign, Failures uint64 // since it was opened
	Mended                      uint64 // likewise: what chunks said and the archive corrected

	Failing     bool // the last write failed
	LastFailure string
	LastFailed  time.Time

	Writing time.Time // since when the oldest write that has not ended goes on; zero: there is none
}

// Figures gives the figures as they are.
func (l *Ledger) Figures() Figures {
	f := Figures{
		Totals: l.store.Head().Totals, Leases: l.channels.Pinned(),
		Rejected: l.counters.rejected.Load(), Foreign: l.counters.foreign.Load(), Failures: l.counters.failures.Load(),
		Mended: l.counters.mended.Load(), Writing: l.counters.oldest(),
	}
	if last := l.counters.lastFailure(); last != nil {
		f.Failing, f.LastFailure, f.LastFailed = !last.over, last.why.Error(), last.at
	}
	return f
}

// Busy tells whether a chunk was stored within d.
func (l *Ledger) Busy(d time.Duration) bool {
	return time.Now().UnixNano()-l.counters.stored.Load() < int64(d)
}

// Missing is how many segments were missing, or shorter than what was stored in them, when the ledger was opened.
func (l *Ledger) Missing() int { return len(l.problems) }

// Broken tells whether a write of the store has failed: until it is opened again, nothing more is stored. A store that was found damaged is
// not meant, nor is one that another manager works on: opening it again does not help.
func (l *Ledger) Broken() bool {
	err := l.commits.Failed()
	return err != nil && l.Damage() == nil && !errors.Is(err, ErrReplaced)
}

// Trouble says in a sentence for an operator why no work is taken now; empty: it is.
func (l *Ledger) Trouble() string {
	if err := l.commits.Failed(); err != nil {
		return err.Error()
	}
	if err := l.Others.Out(); err != nil {
		return err.Error()
	}
	if err := l.checkSpace(true); errors.Is(err, ErrFull) {
		return err.Error()
	}
	return ""
}

// Check reads all of the store. If something is not what was written, nothing more is taken in, as storing would drop what is lost there for
// good. rate bounds the bytes read in a second; 0: as many as can be.
func (l *Ledger) Check(ctx context.Context, rate int64) error {
	err := l.store.Check(ctx, rate)
	if errors.Is(err, ErrDamaged) {
		l.NoteDamage(err)
		return l.Damage()
	}
	return err // nil, or a disk that cannot be read just now
}

// NoteDamage stops all storing, since bytes of the store are not what was written.
func (l *Ledger) NoteDamage(err error) {
	err = fmt.Errorf("%w: database: %w: stop the archive, and restore a backup or bring that file back as it was; else %s", ErrStorage, err, RebuildHint)
	if !l.damaged.CompareAndSwap(nil, &err) {
		return
	}
	l.cfg.Log.Error("the archive takes in nothing more", "dir", l.cfg.Where, "err", err)
	l.commits.Fail(err)
	l.light.Fail(err)
}

// Damage is what was found to be changed in the store; nil: nothing.
func (l *Ledger) Damage() error {
	if err := l.damaged.Load(); err != nil {
		return *err
	}
	return nil
}

// TidyStore gives back what the store wastes.
func (l *Ledger) TidyStore(ctx context.Context) { l.store.Tidy(ctx) }

// CopyStore writes all records of the store, in its own form.
func (l *Ledger) CopyStore(w io.Writer) error { return l.store.Backup(w) }

// stuckAfter is how long Close waits for what may hang on a damaged store.
const stuckAfter = 10 * time.Second

// Close closes store and segments after the calls that are under way.
func (l *Ledger) Close() error {
	damage := l.Damage()
	if damage == nil {
		return l.close()
	}
	l.store.Release()
	closed := make(chan error, 1)
	go func() { closed <- l.close() }()
	select {
	case err := <-closed:
		return err
	case <-time.After(stuckAfter):
		return fmt.Errorf("left as after a crash: %w", damage)
	}
}

func (l *Ledger) close() error {
	l.Others.end()
	l.commits.Close()
	l.light.Close()
	return errors.Join(l.segments.Close(), l.store.Close())
}

// bell wakes the readers of a feed.
type bell struct {
	mu sync.Mutex
	ch chan struct{}
}

// ring wakes all readers.
func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch != nil {
		close(b.ch)
	}
	b.ch = make(chan struct{})
}

// wait gives the channel that the next ring closes.
func (b *bell) wait() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ch
}
