// Package frame reads and writes the frames of package wire: a length (uvarint) and that many bytes.
//
// It is not for what a frame holds, nor for how long an exchange may take.
//
// Invariant: memory grows with what has arrived, never with what the other side announced. Before a frame grows, its reader asks for the
// memory, and may be refused.
package frame

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Errors of Read.
var (
	ErrTooLarge = errors.New("wire: frame beyond its limit")
	ErrNoMemory = errors.New("wire: no memory left for a frame of this size")
)

const (
	// Small is the size up to which a frame needs no memory reserved.
	Small = 4 << 10
	// Step is how much is read at a time, and asked of Budget.Piece.
	Step = 16 << 10
)

// Budget is what a reader may spend on a frame. The zero value bounds nothing.
type Budget struct {
	Reserve func(bytes int) error // asks for memory before the frame grows by so much; nil: there is enough
	Piece   func(bytes int) error // is called before so many bytes are waited for; it may set a deadline. nil: nothing
}

// Write writes a frame after prefix, in one write while it is small.
func Write(w io.Writer, prefix, b []byte) error {
	head := binary.AppendUvarint(prefix, uint64(len(b)))
	if len(b) <= Small {
		_, err := w.Write(append(head, b...))
		return err
	}
	if _, err := w.Write(head); err != nil {
		return err
	}
	_, err := w.Write(b)
	return err
}

// Read reads a frame of at most limit bytes. What it holds at any time is less than Small plus twice what has arrived.
func Read(r *bufio.Reader, limit int, may Budget) ([]byte, error) {
	announced, err := binary.ReadUvarint(r)
	if err != nil {
		return nil, err
	}
	if announced > uint64(limit) {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, announced, limit)
	}
	size := int(announced)
	b := make([]byte, 0, min(size, Small))
	for len(b) < size {
		if len(b) == cap(b) {
			more := min(size, 2*cap(b)) - cap(b)
			if may.Reserve != nil {
				if err := may.Reserve(more); err != nil {
					return nil, fmt.Errorf("%w: %w", ErrNoMemory, err)
				}
			}
			b = append(make([]byte, 0, cap(b)+more), b...)
		}
		at := len(b)
		piece := min(cap(b)-at, Step)
		if may.Piece != nil {
			if err := may.Piece(piece); err != nil {
				return nil, err
			}
		}
		b = b[:at+piece]
		if _, err := io.ReadFull(r, b[at:]); errors.Is(err, io.EOF) {
			return nil, io.ErrUnexpectedEOF // the length has come, the frame has not
		} else if err != nil {
			return nil, err
		}
	}
	return b, nil
}
