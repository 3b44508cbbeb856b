package upkeep

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	pb "shoal/manager/archive/archivepb"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/pages"
	"shoal/manager/archive/schema"
	"shoal/manager/archive/segment"
	"shoal/manager/archive/warc"
)

// maxMoved bounds the bytes of records that are moved at a time.
const maxMoved = 8 << 20

// Compacted tells what compaction did.
type Compacted struct {
	Files int   `json:"files"` // that are gone
	Moved int   `json:"moved"` // records that went to other files
	Freed int64 `json:"freed"` // bytes
}

// Compact rewrites the sealed segments in which less than share of the bytes is live, that is referred to by captures or pages. It moves live
// records to the segment that is being written and drops the others. A share of 1 rewrites every segment with a dead record. Segments with
// records that were taken down, and damaged ones, are always rewritten.
//
// Chunks are stored meanwhile. Their records are in younger segments, because Compact seals the current one first. But a chunk may find its
// payload by digest in a dead record, and refer to it. So Compact first forgets the digests of dead records, then waits for the chunks that may
// have read them, here and at other managers, and then looks again which records are live.
func (u *Upkeep) Compact(ctx context.Context, share float64) (out Compacted, err error) {
	return u.compact(ctx, compaction, share, false)
}

// CompactSparingly is Compact for what must be done often. An archive can be terabytes, so it reads only the segments that are worth rewriting by what is
// known of them, and may not see damage. A small segment that is being written it leaves alone, unless a takedown removed some of it.
func (u *Upkeep) CompactSparingly(ctx context.Context, share float64) (out Compacted, err error) {
	return u.compact(ctx, afterForget, share, true)
}

func (u *Upkeep) compact(ctx context.Context, what string, share float64, sparing bool) (out Compacted, err error) {
	release, err := u.turns.turn(ctx, what)
	if err != nil {
		return out, err
	}
	defer release()
	todo, live, err := u.sparse(ctx, share, sparing)
	if err != nil || len(todo) == 0 {
		return out, err
	}
	if err := u.sweepTexts(ctx); err != nil {
		return out, fmt.Errorf("compact: %w", err)
	}
	ever, done, all := live, int64(0), lengths(todo)
	for first := true; len(todo) > 0; first = false {
		if live, err = unreferred(ctx, u, todo, live); err != nil {
			return out, fmt.Errorf("compact: %w", err)
		}
		if !first {
			ever.join(live)
		}
		u.turns.step("rewriting files", all)
		u.turns.did(done)
		for yielded := false; len(todo) > 0 && !yielded; yielded = u.turns.yield() {
			s := todo[0]
			kept, err := u.kept(ctx, s, live)
			if err == nil {
				err = u.rewrite(ctx, s, kept.pairs)
			}
			if err != nil {
				return out, fmt.Errorf("compact %s: %w", s.Name, err)
			}
			out.Files++
			out.Moved += len(kept.pairs)
			out.Freed += int64(s.Length) - kept.bytes
			delete(u.known, s.ID)
			todo, done = todo[1:], done+int64(s.Length)
			u.turns.did(int64(s.Length))
		}
		live = nil
	}
	u.turns.step("noting where records went", 0)
	if err := u.settleMoves(ctx, ever); err != nil {
		return out, fmt.Errorf("compact: forget where records went: %w", err)
	}
	return out, nil
}

// unreferred sees to it that nothing refers any more to what is dead in the segments that are to be rewritten, nor will, and returns what is live. What is known to be live is
// passed; nil: nothing is, as a host may have been taken down since.
func unreferred(ctx context.Context, u *Upkeep, todo []segment.Info, live records) (_ records, err error) {
	u.turns.step("finding what is needed", 0)
	if live == nil {
		if live, err = u.live(ctx); err != nil {
			return nil, err
		}
	}
	if err := u.dropContents(ctx, todo, live); err != nil {
		return nil, err
	}
	u.turns.step("waiting for what is being stored", 0)
	if err := u.ledger.Others.WaitForAll(ctx); err != nil {
		return nil, err
	}
	u.turns.step("finding what is needed", 0)
	now, err := u.live(ctx)
	if err != nil {
		return nil, err
	}
	live.join(now) // what was live at first may be referred to again
	return live, nil
}

