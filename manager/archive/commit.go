package archive

import (
	"errors"
	"fmt"
	"sync"

	"github.com/dgraph-io/badger/v4"

	pb "shoal/manager/archive/archivepb"
	"shoal/manager/archive/warc"
)

// kv is one change of the database; a nil value deletes.
type kv struct {
	key, value []byte
}

// job is what one call wants to have made durable at once.
type job struct {
	records []byte // gzip members for the WARC file
	count   int    // how many
	// changes are the database's, once it is known where the records begin; nil: none beyond entries.
	changes func(file uint32, base uint64) ([]kv, error)
	// first are changes that come before, in transactions of their own if there is no room: they do no harm if the others never come.
	first   func(file uint32, base uint64) ([]kv, error)
	entries []*pb.Entry // for the feed, in this order; page events after their locations were set by changes
	report  []byte      // of the entry that the lease makes
	tally   tally
	grows   bool // takes new work: refused when the disk is full
	seal    bool // finish the WARC file that is being written

	done chan error // buffered
	lead chan struct{}
}

// tally is what a job adds to the State.
type tally struct {
	pages, unchanged, chunks, bytes, events uint64
}

// valueThreshold is the size from which values are kept apart from their keys. A page's state and its entry in the feed, each below it,
// fit for MaxPages pages into one transaction.
const valueThreshold = 256

// maxGroup bounds the bytes of records that are written before a sync.
const maxGroup = 16 << 20

// group makes jobs durable together: who comes first writes for all who came meanwhile. Fields below mu are guarded by it; the others
// are owned by the leader.
type group struct {
	mu      sync.Mutex
	queue   []*job
	leading bool
	closed  bool
	failed  error // the database did not say whether it has what we wrote: only opening anew can tell
	idle    *sync.Cond

	state  pb.State
	file   pb.File
	out    *warc.Appender // nil: to be created
	sealed []kv           // records of files that are finished, for the next transaction
}

// commit makes a job durable. It does not end early when a caller gives up: the answer must be known.
func (a *Archive) commit(j *job) error {
	if err := a.checkRoom(j.grows); err != nil {
		return err
	}
	g := &a.group
	j.done, j.lead = make(chan error, 1), make(chan struct{}, 1)
	g.mu.Lock()
	if g.closed || g.failed != nil {
		err := g.failed
		g.mu.Unlock()
		if err == nil {
			err = ErrClosed
		}
		return err
	}
	g.queue = append(g.queue, j)
	if g.leading {
		g.mu.Unlock()
		select {
		case err := <-j.done:
			return err
		case <-j.lead: // the leader is done with its own and made us the next
		}
		g.mu.Lock()
	}
	g.leading = true
	batch := g.take()
	g.mu.Unlock()

	failed := a.write(batch)

	g.mu.Lock()
	if failed != nil {
		g.failed = failed
		for _, r := range g.queue {
			r.done <- failed
		}
		g.queue = nil
	}
	if len(g.queue) > 0 {
		g.queue[0].lead <- struct{}{}
	} else {
		g.leading = false
		if g.idle != nil {
			g.idle.Broadcast()
		}
	}
	g.mu.Unlock()
	return <-j.done
}

// take takes the jobs of one write; the first one is always among them.
func (g *group) take() []*job {
	n, size := 0, 0
	for n < len(g.queue) && (n == 0 || size+len(g.queue[n].records) <= maxGroup) {
		size += len(g.queue[n].records)
		n++
	}
	batch := g.queue[:n:n]
	g.queue = g.queue[n:]
	return batch
}

