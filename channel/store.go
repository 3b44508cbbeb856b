package channel

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"iter"
	"time"
)

// The errors of every channel database.
var (
	ErrUnknown    = errors.New("channel: no such channel")
	ErrDuplicate  = errors.New("channel: another channel has this scope")
	ErrStaleEpoch = errors.New("channel: another manager has taken over these channels")
	ErrCursor     = errors.New("channel: the feed's cursor is elsewhere")
	ErrGen        = errors.New("channel: generation is not above the last one issued")
	ErrNotEmpty   = errors.New("channel: the database holds something already")
)

// Epoch numbers the managers that owned a partition of the channels, one after the other. Every write carries the
// epoch of its manager. The database refuses the writes of a manager that lost the partition.
type Epoch uint64

// Hot is what a manager reads of every channel when it starts.
type Hot struct {
	ID     ID
	Host   HostKey // of Scope.Host
	State  State
	Weight float32 // of the Settings
	Group  int     // of the Settings
	Links  int     // URLs known beside the stored copy, at most MaxLinks: the seeds until the first crawl, then what other crawls found since the last one
	Gen    Gen     // highest one issued
	Lease  []byte  // the lease's record; nil: never handed out
	Facts  []byte  // the scheduler's record, Learnt.EstimatorBlob; nil: none yet

	Submitted time.Time // Issue.At of the highest one; zero: never handed out
}

// Entire is a channel with all that the database has of it.
type Entire struct {
	Channel
	Lease []byte // the lease's record; nil: never handed out
}

// HostKey stands for a Web host where ten million names would take too much memory. It holds 64 bits of the SHA-256
// of Scope.Host, so that a site cannot choose a name that collides with another's. It is never zero.
type HostKey uint64

// KeyOf returns the key of a host.
func KeyOf(host string) HostKey {
	sum := sha256.Sum256([]byte(host))
	return HostKey(max(binary.BigEndian.Uint64(sum[:]), 1))
}

// Issue is one handing-out, made durable before its offer leaves.
type Issue struct {
	ID    ID
	Gen   Gen
	Lease []byte    // the lease's record
	At    time.Time // becomes Learnt.Submitted
}

// Refusal says which write of a batch was refused, and why.
type Refusal struct {
	N   int // place in the batch, or line number of an import
	ID  ID  // ErrDuplicate: the channel that has this scope
	Err error
}

// Edit is what a stretch of the feed changes in one channel. Fields that are nil or zero leave the stored value as it
// is. The database skips an Edit whose channel was removed.
type Edit struct {
	ID     ID
	Gen    Gen     // with Lease; never lowers what is stored
	Lease  []byte  // the lease's record
	Facts  []byte  // the scheduler's record; overrides Learnt.EstimatorBlob
	Learnt *Learnt // Gen and Submitted are ignored: they follow Lease and Issue
	State  State
	Reason string // with State
	// Inter lists URLs into this channel that other channels' crawls found. The database drops them beyond MaxInter
	// or MaxInterBytes pending ones.
	Inter []string
	// Crawled is the time up to which a crawl has taken in the inter-site URLs found.
	Crawled time.Time
}

// Found is an inter-site URL outside every channel.
type Found struct {
	URL  string
	From ID // the channel whose crawl found it
}

// Candidate is a Web host that crawls found and that no channel covers.
type Candidate struct {
	Host  string   // as Scope.Host
	Links int      // how often it was found
	Seeds []string // at most MaxCandidateSeeds of the URLs found
	From  ID       // the channel whose crawl found it first
	First time.Time
	Last  time.Time
}

// Advance is a stretch of an archive's feed, from one cursor to another, with all its effects. The database applies
// it whole or not at all, and only if the feed's stored cursor equals From. So every entry counts exactly once.
type Advance struct {
	Feed     string // the archive's name; empty: effects of no feed, with no cursors
	From, To string // cursors; "": the beginning
	At       time.Time
	Edits    []Edit
	Hosts    []Host
	Found    []Found
	Counters map[string]int64 // added to the stored ones
}

// Size returns the number of database writes that the Advance may need. MaxAdvance bounds it.
func (a *Advance) Size() int {
	return 5*len(a.Edits) + 2*len(a.Hosts) + len(a.Found) + len(a.Counters) + 2
}

// Line is one channel of an import.
type Line struct {
	N       int // line number, for reports
	Channel Channel
	Err     error // the source cannot be read further: nothing is imported
}

// Lines are channels as lines of an import, numbered from 1.
func Lines(chs []Channel) iter.Seq[Line] {
	return func(yield func(Line) bool) {
		for i := range chs {
			if !yield(Line{N: i + 1, Channel: chs[i]}) {
				return
			}
		}
	}
}

// Imported is the result of an import.
type Imported struct {
	Added       int
	First, Last ID        // the range of the added channels; other channels may lie between
	Duplicates  int       // lines whose scope an existing channel or an earlier line has
	Refused     []Refusal // the first MaxRefusals of them
	Blocked     int       // how many of Added are on blocked hosts; a running manager counts them
}

// Limits of a channel database.
const (
	MaxAdvance        = 12_000    // writes of one Advance
	MaxIssues         = 4096      // handings-out of one write
	MaxAdd            = 1000      // channels of one Add; an import takes any number
	MaxLinks          = 1<<15 - 1 // counted in Hot.Links
	MaxLease          = 256       // bytes of a lease's record; the manager reads up to 48 fastest when it starts
	MaxInterBytes     = 64 << 10  // bytes of a channel's pending inter-site URLs
	MaxCandidates     = 1_000_000 // candidates kept; beyond, new ones are dropped
	MaxCandidateSeeds = 8         // URLs kept of a candidate
	MaxStateBlob      = 64 << 20  // bytes of a strategy's state
	MaxName           = 200       // bytes of the name of a feed, a counter or a state
	MaxRefusals       = 1000      // refusals of an import that are reported one by one
)
