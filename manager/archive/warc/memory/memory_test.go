package memory

import (
	"errors"
	"testing"

	"shoal/manager/archive/segment"
	"shoal/manager/archive/warc/warctest"
)

func TestContract(t *testing.T) {
	warctest.RunStore(t, func(t *testing.T) warctest.Subject {
		fail := false
		s := New(Config{Roll: 10_000, Fail: func(step string) error {
			if step == "sync" && fail {
				fail = false
				return errors.New("test: sync failed")
			}
			return nil
		}})
		return warctest.Subject{Store: s, Roll: 10_000, FailSync: func() { fail = true }, Reopen: func(t *testing.T, crash bool) segment.Store {
			if crash {
				s.Crash()
			} else if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			return s
		}}
	})
}
