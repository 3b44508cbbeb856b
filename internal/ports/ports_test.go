package ports

import (
	"net"
	"testing"
)

// TestFree: ports are free, in the range, and given once.
func TestFree(t *testing.T) {
	seen := map[int]bool{}
	for range 100 {
		p, err := Free()
		if err != nil {
			t.Fatal(err)
		}
		if p < first || p >= first+many || seen[p] || !isFree(p) {
			t.Errorf("port %d", p)
		}
		seen[p] = true
	}
}

// TestRow: the ports of a row are free, and none is given again.
func TestRow(t *testing.T) {
	seen := map[int]bool{}
	for range 100 {
		from, err := Row(3)
		if err != nil {
			t.Fatal(err)
		}
		for p := from; p < from+3; p++ {
			if seen[p] || !isFree(p) || p >= first+many {
				t.Errorf("port %d", p)
			}
			seen[p] = true
		}
	}
}

// TestTaken: a port at which a program listens, by TCP or UDP, is not free.
func TestTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if port := l.Addr().(*net.TCPAddr).Port; isFree(port) {
		t.Errorf("TCP port %d is taken", port)
	}
	u, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	if port := u.LocalAddr().(*net.UDPAddr).Port; isFree(port) {
		t.Errorf("UDP port %d is taken", port)
	}
}

// TestAgain: a port that a program had is its own again, unless it is taken; what Free would not give is not.
func TestAgain(t *testing.T) {
	p, err := Free()
	if err != nil {
		t.Fatal(err)
	}
	if again, err := Again(p); again != p || err != nil {
		t.Errorf("port %d, %v; it is free, want %d", again, err, p)
	}
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: p})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, before := range []int{p, 0, -1, 80, first + many, 1 << 20} {
		if other, err := Again(before); other == before || other < first || other >= first+many || err != nil {
			t.Errorf("for port %d: %d, %v", before, other, err)
		}
	}
}
