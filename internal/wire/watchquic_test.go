package wire

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"net"
	"sync/atomic"
	"testing"
	"time"

	quicgo "github.com/quic-go/quic-go"
)

// deafConn hears nothing while it is deaf.
type deafConn struct {
	net.PacketConn
	deaf atomic.Bool
}

func (d *deafConn) ReadFrom(b []byte) (int, net.Addr, error) {
	for {
		n, from, err := d.PacketConn.ReadFrom(b)
		if err != nil || !d.deaf.Load() {
			return n, from, err
		}
	}
}

// TestQUICThatFallsSilent has an idle connection stay while the other side acknowledges questions, and end when nothing comes any more.
func TestQUICThatFallsSilent(t *testing.T) {
	t.Parallel()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	cert := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, public, private)
	if err != nil {
		t.Fatal(err)
	}
	cfg := &quicgo.Config{EnableDatagrams: true, MaxIdleTimeout: time.Hour}
	server, err := quicgo.ListenAddr("127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: private}}, NextProtos: []string{"test"}}, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	ear := &deafConn{PacketConn: udp}
	c, err := quicgo.Dial(t.Context(), ear, server.Addr(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"test"}}, cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	defer end()
	done := make(chan struct{})
	go func() { watchQUIC(ctx, c, 500*time.Millisecond); close(done) }()
	for first := c.ConnectionStats().PacketsReceived; c.ConnectionStats().PacketsReceived < first+3; { // answers to questions: nothing else is sent
		select {
		case <-c.Context().Done():
			t.Fatalf("it was given up while the other side answered: %v", context.Cause(c.Context()))
		case <-time.After(10 * time.Millisecond):
		}
	}
	ear.deaf.Store(true)
	<-done
	var given *quicgo.ApplicationError
	if !errors.As(context.Cause(c.Context()), &given) || given.Remote {
		t.Errorf("it ended by %v", context.Cause(c.Context()))
	}
}
