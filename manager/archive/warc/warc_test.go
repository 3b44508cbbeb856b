package warc

import (
	"bytes"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func sample(tb testing.TB, n int) []byte {
	c, err := NewCompressor(3)
	if err != nil {
		tb.Fatal(err)
	}
	var out []byte
	for i := range n {
		body := []byte(strings.Repeat("body ", i+1))
		out, err = c.Append(out, &Record{
			Type: Response, ID: NewID([32]byte{1}, i), Date: time.Unix(1_700_000_000, 5000), URI: "http://example.org/",
			Head: HTTPHeader([]byte("HTTP/1.1 200 OK\r\nA: b\r\n\r\n"), 200, len(body)), Body: body,
		})
		if err != nil {
			tb.Fatal(err)
		}
	}
	return out
}

// TestScan reads what was written, finds each record again by its offset, and says where a file is cut.
func TestScan(t *testing.T) {
	file := sample(t, 5)
	s := NewScanner(bytes.NewReader(file))
	var offsets []int64
	for s.Scan() {
		offsets = append(offsets, s.Offset())
		_, body := s.Record().HTTP()
		if want := strings.Repeat("body ", len(offsets)); string(body) != want {
			t.Errorf("record %d: body %q, want %q", len(offsets), body, want)
		}
		again, err := ReadRecord(bytes.NewReader(file[s.Offset():]))
		if err != nil || again.Field("warc-record-id") != s.Record().Field("WARC-Record-ID") {
			t.Errorf("record at %d: %v", s.Offset(), err)
		}
	}
	if s.Err() != nil || len(offsets) != 5 || s.Offset() != int64(len(file)) {
		t.Fatalf("%d records up to %d of %d: %v", len(offsets), s.Offset(), len(file), s.Err())
	}
	for cut := range file {
		s := NewScanner(bytes.NewReader(file[:cut]))
		n := 0
		for s.Scan() {
			n++
		}
		whole := n < 5 && int64(cut) == offsets[n]
		if (s.Err() == nil) != whole {
			t.Fatalf("cut at %d: %d records, %v", cut, n, s.Err())
		}
		if s.Err() != nil && (s.Offset() != offsets[n] || !errors.Is(s.Err(), ErrMalformed)) {
			t.Fatalf("cut at %d: says %d, %v, want %d", cut, s.Offset(), s.Err(), offsets[n])
		}
	}
}

func TestHTTPHeader(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\nContent-Length: 9\r\n\r\n",
			"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nX-Archive-Orig-Content-Encoding: gzip\r\nX-Archive-Orig-Transfer-Encoding: chunked\r\nX-Archive-Orig-Content-Length: 9\r\nContent-Length: 5\r\n\r\n"},
		{"", "HTTP/1.1 200 \r\nContent-Length: 5\r\n\r\n"},
		{"HTTP/2 200\r\na: b", "HTTP/1.1 200 \r\na: b\r\nContent-Length: 5\r\n\r\n"},
		{"HTTP/2.0 200 OK\r\na: b", "HTTP/1.1 200 OK\r\na: b\r\nContent-Length: 5\r\n\r\n"},
		{"HTTP/1.0 200 Very  good\r\n\r\n", "HTTP/1.0 200 Very  good\r\nContent-Length: 5\r\n\r\n"},
		{"HTTP/1.1 200\r\n\r\n", "HTTP/1.1 200 \r\nContent-Length: 5\r\n\r\n"},
		{"HTTP/1.1 404 Not Found\r\nA: b\r\n\r\n", "HTTP/1.1 200 \r\nContent-Length: 5\r\n\r\n"},
		{"HTTP/1.1 200 OK\r\nbad name: x\r\n folded\r\nno colon\r\nNul: \x00\r\nGood: y\n\n", "HTTP/1.1 200 OK\r\nGood: y\r\nContent-Length: 5\r\n\r\n"},
	} {
		if got := string(HTTPHeader([]byte(c.in), 200, 5)); got != c.want {
			t.Errorf("header of %q\n got %q\nwant %q", c.in, got, c.want)
		}
	}
	made := HTTPHeader([]byte("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n"), 200, 5)
	if got, want := string(Relength(made, 200, 77)), "HTTP/1.1 200 OK\r\nX-Archive-Orig-Content-Length: 3\r\nContent-Length: 77\r\n\r\n"; got != want {
		t.Errorf("another length: %q, want %q", got, want)
	}
	if got, want := string(Relength([]byte("HTTP/2.0 200 OK\r\nContent-Length: 3\r\n\r\n"), 200, 77)), "HTTP/1.1 200 OK\r\nContent-Length: 77\r\n\r\n"; got != want {
		t.Errorf("another length in a header of 0.1.0: %q, want %q", got, want)
	}
	if got, want := string(Relength(nil, 200, 7)), "HTTP/1.1 200 \r\nContent-Length: 7\r\n\r\n"; got != want {
		t.Errorf("another length for no header: %q, want %q", got, want)
	}
	if got := Field([]byte("HTTP/1.1 200 OK\r\nETag:  \"x\" \r\nb: c\r\n"), "etag"); got != `"x"` {
		t.Errorf("field %q", got)
	}
}

