// Package archive is the storage module: it hands out tasks' bodies against claims, takes the chunks of crawls, keeps the pages as WARC
// files, and tells the manager and the indexers what happened, through durable feeds.
//
// It is an owner of four rooms, each a package of its own: the ledger (claims, fence, group commit, feed), pages (records, captures, index,
// text), evidence (audits' answers, cases) and upkeep (verify, compact, retain, purge, rank, backup). What is durable stands behind two seams: the ledger's store (ledger.Store, in
// package badgerledger) and the segments' (segment.Store, in package warc/folder). This package wires them, and is what others import.
//
// It is the only judge of who may crawl a channel (channel/lease), and it is not for choosing what is crawled, nor for asking peers.
//
// The formats are WARC 1.1 (ISO 28500:2017) and, in the database, protobuf behind a version byte. No file holds the address of a volunteer.
package archive

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"shoal/channel"
	"shoal/channel/lease"
	"shoal/internal/wire"
	"shoal/internal/wire/uplink"
	"shoal/manager/archive/evidence"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/pages"
	"shoal/manager/archive/segment"
	"shoal/manager/archive/upkeep"
	"shoal/manager/archive/warc"
	"shoal/manager/conduct"
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
	Own      func() time.Time // a clock that goes on evenly when Clock is set; nil: time.Now

	// Verify checks the signature chain and the network of a task that is deposited, and reads its header. No default.
	Verify func(now time.Time, s channel.Signed) (channel.Header, error)
	// AccountOf names the account of a member that is connected; nil, or empty: each peer stands for itself.
	AccountOf func(peer string) string
	// Banned names the peers and accounts that operators refuse: their credit counts for nothing, and they are on no board. Nil: none.
	Banned func() []string
	// PrefixOf names the network of a member's address, a /24 or a /48; nil, or empty: it is not known.
	PrefixOf func(peer string) string
	// EvidenceBytes bounds what the evidence room keeps, packed; 0: 256 MiB. EvidenceKeep is how long it keeps closed cases; 0: 90 days.
	EvidenceBytes int64
	EvidenceKeep  time.Duration
	// Writer is a number of this manager among those that judge pages of this archive: each adds to credits of its own. 0: there is one.
	Writer uint32
	// Fingerprint computes the Shingle of a page as peers do, from its URL, Content-Type and body, where nearness of two texts decides whether a member's version
	// is believed. Nil: what members tell is taken.
	Fingerprint func(url, contentType string, body []byte) uint64
	// Unpaced lets pages come faster than a task's gap allows: for measurements on one's own pond.
	Unpaced bool
	// NoText leaves the extraction of main text out; exports then extract what they need.
	NoText bool
	// MinFree is how much of the disk is left free; below it no new work is taken. 0: DefaultMinFree; negative: all may be used.
	MinFree int64
	// FS holds the WARC files; nil: the operating system's.
	FS warc.FS
	// Stores are where database and pages lie; nil: both in Dir.
	Stores Stores
	// Linger is how long pages wait for others to be stored with. It suits stores that are far away. 0: not at all.
	Linger time.Duration

	// Keep says what is kept, and KeepEvery how often the rest is forgotten, and files that then hold little of use are compacted.
	// KeepEvery 0: an hour; a zero Keep forgets nothing.
	Keep      Retention
	KeepEvery time.Duration

	// Unjudged keeps nothing of deliveries that a manager would judge: to measure what that costs.
	Unjudged bool
	// Strays is how long an object of a bucket stays that nothing refers to, such as what a manager wrote that died before it had noted it. 0: an hour.
	Strays time.Duration

	// Beside is what else Verify looks at: what belongs to the manager that the archive runs in. Nil: nothing.
	Beside func(context.Context) ([]Problem, error)

	// OnDeed is told what a peer has sent that no honest peer sends, or that others contradict. It must be quick. Nil: nothing.
	OnDeed func(peer, account string, d conduct.Deed, n int)
	// OnWithdrawn is told the channels whose pages a purge took back that Run did: one that was started, or that broke off. Nil: nothing.
	OnWithdrawn func([]channel.ID)

	// CheckEvery is how long after one look at the database's files, and the cleaning that follows it, the next one begins. 0: 5 minutes.
	CheckEvery time.Duration

	// RankEvery is how often PageRank is computed, for historical orderings; 0: a day; negative: never.
	RankEvery time.Duration

	memTable int64 // for tests: bytes of one of the database's memory tables; 0: 16 MiB
}

