// Package datafile opens the files of data that people name on command lines. It is not for what they mean.
package datafile

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
)

// Open opens a data file for reading. It unpacks gzip, which it knows by the content and not by the name.
func Open(path string) (io.ReadCloser, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err == nil && info.IsDir() {
		f.Close()
		return nil, fmt.Errorf("%s is a folder: want a file", path)
	}
	r, err := Unpacked(f)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return struct {
		io.Reader
		io.Closer
	}{r, f}, nil
}

// ErrCut says that the rest of a packed file is missing, as after a download that broke off.
var ErrCut = errors.New("the file is cut short: its gzip has no end; fetch or pack it again")

// Unpacked reads r, and unpacks it if it is gzip. It leaves out the byte order mark with which some programs begin a text.
func Unpacked(r io.Reader) (*bufio.Reader, error) {
	br := bufio.NewReaderSize(r, 1<<16)
	if magic, _ := br.Peek(2); !bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		return unmarked(br), nil
	}
	z, err := gzip.NewReader(br)
	if err != nil {
		return nil, cut(err)
	}
	return unmarked(bufio.NewReaderSize(packed{z}, 1<<16)), nil
}

func unmarked(r *bufio.Reader) *bufio.Reader {
	if mark, _ := r.Peek(3); bytes.Equal(mark, []byte("\ufeff")) {
		_, _ = r.Discard(3) // they are in the buffer
	}
	return r
}

// packed reads gzip, and names the end that comes too early.
type packed struct{ z *gzip.Reader }

func (p packed) Read(b []byte) (int, error) {
	n, err := p.z.Read(b)
	return n, cut(err)
}

func cut(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return ErrCut
	}
	return err
}
