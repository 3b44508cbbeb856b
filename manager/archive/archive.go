// Package archive is the storage module: it hands out tasks' bodies against claims, takes the chunks of crawls, keeps the pages as WARC
// files, and tells the manager and whoever indexes the pages what happened, through a feed that never forgets.
//
// It is the only judge of who may crawl a channel (channel/lease), and it is not for choosing what is crawled, nor for asking peers.
//
// Invariants:
//
//   - What was acknowledged is durable: the bytes of a chunk's records, then one database transaction with the new head of the channel,
//     the pages' states and the feed's entries, then the answer. Chunks of many peers share one write and one sync.
//   - A crash in between leaves bytes at the end of a WARC file that no transaction mentions; opening cuts them off.
//   - Every call may be repeated: the answer is the same, and what it did is not done twice.
//   - The feed is in the order of the transactions, and so in order per URL and per channel.
//   - No file holds the address of a volunteer.
//
// The formats are WARC 1.1 (ISO 28500:2017) and, in the database, protobuf behind a version byte.
package archive

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/semaphore"

	"shoal/channel"
	"shoal/channel/lease"
	"shoal/internal/wire"
	"shoal/internal/wire/uplink"
	"shoal/manager/archive/warc"
)

// Config says where an archive keeps what it has, and by which rules.
type Config struct {
	Dir      string           // folder; made where it is missing. No default
	Terms    lease.Terms      // zero: lease.Default()
	Software string           // for warcinfo, as "shoal/1.2.3"; empty: "shoal"
	Operator string           // for warcinfo: the contact URL; empty: left out
	Roll     int64            // bytes after which a WARC file is closed; 0: 1 GiB
	Level    int              // gzip level, 1 to 9; 0: 3, of which a core packs about 100 MB a second
	InFlight int64            // bytes of decompressed chunks held at a time; 0: 48 MiB
	Log      *slog.Logger     // nil: nothing is logged
	Clock    func() time.Time // nil: time.Now

	// Verify checks the signature chain and the network of a task that is deposited, and reads its header. No default.
	Verify func(now time.Time, s channel.Signed) (channel.Header, error)
	// NoText leaves the extraction of main text out; exports then extract what they need.
	NoText bool
	// MinFree is how much of the disk is left free; below it no new work is taken. 0: DefaultMinFree; negative: all may be used.
	MinFree int64
	// FS holds the WARC files; nil: the operating system's.
	FS warc.FS

	// Keep says what is kept, and KeepEvery how often the rest is forgotten, and files that then hold little of use are compacted.
	// KeepEvery 0: DefaultKeepEvery; a zero Keep forgets nothing.
	Keep      Retention
	KeepEvery time.Duration

	// Beside is what else Verify looks at: what belongs to the manager that the archive runs in. Nil: nothing.
	Beside func(context.Context) ([]Problem, error)

	// RankEvery is how often PageRank is computed, for historical orderings; 0: DefaultRankEvery; negative: never.
	RankEvery time.Duration

	memTable int64 // for tests: bytes of one of the database's memory tables; 0: 16 MiB
}

// Defaults and limits.
const (
	DefaultRoll     = 1 << 30
	DefaultLevel    = 3
	DefaultInFlight = 48 << 20
	MaxPages        = 4000 // pages of one chunk: its pages are one transaction
	schemaVersion   = 1
)

// What goes wrong. Errors are wrapped with what was tried.
var (
	ErrClosed   = fmt.Errorf("archive: closed: %w", uplink.ErrLater)
	ErrStorage  = fmt.Errorf("archive: storage failed: %w", uplink.ErrLater)
	ErrFenced   = errors.New("archive: generation is behind the fence")
	ErrBadTask  = fmt.Errorf("archive: bad task: %w", uplink.ErrBad)
	ErrBadChunk = fmt.Errorf("archive: bad chunk: %w", uplink.ErrBad)
	ErrCursor   = errors.New("archive: cursor is damaged, or of another archive than this")
	ErrTrimmed  = errors.New("archive: the feed keeps nothing as old as this cursor")
	ErrSchema   = errors.New("archive: data is of another version")
	ErrState    = errors.New("archive: database cannot be opened")
	ErrLocked   = errors.New("archive: folder is in use by another process")
)

// FencedError says up to which generation a channel's fence has moved; the manager goes on above. It is an ErrFenced.
type FencedError struct {
	Channel channel.ID
	Gen     channel.Gen
	Highest channel.Gen
}

func (e *FencedError) Error() string {
	return fmt.Sprintf("%v: channel %d, generation %d, highest is %d", ErrFenced, e.Channel, e.Gen, e.Highest)
}

// Is makes a FencedError an ErrFenced.
func (e *FencedError) Is(target error) bool { return target == ErrFenced }

// Archive is an open archive. All methods are safe for concurrent use.
type Archive struct {
	cfg     Config
	log     *slog.Logger
	missing int
	db      *state
	damaged atomic.Pointer[error] // what was found to be changed in it
	pack    *warc.Compressor
	room    *semaphore.Weighted // of decompressed chunks
	cores   *semaphore.Weighted // chunks that are unpacked and packed at a time
	id      [8]byte
	stats   counters

	slots  keyed[channel.ID, slot]
	hosts  keyed[string, struct{}] // pages of one host are decided one chunk at a time
	timers timers
	group  group
	bell   bell
	space  room
	upkeep sync.Mutex    // one of verify, retain, compact, purge and backup at a time
	purged chan struct{} // something was taken down

	building sync.RWMutex // read-held while a chunk is made and stored; see Compact
	texting  sync.Mutex   // held by a step of text extraction, and by what it must not overlap
}