// jwarc and gowarc refuse a header with a control character in it. A tab is one that HTTP allows, in a reason too; and a reason may be long.
func TestHeaderHasNoControlCharacters(t *testing.T) {
	long := strings.Repeat("r", 900)
	for in, want := range map[string]string{
		"HTTP/1.1 200 OK\x7f\r\nX: a\x01b\x7fc\td\r\n\r\n": "HTTP/1.1 200 OK \r\nX: a b c\td\r\nContent-Length: 5\r\n\r\n",
		"HTTP/1.1 200 all\tright\r\nA: b\r\n\r\n":          "HTTP/1.1 200 all\tright\r\nA: b\r\nContent-Length: 5\r\n\r\n",
		"HTTP/2.0 200 \x01\xe9\r\nA: \x80\xff\r\n\r\n":     "HTTP/1.1 200  \xe9\r\nA: \x80\xff\r\nContent-Length: 5\r\n\r\n",
		"HTTP/1.1 200 " + long + "\r\nA: b\r\n\r\n":        "HTTP/1.1 200 " + long + "\r\nA: b\r\nContent-Length: 5\r\n\r\n",
		"HTTP/1.\x01 200 OK\r\nA: b\r\n\r\n":               "HTTP/1.1 200 \r\nContent-Length: 5\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 3\x7f\r\n\r\n": "HTTP/1.1 200 OK\r\nX-Archive-Orig-Content-Length: 3 \r\nContent-Length: 5\r\n\r\n",
		"HTTP/1.1 200 OK\r\nA: b\rSet-Cookie: c\r\n\r\n":   "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
		"HTTP/1.1 200 OK\rA: b\r\nSet-Cookie: c\r\n\r\n":   "HTTP/1.1 200 OK A: b\r\nSet-Cookie: c\r\nContent-Length: 5\r\n\r\n",
	} {
		if got := string(HTTPHeader([]byte(in), 200, 5)); got != want {
			t.Errorf("header of %q\n got %q\nwant %q", in, got, want)
		}
	}
	old := "HTTP/2.0 200 O\x7fK\r\nX: \x01\r\nContent-Length: 3\r\n\r\n" // as versions before have stored it
	if got, want := string(Relength([]byte(old), 200, 7)), "HTTP/1.1 200 O K\r\nX:  \r\nContent-Length: 7\r\n\r\n"; got != want {
		t.Errorf("another length: %q, want %q", got, want)
	}
}

