package badgerdb

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"

	"github.com/cespare/xxhash/v2"
	"github.com/dgraph-io/badger/v4/fb"
	"github.com/dgraph-io/badger/v4/pb"
	"google.golang.org/protobuf/proto"
)

// checkTables looks at what Badger reads of each table when it opens: it does so in goroutines of its own, where bytes that are not what
// they were end the program. A table ends in: index, length of the index, checksum of the index, length of that; a block in its
// checksum and the length of that. Lengths are 4 bytes, big-endian.
func checkTables(dir string) error {
	tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil {
		return err
	}
	for _, name := range tables {
		if err := checkTable(name); err != nil {
			return fmt.Errorf("%w: table %s: %w", ErrDamaged, filepath.Base(name), err)
		}
	}
	return nil
}

var errTable = errors.New("its bytes are not what was written")

func checkTable(name string) (err error) {
	defer func() {
		if p := recover(); p != nil { // an index with the right sum and nonsense in it
			err = fmt.Errorf("%w: %v", errTable, p)
		}
	}()
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close() // nothing was written
	info, err := f.Stat()
	if err != nil {
		return err
	}
	sum, end, err := checksumBefore(f, info.Size())
	if err != nil {
		return err
	}
	n, err := lengthBefore(f, end)
	if err != nil {
		return err
	}
	index, err := summed(f, end-4-n, n, sum)
	if err != nil {
		return err
	}
	t := fb.GetRootAsTableIndex(index, 0)
	var block fb.BlockOffset
	if t.OffsetsLength() == 0 || !t.Offsets(&block, t.OffsetsLength()-1) {
		return errTable
	}
	start, stop := int64(block.Offset()), int64(block.Offset())+int64(block.Len())
	sum, end, err = checksumBefore(f, stop)
	if err != nil {
		return err
	}
	_, err = summed(f, start, end-start, sum)
	return err
}

// checksumBefore reads the checksum that ends at end, and where it begins.
func checksumBefore(f io.ReaderAt, end int64) (*pb.Checksum, int64, error) {
	n, err := lengthBefore(f, end)
	if err != nil || n > 64 {
		return nil, 0, errors.Join(errTable, err)
	}
	raw := make([]byte, n)
	if _, err := f.ReadAt(raw, end-4-n); err != nil {
		return nil, 0, err
	}
	sum := new(pb.Checksum)
	return sum, end - 4 - n, proto.Unmarshal(raw, sum)
}

// lengthBefore reads the length of what lies before it and ends at end-4.
func lengthBefore(f io.ReaderAt, end int64) (int64, error) {
	var raw [4]byte
	if end < 4 {
		return 0, errTable
	}
	if _, err := f.ReadAt(raw[:], end-4); err != nil {
		return 0, err
	}
	n := int64(binary.BigEndian.Uint32(raw[:]))
	if n > end-4 {
		return 0, errTable
	}
	return n, nil
}

// summed reads n bytes that must have a checksum.
func summed(f io.ReaderAt, start, n int64, want *pb.Checksum) ([]byte, error) {
	if start < 0 || n < 0 || n > 64<<20 {
		return nil, errTable
	}
	raw := make([]byte, n)
	if _, err := f.ReadAt(raw, start); err != nil {
		return nil, err
	}
	got := xxhash.Sum64(raw)
	if want.Algo == pb.Checksum_CRC32C {
		got = uint64(crc32.Checksum(raw, crc32.MakeTable(crc32.Castagnoli)))
	}
	if got != want.Sum {
		return nil, errTable
	}
	return raw, nil
}