// sparse finds the segments that are to be rewritten, and the records that something refers to.
func (u *Upkeep) sparse(ctx context.Context, share float64, sparing bool) (todo []segment.Info, live records, err error) {
	purged, err := u.purgedSegments(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("compact: %w", err)
	}
	sealed, err := u.sealed(ctx, func(s segment.Info) bool { return !sparing || s.Length >= sealLeast || purged[s.ID] })
	if err != nil {
		return nil, nil, fmt.Errorf("compact: %w", err)
	}
	u.turns.step("finding what is needed", 0)
	if live, err = u.live(ctx); err != nil {
		return nil, nil, fmt.Errorf("compact: %w", err)
	}
	u.turns.step("reading files", lengths(sealed))
	for _, s := range sealed {
		is, err := isSparse(ctx, u, s, live, purged[s.ID], share, sparing)
		if err != nil {
			return nil, nil, fmt.Errorf("compact %s: %w", s.Name, err)
		}
		if is {
			todo = append(todo, s)
		}
		u.turns.did(int64(s.Length))
		if !u.turns.yield() {
			continue
		}
		if purged, err = u.purgedSegments(ctx); err == nil {
			live, err = u.live(ctx)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("compact: %w", err)
		}
	}
	return todo, live, nil
}

// isSparse reports whether a segment is to be rewritten. One that was marked as purged, and holds nothing dead, is marked no more.
func isSparse(ctx context.Context, u *Upkeep, s segment.Info, live records, purged bool, share float64, sparing bool) (bool, error) {
	bytes := live.bytes(s.ID)
	if sparing && !purged && float64(bytes)*max(u.known[s.ID], 1) >= share*float64(s.Length) {
		return false, nil
	}
	kept, err := u.kept(ctx, s, live)
	if err != nil {
		return false, err
	}
	dead := kept.dead > 0 || kept.torn
	if !dead && purged {
		if err := u.ledger.Change(ledger.Change{Key: schema.SegmentKey(schema.Purged, s.ID)}); err != nil {
			return false, err
		}
	}
	if dead && (purged || kept.torn || float64(kept.bytes) < share*float64(kept.bytes+kept.dead+kept.info)) {
		return true, nil
	}
	if bytes > 0 {
		u.known[s.ID] = float64(kept.bytes) / float64(bytes)
	}
	return false, nil
}

// sealLeast is how long a segment is at least that is sealed only to be looked at.
const sealLeast = 16 << 20

// sealed seals the segments that are being written and are to be, and lists all sealed ones.
func (u *Upkeep) sealed(ctx context.Context, too func(segment.Info) bool) (out []segment.Info, err error) {
	all, err := u.ledger.Segments(ctx)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(all, func(s segment.Info) bool { return !s.Sealed && too(s) }) {
		if all, err = u.ledger.Closing.SealAll(ctx, too); err != nil {
			return nil, err
		}
	}
	for _, s := range all {
		if s.Sealed {
			out = append(out, s)
		}
	}
	return out, err
}

// lengths is how long segments are together.
func lengths(of []segment.Info) (n int64) {
	for _, s := range of {
		n += int64(s.Length)
	}
	return n
}

// dropContents forgets the digests whose records are about to go, and the texts that were made of them.
func (u *Upkeep) dropContents(ctx context.Context, todo []segment.Info, live records) error {
	going := map[uint32]bool{}
	for _, s := range todo {
		going[s.ID] = true
	}
	b := u.ledger.Batch()
	err := u.ledger.View(func(snap ledger.Snapshot) error {
		c := new(pb.Content)
		return snap.Scan([]byte{schema.Content}, nil, true, func(key, value []byte) (bool, error) {
			c.Reset()
			if err := schema.Decode(value, c); err != nil {
				return false, err
			}
			at, err := u.pages.Locate(snap, schema.Location(c.At))
			if err != nil && !errors.Is(err, pages.ErrNotFound) {
				return false, err
			}
			if err == nil && (!going[at.Segment] || live.has(at)) {
				return true, ctx.Err()
			}
			return true, firstOf(b.Delete(bytes.Clone(key)), b.Delete(schema.PayloadKey(schema.Text, key[1:])), ctx.Err())
		})
	})
	if err != nil {
		return err
	}
	return b.Flush()
}

