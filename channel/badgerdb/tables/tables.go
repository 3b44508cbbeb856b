// Package tables checks every byte of a Badger database, for the channel database and for the archive's state. Badger
// itself opens tables in goroutines of its own, where a changed index ends the program. It treats a changed block as
// empty: reads do not find its records, and the next compaction drops them. In the value log, everything after a
// changed entry is lost in the same way when that file is cleaned.
//
// The package therefore checks at three times. Check runs before a folder is opened and checks the tables and the
// logs that are read then. CheckOpen runs now and then while the folder is open and checks tables and value log.
// Guard checks what a compaction has read before Badger removes it.
//
// The checks cannot see through the file system's cache: they find a byte that the disk has lost once it is read from
// the disk.
package tables

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/cespare/xxhash/v2"
	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/fb"
	"github.com/dgraph-io/badger/v4/pb"
	"github.com/dgraph-io/badger/v4/table"
	"google.golang.org/protobuf/proto"
)

// ErrChanged is returned when a table or log does not hold what was written.
var ErrChanged = errors.New("its bytes are not what was written")

// ErrInUse is returned when another process has the folder open. Its unfinished writes look like damage from outside.
var ErrInUse = errors.New("another process has it open")

// Check checks a folder before it is opened: its logs, and the tables that the manifest names. It removes log files
// without a byte, which a crash left, and makes durable what the last process may not have synced.
func Check(o badger.Options) error {
	err := unused(o.Dir, func() error {
		if err := removeEmpty(o.Dir); err != nil {
			return err
		}
		return settle(o.Dir)
	})
	if err != nil {
		return err
	}
	return lookUnused(o)
}

// lookUnused checks a folder that no process has open, and says so if one has.
func lookUnused(o badger.Options) error {
	err := look(o)
	if errors.Is(err, ErrChanged) && inUse(o.Dir) { // since then
		return ErrInUse
	}
	return err
}

// System gives an error of Badger the error of the operating system back of which it keeps the words alone.
func System(err error) error {
	for _, is := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EACCES} {
		if err != nil && !errors.Is(err, is) && strings.HasSuffix(err.Error(), ": "+is.Error()) {
			return &worded{err, is}
		}
	}
	return err
}

// worded is an error, and what its words say.
type worded struct {
	error
	is syscall.Errno
}

func (w *worded) Unwrap() []error { return []error{w.error, w.is} }

// Writable tries whether a folder can be written, and the file by which Badger holds it. Badger's own error does not
// wrap the system's.
func Writable(dir string) error {
	probe := filepath.Join(dir, ".writable")
	if err := os.WriteFile(probe, nil, 0o600); err != nil {
		return err
	}
	if err := os.Remove(probe); err != nil && !errors.Is(err, fs.ErrNotExist) { // another program tries the folder too
		return err
	}
	held, err := os.OpenFile(filepath.Join(dir, "LOCK"), os.O_WRONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return held.Close()
}

func look(o badger.Options) error {
	if err := checkLogs(o.Dir); err != nil {
		return err
	}
	f, err := os.Open(filepath.Join(o.Dir, badger.ManifestFilename))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close() // nothing was written
	m, _, err := badger.ReplayManifestFile(f, o.ExternalMagicVersion, o)
	if err != nil {
		return nil // Badger will say so, or mend it
	}
	var names []string
	for id := range m.Tables {
		names = append(names, tableFile(o.Dir, id))
	}
	return check(names)
}

func tableFile(dir string, id uint64) string { return filepath.Join(dir, table.IDToFilename(id)) }

func check(names []string) error {
	var next, failed atomic.Int64
	errs := make([]error, len(names))
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(names)) {
		wg.Go(func() {
			var raw []byte
			for {
				i := int(next.Add(1) - 1)
				if i >= len(names) || failed.Load() > 0 {
					return
				}
				if raw, errs[i] = readInto(raw[:0], names[i]); errs[i] == nil {
					errs[i] = checkTable(raw)
				}
				switch {
				case errors.Is(errs[i], fs.ErrNotExist): // compacted meanwhile
					errs[i] = nil
				case errs[i] != nil:
					failed.Add(1)
					errs[i] = fmt.Errorf("table %s: %w", filepath.Base(names[i]), errs[i])
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func readInto(buf []byte, name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return buf, err
	}
	defer f.Close() // nothing was written
	info, err := f.Stat()
	if err != nil {
		return buf, err
	}
	if n := int(info.Size()); cap(buf) < n {
		buf = make([]byte, n)
	} else {
		buf = buf[:n]
	}
	_, err = f.ReadAt(buf, 0)
	return buf, err
}

// checkTable checks a table. A table ends with the index, the length of the index, the checksum of the index and the
// length of that. A block ends with its checksum and the length of that. Lengths are 4 bytes, big-endian.
func checkTable(raw []byte) (err error) {
	defer func() {
		if p := recover(); p != nil { // an index with the right sum and nonsense in it
			err = fmt.Errorf("%w: %v", ErrChanged, p)
		}
	}()
	sum, rest, err := checksumBefore(raw)
	if err != nil {
		return err
	}
	index, _, err := sizedBefore(rest)
	if err != nil {
		return err
	}
	if err := matches(index, sum); err != nil {
		return err
	}
	t := fb.GetRootAsTableIndex(index, 0)
	if t.OffsetsLength() == 0 {
		return ErrChanged
	}
	for i := range t.OffsetsLength() {
		var at fb.BlockOffset
		if !t.Offsets(&at, i) || uint64(at.Offset())+uint64(at.Len()) > uint64(len(raw)) {
			return ErrChanged
		}
		sum, body, err := checksumBefore(raw[at.Offset() : at.Offset()+at.Len()])
		if err != nil {
			return err
		}
		if err := matches(body, sum); err != nil {
			return err
		}
	}
	return nil
}

// sizedBefore returns the part that ends where its length begins, and everything before it.
func sizedBefore(raw []byte) (last, rest []byte, err error) {
	if len(raw) < 4 {
		return nil, nil, ErrChanged
	}
	end := len(raw) - 4
	n := int64(binary.BigEndian.Uint32(raw[end:]))
	if n > int64(end) {
		return nil, nil, ErrChanged
	}
	return raw[end-int(n) : end], raw[:end-int(n)], nil
}

// checksumBefore returns the checksum at the end of raw and the bytes that it covers.
func checksumBefore(raw []byte) (*pb.Checksum, []byte, error) {
	last, rest, err := sizedBefore(raw)
	if err != nil || len(last) > 64 {
		return nil, nil, ErrChanged
	}
	sum := new(pb.Checksum)
	return sum, rest, proto.Unmarshal(last, sum)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func matches(raw []byte, want *pb.Checksum) error {
	got := xxhash.Sum64(raw)
	if want.Algo == pb.Checksum_CRC32C {
		got = uint64(crc32.Checksum(raw, castagnoli))
	}
	if got != want.Sum {
		return ErrChanged
	}
	return nil
}
