package e2e

import (
	"io"
	"net"
	"sync"
	"testing"
)

// sluice passes connections on to a server. While it is held no answer comes through, so whoever asks is in the middle of its work for as long as a
// test wants, whatever the machine's speed.
type sluice struct {
	ln      net.Listener
	answers sync.RWMutex // locked: held
	conns   []net.Conn   // owned by the goroutine that accepts
}

func newSluice(t *testing.T, to string) *sluice {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &sluice{ln: ln}
	var accepting, wg sync.WaitGroup
	accepting.Go(func() {
		for {
			near, err := ln.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", to)
			if err != nil {
				near.Close()
				continue
			}
			s.conns = append(s.conns, near, far)
			wg.Go(func() { defer far.Close(); io.Copy(far, near) })
			wg.Go(func() { defer near.Close(); io.Copy(held{near, s}, far) })
		}
	})
	t.Cleanup(func() {
		ln.Close()
		accepting.Wait()
		for _, c := range s.conns {
			c.Close()
		}
		wg.Wait()
	})
	return s
}

func (s *sluice) addr() string { return s.ln.Addr().String() }

// hold holds all answers back from now on.
func (s *sluice) hold() { s.answers.Lock() }

// open lets answers through again.
func (s *sluice) open() { s.answers.Unlock() }

// held is the near side of a connection.
type held struct {
	net.Conn
	s *sluice
}

func (h held) Write(b []byte) (int, error) {
	h.s.answers.RLock()
	defer h.s.answers.RUnlock()
	return h.Conn.Write(b)
}
