package remote

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"shoal/manager/archive"
	"shoal/manager/archive/bucket"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/ledger/badgerledger"
	"shoal/manager/archive/ledger/pgledger"
	"shoal/manager/archive/schema"
	"shoal/manager/archive/segment"
	"shoal/manager/archive/warc"
	"shoal/manager/archive/warc/folder"
	"shoal/manager/archive/warc/objects"
)

// What is copied ahead, while the archive runs, ends when little is left, or after so many rounds.
const (
	aheadRounds = 8
	aheadLittle = 32 << 20 // bytes
)

// Running is an archive that goes on taking pages while it is copied.
type Running interface {
	Segments(context.Context) ([]segment.Info, error)
	Seal() error
}

// Ahead is what of an archive was copied to its new place while it ran. Each segment in it was read back, and is byte by byte what it is a copy of: sealed
// segments do not change.
type Ahead struct {
	done map[uint32]segment.Info
}

// has reports whether a segment was copied as it is.
func (a *Ahead) has(s segment.Info) bool {
	is, ok := a.done[s.ID]
	return ok && is.Name == s.Name && is.Length == s.Length
}

// UpAhead copies the sealed segments of a running archive from a data folder to the bucket, round by round, until little is left for Up.
func UpAhead(ctx context.Context, a Running, id [8]byte, data string, to Place, tell func(string)) (*Ahead, error) {
	b, err := to.bucket(ctx)
	if err != nil {
		return nil, err
	}
	if err := pgledger.MayAdopt(ctx, pgledger.Config{Server: to.server(), Objects: b}, id); err != nil {
		return nil, err
	}
	from, store := folder.Open(folder.Config{Dir: filepath.Join(data, "archive", "warc")}), objects.Open(objects.Config{Bucket: b})
	return rounds(ctx, a, tell, func(s segment.Info) error { return sent(ctx, from, store, s) })
}

// DownAhead copies the sealed segments of a running archive from the bucket to where Down makes the folder.
func DownAhead(ctx context.Context, a Running, data string, from Place, tell func(string)) (*Ahead, error) {
	b, err := from.bucket(ctx)
	if err != nil {
		return nil, err
	}
	files := filepath.Join(data, "archive.part", "warc")
	if err := os.MkdirAll(files, 0o750); err != nil {
		return nil, err
	}
	store, to := objects.Open(objects.Config{Bucket: b}), folder.Open(folder.Config{Dir: files})
	return rounds(ctx, a, tell, func(s segment.Info) error { return fetched(ctx, store, to, files, s) })
}

// rounds copies what is sealed, over and over, while the archive seals more.
func rounds(ctx context.Context, a Running, tell func(string), one func(segment.Info) error) (*Ahead, error) {
	out := &Ahead{done: map[uint32]segment.Info{}}
	for range aheadRounds {
		if err := a.Seal(); err != nil {
			return nil, err
		}
		all, err := a.Segments(ctx)
		if err != nil {
			return nil, err
		}
		bytes := uint64(0)
		for n, s := range all {
			if !s.Sealed || s.Length == 0 || out.has(s) {
				continue
			}
			switch err := one(s); {
			case errors.Is(err, fs.ErrNotExist), errors.Is(err, bucket.ErrNoObject): // compacted meanwhile
				continue
			case err != nil:
				return nil, err
			}
			out.done[s.ID] = s
			bytes += s.Length
			tell(fmt.Sprintf("%d of %d files are copied, and were read back", n+1, len(all)))
		}
		if bytes < aheadLittle {
			break
		}
	}
	return out, nil
}

// sent copies one segment to a bucket, and reads it back.
func sent(ctx context.Context, from segment.Store, to *objects.Store, s segment.Info) error {
	if _, err := to.Import(ctx, from, s); err != nil {
		return err
	}
	is := s
	is.Parts = "" // it is one object there
	return same(ctx, from, s, to, is)
}