// Open opens or makes the archive in cfg.Dir. Every lease that ran gets a full term.
func Open(ctx context.Context, cfg Config) (*Archive, error) {
	if cfg.Terms == (lease.Terms{}) {
		cfg.Terms = lease.Default()
	}
	if err := cfg.Terms.Validate(); err != nil {
		return nil, err
	}
	if err := cfg.Keep.Validate(); err != nil {
		return nil, err
	}
	if cfg.Dir == "" || cfg.Verify == nil {
		return nil, errors.New("archive: Config needs Dir and Verify")
	}
	if cfg.Software == "" {
		cfg.Software = "shoal"
	}
	if cfg.Roll <= 0 {
		cfg.Roll = DefaultRoll
	}
	if cfg.Level == 0 {
		cfg.Level = DefaultLevel
	}
	if cfg.RankEvery == 0 {
		cfg.RankEvery = DefaultRankEvery
	}
	if cfg.KeepEvery == 0 {
		cfg.KeepEvery = DefaultKeepEvery
	}
	if cfg.InFlight <= 0 {
		cfg.InFlight = DefaultInFlight
	}
	if cfg.MinFree == 0 {
		cfg.MinFree = DefaultMinFree
	}
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	if cfg.FS == nil {
		cfg.FS = warc.OS{}
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	pack, err := warc.NewCompressor(cfg.Level)
	if err != nil {
		return nil, err
	}
	a := &Archive{cfg: cfg, log: cfg.Log, pack: pack, purged: make(chan struct{}, 1), room: semaphore.NewWeighted(cfg.InFlight), cores: semaphore.NewWeighted(int64(2 * runtime.GOMAXPROCS(0)))}
	a.bell.ring()
	for _, dir := range []string{cfg.Dir, a.path("warc"), a.path("state")} {
		if err := os.MkdirAll(dir, 0o750); err != nil {
			return nil, fmt.Errorf("open archive: %w", writable(err))
		}
	}
	if a.db, err = openDB(a.path("state"), cfg.memTable, a.foundDamage); err != nil {
		return nil, fmt.Errorf("open archive in %s: %w", cfg.Dir, writable(err))
	}
	if err := a.recover(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open archive in %s: %w", cfg.Dir, err), a.db.Close())
	}
	return a, nil
}

// Serve answers the claims and chunks of the members that are connected to n.
func (a *Archive) Serve(n *wire.Node) { uplink.Serve(n, a) }

const closeRoom = 128 << 20 // memory tables and what comes with them

// Close closes the archive after the calls that are under way.
func (a *Archive) Close() error {
	if damaged := a.damaged.Load(); damaged != nil {
		return a.closeDamaged(*damaged)
	}
	err := a.group.close()
	// Closing writes through mapped memory, where a full disk ends the process. All that counts is in the write-ahead log, as after a crash.
	if free, ferr := a.cfg.FS.Free(a.cfg.Dir); ferr == nil && a.cfg.MinFree >= 0 && free < closeRoom {
		return errors.Join(err, fmt.Errorf("%w: %s has %d MiB left; nothing is lost, but make room before the next start", ErrFull, a.cfg.Dir, free>>20))
	}
	// Badger would try for ever to write its tables.
	if probe := probe(a.cfg.Dir); probe != nil {
		return errors.Join(err, fmt.Errorf("close archive: %w; nothing is lost", probe))
	}
	return errors.Join(err, a.db.Close())
}

// probe finds out whether a folder can be written.
func probe(dir string) error {
	name := filepath.Join(dir, ".writable")
	return firstOf(os.WriteFile(name, nil, 0o600), os.Remove(name))
}

// Broken tells whether a write of the state has failed: until the archive is opened again, nothing more is stored. A state that was found
// damaged is not meant: opening it again does not help.
func (a *Archive) Broken() bool {
	a.group.mu.Lock()
	defer a.group.mu.Unlock()
	return a.group.failed != nil && a.damaged.Load() == nil
}

// Missing is how many WARC files were missing, or shorter than what was stored in them, when the archive was opened.
func (a *Archive) Missing() int { return a.missing }

// Run ends leases that make no progress, and tidies the database, until ctx ends.
func (a *Archive) Run(ctx context.Context) error {
	var behind sync.WaitGroup
	behind.Go(func() { a.keepRanking(ctx) })
	behind.Go(func() { a.keepExtracting(ctx) })
	behind.Go(func() { a.keepForgetting(ctx) })
	behind.Go(func() { a.keepScrubbing(ctx) })
	defer behind.Wait()
	for {
		wait := time.Minute
		if at, ok := a.timers.first(); ok {
			wait = min(wait, max(0, at.Sub(a.cfg.Clock())))
		}
		t := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			t.Stop()
			return nil
		case <-a.timers.changed():
		case <-t.C:
		}
		t.Stop()
		if err := a.Expire(ctx); err != nil {
			a.log.Error("lease expiry failed, will try again", "err", err)
			select { // the timers stay due: do not spin
			case <-ctx.Done():
				return nil
			case <-time.After(time.Second):
			}
		}
	}
}

// writable says what to do about a folder that cannot be written.
func writable(err error) error {
	if errors.Is(err, os.ErrPermission) || errors.Is(err, syscall.EROFS) {
		return fmt.Errorf("%w: the archive must be able to write there: give the folder to this user, or name another", err)
	}
	return err
}

func (a *Archive) path(name ...string) string {
	return filepath.Join(append([]string{a.cfg.Dir}, name...)...)
}

// bell wakes those who wait for the feed.
type bell struct {
	mu sync.Mutex
	ch chan struct{}
}

// ring wakes them all.
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
