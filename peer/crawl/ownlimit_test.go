package crawl

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"

	"shoal/channel"
	"shoal/peer/limit"
)

// TestOwnLimitCutsNoPage fetches a large page by a line whose own limit makes that take longer than a host may take to answer: the page is whole, over HTTP/1.1 and HTTP/2. It was cut at
// another byte each time, and so was another page each time.
func TestOwnLimitCutsNoPage(t *testing.T) {
	host := httptest.NewTLSServer(http.NotFoundHandler())
	certificate, trusted := host.TLS.Certificates[0], host.Certificate()
	host.Close()
	text := bytes.Repeat([]byte("<p>some words "), 70_000) // 950 KiB
	for name, protocols := range map[string][]string{"HTTP/1.1": {"http/1.1"}, "HTTP/2": {"h2"}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newPipes()
				srv := &http.Server{TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: protocols}, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.URL.Path != "/" {
						http.NotFound(w, r)
						return
					}
					w.Header().Set("Content-Type", "text/html")
					_, _ = w.Write(text)
				})}
				go func() { _ = srv.ServeTLS(l, "", "") }()
				m := limit.NewMeter(nil)
				m.SetRates(16, 0) // KiB a second: a minute
				cfg, s := taskOf(t, "https://example.com", func(ctx context.Context, network, addr string) (net.Conn, error) {
					c, err := l.dial(ctx, network, addr)
					if err != nil {
						return nil, err
					}
					return m.Wrap(c), nil
				})
				cfg.Roots = x509.NewCertPool()
				cfg.Roots.AddCert(trusted)
				cfg.Unpaced = true
				r, err := Run(t.Context(), cfg)
				if err != nil || r.Outcome != channel.Updated || r.Pages != 1 || len(r.Errors) > 0 {
					t.Errorf("%v: %+v", err, r)
				}
				for _, p := range s.pages() {
					if p.Truncated || !bytes.Equal(p.Body, text) {
						t.Errorf("%d of %d bytes came", len(p.Body), len(text))
					}
				}
				srv.Close()
				synctest.Wait()
			})
		})
	}
}