// fetched copies one segment into a folder, and reads it back. A file of the right length may be there already, of an earlier try: if it has other bytes, as
// after a power failure, it is made anew.
func fetched(ctx context.Context, from segment.Store, to *folder.Folder, files string, s segment.Info) error {
	at := filepath.Join(files, s.Name)
	st, err := os.Stat(at)
	if err == nil && st.Size() == int64(s.Length) {
		if err := same(ctx, from, s, to, s); !errors.Is(err, errDiffers) {
			return err
		}
	}
	if err == nil {
		err = os.Remove(at)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := to.Import(ctx, from, s); err != nil {
		return errors.Join(err, ignoreGone(os.Remove(at)))
	}
	return same(ctx, from, s, to, s)
}

func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// same reads a segment in both places and compares every byte.
func same(ctx context.Context, a segment.Store, of segment.Info, b segment.Store, is segment.Info) error {
	one, two := sha256.New(), sha256.New()
	if err := a.Copy(ctx, of, one); err != nil {
		return err
	}
	if err := b.Copy(ctx, is, two); err != nil {
		return err
	}
	if string(one.Sum(nil)) != string(two.Sum(nil)) {
		return fmt.Errorf("%w: the copy of %s has other bytes", errDiffers, of.Name)
	}
	return nil
}

// sealOnly ends the segment that was being written. Nothing is read.
func sealOnly(ctx context.Context, cfg archive.Config) error {
	cfg.Verify, cfg.MinFree = refuse, -1
	a, err := archive.Open(ctx, cfg)
	if err != nil {
		return err
	}
	return errors.Join(a.Seal(), a.Close())
}

// ledgerSum is what a ledger holds: a sum of all its records, and what they are about. Two ledgers of the same archive in different places differ in where
// each stands in a log, in what numbers come next, in the objects that make a segment, and in whether another manager was writing it: those are left out.
type ledgerSum struct {
	sum               [sha256.Size]byte
	records, captures int
	segments          int
	parted            int // segments that are in parts
	bytes, packed     uint64
	id                [8]byte
	totals            ledger.Totals
}

func sumLedger(l ledger.Store) (out ledgerSum, err error) {
	h := sha256.New()
	head := l.Head()
	out.id, out.totals = head.ID, head.Totals
	put := func(b []byte) {
		h.Write(binary.AppendUvarint(nil, uint64(len(b))))
		h.Write(b)
	}
	err = l.View(func(snap ledger.Snapshot) error {
		return snap.Scan(nil, nil, true, func(key, value []byte) (bool, error) {
			switch {
			case len(key) == 1 || badgerledger.IsPosition(key):
				return true, nil
			case key[0] == schema.Capture:
				out.captures++
			case key[0] == schema.Segment:
				s, err := schema.DecodeSegment(key, value)
				if err != nil {
					return false, err
				}
				out.segments++
				out.bytes += s.Length
				out.packed += s.Records
				if s.Parts != "" {
					out.parted++
				}
				s.Parts, s.Sealed = "", true
				if value, err = schema.EncodeSegment(s); err != nil {
					return false, err
				}
			}
			out.records++
			put(key)
			put(value)
			return true, nil
		})
	})
	copy(out.sum[:], h.Sum(nil))
	return out, err
}

func (s ledgerSum) moved() Moved {
	return Moved{Segments: s.segments, Records: int(s.packed), Captures: s.captures, Bytes: int64(s.bytes)}
}

// differs compares what two ledgers hold. In the copy each segment is one file or object.
func (s ledgerSum) differs(is ledgerSum) error {
	if is.parted > 0 {
		return fmt.Errorf("%w: the copy of the ledger says of %d files that they are in parts, and each was copied as one", errDiffers, is.parted)
	}
	s.parted = 0
	if s != is {
		return fmt.Errorf("%w: its ledger has %d records with %d captures, and the copy %d with %d", errDiffers, s.records, s.captures, is.records, is.captures)
	}
	return nil
}

// UpRest moves what UpAhead has left: the archive was stopped meanwhile. Nothing is read again that was read back before.
func UpRest(ctx context.Context, data string, to Place, ahead *Ahead, tell func(string)) (out Moved, err error) {
	dir := filepath.Join(data, "archive")
	if err := sealOnly(ctx, archive.Config{Dir: dir}); err != nil {
		return out, err
	}
	b, err := to.bucket(ctx)
	if err != nil {
		return out, err
	}
	was, err := to.receiveRest(ctx, b, dir, ahead)
	if err != nil {
		return out, err
	}
	scratch, err := os.MkdirTemp(data, "migrate-")
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	tell("reading the ledger back")
	fresh := filepath.Join(scratch, "archive")
	if err := os.MkdirAll(fresh, 0o750); err != nil {
		return out, err
	}
	_, l, err := to.openKnown(ctx, archive.Own{State: filepath.Join(fresh, "state"), Clock: time.Now})
	if err != nil {
		return out, err
	}
	is, err := sumLedger(l)
	if err = errors.Join(err, l.Close()); err != nil {
		return out, err
	}
	if err := was.differs(is); err != nil {
		return out, err
	}
	out = is.moved()
	if err := Note(data, BucketFile, to.Bucket); err != nil { // from here on the server counts
		return out, err
	}
	if out.Kept, err = before(dir); err != nil {
		return out, err
	}
	return out, Rename(fresh, dir)
}

// receiveRest copies those segments that were not copied ahead, and the ledger. What was copied ahead and is needed no more, as after a takedown, is removed.
func (p *Place) receiveRest(ctx context.Context, b *bucket.Bucket, dir string, ahead *Ahead) (sum ledgerSum, err error) {
	l, from, all, err := stores(ctx, dir)
	if err != nil {
		return sum, err
	}
	defer func() { err = errors.Join(err, from.Close(), l.Close()) }()
	to := objects.Open(objects.Config{Bucket: b})
	needed := map[uint32]bool{}
	for _, s := range all {
		if needed[s.ID] = true; s.Length == 0 || ahead.has(s) {
			continue
		}
		if err := sent(ctx, from, to, s); err != nil {
			return sum, err
		}
	}
	for id, s := range ahead.done {
		if needed[id] {
			continue
		}
		s.Parts = ""
		_ = to.Remove(s) // else it is a stray, which the archive removes by and by
	}
	if err := ledger.Whole(l); err != nil { // it may be one that was on servers, out of a backup
		return sum, err
	}
	if sum, err = sumLedger(l); err != nil {
		return sum, err
	}
	return sum, pgledger.Adopt(ctx, pgledger.Config{Server: p.server(), Objects: b}, l)
}

// DownRest moves what DownAhead has left: the archive was stopped meanwhile.
func DownRest(ctx context.Context, data string, from Place, ahead *Ahead, tell func(string)) (out Moved, err error) {
	dir := filepath.Join(data, "archive")
	part := dir + ".part"
	if err := sealOnly(ctx, from.Config(archive.Config{Dir: dir})); err != nil {
		return out, err
	}
	was, err := from.sendRest(ctx, dir, part, ahead)
	if err != nil {
		return out, err
	}
	tell("reading the ledger back")
	l, err := badgerledger.Open(badgerledger.Config{Dir: filepath.Join(part, "state")})
	if err != nil {
		return out, err
	}
	is, err := sumLedger(l)
	if err = errors.Join(err, l.Close()); err != nil {
		return out, err
	}
	if err := was.differs(is); err != nil {
		return out, err
	}
	out = is.moved()
	out.Kept = shown(from.Bucket)
	return out, takePlace(data, dir, part)
}

// takePlace has a folder's archive stand where the copy of the server's ledger was.
func takePlace(data, dir, part string) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := Rename(part, dir); err != nil {
		return err
	}
	return Forget(data, BucketFile) // from here on the folder counts
}

func (p *Place) sendRest(ctx context.Context, dir, part string, ahead *Ahead) (sum ledgerSum, err error) {
	files, state := filepath.Join(part, "warc"), filepath.Join(part, "state")
	if err := errors.Join(os.RemoveAll(state), os.MkdirAll(files, 0o750)); err != nil {
		return sum, err
	}
	b, l, err := p.openKnown(ctx, archive.Own{State: filepath.Join(dir, "state"), Clock: time.Now})
	if err != nil {
		return sum, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	all, err := ledger.Segments(ctx, l)
	if err != nil {
		return sum, err
	}
	from, to := objects.Open(objects.Config{Bucket: b}), folder.Open(folder.Config{Dir: files})
	for _, s := range all {
		if ahead.has(s) {
			continue
		}
		if err := fetched(ctx, from, to, files, s); err != nil {
			return sum, err
		}
	}
	if err := (warc.OS{}).SyncDir(files); err != nil {
		return sum, err
	}
	if sum, err = sumLedger(l); err != nil {
		return sum, err
	}
	return sum, copyLedger(l, state)
}
