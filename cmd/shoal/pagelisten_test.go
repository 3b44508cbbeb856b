package main

import (
	"io"
	"log/slog"
	"net"
	"slices"
	"testing"
)

// comers is a listener at which connections from some addresses arrive.
type comers struct{ from []string }

func (l *comers) Accept() (net.Conn, error) {
	if len(l.from) == 0 {
		return nil, net.ErrClosed
	}
	ip := net.ParseIP(l.from[0])
	l.from = l.from[1:]
	ours, theirs := net.Pipe()
	go io.Copy(io.Discard, theirs)
	return &comer{ours, &net.TCPAddr{IP: ip, Port: 1}}, nil
}

func (l *comers) Close() error   { return nil }
func (l *comers) Addr() net.Addr { return &net.TCPAddr{} }

type comer struct {
	net.Conn
	from net.Addr
}

func (c *comer) RemoteAddr() net.Addr { return c.from }

// TestConnectionsToThePageAreBounded: one address cannot take all connections, all of them together are bounded, and a place that is given back is there again.
func TestConnectionsToThePageAreBounded(t *testing.T) {
	in := &comers{}
	l := bounded(in, slog.New(slog.DiscardHandler))
	var open []net.Conn
	come := func(from string, n, want int) {
		t.Helper()
		in.from = slices.Repeat([]string{from}, n)
		got := 0
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			open = append(open, c)
			got++
		}
		if got != want {
			t.Errorf("of %d connections from %s %d are served, want %d", n, from, got, want)
		}
	}
	come("2001:db8::1", maxPageFrom+50, maxPageFrom)
	come("2001:db8::2", 1, 0) // of the same network
	come("192.0.2.7", 20, 20)
	come("127.0.0.1", maxPageConns, maxPageConns-maxPageFrom-20)
	come("192.0.2.8", 1, 0)
	for _, c := range open {
		c.Close()
		c.Close()
	}
	come("192.0.2.7", maxPageFrom+1, maxPageFrom)
}
