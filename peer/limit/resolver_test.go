package limit

import (
	"context"
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// nameServer answers every question for an IPv4 address over UDP.
func nameServer(t *testing.T) (addr string, bytes *atomic.Int64) {
	t.Helper()
	p, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	bytes = &atomic.Int64{}
	done := make(chan struct{})
	t.Cleanup(func() { p.Close(); <-done })
	go func() {
		defer close(done)
		b := make([]byte, 4096)
		for {
			n, from, err := p.ReadFrom(b)
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
					Body: &dnsmessage.AResource{A: [4]byte{203, 0, 113, 7}}}}
			}
			out, err := q.Pack()
			if err != nil {
				t.Error(err)
				return
			}
			bytes.Add(int64(n + len(out) + 2*ipUDP))
			if _, err := p.WriteTo(out, from); err != nil {
				return
			}
		}
	}()
	return p.LocalAddr().String(), bytes
}

// TestResolver checks that questions to a name server use prepared and counted sockets.
func TestResolver(t *testing.T) {
	at, bytes := nameServer(t)
	m := NewMeter(nil)
	var prepared atomic.Int64
	r := m.Resolver(func(network, _ string, _ syscall.RawConn) error {
		if network == "udp4" {
			prepared.Add(1)
		}
		return nil
	})
	r.PreferGo = true
	dial := r.Dial
	r.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) { return dial(ctx, network, at) }
	got, err := r.LookupNetIP(t.Context(), "ip4", "host.example.")
	if err != nil || len(got) != 1 || got[0].Unmap() != netip.MustParseAddr("203.0.113.7") {
		t.Fatalf("%v, %v", got, err)
	}
	received, sent := m.Totals()
	if received+sent != bytes.Load() || received == 0 || sent == 0 || prepared.Load() == 0 {
		t.Errorf("%d bytes received, %d sent, %d in all by the server's books; %d sockets prepared", received, sent, bytes.Load(), prepared.Load())
	}
}
