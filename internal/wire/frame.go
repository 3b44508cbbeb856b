package wire

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// A request is one frame, length (uvarint) and bytes. An answer is a code (one byte) and a frame: the answer for code 0, else reason
// and text of a Status, divided by a line feed.

var errTooLarge = errors.New("wire: frame beyond its limit")

// writeFrame writes a frame after prefix, in one write while it is small.
func writeFrame(w io.Writer, prefix []byte, b []byte) error {
	head := binary.AppendUvarint(prefix, uint64(len(b)))
	if len(b) <= smallFrame {
		_, err := w.Write(append(head, b...))
		return err
	}
	if _, err := w.Write(head); err != nil {
		return err
	}
	_, err := w.Write(b)
	return err
}

// readFrame reads a frame of at most limit bytes. Memory grows with what has arrived, not with what was announced.
func readFrame(r *bufio.Reader, limit int, reserve func(int) error) ([]byte, error) {
	n, err := binary.ReadUvarint(r)
	if err != nil {
		return nil, err
	}
	if n > uint64(limit) {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", errTooLarge, n, limit)
	}
	if n > smallFrame {
		if err := reserve(int(n)); err != nil {
			return nil, &Status{Code: Busy, Text: "no memory left for a request of this size; try again later"}
		}
	}
	const step = 64 << 10
	b := make([]byte, 0, min(int(n), step))
	for len(b) < int(n) {
		at := len(b)
		more := min(int(n)-at, max(step, at))
		b = append(b, make([]byte, more)...)
		if _, err := io.ReadFull(r, b[at:]); errors.Is(err, io.EOF) {
			return nil, io.ErrUnexpectedEOF // its length has come
		} else if err != nil {
			return nil, err
		}
	}
	return b, nil
}
