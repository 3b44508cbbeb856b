//go:build linux

package netlab

import (
	"context"
	"net"
	"testing"
	"time"
)

func TestLab(t *testing.T) {
	l := Open(t, "a lab is")
	site := func(name, prefix string) *Host {
		h, err := l.Site(name, prefix)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	a, b, router := site("a", "11.0.1.1/24"), site("b", "11.0.2.1/24"), site("r", "11.0.3.1/24")
	l.Distance(a, b, 60*time.Millisecond, 0)
	home, err := l.Home(router, "h", "192.168.7.2/24", SamePort)
	if err != nil {
		t.Fatal(err)
	}
	serve := func(h *Host, addr string) net.Listener {
		s, err := h.Listen("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	dial := func(h *Host, addr string, patience time.Duration) (net.Conn, time.Duration, error) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		began := time.Now()
		c, err := h.DialContext(ctx, "tcp", addr)
		if err == nil {
			t.Cleanup(func() { c.Close() })
		}
		return c, time.Since(began), err
	}
	s := serve(a, "11.0.1.1:8000")
	if _, took, err := dial(b, "11.0.1.1:8000", time.Minute); err != nil || took < 60*time.Millisecond {
		t.Errorf("from a place 60 ms away: %v, %v", took, err)
	}
	if c, err := s.Accept(); err != nil || c.RemoteAddr().(*net.TCPAddr).IP.String() != "11.0.2.1" {
		t.Errorf("seen: %v, %v", c, err)
	}
	if _, _, err := dial(home, "11.0.1.1:8000", time.Minute); err != nil {
		t.Errorf("out of a home: %v", err)
	}
	if c, err := s.Accept(); err != nil || c.RemoteAddr().(*net.TCPAddr).IP.String() != "11.0.3.1" {
		t.Errorf("a home is seen as %v, %v", c, err)
	}
	serve(home, "192.168.7.2:8000")
	if _, _, err := dial(router, "192.168.7.2:8000", time.Minute); err != nil {
		t.Errorf("from the router: %v", err)
	}
	if _, _, err := dial(a, "11.0.3.1:8000", time.Minute); err == nil {
		t.Error("somebody got in")
	}
	l.Cut(b, true)
	if _, _, err := dial(b, "11.0.1.1:8000", 300*time.Millisecond); err == nil {
		t.Error("a place that is cut off got through")
	}
	l.Cut(b, false)
	if _, _, err := dial(b, "11.0.1.1:8000", time.Minute); err != nil {
		t.Errorf("joined again: %v", err)
	}
}

// TestCloseBehindAPacket closes a lab after the relay has read a packet and before it asks for the packet's link.
func TestCloseBehindAPacket(t *testing.T) {
	l := Open(t, "the end of a lab is")
	a, err := l.Site("a", "11.0.1.1/24")
	if err != nil {
		t.Fatal(err)
	}
	b, err := l.Site("b", "11.0.2.1/24")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	l.between(a, b).send([]byte{0x45})
	if len(l.links) > 0 {
		t.Errorf("a closed lab has %d links, which none closes", len(l.links))
	}
}
