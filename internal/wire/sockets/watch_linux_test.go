package sockets

import (
	"errors"
	"net"
	"testing"
	"time"

	manet "github.com/multiformats/go-multiaddr/net"
	"golang.org/x/sys/unix"
)

// TestWatchAccepted watches a connection that the other side has dialled, as a manager dials a peer: the system ends it as soon as one that was dialled here.
func TestWatchAccepted(t *testing.T) {
	s := New(Config{DialTimeout: time.Minute})
	plain, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := listener{plain, s}
	defer l.Close()
	dialled, err := new(net.Dialer).DialContext(t.Context(), "tcp", plain.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer dialled.Close()
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	local, err := manet.FromNetAddr(c.LocalAddr())
	if err != nil {
		t.Fatal(err)
	}
	remote, err := manet.FromNetAddr(c.RemoteAddr())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Watch(local, remote); err != nil {
		t.Fatal(err)
	}
	known, _ := s.open.Load(ends{c.LocalAddr().String(), c.RemoteAddr().String()})
	socket, ok := known.(*net.TCPConn)
	if !ok {
		t.Fatal("the connection is not known")
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var bound int
	var failed error
	err = raw.Control(func(fd uintptr) { bound, failed = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT) })
	if err := errors.Join(err, failed); err != nil {
		t.Fatal(err)
	}
	if bound != int(Noticed.Milliseconds()) {
		t.Errorf("what is sent may stay unacknowledged for %d ms, want %v", bound, Noticed)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if _, known := s.open.Load(ends{c.LocalAddr().String(), c.RemoteAddr().String()}); known {
		t.Error("a connection that was closed is still known")
	}
}
