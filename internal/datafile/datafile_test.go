package datafile

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"strings"
	"testing"
)

func zipped(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestCutGzipIsNamed: wherever a packed file breaks off, the error says so, and comes with the last piece of a line at the latest.
func TestCutGzipIsNamed(t *testing.T) {
	whole := zipped(t, strings.Repeat("1,2,3\n4,5,6\n7.25,8\n", 5))
	for n := 3; n < len(whole); n++ {
		r, err := Unpacked(bytes.NewReader(whole[:n]))
		if err == nil {
			_, err = io.ReadAll(r)
		}
		if !errors.Is(err, ErrCut) {
			t.Errorf("%d of %d bytes: %v", n, len(whole), err)
		}
		if r == nil {
			continue
		}
		r, _ = Unpacked(bytes.NewReader(whole[:n]))
		lines := bufio.NewScanner(r)
		for lines.Scan() && lines.Err() == nil {
			if s := lines.Text(); s != "1,2,3" && s != "4,5,6" && s != "7.25,8" {
				t.Errorf("%d bytes: the line %q, and no error yet", n, s)
			}
		}
		if !errors.Is(lines.Err(), ErrCut) {
			t.Errorf("%d bytes, by lines: %v", n, lines.Err())
		}
	}
}

// TestMarkIsLeftOut: a text that begins with a byte order mark is read as one without.
func TestMarkIsLeftOut(t *testing.T) {
	for _, text := range []string{"", "a", "0 1\n", "\ufeff0 1\n", "\ufeff", "a\ufeffb"} {
		for _, raw := range [][]byte{[]byte(text), zipped(t, text)} {
			r, err := Unpacked(bytes.NewReader(raw))
			if err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(r); err != nil || string(got) != strings.TrimPrefix(text, "\ufeff") {
				t.Errorf("%q: %q, %v", text, got, err)
			}
		}
	}
}
