package archive

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/dgraph-io/badger/v4"

	pb "shoal/manager/archive/archivepb"
	"shoal/manager/archive/warc"
)

// Compacted tells what compaction did.
type Compacted struct {
	Files int   // that are gone
	Moved int   // records that went to other files
	Freed int64 // bytes
}

// Compact rewrites the finished files of which less than share of the bytes is still referred to: what is goes to the file that is being
// written, what is not goes. A share of 1 rewrites every file that holds anything dead; so is any that holds what was taken down, or
// is damaged where nothing refers to it any more: a repair was before.
//
// Chunks come in meanwhile. What they store is in younger files, as the one being written is finished first. But a page that is what it was
// once would be found by its digest in a record that nothing refers to any more: such digests are forgotten, chunks that may have read them
// are waited for, and what those refer to is kept.
func (a *Archive) Compact(ctx context.Context, share float64) (out Compacted, err error) {
	a.upkeep.Lock()
	defer a.upkeep.Unlock()
	todo, err := a.sparse(ctx, share)
	if err != nil || len(todo) == 0 {
		return out, err
	}
	if err := a.dropContents(ctx, todo); err != nil {
		return out, fmt.Errorf("compact: %w", err)
	}
	a.building.Lock()
	a.building.Unlock() //nolint:staticcheck // whoever was building is done
	live, err := a.live(ctx)
	if err != nil {
		return out, fmt.Errorf("compact: %w", err)
	}
	for _, n := range slices.Sorted(maps.Keys(todo)) {
		f := todo[n].file
		pairs, kept, err := a.pairs(f, live[n])
		if err != nil {
			return out, fmt.Errorf("compact %s: %w", f.Name, err)
		}
		if err := a.rewrite(ctx, n, f, pairs.live); err != nil {
			return out, fmt.Errorf("compact %s: %w", f.Name, err)
		}
		out.Files++
		out.Moved += len(pairs.live)
		out.Freed += int64(f.Length) - kept
	}
	return out, nil
}

// sparseFile is one to be rewritten.
type sparseFile struct {
	file *pb.File
	live map[uint64]bool // offsets of the records that something refers to
}

// sparse finds the files that are to be rewritten.
func (a *Archive) sparse(ctx context.Context, share float64) (map[uint32]sparseFile, error) {
	files, err := a.finished(ctx)
	if err != nil {
		return nil, fmt.Errorf("compact: %w", err)
	}
	purged, err := a.purgedFiles(ctx)
	if err != nil {
		return nil, fmt.Errorf("compact: %w", err)
	}
	live, err := a.live(ctx)
	if err != nil {
		return nil, fmt.Errorf("compact: %w", err)
	}
	out := map[uint32]sparseFile{}
	for _, n := range slices.Sorted(maps.Keys(files)) {
		f := files[n]
		pairs, kept, err := a.pairs(f, live[n])
		if err != nil {
			return nil, fmt.Errorf("compact %s: %w", f.Name, err)
		}
		dead := kept < int64(f.Length)-int64(pairs.info)
		if !dead && purged[n] {
			if err := a.commit(&job{changes: func(uint32, uint64) ([]kv, error) { return []kv{{keyOfPurged(n), nil}}, nil }}); err != nil {
				return nil, fmt.Errorf("compact %s: %w", f.Name, err)
			}
		}
		if dead && (purged[n] || pairs.torn || float64(kept) < share*float64(f.Length)) {
			out[n] = sparseFile{f, live[n]}
		}
	}
	return out, nil
}

// dropContents forgets the digests whose records are about to go.
func (a *Archive) dropContents(ctx context.Context, todo map[uint32]sparseFile) error {
	e := eraser{a: a}
	err := a.db.View(func(txn *badger.Txn) error {
		c := new(pb.Content)
		return scan(txn, []byte{keyContent}, nil, true, func(key []byte, item *badger.Item) (bool, error) {
			c.Reset()
			if err := item.Value(func(b []byte) error { return decode(b, c) }); err != nil {
				return false, err
			}
			at, err := a.where(txn, c.At)
			if err != nil && !errors.Is(err, ErrNotFound) {
				return false, err
			}
			if err == nil {
				if f, ok := todo[at.File]; !ok || f.live[at.Offset] {
					return true, ctx.Err()
				}
			}
			return true, firstOf(e.erase(bytes.Clone(key)), ctx.Err())
		})
	})
	if err != nil {
		return err
	}
	return e.flush()
}

// live finds the records that something refers to: by file, their offsets.
func (a *Archive) live(ctx context.Context) (map[uint32]map[uint64]bool, error) {
	out := map[uint32]map[uint64]bool{}
	err := a.db.View(func(txn *badger.Txn) error {
		note := func(at *pb.Location) error {
			if at == nil {
				return nil
			}
			at, err := a.where(txn, at)
			if errors.Is(err, ErrNotFound) {
				return nil
			}
			if err != nil {
				return err
			}
			if out[at.File] == nil {
				out[at.File] = map[uint64]bool{}
			}
			out[at.File][at.Offset] = true
			return nil
		}
		capture, page := new(pb.Capture), new(pb.Page)
		err := scan(txn, []byte{keyCapture}, nil, true, func(_ []byte, item *badger.Item) (bool, error) {
			capture.Reset()
			err := item.Value(func(b []byte) error { return decode(b, capture) })
			return true, errors.Join(err, note(capture.At), note(capture.Original), ctx.Err())
		})
		if err != nil {
			return err
		}
		return scan(txn, []byte{keyPage}, nil, true, func(_ []byte, item *badger.Item) (bool, error) {
			page.Reset()
			err := item.Value(func(b []byte) error { return decode(b, page) })
			return true, errors.Join(err, note(page.GetContent().GetAt()), ctx.Err())
		})
	})
	return out, err
}

