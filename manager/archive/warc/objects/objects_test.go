package objects

import (
	"net/http"
	"testing"
	"time"

	"shoal/internal/lab/s3lab"
	"shoal/manager/archive/bucket"
	"shoal/manager/archive/segment"
	"shoal/manager/archive/warc"
	"shoal/manager/archive/warc/warctest"
)

func open(t *testing.T, s *s3lab.Store) *bucket.Bucket {
	t.Helper()
	b, err := bucket.Open(t.Context(), bucket.Config{URL: s.URL(), Patience: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func config(t *testing.T, b Bucket) Config {
	t.Helper()
	pack, err := warc.NewCompressor(1)
	if err != nil {
		t.Fatal(err)
	}
	return Config{Bucket: b, Roll: 10_000, First: func(name string, id uint32, at time.Time) ([]byte, error) {
		return pack.Append(nil, &warc.Record{Type: warc.Info, ID: warc.NewID([32]byte{}, int(id)), Date: at, Filename: name})
	}}
}

func TestContract(t *testing.T) {
	warctest.RunStore(t, func(t *testing.T) warctest.Subject {
		lab := s3lab.Start(t, s3lab.Options{})
		cfg := config(t, open(t, lab))
		s := Open(cfg)
		return warctest.Subject{Store: s, Roll: int(cfg.Roll),
			FailSync: func() {
				failed := 0
				lab.Break(func(r *http.Request) s3lab.Fault {
					if r.Method != http.MethodPut || failed == 3 { // as often as a request is sent
						return s3lab.Fault{}
					}
					failed++
					return s3lab.Fault{Status: http.StatusInternalServerError}
				})
			},
			Reopen: func(t *testing.T, crash bool) segment.Store {
				if !crash {
					if err := s.Close(); err != nil {
						t.Fatal(err)
					}
				}
				s = Open(cfg)
				return s
			}}
	})
}

// TestWriters has two writers at once: each writes a segment of its own, commits come in any order, and the next start goes on with both segments.
func TestWriters(t *testing.T) {
	lab := s3lab.Start(t, s3lab.Options{})
	cfg := config(t, open(t, lab))
	s := Open(cfg)
	if _, err := s.Recover(nil, 0); err != nil {
		t.Fatal(err)
	}
	known := map[uint32]segment.Info{}
	at := map[string]segment.Location{}
	begin := func(w segment.Writer, text string) func() {
		raw := record(t, text)
		where, err := w.Append(raw, []int{len(raw)})
		if err != nil {
			t.Fatal(err)
		}
		changed, err := w.Sync()
		if err != nil {
			t.Fatal(err)
		}
		at[text] = where[0]
		return func() { note(known, changed); w.Commit() }
	}
	round := func(s *Store, one, two string) {
		other := s.Another()
		first, second := begin(s, one), begin(other, two)
		second()
		first()
	}
	round(s, "one", "two")
	if at["one"].Segment == at["two"].Segment {
		t.Fatalf("both wrote to segment %d", at["one"].Segment)
	}
	for range 2 { // the segments stay two
		s = Open(cfg)
		if problems, err := s.Recover(infos(known), 2); err != nil || len(problems) > 0 {
			t.Fatal(problems, err)
		}
		round(s, "three", "four")
	}
	if len(known) != 2 || at["three"].Segment == at["four"].Segment {
		t.Errorf("%d segments; at %v", len(known), at)
	}
	for text, where := range at {
		holds(t, s, where, text)
	}
	if err := s.Seal(); err != nil {
		t.Fatal(err)
	}
	if changed, err := s.Sync(); err != nil || len(changed) != 1 || !changed[0].Sealed {
		t.Errorf("sealed %v, %v", changed, err)
	}
}
