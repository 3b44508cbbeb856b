package ledger

import (
	"context"
	"errors"
	"io"

	"google.golang.org/protobuf/proto"

	"shoal/manager/archive/schema"
	"shoal/manager/archive/segment"
)

// Errors of a store.
var (
	// ErrConflict says that a write's condition does not hold: another process has changed the record.
	ErrConflict = errors.New("archive: record has changed")
	// ErrTooLarge says that a write has more changes than the store makes at once.
	ErrTooLarge = errors.New("archive: too much for one write")
	// ErrAway says that the database cannot be reached, and that nothing of a commit is durable: the same writes may be tried again.
	ErrAway = errors.New("archive: its database is away")
	// ErrReplaced says that another manager has taken the archive over, or has stored something since this one read it. Nothing of a commit is
	// durable, nor will be of any later one.
	ErrReplaced = errors.New("archive: another manager works on it")
)

// Change is a record that becomes Value. A nil Value deletes it; an empty one does not.
type Change struct{ Key, Value []byte }

// Entry is a line of a feed.
type Entry struct {
	Feed  byte // schema.Feed or schema.Changes
	Value []byte
}

// Totals are what an archive has ever stored.
type Totals struct {
	Pages     uint64 // records that hold a payload
	Unchanged uint64 // visits that found what was stored
	Chunks    uint64
	Bytes     uint64 // of payloads
	Events    uint64 // changes of pages told
}

// Write is what is made durable at once.
type Write struct {
	// If is the condition: the record at If.Key is still If.Value, or is not there if that is nil. Without a key there is no condition. The
	// fence of a channel is kept by it, whatever number of processes write.
	If Change
	// Also is a further condition, of the same kind.
	Also Change
	// Early are changes that do no harm if the others never come. A store that cannot make all at once makes these first.
	Early []Change
	// Changes are made together with Entries, or not at all.
	Changes []Change
	// Entries are appended to their feeds. The store numbers them: each above all that were numbered before, in any process.
	Entries []Entry
	// Add is added to the totals.
	Add Totals
	// Segment, if not 0, is the ID of a segment that is in use from now on.
	Segment uint32
	// Number, if not 0, is the least number of Entries, and of all entries that are appended afterwards.
	Number uint64
}

// Head is what a store says of the archive as a whole.
type Head struct {
	ID      [8]byte // random, of this archive: its cursors name it
	Segment uint32  // the highest ID of a segment that was ever in use
	Totals  Totals
}

// Snapshot is the records as they are at one moment, whatever is written meanwhile.
type Snapshot interface {
	// Get hands the value of a record to read, which must not keep it. false: there is no such record.
	Get(key []byte, read func(value []byte) error) (bool, error)
	// Scan calls do for each record whose key begins with prefix, in the order of the keys, from start on where it is not nil, until do
	// says that it wants no more. do must keep neither key nor value. Without values, value is nil.
	Scan(prefix, start []byte, values bool, do func(key, value []byte) (more bool, err error)) error
	// ScanBack is Scan from the last record that is not above start, downwards, with values.
	ScanBack(prefix, start []byte, do func(key, value []byte) (more bool, err error)) error
}

// Store keeps the ledger's records, by the keys and in the tables of package schema. It is the seam behind which a database stands: Badger in
// the embedded archive (package badgerledger). Package ledgertest says as tests what a store must do. Methods may be called by several
// goroutines, but Commit by one at a time. After an error of Commit that is not ErrAway, the store is closed and opened again.
//
// A store may keep records in another form than one by one, as long as Snapshot gives them as they were written: all that a crawl stores of a
// channel's pages is in one Write, under keys that begin with the channel.
type Store interface {
	// Head is what is durable.
	Head() Head
	// View calls f with a snapshot, which is valid until f returns. After Close it is ErrClosed.
	View(f func(Snapshot) error) error
	// Commit makes writes durable, in their order, each as a whole. refused has nil for each that is, and for another what was wrong with
	// it: ErrConflict, ErrTooLarge. An error means that any of them may be durable or not, unless it is ErrAway: then none is.
	Commit(writes []Write) (refused []error, err error)
	// Check reads all that is durable, at most rate bytes a second (0: as fast as can be), and says what is not as it was written. Damage
	// is wrapped in ErrDamaged.
	Check(ctx context.Context, rate int64) error
	// Tidy gives back what the store wastes.
	Tidy(ctx context.Context)
	// Backup writes all records, in the store's own form.
	Backup(w io.Writer) error
	// Release has a Commit that cannot go on, since the store is damaged, return. Close follows.
	Release()
	// Close waits for readers.
	Close() error
}

