package pgledger

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/klauspost/compress/zstd"

	"shoal/manager/archive/bucket"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/ledger/badgerledger"
)

// folder begins the names of snapshots.
const folder = "ledger/"

// shorten makes a snapshot and drops the entries that are in it, when the log is long enough: half as long as the last snapshot. Of several writers one does
// so: two snapshots at a time would drop entries that a third writer has not read yet.
func (s *Store) shorten(ctx context.Context) error {
	if s.cfg.Objects == nil {
		return nil
	}
	h, err := s.readHead(ctx, badgerledger.Position{})
	if err != nil || h.grown < max(s.cfg.SnapshotAfter, h.size/2) {
		return err
	}
	s.writing.Lock()
	epoch := s.epoch
	s.writing.Unlock()
	if epoch == 0 { // not the writer
		return nil
	}
	if s.Several() {
		if first, err := s.First(ctx); err != nil || !first {
			return err
		}
	}
	name, at, size, err := s.writeSnapshot(ctx, s.copied)
	if err != nil {
		return err
	}
	return s.adopt(ctx, epoch, at, name, size)
}

// adopt makes a snapshot the one from which copies begin.
func (s *Store) adopt(ctx context.Context, epoch int64, at uint64, name string, size int64) error {
	adopted, was := false, ""
	drop := int64(at) // the last one tells which history this is
	err := s.server.Transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var before int64
		if err := tx.QueryRow(ctx, `SELECT base, snapshot FROM heads WHERE part = $1 FOR UPDATE`, part).Scan(&before, &was); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, `UPDATE heads SET base = $3, snapshot = $4, size = $5,
			grown = (SELECT coalesce(sum(length(body)), 0) FROM log WHERE part = $1 AND seq > $3) WHERE part = $1 AND epoch = $2 AND base <= $3`, part, epoch, int64(at), name, size)
		adopted = err == nil && tag.RowsAffected() > 0
		if s.Several() {
			drop = before // others may be behind
		}
		return err
	})
	switch {
	case err != nil:
		return err
	case !adopted: // another program was quicker
		return s.cfg.Objects.Remove(ctx, name)
	}
	if err := s.drop(ctx, drop); err != nil {
		return err
	}
	return s.removeOld(ctx, name, was)
}

// dropAtOnce is how many entries are removed in one transaction.
const dropAtOnce = 10_000

// drop removes the entries before a number from the log. Nobody waits for that: who appends holds the head, and no old entry. The next one removes what is left
// over.
func (s *Store) drop(ctx context.Context, before int64) error {
	for {
		tag, err := s.server.Pool().Exec(ctx, `DELETE FROM log WHERE part = $1 AND seq < least($2::bigint, (SELECT min(seq) FROM log WHERE part = $1) + $3::bigint)`, part, before, int64(dropAtOnce))
		if err != nil || tag.RowsAffected() == 0 {
			return s.server.Explain(err)
		}
	}
}

// keepSnapshots is how long a snapshot is kept after its successor was made: so old may a backup of the server be that is restored.
const keepSnapshots = 30 * 24 * time.Hour

// removeOld removes the snapshots that no backup of the server needs which is young enough. The ones in use now, and until now, stay.
func (s *Store) removeOld(ctx context.Context, used ...string) error {
	type snapshot struct {
		bucket.Object
		seq uint64
	}
	var all []snapshot
	id := s.Head().ID
	before := folder + hex.EncodeToString(id[:]) + "-"
	if err := s.cfg.Objects.List(ctx, before, func(o bucket.Object) error {
		number, _, _ := strings.Cut(strings.TrimPrefix(o.Name, before), "-")
		if seq, err := strconv.ParseUint(number, 10, 64); err == nil { // else another program has put it there
			all = append(all, snapshot{o, seq})
		}
		return nil
	}); err != nil {
		return err
	}
	slices.SortFunc(all, func(a, b snapshot) int { return cmp.Or(cmp.Compare(a.seq, b.seq), a.At.Compare(b.At)) })
	for n := range max(len(all)-1, 0) {
		if successor := all[n+1]; slices.Contains(used, all[n].Name) || s.cfg.Clock().Sub(successor.At) < keepSnapshots {
			continue
		}
		if err := s.cfg.Objects.Remove(ctx, all[n].Name); err != nil {
			return err
		}
	}
	return nil
}

// writeSnapshot writes all records into an object. Beside each other they are a key's length, the key, a value's length, the value; at the end
// an empty key and the number of records.
func (s *Store) writeSnapshot(ctx context.Context, from ledger.Store) (name string, at uint64, size int64, err error) {
	var tag [8]byte
	rand.Read(tag[:])
	in, out := io.Pipe()
	count := &counted{to: out}
	written := make(chan error, 1)
	err = from.View(func(snap ledger.Snapshot) error {
		p, _, err := badgerledger.PositionIn(snap)
		if err != nil {
			return err
		}
		at = p.Seq
		id := from.Head().ID
		name = fmt.Sprintf("%s%s-%d-%s.zst", folder, hex.EncodeToString(id[:]), at, hex.EncodeToString(tag[:]))
		go func() {
			err := writeRecords(ctx, count, snap)
			written <- err
			_ = out.CloseWithError(err) // it never fails
		}()
		err = s.cfg.Objects.PutFrom(ctx, name, in, -1)
		_ = in.CloseWithError(errors.New("the object store wants no more")) // ends the writing, if it has not ended
		return errors.Join(err, <-written)
	})
	return name, at, count.n, err
}