// write makes a batch durable and answers its jobs. Only a failure after which nothing can be known is returned.
func (a *Archive) write(batch []*job) (failed error) {
	g := &a.group
	for _, j := range batch {
		if j.seal && g.out != nil {
			if err := g.out.Close(); err != nil {
				a.log.Error("closing a WARC file failed", "file", g.file.Name, "err", err)
			}
			g.out = nil
			a.sealFile()
		}
	}
	begun, err := a.append(batch)
	if err != nil {
		a.stats.failures.Add(1)
		a.log.Error("storing failed; nothing was acknowledged", "chunks", len(batch), "err", err)
		err = fmt.Errorf("%w: %w", ErrStorage, err)
		for _, j := range batch {
			j.done <- err
		}
		return nil
	}
	var open []*job // in txn
	var txn *badger.Txn
	var count, size int64
	news := false
	finish := func() {
		if txn == nil {
			return
		}
		if err := errors.Join(a.seal(txn), a.db.log.Unsynced()); err != nil {
			failed = fmt.Errorf("%w: database: %w; stop and start again", ErrStorage, err)
		}
		for _, j := range open {
			if failed == nil {
				a.stats.count(j.tally)
			}
			j.done <- failed
		}
		txn, open, count, size = nil, open[:0], 0, 0
	}
	room := func(c, s int64) {
		if count+c > a.db.MaxBatchCount()-16 || size+s > a.db.MaxBatchSize()-txnSpare {
			finish()
		}
		if txn == nil {
			txn = a.db.NewTransaction(true)
		}
		count, size = count+c, size+s
	}
	set := func(ch kv) {
		var err error
		if ch.value == nil {
			err = txn.Delete(ch.key)
		} else {
			err = txn.Set(ch.key, ch.value)
		}
		if err != nil && failed == nil {
			failed = fmt.Errorf("%w: database: %w", ErrStorage, err)
		}
	}
	for n, j := range batch {
		first, last, err := a.changes(j, begun[n])
		if err != nil || failed != nil {
			j.done <- errors.Join(failed, err) // its records stay in the file, where nothing mentions them
			continue
		}
		for _, ch := range first {
			room(1, ch.weight())
			set(ch)
		}
		room(weigh(last))
		open = append(open, j)
		news = news || len(j.entries) > 0
		for _, ch := range last {
			set(ch)
		}
	}
	finish()
	if g.out != nil && failed == nil {
		g.out.Commit()
	}
	if news {
		a.bell.ring()
	}
	return failed
}

// seal writes the archive's own record into txn and commits it.
func (a *Archive) seal(txn *badger.Txn) error {
	g := &a.group
	if g.out != nil {
		g.state.Length = uint64(g.out.Len())
		g.file.Length = g.state.Length
		b, err := encode(&g.file)
		if err != nil {
			return err
		}
		if err := txn.Set(keyOfFile(g.state.File), b); err != nil {
			return err
		}
	}
	for _, f := range g.sealed {
		if err := txn.Set(f.key, f.value); err != nil {
			return err
		}
	}
	g.sealed = nil
	b, err := encode(&g.state)
	if err != nil {
		return err
	}
	if err := txn.Set([]byte{keyState}, b); err != nil {
		return err
	}
	return txn.Commit()
}

// txnSpare is the room that a transaction keeps for the archive's own records.
const txnSpare = 64 << 10

// weight is at least what a change counts in a transaction.
func (c kv) weight() int64 {
	n := int64(len(c.key)) + 16
	if len(c.value) < valueThreshold {
		return n + int64(len(c.value))
	}
	return n + 16
}

func weigh(changes []kv) (count, size int64) {
	for _, c := range changes {
		size += c.weight()
	}
	return int64(len(changes)), size
}

// changes are what a job changes in the database.
func (a *Archive) changes(j *job, base uint64) (first, out []kv, err error) {
	g := &a.group
	if j.first != nil {
		if first, err = j.first(g.state.File, base); err != nil {
			return nil, nil, err
		}
	}
	if j.changes != nil {
		if out, err = j.changes(g.state.File, base); err != nil {
			return nil, nil, err
		}
	}
	seq := g.state.NextSeq
	for _, e := range j.entries {
		kind := byte(keyFeed)
		if e.Page != nil {
			kind = keyChanges
			j.tally.events++
		}
		b, err := encode(e)
		if err != nil {
			return nil, nil, err
		}
		out = append(out, kv{key1(kind, seq), b})
		seq++
	}
	if count, size := weigh(out); count > a.db.MaxBatchCount()-16 || size > a.db.MaxBatchSize()-txnSpare {
		return nil, nil, fmt.Errorf("%w: %d changes of %d bytes in one", ErrBadChunk, count, size)
	}
	g.state.NextSeq = seq
	g.state.Pages += j.tally.pages
	g.state.Unchanged += j.tally.unchanged
	g.state.Chunks += j.tally.chunks
	g.state.Bytes += j.tally.bytes
	g.state.Events += j.tally.events
	return first, out, nil
}

