// Package segment is the seam between the archive and the place that keeps its pages: what a store of segments must do, and the words in which
// the two speak. A segment is a run of WARC records, each a gzip member of its own, that is written once, from its beginning to its end. In the
// embedded archive it is a file in a folder (package warc/folder); an object of an S3-compatible store fits as well.
//
// It is not for what is in a record (package warc), nor for finding one by its URL (package pages). What a store must do is tested by package
// warctest, for every store alike.
//
// A record becomes durable in four steps, which the ledger takes in this order: Append, Sync, the ledger's own commit, Commit. What the ledger
// did not commit is no part of the archive: Rollback takes it back at once, and Recover after a crash.
package segment

import (
	"context"
	"errors"
	"io"
	"time"

	"shoal/manager/archive/warc"
)

// Errors of a store.
var (
	// ErrShort says that a segment holds less than what was committed to it: bytes that were durable are gone.
	ErrShort = errors.New("segment: shorter than what was committed to it")
	// ErrNone says that there is no such segment.
	ErrNone = errors.New("segment: there is none")
)

// Location is where a record is. It is a value to keep, compare and hand back: only the store that made it knows what Offset counts. Within a
// segment, locations are in the order in which the records were appended.
type Location struct {
	Segment uint32
	Offset  uint64
	Length  uint32
}

// Info describes a segment, as the ledger keeps it.
type Info struct {
	ID      uint32 // above 0; never used again
	Name    string // by which an index names it to other programs
	Length  uint64 // bytes that are committed
	Records uint64
	Sealed  bool // nothing more is appended
	Created time.Time
	Parts   string // what the store must know of it and cannot find out; the ledger keeps it and does not look into it
}

// Found is what Scan came across: a record, or a place where there is none.
type Found struct {
	At     Location
	Record *warc.Read
	Bad    error // why there is no record here; nil: there is one
	End    bool  // the rest of the segment cannot be read, from At on
}

// Place is where other programs find a record.
type Place struct {
	Name   string // of the segment
	Offset int64  // of the record's first byte
	Length int64
}

// Writer appends records. The ledger's commit owns it: its methods are called by one goroutine at a time.
type Writer interface {
	// Append writes records, of which ends tells where each one ends in raw, behind what was appended last, and tells where they are. The
	// records of one call are in one segment, one behind the other.
	Append(raw []byte, ends []int) ([]Location, error)
	// Sync makes durable what was appended, and describes the segments that have changed since the last Commit.
	Sync() ([]Info, error)
	// Commit says that what Sync described is durable in the ledger.
	Commit()
	// Rollback takes back what was appended since the last Commit. A segment whose Sync failed is not appended to again.
	Rollback() error
	// Seal ends the segment that is being written, if there is one.
	Seal() error
}

// Many is a store to which several may write at a time, each to segments of its own. It suits a store where a Sync mostly waits.
type Many interface {
	Store
	// Another makes a writer beside the store's own. It is called after Recover.
	Another() Writer
}

// Store keeps segments. All methods but the Writer's may be called by several goroutines.
type Store interface {
	Writer

	// Recover is called once, before all other methods but List and Scan. It brings the store into step with the ledger: what was not
	// committed is removed, then or with the first Commit, and the segment that was being written is gone on with. last is the highest ID that was ever used. Problems
	// names each segment that is missing, or is shorter than what was committed to it; those are left as they are.
	Recover(committed []Info, last uint32) (problems []Problem, err error)
	// List describes the segments that there are, by ID, whatever the ledger knows of them.
	List() ([]Info, error)
	// Has tells whether the archive has a segment.
	Has(id uint32) bool
	// Count is how many segments the archive has.
	Count() int
	// Read reads on from a record's first byte to the end of its segment, or to max bytes behind the record. The caller closes it.
	Read(at Location, max int64) (io.ReadCloser, error)
	// Place tells where other programs find a record.
	Place(at Location) Place
	// Scan reads a segment up to its committed length. It reports each place that holds no record, and goes on at the
	// next record that can be read.
	Scan(ctx context.Context, s Info, do func(Found) error) error
	// Copy writes the committed bytes of a segment to w.
	Copy(ctx context.Context, s Info, w io.Writer) error
	// Cut describes a segment that ends at a location, for the ledger to commit; false: nothing is left of it.
	Cut(s Info, at Location) (Info, bool)
	// Remove removes a segment that the ledger has forgotten. It is no error if the segment is gone already.
	Remove(s Info) error
	// Free is how many bytes may still be written.
	Free() (int64, error)
	// Close closes the segment that is being written.
	Close() error
}

// Stray is something that a store has and no segment needs: an object that was written and never committed, or whose segment was removed.
type Stray struct {
	Name    string
	Segment uint32 // of which it would be a part
}

// Problem is a segment that is not what was committed.
type Problem struct {
	Segment Info
	Err     error // ErrShort, ErrNone
}
