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
