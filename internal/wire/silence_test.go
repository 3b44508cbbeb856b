package wire

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// deaf is a connection on which nothing comes any more while hung is set; nothing is lost of it.
type deaf struct {
	net.Conn
	hung *atomic.Pointer[chan struct{}]
}

func (c deaf) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if wait := c.hung.Load(); wait != nil {
		<-*wait
	}
	return n, err
}

// TestSilentServer: a server that is connected and answers nothing is told of when the volunteer asks, long before its connection ends; and no more
// once it answers.
func TestSilentServer(t *testing.T) {
	w := newNet(t, openPolicy)
	var hung atomic.Pointer[chan struct{}]
	a := w.member(Config{homing: short, Wrap: func(c net.Conn) net.Conn { return deaf{c, &hung} }})
	a.home.quiet = 0
	run(t, a)
	eventually(t, "at home", func() bool { h, _ := a.Home(); return h.At != "" })
	eventually(t, "an answer", func() bool { return a.Silent(t.Context()).IsZero() })
	wait := make(chan struct{})
	hung.Store(&wait)
	goOn := sync.OnceFunc(func() { hung.Store(nil); close(wait) })
	t.Cleanup(goOn) // before the nodes close
	eventually(t, "silence", func() bool { since := a.Silent(t.Context()); return !since.IsZero() })
	goOn()
	eventually(t, "an answer again", func() bool { h, _ := a.Home(); return h.At != "" && a.Silent(t.Context()).IsZero() })
	a.home.quiet = time.Hour
	if since := a.Silent(t.Context()); !since.IsZero() {
		t.Errorf("silent since %v, and was heard just now", since)
	}
}
