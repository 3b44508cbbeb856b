package segment

import (
	"context"
	"errors"
	"fmt"
	"io"

	"shoal/manager/archive/warc"
)

// ScanBytes is Scan for a store that keeps a segment as bytes, and counts them in Location.Offset. in holds size bytes of it. A read that fails ends it: what cannot be read
// now is not damaged.
func ScanBytes(ctx context.Context, in io.ReaderAt, size int64, s Info, do func(Found) error) error {
	end := min(size, int64(s.Length))
	at := func(offset, length int64) Location {
		return Location{Segment: s.ID, Offset: uint64(offset), Length: uint32(length)}
	}
	if short := int64(s.Length) - size; short > 0 {
		if err := do(Found{At: at(size, 0), Bad: fmt.Errorf("%w: ends here, %d bytes short", ErrShort, short)}); err != nil {
			return err
		}
	}
	from, seen := int64(0), &witness{in: in}
	for from < end {
		r := warc.NewScanner(io.NewSectionReader(seen, from, end-from))
		for r.Scan() {
			if err := errors.Join(do(Found{At: at(from+r.Offset(), r.End()-r.Offset()), Record: r.Record()}), ctx.Err()); err != nil {
				return err
			}
		}
		stop := from + r.Offset()
		if r.Err() == nil {
			from = stop
			break
		}
		if seen.err != nil {
			return fmt.Errorf("read %s: %w", s.Name, seen.err)
		}
		next, err := nextMember(in, stop+1, end)
		if err != nil {
			return err
		}
		if err := do(Found{At: at(stop, 0), Bad: r.Err(), End: next < 0}); err != nil || next < 0 {
			return err
		}
		from = next
	}
	if from < int64(s.Length) {
		return do(Found{At: at(from, 0), End: true})
	}
	return nil
}

// witness remembers why a read failed.
type witness struct {
	in  io.ReaderAt
	err error
}

func (w *witness) ReadAt(b []byte, off int64) (int, error) {
	n, err := w.in.ReadAt(b, off)
	if err != nil && !errors.Is(err, io.EOF) {
		w.err = err
	}
	return n, err
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
