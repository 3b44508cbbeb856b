package badgerdb

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"slices"

	"shoal/channel"
)

// importBatch is the number of channels that an import writes at a time.
const importBatch = 2000

// Import adds any number of channels: all of them, or none if a line has an Err or a bad scope. It skips lines whose
// scope a channel or an earlier line has, and counts and names them. Other writes go on meanwhile.
//
// Import writes the channels in batches. The same commits note their ids as staged, which hides them. The last commit
// drops the note and so makes them visible. If an import is cut short, the next Open undoes it.
func (db *DB) Import(ctx context.Context, e Epoch, lines iter.Seq[channel.Line]) (channel.Imported, error) {
	var out channel.Imported
	var mine ranges
	err := db.stageAll(ctx, e, lines, &out, &mine)
	if err == nil && len(mine) > 0 {
		err = db.write(ctx, e, func(t *tx) error { return db.unstage(t, mine) })
	}
	if err != nil {
		if len(mine) == 0 {
			return channel.Imported{}, err // nothing was staged: what is, is another import's
		}
		// If this fails too, the note stays and the next Open undoes the import.
		if undo := db.dropStaged(context.WithoutCancel(ctx), mine); undo != nil {
			err = errors.Join(err, fmt.Errorf("undo: %w", undo))
		}
		return channel.Imported{}, err
	}
	if len(mine) > 0 {
		out.First, out.Last = mine[0].first, mine[len(mine)-1].last
	}
	return out, nil
}

// newLine is a prepared line.
type newLine struct {
	n int
	newChannel
}

