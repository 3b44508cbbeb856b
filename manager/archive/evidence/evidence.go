// Package evidence is the room of the archive that keeps what was fetched to find out who lies: what the tasks of audits bring (answers), and the sides of a
// conflict (cases). Nothing in it is part of a channel's copy: no feed, index, search or export shows it.
//
// It does not compare fetches (package trust/compare does), decides nothing (trust.Machine does), and has nothing fetched.
//
// A task whose pages come here is deposited by Ledger.DepositAside. The way of a conflict is this:
//
//	Answers     what the checker saw; the manager compares it with Delivered
//	DropAnswers when they agree: nothing is kept
//	Open        when they do not: both captures are copied into a case
//	Put         the arbiter's fetch, and those of further checkers
//	Ruled       who lost, and what was added to the score
//	Close       nothing is left to be decided: from now on the case is kept for Config.Keep
//
// Invariants: a body is at most MaxBody bytes, in a case at most MaxSide as it is packed; all bodies together are at most Config.MaxBytes; of these no accused, accuser,
// channel or domain has more than a share; a case is opened whatever there is no room for, then without bodies; an open one is never forgotten but by Purge; what is
// done twice is there once.
package evidence

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"

	"shoal/manager/archive/ledger"
	"shoal/manager/archive/pages"
	"shoal/manager/trust"
)

// ErrNoCase says that there is no such case.
var ErrNoCase = errors.New("archive: no such case")

// ErrObject says that a peer cannot object to a case: it has done so, or is not the loser.
var ErrObject = errors.New("archive: no objection can be made to this case")

// Limits of the room.
const (
	MaxBody   = 1 << 20   // bytes of a body; package compare looks at no more
	MaxSide   = 256 << 10 // bytes of a body in a case, as it is packed: text packs to less, noise is cut to as much
	maxHeader = 16 << 10
	maxNote   = 300

	MaxObjection = 1000 // bytes

	DefaultMaxBytes = 256 << 20
	DefaultKeep     = 90 * 24 * time.Hour // of a closed case
	DefaultAnswers  = 24 * time.Hour      // of an answer that was not dropped
	maxListed       = 1000                // cases of one answer
	forgetEvery     = time.Hour
)

// Side says which fetch of a case it is. The numbers are stored.
type Side uint8

// The sides of a case.
const (
	Delivered Side = iota + 1 // what the accused delivered
	Checked                   // what the accuser saw: a checker, or the next crawl
	Arbiter                   // what the manager's own fetcher saw
	Second                    // what one more checker saw
	Third                     // and another
	sides
)

func (s Side) String() string {
	return [...]string{"none", "delivered", "checked", "arbiter", "second checker", "third checker", "?"}[min(s, sides)]
}

// Config of the room. New wants Clock and Log.
type Config struct {
	Clock    func() time.Time
	Log      *slog.Logger
	MaxBytes int64         // of everything, packed; 0: DefaultMaxBytes
	Keep     time.Duration // of closed cases; 0: DefaultKeep
	Answers  time.Duration // of answers; 0: DefaultAnswers
}

// Room keeps evidence. Its methods are safe for concurrent use.
type Room struct {
	cfg    Config
	ledger *ledger.Ledger
	pages  *pages.Pages

	one     sync.Mutex // one change of cases at a time
	used    int64      // bytes of what is kept; owned by who holds one, as the next four
	added   int64      // bytes that were stored since that was counted
	cases   map[uint64]*holding
	counted bool
	// countedAt is when; what other managers add is known from the next count on.
	countedAt time.Time
	pack      *zstd.Encoder
	unpack    *zstd.Decoder
}

// New makes the room.
func New(cfg Config, l *ledger.Ledger, p *pages.Pages) (*Room, error) {
	if cfg.MaxBytes == 0 {
		cfg.MaxBytes = DefaultMaxBytes
	}
	if cfg.Keep == 0 {
		cfg.Keep = DefaultKeep
	}
	if cfg.Answers == 0 {
		cfg.Answers = DefaultAnswers
	}
	pack, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return nil, err
	}
	unpack, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(4*MaxBody))
	if err != nil {
		return nil, err
	}
	return &Room{cfg: cfg, ledger: l, pages: p, pack: pack, unpack: unpack}, nil
}

// Run forgets what need not be kept, from time to time, until ctx ends.
func (r *Room) Run(ctx context.Context) {
	t := time.NewTicker(forgetEvery)
	defer t.Stop()
	for {
		if _, err := r.Forget(ctx); err != nil && ctx.Err() == nil {
			r.cfg.Log.Error("old evidence could not be forgotten, will try again", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

// Case is one conflict with its evidence.
type Case struct {
	Number uint64 // see Number
	About  trust.Case
	URL    string
	Opened time.Time
	Closed time.Time // zero: open
	Loser  trust.Peer
	Amount float64 // added to the loser's score
	Score  float64 // what that came to
	Note   string  // what came of it, in words
	Bytes  int64   // of the sides, packed
	// Objection is what the loser says to it; empty: nothing.
	Objection string
	Pardoned  time.Time // when the loser was pardoned; zero: it was not
	Fetches   [sides]*Fetch
}

// Side is what one side of a case saw; nil: that is not known, or List left it out.
func (c *Case) Side(s Side) *Fetch { return c.Fetches[min(s, sides-1)] }