// Defaults.
const (
	DefaultLevel   = 3
	DefaultMinFree = ledger.DefaultMinFree
)

// Archive is an open archive: its four rooms. All methods are safe for concurrent use.
type Archive struct {
	*ledger.Ledger
	*pages.Pages
	*upkeep.Upkeep
	Evidence *evidence.Room // what was fetched to find out who lies
	cfg      Config
}

// validate checks a Config and sets what it leaves to defaults.
func (c *Config) validate() error {
	if c.Terms == (lease.Terms{}) {
		c.Terms = lease.Default()
	}
	if err := c.Terms.Validate(); err != nil {
		return err
	}
	if err := c.Keep.Validate(); err != nil {
		return err
	}
	if c.Dir == "" || c.Verify == nil {
		return errors.New("archive: Config needs Dir and Verify")
	}
	orDefault(&c.Software, "shoal")
	orDefault(&c.Level, DefaultLevel)
	orDefault(&c.InFlight, ledger.DefaultInFlight)
	orDefault(&c.MinFree, DefaultMinFree)
	orDefault(&c.RankEvery, upkeep.DefaultRankEvery)
	orDefault(&c.KeepEvery, upkeep.DefaultKeepEvery)
	orDefault(&c.Strays, upkeep.DefaultStrays)
	orDefault(&c.CheckEvery, upkeep.DefaultCheckEvery)
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.FS == nil {
		c.FS = warc.OS{}
	}
	if c.Stores == nil {
		c.Stores = embedded{c.FS, filepath.Join(c.Dir, "warc")}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return nil
}

func orDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Open opens or makes the archive in cfg.Dir. Every lease that ran gets a full term.
func Open(ctx context.Context, cfg Config) (*Archive, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	pack, err := warc.NewCompressor(cfg.Level)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(cfg.Dir, 0o750); err != nil {
		return nil, fmt.Errorf("open archive: %w", writable(err))
	}
	var damage damageNote
	store, segments, err := cfg.Stores.Open(ctx, cfg.own(pack, damage.found))
	if err != nil {
		return nil, fmt.Errorf("open archive in %s: %w", cfg.Dir, writable(err))
	}
	a, err := assemble(ctx, cfg, pack, store, segments)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open archive in %s: %w", cfg.Dir, err), segments.Close(), store.Close())
	}
	damage.tell(a.Ledger)
	return a, nil
}

// assemble makes the four rooms over the two stores. cfg is validated.
func assemble(ctx context.Context, cfg Config, pack *warc.Compressor, store ledger.Store, segments segment.Store) (*Archive, error) {
	l, err := ledger.Open(ctx, ledger.Config{
		Terms: cfg.Terms, Clock: cfg.Clock, Own: cfg.Own, Log: cfg.Log, InFlight: cfg.InFlight, MinFree: cfg.MinFree, Where: cfg.Dir, Verify: cfg.Verify, Unpaced: cfg.Unpaced, AccountOf: cfg.AccountOf, PrefixOf: cfg.PrefixOf, Banned: cfg.Banned, OnDeed: cfg.OnDeed, Linger: cfg.Linger,
	}, store, segments)
	if err != nil {
		return nil, err
	}
	p := pages.New(pages.Config{Clock: cfg.Clock, Log: cfg.Log, Pack: pack, About: cfg.about(), NoText: cfg.NoText, Writer: cfg.Writer, Fingerprint: cfg.Fingerprint, Unjudged: cfg.Unjudged, Banned: cfg.Banned}, l, segments)
	room, err := evidence.New(evidence.Config{Clock: cfg.Clock, Log: cfg.Log, MaxBytes: cfg.EvidenceBytes, Keep: cfg.EvidenceKeep}, l, p)
	if err != nil {
		return nil, err
	}
	u := upkeep.New(upkeep.Config{
		Clock: cfg.Clock, Log: cfg.Log, Keep: cfg.Keep, KeepEvery: cfg.KeepEvery, RankEvery: cfg.RankEvery, Strays: cfg.Strays, CheckEvery: cfg.CheckEvery, NoText: cfg.NoText, Beside: cfg.Beside, OnWithdrawn: cfg.OnWithdrawn, Purge: room.PurgeAll,
	}, l, p, segments)
	return &Archive{Ledger: l, Pages: p, Upkeep: u, Evidence: room, cfg: cfg}, nil
}