// live finds the records that something refers to.
func (u *Upkeep) live(ctx context.Context) (records, error) {
	out := records{}
	err := u.ledger.View(func(snap ledger.Snapshot) error {
		note := func(stored *pb.Location) error {
			at, err := u.pages.Locate(snap, schema.Location(stored))
			if errors.Is(err, pages.ErrNotFound) {
				return nil
			}
			if err == nil {
				out.add(at)
			}
			return err
		}
		capture, page := new(pb.Capture), new(pb.Page)
		err := snap.Scan([]byte{schema.Capture}, nil, true, func(_, value []byte) (bool, error) {
			capture.Reset()
			err := schema.Decode(value, capture)
			return true, firstOf(err, note(capture.At), note(capture.Original), ctx.Err())
		})
		if err != nil {
			return err
		}
		return snap.Scan([]byte{schema.Page}, nil, true, func(_, value []byte) (bool, error) {
			page.Reset()
			err := schema.Decode(value, page)
			return true, firstOf(err, note(page.GetContent().GetAt()), ctx.Err())
		})
	})
	return out, err
}

// pair is a record that is kept, with the metadata record that follows it.
type pair struct {
	at   segment.Location
	meta uint32 // bytes of the metadata; 0: none
}

// kept is what is kept of a segment.
type kept struct {
	pairs []pair
	bytes int64 // of them
	info  int64 // bytes of the warcinfo
	dead  int64 // bytes of the records that are not kept
	torn  bool  // the segment holds something that is no record
}

// kept reads a segment and finds what is kept of it. What is damaged there and not needed is as good as dead.
func (u *Upkeep) kept(ctx context.Context, s segment.Info, live records) (out kept, err error) {
	lastID := "" // of the record that may have metadata; empty: none
	err = u.segments.Scan(ctx, s, func(f segment.Found) error {
		size := int64(f.At.Length)
		switch {
		case f.Record == nil:
			out.torn = true
			lastID = ""
		case f.Record.Field("WARC-Type") == warc.Info:
			out.info += size
			lastID = ""
		case lastID != "" && f.Record.Field("WARC-Type") == warc.Metadata && f.Record.Field("WARC-Refers-To") == lastID:
			out.pairs[len(out.pairs)-1].meta = f.At.Length
			out.bytes += size
			lastID = ""
		case live.has(f.At):
			out.pairs = append(out.pairs, pair{at: f.At})
			out.bytes += size
			lastID = f.Record.Field("WARC-Record-ID")
		default:
			out.dead += size
			lastID = ""
		}
		return nil
	})
	if missing := len(live[s.ID]) - len(out.pairs); err == nil && missing > 0 {
		err = fmt.Errorf("%w: %d records that pages need cannot be read: shoal archive repair first", warc.ErrMalformed, missing)
	}
	return out, err
}

// rewrite moves what is kept of a segment, then removes it. Where each record went is noted in the same write in which it is there; when all
// have moved, the segment is forgotten, and only then removed.
func (u *Upkeep) rewrite(ctx context.Context, s segment.Info, keep []pair) error {
	for len(keep) > 0 {
		var raw bytes.Buffer
		var ends []int
		part := keep[:0:0]
		for len(keep) > 0 && len(part) < ledger.MaxBatch && raw.Len() < maxMoved {
			p := keep[0]
			keep = keep[1:]
			if err := u.copyPair(&raw, p); err != nil {
				return err
			}
			if p.meta > 0 {
				ends = append(ends, raw.Len()-int(p.meta))
			}
			ends = append(ends, raw.Len())
			part = append(part, p)
		}
		if err := u.move(raw.Bytes(), ends, part); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err() // what has moved is there twice, until the next time
		}
	}
	if err := u.ledger.Change(u.ledger.Closing.Forgotten(s.ID)...); err != nil {
		return err
	}
	return u.segments.Remove(s)
}

// copyPair reads a record, and its metadata.
func (u *Upkeep) copyPair(to io.Writer, p pair) error {
	in, err := u.segments.Read(p.at, int64(p.meta))
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // it was only read
	_, err = io.CopyN(to, in, int64(p.at.Length)+int64(p.meta))
	return err
}

// move appends records as they are and notes where they went. If the segment to which they go is closed at that moment, they go to the next one.
func (u *Upkeep) move(raw []byte, ends []int, part []pair) error {
	job := func() *ledger.Job { return moving(raw, ends, part) }
	err := u.ledger.Commit(job())
	if errors.Is(err, ledger.ErrConflict) {
		err = u.ledger.Commit(job())
	}
	return err
}

func moving(raw []byte, ends []int, part []pair) *ledger.Job {
	return &ledger.Job{Records: raw, Ends: ends, Changes: func(at []segment.Location) (out []ledger.Change, err error) {
		n := 0
		for _, p := range part {
			if out, err = ledger.Put(out, schema.MovedKey(p.at), schema.StoredLocation(at[n])); err != nil {
				return nil, err
			}
			if n++; p.meta > 0 {
				n++
			}
		}
		return out, nil
	}}
}