type counted struct {
	to io.Writer
	n  int64
}

func (c *counted) Write(b []byte) (int, error) {
	n, err := c.to.Write(b)
	c.n += int64(n)
	return n, err
}

func writeRecords(ctx context.Context, to io.Writer, snap ledger.Snapshot) error {
	z, err := zstd.NewWriter(to, zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(true))
	if err != nil {
		return err
	}
	w, n := bufio.NewWriterSize(z, 64<<10), uint64(0)
	var b []byte
	err = snap.Scan(nil, nil, true, func(key, value []byte) (bool, error) {
		if badgerledger.IsPosition(key) {
			return true, nil
		}
		n++
		b = appendBytes(appendBytes(b[:0], key), value)
		_, err := w.Write(b)
		return true, errors.Join(err, ctx.Err())
	})
	if err == nil {
		_, err = w.Write(binary.AppendUvarint([]byte{0}, n))
	}
	return errors.Join(err, w.Flush(), z.Close())
}

// snapshotReader reads what writeRecords wrote.
type snapshotReader struct {
	name string
	in   io.ReadCloser
	z    *zstd.Decoder
	r    *bufio.Reader
	n    uint64
	ends bool
	// The first record, if it was read ahead.
	peeked     bool
	key, value []byte
}

func (s *Store) openSnapshot(ctx context.Context, name string) (*snapshotReader, error) {
	if s.cfg.Objects == nil {
		return nil, fmt.Errorf("%w: %s needs the object %s, and no bucket is named", ledger.ErrState, s.where(), name)
	}
	in, err := s.cfg.Objects.Get(ctx, name, 0, -1)
	if errors.Is(err, bucket.ErrNoObject) {
		return nil, fmt.Errorf("the snapshot of %s: %w: bring that object back from the bucket's versions, or restore a younger backup of the database: a snapshot is kept for %d days after it was last needed",
			s.where(), err, int(keepSnapshots.Hours()/24))
	}
	if err != nil {
		return nil, fmt.Errorf("the snapshot of %s: %w", s.where(), err)
	}
	z, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, errors.Join(err, in.Close())
	}
	return &snapshotReader{name: name, in: in, z: z, r: bufio.NewReaderSize(z, 64<<10)}, nil
}

// maxRecord bounds a key or a value that is read.
const maxRecord = 64 << 20

// peek reads the first record, which next will give: a snapshot that is not there, or is none, is found out.
func (r *snapshotReader) peek() (err error) {
	r.key, r.value, err = r.next()
	r.peeked = err == nil
	return err
}

// next gives the next record, and no key at the end.
func (r *snapshotReader) next() (key, value []byte, err error) {
	if r.peeked {
		r.peeked = false
		return r.key, r.value, nil
	}
	if r.ends {
		return nil, nil, nil
	}
	bytes := func() ([]byte, error) {
		n, err := binary.ReadUvarint(r.r)
		if err != nil || n > maxRecord {
			return nil, errors.Join(err, io.ErrUnexpectedEOF)
		}
		b := make([]byte, n)
		_, err = io.ReadFull(r.r, b)
		return b, err
	}
	if key, err = bytes(); err == nil && len(key) == 0 {
		n, err := binary.ReadUvarint(r.r)
		if err == nil && n != r.n {
			err = fmt.Errorf("it has %d records, %d were written", r.n, n)
		}
		if r.ends = true; err != nil {
			return nil, nil, r.damaged(err)
		}
		return nil, nil, nil
	}
	if err == nil {
		value, err = bytes()
	}
	if r.n++; err != nil {
		return nil, nil, r.damaged(err)
	}
	return key, value, nil
}

func (r *snapshotReader) damaged(err error) error {
	return fmt.Errorf("%w: the snapshot %s in the bucket: %w: bring an earlier version of that object back, or %s", ledger.ErrState, r.name, err, ledger.RebuildHint)
}

func (r *snapshotReader) Close() error {
	r.z.Close()
	return r.in.Close()
}

// checkServer reads the snapshot and the entries behind it.
func (s *Store) checkServer(ctx context.Context) error {
	h, err := s.readHead(ctx, badgerledger.Position{})
	if err != nil || h.snapshot == "" {
		return err
	}
	in, err := s.openSnapshot(ctx, h.snapshot)
	if err != nil {
		return err
	}
	for {
		key, _, err := in.next()
		if err != nil || key == nil || ctx.Err() != nil {
			return errors.Join(err, ctx.Err(), in.Close())
		}
	}
}