// damageNote passes on what the database finds, as soon as there is a ledger to tell.
type damageNote struct {
	err    atomic.Pointer[error]
	ledger atomic.Pointer[ledger.Ledger]
}

func (d *damageNote) found(err error) {
	d.err.CompareAndSwap(nil, &err)
	if l := d.ledger.Load(); l != nil {
		l.NoteDamage(err)
	}
}

func (d *damageNote) tell(l *ledger.Ledger) {
	d.ledger.Store(l)
	if err := d.err.Load(); err != nil {
		l.NoteDamage(*err)
	}
}

// free is how the database asks for room on the disk; nil: all may be used.
func (c *Config) free() func() (int64, error) {
	if c.MinFree < 0 {
		return nil
	}
	return func() (int64, error) { return c.FS.Free(c.Dir) }
}

// about is the block of a file's warcinfo.
func (c *Config) about() []byte {
	pairs := []string{
		"software", c.Software, "format", "WARC File Format 1.1",
		"conformsTo", "http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/", "robots", "RFC 9309",
	}
	if c.Operator != "" {
		pairs = append(pairs, "operator", c.Operator)
	}
	return warc.Fields(pairs...)
}

// writable says what to do about a folder that cannot be written.
func writable(err error) error {
	if errors.Is(err, os.ErrPermission) || errors.Is(err, syscall.EROFS) {
		return fmt.Errorf("%w: the archive must be able to write there: give the folder to this user, or name another", err)
	}
	return err
}

// Put stores a chunk on the durable head of its channel. Once it has answered STORED, all that the chunk says is durable.
func (a *Archive) Put(ctx context.Context, peer string, c channel.Chunk) (lease.Reply, error) {
	return a.PutChunk(ctx, peer, c, taker{a})
}

// taker gives the pages of a chunk to the room that they are for.
type taker struct{ a *Archive }

// Take implements ledger.Pages.
func (t taker) Take(ctx context.Context, set ledger.PageSet) (*ledger.Job, ledger.Retold, func(), error) {
	if set.Aside {
		return t.a.Evidence.Take(ctx, set)
	}
	return t.a.Pages.Take(ctx, set)
}

// Serve answers the claims and chunks of the members that are connected to n.
func (a *Archive) Serve(n *wire.Node) { uplink.Serve(n, a) }

// Run ends leases that make no progress, extracts text and does the upkeep until ctx ends.
func (a *Archive) Run(ctx context.Context) error {
	var behind sync.WaitGroup
	behind.Go(func() { a.Pages.Run(ctx) })
	behind.Go(func() { a.Upkeep.Run(ctx) })
	behind.Go(func() { a.Evidence.Run(ctx) })
	defer behind.Wait()
	return a.Ledger.Run(ctx)
}

// Lost ends a task that was never deposited, so that no peer can have it.
func (a *Archive) Lost(ctx context.Context, id channel.ID, gen channel.Gen) error {
	return ledger.Lost(ctx, a.Ledger, id, gen)
}

// Over says again in the feed that a task has ended which a manager takes for one that runs. Of one that runs nothing changes.
func (a *Archive) Over(ctx context.Context, id channel.ID, gen channel.Gen) error {
	return ledger.Over(ctx, a.Ledger, id, gen)
}

// Close closes the archive after the calls that are under way.
func (a *Archive) Close() error { return a.Ledger.Close() }