// WARC 1.1, 6.7.2: the block of a revisit that repeats a payload is cut where the payload would begin, and its record says so.
func TestRevisitSaysThatItIsCut(t *testing.T) {
	for _, c := range []struct {
		r    Record
		want string
	}{
		{Record{Type: Revisit, Profile: SameDigest, Head: []byte("HTTP/1.1 200 OK\r\n\r\n")}, CutLength},
		{Record{Type: Revisit, Profile: SameDigest, Head: []byte("HTTP/1.1 200 OK\r\n\r\n"), Truncated: CutTime}, CutLength},
		{Record{Type: Revisit, Profile: SameDigest}, ""},
		{Record{Type: Revisit, Profile: NotModified}, ""},
		{Record{Type: Response, Head: []byte("HTTP/1.1 200 OK\r\n\r\n")}, ""},
		{Record{Type: Response, Head: []byte("HTTP/1.1 200 OK\r\n\r\n"), Truncated: CutDisconnect}, CutDisconnect},
	} {
		pack, err := NewCompressor(3)
		if err != nil {
			t.Fatal(err)
		}
		b, err := pack.Append(nil, &c.r)
		if err != nil {
			t.Fatal(err)
		}
		read, err := ReadRecord(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		if got := read.Field("WARC-Truncated"); got != c.want {
			t.Errorf("a %s of profile %q is cut by %q, want %q", c.r.Type, c.r.Profile, got, c.want)
		}
	}
}

// Readers of WARC 1.1 take a digest for a label and a token, and know no status line but those of HTTP/1.
func TestDigestIsAToken(t *testing.T) {
	sum := sha256.Sum256([]byte("payload"))
	got := Digest(sum)
	if want := "sha256:" + hex.EncodeToString(sum[:]); got != want || strings.ContainsAny(got[7:], "=/ABCDEF") {
		t.Errorf("digest %s, want %s", got, want)
	}
	for _, s := range []string{got, "sha256:" + strings.ToUpper(got[7:]), "sha256:" + base32.StdEncoding.EncodeToString(sum[:])} {
		if b, err := ParseDigest(s); err != nil || string(b) != string(sum[:]) {
			t.Errorf("%s is read as %x, %v", s, b, err)
		}
	}
	for _, s := range []string{"", "sha256:", "sha1:" + got[7:], got[:len(got)-2], got + "00", "sha256:" + strings.Repeat("g", 64)} {
		if b, err := ParseDigest(s); !errors.Is(err, ErrMalformed) {
			t.Errorf("%q is read as %x, %v", s, b, err)
		}
	}
}

func TestProtocol(t *testing.T) {
	for _, c := range [][3]string{
		{"HTTP/2.0 200 OK\r\n", "https://a.example/", "h2"}, {"HTTP/2 200\r\n", "http://a.example/", "h2c"},
		{"HTTP/1.1 200 OK\r\n", "https://a.example/", "http/1.1"}, {"HTTP/1.0 200 OK\r\n", "http://a.example/", "http/1.0"},
		{"rubbish", "http://a.example/", ""}, {"", "http://a.example/", ""},
	} {
		if got := Protocol([]byte(c[0]), c[1]); got != c[2] {
			t.Errorf("%q of %s: %q, want %q", c[0], c[1], got, c[2])
		}
	}
}

func TestAppender(t *testing.T) {
	name := filepath.Join(t.TempDir(), "x.warc.gz")
	a, err := Create(OS{}, name)
	if err != nil {
		t.Fatal(err)
	}
	steps := []func() error{
		func() error { _, err := a.Append([]byte("kept")); return err }, a.Sync,
		func() error { a.Commit(); _, err := a.Append([]byte("lost")); return err }, a.Rollback,
		func() error { _, err := a.Append([]byte("torn")); return err }, a.Close,
	}
	for _, s := range steps {
		if err := s(); err != nil {
			t.Fatal(err)
		}
	}
	if b, err := os.ReadFile(name); string(b) != "kepttorn" {
		t.Errorf("file has %q, %v", b, err)
	}
	if _, err := Create(OS{}, name); err == nil {
		t.Error("a file was made anew")
	}
	if a, err = Resume(OS{}, name, 4); err != nil || a.Len() != 4 {
		t.Fatalf("resume: %v", err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(name); string(b) != "kept" {
		t.Errorf("file has %q, %v", b, err)
	}
	if _, err := Resume(OS{}, name, 5); !errors.Is(err, ErrShort) {
		t.Errorf("resume of a file that lost bytes: %v", err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(sample(f, 2))
	f.Add(sample(f, 1)[:40])
	f.Fuzz(func(t *testing.T, b []byte) {
		s := NewScanner(bytes.NewReader(b))
		for s.Scan() {
			s.Record().HTTP()
		}
		if s.Offset() > int64(len(b)) {
			t.Errorf("offset %d of %d", s.Offset(), len(b))
		}
	})
}

func FuzzHTTPHeader(f *testing.F) {
	f.Add([]byte("HTTP/1.1 200 OK\r\nA: b\r\n\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		out := HTTPHeader(b, 200, 7)
		if !bytes.HasSuffix(out, []byte("\r\n\r\n")) || bytes.Count(out, []byte("\r\n\r\n")) != 1 || len(out) > MaxHTTPHeader+len(b)+200 {
			t.Errorf("header %q of %q", out, b)
		}
	})
}
