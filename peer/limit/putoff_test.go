package limit

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// A host has its time to answer. What a volunteer's own limit makes of it does not count: large pages were cut in the middle, at another byte each time, and hosts blamed for it.
func TestDeadlinesAreForTheOtherSide(t *testing.T) {
	for name, c := range map[string]struct {
		kib    int // a second; 0: no limit
		size   int // bytes that the host sends, at once
		silent bool
		took   time.Duration // at most
		whole  bool
	}{
		"no limit":              {0, 1 << 20, false, time.Second, true},
		"within the time":       {100, 1 << 20, false, 15 * time.Second, true},
		"a slow limit":          {20, 1 << 20, false, time.Minute, true},
		"far too slow":          {5, 2 << 20, false, 30*time.Second + mostPutOff + 3*time.Second, false},
		"a host that is silent": {100, 1 << 10, true, 31 * time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				near, far := net.Pipe()
				defer far.Close()
				m := NewMeter(nil)
				m.SetRates(c.kib, 0)
				conn := m.Wrap(near)
				defer conn.Close()
				go func() {
					_, _ = far.Write(make([]byte, c.size))
					if !c.silent {
						far.Close()
					}
				}()
				began := time.Now()
				if err := conn.SetDeadline(began.Add(30 * time.Second)); err != nil {
					t.Fatal(err)
				}
				n, err := io.Copy(io.Discard, conn)
				if took := time.Since(began); (err == nil) != c.whole || c.whole && n != int64(c.size) || took > c.took {
					t.Errorf("%d of %d bytes after %v: %v", n, c.size, took, err)
				}
				if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("it ended by %v", err)
				}
			})
		})
	}
}

// A deadline that has passed, as one that is set to interrupt a read, is not put off.
func TestPassedDeadlineIsNotPutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer far.Close()
		m := NewMeter(nil)
		m.SetRates(1, 0)
		conn := m.Wrap(near)
		defer conn.Close()
		go func() { _, _ = far.Write(make([]byte, 128<<10)) }()
		go func() {
			time.Sleep(5 * time.Second)
			_ = conn.SetDeadline(time.Now())
		}()
		_, err := io.Copy(io.Discard, conn)
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("it ended by %v", err)
		}
	})
}
