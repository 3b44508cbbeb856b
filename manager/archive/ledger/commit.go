package ledger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	pb "shoal/manager/archive/archivepb"
	"shoal/manager/archive/schema"
	"shoal/manager/archive/segment"
)

// Bounds of a batch.
const (
	maxJobs       = 1024     // that share a commit, and that wait for one
	maxBatchBytes = 16 << 20 // of records that are appended before a sync

	maxLingerBytes = 8 << 20 // likewise, of a segment store that is far away
)

// Job is what one call wants to have made durable at once.
type Job struct {
	Records []byte // for the segment that is being written
	Ends    []int  // where each record ends in Records
	// Changes are the ledger's, once it is known where the records are. Nil: none beyond Entries.
	Changes func(at []segment.Location) ([]Change, error)
	// Early are changes that do no harm if the others never come. They are asked for before Changes, and may set locations in Entries.
	Early   func(at []segment.Location) ([]Change, error)
	Entries []*pb.Entry // for the feeds, in this order
	Add     Totals
	Grows   bool // takes new work: refused when the disk is full
	Seal    bool // ends the segments that are being written, before anything else
	// Still are records that must be as they were read. If one is not, nothing is done, and the error is ErrConflict. Without a key there is no condition.
	// They are for jobs without Records.
	Still [2]Change

	condition Change    // of the store's write
	fenced    [2]Change // of the channel's record and of its lease, if they change; they come before Changes
	report    []byte    // of the entry that the lease makes
	fault     string    // likewise: why the claim was ended
	err       error     // what became of the job; set by writeBatch
}

// Commit makes a job durable. It does not end early when a caller gives up, because the outcome must be known.
func (l *Ledger) Commit(j *Job) error {
	if err := l.checkSpace(j.Grows); err != nil {
		return err
	}
	lane := l.commits
	if len(j.Records) == 0 && !j.Seal {
		lane = l.light
	}
	if err := lane.Submit(context.Background(), j); err != nil {
		return err
	}
	return j.err
}

// writeBatch makes a batch of jobs durable. Its steps, in this order:
//
//  1. seal: the segments that are being written are ended, if a job asks for it.
//  2. append: the records of all jobs go to the segment store, which says where they are.
//  3. sync: one sync makes them durable, and describes the segments that have changed.
//  4. describe: each job says what it changes, now that it is known where its records are. A job that cannot say so is refused; nothing refers to
//     its records.
//  5. commit: the segments' descriptions, then what the jobs change, become durable in the ledger store, each job as a whole.
//  6. publish: the segment store hears that it was committed, readers of the feeds are woken, and the callers are answered.
//
// When 2 or 3 fails, the records are taken back and every job is refused: each may be tried again, in another segment if this one's sync has
// failed. So they are when 5 says that the database is away. When 5 fails otherwise, anything may be durable or not: the error is returned, and
// nothing more is written until the ledger is opened again.
//
// Where the segment store is far away, several batches run beside each other up to step 5, which one takes at a time: those with records have a
// writer of the segment store each, those without do not touch it. A channel has one job under way at most, so they may be committed in any order.
func (l *Ledger) writeBatch(batch []*Job) error {
	defer l.counters.begin()()
	var out []segment.Writer // none, if the batch has nothing for them
	if l.light == l.commits || records(batch) {
		out = l.writers.take(seals(batch))
		defer l.writers.give(out)
	}
	locations, changed, err := l.appendRecords(batch, out)
	if err != nil {
		l.counters.fail(inRecords, err)
		l.cfg.Log.Error("storing failed; nothing was acknowledged", "jobs", len(batch), "err", err)
		refuse(batch, fmt.Errorf("%w: %w", ErrStorage, err))
		return nil
	}
	writes := make([]Write, 0, len(batch)+len(changed))
	if len(changed) > 0 {
		w, err := l.Closing.writes(changed)
		if err != nil {
			refuse(batch, errors.Join(err, rollback(out)))
			return nil
		}
		writes = append(writes, w...)
	}
	jobs := make([]*Job, len(writes), len(batch)+len(writes)) // of each write; nil: none
	for n, j := range batch {
		w, err := j.write(locations[n])
		if len(locations[n]) > 0 {
			w.Also = l.Closing.open(locations[n][0].Segment)
		}
		if j.err = err; err == nil {
			writes, jobs = append(writes, w), append(jobs, j)
		}
	}
	refused, err := l.commitWrites(writes)
	if errors.Is(err, ErrAway) {
		l.counters.fail(inDatabase, err)
		err = errors.Join(err, rollback(out))
		refuse(batch, fmt.Errorf("%w: %w", ErrStorage, err))
		return nil
	}
	if err != nil {
		if err = fmt.Errorf("%w: database: %w", ErrStorage, err); !errors.Is(err, ErrReplaced) {
			err = fmt.Errorf("%w; stop and start again", err)
		}
		refuse(batch, err)
		l.commits.Fail(err)
		l.light.Fail(err)
		return err
	}
	l.counters.fine(len(out) > 0)
	settle(l.cfg.Log, out, locations, changed, refused)
	news := false
	for n, j := range jobs {
		if j == nil {
			continue
		}
		if j.err = refused[n]; errors.Is(j.err, ErrConflict) && j.condition.Key == nil && len(j.Records) > 0 {
			j.err = fmt.Errorf("%w: %w: its WARC file was closed", ErrStorage, j.err)
		}
		if errors.Is(j.err, ErrTooLarge) {
			j.err = fmt.Errorf("%w: %w", ErrBadChunk, j.err)
		}
		if j.err == nil {
			news = news || len(j.Entries) > 0
			if j.Add.Chunks > 0 {
				l.counters.stored.Store(time.Now().UnixNano())
			}
		}
	}
	if news {
		l.bell.ring()
	}
	return nil
}

