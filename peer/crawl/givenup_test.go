package crawl

import (
	"context"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
)

// lingering counts connections that were told to forget what is not sent yet.
type lingering struct {
	net.Conn
	forgot *atomic.Int32
}

func (l lingering) SetLinger(int) error {
	l.forgot.Add(1)
	return nil
}

// TestGivenUpRequestIsForgotten: a request that gets no answer must not be sent by the kernel later. Answers that come, in part or as a whole, change nothing about how a
// connection ends.
func TestGivenUpRequestIsForgotten(t *testing.T) {
	const page = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
	for name, c := range map[string]struct {
		answer string
		want   bool
	}{
		"an answer":              {page + "Content-Length: 2\r\n\r\nhi", false},
		"the connection's last":  {page + "Connection: close\r\nContent-Length: 2\r\n\r\nhi", false},
		"one that breaks off":    {page + "Connection: close\r\nContent-Length: 900\r\n\r\nhi", false},
		"no header's end":        {"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Ty", true},
		"what is no answer ever": {"220 mail.test ESMTP Connection: close\r\n", true},
	} {
		cfg, _ := rawSite(t, map[string]string{"/": c.answer})
		var forgot atomic.Int32
		dial := cfg.Dial
		cfg.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := dial(ctx, network, addr)
			return lingering{c, &forgot}, err
		}
		run(t, cfg)
		if got := forgot.Load() > 0; got != c.want {
			t.Errorf("%s: what is not sent was forgotten: %v, want %v", name, got, c.want)
		}
	}
}

// TestStoppedRequestIsForgotten: nor must one whose crawl was told to end.
func TestStoppedRequestIsForgotten(t *testing.T) {
	asked, over := make(chan struct{}), make(chan struct{})
	cfg, _ := task(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		close(asked)
		<-over
	}))
	var forgot atomic.Int32
	dial := cfg.Dial
	cfg.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		return lingering{c, &forgot}, err
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-asked
		cancel()
	}()
	if _, err := Run(ctx, cfg); err == nil {
		t.Error("a crawl that was told to end has not failed")
	}
	close(over)
	if forgot.Load() == 0 {
		t.Error("what is not sent of its request is sent later")
	}
}
