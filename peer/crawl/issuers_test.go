package crawl

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http/httptest"
	"testing"
	"time"

	"shoal/channel"
)

// issued is a certificate with its key.
type issued struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// issue makes a certificate, by itself if by is nil. Host is the name of a host; "": it is an authority.
func issue(t *testing.T, by *issued, name, host string, until time.Time) *issued {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<60))
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: serial, Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: until, BasicConstraintsValid: true, IsCA: host == "", KeyUsage: x509.KeyUsageCertSign}
	if host != "" {
		c.DNSNames, c.KeyUsage, c.ExtKeyUsage = []string{host}, x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	}
	self := &issued{c, key}
	if by == nil {
		by = self
	}
	der, err := x509.CreateCertificate(rand.Reader, c, by.cert, &key.PublicKey, by.key)
	if err != nil {
		t.Fatal(err)
	}
	if self.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return self
}

// sends crawls a host that sends some certificates, the first its own.
func sends(t *testing.T, known *Issuers, root *issued, host string, chain ...*issued) channel.Report {
	t.Helper()
	srv := httptest.NewUnstartedServer(tree(2, 1))
	own := tls.Certificate{PrivateKey: chain[0].key}
	for _, c := range chain {
		own.Certificate = append(own.Certificate, c.cert.Raw)
	}
	srv.TLS = &tls.Config{Certificates: []tls.Certificate{own}}
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.StartTLS()
	defer srv.Close()
	cfg, _ := taskOf(t, "https://"+host, func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", srv.Listener.Addr().String())
	})
	cfg.Roots, cfg.Issuers = x509.NewCertPool(), known
	cfg.Roots.AddCert(root.cert)
	return run(t, cfg)
}

// TestIncompleteChains: a host that leaves out its issuer's certificate is reached if another host has sent it, and checked as any other. What no root vouches for is
// not remembered.
func TestIncompleteChains(t *testing.T) {
	later := time.Now().Add(48 * time.Hour)
	root, other := issue(t, nil, "root", "", later), issue(t, nil, "other root", "", later)
	first := issue(t, root, "first", "", later)
	second := issue(t, first, "second", "", later)
	short, long := issue(t, first, "", "short.test", later), issue(t, second, "", "long.test", later)
	foreign := issue(t, other, "foreign", "", later)
	past := issue(t, first, "", "past.test", time.Now().Add(-time.Hour))
	old := issue(t, root, "old", "", time.Now().Add(-time.Hour))
	known := new(Issuers)
	for n, c := range []struct {
		known *Issuers
		root  *issued
		host  string
		chain []*issued
		kind  string // of error; "": it is crawled
	}{
		{known, root, "short.test", []*issued{short}, "tls-unknown-authority"},
		{known, root, "foreign.test", []*issued{issue(t, foreign, "", "foreign.test", later), foreign}, "tls-unknown-authority"},
		{known, root, "wrong.test", []*issued{long, second, first}, "tls-wrong-name"},
		{known, root, "long.test", []*issued{long}, "tls-unknown-authority"},
		{known, root, "long.test", []*issued{long, second, first}, ""},
		{known, root, "short.test", []*issued{short}, ""},
		{known, root, "long.test", []*issued{long}, ""},
		{known, root, "long.test", []*issued{long, second}, ""},
		{known, root, "wrong.test", []*issued{short}, "tls-wrong-name"},
		{known, root, "past.test", []*issued{past}, "tls-expired"},
		{known, root, "self.test", []*issued{issue(t, nil, "", "self.test", later)}, "tls-self-signed"},
		{known, other, "short.test", []*issued{short}, "tls-unknown-authority"},
		{known, root, "old.test", []*issued{issue(t, old, "", "old.test", later), old}, "tls-expired"},
		{known, other, "foreign.test", []*issued{issue(t, foreign, "", "foreign.test", later), foreign}, ""},
		{known, root, "foreign.test", []*issued{issue(t, foreign, "", "foreign.test", later)}, "tls-unknown-authority"},
		{nil, root, "short.test", []*issued{short}, "tls-unknown-authority"},
		{nil, root, "short.test", []*issued{short, first}, ""},
	} {
		r := sends(t, c.known, c.root, c.host, c.chain...)
		if c.kind == "" && (r.Outcome != channel.Updated || r.Pages != 2) || c.kind != "" && (r.Outcome != channel.Failed || r.Errors[c.kind] != 1) {
			t.Errorf("%d, %s: %d pages, %v, want %q: %s", n, c.host, r.Pages, r.Errors, c.kind, r.Reason)
		}
	}
	if len(known.all) != 3 {
		t.Errorf("%d certificates remembered", len(known.all))
	}
}

// TestIssuersAreBounded: those that were of use last stay.
func TestIssuersAreBounded(t *testing.T) {
	cert := func(n int) *x509.Certificate {
		return &x509.Certificate{Raw: fmt.Append(nil, "certificate ", n), RawSubject: []byte("same"), RawIssuer: []byte("same")}
	}
	var known Issuers
	for n := range 2 * maxIssuers {
		known.remember([][]*x509.Certificate{{cert(-1), cert(n), cert(0), cert(-2)}, {cert(-1)}})
	}
	if len(known.all) != maxIssuers || !known.all[maxIssuers-1].Equal(cert(0)) || !known.all[0].Equal(cert(maxIssuers+1)) {
		t.Errorf("%d certificates from %s", len(known.all), known.all[0].Raw)
	}
	if got := known.lacking([]*x509.Certificate{cert(1)}); len(got) != maxLacking {
		t.Errorf("%d certificates for a chain", len(got))
	}
}