// commitWrites is step 5.
func (l *Ledger) commitWrites(writes []Write) ([]error, error) {
	l.lane.Lock()
	defer l.lane.Unlock()
	return l.store.Commit(writes)
}

// records tells whether a batch has to do with the segment store. Without a lane for those that have not, each is taken to.
func records(batch []*Job) bool {
	return slices.ContainsFunc(batch, func(j *Job) bool { return len(j.Records) > 0 || j.Seal })
}

func refuse(batch []*Job, err error) {
	for _, j := range batch {
		j.err = err
	}
}

func seals(batch []*Job) bool { return slices.ContainsFunc(batch, func(j *Job) bool { return j.Seal }) }

// appendRecords makes the records of a batch durable, through the first of its writers; a batch that ends segments has all. After an error nothing of
// the records is kept.
func (l *Ledger) appendRecords(batch []*Job, out []segment.Writer) (locations [][]segment.Location, changed []segment.Info, err error) {
	locations = make([][]segment.Location, len(batch))
	if seals(batch) {
		for _, w := range out {
			if err := w.Seal(); err != nil {
				l.cfg.Log.Error("closing a WARC file failed", "err", err)
			}
		}
	}
	for n, j := range batch {
		if len(j.Records) == 0 {
			continue
		}
		if locations[n], err = out[0].Append(j.Records, j.Ends); err != nil {
			return nil, nil, errors.Join(err, rollback(out))
		}
	}
	for _, w := range out {
		infos, err := w.Sync()
		if err != nil {
			return nil, nil, errors.Join(err, rollback(out))
		}
		changed = append(changed, infos...)
	}
	return locations, changed, nil
}

// rollback takes back what was appended.
func rollback(out []segment.Writer) (err error) {
	for _, w := range out {
		err = errors.Join(err, w.Rollback())
	}
	return err
}

