package archive

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/dgraph-io/badger/v4"
	"google.golang.org/protobuf/proto"

	pb "shoal/manager/archive/archivepb"
	"shoal/manager/archive/warc"
)

// Problem is one thing that is wrong.
type Problem struct {
	File   string
	Offset int64 // zero: no place in it, or its beginning
	What   string
}

func (p Problem) String() string {
	if p.Offset == 0 {
		return p.File + ": " + p.What
	}
	return fmt.Sprintf("%s at %d: %s", p.File, p.Offset, p.What)
}

// MaxProblems bounds those that are named.
const MaxProblems = 1000

// Verified is what verification found.
type Verified struct {
	Files    int
	Records  int
	Bytes    int64
	Captures int
	Found    int // problems
	Problems []Problem

	whole map[uint32]map[uint64]bool // records that can be read, by file
	upTo  map[uint32]uint64          // of these files, the lengths that were read
	short map[uint32]int64           // files that end, or cannot be read, from there on
}

func (v *Verified) add(file string, off int64, format string, args ...any) {
	if v.Found++; len(v.Problems) < MaxProblems {
		v.Problems = append(v.Problems, Problem{file, off, fmt.Sprintf(format, args...)})
	}
}

// Verify reads every record of every file, checks lengths, checksums and digests, and that the index points at records; and every byte of the
// database, and of what Config.Beside names. It changes nothing. progress, if not nil, is told the bytes done and all.
func (a *Archive) Verify(ctx context.Context, progress func(done, all int64)) (Verified, error) {
	a.upkeep.Lock()
	defer a.upkeep.Unlock()
	v, err := a.verify(ctx, progress)
	if err != nil {
		return v, err
	}
	return v, a.verifyState(ctx, &v)
}

// verifyState looks at the databases.
func (a *Archive) verifyState(ctx context.Context, v *Verified) error {
	switch err := a.Scrub(ctx); {
	case err != nil && a.damaged.Load() == nil:
		return fmt.Errorf("verify the database: %w", err)
	case err != nil:
		v.add("state", 0, "%s", strings.TrimPrefix(err.Error(), ErrStorage.Error()+": "))
	}
	if a.cfg.Beside == nil {
		return nil
	}
	more, err := a.cfg.Beside(ctx)
	if err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	for _, p := range more {
		v.add(p.File, p.Offset, "%s", p.What)
	}
	return nil
}

func (a *Archive) verify(ctx context.Context, progress func(done, all int64)) (Verified, error) {
	v := Verified{whole: map[uint32]map[uint64]bool{}, short: map[uint32]int64{}, upTo: map[uint32]uint64{}}
	files, err := a.files(ctx)
	if err != nil {
		return v, fmt.Errorf("verify: %w", err)
	}
	var all int64
	for _, f := range files {
		all += int64(f.Length)
	}
	for _, n := range slices.Sorted(maps.Keys(files)) {
		if err := a.verifyFile(ctx, n, files[n], &v); err != nil {
			return v, fmt.Errorf("verify %s: %w", files[n].Name, err)
		}
		v.Files++
		v.Bytes += int64(files[n].Length)
		if progress != nil {
			progress(v.Bytes, all)
		}
	}
	return v, a.verifyIndex(ctx, &v)
}

// files lists all files with their committed lengths.
func (a *Archive) files(ctx context.Context) (map[uint32]*pb.File, error) {
	out := map[uint32]*pb.File{}
	err := a.db.View(func(txn *badger.Txn) error {
		return scan(txn, []byte{keyFile}, nil, true, func(key []byte, item *badger.Item) (bool, error) {
			f := new(pb.File)
			err := item.Value(func(b []byte) error { return decode(b, f) })
			out[binary.BigEndian.Uint32(key[1:])] = f
			return true, errors.Join(err, ctx.Err())
		})
	})
	return out, err
}

func (a *Archive) verifyFile(ctx context.Context, n uint32, f *pb.File, v *Verified) error {
	v.whole[n], v.upTo[n] = map[uint64]bool{}, f.Length
	in, err := a.cfg.FS.Open(a.path("warc", f.Name), false)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, os.ErrPermission) {
		v.add(f.Name, 0, "cannot be opened: %v", err)
		v.short[n] = 0
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // it was only read
	size, err := in.Size()
	if err != nil {
		return err
	}
	if size < int64(f.Length) {
		v.add(f.Name, size, "ends here, %d bytes short", int64(f.Length)-size)
	}
	from := int64(0)
	for from < int64(f.Length) && ctx.Err() == nil {
		s := warc.NewScanner(io.NewSectionReader(in, from, min(size, int64(f.Length))-from))
		for s.Scan() && ctx.Err() == nil {
			v.Records++
			if what := damage(s.Record()); what != "" {
				v.add(f.Name, from+s.Offset(), "%s", what)
				continue
			}
			v.whole[n][uint64(from+s.Offset())] = true
		}
		at := from + s.Offset()
		if s.Err() == nil {
			if at < int64(f.Length) {
				v.short[n] = at
			}
			break
		}
		v.add(f.Name, at, "%v", s.Err())
		next, err := nextMember(in, at+1, int64(f.Length))
		if err != nil {
			return err
		}
		if next < 0 {
			v.short[n] = at
			break
		}
		from = next
	}
	return ctx.Err()
}

// damage says what is wrong with a record that could be read.
func damage(r *warc.Read) string {
	if r.Field("WARC-Type") != warc.Response {
		return ""
	}
	_, payload := r.HTTP()
	if want := r.Field("WARC-Payload-Digest"); want != warc.Digest(sha256.Sum256(payload)) {
		return fmt.Sprintf("%s: payload does not match its digest", r.Field("WARC-Target-URI"))
	}
	return ""
}

