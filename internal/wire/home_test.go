package wire

import (
	"errors"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

// TestOnlyTheWayHomeDials: whatever a peer asks of the server that it has lost makes no attempt of its own, from the moment of the loss on.
func TestOnlyTheWayHomeDials(t *testing.T) {
	w := newNet(t, openPolicy)
	serveEcho(w.manager)
	times := short
	times.Soon = 200 * 365 * 24 * time.Hour // it is drawn: the way home itself does nothing in this test
	a := w.member(Config{homing: times})
	run(t, a)
	server := w.manager.ID()
	eventually(t, "at home", func() bool { h, _ := a.Home(); return h.At == server.String() })
	for _, c := range w.manager.gate.ConnsToPeer(a.ID()) {
		c.Close()
	}
	eventually(t, "the loss", func() bool { return len(a.gate.ConnsToPeer(server)) == 0 })
	asks := map[string]func() error{
		"a call":    func() error { _, err := a.Call(t.Context(), server, echo, []byte("x"), 100); return err },
		"a connect": func() error { return a.Connect(t.Context(), server, w.manager.Addrs()...) },
		"the DHT":   func() error { return a.Host().Connect(t.Context(), peer.AddrInfo{ID: server}) },
	}
	for range 2 { // before the way home has noticed, and after
		for what, ask := range asks {
			if err := ask(); !errors.Is(err, errAway) {
				t.Errorf("%s: %v, want %v", what, err, errAway)
			}
		}
		eventually(t, "away", func() bool { h, _ := a.Home(); return h.At == "" })
	}
	if _, err := a.Call(t.Context(), server, echo, nil, 100); !errors.Is(err, ErrUnreachable) {
		t.Errorf("%v, want %v, by which callers wait and ask again", err, ErrUnreachable)
	}
	if n := len(w.manager.gate.ConnsToPeer(a.ID())); n != 0 {
		t.Errorf("the server has %d connections of a peer whose way home waits", n)
	}
	if err := a.home.dial(t.Context(), server); err != nil {
		t.Fatal(err)
	}
	if err := asks["a call"](); err != nil {
		t.Errorf("after the return: %v", err)
	}
}
