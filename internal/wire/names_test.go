package wire

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// TestNames: the name in a member's address is asked for by the resolver that the node was given, and by no other.
func TestNames(t *testing.T) {
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { server.Close(); <-done })
	go func() {
		defer close(done)
		b := make([]byte, 4096)
		for {
			n, from, err := server.ReadFrom(b)
			if err != nil {
				return
			}
			var q dnsmessage.Message
			if err := q.Unpack(b[:n]); err != nil || len(q.Questions) != 1 {
				t.Errorf("question: %v", err)
				return
			}
			q.Response, q.Additionals = true, nil
			if q.Questions[0].Type == dnsmessage.TypeA {
				q.Answers = []dnsmessage.Resource{{Header: dnsmessage.ResourceHeader{Name: q.Questions[0].Name, Class: dnsmessage.ClassINET, TTL: 60},
					Body: &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}}}}
			}
			if out, err := q.Pack(); err != nil {
				t.Error(err)
			} else if _, err := server.WriteTo(out, from); err != nil {
				return
			}
		}
	}()
	var asked atomic.Int64
	names := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		asked.Add(1)
		return (&net.Dialer{}).DialContext(ctx, "udp", server.LocalAddr().String())
	}}
	w := newNet(t, openPolicy)
	a, b := w.member(Config{Names: names}), w.member(Config{})
	addr := strings.Replace(b.Addrs()[0], "/ip4/127.0.0.1/", "/dns4/member.shoal.test/", 1)
	if !strings.Contains(addr, "dns4") {
		t.Fatalf("address %s", addr)
	}
	if err := a.Connect(t.Context(), b.ID(), addr); err != nil || asked.Load() == 0 {
		t.Errorf("%v; asked %d times", err, asked.Load())
	}
}