// nextMember finds where a record begins again after a damaged one; negative: nowhere.
func nextMember(in io.ReaderAt, from, end int64) (int64, error) {
	buf := make([]byte, 64<<10)
	for from < end {
		n, err := in.ReadAt(buf[:min(int64(len(buf)), end-from)], from)
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		for i := 0; i+2 < n; i++ {
			if buf[i] != 0x1f || buf[i+1] != 0x8b || buf[i+2] != 8 {
				continue
			}
			if _, err := warc.ReadRecord(io.NewSectionReader(in, from+int64(i), end-from-int64(i))); err == nil {
				return from + int64(i), nil
			}
		}
		if n < len(buf) {
			break
		}
		from += int64(n - 2)
	}
	return -1, nil
}

// verifyIndex looks whether what the index names is there.
func (a *Archive) verifyIndex(ctx context.Context, v *Verified) error {
	return a.db.View(func(txn *badger.Txn) error {
		m := new(pb.Capture)
		return scan(txn, []byte{keyCapture}, nil, true, func(key []byte, item *badger.Item) (bool, error) {
			m.Reset()
			if err := item.Value(func(b []byte) error { return decode(b, m) }); err != nil {
				return false, err
			}
			v.Captures++
			if what := a.lost(txn, m, v); what != "" {
				v.add("index", 0, "%s of %s: %s", urlOfCapture(key), timeOfCapture(key).Format("2006-01-02 15:04:05"), what)
			}
			return true, ctx.Err()
		})
	})
}

// lost says which record of a capture cannot be read.
func (a *Archive) lost(txn *badger.Txn, m *pb.Capture, v *Verified) string {
	for _, at := range []*pb.Location{m.At, m.Original} {
		if at == nil {
			continue
		}
		now, err := a.where(txn, at)
		if err != nil {
			return err.Error()
		}
		if !v.whole[now.File][now.Offset] && !writtenSince(txn, now, v) {
			return fmt.Sprintf("no whole record in %s at %d", a.stats.fileName(now.File), now.Offset)
		}
	}
	return ""
}

// writtenSince tells whether a record came after its file was read.
func writtenSince(txn *badger.Txn, at *pb.Location, v *Verified) bool {
	var f pb.File
	ok, err := get(txn, keyOfFile(at.File), &f)
	return err == nil && ok && at.Offset >= v.upTo[at.File] && at.Offset+uint64(at.Length) <= f.Length
}

// Repaired tells what a repair did.
type Repaired struct {
	Verified
	Captures int // that are gone from the index
	Pages    int // that the next crawl fetches in full
	Cut      int // files that were cut at their last whole record
}

// Repair makes the index say only what the files hold: captures whose records are damaged are forgotten, and their pages are fetched in
// full by the next crawl. Files that end too early are finished where they end. Everything else is left as it is.
func (a *Archive) Repair(ctx context.Context) (out Repaired, err error) {
	a.upkeep.Lock()
	defer a.upkeep.Unlock()
	if err := a.commit(&job{seal: true}); err != nil {
		return out, err
	}
	if out.Verified, err = a.verify(ctx, nil); err != nil {
		return out, err
	}
	e := eraser{a: a}
	set := func(key []byte, m proto.Message) error {
		b, err := encode(m)
		e.pending = append(e.pending, kv{key, b})
		return err
	}
	err = a.db.View(func(txn *badger.Txn) error {
		m := new(pb.Capture)
		err := scan(txn, []byte{keyCapture}, nil, true, func(key []byte, item *badger.Item) (bool, error) {
			m.Reset()
			if err := item.Value(func(b []byte) error { return decode(b, m) }); err != nil {
				return false, err
			}
			if a.lost(txn, m, &out.Verified) == "" {
				return true, ctx.Err()
			}
			out.Captures++
			return true, e.erase(append([]byte(nil), key...))
		})
		if err != nil {
			return err
		}
		damaged := func(at *pb.Location) bool {
			now, err := a.where(txn, at)
			return err != nil || !out.whole[now.File][now.Offset]
		}
		err = scan(txn, []byte{keyContent}, nil, true, func(key []byte, item *badger.Item) (bool, error) {
			c := new(pb.Content)
			if err := item.Value(func(b []byte) error { return decode(b, c) }); err != nil {
				return false, err
			}
			if damaged(c.At) {
				return true, e.erase(append([]byte(nil), key...))
			}
			return true, ctx.Err()
		})
		if err != nil {
			return err
		}
		return scan(txn, []byte{keyPage}, nil, true, func(key []byte, item *badger.Item) (bool, error) {
			p := new(pb.Page)
			if err := item.Value(func(b []byte) error { return decode(b, p) }); err != nil {
				return false, err
			}
			if p.Content == nil || !damaged(p.Content.At) {
				return true, ctx.Err()
			}
			out.Pages++
			p.Content, p.Digest, p.Sha256, p.Etag, p.LastModified = nil, 0, nil, nil, nil
			return true, set(append([]byte(nil), key...), p)
		})
	})
	if err != nil {
		return out, fmt.Errorf("repair: %w", err)
	}
	files, err := a.files(ctx)
	if err != nil {
		return out, err
	}
	for n, end := range out.short {
		out.Cut++
		if end == 0 {
			e.pending = append(e.pending, kv{keyOfFile(n), nil})
			a.stats.dropFile(n)
			continue
		}
		f := files[n]
		f.Length, f.Sealed = uint64(end), true
		if err := set(keyOfFile(n), f); err != nil {
			return out, err
		}
	}
	return out, e.flush()
}
