package objects

import (
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"shoal/internal/lab/s3lab"
	"shoal/manager/archive/segment"
	"shoal/manager/archive/warc"
)

// record packs one record.
func record(t *testing.T, text string) []byte {
	t.Helper()
	pack, err := warc.NewCompressor(1)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := pack.Append(nil, &warc.Record{Type: warc.Response, Date: time.Unix(1, 0), URI: "http://example.org/", Head: warc.HTTPHeader(nil, 200, len(text)), Body: []byte(text)})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// put stores one record as the ledger does, and returns what the ledger would note.
func put(t *testing.T, s *Store, text string) ([]segment.Info, segment.Location, error) {
	t.Helper()
	raw := record(t, text)
	at, err := s.Append(raw, []int{len(raw)})
	if err != nil {
		t.Fatal(err)
	}
	changed, err := s.Sync()
	if err != nil {
		return nil, at[0], errors.Join(err, s.Rollback())
	}
	s.Commit()
	return changed, at[0], nil
}

func holds(t *testing.T, s *Store, at segment.Location, text string) {
	t.Helper()
	in, err := s.Read(at, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	r, err := warc.ReadRecord(in)
	if err != nil {
		t.Fatal(err)
	}
	if _, body := r.HTTP(); string(body) != text {
		t.Errorf("at %v: %.40q, want %.40q", at, body, text)
	}
}

// TestFaults has writes fail in every way, once, and for good.
func TestFaults(t *testing.T) {
	for name, fault := range map[string]s3lab.Fault{
		"500": {Status: http.StatusInternalServerError}, "503": {Status: http.StatusServiceUnavailable}, "partial": {Cut: 100}, "no answer": {Silent: true}, "slow": {Delay: 30 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			lab := s3lab.Start(t, s3lab.Options{})
			s := Open(config(t, open(t, lab)))
			if _, err := s.Recover(nil, 0); err != nil {
				t.Fatal(err)
			}
			known := map[uint32]segment.Info{}
			broken := 0
			lab.Break(lab.Puts(".warc.gz", func() s3lab.Fault { // once: it is sent again
				if broken++; broken == 1 {
					return fault
				}
				return s3lab.Fault{}
			}))
			changed, at, err := put(t, s, strings.Repeat("first ", 100))
			if err != nil || broken == 0 {
				t.Fatalf("%v; %d requests broken", err, broken)
			}
			note(known, changed)
			holds(t, s, at, strings.Repeat("first ", 100))
			if fault.Delay > 0 {
				return
			}
			lab.Break(lab.Puts(".warc.gz", func() s3lab.Fault { return fault }))
			if _, _, err := put(t, s, "second"); err == nil {
				t.Error("a write that failed for good is no error")
			}
			lab.Break(nil)
			changed, next, err := put(t, s, "third")
			if err != nil || next.Segment == at.Segment {
				t.Errorf("after a failure: at %v, %v", next, err)
			}
			note(known, changed)
			again := Open(config(t, open(t, lab)))
			problems, err := again.Recover(infos(known), next.Segment)
			if err != nil || len(problems) > 0 {
				t.Errorf("problems %v, %v", problems, err)
			}
			holds(t, again, next, "third")
		})
	}
}

func note(known map[uint32]segment.Info, changed []segment.Info) {
	for _, s := range changed {
		known[s.ID] = s
	}
}

func infos(known map[uint32]segment.Info) (out []segment.Info) {
	for _, s := range known {
		out = append(out, s)
	}
	return out
}

// TestOrphans leaves an object that was never committed. It stays while the store only reads, since its writer may live; it goes with the first
// commit, which has shut that one out.
func TestOrphans(t *testing.T) {
	lab := s3lab.Start(t, s3lab.Options{})
	known := map[uint32]segment.Info{}
	s := Open(config(t, open(t, lab)))
	if _, err := s.Recover(nil, 0); err != nil {
		t.Fatal(err)
	}
	changed, at, err := put(t, s, "one")
	if err != nil {
		t.Fatal(err)
	}
	note(known, changed)
	raw := record(t, "orphan")
	if _, err := s.Append(raw, []int{len(raw)}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Sync(); err != nil { // and here it dies
		t.Fatal(err)
	}
	s = Open(config(t, open(t, lab)))
	if _, err := s.Recover(infos(known), at.Segment); err != nil {
		t.Fatal(err)
	}
	if names, err := lab.Objects(); err != nil || len(names) != 2 {
		t.Errorf("before a commit: %q, %v", names, err)
	}
	changed, next, err := put(t, s, "two")
	if err != nil {
		t.Fatal(err)
	}
	note(known, changed)
	if names, err := lab.Objects(); err != nil || len(names) != 2 {
		t.Errorf("after it: %q, %v", names, err)
	}
	holds(t, s, at, "one")
	holds(t, s, next, "two")
	list, err := Open(config(t, open(t, lab))).List() // as a rebuild sees it
	if err != nil || len(list) != 1 || list[0].Length != known[at.Segment].Length || list[0].Parts != known[at.Segment].Parts {
		t.Errorf("listed %+v, %v; the ledger has %+v", list, err, known[at.Segment])
	}
}

// TestLostPart loses one object of a segment: what is in the others can be read.
func TestLostPart(t *testing.T) {
	lab := s3lab.Start(t, s3lab.Options{})
	s := Open(config(t, open(t, lab)))
	if _, err := s.Recover(nil, 0); err != nil {
		t.Fatal(err)
	}
	known := map[uint32]segment.Info{}
	var at []segment.Location
	for _, text := range []string{"one", "two", "three"} {
		changed, a, err := put(t, s, text)
		if err != nil {
			t.Fatal(err)
		}
		note(known, changed)
		at = append(at, a)
	}
	names, err := lab.Objects()
	if err != nil || len(names) != 3 {
		t.Fatal(names, err)
	}
	if err := os.Remove(lab.File(names[1])); err != nil {
		t.Fatal(err)
	}
	s = Open(config(t, open(t, lab)))
	problems, err := s.Recover(infos(known), at[0].Segment)
	if err != nil || len(problems) != 1 || !errors.Is(problems[0].Err, segment.ErrShort) {
		t.Errorf("problems %v, %v", problems, err)
	}
	holds(t, s, at[0], "one")
	holds(t, s, at[2], "three")
	if _, err := s.Read(at[1], 0); !errors.Is(err, segment.ErrNone) {
		t.Errorf("what is lost: %v", err)
	}
	found, bad := 0, 0
	err = s.Scan(t.Context(), known[at[0].Segment], func(f segment.Found) error {
		if f.Record != nil && f.Record.Field("WARC-Type") == warc.Response {
			found++
		}
		if f.Bad != nil {
			bad++
		}
		return nil
	})
	if err != nil || found != 2 || bad == 0 {
		t.Errorf("%d records found, %d damaged places, %v", found, bad, err)
	}
}

// TestLostTail has an object lose its end: a record that it cut, and one behind it, are told to be gone for good, which is no fault of the server.
func TestLostTail(t *testing.T) {
	lab := s3lab.Start(t, s3lab.Options{})
	s := Open(config(t, open(t, lab)))
	if _, err := s.Recover(nil, 0); err != nil {
		t.Fatal(err)
	}
	var raw []byte
	var ends []int
	for _, text := range []string{"one", "two", "three"} {
		raw = append(raw, record(t, text)...)
		ends = append(ends, len(raw))
	}
	at, err := s.Append(raw, ends)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	s.Commit()
	names, err := lab.Objects()
	if err != nil || len(names) != 1 {
		t.Fatal(names, err)
	}
	if err := os.Truncate(lab.File(names[0]), int64(at[1].Offset)+10); err != nil {
		t.Fatal(err)
	}
	holds(t, s, at[0], "one")
	for _, l := range at[1:] {
		in, err := s.Read(l, 0)
		if err == nil {
			_, err = io.ReadAll(in)
			_ = in.Close()
		}
		if !errors.Is(err, segment.ErrShort) {
			t.Errorf("at %v: %v", l, err)
		}
	}
}

// TestReadAhead reads records one behind the other, by two readers in turn, and back: few requests, and each record as it was written.
func TestReadAhead(t *testing.T) {
	lab := s3lab.Start(t, s3lab.Options{})
	cfg := config(t, open(t, lab))
	cfg.Roll = 1 << 20
	s := Open(cfg)
	if _, err := s.Recover(nil, 0); err != nil {
		t.Fatal(err)
	}
	var at []segment.Location
	name := func(n int) string { return strings.Repeat(string(rune('a'+n%26)), 100+n) }
	for part := range 2 {
		var raw []byte
		var ends []int
		for n := range 200 {
			raw = append(raw, record(t, name(200*part+n))...)
			ends = append(ends, len(raw))
		}
		a, err := s.Append(raw, ends)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Sync(); err != nil {
			t.Fatal(err)
		}
		s.Commit()
		at = append(at, a...)
	}
	requests := 0
	lab.Break(func(*http.Request) s3lab.Fault { requests++; return s3lab.Fault{} })
	for n := range 200 {
		holds(t, s, at[n], name(n))
		holds(t, s, at[200+n], name(200+n))
	}
	for n := 199; n >= 0; n-- {
		holds(t, s, at[n], name(n))
	}
	if requests > 10 {
		t.Errorf("%d requests for 600 records of two objects", requests)
	}
}
