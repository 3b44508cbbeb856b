package wire

import (
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	ma "github.com/multiformats/go-multiaddr"

	"shoal/internal/member"
)

// TestSilentConnectionsDoNotStarveJoins checks that peers can join while three addresses open connections and say
// nothing.
func TestSilentConnectionsDoNotStarveJoins(t *testing.T) {
	w := &testNet{t: t, root: member.NewRoot(newKey())}
	w.manager = w.node(Config{Role: member.Manager, Limits: Limits{Conns: 64, Held: 64, LowConns: 40, Strangers: 24}})
	w.rotate(openPolicy, 1)
	port, err := w.manager.gate.ListenAddresses()[0].ValueForProtocol(ma.P_TCP)
	if err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var mu sync.Mutex
	opened := 0
	for _, from := range []string{"127.1.0.1", "127.2.0.1", "127.3.0.1"} {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: time.Second}
		for range 30 {
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					c, err := d.Dial("tcp", net.JoinHostPort("127.0.0.1", port))
					if err != nil {
						time.Sleep(10 * time.Millisecond)
						continue
					}
					mu.Lock()
					opened++
					mu.Unlock()
					c.SetReadDeadline(time.Now().Add(5 * time.Second))
					c.Read(make([]byte, 1<<10)) // the other side speaks first
					go func() { <-stop; c.Close() }()
					c.Read(make([]byte, 1<<10)) // until it closes
				}
			})
		}
	}
	defer func() { close(stop); wg.Wait() }()
	eventually(t, "more have come than there is room for", func() bool { mu.Lock(); defer mu.Unlock(); return opened > 80 })
	for i := range 20 {
		n := w.node(Config{})
		err := n.Join(t.Context(), w.joinString(), "")
		for tries := 1; errors.Is(err, ErrUnreachable) && tries < 10; tries++ { // on a busy machine closed connections have their places for a moment longer
			err = n.Join(t.Context(), w.joinString(), "")
		}
		if err != nil {
			t.Errorf("member %d: %v", i, err)
		}
	}
}