// settle tells the writers what became of their segments, of which refused has the answers first. If the one to which the records went was closed, none of
// them is in it, and the next batch goes to another.
func settle(log *slog.Logger, out []segment.Writer, locations [][]segment.Location, changed []segment.Info, refused []error) {
	into := uint32(0)
	for _, at := range locations {
		if len(at) > 0 {
			into = at[0].Segment
		}
	}
	for n, w := range out {
		closed := n == 0 && slices.ContainsFunc(changed, func(s segment.Info) bool { return s.ID == into && refused[slices.Index(changed, s)] != nil })
		if !closed {
			w.Commit()
			continue
		}
		log.Info("the WARC file that was being written was closed by another manager, or to remove what was left of a broken write; a new one is begun")
		if err := errors.Join(w.Rollback(), w.Seal()); err != nil {
			log.Error("closing a WARC file failed", "err", err)
		}
	}
}

// write is what a job asks of the store, when it is known where its records are.
func (j *Job) write(at []segment.Location) (w Write, err error) {
	w = Write{If: j.condition, Also: j.Still[1], Add: j.Add}
	if w.If.Key == nil {
		w.If = j.Still[0]
	}
	if j.Early != nil {
		if w.Early, err = j.Early(at); err != nil {
			return w, err
		}
	}
	var more []Change
	if j.Changes != nil {
		if more, err = j.Changes(at); err != nil {
			return w, err
		}
	}
	w.Changes = j.withFenced(more)
	for _, e := range j.Entries {
		feed := byte(schema.Feed)
		if e.Page != nil {
			feed = schema.Changes
			w.Add.Events++
		}
		v, err := schema.Encode(e)
		if err != nil {
			return w, err
		}
		w.Entries = append(w.Entries, Entry{feed, v})
	}
	return w, nil
}

// withFenced puts what a step of the fence changes before other changes.
func (j *Job) withFenced(more []Change) []Change {
	own := slices.DeleteFunc(j.fenced[:], func(c Change) bool { return c.Key == nil })
	switch {
	case len(own) == 0:
		return more
	case len(more) == 0:
		return own
	}
	return slices.Concat(own, more)
}

// Batch makes many small changes durable, in jobs of a bounded size, so that chunks need not wait for all of them.
type Batch struct {
	ledger  *Ledger
	pending []Change
	Deleted int // changes that Delete was given
}

// MaxBatch bounds the changes of one job of a Batch.
const MaxBatch = 2000

// Fixed are changes that do not depend on where records are.
func Fixed(changes []Change) func([]segment.Location) ([]Change, error) {
	return func([]segment.Location) ([]Change, error) { return changes, nil }
}

// Batch begins one.
func (l *Ledger) Batch() *Batch { return &Batch{ledger: l} }

// Add adds changes.
func (b *Batch) Add(changes ...Change) { b.pending = append(b.pending, changes...) }

// Delete deletes a record, whose key is kept; it makes durable what has gathered.
func (b *Batch) Delete(key []byte) error {
	b.pending = append(b.pending, Change{key, nil})
	b.Deleted++
	return b.FlushFull()
}

// FlushFull makes durable what has gathered, if that is enough for a job.
func (b *Batch) FlushFull() error {
	if len(b.pending) < MaxBatch {
		return nil
	}
	return b.Flush()
}

// Flush makes durable what has gathered.
func (b *Batch) Flush() error {
	for len(b.pending) > 0 {
		part := b.pending[:min(len(b.pending), MaxBatch)]
		b.pending = b.pending[len(part):]
		if err := b.ledger.Change(part...); err != nil {
			return err
		}
	}
	return nil
}

// Change makes changes durable at once.
func (l *Ledger) Change(changes ...Change) error {
	return l.Commit(&Job{Changes: Fixed(changes)})
}

// Tell makes page events durable, in jobs of a bounded size.
func (l *Ledger) Tell(entries []*pb.Entry) error {
	for len(entries) > 0 {
		part := entries[:min(len(entries), MaxBatch)]
		entries = entries[len(part):]
		if err := l.Commit(&Job{Entries: part}); err != nil {
			return err
		}
	}
	return nil
}

// Seal ends the segments that are being written.
func (l *Ledger) Seal() error { return l.Commit(&Job{Seal: true}) }
