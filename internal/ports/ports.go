// Package ports chooses ports of loopback for programs that are about to listen.
package ports

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// The range is below the ports that systems give to outgoing connections and to listeners that name none.
const (
	first = 20_000
	many  = 12_000
)

// given are the ports that Row has returned.
var given = struct {
	sync.Mutex
	ports map[int]bool
}{ports: map[int]bool{}}

// Free returns a port of loopback that is free for TCP and UDP, and that this process has not been given before. No system gives the port away before the
// program that it is for listens there, and when that program has ended it is still free for the next.
func Free() (int, error) { return Row(1) }

// Again is like Free, and returns the port that its caller was given at an earlier start, if that is free. Numbers that Free does not give are as none.
func Again(port int) (int, error) {
	given.Lock()
	defer given.Unlock()
	if port >= first && port < first+many && isFree(port) {
		given.ports[port] = true
		return port, nil
	}
	return row(1)
}

// Row is like Free for n ports that follow each other, and returns the first.
func Row(n int) (int, error) {
	given.Lock()
	defer given.Unlock()
	return row(n)
}

// row is Row, for who holds the lock of given.
func row(n int) (int, error) {
look:
	for range 1000 {
		from := first + rand.IntN(many-n+1)
		for port := from; port < from+n; port++ {
			if given.ports[port] || !isFree(port) {
				continue look
			}
		}
		for port := from; port < from+n; port++ {
			given.ports[port] = true
		}
		return from, nil
	}
	return 0, errors.New("no free port on loopback from 20000 to 31999: end what listens there")
}

func isFree(port int) bool {
	at := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	l, err := net.Listen("tcp", at)
	if err != nil {
		return false
	}
	defer l.Close()
	u, err := net.ListenPacket("udp", at)
	if err != nil {
		return false
	}
	return u.Close() == nil
}
