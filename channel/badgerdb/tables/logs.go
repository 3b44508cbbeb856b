package tables

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Before its tables, Badger writes a write-ahead log for each memory table, and the value log. When it opens a
// folder, it reads the write-ahead logs and the last file of the value log up to the first incomplete entry, and
// drops the rest. That is right after a crash, because an incomplete entry was never acknowledged. It is a silent
// loss if the disk changed bytes in the middle.
//
// What follows the incomplete entry tells the two apart. A writer waits for each commit, so at most inFlight commits
// can be in flight when the power goes. If complete entries of younger commits than that follow, the unreadable part
// was durable once.
const (
	inFlight  = 3       // the one writer's, and one of work behind it; one to spare
	logHeader = 20      // bytes at a log's beginning
	maxKey    = 1 << 16 // as Badger has it
	maxRest   = 1 << 30 // of a log, read into memory where it is damaged
)

// find returns the files of a folder whose names match a pattern, sorted. The folder's own name is taken as it is, whatever characters that has.
func find(dir, pattern string) ([]string, error) {
	names, err := fs.Glob(os.DirFS(dir), pattern)
	for i, name := range names {
		names[i] = filepath.Join(dir, name)
	}
	return names, err
}

// openLogs returns the names of the logs that Badger reads when it opens a folder.
func openLogs(dir string) ([]string, error) {
	names, err := find(dir, "*.mem")
	if err != nil {
		return nil, err
	}
	values, err := find(dir, "*.vlog") // sorted
	if n := len(values); n > 0 {
		names = append(names, values[n-1])
	}
	return names, err
}

// checkLogs checks the logs of a folder before it is opened.
func checkLogs(dir string) error {
	names, err := openLogs(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := checkLog(name); err != nil {
			return fmt.Errorf("log %s: %w", filepath.Base(name), err)
		}
	}
	return nil
}

// removeEmpty removes log files without a byte where a kill leaves them. Badger makes a log in two steps, the file and then its size, so the last
// one of each kind may be empty. It deletes a log in two steps as well, so the oldest write-ahead logs may be: what they held is in tables. It opens
// no folder with such a file. A log between others without a byte is damage, which Badger is left to find.
func removeEmpty(dir string) error {
	for _, kind := range []string{".mem", ".vlog"} {
		names, err := find(dir, "*"+kind)
		if err != nil {
			return err
		}
		number := func(name string) int {
			n, err := strconv.Atoi(strings.TrimSuffix(filepath.Base(name), kind))
			if err != nil {
				return -1
			}
			return n
		}
		names = slices.DeleteFunc(names, func(name string) bool { return number(name) < 0 }) // Badger says what is wrong with it
		slices.SortFunc(names, func(a, b string) int { return cmp.Compare(number(a), number(b)) })
		empty := func(name string) bool {
			info, err := os.Stat(name)
			return err == nil && info.Size() == 0
		}
		var gone []string
		if n := len(names) - 1; n >= 0 && empty(names[n]) {
			gone, names = append(gone, names[n]), names[:n]
		}
		for kind == ".mem" && len(names) > 0 && empty(names[0]) {
			gone, names = append(gone, names[0]), names[1:]
		}
		for _, name := range gone {
			if err := os.Remove(name); err != nil {
				return fmt.Errorf("remove an empty log, which a crash left: %w", err)
			}
		}
	}
	return nil
}

func checkLog(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close() // nothing was written
	r := bufio.NewReaderSize(f, 1<<20)
	if _, err := r.Discard(logHeader); err != nil {
		return nil //nolint:nilerr // too short to hold anything
	}
	last, at := uint64(0), int64(logHeader)
	var e entry
	for e.read(r) {
		last, at = max(last, e.version), at+e.size
	}
	if _, err := f.Seek(at, io.SeekStart); err != nil {
		return err
	}
	rest, err := readFilled(f)
	if err != nil {
		return err
	}
	if younger(rest, last) {
		return fmt.Errorf("%w at %d, and whole entries follow", ErrChanged, at)
	}
	return nil
}

// readFilled reads the rest of a file without the zeros at its end. Badger allocates files at their maximum length.
func readFilled(r io.Reader) ([]byte, error) {
	var out []byte
	zeros := 0
	buf := make([]byte, 1<<20)
	for {
		n, err := r.Read(buf)
		for part := buf[:n]; len(part) > 0 && len(out) < maxRest; part = nil {
			filled := len(bytes.TrimRight(part, "\x00"))
			if filled == 0 {
				zeros += n
				break
			}
			out = append(append(out, make([]byte, zeros)...), part[:filled]...)
			zeros = n - filled
		}
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// younger reports whether raw holds complete entries of commits that began after every commit that could be in flight
// after last.
func younger(raw []byte, last uint64) bool {
	var e entry
	for at := 0; at < len(raw); {
		if !e.parse(raw[at:]) {
			at++
			continue
		}
		if last == 0 {
			last = e.version
		}
		if e.version > last+inFlight {
			return true
		}
		at += int(e.size)
	}
	return false
}

// entry is one entry of a log: flags (2 bytes); lengths of key and value, and expiry (each a varint); key; value;
// checksum of all that. A key ends with its commit's number, stored as its difference from the highest number.
type entry struct {
	version uint64
	size    int64
	raw     []byte
}

// read reads the next entry. It returns false if there is no complete one.
func (e *entry) read(r *bufio.Reader) bool {
	head, _ := r.Peek(2 + 3*binary.MaxVarintLen64) // shorter at the end
	n, key, value := sizes(head)
	if n == 0 {
		return false
	}
	size := n + key + value + crc32.Size
	if cap(e.raw) < size {
		if value > math.MaxInt32/2 {
			return false
		}
		e.raw = make([]byte, size)
	}
	e.raw = e.raw[:size]
	if _, err := io.ReadFull(r, e.raw); err != nil {
		return false
	}
	return e.whole(e.raw, n, key)
}

// parse reads the entry at the start of raw, if there is one.
func (e *entry) parse(raw []byte) bool {
	n, key, value := sizes(raw)
	if n == 0 || n+key+value+crc32.Size > len(raw) || commitOf(raw[n:n+key]) > 1<<48 {
		return false
	}
	return e.whole(raw[:n+key+value+crc32.Size], n, key)
}

func (e *entry) whole(raw []byte, head, key int) bool {
	end := len(raw) - crc32.Size
	if crc32.Checksum(raw[:end], castagnoli) != binary.BigEndian.Uint32(raw[end:]) {
		return false
	}
	e.version, e.size = commitOf(raw[head:head+key]), int64(len(raw))
	return true
}

// commitOf returns the commit's number in a key.
func commitOf(key []byte) uint64 {
	return math.MaxUint64 - binary.BigEndian.Uint64(key[len(key)-8:])
}

// sizes returns the lengths of an entry's head, key and value, or zeros if raw does not begin with an entry.
func sizes(raw []byte) (head, key, value int) {
	if len(raw) < 5 {
		return 0, 0, 0
	}
	at := 2
	var v [3]uint64
	for i := range v {
		n := 0
		if v[i], n = binary.Uvarint(raw[at:]); n <= 0 {
			return 0, 0, 0
		}
		at += n
	}
	if v[0] < 8 || v[0] > maxKey || v[1] > 1<<30 {
		return 0, 0, 0
	}
	return at, int(v[0]), int(v[1])
}
