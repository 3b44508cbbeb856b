// Package pages is the room of the archive that knows pages. It turns fetched pages into records and index entries, finds a page as it was at a
// time, and tells indexers what has changed.
//
// It does not decide who may store (package ledger) and does not forget (package upkeep). All its writes go through the ledger's commit.
//
// Invariants: a payload is stored once, and later visits that find it refer to it; the index names a record only when that is durable; no
// record holds the address of a volunteer.
package pages

import (
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"shoal/channel"
	"shoal/manager/archive/keylock"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/segment"
	"shoal/manager/archive/warc"
)

// ErrNotFound says that there is no such page, or none of that time.
var ErrNotFound = errors.New("archive: not found")

// ErrDeliverer says that nothing is known of the member that a Filter names.
var ErrDeliverer = errors.New("archive: no such deliverer")

// Config of the room. New wants every field.
type Config struct {
	Clock  func() time.Time
	Log    *slog.Logger
	Pack   *warc.Compressor
	About  []byte // the block of an export's warcinfo
	NoText bool   // main text is not extracted by Run
	// Unjudged keeps nothing of deliveries for the manager to judge: to measure what that costs.
	Unjudged bool
	Writer   uint32 // which of the processes that judge pages of this archive it is; 0 where there is one
	// Fingerprint computes the Shingle of a page from what came. Nil: what members tell is taken.
	Fingerprint func(url, contentType string, body []byte) uint64
	// Banned names the peers and accounts that operators refuse. Nil: none.
	Banned func() []string
}

// Pages is the room. Its methods are safe for concurrent use.
type Pages struct {
	cfg      Config
	ledger   *ledger.Ledger
	segments segment.Store

	hosts      keylock.Locks[string, struct{}] // the pages of one host are decided one chunk at a time
	building   sync.RWMutex                    // read-held while a chunk is made and stored; see waitForChunks
	texting    sync.Mutex                      // held by a step of text extraction, and by what it must not overlap
	failed     textFailures                    // guarded by texting
	judging    sync.Mutex                      // held while credits are added to
	naming     sync.Mutex                      // held while an account takes a nickname
	ranking    sync.Mutex                      // guards lastRanking
	judged     atomic.Bool                     // pages were judged, ever
	revised    atomic.Uint64                   // counts what changes records otherwise than by judging a delivery, before it gives the host back
	mismatched atomic.Uint64
	damaged    atomic.Uint64 // records of which readers were told that they are no more, or whose text was left out
	text       textProgress
	census     atomic.Pointer[Census] // the last one; nil: none yet
	recount    chan struct{}          // has room for one

	lastRanking *ranking // nil: none yet
	outlaws     outlaws
}

var _ ledger.Pages = (*Pages)(nil)

// New makes the room.
func New(cfg Config, l *ledger.Ledger, s segment.Store) *Pages {
	p := &Pages{cfg: cfg, ledger: l, segments: s, recount: make(chan struct{}, 1)}
	l.Others.Making(p.waitForChunks)
	return p
}

// waitForChunks returns when all chunks that are being made now are stored.
func (p *Pages) waitForChunks() {
	p.building.Lock()
	p.building.Unlock() //nolint:staticcheck // only waiting was wanted
}

// PauseText has text extraction wait until resume is called.
func (p *Pages) PauseText() (resume func()) {
	p.texting.Lock()
	return func() {
		p.revised.Add(1)
		p.texting.Unlock()
	}
}

// HoldHosts has nothing decided about the pages of the hosts of some URLs until release is called.
func (p *Pages) HoldHosts(urls []string) (release func()) {
	var origins []string
	for _, u := range urls {
		origins = append(origins, channel.Origin(u))
	}
	slices.Sort(origins)
	origins = slices.Compact(origins)
	var held []*keylock.Held[struct{}]
	for _, o := range origins {
		held = append(held, p.hosts.Lock(o))
	}
	return func() {
		p.revised.Add(1)
		for i, o := range origins {
			p.hosts.Unlock(o, held[i], false)
		}
	}
}

// Figures are what the room has counted.
type Figures struct {
	Unreadable uint64    // damaged records of which readers of feed and exports were told that they are no more, each time, and records whose text was left out
	Mismatched uint64    // pages said to be unchanged that are not stored, or whose digest is another
	Texted     uint64    // changes that text extraction is done with, ever
	Oldest     time.Time // when the first of the other changes happened; zero: unknown
	Census               // as it was counted last
}

// Figures gives the figures as they are.
func (p *Pages) Figures() Figures {
	f := Figures{Mismatched: p.mismatched.Load(), Unreadable: p.damaged.Load()}
	f.Texted, f.Oldest = p.text.get()
	if c := p.census.Load(); c != nil {
		f.Census = *c
	}
	return f
}

// textProgress is how far text extraction is.
type textProgress struct {
	mu     sync.Mutex
	done   uint64
	oldest time.Time
}

func (t *textProgress) set(done uint64, oldest time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.done, t.oldest = done, oldest
}

func (t *textProgress) get() (uint64, time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.done, t.oldest
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
