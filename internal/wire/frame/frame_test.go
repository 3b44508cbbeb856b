package frame

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"testing"
)

func TestFrames(t *testing.T) {
	for _, size := range []int{0, 1, 127, 128, Small, Small + 1, Step, Step + 1, 300 << 10} {
		var w bytes.Buffer
		in := bytes.Repeat([]byte{7}, size)
		if err := Write(&w, []byte{3}, in); err != nil {
			t.Fatal(err)
		}
		r := bufio.NewReader(&w)
		if c, err := r.ReadByte(); c != 3 || err != nil {
			t.Fatal(c, err)
		}
		out, err := Read(r, size, Budget{})
		if err != nil || !bytes.Equal(in, out) {
			t.Fatalf("%d bytes: %v", size, err)
		}
	}
}

// trickle counts what was read from it, and ends after some bytes.
type trickle struct{ sent, left int }

func (r *trickle) Read(b []byte) (int, error) {
	if r.left == 0 {
		return 0, io.ErrNoProgress
	}
	n := min(len(b), r.left)
	r.sent += n
	r.left -= n
	return n, nil
}

// Whatever a header announces, memory is asked for by what has arrived.
func TestMemoryByBytesReceived(t *testing.T) {
	const announced = 4 << 20
	for _, arrives := range []int{0, 1, Small, Small + 1, 100 << 10, 1 << 20, announced - 1} {
		src := &trickle{left: arrives}
		reserved := 0
		r := bufio.NewReaderSize(io.MultiReader(bytes.NewReader(binary.AppendUvarint(nil, announced)), src), 16)
		_, err := Read(r, announced, Budget{Reserve: func(n int) error {
			reserved += n
			if reserved > 2*src.sent {
				t.Fatalf("%d bytes reserved for %d received", reserved, src.sent)
			}
			return nil
		}})
		if err == nil {
			t.Fatalf("%d of %d bytes made a frame", arrives, announced)
		}
		if arrives > Small && reserved == 0 {
			t.Fatalf("%d bytes arrived and none were reserved", arrives)
		}
	}
}

func TestRefusedMemory(t *testing.T) {
	full := errors.New("full")
	var w bytes.Buffer
	if err := Write(&w, nil, make([]byte, Small+1)); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(bufio.NewReader(&w), 1<<20, Budget{Reserve: func(int) error { return full }}); !errors.Is(err, ErrNoMemory) || !errors.Is(err, full) {
		t.Errorf("no memory: %v", err)
	}
	late := errors.New("late")
	if err := Write(&w, nil, make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(bufio.NewReader(bytes.NewReader([]byte{10})), 10, Budget{Piece: func(int) error { return late }}); !errors.Is(err, late) {
		t.Errorf("a piece that may not be waited for: %v", err)
	}
	if _, err := Read(bufio.NewReader(bytes.NewReader([]byte{11})), 10, Budget{}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("beyond its limit: %v", err)
	}
}

func FuzzFrame(f *testing.F) {
	f.Add([]byte{3, 1, 2, 3})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := Read(bufio.NewReader(bytes.NewReader(b)), 1<<20, Budget{})
		if err == nil && (len(got) > len(b) || cap(got) > Small+2*len(b)) {
			t.Fatalf("%d bytes made %d, capacity %d", len(b), len(got), cap(got))
		}
	})
}
