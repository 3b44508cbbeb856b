package wire

import (
	"sync/atomic"
	"testing"

	"github.com/libp2p/go-libp2p/core/network"
	ma "github.com/multiformats/go-multiaddr"
)

// TestBarredWhileRunning: what was connected by a way that is barred from now on is connected by another one, from either side.
func TestBarredWhileRunning(t *testing.T) {
	var bar atomic.Bool
	w := newNet(t, openPolicy)
	a := w.member(Config{QUIC: true, Bar: func(a ma.Multiaddr) bool { return bar.Load() && isQUIC(a) }})
	b := w.member(Config{QUIC: true})
	serveEcho(a)
	serveEcho(b)
	ways := func(n, to *Node) (quic, tcp int) {
		for _, c := range n.gate.ConnsToPeer(to.ID()) {
			if isQUIC(c.RemoteMultiaddr()) {
				quic++
			} else {
				tcp++
			}
		}
		return quic, tcp
	}
	ctx := network.WithForceDirectDial(t.Context(), "test")
	if err := a.Connect(ctx, b.ID(), onlyQUIC(b.Addrs())...); err != nil { // of both ways a busy machine may take the other one
		t.Fatal(err)
	}
	if quic, _ := ways(a, b); quic == 0 {
		t.Fatal("the peers are not connected by QUIC, which the test begins with")
	}
	bar.Store(true)
	a.Redial()
	eventually(t, "all are closed", func() bool { q, c := ways(a, b); return q+c == 0 })
	if err := a.Connect(ctx, b.ID(), b.Addrs()...); err != nil {
		t.Fatal(err)
	}
	if quic, tcp := ways(a, b); quic != 0 || tcp == 0 {
		t.Errorf("%d connections by QUIC, %d by TCP", quic, tcp)
	}
	a.Redial()
	eventually(t, "the other side has noticed", func() bool { q, c := ways(b, a); return q+c == 0 })
	if err := b.Connect(ctx, a.ID(), onlyQUIC(a.Addrs())...); err == nil {
		if _, err := b.Call(ctx, a.ID(), echo, []byte("x"), 10); err == nil {
			if quic, _ := ways(a, b); quic > 0 {
				t.Error("the other side came by QUIC")
			}
		}
	}
	eventually(t, "nothing of it stays", func() bool { q, _ := ways(a, b); return q == 0 })
}

func onlyQUIC(in []string) (out []string) {
	for _, s := range in {
		if a, err := ma.NewMultiaddr(s); err == nil && isQUIC(a) {
			out = append(out, s)
		}
	}
	return out
}