func (db *DB) stageAll(ctx context.Context, e Epoch, lines iter.Seq[channel.Line], out *channel.Imported, mine *ranges) (err error) {
	var flying chan error // of the batch that is being written while the next one is read
	land := func() error {
		if flying == nil {
			return nil
		}
		err := <-flying
		flying = nil
		return err
	}
	defer func() { err = errors.Join(err, land()) }()
	batch := make([]newLine, 0, importBatch)
	flush := func() error {
		if err := land(); err != nil {
			return err
		}
		full := batch
		batch = make([]newLine, 0, importBatch)
		flying = make(chan error, 1)
		go func() { flying <- db.stage(ctx, e, full, out, mine) }()
		return nil
	}
	for l := range lines {
		if l.Err != nil {
			return fmt.Errorf("line %d: %w", l.N, l.Err)
		}
		n, err := prepareNew(&l.Channel)
		if err != nil {
			return fmt.Errorf("line %d: %w", l.N, err)
		}
		if batch = append(batch, newLine{l.N, n}); len(batch) == importBatch {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}

// stage writes one batch. It halves a batch that is too large for one commit.
func (db *DB) stage(ctx context.Context, e Epoch, batch []newLine, out *channel.Imported, mine *ranges) error {
	if len(batch) == 0 {
		return nil
	}
	var r ranges
	var refused []channel.Refusal
	err := db.write(ctx, e, func(t *tx) error {
		r, refused = nil, nil
		next, err := t.nextID()
		if err != nil {
			return err
		}
		for i := range batch {
			taken, err := batch[i].insert(t, channel.ID(next))
			if err != nil {
				return fmt.Errorf("line %d: %w", batch[i].n, err)
			}
			if taken != 0 && !r.has(taken) && !mine.has(taken) && db.stagedNow().has(taken) {
				return fmt.Errorf("line %d: %w", batch[i].n, ErrImporting)
			}
			if taken != 0 {
				refused = append(refused, channel.Refusal{N: batch[i].n, ID: taken, Err: batch[i].scope.Taken(taken)})
				continue
			}
			r = r.add(channel.ID(next))
			next++
		}
		if len(r) == 0 {
			return nil
		}
		t.putMetaUint(metaNext, next)
		noted, err := notedRanges(t)
		if err != nil {
			return err
		}
		for _, x := range r {
			noted = noted.join(x)
		}
		t.put(metaKey(metaImport), noted.encode())
		t.beforehand(func() { db.setStaged(noted) }) // they must not be visible even for a moment
		return nil
	})
	if errors.Is(err, ErrTooLarge) && len(batch) > 1 {
		half := len(batch) / 2
		if err := db.stage(ctx, e, batch[:half], out, mine); err != nil {
			return err
		}
		return db.stage(ctx, e, batch[half:], out, mine)
	}
	if err != nil {
		return err
	}
	for _, x := range r {
		*mine = mine.join(x)
		out.Added += int(x.last - x.first + 1)
	}
	out.Duplicates += len(refused)
	out.Refused = append(out.Refused, refused[:min(len(refused), channel.MaxRefusals-len(out.Refused))]...)
	return nil
}

// unstage makes the channels of some ranges visible.
func (db *DB) unstage(t *tx, mine ranges) error {
	noted, err := notedRanges(t)
	if err != nil {
		return err
	}
	left := noted.without(mine)
	if len(left) == 0 {
		t.del(metaKey(metaImport))
	} else {
		t.put(metaKey(metaImport), left.encode())
	}
	t.after(func() { db.setStaged(left) })
	return nil
}

// dropStaged removes the channels of a failed import, or of all unfinished imports if mine is nil.
func (db *DB) dropStaged(ctx context.Context, mine ranges) error {
	if mine == nil {
		mine = db.stagedNow()
	}
	for _, r := range mine {
		for first := r.first; first <= r.last; {
			last := min(first+importBatch/2-1, r.last)
			if err := db.removeRange(ctx, first, last); err != nil {
				return err
			}
			first = last + 1
		}
	}
	if len(mine) == 0 {
		return nil
	}
	return db.submit(ctx, &op{run: func(t *tx) error { return db.unstage(t, mine) }})
}

func (db *DB) removeRange(ctx context.Context, first, last channel.ID) error {
	err := db.submit(ctx, &op{run: func(t *tx) error {
		for id := first; id <= last; id++ {
			if err := remove(t, id); err != nil && !errors.Is(err, channel.ErrUnknown) {
				return err
			}
		}
		return nil
	}})
	if errors.Is(err, ErrTooLarge) && last > first {
		half := first + (last-first)/2
		if err := db.removeRange(ctx, first, half); err != nil {
			return err
		}
		return db.removeRange(ctx, half+1, last)
	}
	return err
}

func notedRanges(t *tx) (ranges, error) {
	raw, err := t.get(metaKey(metaImport))
	if err != nil {
		return nil, err
	}
	return parseRanges(raw)
}

func (db *DB) setStaged(r ranges) {
	db.stagedMu.Lock()
	defer db.stagedMu.Unlock()
	db.staged = r
}

func (db *DB) stagedNow() ranges {
	db.stagedMu.RLock()
	defer db.stagedMu.RUnlock()
	return db.staged
}

// ranges are id ranges in order; adjacent ranges are merged. They are never changed in place.
type ranges []idRange

type idRange struct{ first, last channel.ID }

func (r ranges) has(id channel.ID) bool {
	if len(r) == 0 {
		return false
	}
	i, exact := slices.BinarySearchFunc(r, id, func(x idRange, id channel.ID) int {
		switch {
		case x.last < id:
			return -1
		case x.first > id:
			return 1
		}
		return 0
	})
	return exact && i < len(r)
}

func (r ranges) add(id channel.ID) ranges { return r.join(idRange{id, id}) }

// join appends a range that lies above all others.
func (r ranges) join(x idRange) ranges {
	if n := len(r); n > 0 && r[n-1].last+1 == x.first {
		out := slices.Clone(r)
		out[n-1].last = x.last
		return out
	}
	return append(slices.Clone(r), x)
}

// without takes out other. Every range of other lies within one range of r or outside all of them.
func (r ranges) without(other ranges) ranges {
	out := slices.Clone(r)
	for _, o := range other {
		for i, x := range out {
			if o.first < x.first || o.last > x.last {
				continue
			}
			var rest ranges
			if x.first < o.first {
				rest = append(rest, idRange{x.first, o.first - 1})
			}
			if o.last < x.last {
				rest = append(rest, idRange{o.last + 1, x.last})
			}
			out = slices.Concat(out[:i], rest, out[i+1:])
			break
		}
	}
	return out
}

func (r ranges) encode() []byte {
	b := []byte{v1}
	for _, x := range r {
		b = binary.AppendUvarint(b, uint64(x.first))
		b = binary.AppendUvarint(b, uint64(x.last))
	}
	return b
}

func parseRanges(raw []byte) (ranges, error) {
	if raw == nil {
		return nil, nil
	}
	rd := reader{b: raw}
	rd.version()
	var r ranges
	for len(rd.b) > 0 && !rd.bad {
		x := idRange{channel.ID(rd.uint()), channel.ID(rd.uint())}
		if x.first == 0 || x.last < x.first || len(r) > 0 && x.first <= r[len(r)-1].last {
			return nil, damaged("import", raw)
		}
		r = append(r, x)
	}
	return r, rd.end("import")
}