// append writes the records of a batch to the WARC file and makes them durable. After an error nothing of them is kept.
func (a *Archive) append(batch []*job) (begun []uint64, err error) {
	g := &a.group
	begun = make([]uint64, len(batch))
	records := uint64(0)
	for n, j := range batch {
		if len(j.records) == 0 {
			continue
		}
		if records == 0 {
			if err := a.roll(); err != nil {
				return nil, err
			}
		}
		off, err := g.out.Append(j.records)
		if err != nil {
			return nil, errors.Join(err, a.rollback(false))
		}
		begun[n] = uint64(off)
		records += uint64(j.count)
	}
	if records == 0 {
		return begun, nil
	}
	if err := g.out.Sync(); err != nil {
		return nil, errors.Join(err, a.rollback(true))
	}
	g.file.Records += records
	return begun, nil
}

// rollback takes back what was appended and not committed. A file that could not be synced is not used again, nor one that has
// nothing committed: its warcinfo is gone too.
func (a *Archive) rollback(distrust bool) error {
	g := &a.group
	err := g.out.Rollback()
	if err == nil && !distrust && g.file.Length > 0 {
		return nil
	}
	err = errors.Join(err, g.out.Close())
	g.out = nil
	if g.file.Length == 0 {
		a.stats.dropFile(g.state.File)
		return errors.Join(err, a.cfg.FS.Remove(a.path("warc", g.file.Name)))
	}
	a.sealFile()
	return err
}

// sealFile marks the file as finished; the next transaction says so.
func (a *Archive) sealFile() {
	g := &a.group
	g.file.Sealed = true
	if b, err := encode(&g.file); err == nil {
		g.sealed = append(g.sealed, kv{keyOfFile(g.state.File), b})
	}
}

// roll sees to it that there is a file to write to: the last one, or a new one when that is long enough.
func (a *Archive) roll() error {
	g := &a.group
	if g.out != nil {
		if g.out.Len() < a.cfg.Roll {
			return nil
		}
		err := g.out.Close()
		g.out = nil
		a.sealFile()
		if err != nil {
			return err
		}
	}
	now := a.cfg.Clock().UTC()
	next := g.state.File + 1
	name := fmt.Sprintf("shoal-%s-%05d.warc.gz", now.Format("20060102150405"), next)
	out, err := warc.Create(a.cfg.FS, a.path("warc", name))
	if err != nil {
		return err
	}
	rec, err := a.pack.Append(nil, &warc.Record{
		Type: warc.Info, ID: warc.NewID([32]byte(append(a.id[:], make([]byte, 24)...)), int(next)), Date: now, Filename: name,
		Body: a.about(),
	})
	if err == nil {
		_, err = out.Append(rec)
	}
	if err != nil { // nobody knows of the file yet
		return errors.Join(err, out.Close(), a.cfg.FS.Remove(a.path("warc", name)))
	}
	g.out, g.state.File, g.state.Length = out, next, 0
	g.file = pb.File{Name: name, Records: 1, CreatedUs: now.UnixMicro()}
	a.stats.addFile(next, name)
	return nil
}

// about is the block of a file's warcinfo.
func (a *Archive) about() []byte {
	pairs := []string{"software", a.cfg.Software, "format", "WARC File Format 1.1",
		"conformsTo", "http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/", "robots", "RFC 9309"}
	if a.cfg.Operator != "" {
		pairs = append(pairs, "operator", a.cfg.Operator)
	}
	return warc.Fields(pairs...)
}

// close waits for what is under way.
func (g *group) close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	g.idle = sync.NewCond(&g.mu)
	for g.leading {
		g.idle.Wait()
	}
	if g.out == nil {
		return nil
	}
	err := g.out.Close()
	g.out = nil
	return err
}
