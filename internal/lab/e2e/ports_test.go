package e2e

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
)

// givenPorts are the ports that unusedPort has returned. Tests run beside each other, and each has its own ports.
var givenPorts = struct {
	sync.Mutex
	given map[int]bool
}{given: map[int]bool{}}

// unusedPort returns a free port of 127.0.0.1 that no other test gets. It is below the ports that systems assign by
// themselves, and below those that the programs choose from, so it is still free when a program listens there, and when
// the program is started again a minute later.
func unusedPort(t *testing.T) int {
	t.Helper()
	givenPorts.Lock()
	defer givenPorts.Unlock()
	for range 1000 {
		port := 10_000 + rand.IntN(10_000)
		if givenPorts.given[port] {
			continue
		}
		l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port))
		if err != nil {
			continue
		}
		l.Close()
		givenPorts.given[port] = true
		return port
	}
	t.Fatal("no free port from 10000 to 19999")
	return 0
}