// Follower is a Store to which other programs may write as well. What they have written comes into its snapshots by and by.
type Follower interface {
	// Several reports whether they may.
	Several() bool
	// Hear has f told of each stretch of writes of other programs, when they are in the snapshots. f must be quick, and must not call the store.
	Hear(f func([]Write))
	// ShutOut has writers append nothing more, by their names, and then does what Sync does.
	ShutOut(ctx context.Context, writers []string) error
	// Sync returns when all that was durable before the call is in the snapshots.
	Sync(ctx context.Context) error

	// Out says why this program can store nothing more, such as that others have shut it out: the store must be opened anew. Nil: it can.
	Out() error
	// End says that Close follows: a Commit that waits for a database that is away returns.
	End()

	// Name is this program's among the writers, and Writes reports whether one of a name may still append. First chooses one of all.
	Name() string
	Writes(ctx context.Context, name string) (bool, error)
	First(ctx context.Context) (bool, error)
	// Pass notes that this program has answered a wait, and Behind counts the others that have not.
	Pass(ctx context.Context, wait []byte) error
	Behind(ctx context.Context, wait []byte) (int, error)
	// Newest is the ID up to which no program that is there adds to a segment any more: each began later.
	Newest(ctx context.Context) (uint32, error)
}

// Settler is a Store whose snapshots may show entries of feeds that are lost if a database fails just then.
type Settler interface {
	// Settled returns a number below which no entry can be lost, after an attempt to raise it above all that snapshots show.
	Settled(ctx context.Context) uint64
}

// Syncer is a Store whose snapshots may show entries of feeds of which Commit could not say that they are durable.
type Syncer interface {
	// Synced returns a number below which all entries are.
	Synced() uint64
}

// Learner is a segment store that must be told what other programs have made of their segments.
type Learner interface {
	Learn(s segment.Info)
	// Unlearn says that a segment is gone.
	Unlearn(id uint32)
}

// Get reads one record; false: there is none.
func Get(s Snapshot, key []byte, m proto.Message) (bool, error) {
	return s.Get(key, func(v []byte) error { return schema.Decode(v, m) })
}

// Segments reads what the ledger knows of all segments, by ID.
func Segments(ctx context.Context, s Store) (out []segment.Info, err error) {
	err = s.View(func(s Snapshot) error {
		return s.Scan([]byte{schema.Segment}, nil, true, func(key, value []byte) (bool, error) {
			info, err := schema.DecodeSegment(key, value)
			out = append(out, info)
			return true, errors.Join(err, ctx.Err())
		})
	})
	return out, err
}

// Whole notes that each segment lies in one file or object: the parts that it was written in are not there. Segments before the last one are sealed, since nobody
// goes on with what another manager was writing. The store is a copy of an archive that lay elsewhere, and no archive works on it yet.
func Whole(s Store) error {
	all, err := Segments(context.Background(), s)
	if err != nil {
		return err
	}
	var w Write
	last := s.Head().Segment
	for _, is := range all {
		whole := is
		if whole.Parts = ""; whole.ID < last {
			whole.Sealed = true
		}
		if whole == is {
			continue
		}
		v, err := schema.EncodeSegment(whole)
		if err != nil {
			return err
		}
		w.Early = append(w.Early, Change{schema.SegmentKey(schema.Segment, whole.ID), v})
	}
	if len(w.Early) == 0 {
		return nil
	}
	_, err = s.Commit([]Write{w}) // it has no condition
	return err
}

// Put adds a record's change.
func Put(to []Change, key []byte, m proto.Message) ([]Change, error) {
	v, err := schema.Encode(m)
	return append(to, Change{key, v}), err
}
