package postgres

import (
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestSilentServer looks at how connections to a server are made: the system ends one to a machine that has lost its power within seconds, though nobody who uses
// it has a deadline, and a connection to one that is gone is given up.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for url, most := range map[string]time.Duration{"": 10 * time.Second, "?connect_timeout=3": 3 * time.Second} {
		s, err := Look(t.Context(), Default("postgres://shoal@"+l.Addr().String()+"/x"+url))
		if err != nil {
			t.Fatal(err)
		}
		defer s.Pool().Close()
		c := s.Pool().Config().ConnConfig
		if c.ConnectTimeout != most {
			t.Errorf("%q: a server that says nothing is waited for %v, want %v", url, c.ConnectTimeout, most)
		}
		conn, err := c.DialFunc(t.Context(), "tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		raw, err := conn.(*net.TCPConn).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		option := func(level, name int) (n int) {
			t.Helper()
			var failed error
			if err := raw.Control(func(fd uintptr) { n, failed = unix.GetsockoptInt(int(fd), level, name) }); err != nil || failed != nil {
				t.Fatal(err, failed)
			}
			return n
		}
		asked := time.Duration(option(unix.IPPROTO_TCP, unix.TCP_KEEPIDLE)+option(unix.IPPROTO_TCP, unix.TCP_KEEPINTVL)*option(unix.IPPROTO_TCP, unix.TCP_KEEPCNT)) * time.Second
		unanswered := time.Duration(option(unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT)) * time.Millisecond
		if on := option(unix.SOL_SOCKET, unix.SO_KEEPALIVE); on == 0 || asked > 20*time.Second || unanswered == 0 || unanswered > 20*time.Second {
			t.Errorf("%q: the system asks a silent server: %d, gives it up after %v, and what is not acknowledged after %v; want 20s at most", url, on, asked, unanswered)
		}
	}
}