// finished lists the files that are not being written. The one that is, is finished first if it holds anything.
func (a *Archive) finished(ctx context.Context) (map[uint32]*pb.File, error) {
	if err := a.commit(&job{seal: true}); err != nil {
		return nil, err
	}
	out := map[uint32]*pb.File{}
	err := a.db.View(func(txn *badger.Txn) error {
		return scan(txn, []byte{keyFile}, nil, true, func(key []byte, item *badger.Item) (bool, error) {
			f := new(pb.File)
			err := item.Value(func(b []byte) error { return decode(b, f) })
			if f.Sealed {
				out[binary.BigEndian.Uint32(key[1:])] = f
			}
			return true, errors.Join(err, ctx.Err())
		})
	})
	return out, err
}

// pair is a record that is kept, with the metadata record that follows it.
type pair struct {
	off    uint64
	first  uint32 // bytes of the record
	both   uint32 // bytes with its metadata
	digest string // of its payload
}

type pairing struct {
	live []pair
	info int  // bytes of the warcinfo
	torn bool // it holds something that is no record
}

// pairs reads a file and finds what is kept of it. What is damaged there and not needed is as good as dead.
func (a *Archive) pairs(f *pb.File, live map[uint64]bool) (out pairing, kept int64, err error) {
	in, err := a.cfg.FS.Open(a.path("warc", f.Name), false)
	if err != nil {
		return out, 0, err
	}
	defer func() { _ = in.Close() }() // it was only read
	var last *pair                    // that may have metadata
	lastID := ""
	end := func(off int64) { // the record before ends here
		if last != nil {
			last.both = uint32(off) - uint32(last.off)
			if last.first == 0 {
				last.first = last.both
			}
		}
	}
	one := func(r *warc.Read, off int64) {
		if kind := r.Field("WARC-Type"); kind == warc.Metadata && last != nil && r.Field("WARC-Refers-To") == lastID {
			last.first = uint32(off) - uint32(last.off)
			return
		}
		end(off)
		last = nil
		if out.info == 0 && off > 0 {
			out.info = int(off)
		}
		if live[uint64(off)] {
			out.live = append(out.live, pair{off: uint64(off), digest: r.Field("WARC-Payload-Digest")})
			last, lastID = &out.live[len(out.live)-1], r.Field("WARC-Record-ID")
		}
	}
	for from := int64(0); ; {
		s := warc.NewScanner(io.NewSectionReader(in, from, int64(f.Length)-from))
		for s.Scan() {
			one(s.Record(), from+s.Offset())
		}
		at := from + s.Offset()
		end(at)
		last = nil
		if s.Err() == nil {
			break
		}
		out.torn = true
		if from, err = nextMember(in, at+1, int64(f.Length)); err != nil {
			return out, 0, err
		}
		if from < 0 {
			break
		}
	}
	if len(out.live) < len(live) {
		return out, 0, fmt.Errorf("%w: %d records that pages need cannot be read: shoal archive repair first", warc.ErrMalformed, len(live)-len(out.live))
	}
	for _, p := range out.live {
		kept += int64(p.both)
	}
	return out, kept, nil
}

// rewrite moves what is kept of a file, then removes it. Where each record went is noted in the same transaction in which it is there;
// when all have moved, the file is forgotten, and only then removed.
func (a *Archive) rewrite(ctx context.Context, n uint32, f *pb.File, keep []pair) error {
	in, err := a.cfg.FS.Open(a.path("warc", f.Name), false)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // it was only read
	for len(keep) > 0 {
		var raw bytes.Buffer
		part := keep[:0:0]
		for len(keep) > 0 && len(part) < upkeepBatch && raw.Len() < maxGroup/2 {
			p := keep[0]
			keep = keep[1:]
			if _, err := io.Copy(&raw, io.NewSectionReader(in, int64(p.off), int64(p.both))); err != nil {
				return err
			}
			part = append(part, p)
		}
		if err := a.move(n, raw.Bytes(), part); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err() // what has moved is there twice, until the next time
		}
	}
	forget := &job{changes: func(uint32, uint64) ([]kv, error) { return []kv{{keyOfFile(n), nil}, {keyOfPurged(n), nil}}, nil }}
	if err := a.commit(forget); err != nil {
		return err
	}
	a.stats.dropFile(n)
	return a.cfg.FS.Remove(a.path("warc", f.Name))
}

// move appends records as they are and notes where they went.
func (a *Archive) move(from uint32, raw []byte, part []pair) error {
	return a.commit(&job{records: raw, count: len(part), changes: func(file uint32, base uint64) ([]kv, error) {
		var out []kv
		at := base
		for _, p := range part {
			v, err := encode(&pb.Location{File: file, Offset: at, Length: p.first})
			if err != nil {
				return nil, err
			}
			out = append(out, kv{keyOfMoved(&pb.Location{File: from, Offset: p.off}), v})
			at += uint64(p.both)
		}
		return out, nil
	}})
}

// sorted gives the keys of a map in order.
func sorted[V any](m map[string]V) []string { return slices.SortedFunc(maps.Keys(m), strings.Compare) }
